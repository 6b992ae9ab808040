"""The cases, in the order of the draft."""

from __future__ import annotations

import re

from dumbbell.check.model import Case
from dumbbell.check.path import PATH_CASES
from dumbbell.check.probing import PROBING_CASES
from dumbbell.check.startup import STARTUP_CASES


def _order(case: Case) -> tuple[int, str]:
    return int(re.sub(r"\D", "", case.number)), case.number


CASES: dict[str, Case] = {case.key: case for case in sorted((*STARTUP_CASES, *PROBING_CASES, *PATH_CASES), key=_order)}
