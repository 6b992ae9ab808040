"""The evidence of README.md: the test cases of the BBR draft for all versions, and traces of Linux.

python -m studies.bbr_suite.gather [--figures FOLDER] [--linux CSV]

Judges all versions on the paths of suite bbr, as `dumbbell evaluate cc NAME --suite bbr` does, and keeps what the
page rests on in studies/bbr_suite/evidence; `dumbbell study page bbr-suite` then makes the page. `--figures` draws
one failing case of each kind. `--linux` is a file of traces of BBRv2 and v3 on Linux: what TCP_INFO and TCP_CC_INFO
say every 20 to 40 ms and at each change of phase (version, ecn, qdisc, rate_mbit, t_s, rtt_us, phase, pacing_gain).
Without it the tables that were made from one stay as they are.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import _native
from dumbbell.evaluate.bbr import figure, grid
from dumbbell.evaluate.bbr.cases import CASES, SUITE
from dumbbell.evaluate.bbr.lab import CaseLab, PathPoint
from dumbbell.evaluate.grade import FAILS, CaseVerdict
from dumbbell.pages import study
from dumbbell.study import Evidence

from .study import NOT_APPLICABLE, WORDS

STUDY = "bbr-suite"
KEPT_OF_TRACE = (
    "time_s",
    "cwnd",
    "in_flight",
    "inflight_bdp",
    "inflight_longterm",
    "inflight_shortterm",
    "max_bw_mbit",
    "bw_shortterm_mbit",
    "pacing_rate_mbit",
)
UP, GAINS = 4, {2: "drain", 5: "probe_down"}  # Linux's bbr_phase: BBR_BW_PROBE_UP; those whose gains are compared


def make_tables(results: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    """Return every result, how many there are of each kind, and why."""
    rows = [{key: one[key] for key in ("number", "case", "control", "rate_bit", "rtt_s", "result")} for one in results]
    counts, reasons = [], []
    controls = list(dict.fromkeys(one["control"] for one in results))
    for key in CASES:
        for control in controls:
            own = [one for one in results if (one["case"], one["control"]) == (key, control)]
            place = {"number": CASES[key].number, "case": key, "control": control}
            found = [one["result"] for one in own]
            numbers = {name: found.count(name) for name in ("passed", "constant", "failed")}
            counts.append(place | numbers | {"applies": len(found) - found.count(NOT_APPLICABLE)})
            reasons += [place | {"result": result, "reason": text} for result, text in _list_reasons(own)]
    return {"results": pl.DataFrame(rows), "counts": pl.DataFrame(counts), "reasons": pl.DataFrame(reasons)}


def _convert_verdict(control: str, point: PathPoint, case: str, verdict: CaseVerdict) -> dict[str, Any]:
    """Return a verdict as the tables have it, with the words of the evidence."""
    checks = [{"what": check.what, "held": check.held} for check in verdict.checks]
    place = {"rate_bit": point.rate, "rtt_s": point.rtt}
    names = {"number": CASES[case].number, "case": case, "control": control}
    return names | place | {"result": WORDS[verdict.result], "reason": verdict.reason, "checks": checks}


def _list_reasons(results: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return each result with its reasons: points that share a reason in one, of cases that do not apply the first."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in results:
        if one["reason"]:
            what = "; ".join(check["what"] for check in one["checks"] if check["held"] is False)
            kind = "" if one["result"] == NOT_APPLICABLE else what or one["reason"]
            place = PathPoint(one["rate_bit"], one["rtt_s"])
            found.setdefault((one["result"], kind), []).append(f"{place}: {one['reason']}")
    ordered = sorted(found.items(), key=lambda entry: -len(entry[1]))
    return [
        (result, texts[0] + (f" (and at {len(texts) - 1} more)" if len(texts) > 1 else ""))
        for (result, _), texts in ordered
    ]


def collect_drawn_trace() -> dict[str, pl.DataFrame]:
    """Return the trace of the failure that the page draws, a row for each half of a percent of it."""
    key, control, point = study.find(STUDY).program.DRAWN
    run = CASES[key].prepare(CaseLab(point, {"name": control}))
    trace, since = run.trace, next(iter(run.setup.times.values()))
    rows = range(trace.find_row(since - 0.15), trace.find_row(since + 0.6))
    columns: dict[str, Any] = {name: trace[name][rows] for name in KEPT_OF_TRACE}
    frame = pl.DataFrame(columns | {"state": trace.state[rows]})
    frame = frame.filter(pl.int_range(pl.len()) % max(len(frame) // 250, 1) == 0)
    times = pl.DataFrame([{"name": name, "time_s": time} for name, time in run.setup.times.items()])
    return {
        "trace": frame,
        "times": times,
        "drawn": pl.DataFrame([{"result": WORDS[CASES[key].judge_run(run).result]}]),
    }


def read_linux(path: Path) -> dict[str, pl.DataFrame]:
    """Return how long PROBE_UP lasted on Linux, in round trips, and its gains."""
    frame = pl.read_csv(path, infer_schema_length=None).filter(pl.col("version") != "bbr1")
    probes, gains = [], []
    for (version, ecn, queue, rate), rows in frame.group_by(
        "version", "ecn", "qdisc", "rate_mbit", maintain_order=True
    ):
        start: dict[str, Any] | None = None
        for row in rows.iter_rows(named=True):
            if row["phase"] == UP and start is None:
                start = row
            elif row["phase"] != UP and start is not None:
                lasted = (row["t_s"] - start["t_s"]) * 1e6 / start["rtt_us"]
                probes.append(
                    {"version": version, "ecn": ecn, "queue": queue, "rate_mbit": rate, "round_trips": lasted}
                )
                start = None
    for (version, phase), rows in frame.group_by("version", "phase", maintain_order=True):
        if phase in GAINS:
            gain = rows["pacing_gain"].mode().sort()[0] / 256
            gains.append({"version": version, "phase": GAINS[int(phase)], "gain": gain})
    return {"linux_probes": pl.DataFrame(probes), "linux_gains": pl.DataFrame(gains)}


def main() -> None:
    """Make the evidence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path, metavar="FOLDER")
    parser.add_argument("--linux", type=Path, metavar="CSV")
    given = parser.parse_args()
    points, _ = grid.make_grid(SUITE.grid.rates, [rtt / 1e9 for rtt in SUITE.grid.rtts])
    keep = given.figures is not None
    found = [
        (control, point, case, verdict)
        for control in grid.VERSIONS
        for point, of_point in grid.judge_points({"name": control}, list(CASES), points, keep=keep).items()
        for case, verdict in of_point.items()
    ]
    results = [_convert_verdict(*one) for one in found]
    folder = study.find(STUDY).folder / "evidence"
    of_linux = read_linux(given.linux) if given.linux else {}
    if not of_linux:
        kept = Evidence.load(folder)
        of_linux = {name: kept[name] for name in ("linux_probes", "linux_gains")}
    made = {"suite": {"runs": len(results), "seeds": [1], "engines": [_native.engine_version()], "setup": {}}}
    Evidence(make_tables(results) | collect_drawn_trace() | of_linux, made).save(folder)
    if given.figures is None:
        return
    given.figures.mkdir(parents=True, exist_ok=True)
    done = set()
    for control, _, case, verdict in found:
        if verdict.result == FAILS and verdict.run is not None and (case, control) not in done:
            done.add((case, control))
            path = figure.save(verdict.run, CASES[case], verdict.result, control, given.figures)
            print(path, file=sys.stderr)


if __name__ == "__main__":
    main()
