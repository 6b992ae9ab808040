"""`dumbbell store`: is a results file whole, and saving what can be read of a damaged one."""

from typing import Annotated

import typer

from dumbbell.cli.commands import CommandGroup
from dumbbell.words import format_count

store = typer.Typer(cls=CommandGroup, rich_markup_mode=None)


@store.command("check")
def check_(results: Annotated[str, typer.Argument(metavar="FILE", help="Results file.")]) -> None:
    """Read everything in a results file, and say which runs are whole; status 1 if something is damaged."""
    from dumbbell.results import salvage

    found = salvage.check(results)
    print(found.to_text())
    if not found.is_whole:
        raise typer.Exit(1)


@store.command("save")
def save_(
    results: Annotated[str, typer.Argument(metavar="FILE", help="Results file.")],
    output: Annotated[str, typer.Option("-o", "--output", help="New results file.")],
) -> None:
    """Write every run that can be read whole to a new results file."""
    from dumbbell.results import salvage

    found = salvage.save(results, output)
    lost = found.tables["runs"].rows - len(found.whole)
    print(f"{format_count(len(found.whole), 'run')} saved, {lost} lost: {output}")
