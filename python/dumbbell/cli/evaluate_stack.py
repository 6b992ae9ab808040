"""`dumbbell evaluate stack`: a QUIC stack judged from outside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumbbell.cli.evaluate_gate import EvaluationGate, list_criteria
from dumbbell.cli.evaluate_options import GateOptions, Listed, RunOptions, SuiteName, parse_quantity, refuse_together
from dumbbell.cli.option_groups import expand_options
from dumbbell.errors import InputError, Missing, WrongValue, quote_value

if TYPE_CHECKING:
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.evaluate.suite_file import EvaluationSuite

Option = typer.Option
_COMMAND = "evaluate stack"
WINDOW, _OWN = "64MB", "own"


@dataclass(frozen=True)
class StackOptions:
    """Options of what of a stack is judged, and where."""

    cc: Annotated[
        str | None, Option("--cc", metavar="NAME", help="Congestion control of the stack. By default, its own default.")
    ] = None
    window: Annotated[
        str, Option("--window", metavar="SIZE", help=f"Windows of flow control, or {_OWN} for the stack's own.")
    ] = WINDOW
    set_: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a parameter of the stack. May be repeated.")
    ] = None
    place: Annotated[
        list[str] | None,
        Option("--place", metavar="PLACE", help="Judge only this place of the scenes. May be repeated."),
    ] = None


@expand_options
def stack(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="STACK", help="A stack of dumbbell stack list, or the file of one.")
    ] = None,
    options: StackOptions,
    against: Annotated[
        str | None, Option("--against", metavar="OTHER", help="Another stack: only what is worse than it counts.")
    ] = None,
    against_cc: Annotated[
        str | None,
        Option("--against-cc", metavar="NAME", help="Congestion control of OTHER. By default, that of --cc."),
    ] = None,
    suite: SuiteName = "stack",
    run: RunOptions,
    gating: GateOptions,
    listed: Listed = False,
) -> None:
    """TCP's CUBIC runs in the stack's place. A bar that Linux's control of the same family misses, too, does not count.

    Exit status: 0 no criterion has grade --fail or worse, 1 one has (with --against: NAME is worse than OTHER), 2 bad
    input, 3 nothing could be judged.
    """
    from dumbbell.evaluate.judging import EvaluationChoice

    gating.check(_COMMAND)
    refuse_together(
        (("--against", against), ("--known", gating.known)),
        (("--against", against), ("--baseline", gating.baseline)),
        command=_COMMAND,
    )
    chosen = run.load_suite(suite, "stack", _COMMAND)
    if listed:
        gating.refuse_with_list(_COMMAND, cc=options.cc, against=against, place=options.place, jobs=run.jobs)
        print(list_criteria(chosen, markdown=gating.form == "markdown"))
        return
    if not name:
        raise Missing("a stack of dumbbell stack list, or the file of one", command=_COMMAND, key="STACK")
    if against_cc is not None and against is None:
        raise Missing("the stack whose control --against-cc is", command=_COMMAND, option="--against")
    subject, control = select_subject(name, options)
    chosen = select_criteria(chosen, control)
    gate = EvaluationGate(chosen, subject, _list_known_names(_resolve_path(name)) if gating.known else None, gating)
    other = None
    if against is not None:
        of_other = replace(options, cc=against_cc or control or None)
        other, _ = select_subject(against, of_other, "--against-cc")
        if other.name == subject.name:
            raise WrongValue(quote_value(against), f"another stack than {name}", command=_COMMAND, option="--against")
    choice = EvaluationChoice(run.quick, keep=gating.keep is not None, places=tuple(options.place or ()))
    found = run.carry_out(chosen, subject, choice)
    theirs = run.carry_out(chosen, other, choice) if other is not None else None
    gate.finish(found, run.output, _COMMAND, other=theirs)


def select_criteria(suite: EvaluationSuite, control: str) -> EvaluationSuite:
    """Return a suite with the criteria alone that are about a control. Raises InputError if there is none."""
    kept = tuple(one for one in suite.criteria if control.startswith(one.only))
    if not kept:
        allowed = f"a control whose name begins with {suite.criteria[0].only}"
        raise WrongValue(quote_value(control), allowed, command=_COMMAND, option="--cc")
    answered = {section for one in kept for section in one.answers}
    return replace(
        suite, criteria=kept, paragraphs={key: one for key, one in suite.paragraphs.items() if key in answered}
    )


def select_subject(name: str, options: StackOptions, option: str = "--cc") -> tuple[Candidate, str]:
    """Return a stack with its windows and parameters, and its control; `option` names that. Raises InputError."""
    from dumbbell.evaluate import stack_subject
    from dumbbell.experiment.plugins import trust

    name = _resolve_path(name)
    if name.startswith("/"):
        trust.trust(Path(name).parent)  # who names it here wants its code to be run
    try:
        stack_subject.list_parameters(name)
    except InputError as error:
        raise error.move(_COMMAND, "") from None
    window = None if options.window == _OWN else parse_quantity("size", "--window", options.window, _COMMAND)
    settings = dict(_parse_setting(one) for one in options.set_ or [])
    try:
        return stack_subject.make_subject(name, options.cc, settings, window)
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


def _parse_setting(text: str) -> tuple[str, Any]:
    from dumbbell.experiment.settings import parse_setting

    try:
        return parse_setting(text)
    except InputError:
        allowed = "KEY=VALUE, such as ack_frequency=true"
        raise WrongValue(quote_value(text), allowed, command=_COMMAND, option="--set") from None
