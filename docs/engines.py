"""The same cells on both engines: writes docs/validation-engines.md and its section of docs/validation.md.

python docs/engines.py agree.duckdb        make agree
"""

import sys
from pathlib import Path

import sections

from dumbbell import engines
from dumbbell.tables import aligned

PAGE = Path(__file__).with_name("validation-engines.md")
SUMMARY = PAGE.with_name("validation.md")
HEADING = "One file, two engines"
TEXT = """\
# Simulator and Linux: one file, two engines

Written by `make agree`: the 48 cells of [experiments/engines/agree.toml](../experiments/engines/agree.toml), one flow
each, from the same file on the simulator and on the kernel itself, in virtual time ([linux.md](linux.md)). Cells are
means over their seeds.
"""


def short(compared: engines.Compared) -> str:
    """Return errors alone: one row for each queue, rate and base RTT, one column for each congestion control."""
    rows: dict[str, dict[str, str]] = {}
    for pair in compared.pairs:
        place, _, cc = pair.cell.rpartition(", ")
        errors = (f"{100 * pair.error(index):+.1f}" for index in range(len(engines.MEASURES)))
        rows.setdefault(place, {})[cc] = " / ".join(errors)
    ccs = list(dict.fromkeys(cc for row in rows.values() for cc in row))
    return aligned(
        ["cell", *ccs], [[place, *(row.get(cc, "") for cc in ccs)] for place, row in rows.items()], words=(0,)
    )


def summary(compared: engines.Compared) -> str:
    """Return the section of docs/validation.md."""
    first, second = compared.engines
    return f"""\
Written by `make agree`: 48 cells of one flow from the same file on the simulator ({first}) and on the kernel itself
({second}). [validation-engines.md](validation-engines.md) has the values. The bars are to hold in 90 % of the cells
without BBR and in 80 % of those with it.

{engines.scores(compared)}

Errors of goodput, mean RTT and mean sojourn, in per cent:

{short(compared)}
"""


def main(results: str) -> None:
    """Compare the two engines of a results file."""
    compared = engines.compare(results)
    PAGE.write_text(f"{TEXT}\n{engines.markdown(compared)}\n", encoding="utf-8")
    text = SUMMARY.read_text(encoding="utf-8")
    SUMMARY.write_text(sections.replaced(text, HEADING, summary(compared)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
