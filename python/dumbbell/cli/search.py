"""`dumbbell search`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dumbbell.cli.evaluate_options import Progress
from dumbbell.cli.status import INTERRUPTED
from dumbbell.errors import Conflict

if TYPE_CHECKING:
    from dumbbell.searching.search_file import SearchPlan
    from dumbbell.searching.search_run import SearchState

Option = typer.Option


def search(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Search file (TOML).")],
    output: Annotated[
        str, Option("-o", "--output", metavar="RESULTS", help="Results file. What it has measured is not run again.")
    ] = "search.duckdb",
    jobs: Annotated[int | None, Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")] = None,
    cluster: Annotated[
        str | None,
        Option(metavar="ADDRESS", help="Run on a Dask cluster, by the address of its scheduler: tcp://HOST:PORT."),
    ] = None,
    settings: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Replace a key of the experiment.")
    ] = None,
    trust: Annotated[
        bool, Option("--trust", help="Allow plugins (code!) in the folder of the file and below it.")
    ] = False,
    form: Annotated[
        Literal["text", "json", "csv"], Option("--format", help="Form in which the front is printed.")
    ] = "text",
    plot: Annotated[
        str | None, Option("--plot", metavar="FILE", help="Draw the front: .png, .pdf, .svg, or interactive .html.")
    ] = None,
    keep: Annotated[
        str | None,
        Option(
            "--keep",
            metavar="DIR",
            help="Make the worst candidates smaller, and keep each as an experiment with a test and an explanation.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check the file and print how many runs there are and how long they take.")
    ] = False,
) -> None:
    """A search that was stopped continues with the same command, and ends with the same front.

    Exit status: 0 done, 2 bad input, 130 interrupted.
    """
    from dumbbell.experiment.plugins import trust as trusting
    from dumbbell.searching.search_file import load_search

    if jobs is not None and cluster is not None:
        raise Conflict("--jobs and --cluster", "one of them", command="search")
    if trust:
        trusting.trust(Path(file).absolute().parent)
    plan = load_search(file, settings)
    if dry_run:
        print(_estimate(plan, jobs))
        return
    state = _carry_out(plan, output, jobs, cluster)
    _print_front(plan, output, form, plot)
    if keep is not None:
        _keep(state, keep)


def _estimate(plan: SearchPlan, jobs: int | None) -> str:
    """Return how many runs a search has, and about how long they take."""
    from dumbbell.engines.sim import measure_speed
    from dumbbell.processes import count_cores
    from dumbbell.words import format_count, format_work_time

    cells = plan.experiment.sample_cells(24)
    runs = plan.budget * plan.experiment.matrix.size * plan.seeds.first
    slots = jobs or count_cores()
    seconds = runs * sum(cell.packets for cell in cells) / len(cells) / measure_speed(cells, slots) / slots
    each = f"{format_count(plan.experiment.matrix.size, 'cell')}, {format_count(plan.seeds.first, 'seed')}"
    time = format_work_time(max(seconds, 1), 2)
    return (
        f"{format_count(plan.budget, 'candidate')} ({each}): {format_count(runs, 'run')}, "
        f"about {time} of simulation on {format_count(slots, 'core')}; sampler {plan.sampler}"
    )


def _carry_out(plan: SearchPlan, output: str, jobs: int | None, cluster: str | None) -> SearchState:
    from dumbbell.searching.search_run import carry_out_search

    def note(text: str) -> None:
        print(text, file=sys.stderr)

    try:
        return carry_out_search(plan, output, jobs=jobs, cluster=cluster, told=Progress("candidates"), on_note=note)
    except KeyboardInterrupt:
        print(f"interrupted: {output} keeps what is finished; the same command continues", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _print_front(plan: SearchPlan, output: str, form: str, plot: str | None) -> None:
    from dumbbell import figures
    from dumbbell.plotting.front import draw_front
    from dumbbell.searching.found import SearchFindings

    found = SearchFindings(output, plan.name)
    if plot is not None:
        picture = draw_front(found)
        title = found.title or found.name
        print(figures.write(picture.set_title(f"{title}\n{picture.around.title}"), Path(plot)), file=sys.stderr)
    if form == "json":
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=2))
    elif form == "csv":
        print(found.to_csv(), end="")
    else:
        print(found.to_text())


def _keep(state: SearchState, folder: str) -> None:
    from dumbbell.searching.hunt import keep_finds, shrink_worst

    def note(text: str) -> None:
        print(text, file=sys.stderr)

    finds = shrink_worst(state, note)
    for find, path in zip(finds, keep_finds(state.plan, finds, Path(folder)), strict=True):
        print(f"{path}: {find.sentence}", file=sys.stderr)
