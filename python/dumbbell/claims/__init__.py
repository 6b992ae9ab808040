"""A paper's claims as data: what each compares, whether it holds in results, with values and intervals.

`language.py` reads a file of claims, `judging.py` gives verdicts, `claims_report.py` writes them. docs/claims.md
has the language.
"""

from dumbbell.claims.judging import FAILS, HOLDS, NO_DATA, ClaimVerdict, judge, run_tables
from dumbbell.claims.language import Claim, Claims, load, parse

__all__ = ["FAILS", "HOLDS", "NO_DATA", "Claim", "ClaimVerdict", "Claims", "judge", "load", "parse", "run_tables"]
