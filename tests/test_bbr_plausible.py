"""Traces whose times, RTTs or counts cannot be those of the path: one line each, and what may be wrong."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conftest import Command
from dumbbell.errors import InputError
from dumbbell.evaluate.bbr import grid, judge, plausible, qlog_trace
from dumbbell.evaluate.bbr.cases import CASES
from dumbbell.evaluate.bbr.lab import CaseLab, CaseRun, NotApplicable, PathPoint

POINTS = (
    PathPoint(10_000_000, 0.04),
    PathPoint(64_000, 0.001),
    PathPoint(100_000_000, 0.001),
    PathPoint(1_000_000, 1.0),
)


# a trace that does not count rounds
LESS = ("state", "delivered", "max_bw_mbit")


@cache
def run_of(key: str, control: str, point: PathPoint) -> CaseRun | None:
    try:
        return CASES[key].prepare(CaseLab(point, {"name": control}))
    except NotApplicable:
        return None


@pytest.mark.parametrize("control", grid.VERSIONS)
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_no_run_of_ours_is_refused(control: str, point: PathPoint) -> None:
    looked = 0
    for key, case in CASES.items():
        run = None if control in case.without else run_of(key, control, point)
        if run is not None:
            plausible.check(Path("t.sqlog"), run.trace, run.setup.point, 0)
            plausible.check(Path("t.sqlog"), run.trace.select_columns(LESS), run.setup.point, 0)
            looked += 1
    assert looked > 3


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A trace of BBR at 10 Mbit/s and 40 ms, as records of qlog."""
    path = tmp_path_factory.mktemp("trace") / "t.sqlog"
    run = run_of(next(iter(CASES)), "bbr-draft", POINTS[0])
    assert run is not None
    qlog_trace.write(path, run, "a trace", "bbr-draft", "startup")
    return [json.loads(line) for line in path.read_text().split("\x1e") if line.strip()]


def written(path: Path, records: list[dict[str, Any]], change: Callable[[dict[str, Any]], None]) -> Path:
    """Write records, each of them changed; the path is told by options, and no case is named."""
    found = json.loads(json.dumps(records))
    for name in ("case", "rate_bit", "rtt_s", "times_s", "values"):
        found[0]["trace"].pop(name, None)
    for one in found[1:]:
        change(one)
    path.write_text("".join(f"\x1e{json.dumps(one)}\n" for one in found))
    return path


def scaled(what: str, by: float) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        if what == "time":
            record["time"] *= by
        for key in ("min_rtt", "smoothed_rtt"):
            if what == "rtt" and record["data"].get(key) is not None:
                record["data"][key] *= by

    return change


def same(record: dict[str, Any]) -> None:
    """Change nothing."""


REFUSED = [
    (
        scaled("time", 1000),
        "40ms",
        r"time: a round trip takes [\d.]+ s by the clock .*; times look like us, read as ms",
    ),
    (
        scaled("time", 1e-3),
        "40ms",
        r"time: a round trip takes [\d.]+ ms by the clock .*; times look like ms, read as us",
    ),
    (scaled("time", 4), "40ms", r"time: .*; do the file, --rate and --rtt belong together\?"),
    (scaled("rtt", 1000), "40ms", r"(time|min_rtt): .* look like (us, read as ms|ms, read as us)"),
    (scaled("rtt", 1e-3), "40ms", r"(time|min_rtt): .* look like (us, read as ms|ms, read as us)"),
    (same, "400ms", r"min_rtt: min_rtt is 4\d(\.\d)? ms, below the base RTT of 400 ms; do the file"),
    (same, "1ms", r"min_rtt: min_rtt is 4\d(\.\d)? ms, more than 3 times what the path of 10Mbit, 1ms has"),
    (same, "0ms", r"rtt: the base RTT is 0 ms; the RTT of the path without queues"),
]


@pytest.mark.parametrize(("change", "rtt", "said"), REFUSED)
def test_units_that_do_not_fit_are_said_in_a_line(
    change: Callable[[dict[str, Any]], None],
    rtt: str,
    said: str,
    records: list[dict[str, Any]],
    tmp_path: Path,
    command: Command,
) -> None:
    path = written(tmp_path / "t.sqlog", records, change)
    done = command("evaluate", "trace", path, "--rate", "10Mbit", "--rtt", rtt)
    assert done.returncode == 2 and not done.stdout and len(done.stderr.splitlines()) == 1, done.stderr
    assert re.search(said, done.stderr), done.stderr


