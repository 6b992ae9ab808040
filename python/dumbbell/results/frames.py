"""Frames of tables; and frames for other libraries: Polars is what this package has."""

from typing import Any, Literal

import polars as pl

from dumbbell.errors import Needs, UnknownName

To = Literal["polars", "pandas", "arrow"]
KINDS: tuple[To, ...] = ("polars", "pandas", "arrow")


def convert_frame(frame: pl.DataFrame, to: str) -> Any:
    """Return a frame as one of Polars, as a `pandas.DataFrame` or as a `pyarrow.Table`.

    Raises InputError if `to` is none of `KINDS`, or if the extra of this name is not installed.
    """
    if to == "polars":
        return frame
    if to not in KINDS:
        raise UnknownName(to, among=list(KINDS), key="to", what="library")
    try:
        return frame.to_arrow() if to == "arrow" else frame.to_pandas()
    except ModuleNotFoundError:
        packages = "package pyarrow" if to == "arrow" else "packages pandas and pyarrow"
        raise Needs(f"the {packages}", f"pip install 'dumbbell[{to}]'", key=f'to="{to}"') from None


class ResultTables:
    """The tables of a results file as properties of what reads them."""

    def frame(self, name: str) -> pl.DataFrame:
        """Return the rows of a table."""
        raise NotImplementedError

    @property
    def runs(self) -> pl.DataFrame:
        """One row per run: configuration, seed, queue and link."""
        return self.frame("runs")

    @property
    def flows(self) -> pl.DataFrame:
        """One row per flow or source of UDP of a run."""
        return self.frame("flows")

    @property
    def classes(self) -> pl.DataFrame:
        """One row per class of traffic of a run."""
        return self.frame("classes")

    @property
    def series(self) -> pl.DataFrame:
        """One row per flow and interval of a run."""
        return self.frame("series")

    @property
    def queue_series(self) -> pl.DataFrame:
        """One row per interval of a run: the queue."""
        return self.frame("queue_series")

    @property
    def sojourn(self) -> pl.DataFrame:
        """One row per class and bin of times in queue."""
        return self.frame("sojourn")

    @property
    def rtt(self) -> pl.DataFrame:
        """One row per class and bin of RTT samples."""
        return self.frame("rtt")

    @property
    def short_flows(self) -> pl.DataFrame:
        """One row a short flow of a run."""
        return self.frame("short_flows")

    @property
    def slowdowns(self) -> pl.DataFrame:
        """One row per class and range of sizes of a run."""
        return self.frame("slowdowns")

    @property
    def hops(self) -> pl.DataFrame:
        """One row per hop of a run with several."""
        return self.frame("hops")

    @property
    def hop_series(self) -> pl.DataFrame:
        """One row per hop and interval of a run with several hops."""
        return self.frame("hop_series")

    @property
    def queue_states(self) -> pl.DataFrame:
        """One row per point, hop and recorded state."""
        return self.frame("queue_states")

    @property
    def apps(self) -> pl.DataFrame:
        """One row per user of an application, of datagrams one for each way."""
        return self.frame("apps")

    @property
    def app_loads(self) -> pl.DataFrame:
        """One row per page or other load of an application."""
        return self.frame("app_loads")

    @property
    def trace(self) -> pl.DataFrame:
        """One row per flow and change or interval: its control."""
        return self.frame("trace")
