"""Facts of queues and links."""

from __future__ import annotations

from dumbbell.explain.facts.base import Grouped, OfQueue, Rank, link_of
from dumbbell.explain.phrases import format_milliseconds, format_span, format_time
from dumbbell.words import (
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_rate,
    format_times,
    join_words,
)

_MOST_NAMED = 3  # flows


class Acted(Grouped):
    """A queue marked or dropped packets of any traffic."""

    hop: str
    what: str
    """marked (CE), marked_sce or dropped."""

    def _describe(self) -> str:
        """Say `The 166 drops came in 4 bursts: …`."""
        what = {"marked": "CE mark", "marked_sce": "SCE mark", "dropped": "drop"}[self.what]
        where = f" at {self.hop}" if self.hop else ""
        if self.count == 1:
            return f"the only {what}{where} was {self.in_bursts}."
        return f"the {format_count(self.count, what)}{where} came {self.in_bursts}."


def _name_slow_start(of: tuple[str, ...]) -> str:
    """Return whose slow start it was; `of` is empty if it was that of all flows."""
    if not of:
        return "slow start"
    if len(of) > _MOST_NAMED:
        return f"the slow start of {len(of)} flows"
    return f"the slow start of {join_words(of)}"


class StartPeak(OfQueue):
    """How long packets waited at most while the first flows were in slow start: the largest mean of an interval."""

    at_s: float
    until_s: float
    interval_s: float
    peak_ms: float
    of: tuple[str, ...] = ()
    """Which flows; none if it was the slow start of all."""

    def _describe(self) -> str:
        return (
            f"{_name_slow_start(self.of)} built a queue{self.place}: until {format_time(self.until_s)} packets "
            "waited up to "
            f"{format_milliseconds(self.peak_ms)} (mean of {format_duration(self.interval_s)})."
        )


class Steady(OfQueue, rank=Rank.COURSE):
    """Time in queue after the start: the mean of all packets."""

    from_s: float
    until_s: float
    mean_ms: float
    of: tuple[str, ...] = ()
    """After whose slow start; none if it was that of all."""

    def _describe(self) -> str:
        return (
            f"after {_name_slow_start(self.of)}, {format_span(self.from_s, self.until_s)}, packets waited "
            f"{format_milliseconds(self.mean_ms)} in {self.queue} on average."
        )


class Peak(OfQueue):
    """The interval in which packets waited longest in the mean."""

    at_s: float
    interval_s: float
    mean_ms: float

    def _describe(self) -> str:
        mean = f"mean of {format_duration(self.interval_s)}"
        return f"packets waited longest: {format_milliseconds(self.mean_ms)} in {self.queue} ({mean})."


class Empty(OfQueue, rank=Rank.COURSE):
    """How often a queue was seen empty."""

    from_s: float
    until_s: float
    interval_s: float
    share: float

    def _describe(self) -> str:
        """Say `The queue was empty for 12 % of the time …`."""
        look = f"looked at every {format_duration(self.interval_s)}"
        when = format_span(self.from_s, self.until_s)
        if self.own_queues:
            share = "always" if self.share == 0 else f"for {format_percent(1 - self.share)} of the time"
            return f"at least one of {self.queue} held a packet {share} {when} ({look})."
        if self.share == 0:
            return f"{self.queue} was never empty {when} ({look}): a standing queue."
        return f"{self.queue} was empty for {format_percent(self.share)} of the time {when} ({look})."


class Dropping(OfQueue, rank=Rank.COURSE):
    """Periods in which CoDel, or a queue of several CoDels, was in its state of dropping or marking."""

    from_s: float
    until_s: float
    periods: int
    share: float
    """Of the run."""
    longest_s: float
    longest_at_s: float
    interval_s: float

    def _describe(self) -> str:
        """Say `CoDel was in its dropping state, in which it also marks, 12 times …`."""
        longest = (
            f", the longest {format_duration(self.longest_s)} from {format_time(self.longest_at_s)}"
            if self.periods > 1
            else ""
        )
        who = "the CoDel of at least one queue" if self.own_queues else "CoDel"
        return (
            f"{who}{self.place} was in its dropping state, in which it also marks, {format_times(self.periods)}, "
            f"{format_percent(self.share)} of the run{longest} (looked at every {format_duration(self.interval_s)})."
        )


class Probability(OfQueue, rank=Rank.COURSE):
    """The probability of the control law of PIE, PI2 or DualPI2."""

    from_s: float
    median: float
    most: float
    most_at_s: float

    def _describe(self) -> str:
        above = "; its law does not stop at 1" if self.most > 1 else ""
        return (
            f"the probability p of the AQM's control law{self.place} was {format_number(self.median, 2)} in the "
            f"median and {format_number(self.most, 2)} at most, at {format_time(self.most_at_s)}{above}."
        )


class RateChange(OfQueue):
    """The rate of a link changed by the configuration, and what the queue did until the next change, 5 s at most."""

    at_s: float
    from_mbit: float
    to_mbit: float
    until_s: float
    peak_ms: float | None
    peak_at_s: float | None
    drops: int
    marks: int

    def _describe(self) -> str:
        """Say `The rate fell from 20 to 5 Mbit/s …`."""
        fell = "fell" if self.to_mbit < self.from_mbit else "rose"
        text = (
            f"the rate of {link_of(self.hop)} {fell} from {format_rate(self.from_mbit)} to {format_rate(self.to_mbit)}."
        )
        if self.peak_ms is not None and self.peak_at_s is not None:
            text += f" Until {format_time(self.until_s)} packets waited up to {format_milliseconds(self.peak_ms)}"
            text += f", at {format_time(self.peak_at_s)}"
            done = [f"{n} packets were {did}" for n, did in ((self.drops, "dropped"), (self.marks, "marked")) if n > 1]
            done += [f"one packet was {did}" for n, did in ((self.drops, "dropped"), (self.marks, "marked")) if n == 1]
            text += f"; {join_words(done)}." if done else "; none was dropped or marked."
        return text


class Outages(OfQueue, rank=Rank.COURSE):
    """Times in which a link could carry nothing."""

    from_s: float
    until_s: float
    count: int
    longest_s: float
    longest_at_s: float
    total_s: float

    def _describe(self) -> str:
        """Say `The link was off 3 times …`."""
        link = link_of(self.hop)
        if self.count == 1:
            return f"{link} could carry nothing for {format_duration(self.longest_s)}."
        return (
            f"{link} could carry nothing {format_times(self.count)} until {format_time(self.until_s)}, "
            f"{format_duration(self.total_s)} in "
            f"all; the longest outage took {format_duration(self.longest_s)} from {format_time(self.longest_at_s)}."
        )
