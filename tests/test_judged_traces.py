"""Traces of others in `dumbbell evaluate trace`: what a judge cannot tell, forms of files, states, any input."""

import contextlib
import gzip
import importlib.util
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Command, examples
from dumbbell import programs
from dumbbell.errors import InputError
from dumbbell.evaluate.bbr import judge, qlog_trace, states
from dumbbell.evaluate.bbr.cases import CASES, TIMES, VALUES
from dumbbell.evaluate.bbr.lab import CaseLab, CaseRun, NotApplicable, PathPoint, Setup
from dumbbell.evaluate.bbr.trace import NUMBERS, STATES, Trace
from dumbbell.evaluate.grade import CANNOT_TELL, FAILS, NOT_APPLICABLE, PASSES
from dumbbell.qlog import fields

DOCS = Path(__file__).parent.parent / "docs"
# together they have a point at which each case applies
POINTS = (PathPoint(10_000_000, 0.04), PathPoint(64_000, 0.001), PathPoint(10_000_000, 0.1))
ALL = {"state", "ca_state", *NUMBERS}


@cache
def run_of(key: str) -> CaseRun:
    for point in POINTS:
        try:
            return CASES[key].prepare(CaseLab(point, {"name": "bbr-draft"}))
        except NotApplicable:
            continue
    raise AssertionError(f"{key} applies nowhere")


def without(run: CaseRun, *columns: str) -> CaseRun:
    return CaseRun(run.trace.select_columns(ALL - set(columns)), run.setup)


# what a judge cannot tell


@pytest.mark.parametrize("key", CASES)
def test_a_column_that_is_missing_is_never_a_failure(key: str) -> None:
    case, run = CASES[key], run_of(key)
    assert case.judge_run(run).result == PASSES
    assert case.shown(run.trace, run.setup) == ""
    needed = set()
    for column in ALL - {"time_s"}:
        found = case.judge_run(without(run, column))
        assert found.result in (PASSES, CANNOT_TELL), (column, found)
        assert not any("nan" in check.found for check in found.checks), found
        if found.result == CANNOT_TELL:
            needed.add(column)
            assert fields.name(column) in found.log and fields.name(column) in found.reason
        else:
            assert not found.log
    # what the case declares is what it needs, but for what only a failure would need
    assert needed <= {"state", *case.needs.columns}
    assert case.judge_run(CaseRun(run.trace.select_columns({"state", *case.needs.columns}), run.setup)).result == PASSES
    nothing = case.judge_run(CaseRun(run.trace.select_columns({"state"}), run.setup))
    assert nothing.result == (CANNOT_TELL if needed - {"state"} else PASSES)
    assert nothing.log == (tuple(map(fields.name, case.needs.columns)) if needed - {"state"} else ())


def test_times_and_values_of_a_case_are_those_that_its_judge_asks_for() -> None:
    class Asked(dict[str, float]):
        def __getitem__(self, name: str) -> float:
            asked.add(name)
            return super().__getitem__(name)

    for key, case in CASES.items():
        asked: set[str] = set()
        run = run_of(key)
        setup = Setup(run.setup.point, Asked(run.setup.times), Asked(run.setup.values))
        case.judge_run(CaseRun(run.trace, setup))
        case.shown(run.trace, setup)
        optional = {"decrease"}  # in words only
        # of case 20 the time says only that this was done
        made = {"path gets longer"} if key == "startup-probe-rtt" else set()
        assert (asked - optional) | made == {*case.needs.times, *case.needs.values}, key
        assert {*run.setup.times} <= {*case.needs.times, *case.needs.optional} <= {*TIMES, *VALUES}
        assert {*run.setup.values} <= {*case.needs.values, *case.needs.optional} <= {*TIMES, *VALUES}


def test_a_failure_is_one_whatever_else_is_missing() -> None:
    case, run = CASES["startup-plateau"], run_of("startup-plateau")
    slow = CaseRun(run.trace, Setup(PathPoint(20_000_000, 0.04)))
    assert case.judge_run(slow).result == FAILS
    assert case.judge_run(without(slow, "round")).result == FAILS
    # of a flag that is not logged nothing is said but that it was not compared
    found = case.judge_run(without(run, "full_bw_now", "full_bw_reached"))
    assert found.result == PASSES and "not compared: full_bw_now is set: needs bbr_full_bw_now" in found.reason


