"""Facts of senders and their estimates."""

from __future__ import annotations

from dataclasses import field

from dumbbell.explain.facts.base import Fact, Grouped, OfFlow, Rank
from dumbbell.explain.phrases import format_milliseconds, format_span, format_time
from dumbbell.words import (
    capitalise,
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_rate,
    format_times,
    format_whole,
    join_words,
)


class Started(Fact):
    """Flows started."""

    name: str
    flows: tuple[int, ...]
    at_s: float
    last_s: float

    def _describe(self) -> str:
        """Say `BBRv3 started`."""
        if len(self.flows) == 1:
            return f"{self.name} started."
        until = f", the last at {format_time(self.last_s)}" if self.last_s > self.at_s else ""
        return f"{self.name} started{until}."


class Stopped(OfFlow):
    """A flow had nothing more to send, by its configuration."""

    at_s: float
    done_s: float | None
    """When all that it had sent was acknowledged."""

    def _describe(self) -> str:
        done = "" if self.done_s is None else f"; the last of it was acknowledged at {format_time(self.done_s)}"
        return f"{self.name} stopped sending new data{done}."


class Completed(OfFlow):
    """A flow of given size was acknowledged whole."""

    at_s: float
    took_s: float
    size_bytes: int | None

    def _describe(self) -> str:
        size = f"{format_number(self.size_bytes / 1e6)} MB" if self.size_bytes else "data"
        return f"all {size} of {self.name} were acknowledged, {format_duration(self.took_s)} after its start."


class Closed(OfFlow, rank=Rank.RESULT):
    """A QUIC stack closed its connection before the end."""

    at_s: float
    why: str

    def _describe(self) -> str:
        return f"{self.name} closed its connection at {format_time(self.at_s)}: {self.why}."


class Paused(OfFlow):
    """The application of a flow wrote nothing for a time."""

    at_s: float
    until_s: float | None

    def _describe(self) -> str:
        until = "for the rest of the run" if self.until_s is None else f"until {format_time(self.until_s)}"
        return f"the application of {self.name} wrote nothing {until}."


_ENDED = {
    "loss": "loss ended",
    "ecn": "CE marks ended",
    "sce": "SCE marks ended",
    "timeout": "a retransmission timeout ended",
    "threshold": "the window reached the initial threshold, which ended",
    "delay": "HyStart saw the RTT rise and ended",
    "train": "HyStart saw a long train of ACKs and ended",
    "plateau": "the bandwidth grew no more, which ended",
}
"""What ends slow start, by its cause."""
_REDUCERS = {"loss": "loss", "ecn": "CE marks"}


class SlowStartLeft(OfFlow):
    """Slow start, or BBR's STARTUP, ended first."""

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

    def _describe(self) -> str:
        """Say `Loss ended the slow start of CUBIC at a window of 56 segments`."""
        phase = "STARTUP" if self.is_startup else "slow start"
        if self.by_s is not None:
            return f"{self.name} left {phase} before {format_time(self.by_s)}."
        about = "about " * self.is_about
        window = f" at a window of {about}{format_count(self.window, 'segment')}" if self.window is not None else ""
        after = "" if self.after_s == self.at_s else f", {format_duration(self.after_s)} after it had begun"
        if self.cause not in _ENDED:
            return f"{self.name} left {phase}{window}{after}."
        return f"{_ENDED[self.cause]} the {phase} of {self.name}{window}{after}."


class SlowStartsLeft(Fact):
    """Many flows left slow start."""

    name: str
    flows: int
    left: int
    from_s: float
    until_s: float
    causes: dict[str, int]

    def _describe(self) -> str:
        """Say `9 of the 10 flows of CUBIC left slow start by …`."""
        of = f"all {self.flows}" if self.left == self.flows else f"{self.left} of the {self.flows}"
        last = f"that of the last at {format_time(self.until_s)}"
        if len(self.causes) == 1 and (ended := _ENDED.get(next(iter(self.causes)))):
            return f"{ended} the slow start of {of} flows of {self.name}, {last}."
        causes = [
            f"{_ENDED.get(cause, 'something unknown ended')} it {format_times(n)}" for cause, n in self.causes.items()
        ]
        return f"the slow start of {of} flows of {self.name} ended, {last}: {join_words(causes)}."


