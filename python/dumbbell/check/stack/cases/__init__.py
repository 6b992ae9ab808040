"""The cases of the suite, by group."""

from __future__ import annotations

from dumbbell.check.stack.cases import alone, bbr, c4, robust, sharing
from dumbbell.check.stack.model import Case

GROUPS = {
    "alone": "one connection alone: use of the link, queue and loss",
    "c4": "completion times of the C4 test suite",
    "sharing": "beside Linux's congestion controls and beside itself",
    "robust": "paths that lose, reorder, change and fail",
    "bbr": "the BBR draft's test cases, as far as the wire shows them",
}
CASES: dict[str, Case] = {one.key: one for one in (*alone.CASES, *c4.CASES, *sharing.CASES, *robust.CASES, *bbr.CASES)}