# files


def write(tmp_path: Path, key: str = "drain-inflight") -> Path:
    file = tmp_path / "one.sqlog"
    qlog_trace.write(file, run_of(key), "a title", "bbr-draft", key)
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line.strip("\x1e")) for line in file.read_text().splitlines() if line.strip("\x1e")]


def events(file: Path) -> list[dict[str, Any]]:
    return [line for line in lines(file) if "name" in line]


PATH = ["--rate", "10Mbit", "--rtt", "40ms"]


def describe_trace(**others: Any) -> judge.TraceDescription:
    return judge.TraceDescription(10_000_000, 0.04, **others)


def contained(file: Path, change: Callable[[dict[str, Any]], Any] = lambda one: one, **common: Any) -> str:
    trace = {"common_fields": {"ODCID": "00"}, "events": [change(one) for one in events(file)]} | common
    return json.dumps({"qlog_version": "0.3", "traces": [trace]})


def listed(one: dict[str, Any]) -> list[Any]:
    """An event as picoquic writes it: a list, times in microseconds, `cwnd`."""
    data = {"cwnd" if name == "congestion_window" else name: value for name, value in one["data"].items()}
    for name in ("min_rtt", "smoothed_rtt"):
        if data.get(name) is not None:
            data[name] *= 1000
    return [one["time"] * 1000, "recovery", one["name"].rpartition(":")[2], data]


FORMS: dict[str, Callable[[Path], str | bytes]] = {
    "as it is": lambda file: file.read_text(),
    "lines": lambda file: file.read_text().replace("\x1e", ""),
    "gzip": lambda file: gzip.compress(file.read_bytes()),
    "contained": contained,
    "contained, indented": lambda file: json.dumps(json.loads(contained(file)), indent=1),
    "contained, relative_time": lambda file: contained(
        file, lambda one: {"relative_time": one["time"]} | {k: v for k, v in one.items() if k != "time"}
    ),
    "contained, of the calendar": lambda file: contained(file, lambda one: one | {"time": one["time"] + 1.7e12}),
    "lists, in microseconds": lambda file: contained(
        file,
        listed,
        configuration={"time_units": "us"},
        event_fields=["relative_time", "CATEGORY", "EVENT", "DATA"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_qlog_is_read_alike(tmp_path: Path, form: str) -> None:
    file = write(tmp_path)
    expected = qlog_trace.read(file).trace
    content = FORMS[form](file)
    other = tmp_path / "other.qlog"
    other.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = qlog_trace.read(other)
    assert found.notes == []
    assert found.trace.state.tolist() == expected.state.tolist()
    assert found.trace.time == pytest.approx(expected.time - (expected.time[0] if "calendar" in form else 0), abs=1e-6)
    for column in ("cwnd", "in_flight", "min_rtt_ms", "max_bw_mbit", "round"):
        assert found.trace[column] == pytest.approx(expected[column], nan_ok=True)
    assert next(iter(judge.judge_file(other, describe_trace()).verdicts.values())).result == PASSES


@pytest.mark.parametrize("form", ["as it is", "lines", "gzip", "contained", "contained, indented"])
def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path: Path, form: str) -> None:
    file = write(tmp_path)
    whole = FORMS[form](file)
    other = tmp_path / "cut.qlog"
    content = whole if isinstance(whole, bytes) else whole.encode()
    other.write_bytes(content[: round(0.8 * len(content))])
    found = qlog_trace.read(other)
    assert "cut off" in found.notes[0] and "read up to there" in found.notes[0]
    expected = qlog_trace.read(file).trace
    assert 0.5 * len(expected) < len(found.trace) < len(expected)
    assert found.trace.state.tolist() == expected.state[: len(found.trace)].tolist()


def test_a_case_is_not_judged_by_a_file_that_is_cut_off_before_it_could_happen(tmp_path: Path) -> None:
    file = write(tmp_path, "startup-plateau")
    assert next(iter(judge.judge_file(file, describe_trace()).verdicts.values())).result == PASSES
    file.write_bytes(file.read_bytes()[:3000])
    found = judge.judge_file(file, describe_trace())
    assert {one.result for one in found.verdicts.values()} == {NOT_APPLICABLE}
    assert found.verdicts["startup-plateau"].reason == "it ends, or the path changes, in startup"


def test_the_note_on_a_cut_off_file_is_in_both_reports(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text()[:-30])
    said = command("evaluate", "trace", file)
    assert said.returncode == 0 and "cut off in line" in said.stdout
    assert "cut off in line" in json.loads(command("evaluate", "trace", file, "--format", "json").stdout)["notes"][0]


def test_bounds_that_are_not_set_and_volumes_in_bytes(tmp_path: Path) -> None:
    file = tmp_path / "x.qlog"
    data = {"bbr_inflight_longterm": 2**64 - 1, "bbr_inflight_bytes": 14480, "lost_bytes": 2896, "cwnd": 1448 * 7}
    first = {"time": 0, "name": "recovery:metrics_updated", "data": {"bytes_in_flight": 0}}
    second = {"time": 1, "name": "recovery:metrics_updated", "data": data}
    file.write_text("\n".join(json.dumps(one) for one in (first, second)))
    found = qlog_trace.read(file).trace
    assert math.isnan(found["inflight_longterm"][1]) and not found.is_without("inflight_longterm")
    assert (found["inflight_bdp"][1], found["cwnd"][1]) == (10, 7)
    assert found["lost"].tolist() == [0, 2]  # nothing is lost before the first event that says so
    assert found.is_without("max_bw_mbit") and found.is_without("state")


# states


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Startup", "startup"),
        ("BBR_DRAIN", "drain"),
        ("ProbeBw_Up", "probe_up"),
        ("ProbeBwCruise", "probe_cruise"),
        ("BBR_BW_PROBE_REFILL", "probe_refill"),
        ("picoquic_bbr_alg_probe_bw_down", "probe_down"),
        ("NGTCP2_BBR_STATE_PROBE_RTT", "probe_rtt"),
        ("probe rtt", "probe_rtt"),
        ("slow_start", None),
        ("", None),
    ],
)
def test_states_have_other_names(theirs: str, ours: str | None) -> None:
    assert states.find_state(theirs, {}) == ours


