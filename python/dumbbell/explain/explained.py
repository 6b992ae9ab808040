"""A run in facts and sentences: what it was, what it came to, what happened, and what is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dumbbell.experiment import units
from dumbbell.explain import phrases, queue_facts, sender_facts, share_facts
from dumbbell.explain.facts.base import Fact, Rank
from dumbbell.explain.observed import Observed
from dumbbell.words import capitalise, format_duration, format_rate, join_words

_MOST_LISTED = 6  # groups of flows that the first sentence names
# the kinds of facts, in the order in which they are printed
_ORDER = (
    *("closed", "utilisation", "shares", "even", "leads", "converged"),
    *("waiting", "waiting_by_flow", "signals"),
    *("round_trips", "short_flows", "udp", "totals"),
)


@dataclass(frozen=True, repr=False)
class Explained:
    """One run: what it is, the facts in the order in which they are printed, and notes on what is missing."""

    run: Observed
    setting: str
    facts: list[Fact]
    notes: list[str]

    @property
    def results(self) -> list[Fact]:
        """The summary of the run."""
        return [one for one in self.facts if one.rank is Rank.RESULT]

    @property
    def events(self) -> list[Fact]:
        """The events in order of time."""
        return [one for one in self.facts if one.rank is Rank.EVENT]

    @property
    def course(self) -> list[Fact]:
        """The lasting states: of queues, then flow by flow."""
        return [one for one in self.facts if one.rank is Rank.COURSE]

    def to_text(self) -> str:
        """Return it as text, one line per sentence."""
        run = self.run
        keys = "".join(f", {key} = {value}" for key, value in run.matrix.items())
        name = f"run {run.key[:8]}, " if run.key else ""
        head = f"{run.experiment}: {name}seed {run.seed}{keys}, engine {run.engine_text or run.engine}"
        lines = [head, "", self.setting, "", *(f"- {one.sentence}" for one in self.results)]
        if self.events:
            times = [phrases.format_clock(one.when) for one in self.events]
            width = max(map(len, times))
            lines += ["", "When:", ""]
            lines += [f"{time:>{width}}  {one.sentence}" for time, one in zip(times, self.events, strict=True)]
        if self.course:
            lines += ["", "Meanwhile:", "", *(f"- {one.sentence}" for one in self.course)]
        lines += ["", *self.notes] if self.notes else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()

    def to_json(self) -> dict[str, Any]:
        """Return it as a table: the run, its setting, every fact with its numbers and its sentence, the notes."""
        run = self.run
        return {
            "experiment": run.experiment,
            "title": run.title,
            "key": run.key or None,
            "matrix": run.matrix,
            "seed": run.seed,
            "engine": run.engine,
            "setting": self.setting,
            "facts": [one.to_json() for one in self.facts],
            "notes": self.notes,
        }


def explain_run(run: Observed) -> Explained:
    """Return what happened in a run."""
    found = [*queue_facts.find_facts(run), *share_facts.find_facts(run), *sender_facts.find_facts(run)]
    results = [one for one in found if one.rank is Rank.RESULT]
    results.sort(key=lambda one: _ORDER.index(one.kind))
    # at one time, starts come first
    events = sorted((one for one in found if one.rank is Rank.EVENT), key=lambda one: (one.when, one.kind != "started"))
    course = [one for one in found if one.rank is Rank.COURSE]
    return Explained(run, describe_setting(run), [*results, *events, *course], _list_notes(run))


def _list_notes(run: Observed) -> list[str]:
    notes = []
    if run.measured_from_s:
        notes.append(
            f"Totals, shares and waiting times count from {phrases.format_time(run.measured_from_s)} on; "
            "events are those of the whole run."
        )
    if not run.has_series:
        notes.append("The run kept no time series (record.series is false), so the times of events are not known.")
    if len([one for one in run.members if "cc" in one[1]]) > sender_facts.MOST_SINGLE:
        notes.append(f"There are more than {sender_facts.MOST_SINGLE} flows: single flows are left out.")
    return [*notes, *run.notes]


def describe_setting(run: Observed) -> str:
    """Return one sentence on who shares what."""
    config = run.config
    both = bool(config.get("reverse")) and len({group.get("direction") for group in config["flows"]}) > 1
    senders_ = [_describe_sender(name, group) + _describe_direction(group) * both for name, group in run.groups]
    for web in config["web"]:
        senders_.append(
            f"short flows of {phrases.format_label(web['cc']['name'])} ({units.show('time', web['base_rtt'])})"
        )
    if len(senders_) > _MOST_LISTED:
        senders_ = [*senders_[:_MOST_LISTED], f"{len(senders_) - _MOST_LISTED} other groups"]
    hop = config["bottleneck"]
    queue = phrases.format_label(hop["aqm"]["name"])
    rate = format_rate(hop["rate"] / 1e6)
    others = [(one["name"], one) for one in config.get("hop", [])]
    if config.get("reverse") and any(group.get("direction") == "up" for _, group in run.groups):
        others.append(("reverse", config["reverse"]))
    alone = len(run.members) == 1 and not config["web"]
    verb = "has" if alone else "share"
    link = hop.get("link")
    kind = link.get("name") if isinstance(link, dict) else None
    what = f"a link ({kind})" if kind not in (None, "serial") else "a link"
    who = join_words(senders_) or "nobody"
    if run.kind == "import":  # of its link nothing is known for sure
        return f"{capitalise(who)} {'was' if alone else 'were'} measured for {format_duration(run.duration_s)}."
    if others:
        hops = [
            f"{name} ({format_rate(one['rate'] / 1e6)} with {phrases.format_label(one['aqm']['name'])})"
            for name, one in [("bottleneck", hop), *others]
        ]
        verb, what = "passes" if alone else "pass", join_words(hops)
    else:
        what = f"{what} of {rate} with {queue}"
    return f"{who} {verb} {what} for {format_duration(run.duration_s)}."


def _describe_direction(group: dict[str, Any]) -> str:
    """Return which way the data of a group go."""
    return " on the way up" if group.get("direction") == "up" else " on the way down"


def _describe_sender(name: str, group: dict[str, Any]) -> str:
    many = f"{group['count']} flows of " if group["count"] > 1 else ""
    if "cc" not in group:
        return f"{many}{name} of {format_rate(group['rate'] / 1e6)}"
    rtt = units.show("time", group["base_rtt"])
    if rtt in name:
        return f"{many}{name}"
    return f"{many}{name[:-1]}, {rtt})" if name.endswith(")") else f"{many}{name} ({rtt})"
