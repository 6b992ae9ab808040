"""What the suites say of every congestion control and queue discipline, for the page of each.

`python -m website.evaluations` evaluates all of them, the quick part of each suite, and writes `evaluations.csv`: many
minutes of work, so it is not part of `make docs`. With names it evaluates these alone. Runs are kept in the folder
`target/evaluations`, so that an interrupted one continues.
"""

import csv
import math
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

from dumbbell.evaluate.evaluation import Evaluation, evaluate
from dumbbell.evaluate.grade import rank
from dumbbell.evaluate.plan import Candidate
from dumbbell.evaluate.suite_file import load_suite
from dumbbell.experiment.registry import read_registry
from dumbbell.words import format_count, format_measured, join_words
from website.markdown import ROOT, escape_cell, format_table

FILE = Path(__file__).with_name("evaluations.csv")
RUNS = ROOT / "target" / "evaluations"
SUITES = {"cc": "rfc9743", "aqm": "rfc7928"}
# what an agent makes of a flow, which no suite can grade without the agent
STEERED = ("external",)
COLUMNS = ("algorithm", "suite", "criterion", "grade", "value", "low", "high", "yardsticks", "cell")


@cache
def read_evaluations() -> dict[str, list[dict[str, str]]]:
    """Return one row for each criterion, by name of the algorithm."""
    found: dict[str, list[dict[str, str]]] = {}
    with FILE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["algorithm"], []).append(row)
    return found


def _make_rows(name: str, found: Evaluation) -> list[dict[str, str]]:
    rows = []
    for one in found.verdicts:
        cell = one.worst
        others = join_words([f"{who} {format_measured(value)}" for who, value in cell.others.items()])
        row = {"algorithm": name, "suite": found.suite.name, "criterion": one.criterion.id, "grade": one.grade}
        numbers = {"value": cell.value, "low": cell.low, "high": cell.high}
        row |= {key: "" if math.isnan(value) else format_measured(value) for key, value in numbers.items()}
        rows.append(row | {"yardsticks": others, "cell": cell.name})
    return rows


def format_evaluation(name: str) -> str:
    """Return what the quick part of a suite says of an algorithm: a sentence, and a table of its criteria."""
    if name in STEERED:
        return "A suite would grade the agent. Without one, this control is [constant](constant.md), which has grades."
    rows = read_evaluations()[name]
    suite = load_suite(rows[0]["suite"])
    criteria = {one.id: one for one in suite.criteria}
    counts = Counter(row["grade"] for row in rows)
    summary = join_words([f"{counts[grade]} {grade}" for grade in sorted(counts, key=rank)])
    command = f"dumbbell evaluate {suite.of} {name} --quick"
    lines = []
    for row in rows:
        criterion = criteria[row["criterion"]]
        spread = f" ({row['low']} to {row['high']})" if row["low"] != row["high"] else ""
        lines.append(
            [
                ", ".join(criterion.answers),
                escape_cell(criterion.says),
                row["grade"],
                escape_cell(suite.measures[criterion.measure].label),
                f"{row['value']}{spread}" if row["value"] else "no data",
                row["yardsticks"],
                escape_cell(row["cell"] or "the only one"),
            ]
        )
    header = ["section", "criterion", "grade", "measure in the worst cell", "value", "yardsticks in its place"]
    table = format_table([*header, "worst cell"], lines)
    return (
        f"`{command}` runs a part of the scenes of [{suite.title}](../evaluate.md) and gives "
        f"{format_count(len(rows), 'grade')}, each of the worst cell: {summary}. {suite.first} "
        "The page that the command writes has the bars, the notes and every cell. Values have intervals over seeds."
        f"\n\n{table}"
    )


def main(names: list[str]) -> None:
    """Evaluate the algorithms of these names, all if there are none, and write the file."""
    RUNS.mkdir(parents=True, exist_ok=True)
    known = read_registry().kinds
    rows = dict(read_evaluations()) if FILE.exists() else {}
    for kind, suite_name in SUITES.items():
        suite = load_suite(suite_name)
        # no row has harm, and its runs would be a fifth of all
        suite = replace(suite, criteria=tuple(replace(one, harm=None) for one in suite.criteria))
        for name in (one for one in known[kind] if not names or one in names):
            if name in STEERED:
                continue
            found = evaluate(suite, Candidate(name, name), RUNS / f"{suite_name}.duckdb", quick=True)
            rows[name] = _make_rows(name, found)
            ordered = [row for of_kind in SUITES for one in known[of_kind] for row in rows.get(one, [])]
            with FILE.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(ordered)


if __name__ == "__main__":
    main(sys.argv[1:])
