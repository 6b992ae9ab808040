"""A laboratory for congestion control and active queue management."""

import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell._native import engine_version
from dumbbell.errors import InputError
from dumbbell.experiment import Experiment, load, parse
from dumbbell.store import TABLES, Store
from dumbbell.sweep import Report
from dumbbell.sweep import run as _run_sweep

__all__ = ["Experiment", "InputError", "Results", "engine_version", "load", "open_results", "run"]


class Results:
    """What runs measured, as polars data frames; rows of different tables are joined by `key`."""

    def __init__(self, tables: dict[str, pl.DataFrame], report: Report | None = None) -> None:
        self._tables = tables
        self.report = report

    @property
    def runs(self) -> pl.DataFrame:
        """One row a run: parameters (JSON), seed, hash, figures of queue and run; times in ms, rates in Mbit/s."""
        return self._tables["runs"]

    @property
    def flows(self) -> pl.DataFrame:
        """One row a flow or source of UDP of a run."""
        return self._tables["flows"]

    @property
    def classes(self) -> pl.DataFrame:
        """One row a class of traffic of a run: flows by congestion control and base RTT, UDP, short flows."""
        return self._tables["classes"]

    @property
    def series(self) -> pl.DataFrame:
        """One row a flow and interval of a run."""
        return self._tables["series"]

    @property
    def queue_series(self) -> pl.DataFrame:
        """One row an interval of a run: the queue."""
        return self._tables["queue_series"]

    @property
    def sojourn(self) -> pl.DataFrame:
        """One row a class and bin of a run's histogram of sojourn times."""
        return self._tables["sojourn"]

    @property
    def short_flows(self) -> pl.DataFrame:
        """One row a short flow of a run: size, start, completion time and slow-down."""
        return self._tables["short_flows"]

    @property
    def slowdowns(self) -> pl.DataFrame:
        """One row a class and range of sizes of a run: completion times and slow-down of all its short flows."""
        return self._tables["slowdowns"]


def open_results(path: str | Path, report: Report | None = None) -> Results:
    """Return everything in a results file; raises InputError if it is none."""
    with Store.open(path) as store:
        return Results({name: store.table(name) for name in TABLES}, report)


def run(
    experiment: str | Path | dict[str, Any] | Experiment,
    *,
    output: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    settings: list[str] | None = None,
) -> Results:
    """Run an experiment, given as a file or as the table that such a file holds, and return what it measured.

    Results go to the file `output`, which may hold some of them already; without it they are only returned. Runs
    are carried out on `jobs` cores or by the workers of the Dask scheduler whose address is `cluster`. `settings` are
    `KEY=VALUE` strings. Raises InputError (one line) on bad input, RuntimeError if a run fails and
    KeyboardInterrupt, after keeping what is finished, on Ctrl-C.
    """
    match experiment:
        case Experiment():
            checked = experiment
        case dict():
            checked = parse(experiment, "experiment", settings)
        case _:
            checked = load(experiment, settings)
    with tempfile.TemporaryDirectory() as folder:
        path = output if output is not None else Path(folder) / "results.duckdb"
        report = _run_sweep([checked], path, jobs=jobs, cluster=cluster, quiet=True)
        if report.interrupted:
            raise KeyboardInterrupt
        if report.failed:
            cell, text = report.failed[0]
            raise RuntimeError(f"{len(report.failed)} runs failed; the first: {cell.matrix} seed {cell.seed}: {text}")
        return open_results(path, report)
