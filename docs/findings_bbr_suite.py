"""The table of docs/findings/bbr-suite.md: the test cases of the BBR draft for all versions.

python docs/findings_bbr_suite.py [FOLDER]

Runs the suite, prints the page, and writes its first table into docs/findings/bbr.md; figures of one failing case of
each kind are written into FOLDER.
"""

import sys
from pathlib import Path

from questions import fill

from dumbbell.check import figure, report, suite
from dumbbell.check.cases import CASES
from dumbbell.check.model import FAILED

PAGE = Path(__file__).parent / "findings" / "bbr.md"
HEAD = """# BBR in four versions and the draft's own test cases

Written by `make check-bbr` (`docs/findings_bbr_suite.py`); [check-bbr.md](../check-bbr.md) says how the suite works.
"""


def main() -> None:
    """Print the page."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    found = suite.check([{"name": name} for name in suite.VERSIONS], wanted=suite.Wanted(failing=folder is not None))
    print(f"{HEAD}\n{report.markdown(found)}", end="")
    PAGE.write_text(fill(PAGE.read_text(), {"suite": report.summary(found)}))
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    drawn = set()
    for one in found.results:
        if one.verdict.result == FAILED and one.run is not None and (one.case, one.control) not in drawn:
            drawn.add((one.case, one.control))
            print(figure.save(one.run, CASES[one.case], one.verdict, one.control, folder), file=sys.stderr)


if __name__ == "__main__":
    main()
