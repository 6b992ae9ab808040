"""The cases of the suite for a control at every point of a grid, on all cores."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.cases import CASES
from dumbbell.evaluate.bbr.lab import CaseLab, NotApplicable, PathPoint, PluginFailed, parse_control
from dumbbell.evaluate.grade import NOT_APPLICABLE, CaseVerdict, Expectation, is_bad, name_failed_run
from dumbbell.qlog.fields import FRAME
from dumbbell.waiting import restore_ctrl_c

VERSIONS = ("bbr1", "bbr2", "bbr3", "bbr-draft")
MOST_BDP = 10_000  # segments: above, the runs of all cases together would take minutes


def make_grid(rates: Iterable[int], rtts: Iterable[float]) -> tuple[list[PathPoint], dict[PathPoint, str]]:
    """Return the points of a grid, and those that are left out, with the reason."""
    points, left_out = [], {}
    for point in (PathPoint(rate, rtt) for rate in rates for rtt in rtts):
        if point.bdp > MOST_BDP:
            left_out[point] = f"{point.bdp:,.0f} segments in flight, more than {MOST_BDP:,}"
        else:
            points.append(point)
    return points, left_out


def judge_point(cc: dict[str, Any], point: PathPoint, cases: Sequence[str], *, keep: bool) -> dict[str, CaseVerdict]:
    """Judge cases of a control at one point; `keep` the traces of those that are bad."""
    lab = CaseLab(point, cc)
    verdicts = {}
    for key in cases:
        start = time.process_time()
        found = _judge_case(CASES[key], lab)
        run = found.run if keep and is_bad(found.result) else None
        verdicts[key] = replace(found, run=run, seconds=time.process_time() - start)
    return verdicts


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
    cc: dict[str, Any],
    cases: Sequence[str],
    points: Sequence[PathPoint],
    *,
    jobs: int | None = None,
    keep: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> dict[PathPoint, dict[str, CaseVerdict]]:
    """Return the verdicts on a control by point and case, in the order of `points` and `cases`.

    `progress` is called with how many of how many points are done.
    """
    if "plugin" in cc:
        cc = json.loads(parse_control(json.dumps(cc)))  # its canonical form names a copy, which other processes can run
    found: dict[PathPoint, dict[str, CaseVerdict]] = {}

    def note(point: PathPoint, verdicts: dict[str, CaseVerdict]) -> None:
        found[point] = verdicts
        if progress is not None:
            progress(len(found), len(points))

    # the largest first, so that no core ends long after the others
    in_order = sorted(points, key=_estimate_cost, reverse=True)
    if jobs == 1 or len(points) == 1:
        for point in in_order:
            note(point, judge_point(cc, point, cases, keep=keep))
    else:
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        with ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=context) as pool:
            restore_ctrl_c()
            begun = {pool.submit(judge_point, cc, point, cases, keep=keep): point for point in in_order}
            try:
                for future in as_completed(begun):
                    note(begun[future], future.result())
            except BaseException:
                # Ctrl-C, or a part that failed: what has not begun is not run, and nobody waits for what has
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise
    return {point: found[point] for point in points}


def _estimate_cost(point: PathPoint) -> float:
    """About how many packets a point takes: some seconds and some tens of rounds."""
    return point.rate / (8 * FRAME) * (10 + 100 * point.rtt) + 3000
