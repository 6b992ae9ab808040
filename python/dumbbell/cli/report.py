"""`dumbbell report`."""

from typing import Annotated

import typer


def report(
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...", help="Results file. Several are compared.")],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|FILE.html",
            help="A page, or a folder for the page with all its data.",
        ),
    ] = "report.html",
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="KEY=VALUE[,VALUE]", help="Only these runs, such as aqm=codel or rate=10Mbit,20Mbit."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="Runs of sim, live, linux, linux:NAME, a version, or all. By default, the newest of each kind.",
        ),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option("--claims", metavar="CLAIMS", help="Judge these claims: a file, or the name of a study."),
    ] = None,
    run_program: Annotated[
        bool, typer.Option("--run-program", help="Run NAME.py next to the claims, if they name it as their frames.")
    ] = False,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            metavar="CSV",
            help="Show these published numbers: a file, or a name such as sce or linux-6.12.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title of the page, instead of that of the experiment.")
    ] = None,
) -> None:
    """The page needs no network. Claims and published numbers that come with dumbbell are shown if they are about these
    runs.
    """
    from dumbbell import report as reporting
    from dumbbell.errors import Missing

    if run_program and not claims:
        raise Missing("the claims whose program --run-program runs", command="report", option="--claims")
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
