"""A trace file of any implementation, judged by every case whose set-up it shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell.errors import Missing, OutOfRange, UnknownName, WrongValue, quote_value
from dumbbell.evaluate.bbr import plausible, qlog_trace
from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.cases import CASES, TIMES, VALUES
from dumbbell.evaluate.bbr.lab import CaseRun, NotApplicable, PathPoint, Setup
from dumbbell.evaluate.grade import NOT_APPLICABLE, CaseVerdict
from dumbbell.experiment.toml_checks import is_number

# values of paths that are so from the first packet on: nothing of such a trace is of a plain path
_FROM_THE_START = {"batch", "token rate", "bucket", "rate before", "buffer"}
_RATES, _RTTS = (1e3, 1e13), (0.0, 60.0)  # bit/s and s: those of experiment files


@dataclass(frozen=True)
class TraceDescription:
    """The description of a trace by the user: path, times and values by name, states, and cases, if not all."""

    rate: int | None = None
    rtt: float | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    cases: Sequence[str] | None = None


@dataclass(frozen=True)
class JudgedTrace:
    """The verdicts of a file on a control by case, and what to know of the reading.

    A case whose set-up the file does not show does not apply; its verdict has no run.
    """

    verdicts: dict[str, CaseVerdict]
    control: str
    run: CaseRun
    notes: list[str]


def judge_file(path: Path, description: TraceDescription) -> JudgedTrace:
    """Judge a trace file. Raises InputError."""
    log = qlog_trace.read(path, description.states)
    setup = _read_setup(path, log.header, description)
    plausible.check(path, log.trace, setup.point, log.falls)
    run = CaseRun(log.trace, setup)
    of_header = log.header.get("case")
    control = log.header.get("control")
    control = control if isinstance(control, str) and control.isprintable() else path.name.partition(".")[0]
    verdicts: dict[str, CaseVerdict] = {}
    for key in description.cases if description.cases is not None else CASES:
        case, judged = CASES[key], run
        missing = " and ".join(_list_missing(case, setup))
        if description.cases is not None and missing:
            raise Missing(f"it in the header: case {case.key} is judged by it", file=path, key=missing)
        try:
            if description.cases is None and (key != of_header or log.cut):
                judged = _select_shown(case, run, missing)
            verdicts[key] = replace(case.judge_run(judged), run=judged)
        except NotApplicable as reason:
            verdicts[key] = CaseVerdict(NOT_APPLICABLE, str(reason))
    return JudgedTrace(verdicts, control, run, log.notes)


def _list_missing(case: BbrCase, setup: Setup) -> list[str]:
    """Return what has to be said of a set-up in addition to what is known, as options."""
    times = [f"--at {quote_value(name)}=TIME" for name in case.needs.times if name not in setup.times]
    return times + [f"--value {quote_value(name)}=NUMBER" for name in case.needs.values if name not in setup.values]


def _select_shown(case: BbrCase, run: CaseRun, missing: str) -> CaseRun:
    """Return what of a run a case is judged by. Raises NotApplicable if it does not show the set-up of the case."""
    trace, setup = run.trace, run.setup
    if missing:
        raise NotApplicable(f"needs {missing}")
    given = {*setup.times, *setup.values}
    if not (case.needs.times or case.needs.values) and given:
        # a plain path until the first change of it
        changed = sorted(given & _FROM_THE_START)
        if changed or not setup.times:
            raise NotApplicable(f"the path is not a plain one ({', '.join(changed or sorted(given))})")
        first = min(setup.times.values())
        run = CaseRun(trace.select_before(first), Setup(setup.point))
        if not len(run.trace):
            raise NotApplicable(f"nothing is before the first change, at {first:.4g} s")
    elif others := sorted(given - {*case.needs.times, *case.needs.values, *case.needs.optional}):
        raise NotApplicable(f"the set-up is that of another case ({', '.join(others)})")
    # without states nobody can tell: the verdict says so, and what to log
    with np.errstate(all="ignore"):
        if not run.trace.is_without("state") and (reason := case.shown(run.trace, run.setup)):
            raise NotApplicable(reason)
    return run


def _read_setup(path: Path, header: dict[str, Any], description: TraceDescription) -> Setup:
    rate, rtt = description.rate, description.rtt
    if rate is None:
        rate = round(_parse_number(path, header, "rate_bit", _RATES, "--rate RATE"))
    if rtt is None:
        rtt = _parse_number(path, header, "rtt_s", _RTTS, "--rtt TIME")
    return Setup(
        PathPoint(rate, rtt),
        _parse_named(path, header, "times_s", TIMES) | dict(description.times),
        _parse_named(path, header, "values", VALUES) | dict(description.values),
    )


def _parse_number(path: Path, header: dict[str, Any], key: str, limits: tuple[float, float], option: str) -> float:
    least, most = limits
    if key not in header:
        raise Missing(f"it in the header, or {option}", file=path, key=key)
    value = header[key]
    if not is_number(value) or not least <= value <= most:
        raise OutOfRange(quote_value(value), f"a number from {least:g} to {most:g}", file=path, key=key)
    return float(value)


def _parse_named(path: Path, header: dict[str, Any], key: str, allowed: Mapping[str, str]) -> dict[str, float]:
    table = header.get(key, {})
    if not isinstance(table, dict):
        raise WrongValue(quote_value(table), "numbers by name", file=path, key=key)
    for name, value in table.items():
        if name not in allowed:
            raise UnknownName(quote_value(name), among=list(allowed), file=path, key=key)
        if not is_number(value) or not abs(value) < math.inf:
            raise WrongValue(quote_value(value), "a number", file=path, key=f"{key}: {name}")
    return {name: float(value) for name, value in table.items()}
