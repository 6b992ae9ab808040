"""`dumbbell diff`: what differs between two results, or where the packets of two runs part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import one_run, read
from dumbbell.errors import Conflict, InputError, Missing, TooMany, WrongValue, shown
from dumbbell.experiment import units
from dumbbell.experiment.file import load
from dumbbell.experiment.plugins import trust as trusting
from dumbbell.packets import parting, sides
from dumbbell.results.selecting import split_values
from dumbbell.results.versions import describe_difference

Option = typer.Option
_OF_PACKETS = "--packets with it"


def diff(
    results: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS", help="Results file; with --packets an experiment file, .pcapng, .pcap or .parquet."
        ),
    ],
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="What to hold against the first.")] = None,
    by: Annotated[
        str | None, Option(metavar="KEY[=A,B]", help="Hold the runs of one value of a key against another.")
    ] = None,
    value: Annotated[list[str] | None, Option(help="Measures to compare; by default all.")] = None,
    where: read.Where = None,
    engine: Annotated[
        list[str] | None,
        Option(
            "--engine",
            metavar="ENGINE",
            help="Runs of sim, live, linux (all kernels), linux:NAME, a version, or all; by default the newest of sim. "
            "With --packets what carries the runs out; given twice, one against the other.",
        ),
    ] = None,
    cells: Annotated[bool, Option("--cells", help="Every cell that differs, not only each measure.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="One row per compared cell and measure.")] = False,
    packets: Annotated[
        bool, Option("--packets", help="Print the first packet that differs between two runs or files of packets.")
    ] = False,
    settings: one_run.Settings = None,
    cell: one_run.Number = None,
    at: Annotated[
        str | None, Option(metavar="POINT", help="With --packets: sender (default), receiver, a hop or HOP:out.")
    ] = None,
    flow: one_run.Flows = None,
    within: Annotated[
        str | None, Option(metavar="TIME", help="With --packets: packets further apart than this differ, such as 1us.")
    ] = None,
    around: Annotated[
        int | None, Option(min=1, max=1000, metavar="N", help="With --packets: packets shown before and after; 5.")
    ] = None,
    trust: one_run.Trust = False,
) -> None:
    """Print what differs between two results, surest and largest first; or, with --packets, where two runs part.

    Exit status: 0 no difference, 1 different, 2 bad input.
    """
    of_packets = {
        "--set": settings,
        "--cell": cell,
        "--at": at,
        "--flow": flow,
        "--within": within,
        "--around": around,
        "--trust": trust,
    }
    of_results = {"--value": value, "--cells": cells, "--csv": as_csv}
    for name, given in (of_results if packets else of_packets).items():
        if given not in (None, False, []):
            allowed = "--packets without it" if packets else _OF_PACKETS
            raise Conflict("diff", "", f"--packets and {name}" if packets else f"{name} and results", allowed)
    if packets:
        asked = _Asked(results, other, by, engine or [], settings or [], cell, where or [], at, flow or [])
        if trust:
            for file in filter(None, (results, other)):
                trusting.trust(Path(file).absolute().parent)
        different = asked.parted(None if within is None else _time(within), around or parting.AROUND)
    else:
        if engine and len(engine) > 1:
            raise Conflict("diff", "", "several --engine and results", "--by engine_version, or --packets")
        different = read.differ(
            results,
            other,
            by,
            values=value or [],
            where=where,
            engine=engine[0] if engine else None,
            cells=cells,
            as_csv=as_csv,
        )
    if different:
        raise typer.Exit(read.DIFFERENT)


def _time(text: str) -> int:
    try:
        return units.parse("time", text)
    except InputError as error:
        raise error.moved("diff", "--within") from None


@dataclass(frozen=True)
class _Asked:
    """Which packets are compared: of the files A and B, which may be the same."""

    first: str
    other: str | None
    by: str | None
    engines: Sequence[str]
    settings: Sequence[str]
    cell: int | None
    where: Sequence[str]
    point: str | None
    flows: Sequence[int]

    def files(self) -> tuple[str, str]:
        """Return both files; raises InputError if what is asked names no two sides, or more than two."""
        pairs = {"OTHER": self.other is not None, "--by": self.by is not None, "two --engine": len(self.engines) == 2}
        given = [name for name, is_given in pairs.items() if is_given]
        if self.by is not None and len(given) > 1:
            raise Conflict("diff", "", " and ".join(given), "one of them")
        if not given:
            raise Missing("diff", "OTHER", "another file, --by KEY=A,B, or --engine A --engine B")
        if len(self.engines) > 2:
            raise TooMany("diff", "--engine", f"{len(self.engines)} engines", "two")
        files = (self.first, self.other if self.other is not None else self.first)
        recorded = [file for file in files if sides.is_file_of_packets(file)]
        of_runs = {
            "--by": self.by,
            "two --engine": len(self.engines) == 2,
            "--engine": self.engines,
            "--set": self.settings,
            "--cell": self.cell is not None,
            "--where": self.where,
        }
        for name, is_given in list(of_runs.items())[: 2 if len(recorded) == 1 else None]:
            if recorded and is_given:
                raise Conflict(
                    "diff", "", f"{name} and {recorded[0]}, which has packets of one run", "an experiment file"
                )
        return files

    def parted(self, within_ns: int | None, around: int) -> bool:
        """Print where both sides part, and return whether they do."""
        files = self.files()
        settings = [list(self.settings), list(self.settings)]
        if self.by is not None:
            key, _, values = self.by.partition("=")
            parts = split_values(values)
            if len(parts) != 2 or not all(parts):
                raise WrongValue("diff", "--by", shown(self.by), "a key with two values, KEY=A,B")
            for own, text in zip(settings, parts, strict=True):
                own.append(f"{key}={text}")
        engines = [*self.engines, *self.engines][:2] or ["sim", "sim"]
        both = []
        for file, own, engine in zip(files, settings, engines, strict=True):
            if sides.is_file_of_packets(file):
                both.append(sides.of_file(file, self.point, self.flows))
                continue
            experiment = load(file, own)
            side, notes = sides.of_run(experiment, self.cell, self.where, engine, self.point, self.flows)
            for note in notes:
                print(describe_difference(engine.partition(":")[0], note), file=sys.stderr)
            both.append(replace(side, name=f"{', '.join(own)}: {side.name}") if self.by else side)
        found = parting.find(both[0], both[1], self.point or sides.SENDER, within_ns=within_ns, around=around)
        print(found.markdown())
        return found.different
