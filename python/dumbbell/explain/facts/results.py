"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dumbbell.explain.facts.base import Fact, Rank, at_hop, queue_of
from dumbbell.explain.words import count, lasting, listed, milliseconds, number, percent, rate, seconds, span, times


@dataclass(frozen=True)
class Utilisation(Fact):
    """What left a link, of what it could carry."""

    rank: ClassVar[Rank] = Rank.RESULT
    hop: str
    share: float
    throughput_mbit: float
    capacity_mbit: float

    def said(self) -> str:
        """Say `The link was 96.5 % utilised: …`."""
        link = f"the link of {self.hop}" if self.hop else "the link"
        return (
            f"{link} was {percent(self.share)} utilised: {rate(self.throughput_mbit)} of the {rate(self.capacity_mbit)}"
            " that it could carry."
        )


@dataclass(frozen=True)
class Waiting(Fact):
    """Time in queue of all packets of the measured time."""

    rank: ClassVar[Rank] = Rank.RESULT
    hop: str
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float

    def said(self) -> str:
        """Say `A packet waited 7.2 ms in the mean …`."""
        if self.max_ms < 0.001:
            return f"no packet waited{at_hop(self.hop)}."
        return (
            f"a packet waited {milliseconds(self.mean_ms)} in {queue_of(self.hop)} in the mean, "
            f"{milliseconds(self.p50_ms)} in the median, {milliseconds(self.p99_ms)} at P99 and at most "
            f"{milliseconds(self.max_ms)}."
        )


@dataclass(frozen=True)
class Signals(Fact):
    """Packets that a queue marked or dropped in the measured time."""

    rank: ClassVar[Rank] = Rank.RESULT
    hop: str
    ce_marks: int
    sce_marks: int
    drops_overflow: int
    drops_aqm: int
    packets: int

    def said(self) -> str:
        """Say `The queue marked 14 packets and dropped 3 …`."""
        done = []
        if self.ce_marks:
            done.append(f"marked {count(self.ce_marks, 'packet')} with CE ({percent(self._share(self.ce_marks))})")
        if self.sce_marks:
            done.append(f"marked {count(self.sce_marks, 'packet')} with SCE ({percent(self._share(self.sce_marks))})")
        drops = self.drops_overflow + self.drops_aqm
        if drops:
            reasons = {"because it was full": self.drops_overflow, "by the AQM": self.drops_aqm}
            of = [f"{number} {why}" for why, number in reasons.items() if number]
            why = f", {next(w for w, n in reasons.items() if n)}" if len(of) == 1 else f": {listed(of)}"
            done.append(f"dropped {count(drops, 'packet')} ({percent(drops / (self.packets + drops))}){why}")
        name = queue_of(self.hop)
        return f"{name} {listed(done)}." if done else f"{name} neither marked nor dropped a packet."

    def _share(self, marks: int) -> float:
        return marks / max(self.packets, 1)


@dataclass(frozen=True)
class Shares(Fact):
    """Goodput of the flows over the measured time of each, largest first; Jain's index of TCP, if there are several."""

    rank: ClassVar[Rank] = Rank.RESULT
    names: tuple[str, ...]
    goodput_mbit: tuple[float, ...]
    share: tuple[float, ...]
    flows: tuple[int, ...]
    jain: float | None
    own_time: bool
    """Whether the flows were measured over unlike times."""

    def said(self) -> str:
        """Say `BBRv3 got 70 % of the goodput (13.9 Mbit/s), CUBIC 30 % (5.96 Mbit/s)`."""
        if len(self.names) == 1:
            return f"{self.names[0]} had a goodput of {rate(self.goodput_mbit[0])}."
        rows = list(zip(self.names, self.share, self.goodput_mbit, strict=True))
        (name, share, mbit), *others = rows
        shown = others if len(others) <= 5 else [*others[:2], others[-1]]
        of = [f"{name} got {percent(share)} of the goodput ({rate(mbit)})"]
        of += [f"{name} {percent(share)} ({rate(mbit)})" for name, share, mbit in shown]
        text = listed(of)
        if len(shown) < len(others):
            text = f"{text}, the least of {len(rows)}"
        own = ", each over its own time" * self.own_time
        fair = f" Jain's index is {self.jain:.3f}." if self.jain is not None else ""
        return f"{text}{own}.{fair}"