def state_file(tmp_path: Path, *data: dict[str, Any]) -> Path:
    file = tmp_path / "states.sqlog"
    records = [
        {"time": 100 * number, "name": "recovery:congestion_state_updated", "data": one}
        for number, one in enumerate(data)
    ]
    file.write_text("\n".join(json.dumps(one) for one in records))
    return file


def test_the_phase_of_probe_bw_is_its_own_field_or_its_gain(tmp_path: Path) -> None:
    file = state_file(
        tmp_path, {"new": "Drain"}, {"new": "ProbeBW", "phase": "UP"}, {"new": "ProbeBW", "phase": "down"}
    )
    assert [one.state for one in qlog_trace.read(file).trace.phases] == ["drain", "probe_up", "probe_down"]
    file = state_file(
        tmp_path, {"new": "probe_bw", "bbr_pacing_gain": 1.25}, {"bbr_pacing_gain": 0.75}, {"bbr_pacing_gain": 1}
    )
    assert [one.state for one in qlog_trace.read(file).trace.phases] == ["probe_up", "probe_down", "probe_cruise"]


def test_states_of_which_nothing_is_known_are_named(tmp_path: Path, command: Command) -> None:
    file = state_file(tmp_path, {"new": "Startup"}, {"new": "Ramp"}, {"new": "recovery"}, {"new": "ProbeBW"})
    said = command("evaluate", "trace", file, *PATH)
    assert said.returncode == 2
    for word in ('"Ramp"', '"recovery"', '"probe_bw"', "probe_refill", '--state "Ramp"=STATE'):
        assert word in said.stderr
    mapping = {"ramp": "drain", "Recovery": "-", "probe_bw": "probe_cruise"}
    found = qlog_trace.read(file, mapping).trace
    assert [one.state for one in found.phases] == ["startup", "drain", "probe_cruise"]
    options = [word for pair in mapping.items() for word in ("--state", "=".join(pair))]
    assert command("evaluate", "trace", file, *PATH, *options).returncode == 3


