"""`dumbbell evaluate trace`: a log of another implementation, judged by the judges of a suite."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell.cli.evaluate_gate import EvaluationGate
from dumbbell.cli.evaluate_options import GateOptions, SuiteName, parse_quantity, split_names, strip_ending
from dumbbell.cli.option_groups import expand_options
from dumbbell.errors import UnknownName, WrongValue, quote_value
from dumbbell.writing import make_folder

if TYPE_CHECKING:
    from dumbbell.evaluate.bbr.judge import JudgedTrace

Option = typer.Option
_COMMAND = "evaluate trace"


@expand_options
def trace(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A qlog file.")],
    suite: SuiteName = "bbr",
    only: Annotated[
        list[str] | None, Option("--only", metavar="ID[,ID]", help="Judge only these criteria, or sections such as 18.")
    ] = None,
    rate: Annotated[str | None, Option("--rate", metavar="RATE", help="Rate of the link, such as 10Mbit.")] = None,
    rtt: Annotated[str | None, Option("--rtt", metavar="TIME", help="Base RTT, such as 20ms.")] = None,
    at: Annotated[
        list[str] | None,
        Option("--at", metavar="NAME=TIME", help="When the set-up changed, if the header does not say so."),
    ] = None,
    value: Annotated[list[str] | None, Option("--value", metavar="NAME=NUMBER", help="A value of the set-up.")] = None,
    state: Annotated[
        list[str] | None,
        Option("--state", metavar="THEIRS=OURS", help="Which state of BBR a state of the file is; - ignores it."),
    ] = None,
    output: Annotated[
        str, Option("-o", "--output", metavar="NAME", callback=strip_ending, help="Write NAME.html.")
    ] = "evaluation",
    gating: GateOptions,
    drawings: Annotated[
        str | None,
        Option("--figures", metavar="DIR", help="Draw the whole file, and what of it each criterion that fails saw."),
    ] = None,
) -> None:
    """Without --only, all criteria are judged whose set-up the trace shows.

    Exit status: 0 all applicable criteria pass, constants aside, 1 one fails, 2 bad input, 3 nothing could be judged or
    a judge lacks a field.
    """
    from dumbbell.evaluate.bbr import judge
    from dumbbell.evaluate.judging import judge_trace
    from dumbbell.evaluate.suite_file import load_suite

    gating.check(_COMMAND)
    found_suite = load_suite(suite).select(split_names(only))
    if "trace" not in found_suite.kinds:
        raise WrongValue(quote_value(suite), "a suite with judges of traces", command=_COMMAND, option="--suite")
    times = _split_all("--at", "NAME=TIME", at, found_suite.times)
    described = judge.TraceDescription(
        None if rate is None else parse_quantity("rate", "--rate", rate, _COMMAND),
        None if rtt is None else parse_quantity("time", "--rtt", rtt, _COMMAND) / 1e9,
        {name: parse_quantity("time", "--at", text, _COMMAND) / 1e9 for name, text in times},
        {name: _parse_real(text) for name, text in _split_all("--value", "NAME=NUMBER", value, found_suite.values)},
        _parse_states(state or []),
    )
    words = ["dumbbell", "evaluate", "trace", file, *(["--suite", suite] if suite != "bbr" else [])]
    repeated = (("--rate", [rate]), ("--rtt", [rtt]), ("--at", at), ("--value", value), ("--state", state))
    words += [word for option, texts in repeated for text in texts or [] if text is not None for word in (option, text)]
    found, judged = judge_trace(found_suite, Path(file), described, words, chosen=bool(only))
    if drawings is not None:
        _draw(judged, Path(file), drawings)
    EvaluationGate(found_suite, found.subject, None, gating).finish(found, output, _COMMAND)


def _draw(judged: JudgedTrace, path: Path, name: str) -> None:
    from dumbbell import figures
    from dumbbell.evaluate.bbr import figure
    from dumbbell.evaluate.bbr.cases import CASES
    from dumbbell.evaluate.grade import is_bad

    folder = make_folder(name, "a folder to write to", command=_COMMAND, option="--figures")
    whole = folder / f"{path.name.partition('.')[0] or 'trace'}-trace.png"
    figures.save(figure.draw_file(judged.run, path.name), str(whole))
    print(whole, file=sys.stderr)
    for case, one in judged.verdicts.items():
        if is_bad(one.result) and one.run is not None:
            print(figure.save(one.run, CASES[case], one.result, judged.control, folder), file=sys.stderr)


def _parse_states(words: list[str]) -> dict[str, str]:
    from dumbbell.evaluate.bbr import states
    from dumbbell.evaluate.bbr.trace import STATES

    found = {}
    for text in words:
        theirs, equals, ours = text.rpartition("=")
        if not equals or not states.normalise_name(theirs):
            raise WrongValue(quote_value(text), "THEIRS=OURS, such as Up=probe_up", command=_COMMAND, option="--state")
        if ours not in (*STATES, states.IGNORED):
            raise UnknownName(quote_value(ours), among=(*STATES, "-"), command=_COMMAND, option="--state", what="state")
        found[theirs] = ours
    return found


def _split_all(option: str, form: str, texts: list[str] | None, allowed: Iterable[str]) -> list[tuple[str, str]]:
    found = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise WrongValue(quote_value(text), form, command=_COMMAND, option=option)
        if name not in allowed:
            raise UnknownName(quote_value(name), among=list(allowed), command=_COMMAND, option=option)
        found.append((name, value))
    return found


def _parse_real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WrongValue(quote_value(text), "NAME=NUMBER", command=_COMMAND, option="--value")
    return value
