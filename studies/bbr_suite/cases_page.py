"""The tables of docs/check-bbr.md, and its sample file.

python -m studies.bbr_suite.cases_page            write the tables
python -m studies.bbr_suite.cases_page --sample   make the sample file again, too
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dumbbell.evaluate.bbr import qlog_trace
from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.cases import CASES, TIMES, VALUES
from dumbbell.evaluate.bbr.lab import CaseLab, PathPoint
from dumbbell.qlog import fields

from .study import MEANING, format_table

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "check-bbr.md"
SAMPLE = DOCS / "check-bbr-sample.sqlog"
SHOWN = ("startup-plateau", "drain-inflight", "up-plateau", "down-inflight")


def _format_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _list_options(case: BbrCase) -> str:
    return _format_code(
        [f'--at "{name}"' for name in case.needs.times] + [f'--value "{name}"' for name in case.needs.values]
    )


def describe_cases() -> str:
    """Return what each case needs: set-up, options, fields, and how a real stack gets there."""
    return format_table(
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
    return format_table(["option", "meaning", "cases"], rows)


def describe_columns() -> str:
    """Return every field: its name in qlog, unit, our column, and the cases that need it."""
    rows = []
    for field in fields.FIELDS:
        needing = ", ".join(one.number for one in CASES.values() if field.column in one.needs.columns)
        rows.append([_format_code(field.list_names()), field.unit, f"`{field.column}`", field.meaning, needing])
    return format_table(["field", "unit", "our column", "meaning", "cases that need it"], rows)


def describe_results() -> str:
    """Return what the results mean."""
    return format_table(["result", "meaning"], MEANING.items())


TABLES = {"results": describe_results, "cases": describe_cases, "names": describe_names, "fields": describe_columns}


def make_page(before: str) -> str:
    """Return the page with its tables as they are to be."""
    for name, table in TABLES.items():
        part = re.compile(rf"<!-- table {name} -->\n.*?<!-- end -->", re.DOTALL)
        found = part.search(before)
        assert found, f"no <!-- table {name} --> in {PAGE}"
        begin, end = found.span()
        before = f"{before[:begin]}<!-- table {name} -->\n\n{table()}\n\n<!-- end -->{before[end:]}"
    return before


def make_sample() -> str:
    """Return a small trace as the logger of a stack would write it: the fields of four cases, a header of its own."""
    run = CASES["down-inflight"].prepare(CaseLab(PathPoint(1_000_000, 0.04), {"name": "bbr-draft"}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "whole"
        qlog_trace.write(path, run, "", "", "")
        records = [json.loads(line.strip("\x1e")) for line in path.read_text().split("\n") if line]
    columns = {column for key in SHOWN for column in (*CASES[key].needs.columns, *CASES[key].needs.flags)}
    names = {fields.name(column) for column in columns} | {"smoothed_rtt", "new"}
    header = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
    }
    lines = [header | {"title": "a bulk transfer", "trace": {"vantage_point": {"type": "server"}}}]
    for record in records[1:]:
        data = {name: value for name, value in record["data"].items() if name in names}
        if data:
            lines.append(record | {"data": data})
    return "".join(f"\x1e{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def main() -> None:
    """Write them."""
    PAGE.write_text(make_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if "--sample" in sys.argv[1:]:
        SAMPLE.write_text(make_sample(), encoding="utf-8")


if __name__ == "__main__":
    main()
