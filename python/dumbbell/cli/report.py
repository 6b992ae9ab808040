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
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", metavar="NAME", help="Judge these statements: a study, or a folder with suite.toml."),
    ] = None,
    run_program: Annotated[
        bool, typer.Option("--run-program", help="Run NAME.py next to the suite, if it names it as its program.")
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
    playground: Annotated[
        bool,
        typer.Option("--playground", help="Write playground.html next to the page, in which its runs open."),
    ] = False,
) -> None:
    """The page needs no network. Statements and published numbers that come with dumbbell are shown if they are
    about these runs.
    """
    from dumbbell import report as reporting
    from dumbbell.errors import Missing

    if run_program and not suite:
        raise Missing("the suite whose program --run-program runs", command="report", option="--suite")
    print(
        reporting.write(
            results,
            output,
            where=where or [],
            engine=engine,
            suites=suite or [],
            references=reference or [],
            run_program=run_program,
            title=title,
            playground=playground,
        )
    )
