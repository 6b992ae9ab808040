"""Which figure answers the question that results put: by what varies in them, and what traffic they have.

`choices` yields what may be drawn, the best first. Each says in one line why, and which option draws another figure.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dumbbell.plotting.asked import FEW_LINES, FEW_PANELS, MOST_BESIDE, Asked
from dumbbell.plotting.placing import is_numeric
from dumbbell.results.dimensions import Dimension
from dumbbell.results.results import Results

VERSIONS = ("version", "engine_version", "kernel")  # last words of keys whose values are versions of one thing
_MOST_ELLIPSES = 8  # in a panel, beyond which they cover each other
_FEW_SEEDS = 3  # from which a figure of one cell is of all its seeds
_MANY = FEW_LINES  # flows, above which each has no line of its own


@dataclass(frozen=True)
class Choice:
    """A figure that may be drawn: its kind, what is asked of it, of which flows, and why."""

    kind: str
    why: str
    other: str
    value: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    facet: tuple[str, ...] = ()
    baseline: str | None = None
    where: str | None = None

    def asked(self, asked: Asked) -> Asked:
        """Return what is asked for, with what this figure needs."""
        return replace(
            asked,
            value=asked.value or self.value,
            by=asked.by or self.by,
            facet=asked.facet or self.facet,
            baseline=asked.baseline or self.baseline,
        )

    @property
    def line(self) -> str:
        """The kind, why it was chosen, and the option for another."""
        return f"kind {self.kind}: {self.why}; another: {self.other}"


@dataclass(frozen=True)
class _Shape:
    """What decides: the keys that vary, and the traffic, which all cells must have for what is said of it."""

    keys: list[Dimension]
    seeds: int
    flows: tuple[int, int]  # TCP and stacks: the fewest and the most of a cell
    udp: bool
    web: bool
    has_series: bool

    @property
    def cells(self) -> int:
        """The combinations of values that there may be."""
        return math.prod(len(one.ordered) for one in self.keys)

    @property
    def said(self) -> str:
        """The names of the keys."""
        return _listed([one.name for one in self.keys])

    @property
    def values(self) -> tuple[str, str]:
        """The two measures that say most of traffic of this kind: what it gets, and what it waits."""
        if self.flows == (1, 1) and not self.udp and not self.web:
            return "utilisation", "sojourn"
        rates = any(one.word == "rate" for one in self.keys)
        got = "flows.share" if rates and not self.web else "flows.goodput_mbit"
        return got, "flows.sojourn_mean_ms" if self.udp else "flows.rtt_mean_ms"


def _shape(results: Results, asked: Asked) -> _Shape:
    configs = list(results.configurations.values())
    flows = [_count(config, "flows") for config in configs] or [0]
    return _Shape(
        keys=[one for one in results.dimensions if one.name not in asked.mean_over],
        seeds=len(results.seeds),
        flows=(min(flows), max(flows)),
        udp=any(_count(config, "udp") for config in configs),
        web=any(config.get("web") for config in configs),
        has_series=any(config.get("record", {}).get("series") for config in configs),
    )


def _count(config: dict[str, Any], section: str) -> int:
    return sum(one.get("count", 1) for one in config.get(section) or [])


def choices(results: Results, asked: Asked) -> Iterator[Choice]:
    """Yield the figures that suit results, the best first; the last can be drawn of almost any."""
    wanted = (asked.value, asked.keys, asked.of, asked.baseline, asked.time)
    if not any(wanted) and not results.of_parts:
        yield from _by_shape(results, _shape(results, asked))
    yield _by_request(results, asked)


def _by_shape(results: Results, shape: _Shape) -> Iterator[Choice]:
    """Yield what an expert would draw of results of this shape."""
    if results.sessions:
        if len(results) <= MOST_BESIDE:
            yield Choice("series", f"{_times(len(results), 'run')} of dumbbell shell", "--kind cdf")
        return
    versions = [one for one in shape.keys if one.word in VERSIONS]
    aqms = [one for one in shape.keys if one.word == "aqm"]
    short = shape.web and shape.flows[1] == 0
    many = shape.flows[0] > _MANY
    if not shape.keys:
        yield from _of_one_cell(shape, short=short, many=many)
        return
    if versions:
        yield _versions(versions[0], shape)
    if (short or many) and shape.cells <= FEW_PANELS:
        yield _distributions(shape, f" over {shape.said}", short=short, web=shape.web)
    if aqms and len(aqms[0].ordered) <= _MOST_ELLIPSES and shape.cells <= len(aqms[0].ordered) * FEW_PANELS:
        others = tuple(one.name for one in shape.keys if one is not aqms[0])
        yield Choice(
            "ellipses",
            f"{len(aqms[0].ordered)} queue disciplines, of which each trades delay for utilisation (RFC 7928)",
            f"--kind bars --value goodput, or --kind cdf --by {aqms[0].name}",
            value=("runs.sojourn_mean_ms", "runs.utilisation"),
            by=(aqms[0].name,),
            facet=others,
        )
    if shape.flows == (2, 2) and not shape.udp and not shape.web and _is_map(shape):
        yield Choice(
            "heat",
            f"two flows over {shape.said}, of which the first has this share of the goodput",
            "--kind lines --value goodput, or --kind heat --value utilisation",
            value=("share",),
            where="flow=0",
        )
    if short:
        yield Choice("lines", f"short flows over {shape.said}", "--kind cdf", value=("slowdown",))
        return
    yield from _along_keys(shape)


def _of_one_cell(shape: _Shape, *, short: bool, many: bool) -> Iterator[Choice]:
    """Yield what to draw of runs that differ in nothing but their seeds."""
    if short or many:
        yield _distributions(shape, "", short=short, web=shape.web)
    if shape.seeds >= _FEW_SEEDS and shape.flows[1] + shape.udp:
        other = "--kind series for one of them over time" if shape.has_series else "--kind bars"
        values = ("flows.goodput_mbit", shape.values[1] if shape.flows[1] > 1 else "flows.rtt_mean_ms")
        yield Choice("box", f"{shape.seeds} runs differ in their seeds alone", other, value=values)
    if shape.has_series:
        why = "one run, as it went" if shape.seeds == 1 else "one cell, of which the first seed is shown"
        yield Choice("series", why, "--kind cdf for times in queue, or --value throughput for one panel")


def _distributions(shape: _Shape, keys: str, *, short: bool, web: bool) -> Choice:
    if short:
        why, value = f"short flows{keys}", ("completion", "slowdown")
        return Choice("cdf", why, "--kind lines --value slowdown", value=value)
    value = ("flows.goodput_mbit", shape.values[1])
    return Choice(
        "cdf",
        f"{_times(shape.flows[1], 'flow')} per run{keys}, too many for one line each",
        "--kind series" if not keys else "--kind bars --value goodput" + ", or --value slowdown" * web,
        value=value,
    )


def _versions(key: Dimension, shape: _Shape) -> Choice:
    first, *rest = key.ordered
    over = f" over {_listed([one.name for one in shape.keys if one is not key])}" if len(shape.keys) > 1 else ""
    said = rest[0] if len(rest) == 1 else f"{len(rest)} others"
    why = f"versions in {key.name}{over}: what changes from {first} to {said}"
    return Choice("differences", why, "--kind bars --value goodput", baseline=f"{key.name}={first}")


def _is_map(shape: _Shape) -> bool:
    """Return whether there are two keys that a map may have, and not too many maps for all the others."""
    sizes = sorted((len(one.ordered) for one in shape.keys), reverse=True)
    return len(sizes) > 1 and sizes[0] > 2 and shape.cells / (sizes[0] * sizes[1]) <= FEW_PANELS


def _along_keys(shape: _Shape) -> Iterator[Choice]:
    """Yield lines along the numeric key with most values, or bars, of what traffic gets and of what it waits."""
    sizes = [len(one.ordered) for one in shape.keys]
    longest = max((one for one in shape.keys if one.is_numeric), key=lambda one: len(one.ordered), default=None)
    if longest is not None and len(longest.ordered) > 2:
        if shape.cells / len(longest.ordered) > FEW_LINES * FEW_PANELS and sum(size > 2 for size in sizes) > 1:
            return
        others = [one.name for one in shape.keys if one is not longest]
        why = f"{longest.name} is a number" + f", with lines and panels for {_listed(others)}" * bool(others)
        yield Choice("lines", why, f"--kind {'heat' if others else 'bars'}, or --value throughput", value=shape.values)
        return
    other = "--kind box for seeds" if shape.seeds > 1 else "--kind cdf for times in queue"
    yield Choice("bars", f"{shape.said} {_has(shape.keys)} few values", other, value=shape.values)


def _has(keys: Sequence[Dimension]) -> str:
    return "has" if len(keys) == 1 else "have"


def _by_request(results: Results, asked: Asked) -> Choice:
    """Return what suits the keys and measures that are asked for, or any results at all."""
    if asked.time is not None:
        return Choice("series", "a part of the time is asked for", "--kind shares")
    if asked.against is not None or asked.by or asked.facet:
        if is_numeric(results, asked.against) or asked.baseline:
            why = (
                f"{asked.against} is a number"
                if asked.against
                else f"{_listed(asked.keys)} asked for, lines for the rest"
            )
            return Choice("lines", why, "--kind bars, or --kind box")
        return Choice("bars", f"{asked.against} has names, which no line joins", "--kind box, or --kind lines")
    several = [one for one in results.dimensions if one.name not in asked.mean_over]
    said = _listed([one.name for one in several])
    if results.sessions and not asked.of and not asked.value and len(results) <= MOST_BESIDE:
        return Choice("series", f"{_times(len(results), 'run')} of dumbbell shell", "--kind cdf")
    if not several:
        if not asked.of and any(config["record"]["series"] for config in results.configurations.values()):
            return Choice("series", "the runs differ in nothing", "--kind bars, or --kind cdf")
        if len(results) > 4:
            return Choice("box", f"{len(results)} runs differ in their seeds alone", "--kind bars")
        return Choice("bars", "the runs differ in nothing", "--kind cdf")
    sizes = [len(one.ordered) for one in several]
    longest = max((size for one, size in zip(several, sizes, strict=True) if one.is_numeric), default=0)
    if longest < 3:
        return Choice("bars", f"{said} {_has(several)} few values", "--kind box, or --kind lines")
    if math.prod(sizes) / longest > FEW_LINES * FEW_PANELS and sum(size > 2 for size in sizes) > 1 and not asked.value:
        return Choice("heat", f"{math.prod(sizes)} combinations of {said}", "--where KEY=VALUE and --kind lines")
    return Choice("lines", f"along a number of {said}", "--kind bars, or --kind heat")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
