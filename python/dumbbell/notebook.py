"""Results as the reader of a notebook or a program has them: with tables, plots and differences at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from dumbbell.results import results
from dumbbell.results import run as one_run
from dumbbell.results.frames import To, given
from dumbbell.scratch import Scratch

if TYPE_CHECKING:
    import polars as pl

    from dumbbell.engines.sweep import Report
    from dumbbell.explain.explained import Explained
    from dumbbell.figures import Interactive, Picture
    from dumbbell.results.diff import Diff


Parts = Literal["flows", "runs", "classes", "slowdowns", "short_flows", "hops"]


class Run(one_run.Run):
    """A single run of a results file. Made by `Results.run`."""

    def packets(
        self,
        at: str | Sequence[str] = (),
        flows: int | Sequence[int] = (),
        time: str | tuple[float | str, float | str] | None = None,
        *,
        to: To = "polars",
    ) -> Any:
        """See `dumbbell.packets.again.packets`: every packet at every point; the run is simulated again.

        `to` is "polars", "pandas" or "arrow". Raises InputError if the run is not one of the simulator.
        """
        from dumbbell.packets import again

        return given(again.packets(self.results, at, flows, time), to)

    def explain(self, *, stored: bool = False) -> Explained:
        """See `dumbbell.explain`: what happened in the run, in sentences, as `dumbbell explain` says it.

        Printed it is text; `to_json()` has every fact with its numbers. The run is simulated again with its trace,
        unless `stored` says that the tables are enough. Raises InputError.
        """
        from dumbbell.explain import explained, observed, which

        run = observed.of_results(which.stored(str(self.results.path), self.key))
        if not stored:
            observed.repeat(run)
        return explained.explained(run)


class Results(results.Results):
    """Runs of a results file and what was measured in them. Made by `dumbbell.open` and `dumbbell.run`.

    Nothing is read before it is asked for. They are the runs of one version of the engine, unless several are asked
    for: `notes` names what is left out.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keys: Iterable[str] | None = None,
        engine: str | None = None,
        sweep: Report | None = None,
        folder: Scratch | None = None,
    ) -> None:
        super().__init__(path, keys=keys, engine=engine, folder=folder)
        self.sweep = sweep
        """What `dumbbell.run` did: how many runs were made, and how many were there already."""

    def table(self, *args: Any, **options: Any) -> Any:
        """See `dumbbell.results.tables.table`: a table of means with their intervals, any key by any other."""
        from dumbbell.results import tables

        return tables.table(self, *args, **options)

    @overload
    def plot(self, *args: Any, interactive: Literal[False] = False, **options: Any) -> Picture: ...
    @overload
    def plot(self, *args: Any, interactive: Literal[True], **options: Any) -> Interactive: ...
    def plot(self, *args: Any, interactive: bool = False, **options: Any) -> Picture | Interactive:
        """See `dumbbell.plotting.plot`: what suits the shape of the results, or what is asked for.

        It is a figure of matplotlib or, if `interactive`, one of Vega-Lite, with `save`, `spec` and `picture`.
        """
        from dumbbell import figures, plotting

        if not interactive:
            return plotting.plot(self, *args, **options)
        with figures.unarranged():
            return figures.Interactive(plotting.plot(self, *args, **options))

    def frame(self, name: str, *, to: To = "polars") -> Any:
        """Return the rows of a table that belong to these runs, for Polars, pandas (`to="pandas"`) or Arrow."""
        return given(super().frame(name), to)

    def tidy(self, of: Parts = "flows", *, to: To = "polars") -> Any:
        """Return one row per cell, seed and flow (or what else `of` names), with every key by which runs differ.

        See `dumbbell.results.results.Results.tidy`. `to` is "polars", "pandas" or "arrow".
        """
        return given(super().tidy(of), to)

    def sql(self, query: str, *, to: To = "polars", **frames: Any) -> Any:
        """Return what an SQL query (DuckDB) gives; `frames` are tables of yours, of any library.

        The tables hold these runs: those of one engine, unless several were asked for, and what `where` keeps of them.
        A warning says what engines are left out. `to` is "polars", "pandas" or "arrow".
        """
        return given(super().sql(query, **frames), to)

    def run(self, *conditions: str, **values: Any) -> Run:
        """Return the only run that meets the conditions, those of `where`; raises InputError if none or several do.

        `results.run("bottleneck.rate=10Mbit", seed=1).series("goodput", "srtt")` is what it did over time.
        """
        return Run(self.where(*conditions, **values))

    def report(self, output: str | Path = "report.html", **options: Any) -> Path:
        """See `dumbbell.report.write`: a page with all that these results say, which needs no network."""
        from dumbbell import report

        return report.write(self, output, **options)

    def packets(
        self,
        at: str | Sequence[str] = (),
        flows: int | Sequence[int] = (),
        time: str | tuple[float | str, float | str] | None = None,
    ) -> pl.DataFrame:
        """See `dumbbell.packets.again.packets`: every packet of one run at every point, simulated again."""
        from dumbbell.packets import again

        return again.packets(self, at, flows, time)

    def diff(self, other: results.Results | str | Path | None = None, *, by: str | None = None, **options: Any) -> Diff:
        """See `dumbbell.results.diff`: these results against others, or against themselves by a key."""
        from dumbbell.results import diff

        if other is not None and not isinstance(other, results.Results):
            other = Results(other)
        return diff.diff(self, other, by=by, **options)
