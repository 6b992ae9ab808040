"""`dumbbell export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, WrongValue, quote_value

_FILES = (".csv", ".parquet", ".json", ".gz", ".bz2", ".zip", ".toml", ".duckdb")  # names of files, none of a folder


def export(
    results: options.File,
    output: Annotated[
        str, typer.Option("-o", "--output", help="Folder for one file per table, or per run for Flent; NAME.flent.gz.")
    ] = ".",
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV (the default).")] = False,
    as_parquet: Annotated[bool, typer.Option("--parquet", help="Parquet.")] = False,
    as_flent: Annotated[
        bool, typer.Option("--flent", help="Data files of Flent, one per run; so is -o NAME.flent.gz, for one run.")
    ] = False,
    where: options.Where = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="Runs of this engine, as for table.")
    ] = "all",
) -> None:
    from dumbbell.exchange.flent import flent_export as flent
    from dumbbell.results.export import export_tables

    formats = {"--csv": as_csv, "--parquet": as_parquet, "--flent": as_flent or flent.is_file(output)}
    if sum(formats.values()) > 1:
        raise Conflict(" and ".join(name for name, given in formats.items() if given), "one of them", command="export")
    folder = Path(output)
    if not formats["--flent"] and folder.suffix in _FILES and not folder.is_dir():
        allowed = "a folder for a file of each table, or NAME.flent.gz for one run"
        raise WrongValue(quote_value(output), allowed, command="export", key="-o")
    found = None
    if formats["--flent"] or where or engine != "all":
        found = options.open_results(results, where, engine)
        found.require_whole_runs("export writes whole runs", options.KEYS_OF_RUNS)
    if formats["--flent"]:
        assert found is not None
        paths = flent.export(found, output)
    else:
        paths = export_tables(
            results, folder, "parquet" if as_parquet else "csv", None if found is None else found.keys
        )
    print("\n".join(map(str, paths)))