# which cases a trace shows


@pytest.mark.parametrize("key", CASES)
def test_a_file_of_our_own_names_its_case_and_shows_no_case_that_fails(tmp_path: Path, key: str) -> None:
    found = judge.judge_file(write(tmp_path, key), judge.TraceDescription()).verdicts
    assert found[key].result == PASSES
    assert {one.result for one in found.values()} <= {PASSES, NOT_APPLICABLE}, found
    assert {*found} == {*CASES}


def test_a_bulk_transfer_shows_several_cases_and_says_what_others_need(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, "down-inflight")
    said = command("evaluate", "trace", file, "--format", "json")
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    found = {one["answers"][0]: one for one in report["criteria"]}
    assert [number for number, one in found.items() if one["grade"] == PASSES] == ["1", "3", "5", "8"]
    assert found["15"]["grade"] == NOT_APPLICABLE
    assert found["15"]["cells"][0]["reason"] == 'needs --at "rate rises"=TIME'
    narrowed = command("evaluate", "trace", file, "--only", "3")
    assert narrowed.returncode == 0 and "1 criterion, by their worst cells: 1 passes." in narrowed.stdout
    other = command("evaluate", "trace", file, "--only", "15")
    assert other.returncode == 2 and '--at "rate rises"=TIME' in other.stderr


def test_without_the_fields_the_report_lists_them_and_the_status_is_3(tmp_path: Path, command: Command) -> None:
    file, few = write(tmp_path), tmp_path / "few.qlog"
    names = {"congestion_window", "bytes_in_flight", "smoothed_rtt", "min_rtt", "new"}
    few.write_text(contained(file, lambda one: one | {"data": {k: v for k, v in one["data"].items() if k in names}}))
    said = command("evaluate", "trace", few, *PATH)
    assert said.returncode == 3
    assert "- 1 startup-plateau: cannot tell" in said.stdout
    assert "  log bbr_max_bw, bbr_round_count" in said.stdout and "nan" not in said.stdout
    report = json.loads(command("evaluate", "trace", few, *PATH, "--format", "json").stdout)
    assert report["criteria"][0]["grade"] == CANNOT_TELL
    first = report["criteria"][0]["cells"][0]
    assert first["log"] == ["bbr_max_bw", "bbr_round_count"]
    assert [one["held"] for one in first["checks"] if one["what"].startswith("max_bw")] == [None]


def test_a_trace_is_drawn(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path)
    said = command("evaluate", "trace", file, "--figures", tmp_path / "drawn")
    assert said.returncode == 0 and (tmp_path / "drawn" / "one-trace.png").stat().st_size > 10_000
    drawn = judge.judge_file(file, judge.TraceDescription())
    from dumbbell.evaluate.bbr import figure

    names = [label for label, _ in figure.draw_file(drawn.run, "one").entries]
    assert {"startup", "drain", "max_bw", "cwnd", "inflight", "smoothed RTT"} <= set(names)


# the page


def script() -> Any:
    return programs.load(DOCS.parent / "studies" / "bbr_suite" / "cases_page.py")


def test_the_tables_of_the_page_are_those_of_the_cases() -> None:
    page = (DOCS / "check-bbr.md").read_text(encoding="utf-8")
    assert script().make_page(page) == page, "python -m studies.bbr_suite.cases_page makes them"
    assert all(f'--at "{name}=TIME"' in page for name in TIMES) and all(f'"{name}=NUMBER"' in page for name in VALUES)


def test_the_sample_of_the_page_passes_the_cases_that_the_page_names(command: Command) -> None:
    sample = DOCS / "check-bbr-sample.sqlog"
    assert sample.stat().st_size < 20_000
    said = command("evaluate", "trace", sample, "--rate", "1Mbit", "--rtt", "40ms", "--format", "json")
    assert said.returncode == 0, said.stdout
    found = {one["answers"][0]: one["grade"] for one in json.loads(said.stdout)["criteria"]}
    assert [number for number, grade in found.items() if grade == PASSES] == ["1", "3", "5", "8"]
    assert {*found.values()} == {PASSES, NOT_APPLICABLE}
    assert "cases 1, 3, 5 and 8" in (DOCS / "check-bbr.md").read_text(encoding="utf-8")


