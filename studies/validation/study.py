"""What agrees with what: the page itself, docs/validation-linux.md, and parts of docs/accuracy.md and of README."""

from typing import Any

import polars as pl

from dumbbell.study import Evidence, Results, Rows, Sweep, align_table

from . import rows as counting
from .bars import PUBLISHED, UNIFORM, Row
from .short_flows import find_percentile

LINUX = (
    *("one-flow", "one-flow-cake", "one-flow-aqm", "one-flow-pie", "two-flows-aqm", "two-flows-pie", "many-flows"),
    *("short-flows", "short-flows-100kb"),
)
BBR = ("one-flow", "two-flows", "elsewhere", "two-elsewhere", "gigabit-two", "gigabit-ten")
QUESTION = "Where does the simulator agree with Linux and with published measurements, and where not?"
RUNS = (
    Sweep("linux.duckdb", (*LINUX, "sce/one-flow-reno-cubic")),
    Sweep("two.duckdb", ("two-flows",)),
    Sweep("linux-l4s.duckdb", ("l4s-one-flow", "l4s-two-flows")),
    Sweep("linux-bbr.duckdb", tuple(f"bbr-{name}" for name in BBR)),
    Sweep("sce.duckdb", ("sce/one-flow", "sce/two-flow")),
    Sweep("abe.duckdb", ("abe/closed-form",)),
)
NAMES = (r"two queues",)
KERNEL = "a real kernel, run as a process on a virtual clock (User-Mode Linux), Debian's 6.12"
SHOWN = 5  # cells named of those that do not agree

BARS = {
    "A": "goodput of each flow within 2 % of the rate (two flows 3 %, many 3 % of a fair share), mean RTT within 6 %, "
    "drops and marks together within 25 %",
    "B": "mean completion time within 5 %, 95th percentile within 15 %",
    "C": "goodput of each flow within 5 % of the rate, mean RTT within 10 %",
    "D": "utilisation within 1 %",
    "E": "the first flow's share within 0.05 (one flow: goodput within 2 % of the rate), mean RTT within 6 %, marks "
    "and drops together within 25 %",
    "F": "one flow: goodput within 2 % of the rate, mean RTT within 6 %; two: the first flow's share within 0.06, RTT "
    "within 8 %; 1 Gbit/s: utilisation within 3 percentage points, the share of a class within 0.08, RTT within 10 %",
    "G": "means over similar flows and over starts: goodput within 3 % of the rate, RTT within 6 %, drops and "
    "marks of each queue together within 25 %, P99 of pings within 15 %; where Linux ran from 24 starts or more, "
    "a value also agrees if the 95 % interval of the difference of the means contains 0",
    "H": "utilisation within 3 percentage points, BBRv2's share within 0.08, RTT within 10 %",
}


def make_evidence(*results: Results) -> dict[str, pl.DataFrame]:
    """Count the cells of six results files; writes docs/validation-linux.md and -hops.md, with every cell of some."""
    linux, two, l4s, bbr, sce, abe = (str(one.path) for one in results)
    rows = [
        *counting.make_linux_rows(linux, two),
        *counting.make_hop_rows(),
        *counting.make_l4s_rows(l4s),
        *counting.make_bbr_rows(bbr),
        *counting.make_coexistence_rows(),
        counting.make_cubic_beta_row(),
        *counting.make_sce_rows(sce),
        counting.make_linux_sce_row(),
    ]
    return make_tables([*rows, counting.make_theory_row(abe)])


def make_tables(rows: list[Row]) -> dict[str, pl.DataFrame]:
    """Return the rows, their errors by measure, and the cells outside their bars, worst first."""
    counts, errors, outside, measured = [], [], [], []
    for row in rows:
        agree = row.cells - len(row.outside)
        uniform = {"uniform": row.uniform if "goodput" in row.errors else None}
        counts.append(row.texts | {"cells": row.cells, "agree": agree, "share": agree / row.cells, **uniform})
        for measure, values in row.errors.items():
            quantiles = {
                name: find_percentile(values, at) for name, at in (("median", 0.5), ("p90", 0.9), ("worst", 1))
            }
            errors.append({"name": row.name, "measure": measure, **quantiles})
        measured += [
            {"name": row.name, "cell": cell, "runs": one.runs, "goodput_spread": one.goodput, "rtt_spread": one.rtt}
            for cell, one in row.measured
        ]
        worst = sorted(row.outside, key=lambda one: -one[1])
        outside += [{"name": row.name, "cell": cell, "size": size, "off": off} for cell, size, off in worst]
    frames: dict[str, list[dict[str, Any]]] = {
        "rows": counts,
        "errors": errors,
        "outside": outside,
        "measured": measured,
    }
    return {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in frames.items()}


