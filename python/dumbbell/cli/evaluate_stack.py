"""`dumbbell evaluate stack`: a QUIC stack judged from outside."""

from __future__ import annotations

import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dumbbell.cli import gate_options
from dumbbell.cli.evaluate_gate import EvaluationGate, GateOptions, Keep, list_criteria
from dumbbell.cli.gate_options import Progress, refuse_together
from dumbbell.cli.status import INTERRUPTED
from dumbbell.errors import InputError, Missing, WrongValue, quote_value

if TYPE_CHECKING:
    from dumbbell.evaluate.evaluation import Evaluation
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.evaluate.suite_file import EvaluationSuite

Option = typer.Option
_COMMAND = "evaluate stack"
WINDOW, _OWN = "64MB", "own"
# windows of flow control that hold more than a path: what the receiver allows, and what the sender keeps
_WINDOWS = {"receive_window": 1, "stream_receive_window": 1, "send_window": 8}


def stack(
    name: Annotated[
        str | None, typer.Argument(metavar="STACK", help="A stack of dumbbell stack list, or the file of one.")
    ] = None,
    cc: Annotated[
        str | None, Option("--cc", metavar="NAME", help="Congestion control of the stack. By default, its own default.")
    ] = None,
    against: Annotated[
        str | None, Option("--against", metavar="OTHER", help="Another stack: only what is worse than it counts.")
    ] = None,
    against_cc: Annotated[
        str | None,
        Option("--against-cc", metavar="NAME", help="Congestion control of OTHER. By default, that of --cc."),
    ] = None,
    window: Annotated[
        str, Option("--window", metavar="SIZE", help=f"Windows of flow control, or {_OWN} for the stack's own.")
    ] = WINDOW,
    set_: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a parameter of the stack. May be repeated.")
    ] = None,
    suite: Annotated[
        str, Option("--suite", metavar="NAME", help="A suite that comes with dumbbell, or a folder of yours.")
    ] = "stack",
    quick: Annotated[bool, Option("--quick", help="Run a part of the cells with fewer seeds.")] = False,
    only: Annotated[
        list[str] | None, Option("--only", metavar="ID[,ID]", help="Judge only these criteria, or groups such as c4.")
    ] = None,
    place: Annotated[
        list[str] | None,
        Option("--place", metavar="PLACE", help="Judge only this place of the scenes. May be repeated."),
    ] = None,
    output: Annotated[
        str, Option("-o", "--output", metavar="NAME", help="Write NAME.duckdb and NAME.html; runs are not repeated.")
    ] = "evaluation",
    jobs: Annotated[int | None, Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")] = None,
    form: gate_options.Format = "text",
    fail: Annotated[
        Literal["worse", "fails"], Option("--fail", help="The grade from which on the exit status is 1.")
    ] = "worse",
    known: gate_options.Known = None,
    baseline: gate_options.Baseline = None,
    junit: gate_options.Junit = None,
    github: gate_options.Github = False,
    keep: Keep = None,
    listed: Annotated[
        bool, Option("--list", help="List the criteria of the suite with their groups, and exit.")
    ] = False,
) -> None:
    """TCP's CUBIC runs in the stack's place. A bar that Linux's control of the same family misses, too, does not count.

    Exit status: 0 no criterion has grade --fail or worse, 1 one has (with --against: NAME is worse than OTHER), 2 bad
    input, 3 nothing could be judged.
    """
    from dumbbell.evaluate.judging import EvaluationChoice, carry_out
    from dumbbell.evaluate.suite_file import load_suite

    options = GateOptions(form, fail, known, baseline, junit, github, keep)
    options.check(_COMMAND)
    refuse_together(
        (("--against", against), ("--known", known)),
        (("--against", against), ("--baseline", baseline)),
        command=_COMMAND,
    )
    chosen = load_suite(suite).select([one for names in only or [] for one in names.split(",")])
    if "stack" not in chosen.kinds:
        raise WrongValue(quote_value(suite), "a suite that evaluates a QUIC stack", command=_COMMAND, option="--suite")
    if listed:
        options.refuse_with_list(_COMMAND, cc=cc, against=against, place=place, jobs=jobs)
        print(list_criteria(chosen, markdown=form == "markdown"))
        return
    if not name:
        raise Missing("a stack of dumbbell stack list, or the file of one", command=_COMMAND, key="STACK")
    if against_cc is not None and against is None:
        raise Missing("the stack whose control --against-cc is", command=_COMMAND, option="--against")
    subject, control = _select_subject(name, cc, window, set_ or [])
    chosen = _select_criteria(chosen, control)
    gate = EvaluationGate(chosen, subject, _list_known_names(_resolve_path(name)) if known else None, options)
    other = None
    if against is not None:
        other, _ = _select_subject(against, against_cc or control or None, window, set_ or [], "--against-cc")
        if other.name == subject.name:
            raise WrongValue(quote_value(against), f"another stack than {name}", command=_COMMAND, option="--against")
    choice = EvaluationChoice(quick, keep=keep is not None, places=tuple(place or ()))
    results = f"{output}.duckdb"

    def evaluate_one(one: Candidate) -> Evaluation:
        found = carry_out(chosen, one, results, choice, jobs=jobs, progress=Progress("runs"))
        if found.interrupted:
            print(f"interrupted: {results} keeps the finished runs; the same command continues", file=sys.stderr)
            raise typer.Exit(INTERRUPTED)
        return found

    found, theirs = evaluate_one(subject), evaluate_one(other) if other is not None else None
    line = shlex.join(["dumbbell", *sys.argv[1:]])
    gate.finish(found, page=f"{output}.html", results=results, command=_COMMAND, commands=line, other=theirs)


