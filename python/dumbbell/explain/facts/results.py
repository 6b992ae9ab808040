"""Facts of the results of a run."""

from __future__ import annotations

from dataclasses import field

from dumbbell.explain.facts.base import Fact, OfFlow, OfQueue, Rank, link_of
from dumbbell.explain.phrases import format_milliseconds, format_span
from dumbbell.words import (
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_rate,
    format_times,
    join_words,
)


class Utilisation(OfQueue, rank=Rank.RESULT):
    """The share of the capacity of a link that was used."""

    share: float
    throughput_mbit: float
    capacity_mbit: float

    def _describe(self) -> str:
        return (
            f"{link_of(self.hop)} carried {format_rate(self.throughput_mbit)}, {format_percent(self.share)} of the "
            f"{format_rate(self.capacity_mbit)} that it could."
        )


class Waiting(OfQueue, rank=Rank.RESULT):
    """Time in queue of all packets of the measured time."""

    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float

    def _describe(self) -> str:
        """Say `Packets waited 7.2 ms in the queue on average …`."""
        if self.max_ms < 0.001:
            return f"no packet waited{self.place}."
        who = "the packets of all flows together" if self.own_queues else "packets"
        return (
            f"{who} waited {format_milliseconds(self.mean_ms)} in {self.queue} on average, "
            f"{format_milliseconds(self.p50_ms)} in the "
            f"median, {format_milliseconds(self.p99_ms)} at P99 and {format_milliseconds(self.max_ms)} at most."
        )


class WaitingByFlow(Fact, rank=Rank.RESULT):
    """Mean time in queue of each flow in the measured time, where flows have queues of their own."""

    hop: str
    by: str
    """What has these queues."""
    two: bool
    """Whether it has two queues, for two kinds of flows."""
    names: tuple[str, ...]
    mean_ms: tuple[float, ...]

    def _describe(self) -> str:
        """Say `FQ-CoDel gives each flow a queue of its own: …`."""
        gives = "has one queue for scalable and one for classic flows" if self.two else "gives each flow its own queue"
        (name, ms), *others = zip(self.names, self.mean_ms, strict=True)
        waits = [f"the packets of {name} waited {format_milliseconds(ms)}"]
        waits += [f"those of {name} {format_milliseconds(ms)}" for name, ms in others]
        return f"{self.by} {gives}: on average {join_words(waits)}."


class Signals(OfQueue, rank=Rank.RESULT):
    """Packets that a queue marked or dropped in the measured time."""

    ce_marks: int
    sce_marks: int
    drops: int
    drops_overflow: int | None
    """Drops because the queue was full; None if they are not known."""
    packets: int
    by: str = field(default="the AQM", kw_only=True)
    """What decides on marks and drops."""

    def _describe(self) -> str:
        """Say `CoDel marked 14 packets and dropped 3 …`."""
        done = []
        if self.ce_marks:
            done.append(
                f"marked {format_count(self.ce_marks, 'packet')} with CE "
                f"({format_percent(self._compute_share(self.ce_marks))})"
            )
        if self.sce_marks:
            done.append(
                f"marked {format_count(self.sce_marks, 'packet')} with SCE "
                f"({format_percent(self._compute_share(self.sce_marks))})"
            )
        whole = self.packets + self.drops
        drops_aqm = self.drops - (self.drops_overflow or 0)
        if drops_aqm:
            dropped = f"dropped {format_count(drops_aqm, 'packet')} ({format_percent(drops_aqm / whole)})"
            unknown = "" if self.drops_overflow is not None else ", some of them perhaps because it was full"
            done.append(dropped + unknown)
        acted = f"{self.by}{self.place} {join_words(done)}" if done else ""
        if not self.drops_overflow:
            return f"{acted}." if done else f"{self.queue} neither marked nor dropped a packet."
        share = f"{format_count(self.drops_overflow, 'packet')} ({format_percent(self.drops_overflow / whole)})"
        full = f"{self.queue} dropped {share} because {'they were' if self.own_queues else 'it was'} full"
        return f"{acted}; {full}." if done else f"{full}."

    def _compute_share(self, marks: int) -> float:
        return marks / max(self.packets, 1)


