"""The picture of the validation: every cell as a square, and the errors of each row over its bar, as SVG."""

import csv
import html
import importlib
import math
from functools import cache

from dumbbell.pages import study
from website.markdown import ROOT

EVIDENCE = ROOT / "studies" / "validation" / "evidence"
PLACE, MARK = "validation.md", "<!-- picture -->"  # the page, and where in it
ACROSS, SIDE = 60, 5  # squares in a line; px from one to the next
LEFT, GAP, WIDE = 290, 24, 240  # px: names, between the columns, axis of errors
RIGHT = LEFT + ACROSS * SIDE + GAP
LOW, HIGH = 0.01, 10.0  # ends of the axis: error over its bar


def read_table(name: str) -> list[dict[str, str]]:
    """Return a table of the stored evidence."""
    with (EVIDENCE / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read_bars() -> dict[str, tuple[str, str, str, dict[str, float]]]:
    """Return the rows of the validation, each with the largest error of each measure that its bar allows."""
    bars = importlib.import_module(f"{study.find('validation').program.__package__}.bars")
    return bars.ROWS  # type: ignore[no-any-return]


@cache
def compute_relative_errors() -> dict[str, dict[str, tuple[float, float, float]]]:
    """Return median, P90 and worst error over the bar, by row and measure."""
    rows = read_bars()
    found: dict[str, dict[str, tuple[float, float, float]]] = {row["name"]: {} for row in read_table("rows.csv")}
    for one in read_table("errors.csv"):
        if bar := rows[one["name"]][3].get(one["measure"]):
            median, p90, worst = (float(one[key]) / bar for key in ("median", "p90", "worst"))
            found[one["name"]][one["measure"]] = (median, p90, worst)
    return found


def _place_error(value: float) -> float:
    """Return the place of an error over its bar on the logarithmic axis, px."""
    share = math.log(min(max(value, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return RIGHT + share * WIDE


def _draw_row(row: dict[str, str], top: float) -> tuple[list[str], float]:
    """Return the parts of a row and its height, px."""
    cells, agree = int(row["cells"]), int(row["agree"])
    errors = compute_relative_errors()[row["name"]]
    lines = -(-cells // ACROSS)
    high = max(lines * SIDE, 11 * len(errors), 24) + 12
    middle = top + (high - 8) / 2
    label = html.escape(row["what"])
    parts = [f'<text x="0" y="{middle - 2:.0f}">{label if len(label) < 48 else label[:46] + "…"}</text>']
    counted = f"{row['reference']}: {agree} of {cells}, tolerance {row['bar']}"
    parts.append(f'<text class="said" x="0" y="{middle + 10:.0f}">{counted}</text>')
    first = middle - lines * SIDE / 2
    for kind, numbers in (("agrees", range(agree)), ("differs", range(agree, cells))):
        squares = "".join(
            f"M{LEFT + n % ACROSS * SIDE} {first + n // ACROSS * SIDE:.0f}h{SIDE - 1}v{SIDE - 1}h-{SIDE - 1}z"
            for n in numbers
        )
        parts.append(f'<path class="{kind}" d="{squares}"/>' if squares else "")
    for number, (measure, (median, p90, worst)) in enumerate(errors.items()):
        y = middle + 11 * (number - (len(errors) - 1) / 2)
        kind = "differs" if worst > 1 else "agrees"
        parts.append(f'<path class="{kind} thin" d="M{_place_error(median):.0f} {y:.0f}H{_place_error(worst):.0f}"/>')
        end = max(_place_error(p90), _place_error(median) + 1)
        parts.append(f'<path class="{kind} thick" d="M{_place_error(median):.0f} {y:.0f}H{end:.0f}"/>')
        parts.append(f'<circle class="{kind}" cx="{_place_error(worst):.0f}" cy="{y:.0f}" r="3"/>')
        parts.append(f'<text class="said" x="{RIGHT + WIDE + 8}" y="{y + 3:.0f}">{measure}</text>')
    return parts, high


def draw() -> str:
    """Return the picture with its caption, as HTML."""
    rows = read_table("rows.csv")
    parts, top = [], 34.0
    for row in rows:
        some, high = _draw_row(row, top)
        parts += some
        top += high
    axis = "".join(
        f'<path class="axis" d="M{_place_error(value):.0f} 26V{top:.0f}"/>'
        f'<text class="said middle" x="{_place_error(value):.0f}" y="20">{shown}</text>'
        for value, shown in ((0.01, "1 %"), (0.1, "10 %"), (1.0, "tolerance"), (10.0, "10 x"))
    )
    heads = (
        f'<text x="{LEFT}" y="8">every cell</text>'
        f'<text x="{RIGHT}" y="8">error over its tolerance: median, P90, worst</text>'
    )
    cells, agree = (sum(int(row[key]) for row in rows) for key in ("cells", "agree"))
    said = f"{agree} of {cells} cells agree with their reference"
    return (
        f'<figure class="agreement"><svg viewBox="0 -4 {RIGHT + WIDE + 100} {top + 4:.0f}" role="img" '
        f'aria-label="{said}">{axis}{heads}{"".join(parts)}</svg><figcaption>Each square is a cell: blue if it agrees '
        "with its reference, orange if not. Right: the errors of each measure over the tolerance of the "
        "family; the thick line goes from the median to P90, the dot is the worst cell.</figcaption></figure>"
    )
