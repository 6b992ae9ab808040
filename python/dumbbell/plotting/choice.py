"""Chooses the figure that suits results: by what varies in them, and what traffic they have.

`list_choices` yields figures, the best first. Each says in one line why, and which options draw another figure:
only those that can be drawn of these results.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote as quoted
from typing import Any, Literal

from dumbbell.plotting.placing import is_numeric
from dumbbell.plotting.request import FEW_LINES, FEW_PANELS, MOST_BESIDE, PlotRequest
from dumbbell.results import felt
from dumbbell.results.dimensions import Dimension
from dumbbell.results.results import StoredResults
from dumbbell.searching import ledger
from dumbbell.words import format_count, join_words

VERSIONS = ("version", "engine_version", "kernel")  # last words of keys whose values are versions of one thing
_MOST_ELLIPSES = 8  # in a panel, beyond which they cover each other
_FEW_SEEDS = 3  # from which a figure of one cell is of all its seeds
_NO_KIND = ("count", "start", "stop", "direction")  # keys of flows that are no kind of flow
_MANY = FEW_LINES  # flows, above which each has no line of its own


@dataclass(frozen=True)
class OtherFigure:
    """Options that draw another figure, what it is for, and what results need for it."""

    options: str
    what: str = ""
    needs: Literal["", "packets", "queue", "number", "two keys", "unlike flows"] = ""


_OF_SEARCH = (OtherFigure("--kind lines", "the runs of the front", "number"),)


@dataclass(frozen=True)
class Choice:
    """A figure that may be drawn: its kind, what is asked of it, of which flows, and why."""

    kind: str
    why: str
    others: tuple[OtherFigure, ...]
    value: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    facet: tuple[str, ...] = ()
    baseline: str | None = None
    where: str | None = None

    def complete_request(self, request: PlotRequest) -> PlotRequest:
        """Return what is asked for, with what this figure needs."""
        return replace(
            request,
            value=request.value or self.value,
            by=request.by or self.by,
            facet=request.facet or self.facet,
            baseline=request.baseline or self.baseline,
        )

    @property
    def line(self) -> str:
        """The kind, why it was chosen, and the options for another."""
        others = ", or ".join(f"{one.options}{' for ' * bool(one.what)}{one.what}" for one in self.others)
        return f"kind {self.kind}: {self.why}{'; other figures: ' * bool(others)}{others}"


@dataclass(frozen=True)
class _Shape:
    """The basis of the choice: the keys that vary, and the traffic, which all cells must share."""

    keys: list[Dimension]
    seeds: int
    flows: tuple[int, int]  # TCP and stacks: the fewest and the most of a cell
    udp: bool
    web: bool
    waits: bool
    """Whether there is traffic that waits for others: sparse UDP, pings, short flows."""
    has_series: bool
    hops: bool
    """Whether all runs have several hops."""
    unlike: bool
    """Whether flows of one run differ in more than their start."""

    @property
    def cells(self) -> int:
        """The combinations of values that there may be."""
        return math.prod(len(one.ordered) for one in self.keys)

    @property
    def key_names(self) -> str:
        """The names of the keys."""
        return join_words([one.name for one in self.keys])

    @property
    def values(self) -> tuple[str, str]:
        """The two measures that say most of traffic of this kind: what it gets, and what it waits."""
        if self.flows == (1, 1) and not self.udp and not self.web:
            return "utilisation", "sojourn"
        rates = any(one.word == "rate" for one in self.keys)
        got = "flows.share" if rates and not self.web else "flows.goodput_mbit"
        return got, "flows.sojourn_mean_ms" if self.udp else "flows.rtt_mean_ms"


def _find_shape(results: StoredResults, request: PlotRequest) -> _Shape:
    configs = list(results.configurations.values())
    flows = [_count_values(config, "flows") for config in configs] or [0]
    return _Shape(
        keys=[one for one in results.dimensions if not one.is_any_of(request.mean_over)],
        seeds=len(results.seeds),
        flows=(min(flows), max(flows)),
        udp=any(_count_values(config, "udp") for config in configs),
        web=any(config.get("web") for config in configs),
        waits=felt.is_felt(results),
        has_series=any(config.get("record", {}).get("series") for config in configs),
        hops=bool(configs) and len(results.hops_of_cells) == len(configs),
        unlike=any(_has_unlike_flows(config) for config in configs),
    )


def _has_unlike_flows(config: dict[str, Any]) -> bool:
    flows = config.get("flows") or []
    return len({repr({key: value for key, value in one.items() if key not in _NO_KIND}) for one in flows}) > 1


def _count_values(config: dict[str, Any], section: str) -> int:
    return sum(one.get("count", 1) for one in config.get(section) or [])


def list_choices(results: StoredResults, request: PlotRequest) -> Iterator[Choice]:
    """Yield the figures that suit results, the best first; the last can be drawn of almost any."""
    wanted = (request.value, request.keys, request.of, request.baseline, request.time)
    shape = _find_shape(results, request)
    found = _choose_by_shape(results, shape) if not any(wanted) and not results.of_parts else iter(())
    for one in itertools.chain(found, _choose_by_request(results, request)):
        yield replace(one, others=tuple(other for other in one.others if _can_draw(other, results, shape, request)))


def _can_draw(other: OtherFigure, results: StoredResults, shape: _Shape, request: PlotRequest) -> bool:
    """Return whether another figure can be drawn of these results."""
    free = [one for one in shape.keys if not one.is_any_of([*request.by, *request.facet])]
    match other.needs:
        case "packets":
            return not results.frame("sojourn").is_empty()
        case "queue":
            return bool(results.whole_runs.queue_series["throughput_mbit"].is_not_null().any())
        case "number":
            return request.against is None and any(one.is_numeric for one in free)
        case "two keys":
            return len(free) > 1 and len(request.value) < 2
        case "unlike flows":
            return shape.unlike
    return True


def _choose_by_shape(results: StoredResults, shape: _Shape) -> Iterator[Choice]:
    """Yield what an expert would draw of results of this shape."""
    if ledger.is_search(results.path):
        yield Choice("front", "results of a search, whose candidates trade one objective for another", _OF_SEARCH)
    if results.sessions:
        if len(results) <= MOST_BESIDE:
            yield _choose_sessions(results)
        return
    versions = [one for one in shape.keys if one.word in VERSIONS]
    aqms = [one for one in shape.keys if one.word == "aqm"]
    short = shape.web and shape.flows[1] == 0
    many = shape.flows[0] > _MANY
    if not shape.keys:
        yield from _choose_for_one_cell(shape, short=short, many=many)
        return
    if versions:
        if len(versions) == len(shape.keys) and shape.seeds == 1 and shape.has_series and len(results) <= MOST_BESIDE:
            # of single runs nobody knows what is chance, and a reader can compare them himself
            first, *rest = versions[0].ordered
            differences = f"--kind differences --baseline {quoted(f'{versions[0].name}={first}')}"
            options = (
                OtherFigure(differences, "the change of each measure"),
                OtherFigure("--kind bars --value goodput"),
            )
            yield Choice("series", f"one run by {first} and by {join_words(rest)}, side by side", options)
        yield _choose_versions(versions[0], shape)
    if (short or many) and shape.cells <= FEW_PANELS:
        yield _choose_distributions(shape, f" over {shape.key_names}", short=short, web=shape.web)
    if aqms and shape.waits:
        yield Choice(
            "felt",
            f"{format_count(len(aqms[0].ordered), 'queue discipline')}, by what the traffic feels that waits "
            "for others",
            (
                OtherFigure("--kind ellipses", "time in queue of all packets"),
                OtherFigure("--kind bars --value goodput"),
            ),
        )
    if aqms and not shape.unlike:
        yield from _choose_for_queues(shape, aqms[0])
    if shape.flows == (2, 2) and not shape.udp and not shape.web and _is_map(shape):
        yield Choice(
            "heat",
            f"two flows over {shape.key_names}, of which the first has this share of the goodput",
            (OtherFigure("--kind lines --value goodput"), OtherFigure("--kind heat --value utilisation")),
            value=("share",),
            where="flow=0",
        )
    if short:
        cdf = OtherFigure("--kind cdf", needs="packets")
        yield Choice("lines", f"short flows over {shape.key_names}", (cdf,), value=("slowdown",))
        return
    yield from _choose_along_keys(shape)


def _choose_for_queues(shape: _Shape, aqm: Dimension) -> Iterator[Choice]:
    """Yield what shows the cost of queue disciplines, unless there are too many to distinguish.

    Where flows are unlike, the question is what each flow gets.
    """
    others = tuple(one.name for one in shape.keys if one is not aqm)
    if len(aqm.ordered) > _MOST_ELLIPSES or shape.cells > len(aqm.ordered) * FEW_PANELS:
        return
    table = "hops" if shape.hops else "runs"
    values = (f"{table}.sojourn_mean_ms", f"{table}.utilisation")
    costs = f"{len(aqm.ordered)} queue disciplines, of which each trades delay for utilisation (RFC 7928)"
    figures = (
        OtherFigure("--kind bars --value goodput"),
        OtherFigure(f"--kind cdf --by {quoted(aqm.name)}", needs="packets"),
    )
    longest = _find_longest(shape)
    if longest is None:
        yield Choice("ellipses", costs, figures, value=values, by=(aqm.name,), facet=others)
        return
    facet = tuple(name for name in others if name != longest.name)
    yield Choice("lines", f"{costs}, over {longest.name}", figures, value=values, by=(aqm.name,), facet=facet)


def _choose_sessions(results: StoredResults) -> Choice:
    others = (OtherFigure("--kind cdf", needs="packets"),)
    return Choice("series", f"{format_count(len(results), 'run')} of dumbbell shell", others)


def _choose_for_one_cell(shape: _Shape, *, short: bool, many: bool) -> Iterator[Choice]:
    """Yield what to draw of runs that differ in nothing but their seeds."""
    if short or many:
        yield _choose_distributions(shape, "", short=short, web=shape.web)
    if shape.seeds >= _FEW_SEEDS and shape.flows[1] + shape.udp:
        other = (
            OtherFigure("--kind series", "one of them over time") if shape.has_series else OtherFigure("--kind bars")
        )
        values = ("flows.goodput_mbit", shape.values[1] if shape.flows[1] > 1 else "flows.rtt_mean_ms")
        yield Choice("box", f"{shape.seeds} runs differ in their seeds alone", (other,), value=values)
    if shape.has_series:
        why = "one run, as it went" if shape.seeds == 1 else "one cell, of which the first seed is shown"
        others = (
            OtherFigure("--kind cdf", "times in queue", "packets"),
            OtherFigure("--value throughput", "one panel", "queue"),
        )
        yield Choice("series", why, others)


def _choose_distributions(shape: _Shape, keys: str, *, short: bool, web: bool) -> Choice:
    if short:
        why, value = f"short flows{keys}", ("completion", "slowdown")
        return Choice("cdf", why, (OtherFigure("--kind lines --value slowdown"),), value=value)
    value = ("flows.goodput_mbit", shape.values[1])
    others = [OtherFigure("--kind bars --value goodput")] if keys else [OtherFigure("--kind series")] * shape.has_series
    others += [OtherFigure("--value slowdown")] * (web and bool(keys))
    why = f"{format_count(shape.flows[1], 'flow')} per run{keys}, too many for one line each"
    return Choice("cdf", why, tuple(others), value=value)


def _choose_versions(key: Dimension, shape: _Shape) -> Choice:
    first, *rest = key.ordered
    over = f" over {join_words([one.name for one in shape.keys if one is not key])}" if len(shape.keys) > 1 else ""
    said = rest[0] if len(rest) == 1 else f"{len(rest)} others"
    why = f"versions in {key.name}{over}: what changes from {first} to {said}"
    return Choice("differences", why, (OtherFigure("--kind bars --value goodput"),), baseline=f"{key.name}={first}")


def _is_map(shape: _Shape) -> bool:
    """Return whether there are two keys that a map may have, and not too many maps for all the others."""
    sizes = sorted((len(one.ordered) for one in shape.keys), reverse=True)
    return len(sizes) > 1 and sizes[0] > 2 and shape.cells / (sizes[0] * sizes[1]) <= FEW_PANELS


def _choose_along_keys(shape: _Shape) -> Iterator[Choice]:
    """Yield lines along the numeric key with most values, or bars, of what traffic gets and of what it waits."""
    sizes = [len(one.ordered) for one in shape.keys]
    longest = _find_longest(shape)
    if longest is not None:
        if shape.cells / len(longest.ordered) > FEW_LINES * FEW_PANELS and sum(size > 2 for size in sizes) > 1:
            return
        others = [one.name for one in shape.keys if one is not longest]
        why = f"{longest.name} is a number" + f", with lines and panels for {join_words(others)}" * bool(others)
        options = (OtherFigure("--kind heat" if others else "--kind bars"), OtherFigure("--value throughput"))
        yield Choice("lines", why, options, value=shape.values)
        return
    box, cdf = OtherFigure("--kind box", "seeds"), OtherFigure("--kind cdf", "times in queue", "packets")
    ellipses = [OtherFigure("--kind ellipses", "what the queue costs")] * any(one.word == "aqm" for one in shape.keys)
    yield Choice("bars", _describe_few(shape), (box if shape.seeds > 1 else cdf, *ellipses), value=shape.values)


def _find_longest(shape: _Shape) -> Dimension | None:
    """Return the numeric key with most values, if it has more than two."""
    longest = max((one for one in shape.keys if one.is_numeric), key=lambda one: len(one.ordered), default=None)
    return longest if longest is not None and len(longest.ordered) > 2 else None


def _describe_few(shape: _Shape) -> str:
    flows = "what each of the unlike flows gets; " * shape.unlike
    return f"{flows}{shape.key_names} {_describe_axis(shape.keys)} few values"


def _describe_axis(keys: Sequence[Dimension]) -> str:
    return "has" if len(keys) == 1 else "have"


def _choose_by_request(results: StoredResults, request: PlotRequest) -> Iterator[Choice]:
    """Yield what suits the keys and measures that are asked for, or any results at all."""
    box, lines = OtherFigure("--kind box"), OtherFigure("--kind lines", needs="number")
    several = [one for one in results.dimensions if not one.is_any_of(request.mean_over)]
    if request.time is not None:
        yield Choice("series", "a part of the time is asked for", (OtherFigure("--kind shares", needs="unlike flows"),))
        return
    if request.against is not None or request.by or request.facet:
        free = [one for one in several if not one.is_any_of([*request.by, *request.facet])]
        numbers = [one.name for one in free if one.is_numeric]
        if request.against is not None and (is_numeric(results, request.against) or request.baseline):
            yield Choice("lines", f"{request.against} is a number", (OtherFigure("--kind bars"), box))
        elif request.against is not None:
            yield Choice("bars", f"{request.against} has names, which no line joins", (box,))
        elif numbers:
            why = f"{join_words(request.keys)} as asked for, lines along {join_words(numbers)}"
            yield Choice("lines", why, (OtherFigure("--kind bars"), box))
        else:
            yield Choice("bars", f"{join_words(request.keys)} as asked for, and no other key is a number", (box,))
        return
    said = join_words([one.name for one in several])
    if results.sessions and not request.of and not request.value and len(results) <= MOST_BESIDE:
        yield _choose_sessions(results)
        return
    if not several:
        packets = OtherFigure("--kind cdf", needs="" if request.value else "packets")
        if not request.of and any(config["record"]["series"] for config in results.configurations.values()):
            yield Choice("series", "all runs have the same settings", (OtherFigure("--kind bars"), packets))
        elif len(results) > 4:
            yield Choice("box", f"{len(results)} runs differ in their seeds alone", (OtherFigure("--kind bars"),))
        else:
            yield Choice("bars", "all runs have the same settings", (packets,))
        return
    sizes = [len(one.ordered) for one in several]
    numeric = [one for one in several if one.is_numeric]
    longest = max((len(one.ordered) for one in numeric), default=0)
    if longest < 3:
        yield Choice("bars", f"{said} {_describe_axis(several)} few values", (box, lines))
    elif (
        math.prod(sizes) / longest > FEW_LINES * FEW_PANELS
        and sum(size > 2 for size in sizes) > 1
        and not request.value
    ):
        choose = OtherFigure("--where KEY=VALUE and --kind lines")
        yield Choice("heat", f"{math.prod(sizes)} combinations of {said}", (choose,))
    else:
        why = f"{join_words([one.name for one in numeric])} {'is a number' if len(numeric) == 1 else 'are numbers'}"
        yield Choice("lines", why, (OtherFigure("--kind bars"), OtherFigure("--kind heat", needs="two keys")))
