"""`dumbbell report`."""

from typing import Annotated

import typer


def report(
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...", help="Results files; several are compared.")],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|FILE.html",
            help="One page, or a folder with the page and all data next to it.",
        ),
    ] = "report.html",
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="KEY=VALUE[,VALUE]", help="Only runs like this: docs/selecting.md."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="Runs of sim, live, linux, linux:NAME, a version, or all; by default the newest of each kind.",
        ),
    ] = None,
    claims: Annotated[
        list[str] | None, typer.Option("--claims", metavar="CLAIMS", help="Judge these claims: a file, or a study.")
    ] = None,
    run_program: Annotated[
        bool, typer.Option("--run-program", help="Run the program that the claims name, NAME.py next to them.")
    ] = False,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", metavar="CSV", help="Show these published numbers: a file, sce, linux-6.12, ..."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Instead of the title of the experiment.")] = None,
) -> None:
    """It needs no network. Claims and published numbers that come with dumbbell are taken in if they are about these
    runs.
    """
    from dumbbell import report as reporting
    from dumbbell.errors import Missing

    if run_program and not claims:
        raise Missing("a file of claims, whose program --run-program runs", command="report", option="--claims")
    print(
        reporting.write(
            results,
            output,
            where=where or [],
            engine=engine,
            claims=claims or [],
            references=reference or [],
            run_program=run_program,
            title=title,
        )
    )
