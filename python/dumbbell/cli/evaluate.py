"""`dumbbell evaluate`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dumbbell.cli.check_output import Progress
from dumbbell.cli.commands import CommandGroup
from dumbbell.cli.evaluate_results import judge_results
from dumbbell.cli.status import FAILED, INTERRUPTED
from dumbbell.errors import InputError, WrongValue, quote_value

if TYPE_CHECKING:
    from dumbbell.evaluate.evaluation import Evaluation
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.evaluate.suite_file import EvaluationSuite

_ARGUMENTS = {"cc": "CONTROL", "aqm": "QUEUE", "media": "CONTROL"}
evaluate = typer.Typer(cls=CommandGroup, rich_markup_mode=None)
Option = typer.Option

Name = Annotated[str, Option("--suite", metavar="NAME", help="A suite that comes with dumbbell, or a folder of yours.")]
Quick = Annotated[bool, Option("--quick", help="Run a part of the cells with fewer seeds, in a minute or two.")]
Only = Annotated[
    list[str] | None, Option("--only", metavar="ID[,ID]", help="Judge only these criteria, or sections such as 5.2.1.")
]
Output = Annotated[
    str, Option("-o", "--output", metavar="NAME", help="Write NAME.duckdb and NAME.html; runs in it are not repeated.")
]
Jobs = Annotated[int | None, Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")]
Form = Annotated[
    Literal["text", "markdown", "json"],
    Option("--format", help="markdown: for an appendix of a draft; json: every cell with all its numbers."),
]
Fail = Annotated[Literal["worse", "fails"], Option("--fail", help="The grade from which on the exit status is 1.")]
Listed = Annotated[bool, Option("--list", help="List the criteria of the suite with their sections, and exit.")]


_EXIT = """Every scene also runs with the yardsticks in its place: the same cells, the same seeds. Cells whose grade is
    not sure get more seeds.

    Exit status: 0 no criterion has grade --fail or worse, 1 one has, 2 bad input, 3 nothing could be judged.
    """


@evaluate.command()
def cc(
    name: Annotated[
        str | None,
        typer.Argument(metavar="CONTROL", help="A congestion control, a plugin's file, or a table of TOML."),
    ] = None,
    suite: Name = "rfc9743",
    quick: Quick = False,
    only: Only = None,
    output: Output = "evaluation",
    jobs: Jobs = None,
    form: Form = "text",
    fail: Fail = "worse",
    listed: Listed = False,
) -> None:
    _evaluate("cc", name, suite, only, listed=listed, quick=quick, output=output, jobs=jobs, form=form, fail=fail)


@evaluate.command()
def aqm(
    name: Annotated[
        str | None,
        typer.Argument(metavar="QUEUE", help="A queue discipline, a plugin's file, or a table of TOML."),
    ] = None,
    suite: Name = "rfc7928",
    quick: Quick = False,
    only: Only = None,
    output: Output = "evaluation",
    jobs: Jobs = None,
    form: Form = "text",
    fail: Fail = "worse",
    listed: Listed = False,
) -> None:
    _evaluate("aqm", name, suite, only, listed=listed, quick=quick, output=output, jobs=jobs, form=form, fail=fail)


@evaluate.command()
def media(
    name: Annotated[
        str | None,
        typer.Argument(metavar="CONTROL", help="A congestion control of media, such as nada, or a table of TOML."),
    ] = None,
    suite: Name = "rfc8867",
    quick: Quick = False,
    only: Only = None,
    output: Output = "evaluation",
    jobs: Jobs = None,
    form: Form = "text",
    fail: Fail = "worse",
    listed: Listed = False,
) -> None:
    _evaluate("media", name, suite, only, listed=listed, quick=quick, output=output, jobs=jobs, form=form, fail=fail)


cc.__doc__ = aqm.__doc__ = media.__doc__ = _EXIT
evaluate.command("results")(judge_results)


def _list_criteria(suite: EvaluationSuite) -> str:
    lines = []
    for one in suite.criteria:
        sections = ", ".join(one.answers)
        lines.append(f"{one.id}: {one.says} ({sections})")
    return "\n".join(lines)


def _read_subject(text: str | None, kind: str) -> Candidate:
    """Return what an experiment file says of the subject; InputError if it is nothing that can be there."""
    from dumbbell.errors import Missing
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.experiment.plugins import trust
    from dumbbell.experiment.settings import parse_setting

    command, argument = f"evaluate {kind}", _ARGUMENTS[kind]
    if not text:
        raise Missing("a name of dumbbell list, or the file of a plugin", command=command, key=argument)
    value: Any = parse_setting(f"subject={text}")[1]
    if isinstance(value, str) and Path(value).is_file():
        value = {"plugin": value}
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
        parse(table, "subject")
    except InputError as error:
        key = error.key.removeprefix(place).removeprefix(".name").removeprefix(".")
        raise error.move(command, f"{_ARGUMENTS[kind]}{': ' * bool(key)}{key}") from None


def _evaluate(
    kind: str,
    name: str | None,
    suite_name: str,
    only: list[str] | None,
    *,
    listed: bool,
    quick: bool,
    output: str,
    jobs: int | None,
    form: str,
    fail: str,
) -> None:
    from dumbbell.evaluate import verdict_report
    from dumbbell.evaluate.evaluation import evaluate as carry_out
    from dumbbell.evaluate.evaluation import find_status
    from dumbbell.evaluate.suite_file import KINDS, load_suite
    from dumbbell.writing import write_text

    suite = load_suite(suite_name).select([one for names in only or [] for one in names.split(",")])
    if suite.of != kind:
        allowed = f"a suite that evaluates {KINDS[kind]}"
        raise WrongValue(quote_value(suite_name), allowed, command=f"evaluate {kind}", option="--suite")
    if listed:
        print(_list_criteria(suite))
        return
    subject = _read_subject(name, kind)
    found: Evaluation = carry_out(suite, subject, f"{output}.duckdb", quick=quick, jobs=jobs, progress=Progress("runs"))
    if found.interrupted:
        print(f"interrupted: {output}.duckdb keeps the finished runs; the same command continues", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    command = shlex.join(["dumbbell", *sys.argv[1:]])
    page = Path(f"{output}.html")
    write_text(page, verdict_report.make_page(found, command), "a name in a folder that exists", command="evaluate")
    if form == "json":
        print(verdict_report.to_json(found))
    else:
        print(verdict_report.format_report(found, markdown=form == "markdown"))
    print(f"The page: {page}", file=sys.stderr)
    if found.failed:
        raise typer.Exit(FAILED)
    if status := find_status(found.verdicts, fail):
        raise typer.Exit(status)
