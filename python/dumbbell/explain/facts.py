"""The facts that a run is explained by: one class per kind, its numbers, and the sentence that says them.

Times are seconds of the run. Those of flows are on the sender's clock, which is half a base RTT behind that of the
queue for data that go down. A fact holds by its numbers alone, so that it can be held against other records of the run.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from dumbbell.explain import words
from dumbbell.explain.words import count, lasting, listed, milliseconds, number, percent, rate, seconds, times


class Rank(IntEnum):
    """Where a fact stands: first what the run came to, then what happened when, then what went on for long."""

    RESULT = 0
    EVENT = 1
    COURSE = 2


@dataclass(frozen=True)
class Fact:
    """What is known of a run."""

    rank: ClassVar[Rank] = Rank.EVENT

    @property
    def kind(self) -> str:
        """The name of the class in lower case, with underscores."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def when(self) -> float:
        """When it happened or began, s."""
        return float(getattr(self, "at_s", getattr(self, "from_s", 0.0)))

    @property
    def sentence(self) -> str:
        """The fact in words, one or two sentences."""
        return words.first_large(self.said())

    def said(self) -> str:
        """Return the fact in words."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return kind, numbers and sentence."""
        return {"kind": self.kind, **dataclasses.asdict(self), "sentence": self.sentence}


def _at(hop: str) -> str:
    return f" at {hop}" if hop else ""


def _queue_of(hop: str) -> str:
    return f"the queue of {hop}" if hop else "the queue"


# what the run came to


