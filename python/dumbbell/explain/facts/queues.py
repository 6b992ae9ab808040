"""What queues and links did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dumbbell.explain.facts.base import Fact, Grouped, Rank, at_hop, queue_of
from dumbbell.explain.words import count, lasting, listed, milliseconds, number, percent, rate, seconds, span, times


@dataclass(frozen=True)
class Acted(Grouped):
    """A queue marked or dropped packets of any traffic."""

    hop: str
    what: str
    """marked (CE), marked_sce or dropped."""

    def said(self) -> str:
        """Say `The queue dropped 166 packets in 4 bursts: …`."""
        did = {"marked": "marked", "marked_sce": "marked", "dropped": "dropped"}[self.what]
        sign = " with SCE" * (self.what == "marked_sce") + " with CE" * (self.what == "marked")
        return f"{queue_of(self.hop)} {did} {count(self.count, 'packet')}{sign} {self.in_bursts}."


@dataclass(frozen=True)
class StartPeak(Fact):
    """How long packets waited at most while the first flows were in slow start: the largest mean of an interval."""

    hop: str
    at_s: float
    until_s: float
    interval_s: float
    peak_ms: float

    def said(self) -> str:
        """Say `Slow start filled the queue: …`."""
        return (
            f"until {seconds(self.until_s)}, in slow start, packets waited up to {milliseconds(self.peak_ms)} in "
            f"{queue_of(self.hop)} (mean of {lasting(self.interval_s)})."
        )


@dataclass(frozen=True)
class Steady(Fact):
    """Time in queue after the start: the mean of all packets."""

    rank: ClassVar[Rank] = Rank.COURSE
    hop: str
    from_s: float
    until_s: float
    mean_ms: float

    def said(self) -> str:
        """Say `From 3 s on packets waited 6 ms in the mean`."""
        return (
            f"{span(self.from_s, self.until_s)} packets waited {milliseconds(self.mean_ms)} in "
            f"{queue_of(self.hop)} in the mean."
        )


@dataclass(frozen=True)
class Peak(Fact):
    """The interval in which packets waited longest in the mean."""

    hop: str
    at_s: float
    interval_s: float
    mean_ms: float

    def said(self) -> str:
        """Say `Packets waited longest …`."""
        return (
            f"packets waited longest in {queue_of(self.hop)}: {milliseconds(self.mean_ms)}, the mean of "
            f"{lasting(self.interval_s)}."
        )


@dataclass(frozen=True)
class Empty(Fact):
    """How often a queue was seen empty."""

    rank: ClassVar[Rank] = Rank.COURSE
    hop: str
    from_s: float
    until_s: float
    interval_s: float
    share: float

    def said(self) -> str:
        """Say `The queue was empty at 12 % of the looks`."""
        look = f"looked at every {lasting(self.interval_s)}"
        if self.share == 0:
            when = span(self.from_s, self.until_s)
            return f"{queue_of(self.hop)} was never empty {when} ({look}): a standing queue."
        since = seconds(self.from_s)
        return f"{queue_of(self.hop)} was empty at {percent(self.share)} of all looks from {since} on ({look})."


@dataclass(frozen=True)
class Dropping(Fact):
    """Periods in which CoDel, or a queue of several CoDels, was in its state of dropping or marking."""

    rank: ClassVar[Rank] = Rank.COURSE
    hop: str
    from_s: float
    until_s: float
    periods: int
    share: float
    """Of the run."""
    longest_s: float
    longest_at_s: float
    interval_s: float

    def said(self) -> str:
        """Say `CoDel was in its dropping state 12 times …`."""
        longest = (
            f", the longest {lasting(self.longest_s)} from {seconds(self.longest_at_s)}" if self.periods > 1 else ""
        )
        return (
            f"CoDel was in its dropping state {times(self.periods)}{at_hop(self.hop)}, "
            f"{percent(self.share)} of the run{longest} (looked at every {lasting(self.interval_s)})."
        )


@dataclass(frozen=True)
class Probability(Fact):
    """The probability of the control law of PIE, PI2 or DualPI2."""

    rank: ClassVar[Rank] = Rank.COURSE
    hop: str
    from_s: float
    median: float
    most: float
    most_at_s: float

    def said(self) -> str:
        """Say `The probability of the AQM was 0.012 in the median …`."""
        return (
            f"the probability p of the AQM's control law{at_hop(self.hop)} was {number(self.median, 2)} in the median, "
            f"and at most {number(self.most, 2)}, at {seconds(self.most_at_s)}."
        )


@dataclass(frozen=True)
class RateChange(Fact):
    """The rate of a link changed by the configuration, and what the queue did until the next change, 5 s at most."""

    hop: str
    at_s: float
    from_mbit: float
    to_mbit: float
    until_s: float
    peak_ms: float | None
    peak_at_s: float | None
    drops: int
    marks: int

    def said(self) -> str:
        """Say `The rate fell from 20 to 5 Mbit/s …`."""
        fell = "fell" if self.to_mbit < self.from_mbit else "rose"
        link = f"the rate of {self.hop}" if self.hop else "the rate of the link"
        text = f"{link} {fell} from {rate(self.from_mbit)} to {rate(self.to_mbit)}."
        if self.peak_ms is not None and self.peak_at_s is not None:
            text += f" Until {seconds(self.until_s)} packets waited up to {milliseconds(self.peak_ms)}"
            text += f", at {seconds(self.peak_at_s)}"
            done = [f"{n} packets were {did}" for n, did in ((self.drops, "dropped"), (self.marks, "marked")) if n > 1]
            done += [f"one packet was {did}" for n, did in ((self.drops, "dropped"), (self.marks, "marked")) if n == 1]
            text += f"; {listed(done)}." if done else "; none was dropped or marked."
        return text


@dataclass(frozen=True)
class Outages(Fact):
    """Times in which a link could carry nothing."""

    rank: ClassVar[Rank] = Rank.COURSE
    hop: str
    from_s: float
    until_s: float
    count: int
    longest_s: float
    longest_at_s: float
    total_s: float

    def said(self) -> str:
        """Say `The link was off 3 times …`."""
        link = f"the link of {self.hop}" if self.hop else "the link"
        if self.count == 1:
            return f"{link} could carry nothing for {lasting(self.longest_s)}."
        return (
            f"{link} could carry nothing {times(self.count)} until {seconds(self.until_s)}, {lasting(self.total_s)} in "
            f"all; the longest outage took {lasting(self.longest_s)} from {seconds(self.longest_at_s)}."
        )
