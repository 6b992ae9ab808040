"""The tables of docs/check-bbr.md, made from the cases: set-ups, times and values, fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dumbbell.evaluate.bbr import fields
from dumbbell.evaluate.bbr.case import MEANING, BbrCase
from dumbbell.evaluate.bbr.cases import CASES, TIMES, VALUES


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _format_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _list_options(case: BbrCase) -> str:
    return _format_code(
        [f'--at "{name}"' for name in case.needs.times] + [f'--value "{name}"' for name in case.needs.values]
    )


def describe_cases() -> str:
    """Return what each case needs: set-up, options, fields, and how a real stack gets there."""
    return _format_table(
        [
            "case",
            "set-up to produce",
            "options that it needs",
            "fields that it needs",
            "compared if logged",
            "a real stack",
        ],
        [
            [
                f"{case.number} `{key}`",
                case.needs.setup,
                _list_options(case),
                _format_code(map(fields.name, case.needs.columns)),
                _format_code(map(fields.name, case.needs.flags)),
                case.needs.real,
            ]
            for key, case in CASES.items()
        ],
    )


def describe_names() -> str:
    """Return every name that --at and --value take."""
    rows = []
    for option, form, meanings in (("at", "TIME", TIMES), ("value", "NUMBER", VALUES)):
        for name, meaning in meanings.items():
            numbers = [
                one.number
                for one in CASES.values()
                if name in (*one.needs.times, *one.needs.values, *one.needs.optional)
            ]
            rows.append([f'`--{option} "{name}={form}"`', meaning, ", ".join(numbers)])
    return _format_table(["option", "meaning", "cases"], rows)


def describe_columns() -> str:
    """Return every field: its name in qlog, unit, our column, and the cases that need it."""
    rows = []
    for field in fields.FIELDS:
        needing = ", ".join(one.number for one in CASES.values() if field.column in one.needs.columns)
        rows.append([_format_code(field.list_names()), field.unit, f"`{field.column}`", field.meaning, needing])
    return _format_table(["field", "unit", "our column", "meaning", "cases that need it"], rows)


def describe_results() -> str:
    """Return what the results mean."""
    return _format_table(["result", "meaning"], MEANING.items())


TABLES = {"results": describe_results, "cases": describe_cases, "names": describe_names, "fields": describe_columns}
