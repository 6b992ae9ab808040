"""Calls, games and videos: their keys, what is measured of them, and what reports say of it."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest

import dumbbell
from conftest import described
from dumbbell import InputError, Results
from dumbbell.experiment.file import parse
from dumbbell.report import verdict
from dumbbell.report.findings import list_sides, rank_keys
from dumbbell.report.sources import ReportRuns, open_files
from dumbbell.results import felt

MEDIA = described(
    duration="12s",
    seeds=[1, 2, 3],
    bottleneck={"rate": "5Mbit", "aqm": {"name": "pfifo", "limit": 200}},
    reverse={"rate": "1Mbit", "aqm": "pfifo"},
    flows=[{"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "500ms"]}}],
    app=[
        {"kind": {"name": "call", "buffer": "adaptive"}, "base_rtt": "20ms"},
        {"kind": "game", "base_rtt": "20ms"},
        {"kind": {"name": "video", "source": "statistical", "control": "nada"}, "base_rtt": "20ms"},
    ],
    record={"from": "4s"},
    matrix={"bottleneck.aqm": [{"name": "pfifo", "limit": 200}, "fq_codel"]},
)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return dumbbell.run(MEDIA, output=tmp_path_factory.mktemp("media") / "r.duckdb", progress=False)


def test_table_apps_has_the_measures_of_each_application_and_no_others(media: Results) -> None:
    apps = media.apps
    calls, games, videos = (apps.filter(name=name) for name in ("call", "game", "video"))
    # 2 queues, 3 seeds, and two ways of calls and games
    assert (calls.height, games.height, videos.height) == (12, 12, 6)
    assert calls["mos"].is_between(1, 4.5).all() and games["mos"].fill_nan(None).is_null().all()
    assert videos["frame_delay_p95_ms"].gt(10).all() and calls["freezes"].is_null().all()
    assert set(videos["direction"]) == {"down"}
    # a FIFO of 200 frames at 5 Mbit/s holds 484 ms, and half a base RTT is 10 ms
    found = {}
    for name in ("pfifo", "fq_codel"):
        own = media.where(f"bottleneck.aqm={name}").apps.filter(name="call", direction="down")
        found[name] = (fmean(own["mos"]), fmean(own["mouth_to_ear_ms"]))
    assert found["fq_codel"][0] > 4.3 > 3.8 > found["pfifo"][0], found
    assert found["fq_codel"][1] < 60 < 250 < found["pfifo"][1], found


def test_reports_rank_queues_by_what_callers_and_viewers_notice(media: Results) -> None:
    (one,) = felt.compare_settings(media._runs)
    labels = [column.label for column in one.columns]
    assert labels[:3] == ["call down, delay P99, ms", "call up, delay P99, ms", "call, loss, %"]
    assert {"call down, MOS", "game down, delay P99, ms", "video, frame delay P95, ms", "video, frozen, s"} <= set(
        labels
    )
    for name in one.settings:
        mos = media.where(f"bottleneck.aqm={name.partition('(')[0]}").apps
        own = mos.filter(name="call", direction="down")
        assert one.compute_mean(name, "call down, MOS") == pytest.approx(fmean(own["mos"]))
    ranked = verdict.rank_settings(one)
    assert ranked.order[0] == "fq_codel"
    table = verdict._make_verdict(one, "")
    place = table.head.index("call down, MOS")
    assert table.best[0][place] and float(table.rows[0][place]) > float(table.rows[1][place])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            {"name": "call", "buffer": "adaptive", "playout": "60ms"},
            'playout: it has no effect without buffer = "fixed"',
        ),
        ({"name": "video", "cancel": "250ms"}, 'cancel: it has no effect without control = "nada"'),
        ({"name": "video", "rate": "2Mbit"}, 'rate: it has no effect without source = "statistical"'),
        ({"name": "video", "control": "gcc"}, "it must be none or nada"),
        ({"name": "video", "least": "2Mbit", "control": "nada"}, "at least least"),
    ],
)
def test_keys_without_effect_and_wrong_values_are_refused(kind: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        parse(described(app=[{"kind": kind}]), "file").make_cell(0)


def test_describe_lists_keys_with_their_sources(command: Any) -> None:
    text = command("describe", "video").stdout
    assert "RFC 8593" in text and "cancel" in text and "draft-huitema-ccwg-c4-test-02" in text
    assert "client_rate" in command("describe", "game").stdout


def test_findings_name_measures_of_applications(media: Results) -> None:
    sides = list_sides(ReportRuns(open_files([media._runs.path])))
    rows = [row for ranking in rank_keys(sides) for row in ranking.rows]
    assert "apps.mos" in {row["measure"] for row in rows}
