"""What senders did and believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dumbbell.explain import words
from dumbbell.explain.facts.base import Fact, Grouped, Rank
from dumbbell.explain.words import count, lasting, listed, milliseconds, number, percent, rate, seconds, span, times


@dataclass(frozen=True)
class Started(Fact):
    """Flows started."""

    name: str
    flows: tuple[int, ...]
    at_s: float
    last_s: float

    def said(self) -> str:
        """Say `BBRv3 started`."""
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
    done_s: float | None
    """When all that it had sent was acknowledged."""

    def said(self) -> str:
        """Say `CUBIC stopped sending new data`."""
        done = "" if self.done_s is None else f"; the last of it was acknowledged at {seconds(self.done_s)}"
        return f"{self.name} stopped sending new data{done}."


@dataclass(frozen=True)
class Completed(Fact):
    """A flow of given size was acknowledged whole."""

    name: str
    flow: int
    at_s: float
    took_s: float
    size_bytes: int | None

    def said(self) -> str:
        """Say `CUBIC was done …`."""
        size = f"{number(self.size_bytes / 1e6)} MB" if self.size_bytes else "data"
        return f"all {size} of {self.name} were acknowledged, {lasting(self.took_s)} after its start."


@dataclass(frozen=True)
class Closed(Fact):
    """A QUIC stack closed its connection before the end."""

    rank: ClassVar[Rank] = Rank.RESULT
    name: str
    flow: int
    at_s: float
    why: str

    def said(self) -> str:
        """Say `quinn closed its connection …`."""
        return f"{self.name} closed its connection at {seconds(self.at_s)}: {self.why}."


@dataclass(frozen=True)
class Paused(Fact):
    """The application of a flow wrote nothing for a time."""

    name: str
    flow: int
    at_s: float
    until_s: float | None

    def said(self) -> str:
        """Say `The application of CUBIC paused until …`."""
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
    is_about: bool = False
    """Whether the window is that of a row of the trace some time earlier."""
    by_s: float | None = None
    """Where it is known to an interval only: the end of that."""

    def said(self) -> str:
        """Say `CUBIC left slow start after 0.18 s with a window of 56 segments: of loss`."""
        phase = "STARTUP" if self.is_startup else "slow start"
        why = CAUSES.get(self.cause, "")
        because = "" if not why else f", because {why}" if why.startswith("of ") else f": {why}"
        about = "about " * self.is_about
        window = f" with a window of {about}{count(self.window, 'segment')}" if self.window is not None else ""
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
        """Say `9 of the 10 flows of CUBIC left slow start by …`."""
        of = "all" if self.left == self.flows else f"{self.left} of"
        because = listed([f"{n} because {CAUSES.get(c, c) or 'of something unknown'}" for c, n in self.causes.items()])
        return f"{of} {self.flows} flows of {self.name} left slow start by {seconds(self.until_s)}: {because}."


@dataclass(frozen=True)
class StayedInSlowStart(Fact):
    """A flow never left slow start."""

    rank: ClassVar[Rank] = Rank.COURSE
    name: str
    flow: int
    from_s: float
    window: int | None
    is_startup: bool

    def said(self) -> str:
        """Say `CUBIC never left slow start`."""
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
        """Say `CUBIC reduced its window from 60 to 42 segments because of loss`."""
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
        """Say `CUBIC reduced its window 29 times from … to …`."""
        what = {"loss": "loss", "ecn": "marks", "timeout": "a timeout"}
        total = sum(self.causes.values())
        by = [f"{n} because of {what[cause]}" for cause, n in self.causes.items()]
        why = f"because of {what[next(iter(self.causes))]}" if len(by) == 1 else f"({listed(by)})"
        return (
            f"{self.name} reduced its window {times(total)} {span(self.from_s, self.until_s)} {why}, typically "
            f"from {number(self.before)} to {number(self.after)} segments and {lasting(self.apart_s)} apart."
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
        """Say `BBRv3 was in loss recovery 12 times …`."""
        what = {"loss": "in loss recovery", "ecn": "in an episode of marks", "timeout": "in repair after a timeout"}
        text = listed([f"{what[cause]} {times(n)}" for cause, n in self.causes.items()])
        span = (
            f"at {seconds(self.from_s)}"
            if sum(self.causes.values()) == 1
            else (f"between {seconds(self.from_s)} and {seconds(self.until_s)}")
        )
        return f"{self.name} was {text}, {span}."


@dataclass(frozen=True)
class Lost(Grouped):
    """Segments that a sender took for lost."""

    name: str
    flow: int
    dropped: int | None
    """Packets of the flow that queues dropped in the whole run, where that is known."""

    def said(self) -> str:
        """Say `CUBIC took 37 segments for lost in 4 bursts: …`."""
        text = f"{self.name} took {count(self.count, 'segment')} for lost {self.in_bursts}"
        if self.dropped is not None and self.dropped < self.count:
            rest = (
                "the queue dropped none of its packets"
                if not self.dropped
                else (f"the queue dropped {self.dropped} of its packets")
            )
            text += f". {words.first_large(rest)}, so the others were lost on the path or not at all"
        return f"{text}."


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
        """Say `CUBIC had 2 retransmission timeouts: at …`."""
        places = f"at {listed([seconds(one) for one in self.at])}" if self.at else f"{span(self.from_s, self.until_s)}"
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
        """Say `CUBIC took a reduction back at …: it was spurious`."""
        places = f"at {listed([seconds(one) for one in self.at])}" if self.at else f"{span(self.from_s, self.until_s)}"
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
        """Say `CUBIC was limited by its application for 40 % of its time`."""
        return f"the application limited {self.name} for {percent(self.share)} of its time."


@dataclass(frozen=True)
class Drained(Fact):
    """BBR's DRAIN was over."""

    name: str
    flow: int
    at_s: float
    took_s: float

    def said(self) -> str:
        """Say `BBRv3 had drained the queue of its STARTUP`."""
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
        """Say `min_rtt of BBRv3 expired: PROBE_RTT until …`."""
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
        """Say `min_rtt of BBRv3 expired 11 times …`."""
        after = (
            f"min_rtt was {milliseconds(self.least_ms)} after each"
            if number(self.least_ms) == number(self.most_ms)
            else f"min_rtt was {milliseconds(self.least_ms)} to {milliseconds(self.most_ms)} after them"
        )
        return (
            f"{self.name}'s min_rtt expired {times(self.count)}, {span(self.from_s, self.until_s)}, typically "
            f"{lasting(self.apart_s)} apart; PROBE_RTT took {lasting(self.took_s)} in the median. "
            f"{words.first_large(after)}."
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
        """Say `BBRv3 probed for bandwidth 12 times …`."""
        most = sorted(self.states.items(), key=lambda one: -one[1])[:3]
        shown = listed([f"{percent(share)} in {state.upper()}" for state, share in most])
        probed = f"probed for more bandwidth {times(self.count)}" if self.count else "did not probe for more bandwidth"
        return f"{self.name} {probed}. It spent {shown}."


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
    """Base RTT, and the time that two frames take on the slowest link."""
    goodput_mbit: float
    """What it got in this time."""

    def said(self) -> str:
        """Say `BBRv3 believed in 14 Mbit/s and a min_rtt of 20 ms …`."""
        above = self.min_rtt_ms - self.base_ms
        rtt = f"a min_rtt of {milliseconds(self.min_rtt_ms)}"
        if above > max(0.5, 0.02 * self.base_ms):
            rtt += f", {milliseconds(above)} above what the empty path has"
        return (
            f"from {seconds(self.from_s)} on, {self.name} took the bandwidth for {rate(self.bandwidth_mbit)} (median) "
            f"and got {rate(self.goodput_mbit)}; it believed in {rtt}."
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
        """Say `The window of CUBIC was 40 to 90 segments …`."""
        return (
            f"the window of {self.name} was {self.least} to {count(self.most, 'segment')}, {number(self.median)} in "
            f"the median of {self.points} points of the time series."
        )
