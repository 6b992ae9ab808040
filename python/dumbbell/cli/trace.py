"""`dumbbell trace`: the packets of a run, for Wireshark and for frames."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import run_options
from dumbbell.experiment import units
from dumbbell.words import format_count

Option = typer.Option


def trace(
    file: run_options.File,
    output: Annotated[
        str, Option("-o", "--output", metavar="FILE", help="File: .pcapng, .parquet, .qlog or .sqlog.")
    ] = "run.pcapng",
    settings: run_options.Settings = None,
    cell: run_options.Number = None,
    where: run_options.Where = None,
    at: Annotated[
        list[str] | None,
        Option(metavar="POINT", help="sender, receiver, a hop or HOP:out, all; several are allowed."),
    ] = None,
    flow: run_options.Flows = None,
    time: Annotated[str | None, Option(metavar="FROM..TO", help="Part of the time, such as 1s..2s.")] = None,
    snap: Annotated[
        int | None, Option(metavar="BYTES", help="Bytes kept of each frame, 0: all; by default headers.")
    ] = None,
    engine: Annotated[
        str,
        Option("--engine", metavar="ENGINE", help="What runs it: sim, live, linux or linux:NAME, as of dumbbell run."),
    ] = "sim",
    trust: run_options.Trust = False,
) -> None:
    """By default those that the senders' hosts send and receive; what queues did with them stands in their comments."""
    from dumbbell.errors import Conflict, WrongValue, quote_value
    from dumbbell.experiment.file import load
    from dumbbell.experiment.plugins import trust as trusting
    from dumbbell.packets import recording as writing
    from dumbbell.packets import wanted
    from dumbbell.qlog import contained
    from dumbbell.results import versions
    from dumbbell.results.one_cell import choose_cell

    path = Path(output)
    qlog = path.suffix in (".qlog", ".sqlog")
    if not qlog and path.suffix not in (writing.PCAPNG, writing.PARQUET):
        raise WrongValue(
            quote_value(output),
            "a name that ends in .pcapng, .parquet, .qlog or .sqlog",
            command="trace",
            option="--output",
        )
    given = {"--at": at, "--time": time, "--snap": snap}
    if qlog and (others := [name for name, value in given.items() if value is not None]):
        raise Conflict(f"{others[0]} and {path.name}", f"{others[0]} with a .pcapng or .parquet file", command="trace")
    if trust:
        trusting.trust(Path(file).absolute().parent)
    experiment = load(file, settings)
    if qlog and engine != "sim":
        some = "--engine sim, or linux or live with a .pcapng or .parquet file"
        raise Conflict(f"--engine {engine} and {path.name}", some, command="trace")
    captures, experiment = writing.find_engine(experiment, engine)
    chosen = choose_cell(experiment, cell, where or [], "trace")
    if qlog:
        contained.run(chosen, path, flow or [])
        print(path)
        return
    asked = wanted.check_selection(
        chosen, at or (), flow or (), None if time is None else units.parse_span(time, "--time"), snap
    )
    if captures is not None:
        for note in captures.check(chosen, experiment.file):
            print(versions.describe_difference(versions.find_kind(experiment.engine), note), file=sys.stderr)
    written = writing.write(chosen, path, asked, captures)
    print(path)
    print(format_count(written.packets, "packet"), file=sys.stderr)
