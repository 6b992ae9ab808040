"""`dumbbell evaluate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumbbell.cli.commands import CommandGroup
from dumbbell.cli.evaluate_gate import EvaluationGate, list_criteria
from dumbbell.cli.evaluate_history import find_bad_commit, judge_history
from dumbbell.cli.evaluate_options import GateOptions, Listed, RunOptions, SuiteName, parse_quantity, refuse_together
from dumbbell.cli.evaluate_results import judge_results
from dumbbell.cli.evaluate_stack import stack
from dumbbell.cli.evaluate_trace import trace
from dumbbell.cli.option_groups import expand_options
from dumbbell.errors import Conflict, InputError, WrongValue, quote_value
from dumbbell.writing import write_text

if TYPE_CHECKING:
    from dumbbell.engines.base import Engine as RunEngine
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.evaluate.suite_file import EvaluationSuite

_NOT_A_STACK = "a congestion control alone; dumbbell evaluate stack grades a stack"
_ARGUMENTS = {"cc": "CONTROL", "aqm": "QUEUE", "media": "CONTROL"}
evaluate = typer.Typer(cls=CommandGroup, rich_markup_mode=None)
Option = typer.Option


@dataclass(frozen=True)
class PathOptions:
    """Options that choose the paths of judges."""

    rate: Annotated[
        list[str] | None,
        Option("--rate", metavar="RATE", help="Of judges: only this rate of the link. May be repeated."),
    ] = None
    rtt: Annotated[
        list[str] | None, Option("--rtt", metavar="TIME", help="Of judges: only this base RTT. May be repeated.")
    ] = None


@dataclass(frozen=True)
class OtherOptions:
    """Options that put others in the place of the suite's bars and engine, or next to the subject."""

    bars: Annotated[str | None, Option("--bars", metavar="FILE", help="Judge by these bars (TOML), by criterion.")] = (
        None
    )
    against: Annotated[
        str | None,
        Option(
            "--against", metavar="JSON|NAME", help="Show what changed from an earlier report, or from another subject."
        ),
    ] = None
    engine: Annotated[
        str,
        Option("--engine", metavar="ENGINE", help="sim, linux or linux:NAME; cells that it cannot run are left out."),
    ] = "sim"

    def check(self, gating: GateOptions, command: str) -> None:
        """Refuse what cannot be together. Raises InputError."""
        against = "--against", self.against
        refuse_together(
            (against, ("--baseline", gating.baseline)), (against, ("--known", gating.known)), command=command
        )
        if gating.keep is not None and self.engine != "sim":
            raise Conflict(
                "--keep and --engine", "one of them: only runs of the simulator can be kept", command=command
            )

    def find_engine(self) -> RunEngine | None:
        """Return the engine that runs the scenes, unless it is the simulator. Raises InputError."""
        from dumbbell.engines import find_engine

        return None if self.engine == "sim" else find_engine(self.engine)

    def replace_bars(self, suite: EvaluationSuite) -> EvaluationSuite:
        """Return the suite with the bars of the file, if there is one. Raises InputError."""
        from dumbbell.evaluate.suite_file import replace_bars

        return suite if self.bars is None else replace_bars(suite, Path(self.bars))

    def read_subject(self, kind: str) -> Candidate | None:
        """Return another subject, if it is not a report to which the subject is compared. Raises InputError."""
        if self.against is None or self.against.endswith(".json"):
            return None
        try:
            return _read_subject(self.against, kind)
        except InputError as error:
            raise error.move_into(f"evaluate {kind}", "--against: ") from None


_EXIT = """Every scene also runs with the yardsticks in its place: the same cells, the same seeds. Cells whose grade is
    not sure get more seeds.

    Exit status: 0 no criterion has grade --fail or worse, 1 one has, 2 bad input, 3 nothing could be judged.
    """


@evaluate.command()
@expand_options
def cc(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="CONTROL", help="A congestion control, a plugin's file, or a table of TOML."),
    ] = None,
    suite: SuiteName = "rfc9743",
    run: RunOptions,
    paths: PathOptions,
    gating: GateOptions,
    others: OtherOptions,
    listed: Listed = False,
) -> None:
    _evaluate("cc", name, suite, run, gating, others, paths, listed=listed)


@evaluate.command()
@expand_options
def aqm(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="QUEUE", help="A queue discipline, a plugin's file, or a table of TOML."),
    ] = None,
    suite: SuiteName = "rfc7928",
    run: RunOptions,
    gating: GateOptions,
    others: OtherOptions,
    listed: Listed = False,
) -> None:
    _evaluate("aqm", name, suite, run, gating, others, listed=listed)


@evaluate.command()
@expand_options
def media(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="CONTROL", help="A congestion control of media, such as nada, or a table of TOML."),
    ] = None,
    suite: SuiteName = "rfc8867",
    run: RunOptions,
    gating: GateOptions,
    others: OtherOptions,
    listed: Listed = False,
) -> None:
    _evaluate("media", name, suite, run, gating, others, listed=listed)


cc.__doc__ = aqm.__doc__ = media.__doc__ = _EXIT
evaluate.command("results")(judge_results)