class Shares(Fact, rank=Rank.RESULT):
    """Goodput of the flows over the measured time of each, and their shares; Jain's index of TCP, if there are several.

    Shares are of what the flows got in the time that they had in common. The largest comes first.
    """

    names: tuple[str, ...]
    goodput_mbit: tuple[float, ...]
    share: tuple[float, ...]
    flows: tuple[int, ...]
    jain: float | None
    own_time: bool
    """Whether the flows were measured over unlike times."""
    ways: tuple[str, ...] = ()
    """Which way the data of each flow went, if not all went the same."""
    common_s: float | None = None
    """The time that flows had in common; None if that is the measured time of each, or they had none."""

    def _describe(self) -> str:
        """Say `BBRv3 got 70 % of the goodput (13.9 Mbit/s), CUBIC 30 % (5.96 Mbit/s)`."""
        if len(self.names) == 1:
            return f"{self.names[0]} had a goodput of {format_rate(self.goodput_mbit[0])}."
        own = ", each over its own time" * self.own_time
        if self.ways:
            each = zip(self.names, self.goodput_mbit, self.ways, strict=True)
            return (
                "goodputs were "
                f"{join_words([f'{format_rate(mbit)} {way} for {name}' for name, mbit, way in each])}{own}."
            )
        if self.own_time and self.common_s is None:
            own = join_words(
                [f"{name} {format_rate(mbit)}" for name, mbit in zip(self.names, self.goodput_mbit, strict=True)]
            )
            return f"goodputs were {own}, each over its own time; the flows had no time in common."
        rows = list(zip(self.names, self.share, self.goodput_mbit, strict=True))
        (name, share, _), *others = rows
        shown = others if len(others) <= 5 else [*others[:2], others[-1]]
        ahead = "" if self.common_s is None else f"in the {format_duration(self.common_s)} that all had in common "
        rates = [f" ({format_rate(mbit)})" * (self.common_s is None) for _, _, mbit in [rows[0], *shown]]
        of = [f"{ahead}{name} got {format_percent(share)} of the goodput{rates[0]}"]
        of += [f"{name} {format_percent(share)}{own}" for (name, share, _), own in zip(shown, rates[1:], strict=True)]
        text = join_words(of)
        if len(shown) < len(others):
            text = f"{text}, the least of {len(rows)}"
        fair = f" Jain's index is {self.jain:.3f}." if self.jain is not None else ""
        if self.common_s is not None:
            goodputs = join_words([f"{name} {format_rate(mbit)}" for name, _, mbit in [rows[0], *shown]])
            return f"{text}.{fair} Goodputs, each over its own time, were {goodputs}."
        return f"{text}.{fair}"


class Leads(Fact, rank=Rank.RESULT):
    """The flow with the most goodput, and in how many intervals of a time."""

    names: tuple[str, ...]
    """Of all flows, who led most often first."""
    flows: tuple[int, ...]
    led: tuple[int, ...]
    """In how many intervals each of them led."""
    from_s: float
    until_s: float
    interval_s: float
    changes: int
    """How often another led than in the interval before."""
    longest: str
    """Who led in the most intervals in a row."""
    longest_from_s: float
    longest_until_s: float

    def _describe(self) -> str:
        """Say `CUBIC led in 28 of the 29 intervals of 1 s from 1 s to 30 s, …`."""
        intervals = (
            f"the {sum(self.led)} intervals of {format_duration(self.interval_s)} "
            f"{format_span(self.from_s, self.until_s)}"
        )
        if not self.changes:
            return f"{self.names[0]} had the most goodput in each of {intervals}."
        first, *others = [(name, n) for name, n in zip(self.names, self.led, strict=True) if n]
        text = f"{first[0]} had the most goodput in {first[1]} of {intervals}"
        text = join_words([text, *(f"{name} in {n}" for name, n in others)])
        longest = f"{self.longest}'s, {format_span(self.longest_from_s, self.longest_until_s)}"
        return f"{text}. The lead changed {format_times(self.changes)}; the longest lead was {longest}."


