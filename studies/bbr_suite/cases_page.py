"""The tables of docs/check-bbr.md, and its sample file.

python -m studies.bbr_suite.cases_page            write the tables
python -m studies.bbr_suite.cases_page --sample   make the sample file again, too
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from dumbbell.evaluate.bbr import fields, qlog_trace
from dumbbell.evaluate.bbr.case_reference import TABLES
from dumbbell.evaluate.bbr.cases import CASES
from dumbbell.evaluate.bbr.lab import CaseLab, PathPoint

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "check-bbr.md"
SAMPLE = DOCS / "check-bbr-sample.sqlog"
SHOWN = ("startup-plateau", "drain-inflight", "up-plateau", "down-inflight")


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
