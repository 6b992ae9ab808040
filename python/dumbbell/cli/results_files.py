"""The options that commands on results files share, and how these commands open results and print rows."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumbbell.errors import Ambiguous, Nothing, UnknownName, Unreadable
from dumbbell.experiment import shipped
from dumbbell.results.columns import PARTS

if TYPE_CHECKING:
    from dumbbell.results.results import StoredResults

KEYS_OF_RUNS = "keys of runs, such as flows[*].cc or bottleneck.rate"
WHOSE = (*PARTS, "runs")

File = Annotated[str, typer.Argument(metavar="RESULTS", help="Results file written by dumbbell run.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="KEY=VALUE[,VALUE]",
        help="Only these runs, flows or classes, such as cc=cubic or rate=10Mbit,20Mbit.",
    ),
]
MeanOver = Annotated[
    list[str] | None, typer.Option("--mean-over", metavar="KEY", help="Average over the values of this key.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Runs of sim, live, linux (all kernels), linux:NAME, a version, or all. By default, the newest of sim.",
    ),
]
Of = Annotated[str | None, typer.Option(metavar="PART", help=f"Measures of {', '.join(PARTS)} or runs.")]


def open_results(path: str, where: list[str] | None = None, engine: str | None = None) -> StoredResults:
    """Return the runs that are asked for; raises InputError if the file has none."""
    from dumbbell.results.results import StoredResults

    results = StoredResults(path, engine=engine)
    if not results.keys:
        raise Nothing("found no finished run", "results of at least one run", file=path)
    return results.where(*(where or []))


def open_whole_runs(path: str, where: list[str] | None, engine: str | None, why: str) -> StoredResults:
    """Return runs of one engine; conditions on flows or classes are refused, and `why` says so. Raises InputError."""
    found = open_results(path, where, engine)
    if found.selected_engine == "linux" and len(found.engines) > 1:
        names = found.name_engines().values()
        raise Ambiguous(
            f"linux names {len(names)} kernels", f"one of {', '.join(names)}", file=found.path, option="--engine"
        )
    found.require_whole_runs(why, KEYS_OF_RUNS)
    return found


def require_part(of: str | None) -> None:
    """Raise UnknownName if `--of` names no part of runs."""
    if of is not None and of not in WHOSE:
        raise UnknownName(of, among=WHOSE, option="--of", what="part")


def find_reference(name: str) -> str:
    """Return the path of a reference: a file, or one of those that come with dumbbell, with or without its ending."""
    if Path(name).exists():
        return name
    stem = Path(name).name.removesuffix(".csv")
    own = shipped.list_references().get(stem)
    if own is None:
        return name
    if Path(name).name != name:
        raise Unreadable("there is no such file", "a CSV file of published results", file=name, nearest=stem)
    return str(own)


def print_csv(rows: list[dict[str, Any]]) -> None:
    """Print rows as CSV; a column is one that any row has."""
    writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(c for row in rows for c in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