class Even(Fact, rank=Rank.RESULT):
    """The shares of the flows were about equal in every interval of a time."""

    flows: int
    from_s: float
    until_s: float
    interval_s: float
    within: float
    """Largest distance of a share from the equal one, 0 to 1."""

    def _describe(self) -> str:
        return (
            f"{format_span(self.from_s, self.until_s)} the {self.flows} flows shared evenly: in each interval of "
            f"{format_duration(self.interval_s)} every share was within {format_number(100 * self.within, 2)} "
            "percentage points of "
            f"{format_percent(1 / self.flows)}."
        )


class Converged(Fact, rank=Rank.RESULT):
    """When shares were fair and stayed so, from the start of the last flow; None if they did not."""

    after_s: float | None
    watched_s: float
    """The time that all flows had in common, from the last start on."""

    def _describe(self) -> str:
        """Say `The flows converged 2.4 s after the last start: …`."""
        fair = "Jain's index in windows of 1 s"
        if self.after_s is None:
            return (
                f"the flows did not converge in the {format_duration(self.watched_s)} after the last start: "
                f"{fair} was never "
                "0.95 or more for 5 s on end."
            )
        after = f"{format_duration(self.after_s)} after the last start" if self.after_s > 0 else "at the last start"
        return f"the flows converged {after}: from then on, {fair} was 0.95 or more for at least 5 s."


class RoundTrips(OfFlow, rank=Rank.RESULT):
    """RTT samples of a flow."""

    base_ms: float
    min_ms: float
    p50_ms: float
    p99_ms: float

    def _describe(self) -> str:
        return (
            f"{self.name} measured RTTs of {format_milliseconds(self.min_ms)} at least, "
            f"{format_milliseconds(self.p50_ms)} in the "
            f"median and {format_milliseconds(self.p99_ms)} at P99, over a base RTT of "
            f"{format_milliseconds(self.base_ms)}."
        )


class ShortFlows(Fact, rank=Rank.RESULT):
    """Short flows of one class."""

    name: str
    began: int
    completion_p50_s: float
    completion_p95_s: float
    kept: int
    """How many of those that ended the percentiles are of."""

    def _describe(self) -> str:
        """Say `812 short flows of CUBIC began …`."""
        began = f"{format_count(self.began, 'short flow')} of {self.name} began"
        if not self.kept:
            return f"{began}; none ended."
        of = "" if self.kept >= self.began else f" (of {self.kept} that ended)"
        return (
            f"{began}; the median took {format_duration(self.completion_p50_s)} and P95 "
            f"{format_duration(self.completion_p95_s)}{of}."
        )


class Udp(OfFlow, rank=Rank.RESULT):
    """The delivery of unresponsive UDP."""

    goodput_mbit: float
    drops: int
    delay_mean_ms: float | None
    delay_max_ms: float | None
    answered: bool = False

    def _describe(self) -> str:
        """Say `UDP received 0.97 Mbit/s …`."""
        text = (
            f"{self.name} delivered {format_rate(self.goodput_mbit)} of payload; the queue dropped "
            f"{self.drops or 'none'}"
        )
        text += " of its packets" if self.drops else ""
        if self.delay_mean_ms is not None and self.delay_max_ms is not None:
            way = ", without the way back of the answers," * self.answered
            text += (
                f". Its one-way delay{way} was {format_milliseconds(self.delay_mean_ms)} in the mean and "
                f"{format_milliseconds(self.delay_max_ms)} at most"
            )
        return f"{text}."


class Totals(OfFlow, rank=Rank.RESULT):
    """The counters of a sender in the measured time.

    Of a stack `retransmissions` are what it took for lost, if it tells it, and `dropped` what the queue dropped.
    """

    sent: int
    retransmissions: int | None
    timeouts: int | None
    dropped: int | None = None

    def _describe(self) -> str:
        """Say `CUBIC sent 10 361 packets …`."""
        text = f"{self.name} sent {format_count(self.sent, 'packet')}"
        if self.dropped is not None:
            lost = "does not tell how many it took for lost"
            if self.retransmissions is not None:
                lost = f"took {format_count(self.retransmissions, 'packet')} for lost"
            return f"{text}; the queue dropped {format_count(self.dropped, 'packet')} of them, and the stack {lost}."
        again = format_count(self.retransmissions, "retransmission") if self.retransmissions else "no retransmission"
        text += f", {again} among them"
        if self.timeouts:
            text += f", and had {format_count(self.timeouts, 'retransmission timeout')}"
        return f"{text}."