class StayedInSlowStart(OfFlow, rank=Rank.COURSE):
    """A flow never left slow start."""

    from_s: float
    window: int | None
    is_startup: bool

    def _describe(self) -> str:
        """Say `CUBIC never left slow start`."""
        phase = "STARTUP" if self.is_startup else "slow start"
        window = f"; its window grew to {format_count(self.window, 'segment')}" if self.window is not None else ""
        return f"{self.name} never left {phase}{window}."


def _format_change(before: float, after: float) -> str:
    """Return how a window changed: `from 41 to 28 segments`."""
    if format_number(after) == format_number(before):
        return f"by less than one of {format_count(round(before), 'segment')}"
    return f"from {format_number(before)} to {format_number(after)} segments"


class Reduction(OfFlow):
    """A flow reduced its window once."""

    at_s: float
    cause: str
    """loss or ecn."""
    before: int
    after: int
    """Window when the episode was over, segments, or at the end of the run."""

    def _describe(self) -> str:
        """Say `Loss made CUBIC reduce its window from 60 to 42 segments`."""
        if self.after > self.before:  # it had grown again before the episode was over
            return (
                f"{_REDUCERS[self.cause]} made {self.name} reduce its window of "
                f"{format_count(self.before, 'segment')}; "
                f"when the episode was over, or the run, it had grown to {format_number(self.after)}."
            )
        return f"{_REDUCERS[self.cause]} made {self.name} reduce its window {_format_change(self.before, self.after)}."


class Reductions(OfFlow, rank=Rank.COURSE):
    """A flow reduced its window many times. Timeouts are another fact."""

    from_s: float
    until_s: float
    causes: dict[str, int]
    """How many by loss and ecn, as columns loss_reductions and ecn_reductions count them."""
    before: float
    after: float
    """Medians of the window before and after, segments."""
    apart_s: float
    """Median of the times from one to the next."""

    def _describe(self) -> str:
        """Say `Loss made CUBIC reduce its window 29 times …`."""
        why = join_words([_REDUCERS[cause] for cause in self.causes])
        each = f" ({join_words([format_times(n) for n in self.causes.values()])})" if len(self.causes) > 1 else ""
        return (
            f"{why} made {self.name} reduce its window {format_times(sum(self.causes.values()))}{each} "
            f"{format_span(self.from_s, self.until_s)}, typically {_format_change(self.before, self.after)} and "
            f"{format_duration(self.apart_s)} apart."
        )


class Repairs(OfFlow, rank=Rank.COURSE):
    """Episodes of loss recovery, and of marks that it answers, of a flow that decides by a model of its path."""

    from_s: float
    until_s: float
    causes: dict[str, int]

    def _describe(self) -> str:
        """Say `Loss took BBRv3 into recovery 12 times …`."""
        what = {
            "loss": "loss took {} into recovery {}",
            "ecn": "CE marks made {} hold back {}",
        }
        when = (
            f"at {format_time(self.from_s)}"
            if sum(self.causes.values()) == 1
            else format_span(self.from_s, self.until_s)
        )
        names = [self.name, *["it"] * len(self.causes)]
        text = [
            what[cause].format(name, format_times(n))
            for (cause, n), name in zip(self.causes.items(), names, strict=False)
        ]
        return f"{join_words(text)} {when}."


class IgnoredMarks(OfFlow, rank=Rank.COURSE):
    """Packets of a flow were marked with CE in the measured time, and its control does not answer marks."""

    marks: int
    because: str
    """`ecn`: its key is false. `rtt`: the path is longer than its ecn_max_rtt. `never`: this control reads no marks."""

    def _describe(self) -> str:
        why = {
            "ecn": "answers CE marks only with ecn = true",
            "rtt": "answers CE marks only where min_rtt is at most its ecn_max_rtt",
            "never": "has no answer to CE marks",
        }[self.because]
        return f"{self.name} {why}, so the {format_count(self.marks, 'mark')} on its packets did not slow it down."