@pytest.mark.parametrize(("by", "said"), [(1000, "us, read as ms"), (1e-3, "ms, read as us")])
def test_without_rounds_the_rate_tells(by: float, said: str, records: list[dict[str, Any]], tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        record["time"] *= by
        record["data"].pop("bbr_round_count", None)

    path = written(tmp_path / "t.sqlog", records, change)
    with pytest.raises(
        InputError, match=f"time: what was delivered comes .* as bbr_max_bw says; times look like {said}"
    ):
        judge.judge_file(path, judge.TraceDescription(10_000_000, 0.04))


@pytest.mark.parametrize(("rate", "is_refused"), [("1Mbit", True), ("4Mbit", True), ("9Mbit", False)])
def test_more_is_not_delivered_than_the_link_carries(
    rate: str, is_refused: bool, records: list[dict[str, Any]], tmp_path: Path, command: Command
) -> None:
    path = written(tmp_path / "t.sqlog", records, same)
    done = command("evaluate", "trace", path, "--rate", rate, "--rtt", "40ms")
    assert (done.returncode == 2) == is_refused
    if is_refused:
        said = r"rate: 9\.\d+ Mbit/s of payload are delivered, and the link carries [\d.]+ Mbit/s; .* belong together\?"
        assert re.search(said, done.stderr), done.stderr


def test_a_trace_as_it_is_is_judged(records: list[dict[str, Any]], tmp_path: Path, command: Command) -> None:
    path = written(tmp_path / "t.sqlog", records, same)
    for rtt in ("40ms", "36ms", "44ms"):  # what a user says of a path is not exact
        done = command("evaluate", "trace", path, "--rate", "10Mbit", "--rtt", rtt)
        assert done.returncode in (0, 1) and done.stdout, done.stderr


def test_negative_counts_are_no_data(records: list[dict[str, Any]], tmp_path: Path, command: Command) -> None:
    def negative(key: str, value: float) -> Callable[[dict[str, Any]], None]:
        def change(record: dict[str, Any]) -> None:
            if key in record["data"]:
                record["data"][key] = value

        return change

    for key in ("bytes_in_flight", "congestion_window", "min_rtt", "delivered", "bbr_pacing_gain"):
        path = written(tmp_path / "t.sqlog", records, negative(key, -5))
        done = command("evaluate", "trace", path, "--rate", "10Mbit", "--rtt", "40ms")
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert re.search(rf"{key} at [\d.e-]+ s is -5; it must be a number that is not negative", done.stderr)
    # a bound that is not set
    path = written(tmp_path / "t.sqlog", records, negative("bbr_inflight_longterm", -1))
    assert judge.judge_file(path, judge.TraceDescription(10_000_000, 0.04)).run.trace.has("inflight_longterm") is False


def test_times_that_are_differences_are_said_to_look_like_them(records: list[dict[str, Any]], tmp_path: Path) -> None:
    before = [0.0]

    def difference(record: dict[str, Any]) -> None:
        now = record["time"]
        record["time"], before[0] = now - before[0], now

    path = written(tmp_path / "t.sqlog", records, difference)
    with pytest.raises(InputError, match=r"\d+ times lie before the one in front of them; .* time_format delta"):
        judge.judge_file(path, judge.TraceDescription(10_000_000, 0.04))
    text = path.read_text().replace('"time_format": "relative_to_epoch"', '"time_format": "delta"', 1)
    assert "delta" in text
    path.write_text(text)
    assert judge.judge_file(path, judge.TraceDescription(10_000_000, 0.04)).verdicts


def test_order_in_the_file_does_not_matter(records: list[dict[str, Any]], tmp_path: Path) -> None:
    shuffled = [records[0], *records[:0:-1]]
    path = written(tmp_path / "t.sqlog", shuffled, same)
    assert judge.judge_file(path, judge.TraceDescription(10_000_000, 0.04)).verdicts