def format_summary(found: Evidence) -> str:
    """Return the table of what was compared."""
    lines = []
    for row in found["rows"].iter_rows(named=True):
        errors = found["errors"].filter(pl.col("name") == row["name"]).iter_rows(named=True)
        shown = "; ".join(
            f"{one['measure']} {' / '.join(format_percent(one[at]) for at in ('median', 'p90', 'worst'))}"
            for one in errors
        )
        uniform = "-" if row["uniform"] is None else f"**{row['uniform']} of {row['cells']}**"
        agree = f"{row['agree']} of {row['cells']}"
        spread = describe_runs(found["measured"].filter(name=row["name"]))
        lines.append([row["what"], row["reference"], spread, uniform, agree, row["bar"], shown, f"`{row['command']}`"])
    head = [
        "family",
        "reference",
        "runs of the reference per cell; their spread",
        "cells within the uniform tolerance",
        "within the family's own",
    ]
    return align_table([*head, "own tolerance", "errors, %", "command"], lines, words=(0, 1, 2, 5, 6, 7))


def describe_runs(cells: pl.DataFrame) -> str:
    """Return how many runs of the reference there are per cell, and the median of how far they lie apart."""
    least, most = int(cells["runs"].min()), int(cells["runs"].max())  # type: ignore[arg-type]
    text = str(least) if least == most else f"{least} to {most}"
    spread = [cells[name].drop_nulls() for name in ("goodput_spread", "rtt_spread")]
    if any(one.is_empty() for one in spread):
        return text
    goodput, rtt = (format_percent(float(one.median())) for one in spread)  # type: ignore[arg-type]
    return f"{text}; in the median {goodput} % of the rate, {rtt} % of the RTT"


def describe_bars(_: Evidence) -> str:
    """Return the list of tolerances."""
    return "\n".join(f"- {name}: {text}." for name, text in BARS.items())


def describe_outside(found: Evidence, name: str) -> str:
    """Return how many cells of a row are outside its bar, and the worst."""
    row = found["rows"].row(by_predicate=pl.col("name") == name, named=True)
    cells = found["outside"].filter(pl.col("name") == name)
    some = f"; these are the worst {SHOWN}" if cells.height > SHOWN else ""
    head = f"**{row['what']}** ({row['reference']}): {cells.height} of {row['cells']} cells are outside{some}."
    listed = [f"- {one['cell']}: {one['off']}" for one in cells.head(SHOWN).iter_rows(named=True)]
    return "\n".join([head, "", *listed])


def name_worst(found: Evidence, name: str) -> str:
    """Return the worst cell of a row, with its errors."""
    worst = found["outside"].filter(pl.col("name") == name).row(0, named=True)
    return f"{worst['cell']}: {worst['off']}"


def format_percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.2f}" if value < 0.00995 else f"{100 * value:.1f}"


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the templates ask for beside the tables."""
    return {
        "outside_of": lambda name: describe_outside(found, name),
        "worst_of": lambda name: name_worst(found, name),
        "worst_name": lambda reference: find_worst(found, reference)["what"],
        "worst_share": lambda reference: format_agreeing(find_worst(found, reference)),
        "linux": Rows("rows of Linux", rank_rows(found, "Linux")),
        "lab": Rows("rows of the SCE draft", rank_rows(found, PUBLISHED)),
        "bar": UNIFORM,
        "kernel": KERNEL,
    }


def find_worst(found: Evidence, reference: str) -> dict[str, Any]:
    """Return the row of the simulator with the lowest share of cells within the uniform bar."""
    return rank_rows(found, reference).row(0, named=True)


def format_agreeing(row: dict[str, Any]) -> str:
    """Return how many cells of a row are within the uniform bar, and how many it has."""
    return f"{row['uniform']} of {row['cells']}"


def rank_rows(found: Evidence, reference: str) -> pl.DataFrame:
    """Return the rows of the simulator by the share of cells within the uniform bar, the lowest first.

    They are those whose reference begins so. Rows of other measures than goodput and RTT are left out.
    """
    ours = pl.col("reference").str.starts_with(reference) & (pl.col("name") != "sce-plain-linux")
    rows = found["rows"].filter(ours & pl.col("uniform").is_not_null())
    return rows.with_columns(uniform_share=pl.col("uniform") / pl.col("cells")).sort("uniform_share", "name")


def trust(found: Evidence) -> str:
    """Return the rows for docs/accuracy.md: against Linux the best and the worst, and all against publications."""
    linux, lab = (rank_rows(found, reference).reverse() for reference in ("Linux", PUBLISHED))
    chosen = pl.concat([linux.head(3), linux.tail(4), lab])
    lines = [[row["what"], row["reference"], format_agreeing(row)] for row in chosen.iter_rows(named=True)]
    return align_table(["family", "reference", "agree"], lines, words=(0, 1))


TABLES = {"summary": format_summary, "bars": describe_bars, "trust": trust}
PARTS = {"../../docs/accuracy.md": "accuracy.md", "../../README.md": "readme.md"}
