"""`dumbbell play`."""

from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import run_options


def play(
    file: Annotated[
        str,
        typer.Argument(
            metavar="[FILE]",
            help="Experiment file, or a name from dumbbell list. By default, the first one of the page.",
        ),
    ] = "",
    cell: run_options.Number = None,
    where: run_options.Where = None,
    settings: run_options.Settings = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE.html", help="Write the page, which opens without a server.")
    ] = "",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of the address. By default, one that is free.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, but do not open it.")] = False,
) -> None:
    """The page simulates in the browser, with the digests of dumbbell run. It needs no network: the server is on this
    machine's loopback address.
    """
    from dumbbell import play as playground
    from dumbbell.errors import Conflict
    from dumbbell.experiment.file import load
    from dumbbell.results.one_cell import choose_cell
    from dumbbell.writing import write_text

    if not file and (settings or where or cell):
        raise Conflict("--set, --cell or --where without FILE", "FILE with them", command="play")
    if output and (port or no_browser):
        raise Conflict("--port or --no-browser and --output", "--output alone", command="play")
    chosen = choose_cell(load(file, settings), cell, where or [], "play") if file else None
    page = playground.make_page(chosen)
    if output:
        write_text(Path(output), page, "a file that can be written to", command="play", option="--output")
        print(output)
    else:
        playground.serve(page, port, opens=not no_browser)
