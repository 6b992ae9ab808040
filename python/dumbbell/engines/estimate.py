"""What a sweep will take: runs, seconds and bytes. Neither time nor memory grows with the number of runs."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dumbbell.engines.base import Engine, prepare_experiments
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.results.store import Store

RUN_BYTES, FLOW_BYTES, INTERVAL_BYTES, BIN_BYTES, BINS = 1500, 120, 80, 8, 1000  # in the results file, about
SHORT_FLOW_BYTES = 40
_SIZED = 32  # runs of each experiment from which the size of its results is estimated
_EXACT = 5000  # runs that an estimate looks at one by one; of more it looks at a sample
_SAMPLE = 1000


@dataclass(frozen=True)
class Estimate:
    """The estimate of a sweep: runs, those of them already kept, seconds on `jobs` cores, bytes on disk."""

    runs: int
    kept: int
    seconds: float
    size: float


def estimate(experiments: list[Experiment], output: str | Path, jobs: int, engine: Engine) -> Estimate:
    """Return what `sweep.run` would do; reads the store if there is one and writes nothing. Raises InputError.

    Exact in the number of runs, apart from those that several files of a large sweep share.
    """
    experiments = prepare_experiments(experiments, engine)
    size, kept, runs = 0.0, 0.0, float(sum(map(len, experiments)))
    cells: list[Cell] = []
    scales: list[float] = []
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store.open(output)) if Path(output).exists() else None
        for part in _sample_experiments(experiments, store):
            runs -= part.repeated
            kept += part.scale * part.kept
            size += part.scale * sum(_estimate_bytes(cell) for cell in part.left)
            cells += part.left
            scales += [part.scale] * len(part.left)
    costs = engine.estimate_seconds(cells, jobs)
    work = sum(scale * cost for scale, cost in zip(scales, costs, strict=True))
    return Estimate(round(runs), round(kept), max([work / jobs, *costs]), size)


@dataclass(frozen=True)
class _SweepPart:
    """Runs of one experiment, each for `scale` of them: those to be made, how many are kept or of an earlier one."""

    scale: float
    left: list[Cell]
    kept: int
    repeated: int


def _sample_experiments(experiments: list[Experiment], store: Store | None) -> Iterator[_SweepPart]:
    """Yield every experiment: all its runs, or a sample of them if there are many in all."""
    exact = sum(map(len, experiments)) <= _EXACT
    seen: set[str] = set()
    for experiment in experiments:
        sample = list(experiment.make_cells()) if exact else experiment.sample_cells(_SAMPLE)
        unseen = {cell.key: cell for cell in sample if cell.key not in seen} if exact else {c.key: c for c in sample}
        seen |= unseen.keys() if exact else set()
        known = store.find_kept(unseen) if store else set()
        left = [cell for key, cell in unseen.items() if key not in known]
        scale = len(experiment) / len(sample)
        yield _SweepPart(scale, left, len(known), len(sample) - len(unseen) if exact else 0)


def estimate_missing(experiments: list[Experiment], store: Store) -> tuple[int, float]:
    """Return how many runs are to be made that are not kept, about, and how many packets they will take."""
    parts = list(_sample_experiments(experiments, store))
    runs = round(sum(part.scale * len(part.left) for part in parts))
    return runs, sum(part.scale * sum(cell.packets for cell in part.left) for part in parts)


def estimate_size(experiments: list[Experiment]) -> float:
    """Return about how many bytes the results of all runs take, from some of each experiment."""
    total = 0.0
    for experiment in experiments:
        some = experiment.sample_cells(_SIZED)
        total += sum(map(_estimate_bytes, some)) * len(experiment) / max(len(some), 1)
    return total


def _estimate_bytes(cell: Cell) -> float:
    record = cell.groups["record"]
    intervals: float = cell.duration / record["interval"] if record["series"] else 0
    bins = min(cell.packets - 1000, BINS)  # of the histogram of sojourn times
    short_flows: float = min(cell.short_flow_count, record["short_flows"]) * SHORT_FLOW_BYTES
    return RUN_BYTES + bins * BIN_BYTES + cell.flow_count * FLOW_BYTES + intervals * INTERVAL_BYTES + short_flows