def _select_criteria(suite: EvaluationSuite, control: str) -> EvaluationSuite:
    """Return a suite with the criteria alone that are about a control. Raises InputError if there is none."""
    kept = tuple(one for one in suite.criteria if control.startswith(one.only))
    if not kept:
        allowed = f"a control whose name begins with {suite.criteria[0].only}"
        raise WrongValue(quote_value(control), allowed, command=_COMMAND, option="--cc")
    answered = {section for one in kept for section in one.answers}
    return replace(
        suite, criteria=kept, paragraphs={key: one for key, one in suite.paragraphs.items() if key in answered}
    )


def _select_subject(
    name: str, control: str | None, window: str, settings: list[str], option: str = "--cc"
) -> tuple[Candidate, str]:
    """Return a stack with its windows and parameters, and its control; `option` names that. Raises InputError."""
    from dumbbell.evaluate import stack_subject
    from dumbbell.experiment.plugins import trust

    name = _resolve_path(name)
    if name.startswith("/"):
        trust.trust(Path(name).parent)  # who names it here wants its code to be run
    try:
        known = stack_subject.list_parameters(name)
    except InputError as error:
        raise error.move(_COMMAND, "") from None
    keys: dict[str, Any] = {}
    if window != _OWN:
        size = _parse_size(window)
        keys = {key: f"{size * many}B" for key, many in _WINDOWS.items() if key in known}
    keys |= dict(_parse_setting(one) for one in settings)
    try:
        return stack_subject.make_subject(name, control, keys)
    except InputError as error:
        inner = error.key.partition(".stack.")[2]
        raise error.move(_COMMAND, f"--set: {inner}" if inner else option) from None


def _resolve_path(name: str) -> str:
    """Return the absolute path of a stack that is named by its file, and other names as they are."""
    return str(Path(name).absolute()) if "/" in name or name.endswith((".so", ".dylib")) else name


def _list_known_names(stack: str) -> list[str]:
    """Return what controls of stacks are called that there are: of this stack, and of those that are built."""
    from dumbbell.evaluate import stack_subject
    from dumbbell.experiment.plugins import built

    others = [f"{one.name}-{control}" for one in built.list_installed() for control in one.controls]
    return list(dict.fromkeys([*stack_subject.list_controls(stack), *others]))


def _parse_size(text: str) -> int:
    from dumbbell.experiment import units

    try:
        return int(units.parse("size", text))
    except InputError as error:
        raise error.move_into(_COMMAND, "--window") from None


def _parse_setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise WrongValue(quote_value(text), "KEY=VALUE, such as ack_frequency=true", command=_COMMAND, option="--set")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
