"""The same cells on two engines.

python -m studies.validation.engines agree.duckdb        make agree: docs/validation-engines.md
python -m studies.validation.engines --live live.duckdb  make agree-live: docs/validation-live.md
"""

import sys
from pathlib import Path

from dumbbell.published import engines
from dumbbell.results.store import Store
from dumbbell.study import align_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation-engines.md"
TEXT = """\
# Simulator and Linux: one file, two engines

`make agree` writes this page. It compares the 48 cells of
[studies/validation/experiments/agree.toml](../studies/validation/experiments/agree.toml) with one flow each: the same
file runs on the simulator and on the kernel itself, in virtual time ([Run on real Linux in virtual time](linux.md)).
Values are means over seeds. The bars should be met in 90 % of the cells without BBR and in 80 % of those with BBR. For
Reno over the step at 20 Mbit/s, ties in time cause most of the difference; the simulator decides them in the same way
for all seeds ([lab book](lab-book.md), 46).
"""


def format_short(compared: engines.EngineComparison) -> str:
    """Return errors alone: one row for each queue, rate and base RTT, one column for each congestion control."""
    rows: dict[str, dict[str, str]] = {}
    for pair in compared.pairs:
        place, _, cc = pair.cell.rpartition(", ")
        errors = (f"{100 * pair.compute_error(index):+.1f}" for index in range(len(engines.MEASURES)))
        rows.setdefault(place, {})[cc] = " / ".join(errors)
    ccs = list(dict.fromkeys(cc for row in rows.values() for cc in row))
    return align_table(
        ["cell", *ccs], [[place, *(row.get(cc, "") for cc in ccs)] for place, row in rows.items()], words=(0,)
    )


LIVE = PAGE.with_name("validation-live.md")
LIVE_TEXT = """\
# Simulator and real time: one file, two engines

`make agree-live` writes this page. It compares the 30 cells of
[studies/validation/experiments/live.toml](../studies/validation/experiments/live.toml) with one flow of 10 s each: the
same file runs on the simulator and, with kernel TCP, on the real clock ([Run in real time](live.md)). Reno over PIE
differs because of ties in time, which occur only in virtual time ([lab book](lab-book.md), 46).
"""
_LATENESS = """
    SELECT json_extract_string(config, '$.bottleneck.rate') AS rate, count(*),
        min(lateness_p50_ms), max(lateness_p50_ms),
        median(lateness_p99_ms), max(lateness_p99_ms), max(lateness_max_ms), any_value(lateness_allowed_ms),
        max(ends_waited_ms), sum(frames_lost), sum(1 - valid)
    FROM runs WHERE valid IS NOT NULL GROUP BY 1 ORDER BY CAST(rate AS DOUBLE)
"""


def format_lateness(results: str) -> str:
    """Return how late the frames of all runs in real time were, a row for each rate, times in microseconds."""
    with Store.open(results) as store:
        found = store.read(_LATENESS)
    rows = []
    for rate, runs, *times, lost, invalid in found.iter_rows():
        low, high, median, most, longest, allowed, waited = (1e3 * value for value in times)
        texts = [f"{low:.1f} to {high:.1f}", *(f"{value:.0f}" for value in (median, most, longest, allowed))]
        rows.append([f"{float(rate) / 1e6:g} Mbit/s", str(runs), *texts, f"{waited:.1f}", str(lost), str(invalid)])
    header = [
        "rate",
        "runs",
        "P50",
        "P99, median",
        "P99, largest",
        "largest",
        "P99 allowed",
        "ends waited",
        "lost",
        "invalid",
    ]
    return align_table(header, rows, words=(0,))


def compare_live(results: str) -> None:
    """Compare runs in real time with the simulator."""
    compared = engines.compare(results, engines=("sim", "live"))
    late = f"Lateness of frames, us, over all runs:\n\n{format_lateness(results)}"
    LIVE.write_text(f"{LIVE_TEXT}\n{engines.format_markdown(compared)}\n\n{late}\n", encoding="utf-8")


def main(results: str) -> None:
    """Compare the two engines of a results file."""
    compared = engines.compare(results)
    errors = f"Errors of goodput, mean RTT and mean sojourn, in per cent:\n\n{format_short(compared)}"
    PAGE.write_text(f"{TEXT}\n{errors}\n\n{engines.format_markdown(compared)}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--live":
        compare_live(sys.argv[2])
    else:
        main(sys.argv[1])