@dataclass(frozen=True)
class Utilisation(Fact):
    """What left a link, of what it could carry."""

    rank: ClassVar[Rank] = Rank.RESULT
    hop: str
    share: float
    throughput_mbit: float
    capacity_mbit: float

    def said(self) -> str:
        """`The link was 96.5 % utilised: …`."""
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
        """`A packet waited 7.2 ms in the mean …`."""
        if self.max_ms < 0.001:
            return f"no packet waited{_at(self.hop)}."
        return (
            f"a packet waited {milliseconds(self.mean_ms)} in {_queue_of(self.hop)} in the mean, "
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
        """`The queue marked 14 packets and dropped 3 …`."""
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
        name = _queue_of(self.hop)
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
        """`BBRv3 got 70 % of the goodput (13.9 Mbit/s), CUBIC 30 % (5.96 Mbit/s)`."""
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
    from_s: float
    until_s: float
    interval_s: float
    share: float
    """Of the goodput of the TCP flows in this time."""

    def said(self) -> str:
        """`BBRv3 had more than each other flow in every interval of 1 s from 4 s to the end`."""
        return (
            f"{self.name} had more than each other flow in every {lasting(self.interval_s)} from "
            f"{seconds(self.from_s)} to {seconds(self.until_s)}: {percent(self.share)} of the goodput of TCP then."
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
        """`From 4 s on no share was more than 8 points from 50 % …`."""
        return (
            f"from {seconds(self.from_s)} to {seconds(self.until_s)} the {self.flows} flows of TCP shared evenly: in "
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
        """`No flow led for long …`."""
        return (
            f"no flow led for long: from {seconds(self.from_s)} to {seconds(self.until_s)} the lead changed "
            f"{times(self.changes)} (looked at every {lasting(self.interval_s)})."
        )


@dataclass(frozen=True)
class Converged(Fact):
    """When the goodputs of one interval were first fair, from the start of the last flow; None if never."""

    rank: ClassVar[Rank] = Rank.RESULT
    after_s: float | None
    interval_s: float

    def said(self) -> str:
        """`The flows first shared fairly 3.2 s after the last one had started …`."""
        jain = f"Jain's index of the goodput in {lasting(self.interval_s)}"
        if self.after_s is None:
            return f"the flows never shared fairly: {jain} never reached 0.95 after the last flow had started."
        return f"{jain} first reached 0.95 {lasting(self.after_s)} after the last flow had started."


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
        """`The RTT of CUBIC was 46 ms in the median …`."""
        return (
            f"the RTT of {self.name} was {milliseconds(self.p50_ms)} in the median and {milliseconds(self.p99_ms)} at "
            f"P99, at least {milliseconds(self.min_ms)}; its path has {milliseconds(self.base_ms)}."
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
        """`812 short flows of CUBIC began …`."""
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
        """`UDP received 0.97 Mbit/s …`."""
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
        """`CUBIC sent 10 361 packets …`."""
        text = f"{self.name} sent {count(self.sent, 'packet')}"
        text += f", {self.retransmissions:,} of them again".replace(",", " ") if self.retransmissions else ", none twice"
        if self.timeouts:
            text += f"; it had {count(self.timeouts, 'retransmission timeout')}"
        return f"{text}."


# what happened


@dataclass(frozen=True)
class Started(Fact):
    """Flows started."""

    name: str
    flows: tuple[int, ...]
    at_s: float
    last_s: float

    def said(self) -> str:
        """`BBRv3 started`."""
        if len(self.flows) == 1:
            return f"{self.name} started."
        until = f", the last at {seconds(self.last_s)}" if self.last_s > self.at_s else ""
        return f"{self.name} started{until}."


@dataclass(frozen=True)
class Stopped(Fact):
    """A flow had nothing more to send, by its configuration."""

    name: str
    flow: int
    at_s: float

    def said(self) -> str:
        """`CUBIC stopped`."""
        return f"{self.name} stopped sending new data."


@dataclass(frozen=True)
class Completed(Fact):
    """A flow of given size was acknowledged whole."""

    name: str
    flow: int
    at_s: float
    took_s: float
    size_bytes: int | None

    def said(self) -> str:
        """`CUBIC was done …`."""
        size = f" of {number(self.size_bytes / 1e6)} MB" if self.size_bytes else ""
        return f"all data{size} of {self.name} were acknowledged, {lasting(self.took_s)} after it had connected."


@dataclass(frozen=True)
class Closed(Fact):
    """A QUIC stack closed its connection before the end."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    flow: int
    at_s: float
    why: str

    def said(self) -> str:
        """`quinn closed its connection …`."""
        return f"{self.name} closed its connection at {seconds(self.at_s)}: {self.why}."


@dataclass(frozen=True)
class Paused(Fact):
    """The application of a flow wrote nothing for a time."""

    name: str
    flow: int
    at_s: float
    until_s: float | None

    def said(self) -> str:
        """`The application of CUBIC paused until …`."""
        until = "for the rest of the run" if self.until_s is None else f"until {seconds(self.until_s)}"
        return f"the application of {self.name} wrote nothing {until}."


CAUSES = {
    "loss": "of loss",
    "ecn": "of CE marks",
    "sce": "of SCE marks",
    "timeout": "of a retransmission timeout",
    "threshold": "its window reached the initial threshold",
    "delay": "HyStart saw the RTT rise",
    "train": "HyStart saw a long train of ACKs",
    "plateau": "the bandwidth grew no more",
}


@dataclass(frozen=True)
class SlowStartLeft(Fact):
    """Slow start, or BBR's STARTUP, ended first."""

    name: str
    flow: int
    at_s: float
    after_s: float
    """Since the flow connected."""
    cause: str
    """As in column slow_start_exit; empty where it is not known."""
    window: int | None
    """Before it ended, segments."""
    is_startup: bool
    by_s: float | None = None
    """Where it is known to an interval only: the end of that."""

    def said(self) -> str:
        """`CUBIC left slow start after 0.18 s with a window of 56 segments: of loss`."""
        phase = "STARTUP" if self.is_startup else "slow start"
        why = CAUSES.get(self.cause, "")
        because = "" if not why else f", because {why}" if why.startswith("of ") else f": {why}"
        window = f" with a window of {count(self.window, 'segment')}" if self.window is not None else ""
        if self.by_s is not None:
            return f"{self.name} left {phase} before {seconds(self.by_s)}."
        return f"{self.name} left {phase}{window}, {lasting(self.after_s)} after its start{because}."


@dataclass(frozen=True)
class SlowStartsLeft(Fact):
    """Many flows left slow start."""

    name: str
    flows: int
    left: int
    from_s: float
    until_s: float
    causes: dict[str, int]

    def said(self) -> str:
        """`9 of the 10 flows of CUBIC left slow start by …`."""
        of = "all" if self.left == self.flows else f"{self.left} of"
        because = listed([f"{n} because {CAUSES.get(c, c) or 'of something unknown'}" for c, n in self.causes.items()])
        return f"{of} {self.flows} flows of {self.name} left slow start until {seconds(self.until_s)}: {because}."


@dataclass(frozen=True)
class StayedInSlowStart(Fact):
    """A flow never left slow start."""

    name: str
    flow: int
    from_s: float
    window: int | None
    is_startup: bool

    def said(self) -> str:
        """`CUBIC never left slow start`."""
        phase = "STARTUP" if self.is_startup else "slow start"
        window = f"; its window grew to {count(self.window, 'segment')}" if self.window is not None else ""
        return f"{self.name} never left {phase}{window}."


@dataclass(frozen=True)
class Reduction(Fact):
    """A flow reduced its window once."""

    name: str
    flow: int
    at_s: float
    cause: str
    """loss, ecn or timeout."""
    before: int
    after: int
    """Window when the episode was over, segments, or at the end of the run."""

    def said(self) -> str:
        """`CUBIC reduced its window from 60 to 42 segments because of loss`."""
        change = (
            f"reduced its window from {self.before} to {count(self.after, 'segment')}"
            if self.after < self.before
            else f"began an episode of {'marks' if self.cause == 'ecn' else 'repair'} with a window of "
            f"{count(self.before, 'segment')}"
        )
        return f"{self.name} {change} {CAUSES[self.cause].replace('of ', 'because of ', 1)}."


@dataclass(frozen=True)
class Reductions(Fact):
    """A flow reduced its window many times after it had left slow start."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    until_s: float
    causes: dict[str, int]
    """How many by loss, ecn, timeout."""
    before: float
    after: float
    """Medians of the window before and after, segments."""
    apart_s: float
    """Median of the times from one to the next."""

    def said(self) -> str:
        """`CUBIC reduced its window 29 times from … to …`."""
        what = {"loss": "loss", "ecn": "marks", "timeout": "timeouts"}
        total = sum(self.causes.values())
        by = [f"{n} because of {what[cause]}" for cause, n in self.causes.items()]
        why = f"because of {what[next(iter(self.causes))]}" if len(by) == 1 else f"({listed(by)})"
        return (
            f"{self.name} reduced its window {times(total)} from {seconds(self.from_s)} to {seconds(self.until_s)} {why}, typically from "
            f"{number(self.before)} to {number(self.after)} segments and {lasting(self.apart_s)} apart."
        )


@dataclass(frozen=True)
class Repairs(Fact):
    """Episodes of loss recovery, or of marks, of a flow that has a model of its path and decides by that."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    until_s: float
    causes: dict[str, int]

    def said(self) -> str:
        """`BBRv3 was in loss recovery 12 times …`."""
        what = {"loss": "in loss recovery", "ecn": "in an episode of marks", "timeout": "in repair after a timeout"}
        text = listed([f"{what[cause]} {times(n)}" for cause, n in self.causes.items()])
        span = f"at {seconds(self.from_s)}" if sum(self.causes.values()) == 1 else (
            f"between {seconds(self.from_s)} and {seconds(self.until_s)}"
        )
        return f"{self.name} was {text}, {span}."


@dataclass(frozen=True)
class Burst:
    """Events close to each other."""

    from_s: float
    until_s: float
    count: int

    def __str__(self) -> str:
        if self.until_s - self.from_s < 0.0015:
            return f"{self.count} at {seconds(self.until_s)}"
        return f"{self.count} from {seconds(self.from_s)} to {seconds(self.until_s)}"


@dataclass(frozen=True)
class Lost(Fact):
    """Segments that a sender took for lost."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    until_s: float
    count: int
    bursts: tuple[Burst, ...]
    """All of a few; else the three largest, in order of time."""
    burst_count: int
    apart_s: float
    """Burst are at least so far apart."""
    dropped: int | None
    """Packets of the flow that queues dropped in the whole run, where that is known."""

    def said(self) -> str:
        """`CUBIC took 37 segments for lost in 4 bursts: …`."""
        text = f"{self.name} took {count(self.count, 'segment')} for lost{_bursts(self)}"
        if self.dropped is not None and self.dropped < self.count:
            rest = "the queue dropped none of its packets" if not self.dropped else (
                f"the queue dropped {self.dropped} of its packets"
            )
            text += f". {words.first_large(rest)}, so the others were lost on the path or not at all"
        return f"{text}."


def _bursts(of: Lost | Acted) -> str:
    if of.burst_count == 1:
        return f" {str(of.bursts[0]).partition(' ')[2]}"
    which = "" if len(of.bursts) == of.burst_count else f"the {len(of.bursts)} largest are "
    return f" in {of.burst_count} bursts at least {lasting(of.apart_s)} apart: {which}{listed(of.bursts)}"


@dataclass(frozen=True)
class Acted(Fact):
    """A queue marked or dropped packets of any traffic."""

    rank: ClassVar[Rank] = Rank.COURSE
    hop: str
    what: str
    """marked (CE), marked_sce or dropped."""
    from_s: float
    until_s: float
    count: int
    bursts: tuple[Burst, ...]
    burst_count: int
    apart_s: float

    def said(self) -> str:
        """`The queue dropped 166 packets in 4 bursts: …`."""
        did = {"marked": "marked", "marked_sce": "marked", "dropped": "dropped"}[self.what]
        sign = " with SCE" * (self.what == "marked_sce") + " with CE" * (self.what == "marked")
        return f"{_queue_of(self.hop)} {did} {count(self.count, 'packet')}{sign}{_bursts(self)}."


@dataclass(frozen=True)
class Timeouts(Fact):
    """Retransmission timeouts of a flow."""

    name: str
    flow: int
    from_s: float
    until_s: float
    count: int
    at: tuple[float, ...] = field(default=())
    """Each of a few."""

    def said(self) -> str:
        """`CUBIC had 2 retransmission timeouts: at …`."""
        places = (
            f"at {listed([seconds(one) for one in self.at])}"
            if self.at
            else f"from {seconds(self.from_s)} to {seconds(self.until_s)}"
        )
        return f"{self.name} had {count(self.count, 'retransmission timeout')}, {places}."


@dataclass(frozen=True)
class Undone(Fact):
    """Reductions that turned out to be spurious: nothing had been lost."""

    name: str
    flow: int
    from_s: float
    until_s: float
    count: int
    at: tuple[float, ...] = field(default=())

    def said(self) -> str:
        """`CUBIC took a reduction back at …: it was spurious`."""
        places = (
            f"at {listed([seconds(one) for one in self.at])}"
            if self.at
            else f"from {seconds(self.from_s)} to {seconds(self.until_s)}"
        )
        what = "a reduction" if self.count == 1 else count(self.count, "reduction")
        return f"{self.name} took {what} back, {places}: what it had taken for lost had arrived."


@dataclass(frozen=True)
class Limited(Fact):
    """For some of its time a flow had too little to send."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    share: float
    """Of the time from its start to its end, or that of the run."""

    def said(self) -> str:
        """`CUBIC was limited by its application for 40 % of its time`."""
        return f"the application limited {self.name} for {percent(self.share)} of its time."


# BBR


@dataclass(frozen=True)
class Drained(Fact):
    """BBR's DRAIN was over."""

    name: str
    flow: int
    at_s: float
    took_s: float

    def said(self) -> str:
        """`BBRv3 had drained the queue of its STARTUP`."""
        return f"{self.name} ended DRAIN after {lasting(self.took_s)}."


@dataclass(frozen=True)
class ProbeRtt(Fact):
    """BBR's min_rtt expired: it looked for a new one."""

    name: str
    flow: int
    at_s: float
    until_s: float | None
    """None if the run ended before."""
    window: int
    """The smallest meanwhile, segments."""
    before_ms: float
    after_ms: float

    def said(self) -> str:
        """`min_rtt of BBRv3 expired: PROBE_RTT until …`."""
        until = "until the end of the run" if self.until_s is None else f"until {seconds(self.until_s)}"
        change = (
            f"min_rtt stayed at {milliseconds(self.before_ms)}"
            if number(self.before_ms) == number(self.after_ms)
            else f"min_rtt went from {milliseconds(self.before_ms)} to {milliseconds(self.after_ms)}"
        )
        return (
            f"{self.name}'s min_rtt expired: it was in PROBE_RTT {until}, with a window down to "
            f"{count(self.window, 'segment')}; {change}."
        )


@dataclass(frozen=True)
class ProbeRtts(Fact):
    """BBR's min_rtt expired several times."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    until_s: float
    """When the last of them began."""
    count: int
    apart_s: float
    """Median of the times between their starts."""
    took_s: float
    """Median of their lengths."""
    least_ms: float
    most_ms: float
    """Smallest and largest min_rtt right after one."""

    def said(self) -> str:
        """`min_rtt of BBRv3 expired 11 times …`."""
        after = (
            f"min_rtt was {milliseconds(self.least_ms)} after each"
            if number(self.least_ms) == number(self.most_ms)
            else f"min_rtt was {milliseconds(self.least_ms)} to {milliseconds(self.most_ms)} after them"
        )
        return (
            f"{self.name}'s min_rtt expired {times(self.count)}, from {seconds(self.from_s)} to {seconds(self.until_s)}, typically "
            f"{lasting(self.apart_s)} apart; PROBE_RTT took {lasting(self.took_s)} in the median. {words.first_large(after)}."
        )


@dataclass(frozen=True)
class Probed(Fact):
    """How often BBR probed for more bandwidth, and the states that it was in."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    count: int
    """How often it entered PROBE_UP."""
    states: dict[str, float]
    """Share of its time in each state, 0 to 1."""

    def said(self) -> str:
        """`BBRv3 probed for bandwidth 12 times …`."""
        most = sorted(self.states.items(), key=lambda one: -one[1])[:3]
        shown = listed([f"{percent(share)} in {state.upper()}" for state, share in most])
        return f"{self.name} probed for more bandwidth {times(self.count)}. It spent {shown}."


@dataclass(frozen=True)
class Believed(Fact):
    """What BBR believed of its path in the second half of its time, in the median."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    bandwidth_mbit: float
    min_rtt_ms: float
    base_ms: float
    goodput_mbit: float
    """What it got in this time."""

    def said(self) -> str:
        """`BBRv3 believed in 14 Mbit/s and a min_rtt of 20 ms …`."""
        above = self.min_rtt_ms - self.base_ms
        rtt = f"a min_rtt of {milliseconds(self.min_rtt_ms)}"
        if above > max(0.5, 0.02 * self.base_ms):
            rtt += f", {milliseconds(above)} above its base RTT"
        return (
            f"from {seconds(self.from_s)} on, {self.name} took the bandwidth for {rate(self.bandwidth_mbit)} (median) "
            f"and got {rate(self.goodput_mbit)}; it believed in {rtt}."
        )


# queues and links


@dataclass(frozen=True)
class StartPeak(Fact):
    """How long packets waited at most while the first flows were in slow start: the largest mean of an interval."""

    hop: str
    at_s: float
    until_s: float
    interval_s: float
    peak_ms: float

    def said(self) -> str:
        """`Slow start filled the queue: …`."""
        return (
            f"until {seconds(self.until_s)}, while flows started, packets waited up to {milliseconds(self.peak_ms)} in "
            f"{_queue_of(self.hop)} (mean of {lasting(self.interval_s)})."
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
        """`From 3 s on packets waited 6 ms in the mean`."""
        return (
            f"from {seconds(self.from_s)} to {seconds(self.until_s)} packets waited {milliseconds(self.mean_ms)} in "
            f"{_queue_of(self.hop)} in the mean."
        )


@dataclass(frozen=True)
class Peak(Fact):
    """The interval in which packets waited longest in the mean."""

    hop: str
    at_s: float
    interval_s: float
    mean_ms: float

    def said(self) -> str:
        """`Packets waited longest …`."""
        return (
            f"packets waited longest in {_queue_of(self.hop)}: {milliseconds(self.mean_ms)}, the mean of {lasting(self.interval_s)}."
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
        """`The queue was empty at 12 % of the looks`."""
        look = f"looked at every {lasting(self.interval_s)}"
        if self.share == 0:
            return f"{_queue_of(self.hop)} was never empty from {seconds(self.from_s)} to {seconds(self.until_s)} ({look}): a standing queue."
        return f"{_queue_of(self.hop)} was empty at {percent(self.share)} of all looks from {seconds(self.from_s)} on ({look})."


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
        """`CoDel was in its dropping state 12 times …`."""
        longest = f", the longest {lasting(self.longest_s)} from {seconds(self.longest_at_s)}" if self.periods > 1 else ""
        return (
            f"CoDel was in its dropping state {times(self.periods)}{_at(self.hop)}, "
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
        """`The probability of the AQM was 0.012 in the median …`."""
        return (
            f"the probability p of the AQM's control law{_at(self.hop)} was {number(self.median, 2)} in the median, and "
            f"at most {number(self.most, 2)}, at {seconds(self.most_at_s)}."
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
        """`The rate fell from 20 to 5 Mbit/s …`."""
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
        """`The link was off 3 times …`."""
        link = f"the link of {self.hop}" if self.hop else "the link"
        if self.count == 1:
            return f"{link} could carry nothing for {lasting(self.longest_s)}."
        return (
            f"{link} could carry nothing {times(self.count)} until {seconds(self.until_s)}, {lasting(self.total_s)} in "
            f"all; the longest outage took {lasting(self.longest_s)} from {seconds(self.longest_at_s)}."
        )


@dataclass(frozen=True)
class WindowRange(Fact):
    """The congestion window at the points of the time series, where there is no trace."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    least: int
    median: float
    most: int
    points: int

    def said(self) -> str:
        """`The window of CUBIC was 40 to 90 segments …`."""
        return (
            f"the window of {self.name} was {self.least} to {count(self.most, 'segment')}, {number(self.median)} in the "
            f"median of {self.points} points of the time series."
        )
