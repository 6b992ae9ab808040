"""Verdicts of judges, and the results of a suite as its gate reads them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Expectation:
    """One expectation: what it is, whether it held (None: cannot tell), what was found.

    `constant`: only a constant or a flag of a document is compared. `needs`: the columns that the trace lacks for it.
    """

    what: str
    held: bool | None
    found: str
    constant: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict of a judge on a case: its result, the reason, and every expectation that was checked.

    `log`: fields that the case needs and the trace lacks, if the judge cannot tell.
    """

    result: str
    reason: str
    checks: tuple[Expectation, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseResult:
    """A case, the control and the place at which it was judged, and the verdict."""

    case: str
    control: str  # as it is called in tables
    place: Hashable
    verdict: CaseVerdict

    @property
    def key(self) -> tuple[str, str, Hashable]:
        """The case, the control and the place."""
        return self.case, self.control, self.place

    @property
    def where(self) -> str:
        """The place as a file of expected failures has it."""
        return str(self.place)

    @property
    def seconds(self) -> float:
        """How long its own runs took; runs that several cases share count for the first."""
        return 0.0


@dataclass(frozen=True)
class SuiteReport:
    """All results of a suite, in order, and how long they took."""

    results: Sequence[CaseResult]
    seconds: float

    @property
    def controls(self) -> list[str]:
        """The names of the controls, in order."""
        return list(dict.fromkeys(one.control for one in self.results))