evaluate.command()(stack)
evaluate.command()(trace)
evaluate.command("history")(judge_history)
evaluate.command("bisect")(find_bad_commit)


def _read_subject(text: str | None, kind: str) -> Candidate:
    """Return what an experiment file says of the subject; InputError if it is nothing that can be there."""
    from dumbbell.errors import Missing
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.experiment.plugins import trust
    from dumbbell.experiment.plugins.built import STACKS
    from dumbbell.experiment.settings import parse_setting

    command, argument = f"evaluate {kind}", _ARGUMENTS[kind]
    if not text:
        raise Missing("a name of dumbbell list, or the file of a plugin", command=command, key=argument)
    value: Any = parse_setting(f"subject={text}")[1]
    if isinstance(value, str) and (Path(value).is_file() or "/" in value or value.endswith((".so", ".dylib", ".py"))):
        value = {"plugin": value}
    if kind == "cc" and isinstance(value, str) and value.partition("-")[0] in STACKS:
        raise WrongValue(quote_value(text), _NOT_A_STACK, command=command, key=argument)
    if isinstance(value, dict) and isinstance(value.get("plugin"), str):
        path = Path(value["plugin"]).expanduser().absolute()
        trust.trust(path.parent)  # who names it here wants its code to be run
        value = value | {"plugin": str(path)}
    if not isinstance(value, str | dict):
        raise WrongValue(quote_value(text), "a name, a plugin's file or a table", command=command, key=argument)
    _check_subject(value, kind, command)
    return Candidate(text, value)


def _check_subject(value: Any, kind: str, command: str) -> None:
    """Raise InputError if an experiment cannot have this subject."""
    from dumbbell.experiment import plugins
    from dumbbell.experiment.file import parse
    from dumbbell.experiment.matrix import parse_path, set_path

    places = {"cc": "flows[0].cc", "aqm": "bottleneck.aqm", "media": "app[0].kind.control"}
    table: dict[str, Any] = {
        "duration": "1s",
        "bottleneck": {"rate": "1Mbit", "aqm": "pfifo"},
        "flows": [{"cc": "cubic", "base_rtt": "10ms"}],
        "app": [{"kind": {"name": "video", "source": "statistical"}, "base_rtt": "10ms"}],
    }
    place = places[kind]
    set_path(table, parse_path(place), value)
    try:
        cell = parse(table, "subject").make_cell(0)
    except InputError as error:
        key = error.key.removeprefix(place).removeprefix(".name").removeprefix(".")
        raise error.move(command, f"{_ARGUMENTS[kind]}{': ' * bool(key)}{key}") from None
    digest = cell.groups["flows"][0]["cc"].get("plugin")
    if digest is not None and plugins.get_known(digest).kind == "stack":
        raise WrongValue(quote_value(value["plugin"]), _NOT_A_STACK, command=command, key=_ARGUMENTS[kind])


def _evaluate(
    kind: str,
    name: str | None,
    suite_name: str,
    run: RunOptions,
    gating: GateOptions,
    others: OtherOptions,
    paths: PathOptions = PathOptions(),
    *,
    listed: bool,
) -> None:
    from dumbbell.evaluate.judging import EvaluationChoice
    from dumbbell.evaluate.verdict_report import to_json

    command = f"evaluate {kind}"
    gating.check(command)
    others.check(gating, command)
    rates, rtts = (
        tuple(parse_quantity(kind, option, one, command) for one in texts or ())
        for kind, option, texts in (("rate", "--rate", paths.rate), ("time", "--rtt", paths.rtt))
    )
    suite = run.load_suite(suite_name, kind, command)
    if (rates or rtts) and not suite.grid.rates:
        raise Conflict(f"--rate or --rtt and suite {suite_name}", "a suite with judges", command=command)
    if listed:
        engine = others.engine != "sim"
        gating.refuse_with_list(
            command, **vars(paths), jobs=run.jobs, bars=others.bars, against=others.against, engine=engine
        )
        print(list_criteria(suite, markdown=gating.form == "markdown"))
        return
    suite = others.replace_bars(suite)
    subject = _read_subject(name, kind)
    other = others.read_subject(kind)
    choice = EvaluationChoice(run.quick, rates, rtts, keep=gating.keep is not None, engine=others.find_engine())
    earlier = others.against
    if other is not None:
        earlier = f"{run.output}-against.json"
        report = to_json(run.carry_out(suite, replace(other, engine=others.engine), choice))
        write_text(Path(earlier), report, "a name in a folder that exists", command=command)
    gating = gating if earlier is None else replace(gating, baseline=earlier)
    gate = EvaluationGate(suite, subject, _list_names(kind, subject), gating)
    found = run.carry_out(suite, replace(subject, engine=others.engine), choice)
    gate.finish(found, run.output, command, compared=others.against)


def _list_names(kind: str, subject: Candidate) -> list[str] | None:
    """Return the names of the subject and of all of its kind that there are without a file; None if nobody knows."""
    from dumbbell.experiment.registry import read_registry

    names = getattr(read_registry(), kind, None)
    return [subject.name, *names] if names is not None else None
