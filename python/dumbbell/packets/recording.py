"""Runs a cell and writes its packets: pcapng or Parquet, or as a frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dumbbell import _native, engines
from dumbbell.engines.base import Captures, prepare_experiments
from dumbbell.errors import Conflict, Failed, escape_line
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.experiment.plugins import process
from dumbbell.packets.wanted import PacketSelection, list_points
from dumbbell.results.versions import find_kind
from dumbbell.scratch import Scratch, keep_whole
from dumbbell.waiting import run_engine
from dumbbell.writing import report_write_failures

if TYPE_CHECKING:
    import polars as pl

PCAPNG, PARQUET = ".pcapng", ".parquet"


@dataclass(frozen=True)
class WrittenPackets:
    """The file that was written: the file, how many packets it has, and the hash of what the run measured."""

    file: Path
    packets: int
    hash: str


def find_engine(experiment: Experiment, name: str) -> tuple[Captures | None, Experiment]:
    """Return the engine with this name, None for the simulator, and the experiment as that engine runs it."""
    if name == "sim":
        return None, experiment
    engine = engines.find_engine(name)
    if not isinstance(engine, Captures):
        raise Conflict(f"--engine {name} and packets", "--engine sim, linux or live", command="trace")
    return engine, prepare_experiments([experiment], engine)[0]


def write(cell: Cell, output: Path, wanted: PacketSelection, engine: Captures | None = None) -> WrittenPackets:
    """Run a cell and write its packets to a file that ends in .pcapng or .parquet; raises InputError.

    It is simulated unless there is an `engine`. Parquet has one row per packet and point, at all points unless some are
    wanted; the columns are those of `record_packets`.
    """
    with report_write_failures(output, "a file to write to", command="trace", option="--output"):
        if output.suffix == PARQUET:
            if wanted.snap is not None:
                raise Conflict(f"--snap and {output.name}", "--snap with a .pcapng file", command="trace")
            rows, digest = record_packets(cell, wanted, engine)
            rows.write_parquet(output)
            return WrittenPackets(output, rows.height, digest)
        # what cannot be written is known before the run; who reads a pipe takes it for ended once nobody has it open
        with keep_whole([output]), output.open("ab"):
            if engine is not None:
                result, count, _ = _capture_packets(cell, wanted, output, engine)
                return WrittenPackets(output, count, result.hash)
            count, digest = _run(cell, wanted, output, describe_cell(cell))
    return WrittenPackets(output, count, digest)


def record_packets(cell: Cell, wanted: PacketSelection, engine: Captures | None = None) -> tuple[pl.DataFrame, str]:
    """Run a cell and return its packets and the hash of what it measured; raises InputError.

    One row per packet and point, at all points unless some are wanted, in the order of time: `time_s`; `point`, `flow`,
    `direction` ("data" or "ack"), `protocol`; `length` of the frame and `payload`, bytes; `seq` and `ack`, bytes from
    the start; `flags`, `window` (bytes), `ecn`, `tsval` and `tsecr` (ms), `sack` ("start-end …"), `segment`,
    `retransmission`; and what became of it: `mark`, `mark_reason`, `mark_hop`, `drop_reason`, `drop_place`, `drop_hop`,
    `drop_s`. What an `engine` does not know is null.
    """
    import polars as pl  # a file of packets needs none, and a tenth of a second is much next to a short run

    wanted = wanted if wanted.points else replace(wanted, points=tuple(list_points(cell.groups)))
    if engine is not None:
        result, _, native = _capture_packets(cell, wanted, None, engine)
        return pl.DataFrame(native), result.hash
    if plugins.list_copies(cell.groups):
        with Scratch() as folder:
            _, digest = _run(cell, wanted, rows := folder / "rows.parquet", "")
            return pl.read_parquet(rows), digest
    result, _, native = _simulate_packets(cell, wanted, None, "")
    return pl.DataFrame(native), result.hash


def describe_cell(cell: Cell) -> str:
    """Return the comment of a file: which run it is."""
    keys = "".join(f", {key}={value}" for key, value in cell.matrix.items())
    title = f" ({cell.title})" if cell.title else ""
    how = "simulated" if find_kind(cell.engine) == "sim" else "carried out"
    return f"{cell.experiment}{title}{keys}, seed={cell.seed}, engine {cell.engine}, {how} by dumbbell"


def _capture_packets(
    cell: Cell, wanted: PacketSelection, output: Path | None, engine: Captures
) -> tuple[_native.Result, int, _native.Rows | None]:
    """Run on an engine whose kernels send."""
    try:
        with engine.capture_run(cell) as (result, files):
            count, rows = _native.write_captured(
                cell.config, files, output, comment=describe_cell(cell), **wanted.keywords
            )
            return result, count, rows
    except RuntimeError as error:
        raise Failed(escape_line(str(error)), "a run that can be carried out", command="trace") from None


def _run(cell: Cell, wanted: PacketSelection, output: Path, comment: str) -> tuple[int, str]:
    """Run and write; return how many packets there are, and the hash of what was measured.

    Plugins run in a process of its own, where they crash alone.
    """
    loaded = plugins.list_copies(cell.groups)
    if not loaded:
        result, count, _ = _simulate_packets(cell, wanted, output, comment)
        return count, result.hash
    job = {
        "config": cell.config,
        "plugins": loaded,
        "output": str(output.absolute()),
        "comment": comment,
        "wanted": wanted.keywords,
    }
    try:
        answer = process.carry_out("packets", job, site=output.suffix == PARQUET)
    except RuntimeError as error:
        raise Failed(str(error), "plugins that work", command="trace") from None
    return answer["count"], answer["hash"]


def _simulate_packets(
    cell: Cell, wanted: PacketSelection, output: Path | None, comment: str
) -> tuple[_native.Result, int, _native.Rows | None]:
    return run_engine("trace", _native.run_packets, cell.config, output, comment=comment, **wanted.keywords)
