"""Results as a notebook or a program has them: the public classes `Results` and `Run`.

Each holds a handle of `dumbbell.results` and hands its questions to the functions of the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from dumbbell.errors import Unfit
from dumbbell.experiment.given import decode_path
from dumbbell.keywords import list_keywords
from dumbbell.plotting.request import PlotOptions
from dumbbell.results import results as stored
from dumbbell.results import run as over_time
from dumbbell.results.frames import ResultTables, To, convert_frame
from dumbbell.results.in_memory import RunsInMemory
from dumbbell.searching.found import SearchFindings

if TYPE_CHECKING:
    import polars as pl

    from dumbbell.engines.sweep import SweepReport
    from dumbbell.explain.explained import Explained
    from dumbbell.figures import Interactive, Picture
    from dumbbell.results.diff import Diff
    from dumbbell.results.tables import Table

Parts = Literal["flows", "runs", "classes", "slowdowns", "short_flows", "hops"]
Other = Literal["pandas", "arrow"]


class Search(SearchFindings):
    """A search: its candidates, its front, a figure of it, and the runs of its front. Made by `dumbbell.search`."""

    @property
    def results(self) -> Results:
        """The runs of the front."""
        return Results(self.path)

    def plot(self, *objectives: str, log_x: bool | None = None, log_y: bool | None = None) -> Picture:
        """Return a figure of the front by two objectives, the first two unless others are named."""
        from dumbbell.plotting.front import draw_front

        return draw_front(self, objectives, log_x=log_x, log_y=log_y)


class Results(ResultTables):
    """Runs of a results file and what was measured in them. Made by `dumbbell.open` and `dumbbell.run`.

    Nothing is read before it is asked for. They are the runs of one version of the engine, unless several are asked
    for: `notes` names what is left out. Frames have one row per run or per part of a run; columns of times, rates and
    sizes end in their unit: `_ms`, `_s`, `_mbit`, `_bytes`.
    """

    def __init__(
        self,
        source: str | Path | stored.StoredResults,
        *,
        engine: str | None = None,
        sweep: SweepReport | None = None,
    ) -> None:
        self._runs = stored.StoredResults(source, engine=engine) if isinstance(source, (str, Path)) else source
        self.sweep = sweep
        """What `dumbbell.run` did: how many runs were made, and how many were there already."""
        self.item: int | None = None
        """The position of the experiment among those that `dumbbell.simulate_many` was given, counted from 0."""

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return repr(self._runs)

    def _repr_html_(self) -> str:
        return self._runs._repr_html_()

    # which runs

    @property
    def path(self) -> Path:
        """The results file."""
        return self._runs.path

    @property
    def keys(self) -> list[str]:
        """The keys of the runs, as in column `key` of every table."""
        return self._runs.keys

    @property
    def seeds(self) -> list[int]:
        """The seeds of these runs, ascending."""
        return self._runs.seeds

    @property
    def engines(self) -> list[str]:
        """The versions of the engine that made these runs."""
        return self._runs.engines

    @property
    def notes(self) -> list[str]:
        """What to know of these results, one line each: what is left out or assumed, seeds that make no difference."""
        return self._runs.notes

    @property
    def varying(self) -> dict[str, list[str]]:
        """The keys by which these runs differ, each with its values in order, as an experiment file has them."""
        return {key.name: key.ordered for key in self._runs.varying}

    @property
    def cells(self) -> pl.DataFrame:
        """One row per cell, which is all runs that only their seeds distinguish: its matrix (JSON) and engine."""
        return self._runs.cells

    @property
    def configurations(self) -> dict[str, dict[str, Any]]:
        """The resolved configuration of each cell (in ns, bit/s and bytes); its seed is that of its first run."""
        return self._runs.configurations

    def where(self, *conditions: str, **values: Any) -> Results:
        """Return only what meets every `KEY=VALUE[,VALUE...]`; values in any unit: 20000kbit is 20Mbit.

        Conditions on `flow`, `class`, `kind`, `cc`, `direction` and `base_rtt` keep the flows or classes that have any
        such, in all tables but `runs` and `queue_series`, which are of whole runs. docs/selecting.md has the grammar.
        As keywords, values may also be numbers and lists: `where(seed=[1, 2])`.
        Raises InputError if no run is left.
        """
        return Results(self._runs.where(*conditions, **values), sweep=self.sweep)

    def with_keys(self, keys: Iterable[str]) -> Results:
        """Return the runs with these keys, in their order; keys of other runs are left out."""
        return Results(self._runs.with_keys(keys), sweep=self.sweep)

    def engine(self, version: str) -> Results:
        """Return the runs of another engine: `sim`, `live`, `linux`, `linux:NAME`, a version, or `all` of them."""
        return Results(self._runs.engine(version), sweep=self.sweep)

    def run(self, *conditions: str, **values: Any) -> Run:
        """Return the only run that meets the conditions, those of `where`; raises InputError if none or several do.

        `results.run("bottleneck.rate=10Mbit", seed=1).series("goodput", "srtt")` is what it did over time.
        """
        return Run(self.where(*conditions, **values))

    # the only run

    @property
    def summary(self) -> dict[str, Any]:
        """The measures of the run as a whole, from its row of table `runs`: `summary["utilisation"]`.

        Raises InputError if these are several runs.
        """
        return self._runs.source.read_summary(over_time.require_one(self._runs))

    @property
    def digest(self) -> str:
        """The digest over all figures of the only run, column `hash` of table `runs`: equal runs have equal ones.

        Raises InputError if these are several runs.
        """
        return self._runs.source.read_digest(over_time.require_one(self._runs))

    def explain(self, *, stored: bool = False) -> Explained:
        """Return what happened in the only run: `run().explain()`. Raises InputError if these are several runs."""
        return Run(self).explain(stored=stored)

    # frames

    @overload
    def frame(self, name: str, *, to: Literal["polars"] = "polars") -> pl.DataFrame: ...
    @overload
    def frame(self, name: str, *, to: Other) -> Any: ...
    def frame(self, name: str, *, to: To = "polars") -> pl.DataFrame | Any:
        """Return the rows of a table that belong to these runs, for Polars, pandas (`to="pandas"`) or Arrow.

        Raises InputError if there is no such table, or if the package that `to` needs is missing.
        """
        return convert_frame(self._runs.frame(name), to)

    def measures(self, table: str) -> list[str]:
        """Return the columns of a table that are measures."""
        return self._runs.measures(table)

    @overload
    def tidy(
        self,
        of: Parts = "flows",
        keys: Sequence[str] | Mapping[str, str] | None = None,
        *,
        to: Literal["polars"] = "polars",
    ) -> pl.DataFrame: ...
    @overload
    def tidy(self, of: Parts = "flows", keys: Sequence[str] | Mapping[str, str] | None = None, *, to: Other) -> Any: ...
    def tidy(
        self, of: Parts = "flows", keys: Sequence[str] | Mapping[str, str] | None = None, *, to: To = "polars"
    ) -> pl.DataFrame | Any:
        """Return one row per cell, seed and flow (or what else `of` names), with every key by which runs differ.

        `keys` are other keys in their place: `tidy(keys=["flows[0].cc.name", "bottleneck.rate"])`. A key that a run
        has not, or that is without effect there, is null. Keys are typed columns whose names end in their unit:
        `bottleneck.rate_mbit`, `flows[*].base_rtt_ms`; `keys={"rate": "bottleneck.rate"}` gives columns other names.
        Where there are runs on Linux, `kernel` has the names of the kernels. `to` is "polars", "pandas" or "arrow".
        Raises InputError.
        """
        return convert_frame(self._runs.tidy(of, keys), to)

    @overload
    def sql(self, query: str, *, to: Literal["polars"] = "polars", **frames: Any) -> pl.DataFrame: ...
    @overload
    def sql(self, query: str, *, to: Other, **frames: Any) -> Any: ...
    def sql(self, query: str, *, to: To = "polars", **frames: Any) -> pl.DataFrame | Any:
        """Return what an SQL query (DuckDB) gives; `frames` are tables of yours, of any library.

        The tables hold these runs: those of one engine, unless several were asked for, and what `where` keeps of them.
        A warning says what engines are left out. `to` is "polars", "pandas" or "arrow". Raises InputError.
        """
        return convert_frame(self._runs.sql(query, **frames), to)

    # tables, figures, comparisons and reports

    def table(
        self,
        value: str | None = None,
        rows: str | Sequence[str] | None = None,
        columns: str | None = None,
        *,
        of: str | None = None,
        mean_over: Sequence[str] = (),
        spread: bool = True,
        limit: int | None = None,
    ) -> Table:
        """Return means of `value` over seeds: the values of the keys `rows` down and of `columns` across.

        `value` is a measure such as `goodput`; by default the goodput or, of runs without, what else they measure.
        Every other key by which the runs differ is a row as well, unless it is in `mean_over`. `of` names the table of
        the file, where several have the measure. With `spread` each mean has half of its 95 % interval. Of more rows
        than `limit` the first are in text and CSV, all in `frame`. Raises InputError.
        """
        from dumbbell.results import tables

        return tables.make_table(
            self._runs, value, rows, columns, of=of, mean_over=mean_over, spread=spread, limit=limit
        )

    @overload
    def plot(
        self,
        kind: str | None = None,
        *,
        interactive: Literal[False] = False,
        other: Results | str | Path | None = None,
        **options: Unpack[PlotOptions],
    ) -> Picture: ...
    @overload
    def plot(
        self,
        kind: str | None = None,
        *,
        interactive: Literal[True],
        other: Results | str | Path | None = None,
        **options: Unpack[PlotOptions],
    ) -> Interactive: ...
    @list_keywords(PlotOptions)
    def plot(
        self,
        kind: str | None = None,
        *,
        interactive: bool = False,
        other: Results | str | Path | None = None,
        **options: Unpack[PlotOptions],
    ) -> Picture | Interactive:
        """Return a figure of these results: what suits their shape, or what is asked for.

        It is a figure of matplotlib or, if `interactive`, one of Vega-Lite, with `save`, `spec` and `picture`.

        `kind` is the kind of figure, as for `dumbbell plot`; `value` what to draw, several in panels of their own;
        `against` the key along the horizontal axis, `by` the keys that distinguish lines, bars or boxes, `facet` those
        that distinguish panels. Every other key by which the runs differ becomes a line or a panel, unless it is in
        `mean_over`. `baseline`, `KEY=VALUE`, draws the difference from the runs with this value, seed by seed (kind
        "ratio": the ratio). `reference` is a CSV file of published results: errors as heat maps, or, with kind "lines",
        both against each other. `time` is the part of time series to draw, `(2.0, 3.0)` in seconds or `("2s", "3s")`.
        `other` are results to draw the differences to, of the cells that both have. `slider` are further keys of
        panels, of which a page shows one value at a time.

        `title` is the subject; without it that is the title of the experiment with the conditions of `where`, and ""
        leaves it out. `width` and `height` are in inches, `font_size` in points; a figure is as wide as one column of a
        paper, 3.5 in, or as two, 7.16 in.

        Raises InputError if there is no such key or measure, or too much for one figure.
        """
        from dumbbell import figures, plotting

        with figures.skip_arrangement() if interactive else nullcontext():
            picture = plotting.plot(self._runs, kind, other=_get_handle(other), **options)
            return figures.Interactive(picture) if interactive else picture

    def diff(
        self, other: Results | str | Path | None = None, *, by: str | None = None, values: Sequence[str] = ()
    ) -> Diff:
        """Return what differs from these results to others or, within these, from one value of the key `by` to others.

        `other` are results or a results file. `by` is a key, of which the first value is the one to compare with, or
        `KEY=A,B`. `values` are measures; by default all. Raises InputError if nothing can be compared.
        """
        from dumbbell.results import diff

        return diff.compare_results(self._runs, _get_handle(other), by=by, values=values)

    def save(self, output: str | Path) -> Path:
        """Keep these runs, which are in memory, in the results file `output`, which may hold others; return its path.

        Raises InputError if they are in a file already, or if `output` cannot be written.
        """
        source, path = self._runs.source, Path(decode_path(output))
        if not isinstance(source, RunsInMemory):
            raise Unfit(
                "these results are in a file already", "results of dumbbell.simulate", file=self.path, key="save"
            )
        self._runs.require_whole_runs("save keeps whole runs", "keys of runs, such as flows[*].cc or seed")
        source.keep(self._runs.keys, path)
        return path

    def report(
        self,
        output: str | Path = "report.html",
        *,
        suites: Sequence[str] = (),
        references: Sequence[str] = (),
        run_program: bool = False,
        title: str | None = None,
        answer: Sequence[str] = (),
        playground: bool = False,
    ) -> Path:
        """Write a page with all that these results say, which needs no network; return its path.

        `output` is a file that ends in .html, or a folder, in which the page is `index.html` and next to it are its
        time series in full and every table as CSV and Parquet. `suites`, of statements, and `references` are files, or
        names of those that come with dumbbell, which are taken in anyway if they are about these runs. `run_program`
        runs the program next to a suite. `answer` are sentences for the head of the page, the most important one first.
        `playground` writes the page of `dumbbell play` next to it as `playground.html`, to which runs of the simulator
        then lead.

        Raises InputError if there are no runs, or the page cannot be written.
        """
        from dumbbell import report

        return report.write(
            self._runs,
            output,
            suites=suites,
            references=references,
            run_program=run_program,
            title=title,
            answer=answer,
            playground=playground,
        )


def _get_handle(results: Results | str | Path | None) -> stored.StoredResults | None:
    """Return the handle of public results, or of a results file."""
    return results._runs if isinstance(results, Results) else None if results is None else stored.StoredResults(results)


class Run:
    """A single run of a results file. Made by `Results.run`."""

    def __init__(self, results: Results) -> None:
        self.results = results
        """What was measured in it, as `Results` of this run alone."""
        self.key: str = over_time.require_one(results._runs)
        row = results.frame("runs").row(0, named=True)
        self.seed: int = row["seed"]
        self.experiment: str = row["experiment"]
        (config,) = results.configurations.values()
        self.config: dict[str, Any] = config | {"seed": self.seed}
        """Its resolved configuration, in ns, bit/s and bytes."""

    def __repr__(self) -> str:
        return f"Run({self.results.path.name}: {self.experiment}, seed {self.seed}, {self.key[:12]})"

    @overload
    def series(self, *measures: str, to: Literal["polars"] = "polars") -> pl.DataFrame: ...
    @overload
    def series(self, *measures: str, to: Other) -> Any: ...
    def series(self, *measures: str, to: To = "polars") -> pl.DataFrame | Any:
        """Return what happened over time: `time_s`, and a column for each measure, of flows one for each flow.

        `measures` are short names, `goodput`, `srtt`, `sojourn`, `drops`, or columns of `series` and `queue_series`; by
        default all that the run has. The columns of flows end in what the flow is called, `goodput_mbit cubic`, unless
        there is one flow; they are null before it begins and after it ends. Times are the ends of intervals, in
        seconds. `to` is "polars", "pandas" or "arrow".

        Raises InputError if the run recorded no series, or has no such measure.
        """
        return convert_frame(over_time.collect_series(self.results._runs, *measures), to)

    @overload
    def packets(
        self,
        at: str | Sequence[str] = (),
        flows: int | Sequence[int] = (),
        time: str | tuple[float | str, float | str] | None = None,
        *,
        to: Literal["polars"] = "polars",
    ) -> pl.DataFrame: ...
    @overload
    def packets(
        self,
        at: str | Sequence[str] = (),
        flows: int | Sequence[int] = (),
        time: str | tuple[float | str, float | str] | None = None,
        *,
        to: Other,
    ) -> Any: ...
    def packets(
        self,
        at: str | Sequence[str] = (),
        flows: int | Sequence[int] = (),
        time: str | tuple[float | str, float | str] | None = None,
        *,
        to: To = "polars",
    ) -> pl.DataFrame | Any:
        """Return every packet at every point, a row each; the run is simulated again.

        `at` are points, by default all; `flows` numbers as in table `flows`, by default all; `time` is a part of it,
        `(2.0, 3.0)` in seconds or `("2s", "3s")`. `to` is "polars", "pandas" or "arrow".

        A warning says if this simulator measures something else than what the file has. Raises InputError if the run is
        not one of the simulator.
        """
        from dumbbell.packets import again

        return convert_frame(again.repeat_packets(self.results._runs, at, flows, time), to)

    def explain(self, *, stored: bool = False) -> Explained:
        """Return what happened in the run, in sentences, as `dumbbell explain` prints it.

        Printed it is text; `to_json()` has every fact with its numbers. The run is simulated again with its trace,
        unless `stored` says that the tables are enough. Raises InputError.
        """
        from dumbbell.explain import explained, observed
        from dumbbell.results import one_stored

        run = observed.observe_results(one_stored.refuse_session(self.results._runs))
        if not stored:
            observed.repeat(run)
        return explained.explain_run(run)
