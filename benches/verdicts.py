"""How many verdicts change with other seeds: `python -m benches.verdicts [--whole] [SUITE] [SUBJECT...]`.

Each subject is evaluated twice, the second time with seeds that begin after the most that the suite allows. It prints
the share of cells with the same grade, and the cells that change. Cells that nobody can tell count as grades, too.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from dumbbell.evaluate.evaluation import Evaluation, evaluate
from dumbbell.evaluate.grade import CANNOT_TELL
from dumbbell.evaluate.plan import Candidate
from dumbbell.evaluate.suite_file import EvaluationSuite, load_suite

SUBJECTS = {
    "rfc9743": ("cubic", "reno", "bbr1", "bbr3", "prague", "dctcp"),
    "rfc7928": ("codel", "fq_codel", "pie", "red"),
}


def evaluate_twice(suite: EvaluationSuite, subject: str, folder: Path, *, quick: bool) -> tuple[Evaluation, Evaluation]:
    """Return evaluations of a subject with the first seeds and with others."""
    others = replace(suite, seeds=replace(suite.seeds, after=suite.seeds.most))
    made = [
        evaluate(one, Candidate(subject, subject), folder / "runs.duckdb", quick=quick, progress=False)
        for one in (suite, others)
    ]
    return made[0], made[1]


def compare_grades(first: Evaluation, second: Evaluation) -> tuple[int, list[tuple[str, str, str, str]]]:
    """Return how many cells there are, and those whose grade changes: criterion, place, grades."""
    changed, cells = [], 0
    for one, other in zip(first.verdicts, second.verdicts, strict=True):
        for place, cell in one.cells.items():
            grades = cell.grade, other.cells[place].grade
            cells += 1
            if grades[0] != grades[1]:
                changed.append((one.criterion.id, cell.name, *grades))
    return cells, changed


def main() -> int:
    """Print the share of cells with the same grade, by subject and in all; 1 if it is less than 97 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", nargs="?", default="rfc9743")
    parser.add_argument("subjects", nargs="*")
    parser.add_argument("--whole", action="store_true", help="all cells instead of the quick ones")
    chosen = parser.parse_args()
    suite = load_suite(chosen.suite)
    suite = replace(suite, criteria=tuple(replace(one, harm=None) for one in suite.criteria))
    total, kinds = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for subject in chosen.subjects or SUBJECTS.get(chosen.suite, suite.yardsticks):
            cells, changed = compare_grades(*evaluate_twice(suite, subject, Path(folder), quick=not chosen.whole))
            total += cells
            print(f"{subject}: {cells - len(changed)} of {cells} cells have the same grade", flush=True)
            for criterion, place, first, second in changed:
                kinds["open" if CANNOT_TELL in (first, second) else "decided"] += 1
                print(f"    {criterion}, {place or 'the only one'}: {first}, then {second}")
    share = 1 - kinds.total() / total
    print(f"in all: {100 * share:.1f} % of {total} cells; of the others {kinds['open']} cannot be told with some seeds")
    return 0 if share >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