def is_written(folder: Path) -> bool:
    """Whether a log of a connection is there and whole: it is written when the connection has drained."""
    with contextlib.suppress(ValueError, StopIteration):
        return bool(json.loads(next(folder.glob("*.qlog")).read_text(encoding="utf-8")))
    return False


@pytest.mark.skipif(importlib.util.find_spec("aioquic") is None, reason="needs aioquic, of requirements-dev.txt")
def test_what_aioquic_writes_is_read_and_judged(tmp_path: Path, command: Command) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (tmp_path / "file").write_bytes(bytes(300_000))
    python = [sys.executable, str(Path(__file__).parent / "quic_file.py")]
    server = subprocess.Popen([*python, "serve", "file", port], cwd=tmp_path, env=os.environ | {"QLOGDIR": "."})
    try:
        subprocess.run([*python, "fetch", "127.0.0.1", port, "got"], cwd=tmp_path, check=True, timeout=60)
        deadline = time.monotonic() + 30
        while not is_written(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        server.kill()
        server.wait()
    (file,) = tmp_path.glob("*.qlog")
    trace = qlog_trace.read(file).trace
    assert trace.is_without("state") and trace.time[0] < 1.0 and trace["cwnd"][-1] > 10
    assert 0 < trace["min_rtt_ms"][-1] <= trace["srtt_ms"][-1] < 5000
    said = command("evaluate", "trace", file, *PATH)
    assert said.returncode == 3
    assert "- 1 startup-plateau: cannot tell\n  ? states: needs congestion_state_updated.new\n" in said.stdout


# any input


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(0, 40), st.booleans())
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mangled_file_gives_a_report_or_one_line(tmp_path: Path, seed: int, count: int, one_line: bool) -> None:
    random = np.random.default_rng(seed)
    file = write(tmp_path) if not (tmp_path / "one.sqlog").exists() else tmp_path / "one.sqlog"
    text = contained(file) if one_line else file.read_text()
    words = [
        "null",
        "1e999",
        "-1",
        '"x"',
        "[]",
        "{}",
        "true",
        "9" * 400,
        "\x1e",
        "\n",
        '"',
        "}",
        ",",
        "\ud7ff",
        '"\\ud800"',
    ]
    start = int(random.integers(0, max(len(text) - 2000, 1)))
    text = text[:2000] + text[start : start + 2000]
    for place in random.integers(0, len(text), count):
        end = place + int(random.integers(0, 12))
        text = text[:place] + words[random.integers(len(words))] + text[end:]
    other = tmp_path / "mangled.qlog"
    other.write_text(text)
    try:
        found = judge.judge_file(other, describe_trace())
    except InputError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert all("nan" not in one.reason for one in found.verdicts.values())


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=examples(200), deadline=None)
def test_any_trace_gets_a_verdict(seed: int) -> None:
    random = np.random.default_rng(seed)
    length = int(random.choice([1, 2, 3, 10, 60]))
    columns: dict[str, Any] = {"time_s": np.sort(random.random(length) * random.choice([0, 0.5, 5, 20]))}
    numbers = [math.nan, math.inf, 0.0, 1.0, 2.0, 4.0, 100.0, 1e9]
    for name in NUMBERS[1:]:
        if random.random() < 0.8:
            columns[name] = random.choice([*numbers[random.integers(2) :], *(random.random(4) * 10)], length)
    for name, words in (("state", (*STATES, "")), ("ca_state", ("open", "recovery", "loss"))):
        if random.random() < 0.9:
            columns[name] = np.repeat(random.choice(words, length), random.integers(1, 10))[:length]
    times = dict(zip(TIMES, random.random(len(TIMES)) * 20, strict=True))
    values = dict(zip(VALUES, random.choice([0.0, 1e-9, 0.5, 1e6, -1.0, 1e300], len(VALUES)), strict=True))
    point = [*POINTS, PathPoint(10_000_000_000, 0.001)][random.integers(4)]
    run = CaseRun(Trace(columns), Setup(point, times, values))
    for case in CASES.values():
        found = case.judge_run(run)
        assert "nan" not in found.reason
        with np.errstate(all="ignore"):
            case.shown(run.trace, run.setup)
