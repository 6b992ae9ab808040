"""`dumbbell claims`."""

from __future__ import annotations

from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.cli.status import DIFFERENT
from dumbbell.errors import Conflict


def claims(
    results: options.File,
    file: Annotated[
        str, typer.Argument(metavar="[CLAIMS]", help="File of claims, or a study: coexistence.")
    ] = "coexistence",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID[,ID]", help="Only these claims or sections.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every verdict with all its numbers, as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One row per claim.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="A page: every claim by section.")] = False,
    fail: Annotated[bool, typer.Option("--fail", help="Leave with 1 if a claim fails.")] = False,
    run_program: Annotated[
        bool,
        typer.Option("--run-program", help="Run the program that the claims name as frames, NAME.py next to them."),
    ] = False,
    where: options.Where = None,
    engine: options.Engine = None,
) -> None:
    """Exit status: 0 done, 1 a claim fails (with --fail), 2 bad input."""
    from dumbbell import claims as claiming
    from dumbbell.claims import claims_report

    if as_json + as_csv + as_markdown > 1:
        raise Conflict("--json, --csv and --markdown", "one of them", command="claims")
    wanted = claiming.load(file).select([name for names in only or [] for name in names.split(",")])
    found = options.open_whole_runs(results, where, engine, "claims are of whole runs")
    verdicts = claiming.judge(wanted, claiming.run_tables(wanted, found, run_program=run_program))
    if as_csv:
        options.print_csv([claims_report.make_row(one) for one in verdicts])
    else:
        shape = (
            claims_report.to_json
            if as_json
            else claims_report.format_markdown
            if as_markdown
            else claims_report.format_report
        )
        print("\n\n".join([shape(wanted, verdicts), *([] if as_json else found.notes)]))
    if fail and any(one.verdict == claiming.FAILS for one in verdicts):
        raise typer.Exit(DIFFERENT)
