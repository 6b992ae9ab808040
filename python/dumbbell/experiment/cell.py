"""One run of an experiment: its resolved parameters, its key, and about how much work it is."""

import hashlib
import json
import marshal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from dumbbell import _native
from dumbbell.experiment import traffic
from dumbbell.experiment.frame_size import compute_full_frame
from dumbbell.experiment.net import list_rates

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


_MOST_KEPT, _LONGEST_KEPT = 4096, 8192  # texts, bytes
_texts: dict[bytes, str] = {}
"""Canonical texts of tables and lists, by their contents: most runs of a program differ in one of them."""


def format_canonical(groups: dict[str, Any]) -> str:
    """Return parameters as text that is the same for the same parameters."""
    return "{" + ",".join([f'"{key}":{format_value(groups[key])}' for key in sorted(groups)]) + "}"


def format_value(value: Any) -> str:
    """Return a parameter, or a table or a list of them, as canonical text has it."""
    if type(value) is int:
        return str(value)
    content = marshal.dumps(value, 2)  # this version writes equal values alike, and unequal ones unlike
    text = _texts.get(content)
    if text is None:
        text = _encode(value)
        if len(content) > _LONGEST_KEPT:
            return text
        if len(_texts) >= _MOST_KEPT:
            _texts.clear()
        _texts[content] = text
    return text


def compute_digest(text: str) -> str:
    """Return the hash that keys are made of."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


_SEED = '"seed":'


class CanonicalText:
    """The canonical text of runs that only their seeds tell apart, made once for all of them."""

    def __init__(self, ahead: str, behind: str) -> None:
        """Take the text ahead of the seed, up to its key, and behind it."""
        self.ahead, self.behind = ahead, behind

    @classmethod
    def format(cls, groups: dict[str, Any]) -> "CanonicalText":
        """Return the text of a run, whose seed is left out if it has one."""
        parts = [(key, f'"{key}":{format_value(groups[key])}') for key in sorted(groups) if key != "seed"]
        ahead = "".join([f"{part}," for key, part in parts if key < "seed"])
        behind = "".join([f",{part}" for key, part in parts if key > "seed"])
        return cls(f"{{{ahead}{_SEED}", f"{behind}}}")

    def insert_seed(self, seed: object) -> str:
        """Return the text of the run with a seed."""
        return f"{self.ahead}{seed}{self.behind}"

    @cached_property
    def key(self) -> str:
        """Hash of what there is without a seed."""
        ahead, behind = self.ahead.removesuffix(_SEED), self.behind.removeprefix(",")
        return compute_digest((ahead.removesuffix(",") if behind == "}" else ahead) + behind)


class Derived(Protocol):
    """A run that was derived from another one."""

    def make_tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the canonical run without its seed, and what is given of it."""

    def format_config(self, seed: int) -> str:
        """Return its canonical text with a seed."""

    def format_text(self) -> CanonicalText:
        """Return its canonical text around the seed."""


