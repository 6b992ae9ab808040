"""How stable DualPI2's controller is in a linear model: gain and phase margins of flows in the C queue.

A fluid model in the manner of PI2's authors (De Schepper et al., CoNEXT 2016). With N flows, a window W in segments,
the round trip R with the queue in it, drops of probability p'^2 and a link of C segments a second,

    dW/dt = increase / R - (1 - b) W^2 p'(t - R)^2 / R    a window of which b is kept
    dq/dt = N W / (R C) - 1                               delay of the queue
    p'    = (beta + alpha / (T s)) (q - target)           controller that acts every T

and, around W, p' and target,

    L(s) = (beta + alpha / (T s)) g / R e^(-s (R + T / 2)) / ((s + r) (s + 1 / R))

where g = 2 (1 - b) W p' is how strongly a flow answers and r how fast it forgets. T / 2 is the delay of a controller
that holds its answer for T.
"""

import math
from dataclasses import dataclass

import numpy as np

SEGMENT_BITS = 1514 * 8
TARGET, TUPDATE = 0.015, 0.016  # s; RFC 9332 appendix A, dualpi2_reset_default of Linux 6.18
ALPHA, BETA = 41 / 256, 819 / 256  # Hz; the same
CUBIC_KEEPS, CUBIC_C = 0.7, 0.4  # RFC 9438 sections 4.6 and 5.1
LEAST_WINDOW = 2.0  # segments; with less a flow sends by its timer, and the model says nothing


@dataclass(frozen=True)
class Flow:
    """A flow in equilibrium: `response` is g, `forgets` r in 1/s."""

    probability: float  # p'
    response: float
    forgets: float


@dataclass(frozen=True)
class Margins:
    """Gain margin in dB and phase margin in degrees: where both are negative the queue swings.

    `period_s` is where the gain of the loop is 1; a swing begins with a period near it.
    """

    gain_db: float
    phase_deg: float
    period_s: float


def model_reno(window: float, rtt: float) -> Flow:
    """Return Reno in equilibrium: W^2 p = 2."""
    probability = math.sqrt(2) / window
    return Flow(probability, window * probability, window * probability**2 / rtt)


def model_cubic(window: float, rtt: float) -> Flow:
    """Return CUBIC in equilibrium: as Reno-friendly flow, or by its curve where that gives the larger window.

    Which of both it is follows from p at this window: the rule that needs more signals for it is the one in force.
    """
    cut = 1 - CUBIC_KEEPS
    friendly = 3 / (1 + CUBIC_KEEPS) / window**2  # increase: 3 (1 - b) / (1 + b), RFC 9438 section 4.3
    constant = (CUBIC_C * (3 + CUBIC_KEEPS) / (4 * cut)) ** 0.25  # RFC 9438 section 5.1: W = constant (R / p)^(3/4)
    curve = rtt * (constant / window) ** (4 / 3)
    p = max(friendly, curve)
    response = 2 * cut * window * math.sqrt(p)
    power = 1.0 if friendly >= curve else 1.5  # W falls as this power of p'
    return Flow(math.sqrt(p), response, response * math.sqrt(p) / power / rtt)


def compute_margins(flow: Flow, rtt: float) -> Margins:
    """Return the margins of the loop for flows in equilibrium, with the round trip that has the queue in it."""
    omega = np.logspace(-4, 4, 80_001)
    controller = np.hypot(BETA, ALPHA / TUPDATE / omega)
    gain = controller * flow.response / rtt / np.hypot(omega, flow.forgets) / np.hypot(omega, 1 / rtt)
    phase = np.arctan(omega * BETA * TUPDATE / ALPHA) - math.pi / 2
    phase = phase - np.arctan(omega / flow.forgets) - np.arctan(omega * rtt) - omega * (rtt + TUPDATE / 2)
    turned = int(np.argmax(phase <= -math.pi))  # the first frequency at which the answer has the wrong sign
    crossed = len(gain) - 1 - int(np.argmax(gain[::-1] >= 1))  # the last one that is amplified
    return Margins(
        -20 * math.log10(gain[turned]), 180 + math.degrees(phase[crossed]), 2 * math.pi / float(omega[crossed])
    )


def compute_link_margins(rate_bit: float, base_rtt: float, flows: int, control: str = "cubic") -> Margins | None:
    """Return the margins of `flows` equal flows on a link whose queue is at target; None if windows are too small."""
    rtt = base_rtt + TARGET
    window = rate_bit * rtt / SEGMENT_BITS / flows
    if window < LEAST_WINDOW:
        return None
    return compute_margins({"cubic": model_cubic, "reno": model_reno}[control](window, rtt), rtt)
