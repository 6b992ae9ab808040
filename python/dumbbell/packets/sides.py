"""The packets of a run as one side of a comparison: of a run that is carried out, or of a file with packets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from dumbbell import file_kinds
from dumbbell.errors import InputError, Nothing, Unfit, UnknownName
from dumbbell.experiment.file import Experiment
from dumbbell.packets import recording, wanted
from dumbbell.packets.parting import PacketSide
from dumbbell.results.one_cell import choose_cell
from dumbbell.writing import report_read_failures

SENDER = "sender"
_COLUMNS = ("flow", "direction", "protocol", "length", "payload", "seq", "ack", "flags", "window", "ecn", "sack")


def is_file_of_packets(path: str) -> bool:
    """Whether a file has packets: a capture, or Parquet."""
    if Path(path).suffix == recording.PARQUET:
        return True
    try:
        with Path(path).open("rb") as file:
            return file_kinds.is_capture(file.read(4))
    except OSError:
        return False  # a reader of another format says why


def read_side(path: str, point: str | None, flows: Sequence[int]) -> PacketSide:
    """Return the packets of a capture or a Parquet file of `dumbbell trace`; raises InputError."""
    file = Path(path)
    of_run = True
    with report_read_failures(path, "a file with packets"):
        if file.suffix == recording.PARQUET:
            rows = _read_parquet(file, point)
        else:
            from dumbbell.exchange.pcap import packet_rows as captured

            rows, of_run = captured.read(file, file.read_bytes(), point)
            rows = rows.with_columns(fate=pl.lit(None, dtype=pl.String))
    rows = rows.filter(pl.col("flow").is_in(list(flows))) if flows else rows
    if rows.is_empty():
        raise Nothing("found no packet of these flows", "flows that the file has", file=path, option="--flow")
    return PacketSide(path, rows, of_run)


def carry_out_side(
    experiment: Experiment,
    number: int | None,
    where: Sequence[str],
    engine: str,
    point: str | None,
    flows: Sequence[int],
) -> tuple[PacketSide, list[str]]:
    """Carry out one run of an experiment and return its packets, and what the engine does only nearly so.

    Raises InputError.
    """
    captures, experiment = recording.find_engine(experiment, engine)
    cell = choose_cell(experiment, number, where, "diff")
    selection = wanted.check_selection(cell, [point or SENDER], flows)
    notes = captures.check(cell, experiment.file) if captures is not None else []
    rows, _ = recording.record_packets(cell, selection, captures)
    return PacketSide(recording.describe_cell(cell), _select_columns(rows)), notes


def _read_parquet(file: Path, point: str | None) -> pl.DataFrame:
    try:
        rows = pl.read_parquet(file)
        points = rows["point"].unique(maintain_order=True).to_list()
        if point is None and len(points) == 1:
            point = points[0]
        if (point or SENDER) not in points:
            raise UnknownName(point or SENDER, among=points, file=file, option="--at", what="point")
        return _select_columns(rows.filter(pl.col("point") == (point or SENDER)))
    except (InputError, OSError):
        raise
    except Exception:  # of Polars and its reader, which are many
        raise Unfit("this table has no packets", "a file of dumbbell trace -o NAME.parquet", file=file) from None


def _select_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `recording.record_packets` with the columns that are compared."""
    text = [pl.col(name).cast(pl.String) for name in ("direction", "protocol", "flags", "ecn", "sack")]
    drop = pl.lit("dropped at ") + pl.col("drop_hop").cast(pl.String)
    fate = pl.concat_str(pl.col("mark").cast(pl.String), drop, separator=" ", ignore_nulls=True)
    return rows.with_columns(*text, fate=fate, time_ns=(pl.col("time_s") * 1e9).round().cast(pl.Int64)).select(
        "time_ns", *_COLUMNS, "fate"
    )