@dataclass(frozen=True)
class Leads(Fact):
    """A flow had more goodput than each other in every interval of a time."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    flow: int
    than: str
    """The other flow, if there is one."""
    from_s: float
    until_s: float
    interval_s: float
    share: float
    """Of the goodput of the TCP flows in this time."""

    def said(self) -> str:
        """Say `BBRv3 had more than each other flow in every interval of 1 s from 4 s to the end`."""
        return (
            f"{self.name} was ahead of {self.than or 'each other flow'} in every {lasting(self.interval_s)} from "
            f"{seconds(self.from_s)} to {seconds(self.until_s)}, with {percent(self.share)} of the goodput."
        )


@dataclass(frozen=True)
class Even(Fact):
    """The shares of the flows were about equal in every interval of a time."""

    rank: ClassVar[Rank] = Rank.RESULT
    flows: int
    from_s: float
    until_s: float
    interval_s: float
    within: float
    """Largest distance of a share from the equal one, 0 to 1."""

    def said(self) -> str:
        """Say `From 4 s on no share was more than 8 points from 50 % …`."""
        return (
            f"{span(self.from_s, self.until_s)} the {self.flows} flows shared evenly: in "
            f"every {lasting(self.interval_s)} no share was more than {number(100 * self.within, 2)} percentage points"
            f" from {percent(1 / self.flows)}."
        )


@dataclass(frozen=True)
class LeadChanges(Fact):
    """The flow with the largest goodput changed from one interval to the next."""

    rank: ClassVar[Rank] = Rank.RESULT
    changes: int
    from_s: float
    until_s: float
    interval_s: float

    def said(self) -> str:
        """Say `No flow led for long …`."""
        return (
            f"no flow led for long: {span(self.from_s, self.until_s)} the lead changed "
            f"{times(self.changes)} (looked at every {lasting(self.interval_s)})."
        )


@dataclass(frozen=True)
class Converged(Fact):
    """When the goodputs of one interval were first fair, from the start of the last flow; None if never."""

    rank: ClassVar[Rank] = Rank.RESULT
    after_s: float | None
    interval_s: float

    def said(self) -> str:
        """Say `The flows first shared fairly 3.2 s after the last one had started …`."""
        length = lasting(self.interval_s)
        if self.after_s is None:
            return (
                "the flows never shared fairly: Jain's index of the goodput stayed below 0.95 in each whole interval "
                f"of {length} after the last start."
            )
        return (
            f"the flows first shared fairly {lasting(self.after_s)} after the last one had started: Jain's index of "
            f"the goodput in {length} was 0.95 or more."
        )


@dataclass(frozen=True)
class RoundTrips(Fact):
    """RTT samples of a flow."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    flow: int
    base_ms: float
    min_ms: float
    p50_ms: float
    p99_ms: float

    def said(self) -> str:
        """Say `The RTT of CUBIC was 46 ms in the median …`."""
        return (
            f"the RTT of {self.name} was {milliseconds(self.p50_ms)} in the median and {milliseconds(self.p99_ms)} at "
            f"P99, at least {milliseconds(self.min_ms)}; the base RTT is {milliseconds(self.base_ms)}."
        )


@dataclass(frozen=True)
class ShortFlows(Fact):
    """Short flows of one class."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    began: int
    completion_p50_s: float
    completion_p95_s: float
    kept: int
    """How many of those that ended the percentiles are of."""

    def said(self) -> str:
        """Say `812 short flows of CUBIC began …`."""
        began = f"{count(self.began, 'short flow')} of {self.name} began"
        if not self.kept:
            return f"{began}; none ended."
        of = "" if self.kept >= self.began else f" (of {self.kept} that ended)"
        return (
            f"{began}; the median took {lasting(self.completion_p50_s)} and P95 {lasting(self.completion_p95_s)}{of}."
        )


@dataclass(frozen=True)
class Udp(Fact):
    """What became of unresponsive UDP."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    flow: int
    goodput_mbit: float
    drops: int
    delay_mean_ms: float | None
    delay_max_ms: float | None

    def said(self) -> str:
        """Say `UDP received 0.97 Mbit/s …`."""
        text = f"{self.name} delivered {rate(self.goodput_mbit)} of payload; the queue dropped {self.drops or 'none'}"
        text += " of its packets" if self.drops else ""
        if self.delay_mean_ms is not None and self.delay_max_ms is not None:
            text += (
                f". Its one-way delay was {milliseconds(self.delay_mean_ms)} in the mean and "
                f"{milliseconds(self.delay_max_ms)} at most"
            )
        return f"{text}."


@dataclass(frozen=True)
class Totals(Fact):
    """What a sender counted in the measured time."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    flow: int
    sent: int
    retransmissions: int
    timeouts: int | None

    def said(self) -> str:
        """Say `CUBIC sent 10 361 packets …`."""
        text = f"{self.name} sent {count(self.sent, 'packet')}"
        again = count(self.retransmissions, "retransmission") if self.retransmissions else "no retransmission"
        text += f", {again} among them"
        if self.timeouts:
            text += f", and had {count(self.timeouts, 'retransmission timeout')}"
        return f"{text}."
