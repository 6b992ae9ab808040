"""The findings of a search, read from its results file: front, candidates, figure, exports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dumbbell.results.tables import align_table
from dumbbell.searching.candidate import CANDIDATE_COLUMNS
from dumbbell.searching.ledger import read_search
from dumbbell.words import format_count, format_measured, join_words

if TYPE_CHECKING:
    from dumbbell.scratch import Scratch


class SearchFindings:
    """A search in a results file: one row per candidate, with its parameters and the scores of its objectives.

    Each objective has a column, and the ends of its 95 % interval over seeds have columns NAME_low and NAME_high, which
    are equal where there is one seed.
    """

    def __init__(
        self, path: str | Path, name: str | None = None, *, folder: Scratch | None = None, kept: Sequence[Path] = ()
    ) -> None:
        """Read the last search of a file, or the last called `name`. Raises InputError."""
        self.path = Path(path)
        self.kept = list(kept)
        """The folders of the experiments that were made of the worst candidates."""
        self._folder = folder  # of a file that lasts as long as this object
        self._search, self._candidates, self._scores = read_search(path, name)

    @property
    def name(self) -> str:
        """The name of the search file, without its ending."""
        return str(self._search["name"])

    @property
    def title(self) -> str:
        """The title of the search."""
        return str(self._search["title"])

    @property
    def is_finished(self) -> bool:
        """Whether the search came to its end; the front is that of the candidates so far if not."""
        return bool(self._search["finished"])

    @property
    def description(self) -> dict[str, Any]:
        """The sampler, the budget, the parameters and the objectives of the search."""
        found: dict[str, Any] = self._search["described"]
        return found

    @property
    def objectives(self) -> list[str]:
        """The names of the objectives."""
        return [one["name"] for one in self.description["objectives"]]

    @property
    def parameters(self) -> list[str]:
        """The columns of the parameters."""
        return [one["column"] for one in self.description["parameters"]]

    @cached_property
    def candidates(self) -> pl.DataFrame:
        """One row per candidate, in the order in which they were tried.

        Candidate -1 is the experiment as its file has it: its parameters are null.
        """
        texts = self._candidates["parameters"].to_list()
        values = [json.loads(text) for text in texts]
        own = pl.DataFrame(
            {name: pl.Series([one.get(name) for one in values], strict=False) for name in self.parameters}
        )
        rows = self._candidates.select(CANDIDATE_COLUMNS[:-1]).hstack(own)
        for name in self.objectives:
            of = self._scores.filter(pl.col("objective") == name)
            columns = of.select("candidate", pl.col("value").alias(name), pl.col("low", "high").name.prefix(f"{name}_"))
            rows = rows.join(columns, on="candidate", how="left", maintain_order="left")
        return rows.join(self._candidates.select("candidate", "settings"), on="candidate", maintain_order="left")

    @property
    def front(self) -> pl.DataFrame:
        """The candidates that no other one is better than in every objective, by the first objective."""
        first = self.objectives[0]
        return self.candidates.filter("is_front").drop("is_front", "state", "reason").sort(first, "candidate")

    @property
    def unchanged(self) -> pl.DataFrame:
        """The experiment as its file has it, measured like the front: one row, or none if it has no values."""
        return self.candidates.filter(pl.col("candidate") < 0, pl.col("state") == "measured")

    def list_settings(self, candidate: int) -> list[str]:
        """Return what `dumbbell run` takes to run a candidate: `KEY=VALUE`."""
        (text,) = self._candidates.filter(pl.col("candidate") == candidate)["settings"].to_list()
        found: list[str] = json.loads(text)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the search and its front as a table: the settings and scores of each candidate on it."""
        rows = [row | {"settings": json.loads(row["settings"])} for row in self.front.to_dicts()]
        return {"name": self.name, "title": self.title, "finished": self.is_finished, **self.description, "front": rows}

    def to_csv(self) -> str:
        """Return the front as CSV."""
        settings = [" ".join(json.loads(text)) for text in self.front["settings"]]
        return self.front.with_columns(settings=pl.Series(settings, dtype=pl.String)).write_csv()

    def to_text(self) -> str:
        """Return the front as a table, with half the width of the intervals, and sentences about the search."""
        front = self.front
        header = ["candidate", *(one["label"] for one in self.description["parameters"])]
        header += [f"{one['label']} ({one['aim']})" for one in self.description["objectives"]]
        rows = [self._make_row(row) for row in front.iter_rows(named=True)]
        rows += [self._make_row(row) for row in self.unchanged.iter_rows(named=True)]
        words = [n for n, name in enumerate(["candidate", *self.parameters]) if front.schema[name] == pl.String]
        return "\n\n".join([self.describe(), align_table(header, rows, words=tuple(words))])

    def _make_row(self, row: dict[str, Any]) -> list[str]:
        shown = [str(row["candidate"]) if row["candidate"] >= 0 else "as the file has it"]
        shown += [_format_value(row[name]) for name in self.parameters]
        for name in self.objectives:
            half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
            shown.append(format_measured(row[name], 4) + (f" ± {format_measured(half, 2)}" if half > 0 else ""))
        return shown

    def describe(self) -> str:
        """Return how large the search was, and what its front is of."""
        tried = self._candidates.filter(pl.col("candidate") >= 0)
        counts = dict(tried.group_by("state").len().iter_rows())
        measured = counts.pop("measured", 0)
        others = [f"{number} {state}" for state, number in sorted(counts.items())]
        seeds = self._candidates.filter("is_front")["seeds"].max()
        cells, sampler = self.description["cells"], self.description["sampler"]
        of = f"{format_count(measured, 'candidate')} measured in {format_count(cells, 'cell')} by sampler {sampler}"
        more = f", {join_words(others)}" if others else ""
        end = "" if self.is_finished else " The search was interrupted; the same command continues it."
        front = format_count(self._candidates.filter("is_front").height, "candidate")
        return f"{of}{more}. The front has {front}, with {format_count(int(seeds or 0), 'seed')}.{end}"  # type: ignore[arg-type]

    def describe_briefly(self) -> str:
        """Return how many candidates and seeds the front is from, in a few words."""
        measured = self._candidates.filter(pl.col("state") == "measured", pl.col("candidate") >= 0).height
        seeds = int(self._candidates.filter("is_front")["seeds"].max() or 0)  # type: ignore[arg-type]
        cells = format_count(self.description["cells"], "cell")
        return f"{format_count(measured, 'candidate')}, {cells}, {format_count(seeds, 'seed')} on the front"

    def __repr__(self) -> str:
        return f"{self.name}\n{self.to_text()}"

    def list_worst(self, objective: str, most: int) -> Sequence[dict[str, Any]]:
        """Return the candidates with the most extreme values of an objective by its aim, the most extreme first."""
        aim = next(one["aim"] for one in self.description["objectives"] if one["name"] == objective)
        rows = self.candidates.filter(pl.col("state") == "measured", pl.col("candidate") >= 0).sort(
            objective, descending=aim == "maximise", maintain_order=True
        )
        return rows.head(most).to_dicts()


def _format_value(value: Any) -> str:
    """Return the value of a parameter; of an experiment as it is, nothing."""
    return "" if value is None else str(value) if isinstance(value, str | bool) else format_measured(value, 4)
