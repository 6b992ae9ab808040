"""The small tables that a page rests on, kept with it as CSV, so that anybody can make the page again and check it.

Numbers have six significant digits. What a page shows is computed from the files, never from what made them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from dumbbell import Results, experiment
from dumbbell.pages.samples import choose_samples
from dumbbell.pages.values import PageError, Rows

DIGITS = 6
MADE = "made.json"


class Tables(Mapping[str, pl.DataFrame]):
    """Tables by name. One that is given as a function is made when it is asked for: a figure makes only its own."""

    def __init__(self, given: Mapping[str, pl.DataFrame | Callable[[], pl.DataFrame]]) -> None:
        self._given = dict(given)

    def __getitem__(self, name: str) -> pl.DataFrame:
        table = self._given[name]
        if not isinstance(table, pl.DataFrame):
            self._given[name] = table = table()
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class Made(dict[str, dict[str, Any]]):
    """How runs were made, by experiment."""

    def __missing__(self, experiment: str) -> NoReturn:
        raise PageError(f"no runs of {experiment}; dumbbell study run makes them")


@dataclass
class Evidence:
    """Tables by name, and how the runs behind them were made (`made`: by experiment)."""

    tables: Mapping[str, pl.DataFrame]
    made: dict[str, dict[str, Any]] = field(default_factory=dict)

    def select_table(self, name: str) -> Rows:
        """Return a table as templates see it."""
        return Rows(name, self[name])

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self.tables:
            raise PageError(f"no table {name!r}, only {', '.join(self.tables)}")
        return self.tables[name]

    def save(self, folder: Path) -> None:
        """Write every table to a folder, and take away what is no longer a table."""
        tables = dict(self.tables)  # all are made before the first file changes
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.csv"):
            if path.stem not in tables:
                path.unlink()
        for name, frame in tables.items():
            _round_values(frame).write_csv(folder / f"{name}.csv", line_terminator="\n")
        text = json.dumps(self.made, indent=2, sort_keys=True, ensure_ascii=False)
        (folder / MADE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Evidence":
        """Read what `save` wrote."""
        if not (folder / MADE).is_file():
            raise PageError(f"{folder}: no {MADE}: give results, and the tables are made from them")
        made = json.loads((folder / MADE).read_text(encoding="utf-8"))
        files = sorted(folder.glob("*.csv"))
        return cls({path.stem: pl.read_csv(path, infer_schema_length=None) for path in files}, made)


def _round_values(frame: pl.DataFrame) -> pl.DataFrame:
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    words = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Enum | pl.Categorical)]
    rounded = frame.with_columns(pl.col(floats).round_sig_figs(DIGITS), pl.col(words).cast(pl.String))
    return rounded.with_columns(pl.col(floats).fill_nan(None) + 0.0)  # no -0.0


def list_members(files: Iterable[str]) -> pl.DataFrame:
    """Return which cells belong to which experiment files: `experiment`, `cell`.

    A run that several files ask for is in a store once, under the file that made it.
    """
    rows = {(one.name, cell.cell_key) for one in map(experiment.load, files) for cell in one.make_cells()}
    return pl.DataFrame(sorted(rows), schema=["experiment", "cell"], orient="row")


def describe_runs(results: Iterable[Results]) -> dict[str, dict[str, Any]]:
    """Return how runs were made, by experiment: their number, seeds, durations in s, versions of the engine, set-up.

    `samples` are a few of the runs with their digests: see `samples.choose_samples`.
    """
    found = Made()
    for one in results:
        for (name,), runs in one.runs.sort("experiment", maintain_order=True).group_by(
            "experiment", maintain_order=True
        ):
            configs = [json.loads(config) for config in runs["config"]]
            found[str(name)] = {
                "runs": runs.height,
                "seeds": sorted(runs["seed"].unique().to_list()),
                "durations": sorted({config["duration"] / 1e9 for config in configs}),
                "engines": sorted(runs["engine_version"].unique().to_list()),
                "setup": _collect_settings(configs),
                "samples": choose_samples(runs),
            }
    return found


_SETUP = re.compile(
    r"duration|record\.from|hosts\.(profile|ecn|offload)|bottleneck\.(rate|shaper|aqm\.\w+)|(flows|web|udp)\[\d+\]\."
    r"(count|base_rtt|rate|ecn|cc\.name|arrivals\.\w+)"
)
_MOST = 40  # values of one key


def _collect_settings(configs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the values that runs have, by key, in canonical form: bit/s, ns, bytes."""
    found: dict[str, dict[str, Any]] = {}
    for config in configs:
        for key, value in _list_leaves("", config):
            if _SETUP.fullmatch(key):
                found.setdefault(key, {})[json.dumps(value)] = value
    ordered = {key: sorted(values.values(), key=lambda one: (str(type(one)), one)) for key, values in found.items()}
    return {key: values for key, values in ordered.items() if len(values) <= _MOST}


def _list_leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case dict():
            for name, inside in value.items():
                yield from _list_leaves(f"{prefix}.{name}" if prefix else name, inside)
        case list():
            for index, inside in enumerate(value):
                yield from _list_leaves(f"{prefix}[{index}]", inside)
        case None:
            pass
        case _:
            yield prefix, value
