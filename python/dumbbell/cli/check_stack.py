"""`dumbbell check stack`: a QUIC stack judged from outside."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumbbell.cli import gate_options
from dumbbell.cli.evaluate_gate import list_writers
from dumbbell.cli.gate_options import Progress, check_report_options, join_lines, refuse_together, write_junit
from dumbbell.errors import InputError, Missing, UnknownName, WrongValue, find_nearest, quote_value
from dumbbell.words import format_count
from dumbbell.writing import make_folder

if TYPE_CHECKING:
    from dumbbell.check.stack import suite
    from dumbbell.check.stack.stack_case import StackCase
    from dumbbell.check.stack.suite import StackResult

Option = typer.Option
WINDOW = "64MB"
SEEDS = 5
# windows of flow control that hold more than a path: what the receiver allows, and what the sender keeps
_WINDOWS = {"receive_window": 1, "stream_receive_window": 1, "send_window": 8}
_OWN = "own"
_DEFAULT: tuple[str | None, ...] = (None,)  # control


def stack(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A stack of dumbbell stack list, or the file of one.")
    ] = "",
    cc: Annotated[
        list[str] | None,
        Option(
            "--cc",
            metavar="NAME",
            help="Congestion control of the stack. By default, its own default. May be repeated.",
        ),
    ] = None,
    against: Annotated[
        str | None, Option("--against", metavar="OTHER", help="Compare with another stack in the same places.")
    ] = None,
    against_cc: Annotated[
        str | None,
        Option("--against-cc", metavar="NAME", help="Congestion control of OTHER. By default, that of --cc."),
    ] = None,
    case: Annotated[
        list[str] | None, Option("--case", metavar="CASE", help="A case, or a group of cases. By default, all.")
    ] = None,
    place: Annotated[
        list[str] | None, Option("--place", metavar="PLACE", help="A place of these cases. By default, all.")
    ] = None,
    keep: Annotated[
        str | None,
        Option("--keep", metavar="DIR", help="Write experiment, qlog and packets of each failing cell to this folder."),
    ] = None,
    window: Annotated[
        str,
        Option("--window", metavar="SIZE", help=f"Windows of flow control, or {_OWN} for the stack's own."),
    ] = WINDOW,
    set_: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a parameter of the stack. May be repeated.")
    ] = None,
    seeds: Annotated[
        int, Option("--seeds", min=1, max=100, metavar="N", help="Runs of each scene, with different start times.")
    ] = SEEDS,
    jobs: Annotated[int | None, Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")] = None,
    form: gate_options.Format = "text",
    known: gate_options.Known = None,
    baseline: gate_options.Baseline = None,
    junit: gate_options.Junit = None,
    github: gate_options.Github = False,
    listed: Annotated[bool, Option("--list", help="List the cases with limits and sources, and exit.")] = False,
) -> None:
    """Difficult paths lose, reorder, change and fail. The limits come from RFCs and measurements.

    Exit status: 0 all is within the limits, 1 something failed (with --against: NAME is worse in a verdict), 2 bad
    input, 3 nothing was judged or a verdict is uncertain.
    """
    from dumbbell.check.stack import against as comparison
    from dumbbell.check.stack import keep as keeping
    from dumbbell.check.stack import stack_report, suite
    from dumbbell.check.stack.cases import CASES
    from dumbbell.evaluate import gate as ci

    check_report_options(form=form, known=known, baseline=baseline, junit=junit, github=github)
    refuse_together(
        (("--against", against), ("--known", known)),
        (("--against", against), ("--baseline", baseline)),
        (("--against", against), ("several --cc", len(cc or []) > 1)),
    )
    keys = _select_cases(case or [])
    if listed:
        print(stack_report.format_cases(keys) if form == "markdown" else stack_report.list_cases(keys))
        return
    if not name:
        raise Missing("a stack of dumbbell stack list, or the file of one", command="check stack", key="NAME")
    if against_cc is not None and against is None:
        raise Missing("the stack whose control --against-cc is", command="check stack", option="--against")
    before = ci.read_report(Path(baseline), suite.STACK) if baseline else None
    subjects = [_select_subject(name, one, window, set_ or []) for one in cc or _DEFAULT]
    kept = Path(keep) if keep is not None else None
    if kept is not None:
        make_folder(kept, "a folder to write to", command="check", option="--keep")
    chosen = _select_places([CASES[key] for key in keys], place or [])
    expected = ci.read_expected(Path(known), suite.STACK, _list_known_names(_resolve_path(name))) if known else None
    other = None
    if against is not None:
        other = _select_subject(against, against_cc or subjects[0].control or None, window, set_ or [], "--against-cc")
        if other.name == subjects[0].name:
            raise WrongValue(quote_value(against), f"another stack than {name}", command="check", option="--against")
    found = suite.check(
        [*subjects, *([other] if other else [])],
        chosen,
        seeds=range(1, seeds + 1),
        jobs=jobs,
        progress=Progress("runs"),
    )
    others: dict[str, Any] = {}
    lines: list[str] = []
    lead: list[str] = []
    judged = found
    if other is None:
        gate = ci.make_gate(found, suite.STACK, expected, before)
        if baseline:
            for one in subjects:
                gate.figures += comparison.list_worse_figures(
                    comparison.compare_with_report(Path(baseline), found, one.name)
                )
        if known or baseline:
            others["gate"] = ci.to_json(gate)
            lines = gate.to_lines() or [f"nothing differs from {known or baseline}"]
    else:
        judged = found.select_control(subjects[0].name)
        gate = comparison.gate_against(found, subjects[0].name, other.name)
        change = comparison.find_changed_verdicts(found, subjects[0].name, other.name)
        different = comparison.compare_controls(found, subjects[0], other)
        gate.figures += comparison.list_worse_figures(different)
        others["gate"] = ci.to_json(gate)
        others["differences"] = comparison.list_differences(different) if different is not None else []
        lead = [
            change.describe_changes(subjects[0].name, other.name),
            *stack_report.list_headlines(found, subjects[0].name, other.name),
        ]
        lead += ["", *change.to_lines(), "", comparison.format_differences(different) if different is not None else ""]
    if kept is not None:
        made = keeping.keep(judged.results, kept, list_writers(), lambda text: print(text, file=sys.stderr))
        print(f"{kept}: the runs of {format_count(len(made), 'cell')} that failed", file=sys.stderr)
    elif form == "text":
        command = _write_command(name, window, set_ or [], seeds)
        if again := stack_report.list_commands(found, command, other=other.name if other else ""):
            lines += ["To run what failed again, and keep the runs:", *again]
    if form == "json":
        print(stack_report.to_json(found, **others))
    else:
        as_text = stack_report.format_markdown if form == "markdown" else stack_report.format_report
        shown_report = as_text(found, lead=lead, other=other.name if other else "", expected=gate.expected)
        print(join_lines([shown_report, *([""] if lines else []), *lines]))
    if junit is not None:
        write_junit(junit, ci.format_junit(judged, gate, suite.STACK))
    if github:
        print("\n".join(ci.list_annotations(judged, gate, suite.STACK)))
    if status := ci.find_status(judged, gate, suite.STACK):
        raise typer.Exit(status)


def _select_places(cases: Sequence[StackCase], places: list[str]) -> list[StackCase]:
    """Return cases in some of their places alone."""
    known = list(dict.fromkeys(scene.place for one in cases for scene in one.scenes))
    for name in places:
        if name not in known:
            raise UnknownName(
                quote_value(name),
                among=known,
                command="check",
                option="--place",
                nearest=find_nearest(name, known),
                what="place",
            )
    if not places:
        return list(cases)
    found = [replace(one, scenes=tuple(scene for scene in one.scenes if scene.place in places)) for one in cases]
    return [one for one in found if one.scenes]


def _write_command(name: str, window: str, settings: list[str], seeds: int) -> Callable[[StackResult, list[str]], str]:
    """Return what makes the command that repeats cells of a case."""

    def make_command(one: StackResult, places: list[str]) -> str:
        words = ["dumbbell", "check", "stack", name]
        if one.subject is not None and one.subject.control:
            words += ["--cc", one.subject.control]
        words += ["--case", one.case, *(word for place in places for word in ("--place", place))]
        words += ["--window", window] * (window != WINDOW) + ["--seeds", str(seeds)] * (seeds != SEEDS)
        return shlex.join([*words, *(word for text in settings for word in ("--set", text)), "--keep", "kept"])

    return make_command


def _select_cases(names: list[str]) -> list[str]:
    from dumbbell.check.stack.cases import CASES, GROUPS

    wanted = [] if names else [*CASES]
    for name in names:
        keys = [key for key, one in CASES.items() if name in (key, one.group)]
        if not keys:
            allowed = [*GROUPS, *CASES]
            raise UnknownName(
                quote_value(name),
                among=allowed,
                command="check",
                option="--case",
                nearest=find_nearest(name, allowed),
                what="case",
            )
        wanted += keys
    return [key for key in CASES if key in wanted]


def _select_subject(
    name: str, control: str | None, window: str, settings: list[str], option: str = "--cc"
) -> suite.Subject:
    """Return a stack's control with its windows and parameters; `option` names the control. Raises InputError."""
    from dumbbell.check.stack import suite
    from dumbbell.experiment.plugins import trust

    name = _resolve_path(name)
    if name.startswith("/"):
        trust.trust(Path(name).parent)  # who names it here wants its code to be run
    try:
        known = suite.list_parameters(name)
    except InputError as error:
        raise error.move("check", "") from None
    keys: dict[str, Any] = {}
    if window != _OWN:
        size = _parse_size(window)
        keys = {key: f"{size * many}B" for key, many in _WINDOWS.items() if key in known}
    keys |= dict(_parse_setting(one) for one in settings)
    try:
        return suite.select_subject(name, control, keys)
    except InputError as error:
        inner = error.key.partition(".stack.")[2]
        raise error.move("check", f"--set: {inner}" if inner else option) from None


def _resolve_path(name: str) -> str:
    """Return the absolute path of a stack that is named by its file, and other names as they are."""
    return str(Path(name).absolute()) if "/" in name or name.endswith((".so", ".dylib")) else name


def _list_known_names(stack: str) -> list[str]:
    """Return what controls of stacks are called that there are: of this stack, and of those that are built."""
    from dumbbell.check.stack import suite
    from dumbbell.experiment.plugins import built

    others = [f"{one.name}-{control}" for one in built.list_installed() for control in one.controls]
    return list(dict.fromkeys([*suite.list_names(stack), *others]))


def _parse_size(text: str) -> int:
    from dumbbell.experiment import units

    try:
        return int(units.parse("size", text))
    except InputError as error:
        raise error.move_into("check", "--window") from None


def _parse_setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise WrongValue(quote_value(text), "KEY=VALUE, such as ack_frequency=true", command="check", option="--set")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
