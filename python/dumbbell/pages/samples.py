"""Says whether the engine of this checkout still gives the results that a page rests on.

The hash of the engine's sources changes with every edit. What matters to a page is whether its runs have the results
that they had. So evidence keeps the digests of a few runs of each experiment, the cheapest ones that use each
algorithm of it, and `find_changes` simulates these again.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import _native
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.pages.sweeps import Sweep

MOST_PACKETS = 3e7
"""The largest run that is taken for a sample: some two seconds on one core."""


def choose_samples(runs: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the cheapest runs that together use every algorithm of one experiment: their cells, seeds and digests.

    `runs` has the columns `cell`, `seed`, `config` and `hash`. Runs of plugins and of other engines are left out.
    """
    simulated = runs.filter(pl.col("engine_version").str.contains(r"^\d")).unique("cell", keep="first")
    found = []
    for row in simulated.sort("cell").iter_rows(named=True):
        groups = json.loads(row["config"])
        if not plugins.find_plugins(groups):
            found.append((Cell("", "", {}, row["seed"], groups).packets, list_algorithms(groups), row))
    found.sort(key=lambda one: (one[0], one[2]["cell"]))
    missing = frozenset[str]().union(*(names for _, names, _ in found))
    chosen = []
    for packets, names, row in found:
        if packets <= MOST_PACKETS and names & missing:
            missing -= names
            chosen.append({"cell": row["cell"], "seed": row["seed"], "hash": row["hash"]})
    return chosen


def list_algorithms(groups: dict[str, Any]) -> frozenset[str]:
    """Return the algorithms that a run uses, such as `aqm codel`, `cc bbr3`, `link wifi` or `profile linux-6.12`."""
    return frozenset(_walk("", groups))


def _walk(key: str, value: Any) -> Iterator[str]:
    match value:
        case {"name": str(name), **rest}:
            yield f"{key} {name}"
            yield from _walk(key, rest)
        case dict():
            for inner, inside in value.items():
                yield from _walk(inner, inside)
        case list():
            for inside in value:
                yield from _walk(key, inside)
        case str() if key == "profile":
            yield f"{key} {value}"


def _find_cells(sweeps: Iterable[Sweep], folder: Path, *, quick: bool = False) -> dict[str, Cell]:
    """Return the cells of sweeps by their keys."""
    experiments = (experiment for sweep in sweeps for experiment in sweep.load_experiments(folder, quick=quick))
    return {cell.cell_key: cell for experiment in experiments for cell in experiment.make_cells()}


def find_changes(sweeps: Iterable[Sweep], folder: Path, made: dict[str, dict[str, Any]]) -> list[str]:
    """Simulate the samples again, and return a line for each whose result changed; `made` is that of the evidence.

    The evidence may be of quick runs. Raises InputError if a sample needs a QUIC stack that is not built.
    """
    simulated = [sweep for sweep in sweeps if sweep.engine == "sim"]
    readable = [sweep for sweep in simulated if not sweep.list_missing_stacks(folder)]
    wanted = {sample["cell"] for one in made.values() for sample in one.get("samples", ())}
    cells = _find_cells(readable, folder)
    if wanted - cells.keys():
        cells = _find_cells(readable, folder, quick=True) | cells
    if wanted - cells.keys():
        cells = _find_cells(simulated, folder)
    lines = []
    for name, one in made.items():
        for sample in one.get("samples", ()):
            if sample["cell"] not in cells:
                lines.append(f"{name}: a run of the evidence is no longer part of it")
                continue
            again = cells[sample["cell"]].set_seed(sample["seed"])
            if _native.run(again.config, _native.Cancel()).hash != sample["hash"]:
                settings = ", ".join(f"{key}={value}" for key, value in again.matrix.items()) or "its only cell"
                lines.append(f"{name}: another result than in the evidence: {settings}, seed {again.seed}")
    return lines
