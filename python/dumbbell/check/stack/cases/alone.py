"""One connection alone: goodput, delay in the queue, and loss."""

from __future__ import annotations

import math

from dumbbell.check.stack.outcomes import Outcome
from dumbbell.check.stack.scenes import describe_path, format_rate, make_scene, make_subject
from dumbbell.check.stack.stack_case import Limits, SceneOutcomes, StackCase

LEAST_USE = 0.8  # of the goodput of TCP's CUBIC in the same place
MOST_QUEUE = 1.2  # of the RTT of TCP's CUBIC over a deep queue, which RFC 9743 has as the bad example
MOST_LOSS, MOST_LOSS_OF_TCP = 0.05, 3.0  # share of packets, and of the share that TCP's CUBIC loses
UNKNOWN_LOSS, UNKNOWN_PACKETS = 0.1, 5  # share of the losses, and packets, by which what a stack believes may differ
LEAST_LIMITED, MOST_LOST_LIMITED, MOST_RTT_LIMITED = 0.95, 0.001, 1.5  # of an application below the link's rate
_MUCH = 1.25  # a figure that is larger or smaller by this is reported

# rate and RTT of the cells: LTE to data centres; in those of the last line a slow start of CUBIC without
# HyStart leaves more than a thousand gaps in the receiver's stream
_CELLS = (
    (10.0, 0.02, 8.0),
    (10.0, 0.1, 12.0),
    (50.0, 0.04, 8.0),
    (100.0, 0.02, 5.0),
    (200.0, 0.1, 8.0),
    (400.0, 0.05, 5.0),
    (1000.0, 0.02, 3.0),
)


