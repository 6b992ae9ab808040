"""`dumbbell diff`: what differs between two results, or where the packets of two runs part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from dumbbell.cli import results_files, run_options
from dumbbell.cli.status import DIFFERENT
from dumbbell.errors import Conflict, InputError, Missing, TooMany, WrongValue, quote_value
from dumbbell.experiment import units

Option = typer.Option
_OF_PACKETS = "--packets with it"


def diff(
    results: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS", help="Results file. With --packets: experiment file, .pcapng, .pcap or .parquet."
        ),
    ],
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="Compare with this file.")] = None,
    by: Annotated[
        str | None,
        Option(metavar="KEY[=A,B]", help="Compare runs with one value of a key with runs with another."),
    ] = None,
    value: Annotated[list[str] | None, Option(metavar="MEASURE", help="Measure to compare. By default, all.")] = None,
    where: results_files.Where = None,
    engine: Annotated[
        list[str] | None,
        Option(
            "--engine",
            metavar="ENGINE",
            help="Runs of sim, live, linux (all kernels), linux:NAME, a version, or all. By default, the newest of sim."
            " With --packets: the engine that runs FILE; give two to compare them.",
        ),
    ] = None,
    cells: Annotated[bool, Option("--cells", help="Print every cell that differs, not only each measure.")] = False,
    form: Annotated[
        Literal["markdown", "csv"], Option("--format", help="csv: one row per compared cell and measure.")
    ] = "markdown",
    packets: Annotated[
        bool, Option("--packets", help="Print the first packet that differs between two runs, or two files of packets.")
    ] = False,
    settings: run_options.Settings = None,
    cell: run_options.Number = None,
    at: Annotated[
        str | None,
        Option(
            metavar="POINT",
            help="With --packets: where packets are seen: sender (default), receiver, a hop or HOP:out.",
        ),
    ] = None,
    flow: run_options.Flows = None,
    within: Annotated[
        str | None, Option(metavar="TIME", help="With --packets: ignore differences in time up to this, such as 1us.")
    ] = None,
    around: Annotated[
        int | None,
        Option(min=1, max=1000, metavar="N", help="With --packets: print N packets before and after. By default, 5."),
    ] = None,
    trust: run_options.Trust = False,
) -> None:
    """Exit status: 0 no difference, 1 different, 2 bad input."""
    of_packets = {
        "--set": settings,
        "--cell": cell,
        "--at": at,
        "--flow": flow,
        "--within": within,
        "--around": around,
        "--trust": trust,
    }
    of_results = {"--value": value, "--cells": cells, "--format": form == "csv"}
    for name, given in (of_results if packets else of_packets).items():
        if given not in (None, False, []):
            allowed = f"--packets without {name}" if packets else _OF_PACKETS
            raise Conflict(f"--packets and {name}" if packets else f"{name} and results files", allowed, command="diff")
    if packets:
        asked = _DiffRequest(results, other, by, engine or [], settings or [], cell, where or [], at, flow or [])
        if trust:
            from dumbbell.experiment.plugins import trust as trusting

            for file in filter(None, (results, other)):
                trusting.trust(Path(file).absolute().parent)
        different = asked.print_parting(None if within is None else _parse_time(within), around)
    else:
        if engine and len(engine) > 1:
            raise Conflict("several --engine and results files", "--by engine_version, or --packets", command="diff")
        different = _compare(
            results,
            other,
            by,
            values=value or [],
            where=where,
            engine=engine[0] if engine else None,
            cells=cells,
            as_csv=form == "csv",
        )
    if different:
        raise typer.Exit(DIFFERENT)


def _compare(
    results: str,
    other: str | None,
    by: str | None,
    *,
    values: list[str],
    where: list[str] | None,
    engine: str | None,
    cells: bool,
    as_csv: bool,
) -> bool:
    """Print what differs between two results, or between values of a key, and return whether anything does."""
    from dumbbell.results import diff as differing

    if (other is None) == (by is None):
        if by is None:
            raise Missing("another results file, or --by KEY", command="diff", key="OTHER")
        raise Conflict("OTHER and --by", "one of them", command="diff")
    if cells and as_csv:
        raise Conflict("--cells and --format csv", "one of them", command="diff")
    engine = engine or differing.find_compared_engines(by)
    first = results_files.open_results(results, where, engine)
    second = None if other is None else results_files.open_results(other, where, engine)
    found = differing.compare_results(first, second, by=by, values=values)
    print(found.frame.write_csv() if as_csv else found.to_markdown(cells=cells), end="" if as_csv else "\n")
    return found.different


def _parse_time(text: str) -> int:
    try:
        return units.parse("time", text)
    except InputError as error:
        raise error.move("diff", "--within") from None


@dataclass(frozen=True)
class _DiffRequest:
    """The packets that are compared: of the files A and B, which may be the same."""

    first: str
    other: str | None
    by: str | None
    engines: Sequence[str]
    settings: Sequence[str]
    cell: int | None
    where: Sequence[str]
    point: str | None
    flows: Sequence[int]

    def find_files(self) -> tuple[str, str]:
        """Return both files; raises InputError if what is asked names no two sides, or more than two."""
        from dumbbell.packets import sides

        pairs = {"OTHER": self.other is not None, "--by": self.by is not None, "two --engine": len(self.engines) == 2}
        given = [name for name, is_given in pairs.items() if is_given]
        if self.by is not None and len(given) > 1:
            raise Conflict(" and ".join(given), "one of them", command="diff")
        if not given:
            raise Missing("another file, --by KEY=A,B, or --engine A --engine B", command="diff", key="OTHER")
        if len(self.engines) > 2:
            raise TooMany(f"{len(self.engines)} engines", "at most two", command="diff", option="--engine")
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
                    f"{name} and {recorded[0]}, which has packets of one run", "an experiment file", command="diff"
                )
        return files

    def print_parting(self, within_ns: int | None, around: int | None) -> bool:
        """Print where both sides part, and return whether they do."""
        from dumbbell.experiment.file import load
        from dumbbell.packets import parting, sides
        from dumbbell.results.selecting import split_values
        from dumbbell.results.versions import describe_difference

        files = self.find_files()
        settings = [list(self.settings), list(self.settings)]
        if self.by is not None:
            key, _, values = self.by.partition("=")
            parts = split_values(values)
            if len(parts) != 2 or not all(parts):
                raise WrongValue(quote_value(self.by), "a key with two values, KEY=A,B", command="diff", option="--by")
            for own, text in zip(settings, parts, strict=True):
                own.append(f"{key}={text}")
        engines = [*self.engines, *self.engines][:2] or ["sim", "sim"]
        both = []
        for file, own, engine in zip(files, settings, engines, strict=True):
            if sides.is_file_of_packets(file):
                both.append(sides.read_side(file, self.point, self.flows))
                continue
            experiment = load(file, own)
            side, notes = sides.carry_out_side(experiment, self.cell, self.where, engine, self.point, self.flows)
            for note in notes:
                print(describe_difference(engine.partition(":")[0], note), file=sys.stderr)
            both.append(replace(side, name=f"{', '.join(own)}: {side.name}") if self.by else side)
        found = parting.find(
            both[0], both[1], self.point or sides.SENDER, within_ns=within_ns, around=around or parting.AROUND
        )
        print(found.to_markdown())
        return found.different
