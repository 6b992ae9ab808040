"""`dumbbell export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict
from dumbbell.writing import refuse_file_name


def export(
    results: options.File,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|FILE.flent.gz",
            help="Folder for a file per table, or per run for Flent; or the Flent file of one run.",
        ),
    ] = ".",
    form: Annotated[
        Literal["csv", "parquet", "flent"] | None,
        typer.Option("--format", help="csv by default; flent for one run if the output is FILE.flent.gz."),
    ] = None,
    where: options.Where = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="Runs of this engine. By default, all runs.")
    ] = "all",
) -> None:
    """Files that exist are not overwritten."""
    from dumbbell.exchange.flent import flent_export as flent
    from dumbbell.results.export import export_tables

    if flent.is_file(output):
        if form not in (None, "flent"):
            raise Conflict(
                f"--format {form} and the name {output}", "--format flent, or another name", command="export"
            )
        form = "flent"
    folder = Path(output)
    if form != "flent":
        refuse_file_name(folder, "a folder for a file of each table, or NAME.flent.gz for one run", command="export")
    found = None
    if form == "flent" or where or engine != "all":
        found = options.open_results(results, where, engine)
        found.require_whole_runs("export writes whole runs", options.KEYS_OF_RUNS)
    if form == "flent":
        assert found is not None
        paths = flent.export(found, output)
    else:
        paths = export_tables(results, folder, form or "csv", None if found is None else found.keys)
    print("\n".join(map(str, paths)))
