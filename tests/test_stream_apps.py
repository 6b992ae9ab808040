"""Applications of streams from experiment files: their columns, the verdict of what people feel, their descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

import dumbbell
from conftest import described
from dumbbell.errors import InputError
from dumbbell.experiment import parse
from dumbbell.report import verdict
from dumbbell.results import felt

RPM = {"name": "responsiveness", "interval": "500ms", "idle": "500ms", "most": 2, "averaged": 2, "limit": "4s"}
USERS = [
    {"kind": {"name": "request", "size": "20kB"}, "cc": "cubic", "base_rtt": "20ms"},
    {"kind": {"name": "onoff", "connections": 5, "idle": "200ms"}, "cc": "cubic", "base_rtt": "20ms"},
    {"kind": {"name": "backup", "rate": "1Mbit", "piece": "10kB"}, "cc": "cubic", "base_rtt": "20ms"},
    {"kind": {"name": "dash", "segment": "500ms"}, "cc": "cubic", "base_rtt": "20ms"},
    {"kind": RPM, "cc": "cubic", "base_rtt": "20ms"},
]
_OWN = {
    "request": [],
    "onoff": ["file_p50_s", "file_p95_s"],
    "backup": ["rate_mbit"],
    "dash": ["bitrate_mbit", "switches", "startup_s", "stalls", "stalled_share"],
    "responsiveness": ["rpm", "rpm_foreign", "rpm_loaded", "capacity_mbit", "idle_latency_ms", "latency_increase_ms"],
}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dumbbell.Results:
    table = described(
        duration="6s",
        seeds=[1, 2],
        flows=[{"cc": "cubic", "base_rtt": "20ms"}],
        reverse={"rate": "5Mbit", "aqm": "pfifo"},
        app=USERS,
        matrix={"bottleneck.aqm": [{"name": "pfifo", "limit": 200}, "fq_codel"]},
    )
    return dumbbell.run(table, output=tmp_path_factory.mktemp("homes") / "r.duckdb", progress=False)


def test_each_application_has_its_measures_and_those_of_others_are_missing(homes: dumbbell.Results) -> None:
    users = homes.apps
    assert set(users["name"]) == set(_OWN)
    for name, own in _OWN.items():
        mine = users.filter(name=name)
        for column in (one for measures in _OWN.values() for one in measures):
            values = mine[column].cast(float).fill_nan(None)
            assert values.is_null().all() != (column in own), (name, column, values)
    tests = users.filter(name="responsiveness")
    short = homes.where("bottleneck.aqm=fq_codel").apps.filter(name="responsiveness")
    long = tests.join(short, on="key", how="anti")
    # 200 packets at 10 Mbit/s are 240 ms
    assert set(short["bufferbloat_grade"]) <= {"A+", "A"} and set(long["bufferbloat_grade"]) <= {"C", "D"}, tests
    assert set(tests["rpm_confidence"]) <= {"low", "medium", "high"}
    assert set(users.filter(name="dash")["bufferbloat_grade"]) == {""}


def test_the_verdict_takes_what_users_of_applications_feel(homes: dumbbell.Results) -> None:
    (one,) = felt.compare_settings(homes._runs)
    labels = [column.label for column in one.columns]
    assert {"response, P95, ms", "files, P95, s", "video, stalled, %", "round trip under load, ms"} <= set(labels)
    ranked = verdict.rank_settings(one)
    assert ranked.order[0] == "fq_codel"
    found = one.compute_mean("fq_codel", "round trip under load, ms")
    rpm = homes.where("bottleneck.aqm=fq_codel").apps.filter(name="responsiveness")["rpm"]
    assert found == pytest.approx(sum(60_000 / value for value in rpm) / rpm.len())
    said = " ".join(verdict.describe_verdict(one, ranked))
    assert "a response takes" in said and "a round trip under load takes" in said


def test_columns_can_be_shown(homes: dumbbell.Results) -> None:
    # users of five applications, two queues
    assert homes.table("rpm", "bottleneck.aqm").frame.height == 10


@pytest.mark.slow
def test_a_report_has_what_users_of_applications_feel(homes: dumbbell.Results, tmp_path: Path) -> None:
    assert homes.report(tmp_path / "x.html").read_text(encoding="utf-8").count("round trip under load, ms") > 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ({"name": "onoff", "smallest": "60kB"}, "largest"),
        ({"name": "dash", "level": 6}, "level"),
        ({"name": "dash", "ladder": "uhd"}, "ladder"),
        ({"name": "dash", "buffer": "5s"}, "buffer"),
        ({"name": "responsiveness", "initial": 17}, "most"),
        ({"name": "backup", "rate": "10bit"}, "rate"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_key(kind: dict[str, object], text: str) -> None:
    table = described(app=[{"kind": kind, "cc": "cubic", "base_rtt": "20ms"}])
    with pytest.raises(InputError, match=text):
        parse(table, "test.toml").make_cell(0)
