"""Results as the reader of a notebook or a program has them: with tables, plots and differences at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumbbell.results import results
from dumbbell.scratch import Scratch

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from dumbbell.engines.sweep import Report
    from dumbbell.results.diff import Diff


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
        report: Report | None = None,
        folder: Scratch | None = None,
    ) -> None:
        super().__init__(path, keys=keys, engine=engine, folder=folder)
        self.report = report

    def table(self, *args: Any, **options: Any) -> Any:
        """See `dumbbell.results.tables.table`: a table of means with their intervals, any key by any other."""
        from dumbbell.results import tables

        return tables.table(self, *args, **options)

    def plot(self, *args: Any, **options: Any) -> Figure:
        """See `dumbbell.plotting.plot`: what suits the shape of the results, or what is asked for."""
        from dumbbell import plotting

        return plotting.plot(self, *args, **options)

    def packets(
        self,
        at: str | Sequence[str] = (),
        flows: int | Sequence[int] = (),
        time: tuple[float, float] | None = None,
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
