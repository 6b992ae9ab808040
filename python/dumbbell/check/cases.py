"""The cases, in the order of the draft."""

from __future__ import annotations

import re

from dumbbell.check.case import BbrCase
from dumbbell.check.path import PATH_CASES
from dumbbell.check.probing import PROBING_CASES
from dumbbell.check.spurious import SPURIOUS_CASES
from dumbbell.check.startup import STARTUP_CASES


def _order(case: BbrCase) -> tuple[int, str]:
    return int(re.sub(r"\D", "", case.number)), case.number


CASES: dict[str, BbrCase] = {
    case.key: case for case in sorted((*STARTUP_CASES, *PROBING_CASES, *PATH_CASES, *SPURIOUS_CASES), key=_order)
}

# what --at and --value may say of a set-up: seconds of the sender's clock from the first row on, and figures
TIMES = {
    "rate falls": "when the link gets slower",
    "rate rises": "when the link gets faster",
    "loss begins": "when loss begins",
    "first loss": "when loss begins for the first time",
    "second loss": "when loss begins again",
    "late segments": "when segments begin to be late",
    "path gets longer": "when the path gets longer, or when min_rtt last fell",
    "PROBE_UP": "when the PROBE_UP begins that is judged",
    "application limits": "when the application gets slow",
    "pause": "when the application pauses",
    "resume": "when it goes on",
}
VALUES = {
    "decrease": "the share by which the link gets slower",
    "rate before": "bit/s, before the change",
    "rate after": "bit/s, after the change",
    "token rate": "bit/s of the policer",
    "bucket": "bytes of the policer's bucket",
    "batch": "seconds between two batches of acknowledgements",
    "buffer": "packets of the queue",
    "loss": "share of packets that are lost",
    "share": "of the link's rate, that the application sends",
    "delay": "seconds by which segments are late",
    "for": "seconds for which segments are made late",
}