class Lost(Grouped):
    """Segments that a sender took for lost."""

    name: str
    flow: int
    dropped: int | None
    """Packets of the flow that queues dropped in the whole run, where that is known."""
    by_timeout: int
    """Segments that it took for lost because a retransmission timeout had run out."""
    path: str
    """What else its path does to packets: `loses` some, `delays` some, both with a blank between, or nothing."""

    def _describe(self) -> str:
        """Say `CUBIC took 37 segments for lost in 4 bursts: …`."""
        text = f"{self.name} took {format_count(self.count, 'segment')} for lost"
        if self.dropped is None:
            return f"{text}, {self.in_bursts}."
        sure = not self.by_timeout and not self.path
        if sure and self.dropped == self.count:
            return f"{text}, just those that the queue had dropped, {self.in_bursts}."
        text += f", {self.in_bursts}. "
        if self.dropped >= self.count:
            more = f", {format_whole(self.dropped - self.count)} of them too late for it to notice" * sure
            return f"{text}The queue dropped {format_whole(self.dropped)} of its packets{more}."
        rest = self.count - self.dropped
        one = rest == 1
        others = "the other one" if one else f"the other {format_whole(rest)}"
        alone = "it" if one else "all"
        who = others if self.dropped else alone
        why = ["lost on the path"] * ("loses" in self.path) + ["late"] * ("delays" in self.path)
        why += [f"still in flight when a timeout took {'it' if one else 'them'} for lost"] * bool(self.by_timeout)
        if not self.path and self.by_timeout < rest:
            why.append("not lost at all")
        were = "was" if one else "were"
        dropped = f"had dropped {format_whole(self.dropped)} of them" if self.dropped else "had dropped none of them"
        return f"{text}The queue {dropped}; {who} {were} {' or '.join(why)}."


class _Repeated(OfFlow):
    """An event that happened to a flow a number of times."""

    from_s: float
    until_s: float
    count: int
    at: tuple[float, ...] = field(default=())
    """Each of a few."""


class Timeouts(_Repeated):
    """Retransmission timeouts of a flow."""

    def _describe(self) -> str:
        """Say `The retransmission timer of CUBIC ran out, and again at …`."""
        text = f"the retransmission timer of {self.name} ran out"
        if self.count == 1:
            return f"{text}."
        if self.at:
            return f"{text}, and again at {join_words([format_time(one) for one in self.at[1:]])}."
        return f"{text} for the first of {self.count} times, the last at {format_time(self.until_s)}."


class Undone(_Repeated):
    """Reductions that turned out to be spurious: nothing had been lost."""

    def _describe(self) -> str:
        """Say `What CUBIC had taken for lost arrived: it took the reduction back`."""
        text = f"what {self.name} had taken for lost arrived: it took the reduction back"
        if self.count == 1:
            return f"{text}."
        if self.at:
            return f"{text}, and another at {join_words([format_time(one) for one in self.at[1:]])}."
        return f"{text}, the first of {self.count}, of which the last was at {format_time(self.until_s)}."


class Limited(OfFlow, rank=Rank.COURSE):
    """For some of its time a flow had too little to send."""

    from_s: float
    share: float
    """Of the time from its start to its end, or that of the run."""

    def _describe(self) -> str:
        return (
            f"the application of {self.name} left it with nothing to send for {format_percent(self.share)} of its time."
        )


class Drained(OfFlow):
    """BBR's DRAIN was over."""

    at_s: float
    took_s: float

    def _describe(self) -> str:
        return f"{self.name} had drained what its STARTUP had queued, in {format_duration(self.took_s)}."


