"""The cases of the suite, by group."""

from __future__ import annotations

from dumbbell.check.stack.cases import alone, bbr, c4, robust, sharing
from dumbbell.check.stack.stack_case import StackCase

GROUPS = {
    "alone": "one connection alone: goodput, queue and loss",
    "c4": "completion times of the C4 test suite",
    "sharing": "sharing with Linux's congestion controls and with itself",
    "robust": "paths that lose, reorder, change and fail",
    "bbr": "the BBR draft's test cases, as far as the wire shows them",
}
CASES: dict[str, StackCase] = {
    one.key: one for one in (*alone.CASES, *c4.CASES, *sharing.CASES, *robust.CASES, *bbr.CASES)
}
