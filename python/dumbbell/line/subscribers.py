"""Many lines at once: a CSV with a line in each row, such as a provider's list of subscribers."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dumbbell.engines import sweep
from dumbbell.engines.sim import Simulator
from dumbbell.errors import InputError, Missing, Nothing, TooMany, Unreadable, WrongValue, combine_errors, quote_value
from dumbbell.experiment import units
from dumbbell.experiment.file import load
from dumbbell.line.access import find_kind
from dumbbell.line.answer import LineAnswer, answer_line
from dumbbell.line.home import AccessLine, write_experiment
from dumbbell.report.verdict import format_short
from dumbbell.results.results import StoredResults
from dumbbell.results.tables import align_table
from dumbbell.writing import make_folder, write_text

MOST_LINES = 1000
_NEEDED, _OPTIONAL = ("name", "down", "up"), ("link", "rtt")


def read_subscribers(path: Path, link: str, rtt: int | None, options: Mapping[str, Any]) -> list[AccessLine]:
    """Return the lines of a CSV with the columns name, down, up, and, if they differ, link and rtt.

    `link` and `rtt` hold for rows without their own. Raises InputError of every row that is wrong.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(
            f"it cannot be read: {error}", "a CSV file with the columns name, down, up", file=path
        ) from None
    if not rows:
        raise Nothing("it has no row", f"the columns {', '.join(_NEEDED)} and a line in each row", file=path)
    if len(rows) > MOST_LINES:
        raise TooMany(f"{len(rows)} lines", f"{MOST_LINES} at once", file=path)
    lines: list[AccessLine] = []
    wrong: list[InputError] = []
    for number, row in enumerate(rows, 2):
        try:
            lines.append(_read_row(row, link, rtt, options))
            if any(one.name == lines[-1].name for one in lines[:-1]):
                raise WrongValue(quote_value(lines[-1].name), "a name that no other line has", key="name")
        except InputError as error:
            wrong.append(error.move_into(str(path), f"row {number}: "))
    if wrong:
        raise combine_errors(wrong)
    return lines


def _read_row(row: Mapping[str | None, Any], link: str, rtt: int | None, options: Mapping[str, Any]) -> AccessLine:
    values = {name: str(row.get(name) or "").strip() for name in (*_NEEDED, *_OPTIONAL)}
    for name in _NEEDED:
        if not values[name]:
            raise Missing("a value in this column", key=name)
    name = values["name"]
    if not all(letter.isalnum() or letter in "-_" for letter in name) or len(name) > 80:
        raise WrongValue(quote_value(name), "letters, digits, - and _, which make the name of a file", key="name")
    numbers = {}
    for key, kind in (("down", "rate"), ("up", "rate"), ("rtt", "time")):
        if values[key]:
            try:
                numbers[key] = units.parse(kind, values[key])
            except InputError as error:
                raise error.move("", f"column {key}") from None
    own_rtt = numbers.get("rtt", rtt)
    fields = {**options, **({} if own_rtt is None else {"rtt": own_rtt})}
    return AccessLine(numbers["down"], numbers["up"], find_kind(values["link"] or link), name=name, **fields)


def answer_subscribers(lines: list[AccessLine], output: str) -> str:
    """Run all lines and return their answers as a table; experiments, results and a CSV go to the folder `output`."""
    folder = Path(output)
    make_folder(folder, "a folder that can be made", command="line")
    for line in lines:
        write_text(folder / f"{line.name}.toml", write_experiment(line), "a folder that can be written to")
    experiments = [load(str(folder / f"{line.name}.toml")) for line in lines]
    results = folder / "lines.duckdb"
    report = sweep.run(experiments, results, engine=Simulator())
    if report.interrupted:
        raise KeyboardInterrupt
    answers = []
    for line, experiment in zip(lines, experiments, strict=True):
        keys = [cell.key for cell in experiment.make_cells()]
        answers.append(answer_line(line, StoredResults(results, keys=keys)))
    head, rows = _make_rows(lines, answers)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    write_text(folder / "lines.csv", text.getvalue(), "a folder that can be written to")
    return align_table(head, rows) + f"\n\nThe same as CSV: {folder / 'lines.csv'}\nThe results: {results}"


def _make_rows(lines: list[AccessLine], answers: list[LineAnswer]) -> tuple[list[str], list[list[str]]]:
    """Return a row for each line: what to set, and each measure without a shaper and with the setting."""
    labels = list(dict.fromkeys(label for answer in answers for label in answer.after))
    head = ["line", "down", "up", "link", "setting", *(f"{label}: before -> after" for label in labels)]
    rows = []
    for line, answer in zip(lines, answers, strict=True):
        rates = [units.show("rate", rate) for rate in (line.down, line.up)]
        values = [f"{_format_value(answer.before, label)} -> {_format_value(answer.after, label)}" for label in labels]
        rows.append([line.name, *rates, line.kind, answer.setting.name, *values])
    return head, rows


def _format_value(values: Mapping[str, float], label: str) -> str:
    return format_short(values[label]) if label in values else "-"
