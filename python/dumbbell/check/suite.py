"""The suite: every case for every control at every point of a grid, on all cores."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from dumbbell.check.case import (
    FAILED,
    NOT_APPLICABLE,
    BbrCase,
    CaseResult,
    CaseVerdict,
    Expectation,
    SuiteReport,
)
from dumbbell.check.cases import CASES
from dumbbell.check.lab import FRAME, CaseLab, CaseRun, NotApplicable, PathPoint, PluginFailed
from dumbbell.check.lab import parse_control as canonical
from dumbbell.experiment import plugins
from dumbbell.waiting import restore_ctrl_c

VERSIONS = ("bbr1", "bbr2", "bbr3", "bbr-draft")
RATES = (64_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000)  # bit/s, and
RTTS = (0.001, 0.01, 0.1, 1.0)  # s: the draft's range, in steps of ten but for the first rate
MOST_BDP = 10_000  # segments: above, the runs of all cases together would take minutes


@dataclass(frozen=True)
class CaseSelection:
    """The data of runs to store in addition to verdicts: traces of all, and of those that failed."""

    traces: bool = False
    failing: bool = False


@dataclass(frozen=True)
class BbrResult(CaseResult):
    """The result of a case at a point. `run` is there if its trace is wanted."""

    place: PathPoint
    run: CaseRun | None = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)  # of a core

    @property
    def where(self) -> str:
        """The point as a file of expected failures has it."""
        return str(self.place).replace(",", "")


@dataclass(frozen=True)
class BbrReport(SuiteReport):
    """All results, and the points that were left out, with the reason of each."""

    results: list[BbrResult]
    left_out: dict[PathPoint, str] = field(default_factory=dict)


def name_control(control: dict[str, Any]) -> str:
    """Return what a control is called: its name, and the parameters that were set."""
    others = ", ".join(f"{key}={value}" for key, value in control.items() if key not in ("name", "plugin"))
    name = plugins.name_algorithm(settle(control)) if "plugin" in control else str(control["name"])
    return f"{name}({others})" if others else name


def settle(control: dict[str, Any]) -> dict[str, Any]:
    """Return a control as other processes can run it: of a plugin its canonical form, which names a copy of it."""
    if "plugin" not in control:
        return control
    found: dict[str, Any] = json.loads(canonical(json.dumps(control)))
    return found


def make_grid(
    rates: Iterable[int] = RATES, rtts: Iterable[float] = RTTS
) -> tuple[list[PathPoint], dict[PathPoint, str]]:
    """Return the points of a grid, and those that are left out, with the reason."""
    points, left_out = [], {}
    for point in (PathPoint(rate, rtt) for rate in rates for rtt in rtts):
        if point.bdp > MOST_BDP:
            left_out[point] = f"{point.bdp:,.0f} segments in flight, more than {MOST_BDP:,}"
        else:
            points.append(point)
    return points, left_out


def judge_point(
    name: str, cc: dict[str, Any], point: PathPoint, cases: Sequence[str], wanted: CaseSelection
) -> list[BbrResult]:
    """Judge cases of one control, called `name`, at one point."""
    lab = CaseLab(point, cc)
    results = []
    for key in cases:
        start = time.process_time()
        run, verdict = _judge_case(CASES[key], lab)
        kept = run if run is not None and (wanted.traces or (wanted.failing and verdict.result == "failed")) else None
        results.append(BbrResult(key, name, point, verdict, kept, time.process_time() - start))
    return results


def _judge_case(case: BbrCase, lab: CaseLab) -> tuple[CaseRun | None, CaseVerdict]:
    if reason := case.without.get(lab.cc.get("name", "")):
        return None, CaseVerdict(NOT_APPLICABLE, reason)
    try:
        run = case.prepare(lab)
    except NotApplicable as reason:
        return None, CaseVerdict(NOT_APPLICABLE, str(reason))
    except PluginFailed as error:
        return None, CaseVerdict(FAILED, str(error), (Expectation("the control runs", False, str(error)),))
    return run, case.judge_run(run)


def check(
    controls: Sequence[dict[str, Any]],
    cases: Sequence[str] = tuple(CASES),
    points: Sequence[PathPoint] | None = None,
    *,
    jobs: int | None = None,
    wanted: CaseSelection = CaseSelection(),
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> BbrReport:
    """Judge `cases` of `controls` at `points`, by default those of the grid.

    `progress` is called with how many of how many parts are done.
    """
    began = time.monotonic()
    left_out: dict[PathPoint, str] = {}
    if points is None:
        points, left_out = make_grid()
    # the largest first, so that no core ends long after the others
    parts = sorted(
        ((name_control(cc), settle(cc), point) for cc in controls for point in points),
        key=lambda part: -_estimate_cost(part[2]),
    )
    found: dict[tuple[str, PathPoint], list[BbrResult]] = {}
    if jobs == 1 or len(parts) == 1:
        for number, (name, cc, point) in enumerate(parts):
            found[name, point] = judge_point(name, cc, point, cases, wanted)
            progress(number + 1, len(parts))
    else:
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        with ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=context) as pool:
            restore_ctrl_c()
            begun = {
                pool.submit(judge_point, name, cc, point, cases, wanted): (name, point) for name, cc, point in parts
            }
            try:
                for number, future in enumerate(as_completed(begun)):
                    found[begun[future]] = future.result()
                    progress(number + 1, len(parts))
            except BaseException:
                # Ctrl-C, or a part that failed: what has not begun is not run, and nobody waits for what has
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise
    results = [one for cc in controls for point in points for one in found[name_control(cc), point]]
    return BbrReport(results, time.monotonic() - began, left_out)


def _estimate_cost(point: PathPoint) -> float:
    """About how many packets a point takes: some seconds and some tens of rounds."""
    return point.rate / (8 * FRAME) * (10 + 100 * point.rtt) + 3000
