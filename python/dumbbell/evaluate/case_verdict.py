"""Verdicts of judges: what was expected of a run, and what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dumbbell.evaluate.bbr.lab import CaseRun

SIGNS: Mapping[bool | None, str] = {True: "+", False: "F", None: "?"}


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

    `log`: fields that the case needs and the trace lacks, if the judge cannot tell. `run` is what was judged, if it is
    kept, and `seconds` how long a core took for it; runs that several cases share count for the first.
    """

    result: str
    reason: str
    checks: tuple[Expectation, ...] = ()
    log: tuple[str, ...] = ()
    run: CaseRun | None = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)

    def list_checks(self) -> list[str]:
        """Return the expectations, one a line, each with a sign for whether it held."""
        return [f"{SIGNS[one.held]} {one.what}: {one.found}" for one in self.checks]
