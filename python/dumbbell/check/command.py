"""`dumbbell check bbr`: the test cases of the IETF's draft of BBR, as a program."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from dumbbell.errors import InputError, nearest, shown

PASSED, FAILED = 0, 1
Option = typer.Option


def check(
    what: Annotated[str, typer.Argument(metavar="SUITE", help="Which suite: bbr.")],
    cc: Annotated[
        list[str] | None,
        Option(
            "--cc", metavar="NAME", help="Control, or a table with name and parameters; bbr1, bbr2, bbr3, bbr-draft."
        ),
    ] = None,
    case: Annotated[
        list[str] | None, Option("--case", metavar="CASE", help="Number or key of a case; all by default.")
    ] = None,
    rate: Annotated[
        list[str] | None, Option("--rate", help="Rate of the link, such as 10Mbit; several are allowed.")
    ] = None,
    rtt: Annotated[
        list[str] | None, Option("--rtt", help="Round-trip propagation, such as 20ms; several are allowed.")
    ] = None,
    trace: Annotated[
        str | None, Option("--trace", metavar="FILE", help="Judge this qlog file by one case instead of a run.")
    ] = None,
    at: Annotated[
        list[str] | None,
        Option(
            "--at", metavar="NAME=TIME", help="With --trace: when the set-up changed, if its header does not say it."
        ),
    ] = None,
    value: Annotated[
        list[str] | None, Option("--value", metavar="NAME=NUMBER", help="With --trace: the same of its values.")
    ] = None,
    jobs: Annotated[int | None, Option(min=1, help="Parts at a time; all cores by default.")] = None,
    as_json: Annotated[bool, Option("--json", help="Every verdict with all that was looked at, as JSON.")] = False,
    as_markdown: Annotated[bool, Option("--markdown", help="Tables for a page.")] = False,
    qlog: Annotated[str | None, Option("--qlog", metavar="DIR", help="Write the trace of every run as qlog.")] = None,
    figures: Annotated[
        str | None, Option("--figures", metavar="DIR", help="Draw the trace of every case that failed.")
    ] = None,
    listed: Annotated[bool, Option("--list", help="List the cases.")] = False,
) -> None:
    """Put congestion controls through the test cases of the BBR draft, over a grid of rates and RTTs.

    The status is 0 if all applicable cases passed, constants aside, 1 if one failed, 2 for bad input.
    """
    from dumbbell.check import report, suite
    from dumbbell.check.cases import CASES

    if what != "bbr":
        raise InputError("check", "", shown(what), "bbr", nearest(what, ["bbr"]))
    if as_json and as_markdown:
        raise InputError("check", "", "--json and --markdown", "one of them")
    cases = _cases(case or [])
    if listed:
        print(
            "\n".join(f"{CASES[key].number:3} {key:20} {CASES[key].heading}\n    {CASES[key].expects}" for key in cases)
        )
        return
    points, left_out = suite.grid(
        [_quantity("rate", "--rate", one) for one in rate or []] or suite.RATES,
        [_quantity("time", "--rtt", one) / 1e9 for one in rtt or []] or suite.RTTS,
    )
    if not points:
        largest = next(iter(left_out.items()))
        raise InputError("check", "--rate, --rtt", f"{largest[0]}: {largest[1]}", "a point of fewer segments")
    if trace is not None:
        _judge_file(trace, cases, points if rate and rtt else [], at or [], value or [], as_json=as_json)
        return
    if at or value:
        raise InputError("check", "--at" if at else "--value", "no --trace", "--trace FILE beside it")
    folders = [_folder(option, name) for option, name in (("--qlog", qlog), ("--figures", figures))]
    wanted = suite.Wanted(traces=qlog is not None, failing=figures is not None)
    controls = [_control(one) for one in cc or suite.VERSIONS]
    found = suite.check(controls, cases, points, jobs=jobs, wanted=wanted, progress=_progress)
    found = suite.Report(found.results, left_out, found.seconds, found.core_seconds)
    print(report.as_json(found) if as_json else report.markdown(found) if as_markdown else report.text(found))
    _keep(found, *folders)
    if any(one.verdict.result == "failed" for one in found.results):
        raise typer.Exit(FAILED)


def _cases(names: list[str]) -> list[str]:
    from dumbbell.check.cases import CASES

    if not names:
        return list(CASES)
    wanted = []
    for name in names:
        keys = [key for key, one in CASES.items() if name in (key, one.number, one.number.rstrip("ab"))]
        if not keys:
            allowed = ", ".join(f"{one.number} {key}" for key, one in CASES.items())
            raise InputError("check", "--case", shown(name), allowed, nearest(name, CASES))
        wanted += keys
    return list(dict.fromkeys(wanted))


def _quantity(kind: str, option: str, text: str) -> int:
    from dumbbell import units

    try:
        return int(units.parse(kind, text))
    except InputError as error:
        raise error.within("check", option) from None


def _control(text: str) -> dict[str, Any]:
    """Return a control as an experiment file has it; InputError if there is none like this."""
    from dumbbell.check.lab import control

    try:
        table = tomllib.loads(f"cc = {text}")["cc"] if text.lstrip().startswith("{") else {"name": text}
    except tomllib.TOMLDecodeError:
        raise InputError(
            "check", "--cc", shown(text), 'a name, or a table such as { name = "bbr-draft", beta = 0.5 }'
        ) from None
    try:
        control(json.dumps(table))
    except InputError as error:
        key = error.key.removeprefix("flows[0].cc").removeprefix(".name").removeprefix(".")
        raise InputError("check", f"--cc{': ' * bool(key)}{key}", error.found, error.allowed, error.nearest) from None
    assert isinstance(table, dict)
    return table


def _folder(option: str, name: str | None) -> Path | None:
    if name is None:
        return None
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "check", option, f"{name}: {(error.strerror or str(error)).lower()}", "a folder to write to"
        ) from None
    return folder


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} parts", end="" if done < of else "\n", file=sys.stderr, flush=True)


def _keep(found: Any, logs: Path | None, drawings: Path | None) -> None:
    """Write the traces and figures that are wanted."""
    from dumbbell.check import figure, qlog
    from dumbbell.check.cases import CASES

    for one in found.results:
        if one.run is None:
            continue
        case = CASES[one.case]
        title = f"{case.number}. {case.heading}: {one.verdict.result}"
        if logs is not None:
            qlog.write(logs / f"{figure.file_name(case, one.control, one.run)}.sqlog", one.run, title, one.control)
        if drawings is not None and one.verdict.result == "failed":
            print(figure.save(one.run, case, one.verdict, one.control, drawings), file=sys.stderr)


def _judge_file(
    file: str, cases: list[str], points: list[Any], at: list[str], value: list[str], *, as_json: bool
) -> None:
    """Judge a trace of whatever origin by one case."""
    from dumbbell.check import qlog, report
    from dumbbell.check.cases import CASES
    from dumbbell.check.lab import Point, Run, Setup

    if len(cases) != 1:
        raise InputError("check", "--trace", f"{len(cases)} cases", "--case CASE beside it, one")
    trace, header = qlog.read(Path(file))
    if points:
        point = points[0]
    elif {"rate_bit", "rtt_s"} <= set(header):
        point = Point(int(header["rate_bit"]), float(header["rtt_s"]))
    else:
        raise InputError(file, "", "no rate_bit and rtt_s in its header", "--rate and --rtt beside it")
    times = dict(header.get("times_s", {})) | {
        name: _quantity("time", "--at", text) / 1e9 for name, text in map(_named, at)
    }
    values = dict(header.get("values", {})) | {name: _real(text) for name, text in map(_named, value)}
    case = CASES[cases[0]]
    try:
        verdict = case.verdict(Run(trace, Setup(point, times, values)))
    except KeyError as missing:
        raise InputError(
            file,
            "",
            f"nothing that says {missing.args[0]!r}",
            f"--at {missing.args[0]!r}=TIME, or --value for a number",
        ) from None
    if as_json:
        print(
            json.dumps(
                {"number": case.number, "case": case.key, "heading": case.heading} | report.plain(verdict), indent=1
            )
        )
    else:
        lines = [
            f"  {'+' if one.held else 'c' if one.constant else 'F'} {one.what}: {one.found}" for one in verdict.checks
        ]
        reason = f": {verdict.reason}" if verdict.result == "not applicable" else ""
        print("\n".join([f"{case.number}. {case.heading}: {verdict.result}{reason}", *lines]))
    if verdict.result == "failed":
        raise typer.Exit(FAILED)


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("check", "--at", shown(text), "NAME=TIME")
    return name, value


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("check", "--value", shown(text), "NAME=NUMBER") from None
