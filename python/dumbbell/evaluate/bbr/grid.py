"""The cases of the suite for controls at every point of a grid, on all cores."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.cases import CASES
from dumbbell.evaluate.bbr.fields import FRAME
from dumbbell.evaluate.bbr.lab import CaseLab, NotApplicable, PathPoint, PluginFailed, parse_control
from dumbbell.evaluate.case_verdict import CaseVerdict, Expectation
from dumbbell.evaluate.grade import NOT_APPLICABLE, is_bad, name_failed_run
from dumbbell.experiment import plugins
from dumbbell.waiting import restore_ctrl_c

VERSIONS = ("bbr1", "bbr2", "bbr3", "bbr-draft")
MOST_BDP = 10_000  # segments: above, the runs of all cases together would take minutes


@dataclass(frozen=True)
class BbrResult:
    """The verdict on a control, as it is called in tables, in a case at a point."""

    case: str
    control: str
    place: PathPoint
    verdict: CaseVerdict


def name_control(control: dict[str, Any]) -> str:
    """Return what a control is called: its name, and the parameters that were set."""
    others = ", ".join(f"{key}={value}" for key, value in control.items() if key not in ("name", "plugin"))
    name = plugins.name_algorithm(settle(control)) if "plugin" in control else str(control["name"])
    return f"{name}({others})" if others else name


def settle(control: dict[str, Any]) -> dict[str, Any]:
    """Return a control as other processes can run it: of a plugin its canonical form, which names a copy of it."""
    if "plugin" not in control:
        return control
    found: dict[str, Any] = json.loads(parse_control(json.dumps(control)))
    return found


def make_grid(rates: Iterable[int], rtts: Iterable[float]) -> tuple[list[PathPoint], dict[PathPoint, str]]:
    """Return the points of a grid, and those that are left out, with the reason."""
    points, left_out = [], {}
    for point in (PathPoint(rate, rtt) for rate in rates for rtt in rtts):
        if point.bdp > MOST_BDP:
            left_out[point] = f"{point.bdp:,.0f} segments in flight, more than {MOST_BDP:,}"
        else:
            points.append(point)
    return points, left_out


def judge_point(
    name: str, cc: dict[str, Any], point: PathPoint, cases: Sequence[str], *, keep: bool
) -> list[BbrResult]:
    """Judge cases of one control, called `name`, at one point; `keep` the traces of those that are bad."""
    lab = CaseLab(point, cc)
    results = []
    for key in cases:
        start = time.process_time()
        found = _judge_case(CASES[key], lab)
        run = found.run if keep and is_bad(found.result) else None
        results.append(BbrResult(key, name, point, replace(found, run=run, seconds=time.process_time() - start)))
    return results


def _judge_case(case: BbrCase, lab: CaseLab) -> CaseVerdict:
    if reason := case.without.get(lab.cc.get("name", "")):
        return CaseVerdict(NOT_APPLICABLE, reason)
    try:
        run = case.prepare(lab)
        return replace(case.judge_run(run), run=run)
    except NotApplicable as reason:
        return CaseVerdict(NOT_APPLICABLE, str(reason))
    except PluginFailed as error:
        checks = (Expectation("the control runs", False, str(error)),)
        return CaseVerdict(name_failed_run(str(error)), str(error), checks)


def judge_points(
    controls: Sequence[dict[str, Any]],
    cases: Sequence[str],
    points: Sequence[PathPoint],
    *,
    jobs: int | None = None,
    keep: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> list[BbrResult]:
    """Judge `cases` of `controls` at `points`; `progress` is called with how many of how many parts are done.

    The results are in the order of controls, points and cases.
    """
    # the largest first, so that no core ends long after the others
    parts = sorted(
        ((name_control(cc), settle(cc), point) for cc in controls for point in points),
        key=lambda part: -_estimate_cost(part[2]),
    )
    found: dict[tuple[str, PathPoint], list[BbrResult]] = {}

    def note(name: str, point: PathPoint, results: list[BbrResult]) -> None:
        found[name, point] = results
        if progress is not None:
            progress(len(found), len(parts))

    if jobs == 1 or len(parts) == 1:
        for name, cc, point in parts:
            note(name, point, judge_point(name, cc, point, cases, keep=keep))
    else:
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        with ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=context) as pool:
            restore_ctrl_c()
            begun = {
                pool.submit(judge_point, name, cc, point, cases, keep=keep): (name, point) for name, cc, point in parts
            }
            try:
                for future in as_completed(begun):
                    note(*begun[future], future.result())
            except BaseException:
                # Ctrl-C, or a part that failed: what has not begun is not run, and nobody waits for what has
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise
    return [one for cc in controls for point in points for one in found[name_control(cc), point]]


def _estimate_cost(point: PathPoint) -> float:
    """About how many packets a point takes: some seconds and some tens of rounds."""
    return point.rate / (8 * FRAME) * (10 + 100 * point.rtt) + 3000