@dataclass(frozen=True)
class Cell:
    """One run: a position in the matrix and a seed, resolved."""

    experiment: str
    title: str
    matrix: dict[str, str]
    seed: int
    groups: dict[str, Any]
    """The canonical run. Cells share its tables: they are read, and never changed."""
    engine: str = field(default_factory=lambda: _native.engine_version())
    number: int = 0
    """Of the run in its sweep: what gives tables and figures the order of the files."""
    given: dict[str, Any] = field(default_factory=dict)
    """Of `groups` what the experiment sets; everything else has a default."""
    plan_of: Callable[["Cell"], str] | None = None
    """What an engine does with this cell, where that does not follow from `groups` alone."""

    @classmethod
    def derive(cls, fields: dict[str, Any], derived: Derived) -> "Cell":
        """Return a run with these fields whose `groups` and `given` are derived from those of another one."""
        cell = object.__new__(cls)  # a frozen dataclass sets its fields one by one
        cell.__dict__.update(fields, _derived=derived)
        return cell

    if not TYPE_CHECKING:  # other names stay unknown to the checker of types

        def __getattr__(self, name: str) -> Any:
            """Return the tables of a derived run, which are made when they are first read."""
            derived = self.__dict__.get("_derived") if name in ("groups", "given") else None
            if derived is None:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}")
            groups, given = derived.make_tables()
            self.__dict__.update(groups=groups | {"seed": self.seed}, given=given)
            return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: the tables of a derived run, without the run that it is derived from."""
        state = self.__dict__ | {"groups": self.groups, "given": self.given}
        state.pop("_derived", None)
        return state

    def set_seed(self, seed: int, number: int = 0) -> "Cell":
        """Return this run with another seed, and its number; what seeds do not change is not worked out again."""
        fields = self.__dict__ | {"seed": seed, "number": number, "groups": self.groups | {"seed": seed}}
        fields |= {"_text": self._text, "packets": self.packets, "given": self.given}
        for own in ("key", "_derived"):
            fields.pop(own, None)
        other = object.__new__(Cell)  # a frozen dataclass sets its fields one by one
        other.__dict__.update(fields)
        return other

    @cached_property
    def _text(self) -> CanonicalText:
        derived: Derived | None = self.__dict__.get("_derived")
        return CanonicalText.format(self.groups) if derived is None else derived.format_text()

    def set_text(self, text: CanonicalText) -> None:
        """Say what the canonical text is, where that is known already."""
        self.__dict__["_text"] = text  # as a cached property keeps it

    @property
    def config(self) -> str:
        """Canonical JSON, as the engine reads it; identical flows are one entry with their `count`."""
        if "_derived" in self.__dict__:
            derived: Derived = self.__dict__["_derived"]
            return derived.format_config(self.seed)
        return self._text.insert_seed(self.groups["seed"]) if "seed" in self.groups else format_canonical(self.groups)

    @property
    def has_plugin_text(self) -> bool:
        """Whether its text has the word plugin as a key or a value. A derived run has none."""
        return "_derived" not in self.__dict__ and '"plugin"' in self.config

    @cached_property
    def key(self) -> str:
        """Hash of the resolved parameters, the seed, the engine version and the engine's plan, if it has one."""
        plan = "" if self.plan_of is None else f"\n{self.plan_of(self)}"
        return compute_digest(f"{self.engine}\n{self.config}{plan}")

    @cached_property
    def cell_key(self) -> str:
        """Hash of the resolved parameters alone: that of all seeds, and of every version of the engine."""
        return self._text.key

    @property
    def duration(self) -> int:
        """Simulated time, ns."""
        return int(self.groups["duration"])

    @property
    def flow_count(self) -> int:
        """How many flows and sources of UDP are listed one by one."""
        return sum(one["count"] for one in (*self.groups["flows"], *self.groups["udp"]))

    def _limit_seconds(self, sender: dict[str, Any]) -> float:
        """How long a sender sends at most, s."""
        stop: int = self.duration if sender["stop"] is None else min(sender["stop"], self.duration)
        start: int = sender["start"]["min"]
        return max(0.0, (stop - start) / 1e9)

    def _estimate_arrivals(self, web: dict[str, Any]) -> float:
        rate = self.groups["bottleneck"]["rate"]
        return traffic.compute_flow_rate(web["arrivals"], rate) * self._limit_seconds(web)

    @property
    def short_flow_count(self) -> float:
        """How many short flows arrive, in the mean."""
        return sum(map(self._estimate_arrivals, self.groups["web"]))

    def _list_loads(self) -> Iterator[float]:
        """Yield what data of listed flows and of streams of applications can fill of each hop that they pass, bit/s.

        That is its largest rate, or less: as much as the slowest hops of the routes over it let through.
        """
        groups = self.groups
        hops = {"bottleneck": groups["bottleneck"], "reverse": groups.get("reverse")}
        hops |= {hop["name"]: hop for hop in groups.get("hop", [])}
        own = {"down": ["bottleneck"], "up": ["reverse"]}
        streams = [one for one in groups.get("app", ()) if one["cc"] is not None]
        routes = [one.get("route") or own[one.get("direction", "down")] for one in (*groups["flows"], *streams)]
        rates = {name: float(max(list_rates(hop))) for name, hop in hops.items() if hop is not None}
        slowest = {tuple(route): min((rates[name] for name in route if name in rates), default=0.0) for route in routes}
        for name in dict.fromkeys(name for route in slowest for name in route if name in rates):
            yield min(rates[name], sum(rate for route, rate in slowest.items() if name in route))

    @cached_property
    def packets(self) -> float:
        """About how many packets the run will take: what its cost is computed from.

        Flows and streams of applications fill the links that their data pass; short flows, UDP and other applications
        send what they send, even if it is more than the links carry.
        """
        link = sum(self._list_loads()) * self.duration / 1e9 / (8 * compute_full_frame(self.groups))
        sent = 0.0
        for udp in self.groups["udp"]:
            share = udp["on"] / (udp["on"] + udp["off"]) if udp.get("on") is not None else 1.0
            sent += share * udp["count"] * udp["rate"] * self._limit_seconds(udp) / (8 * udp["size"])
        for one in self.groups.get("app", ()):
            if "interval" in one["kind"]:  # datagrams both ways
                sent += 2 * one["count"] * self._limit_seconds(one) * 1e9 / one["kind"]["interval"]
        for web in self.groups["web"]:
            sent += self._estimate_arrivals(web) * traffic.compute_mean_size(web["size"]) / self.groups["hosts"]["mss"]
        return max(link, sent) + 1000 + 10 * (self.flow_count + self.short_flow_count)