def use(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge the goodput of one connection."""
    ours, theirs = seen.compare_means(lambda one: one.goodput)
    limits.require(
        f"at least {LEAST_USE:.0%} of the goodput of TCP's CUBIC",
        ours >= LEAST_USE * theirs,
        f"{ours:.3g} Mbit/s, TCP's CUBIC {theirs:.3g}",
    )
    delay, of_tcp = seen.compare_means(lambda one: one.rtt_p50)
    if not of_tcp / _MUCH <= delay <= of_tcp * _MUCH:
        limits.note(f"median RTT {delay * 1e3:.3g} ms, TCP's CUBIC {of_tcp * 1e3:.3g} ms")


def judge_queue(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge the delay that one connection makes in a deep queue."""
    ours, theirs = seen.compare_means(lambda one: one.rtt_p95)
    limits.require(
        f"P95 of the RTT at most {MOST_QUEUE:g} times that of TCP's CUBIC",
        ours <= MOST_QUEUE * theirs,
        f"{ours * 1e3:.3g} ms, TCP's CUBIC {theirs * 1e3:.3g} ms",
    )
    if ours < theirs / _MUCH:
        limits.note(f"P95 of the RTT {ours * 1e3:.3g} ms, TCP's CUBIC {theirs * 1e3:.3g} ms")


def judge_loss(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge what several connections lose in a short queue."""
    flows = seen.scene.subjects
    ours, theirs = (_measure_loss(seen, one) for one in (seen.subject, seen.tcp))
    most = max(MOST_LOSS, MOST_LOSS_OF_TCP * theirs)
    limits.require(
        f"at most {most:.1%} of the packets lost", ours <= most, f"{ours:.1%} lost, by TCP's CUBIC {theirs:.1%}"
    )
    real, believed = (seen.subject.sum_up(flows, of) for of in (lambda one: one.lost, lambda one: one.believed))
    # NaN is within: what a stack does not tell it may know
    if abs(believed - real) > UNKNOWN_LOSS * real + UNKNOWN_PACKETS * len(flows) * len(seen.subject.runs):
        limits.note(f"it took {believed:.0f} packets for lost, and {real:.0f} were lost")


def _measure_loss(seen: SceneOutcomes, outcome: Outcome) -> float:
    flows = seen.scene.subjects
    return sum(outcome.compute_mean(number, lambda one: one.lost_share) for number in flows) / len(flows)


def _describe_losses(seen: SceneOutcomes) -> str:
    """Return the share of packets that all flows of the stack lost, and what the stack believes if it tells that."""
    flows = seen.scene.subjects
    sent, believed = (seen.subject.sum_up(flows, of) for of in (lambda one: one.sent, lambda one: one.believed))
    known = f" ({believed / sent:.1%} believed)" if sent and not math.isnan(believed) else ""
    return f"{_measure_loss(seen, seen.subject):.1%}{known}"


def judge_limited(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge a connection whose application sends at half of the link's rate."""
    scene, one = seen.scene, seen.subject
    share = one.compute_mean(0, lambda flow: flow.goodput) / (scene.rate / 2)
    limits.require(f"{LEAST_LIMITED:.0%} of what the application sends", share >= LEAST_LIMITED, f"{share:.1%}")
    lost = one.compute_mean(0, lambda flow: flow.lost_share)
    limits.require(
        f"at most {MOST_LOST_LIMITED:.1%} of the packets lost", lost <= MOST_LOST_LIMITED, f"{lost:.2%} lost"
    )
    delay = one.compute_mean(0, lambda flow: flow.rtt_p95)
    limits.require(
        f"P95 of the RTT at most {MOST_RTT_LIMITED:g} times that of the path",
        delay <= MOST_RTT_LIMITED * scene.rtt,
        f"{delay * 1e3:.3g} ms",
    )


def _describe_goodput(seen: SceneOutcomes) -> str:
    return f"{seen.subject.compute_mean(0, lambda one: one.goodput):.3g}"


CASES = (
    StackCase(
        "use",
        "alone",
        "Does one connection use the link, and does it stay open?",
        "RFC 9743, section 5.1; one FIFO queue of a BDP, section 6.1",
        f"goodput at least {LEAST_USE:.0%} of that of TCP's CUBIC in the same place",
        use,
        tuple(make_scene(describe_path(rate, rtt), rate, rtt, seconds) for rate, rtt, seconds in _CELLS),
        measure="goodput, Mbit/s",
        figure=_describe_goodput,
    ),
    StackCase(
        "queue",
        "alone",
        "How much delay does one connection make in a deep queue?",
        "RFC 9743, section 5.1.2: CUBIC and Reno are the yardstick",
        f"P95 of the RTT at most {MOST_QUEUE:g} times that of TCP's CUBIC, over a queue of 10 BDP",
        judge_queue,
        tuple(
            make_scene(describe_path(rate, rtt), rate, rtt, 12.0, buffer=10.0)
            for rate, rtt in ((10.0, 0.02), (50.0, 0.04))
        ),
        measure="P95 of the RTT, ms",
        figure=lambda seen: f"{seen.subject.compute_mean(0, lambda one: one.rtt_p95) * 1e3:.3g}",
    ),
    StackCase(
        "loss",
        "alone",
        "How much do three connections lose in a short queue?",
        "RFC 9743, section 5.1.3: sustained loss of several flows in a shallow FIFO queue",
        f"at most {MOST_LOSS:.0%} of the packets, or {MOST_LOSS_OF_TCP:g} times the share of TCP's CUBIC",
        judge_loss,
        tuple(
            make_scene(f"20Mbit 40ms {buffer:g}BDP", 20.0, 0.04, 10.0, buffer=buffer, flows=[make_subject(0.04)] * 3)
            for buffer in (0.25, 0.5, 1.5)
        ),
        measure="packets lost",
        figure=_describe_losses,
    ),
    StackCase(
        "limited",
        "alone",
        "Does an application below the link's rate get through without loss and queue?",
        "RFC 9002, section 7.8; draft-ietf-ccwg-bbr, BBR Example Test Cases, case 7",
        f"{LEAST_LIMITED:.0%} of half of the link's rate, {MOST_LOST_LIMITED:.1%} lost, P95 of the RTT at most"
        f" {MOST_RTT_LIMITED:g} times that of the path",
        judge_limited,
        tuple(
            make_scene(describe_path(rate, rtt), rate, rtt, 10.0, since=2.0, flow={"app_rate": format_rate(rate / 2)})
            for rate, rtt in ((20.0, 0.04), (100.0, 0.02))
        ),
        tcp=False,
        measure="goodput, Mbit/s",
        figure=_describe_goodput,
    ),
)