class ProbeRtt(OfFlow):
    """BBR's min_rtt expired: it looked for a new one."""

    at_s: float
    until_s: float | None
    """None if the run ended before."""
    window: int
    """The smallest meanwhile, segments."""
    before_ms: float
    after_ms: float

    def _describe(self) -> str:
        """Say `min_rtt of BBRv3 expired: PROBE_RTT until …`."""
        until = "until the end of the run" if self.until_s is None else f"until {format_time(self.until_s)}"
        change = (
            f"min_rtt stayed at {format_milliseconds(self.before_ms)}"
            if format_number(self.before_ms) == format_number(self.after_ms)
            else f"min_rtt went from {format_milliseconds(self.before_ms)} to {format_milliseconds(self.after_ms)}"
        )
        return (
            f"{self.name}'s min_rtt expired: it was in PROBE_RTT {until}, with a window down to "
            f"{format_count(self.window, 'segment')}; {change}."
        )


class ProbeRtts(OfFlow, rank=Rank.COURSE):
    """BBR's min_rtt expired several times."""

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

    def _describe(self) -> str:
        after = (
            f"min_rtt was {format_milliseconds(self.least_ms)} after each"
            if format_number(self.least_ms) == format_number(self.most_ms)
            else f"min_rtt was {format_milliseconds(self.least_ms)} to {format_milliseconds(self.most_ms)} after them"
        )
        return (
            f"{self.name}'s min_rtt expired {format_times(self.count)}, "
            f"{format_span(self.from_s, self.until_s)}, typically "
            f"{format_duration(self.apart_s)} apart; PROBE_RTT took {format_duration(self.took_s)} in the median. "
            f"{capitalise(after)}."
        )


class Probed(OfFlow, rank=Rank.COURSE):
    """How often BBR probed for more bandwidth, and the states that it was in."""

    from_s: float
    count: int
    """How often it entered PROBE_UP."""
    states: dict[str, float]
    """Share of its time in each state, 0 to 1."""

    def _describe(self) -> str:
        """Say `BBRv3 probed for bandwidth 12 times …`."""
        most = sorted(self.states.items(), key=lambda one: -one[1])[:3]
        parts = [f"{format_percent(share)} of its time in {most[0][0].upper()}" for _, share in most[:1]]
        shown = join_words([*parts, *(f"{format_percent(share)} in {state.upper()}" for state, share in most[1:])])
        probed = (
            f"probed for more bandwidth {format_times(self.count)}"
            if self.count
            else "did not probe for more bandwidth"
        )
        return f"{self.name} {probed} and spent {shown}."


class Believed(OfFlow, rank=Rank.COURSE):
    """The estimates of BBR of its path in the second half of its time, in the median."""

    from_s: float
    bandwidth_mbit: float
    min_rtt_ms: float
    base_ms: float
    """Base RTT, and the time that two frames take on the slowest link."""
    goodput_mbit: float
    """What it got in this time."""

    def _describe(self) -> str:
        """Say `BBRv3 estimated 14 Mbit/s and a min_rtt of 20 ms …`."""
        above = self.min_rtt_ms - self.base_ms
        rtt = f"a min_rtt of {format_milliseconds(self.min_rtt_ms)}"
        if above > max(0.5, 0.02 * self.base_ms):
            empty = (
                f"{format_milliseconds(self.base_ms)} of the empty path (base RTT and two packets on the slowest link)"
            )
            rtt += f", {format_milliseconds(above)} above the {empty}"
        return (
            f"in the second half of its time, from {format_time(self.from_s)} on, {self.name} estimated a bandwidth of "
            f"{format_rate(self.bandwidth_mbit)} in the median and got {format_rate(self.goodput_mbit)}. It "
            f"estimated {rtt}."
        )


class WindowRange(OfFlow, rank=Rank.COURSE):
    """The congestion window at the points of the time series, where there is no trace."""

    from_s: float
    least: int
    median: float
    most: int
    points: int

    def _describe(self) -> str:
        return (
            f"the window of {self.name} was {self.least} to {format_count(self.most, 'segment')}, "
            f"{format_number(self.median)} in the median of {self.points} points of the time series."
        )
