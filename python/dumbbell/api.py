"""`dumbbell.run`, `dumbbell.open` and `dumbbell.search`."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from dumbbell.engines import find_engine, sweep
from dumbbell.experiment.given import Given, decode_path, read_given
from dumbbell.notebook import Results, Search
from dumbbell.results import results as stored
from dumbbell.scratch import Scratch
from dumbbell.searching.search_file import SearchPlan, load_search, parse_search
from dumbbell.words import format_count


def open(path: str | PathLike[str], *, engine: str | None = None) -> Results:  # noqa: A001  as in dumbbell.open
    """Return the results in a file; raises InputError if it is none.

    They are those of the newest simulator that the file has runs of, or of another engine if it has none of that;
    `engine` asks for "sim", "linux" (all kernels), "linux:NAME", a version, or "all".
    """
    return Results(decode_path(path), engine=engine)


def run(
    experiment: Given,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    *,
    output: str | PathLike[str] | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    engine: str = "sim",
    progress: bool | Callable[[int, int], None] | None = None,
) -> Results:
    """Run an experiment and return what its runs measured: a file, a shipped one by name, or the table of such a file.

    `overrides` replace keys, `{"bottleneck.rate": "40Mbit"}` or `["bottleneck.rate=40Mbit"]`. Results go to the file
    `output`, which may hold some of them already; without it they last as long as the object that is returned. Runs
    are carried out on `jobs` cores (all by default) or by the workers of the Dask scheduler whose address is
    `cluster`; by the simulator or, if `engine` is "linux", "linux:NAME" or "live", by a kernel. `progress` is whether
    to show a bar, by default in terminals and notebooks, or a function of runs done and runs in all.

    Raises InputError (a ValueError) on bad input, RuntimeError if a run fails and KeyboardInterrupt,
    after keeping what is finished, on Ctrl-C.
    """
    checked = read_given(experiment, overrides)
    sweep.check_workers(jobs, cluster, "run")
    folder = None
    if output is None:
        folder = Scratch()
        output = folder.path / "results.duckdb"
    path = decode_path(output)
    keys: list[str] = []
    other = find_engine(engine)
    other.prepare([checked])
    report = sweep.run([checked], path, jobs=jobs, cluster=cluster, engine=other, progress=progress, keys=keys)
    if report.interrupted:
        raise KeyboardInterrupt
    if report.failed:
        cell, text = report.failed[0]
        failed = format_count(len(report.failed), "run")
        raise RuntimeError(f"{failed} failed; the first: {cell.matrix} seed {cell.seed}: {text}")
    return Results(stored.StoredResults(path, keys=keys, folder=folder), sweep=report)


def search(
    search: str | bytes | PathLike[str] | Mapping[str, Any] | SearchPlan,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    *,
    output: str | PathLike[str] | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    keep: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Search:
    """Carry out a search and return its front: a search file, or the table of such a file.

    `overrides` replace keys of its experiment. What runs measure goes to the results file `output`, from which the
    same search continues if it was stopped; without it, it lasts as long as the object that is returned. `jobs` and
    `cluster` are as in `dumbbell.run`. With `keep`, the worst candidates become small experiments in this folder, each
    with a test and an explanation. `progress` is a function of candidates done and candidates in all.

    Raises InputError (a ValueError) on bad input, and KeyboardInterrupt, after keeping what is finished, on Ctrl-C.
    """
    from dumbbell.searching.search_run import carry_out_search

    sweep.check_workers(jobs, cluster, "search")
    match search:
        case SearchPlan():
            plan = search
        case Mapping():
            plan = parse_search(search, "search", overrides)
        case _:
            plan = load_search(decode_path(search), overrides)
    folder = Scratch() if output is None else None
    path = decode_path(output if folder is None else folder.path / "search.duckdb")  # type: ignore[arg-type]
    state = carry_out_search(plan, path, jobs=jobs, cluster=cluster, told=progress)
    kept: list[Path] = []
    if keep is not None:
        from dumbbell.searching.hunt import keep_finds, shrink_worst

        kept = keep_finds(plan, shrink_worst(state), Path(decode_path(keep)))
    return Search(path, plan.name, folder=folder, kept=kept)
