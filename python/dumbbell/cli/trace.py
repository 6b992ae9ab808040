"""`dumbbell trace`: the packets of a run, for Wireshark and for frames, and its qlog."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell.cli import run_options
from dumbbell.experiment import units
from dumbbell.words import format_count

if TYPE_CHECKING:
    from dumbbell.experiment.cell import Cell

Option = typer.Option


def trace(
    file: run_options.File,
    output: Annotated[
        str,
        Option(
            "-o",
            "--output",
            metavar="FILE|DIR",
            help="File: .pcapng, .parquet, .qlog, or .sqlog of one flow. Without an ending: a folder of qlog files.",
        ),
    ] = "run.pcapng",
    settings: run_options.Settings = None,
    cell: run_options.Number = None,
    where: run_options.Where = None,
    at: Annotated[
        list[str] | None,
        Option(
            metavar="POINT", help="Where packets are seen: sender, receiver, a hop, HOP:out or all. May be repeated."
        ),
    ] = None,
    flow: run_options.Flows = None,
    time: Annotated[str | None, Option(metavar="FROM..TO", help="Part of the time, such as 1s..2s.")] = None,
    snap: Annotated[
        int | None, Option(metavar="BYTES", help="Bytes kept of each frame, 0 for all. By default, headers.")
    ] = None,
    engine: Annotated[
        str,
        Option("--engine", metavar="ENGINE", help="The engine: sim, live, linux or linux:NAME."),
    ] = "sim",
    qvis: Annotated[bool, Option("--qvis", help="Write qlog 0.3, for qvis, instead of the newest drafts.")] = False,
    stacks: Annotated[
        bool, Option("--stacks", help="Let QUIC stacks write their own qlog into the folder as well.")
    ] = False,
    trust: run_options.Trust = False,
) -> None:
    """By default, packets are those that the senders' hosts send and receive; comments say what queues did with them.
    qlog has what each sender does and estimates, and what queues do.
    """
    from dumbbell.errors import Conflict
    from dumbbell.experiment.file import load
    from dumbbell.experiment.plugins import trust as trusting
    from dumbbell.packets import recording as writing
    from dumbbell.packets import wanted
    from dumbbell.results import versions
    from dumbbell.results.one_cell import choose_cell

    path = Path(output)
    is_packets = _check_output(path, {"--at": at, "--time": time, "--snap": snap}, {"--qvis": qvis, "--stacks": stacks})
    if trust:
        trusting.trust(Path(file).absolute().parent)
    experiment = load(file, settings)
    if not is_packets and engine != "sim":
        some = "--engine sim, or linux or live with a .pcapng or .parquet file"
        raise Conflict(f"--engine {engine} and {path.name}", some, command="trace")
    captures, experiment = writing.find_engine(experiment, engine)
    chosen = choose_cell(experiment, cell, where or [], "trace")
    if not is_packets:
        _write_qlog(chosen, path, flow or [], qvis=qvis, stacks=stacks)
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


def _check_output(path: Path, of_packets: dict[str, object], of_qlog: dict[str, bool]) -> bool:
    """Return whether a file of packets is written, not qlog. Raises InputError if an option does not fit."""
    from dumbbell.errors import Conflict, WrongValue, quote_value
    from dumbbell.packets import recording

    is_packets = path.suffix in (recording.PCAPNG, recording.PARQUET)
    if not is_packets and path.suffix not in ("", ".qlog", ".sqlog"):
        allowed = "a name that ends in .pcapng, .parquet, .qlog or .sqlog, or a folder for qlog"
        raise WrongValue(quote_value(str(path)), allowed, command="trace", option="--output")
    for name, given in (of_qlog if is_packets else of_packets).items():
        if given not in (None, False):
            allowed = "a folder or a .sqlog file" if is_packets else "a .pcapng or .parquet file"
            raise Conflict(f"{name} and {path.name}", f"{name} with {allowed}", command="trace")
    return is_packets


def _write_qlog(cell: Cell, path: Path, flows: list[int], *, qvis: bool, stacks: bool) -> None:
    """Run a cell and write a folder of qlog files, the file of one flow, or one file with all."""
    from dumbbell.errors import Conflict
    from dumbbell.qlog import contained
    from dumbbell.qlog import write as writing

    if path.suffix != ".qlog":
        print("\n".join(map(str, writing.write(cell, path, flows, old=qvis, stacks=stacks).files)))
        return
    for name, given in {"--qvis": qvis, "--stacks": stacks}.items():
        if given:
            raise Conflict(f"{name} and {path.name}", f"{name} with a folder", command="trace")
    contained.run(cell, path, flows)
    print(path)
