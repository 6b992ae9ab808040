"""The cases, in the order of the draft: their texts are in suites/bbr, their programs in the modules by phase."""

from __future__ import annotations

from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.path import PATH
from dumbbell.evaluate.bbr.probing import PROBING
from dumbbell.evaluate.bbr.startup import STARTUP
from dumbbell.evaluate.suite_file import SUITES, Criterion, load_suite

_PROGRAMS = STARTUP | PROBING | PATH
SUITE = load_suite(str(SUITES / "bbr"))


def _make_case(one: Criterion) -> BbrCase:
    key = name_case(one.judge)
    return BbrCase(key=key, criterion=one, heading=SUITE.paragraphs[one.answers[0]].title, **vars(_PROGRAMS[key]))


def name_case(judge: str) -> str:
    """Return the key of the case that a judge judges: `probe-rtt` for `bbr.probe-rtt`."""
    return judge.partition(".")[2]


CASES: dict[str, BbrCase] = {name_case(one.judge): _make_case(one) for one in SUITE.criteria}
TIMES, VALUES = SUITE.times, SUITE.values
