"""`dumbbell evaluate results`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dumbbell.cli import results_files as options
from dumbbell.cli.evaluate_gate import format_command_line, write_page
from dumbbell.cli.evaluate_options import split_names, strip_ending
from dumbbell.cli.status import FAILED
from dumbbell.errors import Missing

if TYPE_CHECKING:
    from dumbbell.evaluate.statement_report import Judged

_WHY = "statements are judged on whole runs"
_NOTHING_JUDGED = 3


def judge_results(
    files: Annotated[
        list[str],
        typer.Argument(metavar="RESULTS...", help="Results files, or a folder that dumbbell study run has written to."),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            "--suite", metavar="NAME", help="A study, or a folder with suite.toml. By default, those about these runs."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID[,ID]", help="Judge only these statements or sections.")
    ] = None,
    form: Annotated[
        Literal["text", "markdown", "csv", "json"],
        typer.Option(
            "--format", help="text; markdown: a page by section; csv: a row a statement; json: all numbers of each."
        ),
    ] = "text",
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="NAME", help="Write a page, NAME.html, in addition.")
    ] = None,
    run_program: Annotated[
        bool, typer.Option("--run-program", help="Run NAME.py next to the suite, if it names it as its program.")
    ] = False,
    where: options.Where = None,
    engine: options.Engine = None,
) -> None:
    """Nothing is run. Exit status: 0 every statement holds or has no data, 1 one fails, 2 bad input, 3 nothing could
    be judged.
    """
    from dumbbell.evaluate import statement_report as reporting
    from dumbbell.evaluate import statement_verdict as judging
    from dumbbell.evaluate.statement_file import load_statements

    names = suite or _find_suites(files, engine)
    chosen = split_names(only)
    judged, notes = [], []
    for name in names:
        wanted = load_statements(name).select(chosen)
        paths = [path for file in files for path in _list_files(Path(file), wanted.results)]
        found = [options.open_whole_runs(str(path), where, engine, _WHY) for path in paths]
        verdicts = judging.judge_statements(wanted, judging.collect_tables(wanted, found, run_program=run_program))
        judged.append((wanted, verdicts))
        notes += [note for one in found for note in one.notes]
        if form == "csv":
            options.print_csv([reporting.make_row(one) for one in verdicts])
        elif form == "json":
            print(reporting.make_json(wanted, verdicts))
        else:
            write = reporting.format_statement_page if form == "markdown" else reporting.format_statements
            print("\n\n".join([write(wanted, verdicts), *(note for one in found for note in one.notes)]))
    if output is not None:
        _write_page(output, judged, notes)
    grades = [one.grade for _, verdicts in judged for one in verdicts]
    if judging.FAILS in grades:
        raise typer.Exit(FAILED)
    if judging.HOLDS not in grades:
        raise typer.Exit(_NOTHING_JUDGED)


def _write_page(name: str, judged: Judged, notes: Sequence[str]) -> None:
    from dumbbell.evaluate.statement_report import make_statement_page

    output = strip_ending(name)
    text = make_statement_page(judged, format_command_line(), list(dict.fromkeys(notes)))
    write_page(output, text, "evaluate results")
    print(f"The page: {output}.html", file=sys.stderr)


def _list_files(path: Path, inside: Sequence[str]) -> list[Path]:
    """Return a results file or, of a folder, those `inside` that a suite names, every one if it names none."""
    if not path.is_dir():
        return [path]
    return [path / name for name in inside] or sorted(path.glob("*.duckdb")) or [path]


def _find_suites(files: list[str], engine: str | None) -> list[str]:
    """Return the suites that come with dumbbell about the experiments of results files. Raises InputError."""
    from dumbbell.evaluate.statement_file import list_suites_about
    from dumbbell.experiment import shipped

    experiments = [name for file in files for name in options.open_results(file, None, engine).runs["experiment"]]
    if names := list_suites_about(experiments):
        return names
    raise Missing(f"a folder with suite.toml, or one of {', '.join(shipped.list_suites())}", option="--suite")
