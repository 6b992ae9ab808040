"""`dumbbell check`: suites of test cases; here `bbr`, the test cases of the IETF's draft of BBR."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumbbell.cli import check_output
from dumbbell.cli.check_output import Progress, check_report_options, join_lines, write_junit
from dumbbell.cli.check_stack import stack
from dumbbell.cli.commands import CommandGroup
from dumbbell.errors import (
    Conflict,
    InputError,
    Missing,
    OutOfRange,
    TooMany,
    UnknownName,
    WrongValue,
    find_nearest,
    quote_value,
)
from dumbbell.writing import make_folder

if TYPE_CHECKING:
    from dumbbell.check import judge

Option = typer.Option
# those of bottleneck.rate and of flows.base_rtt, in bit/s and ns
_LIMITS = {"--rate": (1_000, 10_000_000_000_000), "--rtt": (0, 60_000_000_000)}


class _Suites(CommandGroup):
    """The suites, of which an unknown one gets one line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            known = [*self.commands]
            raise UnknownName(
                quote_value(args[0]), among=known, command="check", nearest=find_nearest(args[0], known), what="check"
            )
        return super().resolve_command(ctx, args)


check = typer.Typer(cls=_Suites, rich_markup_mode=None)


check.command()(stack)


@check.command()
def bbr(
    cc: Annotated[
        list[str] | None,
        Option(
            "--cc",
            metavar="NAME",
            help="Congestion control, or a table with name or plugin and parameters. By default: bbr1, bbr2, bbr3 and "
            "bbr-draft.",
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        Option("--case", metavar="CASE", help="Number or key of a case. By default, all, or all that a trace shows."),
    ] = None,
    rate: Annotated[
        list[str] | None, Option("--rate", metavar="RATE", help="Rate of the link, such as 10Mbit. May be repeated.")
    ] = None,
    rtt: Annotated[
        list[str] | None, Option("--rtt", metavar="TIME", help="Base RTT, such as 20ms. May be repeated.")
    ] = None,
    trace: Annotated[
        str | None, Option("--trace", metavar="FILE", help="Judge this qlog file instead of simulated runs.")
    ] = None,
    at: Annotated[
        list[str] | None,
        Option(
            "--at", metavar="NAME=TIME", help="With --trace: when the set-up changed, if the header does not say so."
        ),
    ] = None,
    value: Annotated[
        list[str] | None, Option("--value", metavar="NAME=NUMBER", help="With --trace: a value of the set-up.")
    ] = None,
    state: Annotated[
        list[str] | None,
        Option(
            "--state",
            metavar="THEIRS=OURS",
            help="With --trace: which state of BBR a state of the file is; - ignores it.",
        ),
    ] = None,
    jobs: Annotated[int | None, Option(min=1, metavar="N", help="Parts at a time. By default, one per core.")] = None,
    form: check_output.Format = "text",
    known: check_output.Known = None,
    baseline: check_output.Baseline = None,
    junit: check_output.Junit = None,
    github: check_output.Github = False,
    qlog: Annotated[str | None, Option("--qlog", metavar="DIR", help="Write the trace of every run as qlog.")] = None,
    figures: Annotated[
        str | None,
        Option(
            "--figures",
            metavar="DIR",
            help="Draw the trace of every case that failed. With --trace, draw the whole file.",
        ),
    ] = None,
    listed: Annotated[bool, Option("--list", help="List the cases, and exit.")] = False,
) -> None:
    """Each case runs at every rate and RTT of a grid.

    Exit status: 0 all applicable cases passed, constants aside, 1 one failed, 2 bad input, 3 nothing could be judged or
    a verdict is uncertain.
    """
    from dumbbell.check import bbr_report, ci, judge, suite
    from dumbbell.check.cases import CASES
    from dumbbell.experiment.registry import read_registry

    check_report_options(form=form, known=known, baseline=baseline, junit=junit, github=github)
    controls = [_parse_control(one) for one in cc or suite.VERSIONS] if trace is None else []
    names = [*read_registry().cc, *map(suite.name_control, controls)] if trace is None else None
    expected = ci.read_expected(Path(known), controls=names) if known else None
    before = ci.read_report(Path(baseline)) if baseline else None
    cases = _select_cases(case or [])
    if listed:
        others_of_list = {
            "--cc": cc, "--rate": rate, "--rtt": rtt, "--trace": trace, "--at": at, "--value": value, "--state": state,
            "--jobs": jobs, "--format": form != "text", "--known": known, "--baseline": baseline,
            "--junit": junit, "--github": github, "--qlog": qlog, "--figures": figures,
        }  # fmt: skip
        for option, given in others_of_list.items():
            if given:
                raise Conflict(f"--list and {option}", "--list with --case alone", command="check")
        print(
            "\n".join(f"{CASES[key].number:3} {key:20} {CASES[key].heading}\n    {CASES[key].expects}" for key in cases)
        )
        return
    rates = [_parse_quantity("rate", "--rate", one) for one in rate or []]
    rtts = [_parse_quantity("time", "--rtt", one) / 1e9 for one in rtt or []]
    others: dict[str, Any] = {}
    lines: list[str] = []
    if trace is None:
        for option, words in (("--at", at), ("--value", value), ("--state", state)):
            if words:
                raise Missing(f"a file: {option} describes one trace", command="check", option="--trace")
        points, left_out = suite.make_grid(rates or suite.RATES, rtts or suite.RTTS)
        if not points:
            largest = next(iter(left_out.items()))
            raise OutOfRange(
                f"{largest[0]}: {largest[1]}", "a point of fewer segments", command="check", option="--rate, --rtt"
            )
        folders = [_parse_folder(option, name) for option, name in (("--qlog", qlog), ("--figures", figures))]
        wanted = suite.CaseSelection(traces=qlog is not None, failing=figures is not None)
        found = suite.check(controls, cases, points, jobs=jobs, wanted=wanted, progress=Progress())
        found = suite.BbrReport(found.results, found.seconds, left_out)
        text = bbr_report.format_report(found)
        _keep(found, *folders)
    else:
        for option, given in (("--cc", cc), ("--jobs", jobs), ("--qlog", qlog)):
            if given:
                raise Conflict(f"{option} and --trace", "one of them: a trace is judged without a run", command="check")
        for option, several in (("--rate", rates), ("--rtt", rtts)):
            if len(several) > 1:
                raise TooMany(f"{len(several)} values", "one", "that of the trace", command="check", option=option)
        said = judge.TraceDescription(
            next(iter(rates), None),
            next(iter(rtts), None),
            _parse_times(at or []),
            _parse_values(value or []),
            _parse_states(state or []),
            cases if case else None,
        )
        judged = judge.judge_file(Path(trace), said)
        found, others = judged.report, {"file": trace, "not_judged": judged.not_judged, "reading": judged.notes}
        lines = [f"{trace}: {note}" for note in judged.notes]
        text = bbr_report.format_verdicts(found, judged.not_judged)
        if figures is not None:
            _draw_file(judged, Path(trace), figures)
    gate = ci.make_gate(found, expected, before)
    if known or baseline:
        others["gate"] = ci.to_json(gate)
        lines += gate.to_lines() or [f"nothing differs from {known or baseline}"]
    if form == "json":
        print(bbr_report.to_json(found, **others))
    else:
        print(join_lines([bbr_report.format_markdown(found) if form == "markdown" else text, *lines]))
    if junit is not None:
        write_junit(junit, ci.format_junit(found, gate))
    if github:
        print("\n".join(ci.list_annotations(found, gate)))
    if status := ci.find_status(found, gate):
        raise typer.Exit(status)


def _select_cases(names: list[str]) -> list[str]:
    from dumbbell.check.cases import CASES

    if not names:
        return list(CASES)
    wanted = []
    for name in names:
        keys = [key for key, one in CASES.items() if name in (key, one.number, one.number.rstrip("ab"))]
        if not keys:
            raise UnknownName(
                quote_value(name),
                among=[f"{one.number} {key}" for key, one in CASES.items()],
                command="check",
                option="--case",
                nearest=find_nearest(name, CASES),
                what="case",
            )
        wanted += keys
    return list(dict.fromkeys(wanted))


def _parse_quantity(kind: str, option: str, text: str) -> int:
    from dumbbell.experiment import units

    try:
        value = int(units.parse(kind, text))
    except InputError as error:
        raise error.move_into("check", option) from None
    if option in _LIMITS and not _LIMITS[option][0] <= value <= _LIMITS[option][1]:
        least, most = (units.show(kind, limit) for limit in _LIMITS[option])
        raise OutOfRange(quote_value(text), f"from {least} to {most}", command="check", option=option)
    return value


def _parse_control(text: str) -> dict[str, Any]:
    """Return a control as an experiment file has it; InputError if there is none like this."""
    from dumbbell.check.lab import parse_control
    from dumbbell.experiment.plugins import trust

    try:
        table = tomllib.loads(f"cc = {text}")["cc"] if text.lstrip().startswith("{") else {"name": text}
    except tomllib.TOMLDecodeError:
        raise WrongValue(
            quote_value(text),
            'a name, or a table such as { name = "bbr-draft", beta = 0.5 }',
            command="check",
            option="--cc",
        ) from None
    if isinstance(table, dict) and isinstance(table.get("plugin"), str):
        path = Path(table["plugin"]).expanduser().absolute()
        trust.trust(path.parent)  # who names it here wants its code to be run
        table["plugin"] = str(path)
    try:
        parse_control(json.dumps(table))
    except InputError as error:
        key = error.key.removeprefix("flows[0].cc").removeprefix(".name").removeprefix(".")
        raise error.move("check", f"--cc{': ' * bool(key)}{key}") from None
    assert isinstance(table, dict)
    return table


def _parse_folder(option: str, name: str | None) -> Path | None:
    if name is None:
        return None
    return make_folder(name, "a folder to write to", command="check", option=option)


def _keep(found: Any, logs: Path | None, drawings: Path | None) -> None:
    """Write the traces and figures that are wanted."""
    from dumbbell.check import figure, qlog_trace
    from dumbbell.check.cases import CASES

    for one in found.results:
        if one.run is None:
            continue
        case = CASES[one.case]
        title = f"{case.number}. {case.heading}: {one.verdict.result}"
        if logs is not None:
            path = logs / f"{figure.make_file_name(case, one.control, one.run)}.sqlog"
            qlog_trace.write(path, one.run, title, one.control, one.case)
        if drawings is not None and one.verdict.result == "failed":
            print(figure.save(one.run, case, one.verdict.result, one.control, drawings), file=sys.stderr)


def _draw_file(judged: judge.JudgedTrace, path: Path, name: str) -> None:
    from dumbbell.check import figure
    from dumbbell.check.cases import CASES

    folder = _parse_folder("--figures", name)
    assert folder is not None
    print(figure.save_file(judged.run, path.name, folder), file=sys.stderr)
    for one in judged.report.results:
        if one.verdict.result == "failed" and one.run is not None:
            print(figure.save(one.run, CASES[one.case], one.verdict.result, one.control, folder), file=sys.stderr)


def _parse_times(words: list[str]) -> dict[str, float]:
    from dumbbell.check.cases import TIMES

    named = [_split_named("--at", "NAME=TIME", text, TIMES) for text in words]
    return {name: _parse_quantity("time", "--at", text) / 1e9 for name, text in named}


def _parse_values(words: list[str]) -> dict[str, float]:
    from dumbbell.check.cases import VALUES

    return {
        name: _parse_real(text) for name, text in (_split_named("--value", "NAME=NUMBER", one, VALUES) for one in words)
    }


def _parse_states(words: list[str]) -> dict[str, str]:
    from dumbbell.check import states
    from dumbbell.check.trace import STATES

    found = {}
    for text in words:
        theirs, equals, ours = text.rpartition("=")
        if not equals or not states.normalise_name(theirs):
            raise WrongValue(quote_value(text), "THEIRS=OURS, such as Up=probe_up", command="check", option="--state")
        if ours not in (*STATES, states.IGNORED):
            raise UnknownName(quote_value(ours), among=(*STATES, "-"), command="check", option="--state", what="state")
        found[theirs] = ours
    return found


def _split_named(option: str, form: str, text: str, allowed: Iterable[str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise WrongValue(quote_value(text), form, command="check", option=option)
    if name not in allowed:
        raise UnknownName(quote_value(name), among=list(allowed), command="check", option=option)
    return name, value


def _parse_real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WrongValue(quote_value(text), "NAME=NUMBER", command="check", option="--value")
    return value
