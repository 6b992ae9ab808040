"""Flow charts as SVG: the small part of Mermaid's language that the pages use, drawn without its script.

A line is `a["text"] --> b`, with `-- "label" -->` or `-. "label" .->` between; `<br/>` breaks a text.
"""

import html
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

LINE = re.compile(
    r'(\w+)(?:\["([^"]*)"\])?\s*(?:-- "(?P<said>[^"]*)" -->|(?P<dotted>-\. "(?P<dotted_said>[^"]*)" \.->)|-->)'
    r'\s*(\w+)(?:\["([^"]*)"\])?\s*$'
)
ROW, GAP, SPACE, CHAR = 14, 46, 18, 6.1  # px: line of text, between layers, between boxes, width of a letter


@dataclass
class Chart:
    """Boxes by name with their lines of text, and arrows: from, to, label, whether dotted."""

    boxes: dict[str, list[str]] = field(default_factory=dict)
    arrows: list[tuple[str, str, list[str], bool]] = field(default_factory=list)


def read(source: str) -> Chart:
    """Return the chart that a source describes; raises ValueError for a line that is none of ours."""
    chart = Chart()
    for line in source.strip().splitlines()[1:]:
        if not line.strip():
            continue
        found = LINE.match(line.strip())
        if not found:
            raise ValueError(f"flow chart: {line.strip()!r} is not an arrow between two boxes")
        for name, text in ((found[1], found[2]), (found[6], found[7])):
            if text is not None or name not in chart.boxes:
                chart.boxes[name] = re.split(r"<br/?>", text or name)
        said = found["said"] or found["dotted_said"] or ""
        chart.arrows.append((found[1], found[6], re.split(r"<br/?>", said), bool(found["dotted"])))
    return chart


def _layers(chart: Chart) -> dict[str, int]:
    """Return how many arrows lead to each box at most."""
    layers = dict.fromkeys(chart.boxes, 0)
    for _ in chart.boxes:
        for start, end, _said, dotted in chart.arrows:
            if not dotted:
                layers[end] = max(layers[end], layers[start] + 1)
    led_to = {end for _, end, _said, dotted in chart.arrows if not dotted}
    leading = {start for start, _, _said, dotted in chart.arrows if not dotted}
    for start, end, _said, dotted in chart.arrows:
        if dotted and end not in led_to | leading:  # only dotted arrows lead there
            layers[end] = layers[start] + 1
        if not dotted and start not in led_to:  # nothing leads here: right above what it leads to
            layers[start] = max(layers[start], layers[end] - 1)
    return layers


def _size(lines: list[str]) -> tuple[float, float]:
    return max(map(len, lines)) * CHAR + 16, len(lines) * ROW + 12


def _texts(lines: list[str], x: float, y: float, kind: str = "") -> str:
    """Return lines of text around a point."""
    first = y - (len(lines) - 1) * ROW / 2 + 4
    said = f' class="{kind}"' * bool(kind)
    return "".join(
        f'<text{said} x="{x:.0f}" y="{first + n * ROW:.0f}">{html.escape(line)}</text>' for n, line in enumerate(lines)
    )


def draw(chart: Chart) -> str:
    """Return a chart as SVG, layer below layer."""
    layers = _layers(chart)
    rows: dict[int, list[str]] = defaultdict(list)
    for name, layer in layers.items():
        rows[layer].append(name)
    width = max(sum(_size(chart.boxes[name])[0] + SPACE for name in names) for names in rows.values())
    at: dict[str, tuple[float, float]] = {}
    top = 4.0
    for layer in sorted(rows):
        sizes = [_size(chart.boxes[name]) for name in rows[layer]]
        spare = (width - sum(size[0] for size in sizes)) / (len(sizes) + 1)
        x, height = spare, max(size[1] for size in sizes)
        for name, size in zip(rows[layer], sizes, strict=True):
            at[name] = (x + size[0] / 2, top + height / 2)
            x += size[0] + spare
        top += height + GAP
    parts = []
    right = width
    for start, end, said, dotted in chart.arrows:
        (x, y), (to_x, to_y) = at[start], at[end]
        wide, high = _size(chart.boxes[start])
        to_wide, to_high = _size(chart.boxes[end])
        if layers[end] == layers[start] + 1:  # to the next layer: from below to above
            y, to_y = y + high / 2, to_y - to_high / 2 - 5
            bend = (to_y - y) / 2
            bends = f"{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f}"
            label = (x + to_x) / 2
        else:  # around the others: from right side to right side
            x, to_x = x + wide / 2, to_x + to_wide / 2 + 5
            out = width + 40
            bends = f"{out:.0f} {y:.0f} {out:.0f} {to_y:.0f}"
            label = (x + to_x + 6 * out) / 8
            right = max(right, label + _size(said)[0] / 2)
        kind = ' class="dotted"' * dotted
        parts.append(f'<path{kind} marker-end="url(#arrow)" d="M{x:.0f} {y:.0f} C{bends} {to_x:.0f} {to_y:.0f}"/>')
        parts.append(_texts(said, label, (y + to_y) / 2, "said") if any(said) else "")
    for name, (x, y) in at.items():
        wide, high = _size(chart.boxes[name])
        parts.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y - high / 2:.0f}" width="{wide:.0f}" height="{high:.0f}" rx="4"/>'
            + _texts(chart.boxes[name], x, y)
        )
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    arrow += '<path d="M0 0 8 4 0 8z"/></marker>'
    high = top - GAP + 4
    shown = f'viewBox="0 0 {right:.0f} {high:.0f}" style="max-width: {right:.0f}px"'
    return f'<svg {shown} role="img"><defs>{arrow}</defs>{"".join(parts)}</svg>'


def fence(source: str, *_: Any, **__: Any) -> str:
    """Return a block of `mermaid` in the form that superfences asks for."""
    return f'<div class="flowchart">{draw(read(source))}</div>'
