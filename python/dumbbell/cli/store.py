"""`dumbbell store`: is a results file whole, and saving what can be read of a damaged one."""

from typing import Annotated

import typer

from dumbbell.errors import count
from dumbbell.results import salvage

store = typer.Typer(no_args_is_help=True, add_completion=False, help="Check a results file, and save what is readable.")


@store.command("check")
def check_(results: Annotated[str, typer.Argument(metavar="FILE", help="Results file.")]) -> None:
    """Read everything in a results file, and say which runs are whole; status 1 if something is damaged."""
    found = salvage.check(results)
    print(found.text())
    if not found.is_whole:
        raise typer.Exit(1)


@store.command("save")
def save_(
    results: Annotated[str, typer.Argument(metavar="FILE", help="Results file.")],
    output: Annotated[str, typer.Option("-o", "--output", help="New results file.")],
) -> None:
    """Write every run that can be read whole to a new results file."""
    found = salvage.save(results, output)
    lost = found.tables["runs"].rows - len(found.whole)
    print(f"{count(len(found.whole), 'run')} saved, {lost} lost: {output}")
