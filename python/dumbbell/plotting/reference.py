"""Results against published ones."""

from pathlib import Path
from typing import Any

from dumbbell.errors import Conflict, TooMany, spell_option
from dumbbell.figures import Picture
from dumbbell.plotting.request import PlotRequest
from dumbbell.published import compare
from dumbbell.published import pictures as beside
from dumbbell.results.results import StoredResults


def draw_with_reference(
    results: StoredResults, reference: str | Path, kind: str | None, request: PlotRequest
) -> Picture:
    """Draw results against published ones: errors as heat maps, or both as lines over the base RTT."""
    if kind not in (None, "heat", "lines"):
        raise Conflict(f"{kind} and {spell_option('reference')}", ("heat", "lines"), option="--kind")
    if len(request.value) > 1:
        raise TooMany(f"{len(request.value)} measures", "one", f"with {spell_option('reference')}", option="--value")
    given: dict[str, Any] = {
        "--against": request.against,
        "--by": request.by,
        "--slider": request.slider,
        "--facet": request.facet,
        "--mean-over": request.mean_over,
    }
    given |= {"--of": request.of, "--baseline": request.baseline, "--time": request.time}
    for option, value in given.items():
        if value:
            raise Conflict(
                f"{spell_option(option)} and {spell_option('reference')}, which has its own axes and panels,",
                f"{spell_option('value')}, {spell_option('kind')} and {spell_option('where')}",
            )
    results.require_whole_runs("published results are those of whole runs", "keys of runs, such as bottleneck.rate")
    compared = compare.compare(results.runs, results.flows, compare.read_reference(reference))
    metric = request.value[0] if request.value else "rtt_ms"
    metric = {"goodput": "goodput_mbit", "throughput": "throughput_mbit", "rtt": "rtt_ms"}.get(metric, metric)
    known = {pair.figure.metric for pair in compared.pairs}
    # a publication states one of the two, and scores hold either against the same of the simulation
    other = {"goodput_mbit": "throughput_mbit", "throughput_mbit": "goodput_mbit"}.get(metric, metric)
    metric = other if metric not in known and other in known else metric
    frame, score = beside.make_pairs(compared, metric)
    return beside.draw_errors(frame, score) if kind != "lines" else beside.draw_both(frame, metric)
