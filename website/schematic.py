"""The set-up of an experiment as a small picture: traffic, queue and link. For experiments without a figure."""

import html
import re
from collections.abc import Iterator
from typing import Any

WIDTH, ROW, LEFT = 300, 34, 138  # px: picture, line of traffic, boxes of traffic
MOST_ROWS, MOST_WORDS = 4, 24  # lines of traffic; letters in a box


def _values(table: dict[str, Any], key: str, given: Any) -> list[str]:
    """Return every value that a key takes, as words: those of the matrix, or the one that is given."""
    found: list[Any] = []
    for names, values in table.get("matrix", {}).items():
        keys = [name.strip().replace("[*]", "[0]") for name in names.split(",")]
        if key in keys:
            found = [one[keys.index(key)] for one in values] if len(keys) > 1 else list(values)
    return list(dict.fromkeys(_word(one) for one in found or [given] if one is not None))


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", "random"))
    text = str(value)
    return f"{text}/s" if re.fullmatch(r"[\d.]+[kMGT]?bit", text) else text


def _said(values: list[str]) -> str:
    """Return values as one short text: all of them if there is room, otherwise the first and the last."""
    text = ", ".join(values)
    if len(text) <= MOST_WORDS or len(values) < 2:
        return text
    return f"{values[0]} … {values[-1]}"


def _traffic(table: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each kind of traffic."""
    flows = table.get("flows", [])
    for number, flow in enumerate(flows):
        many = _said(_values(table, f"flows[{number}].count", flow.get("count", 1)))
        control = _said(_values(table, f"flows[{number}].cc", flow.get("cc")))
        rtts = _values(table, f"flows[{number}].base_rtt", flow.get("base_rtt"))
        rtts = rtts if len(rtts) > 1 or number == 0 else _values(table, "flows[0].base_rtt", flow.get("base_rtt"))
        shown = f"{many} x " if many != "1" else ""
        yield f"{shown}{control}{_way(flow)}|{_said(rtts)}"
    for number, web in enumerate(table.get("web", [])):
        yield f"short flows|{_said(_values(table, f'web[{number}].arrivals', web.get('arrivals')))}"
    for number, udp in enumerate(table.get("udp", [])):
        name = "ping" if udp.get("echo") else "UDP"
        yield f"{name}{_way(udp)}|{_said(_values(table, f'udp[{number}].rate', udp.get('rate')))}"


def _way(sender: dict[str, Any]) -> str:
    """Return which way a sender sends, if not over the bottleneck alone."""
    if sender.get("route"):
        return f", {len(sender['route'])} hops" if len(sender["route"]) > 1 else f", {sender['route'][0]}"
    return ", up" if sender.get("direction") == "up" else ""


def _others(table: dict[str, Any]) -> Iterator[str]:
    """Yield what is said of each further hop: its name, queue and rate."""
    for number, hop in enumerate(table.get("hop", [])):
        aqm, rate = (_said(_values(table, f"hop[{number}].{key}", hop.get(key))) for key in ("aqm", "rate"))
        yield f"{hop.get('name')}: {aqm}, {rate}"
    if "reverse" in table:
        aqm, rate = (_said(_values(table, f"reverse.{key}", table["reverse"].get(key))) for key in ("aqm", "rate"))
        yield f"back: {aqm}, {rate}"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    """Return a centred text, narrowed if it would be wider than the boxes."""
    named = f' class="{kind}"' if kind else ""
    narrowed = f' textLength="{LEFT - 10}" lengthAdjust="spacingAndGlyphs"' if len(text) > MOST_WORDS else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{named}{narrowed}>{html.escape(text)}</text>'


def draw(table: dict[str, Any]) -> str:
    """Return the set-up of an experiment, given as the table of its file, as SVG."""
    rows = list(dict.fromkeys(_traffic(table)))
    if len(rows) > MOST_ROWS:
        rows = [*rows[: MOST_ROWS - 1], f"{len(rows) - MOST_ROWS + 1} more|"]
    bottleneck = table.get("bottleneck", {})
    queue = _said(_values(table, "bottleneck.aqm", bottleneck.get("aqm")))
    traced = "trace" in bottleneck or any("bottleneck.trace" in key for key in table.get("matrix", {}))
    link = "a trace" if traced else _said(_values(table, "bottleneck.rate", bottleneck.get("rate")))
    others = list(_others(table))
    high = max(len(rows), 2 + len(others)) * ROW + 8
    middle = high / 2
    parts = []
    for number, row in enumerate(rows):
        first, _, second = row.partition("|")
        y = (high - len(rows) * ROW) / 2 + number * ROW
        parts.append(
            f'<path d="M{LEFT} {y + ROW / 2:.0f} C{LEFT + 22} {y + ROW / 2:.0f} 152 {middle:.0f} 168 {middle:.0f}"/>'
        )
        parts.append(f'<rect x="2" y="{y + 2:.0f}" width="{LEFT - 2}" height="{ROW - 4}" rx="4"/>')
        parts.append(_text(LEFT / 2 + 1, y + (15 if second else 20), first))
        parts.append(_text(LEFT / 2 + 1, y + 26, second, "said"))
    parts.append(f'<path d="M168 {middle - 14:.0f} H262 V{middle + 14:.0f} H168" class="queue"/>')
    parts += [f'<path d="M{x} {middle - 14:.0f} v28"/>' for x in (232, 242, 252)]
    parts.append(_text(215, middle - 20, queue))
    parts.append(f'<path d="M262 {middle:.0f} H298" class="link"/>')
    parts.append(_text(232, middle + 28, link))
    parts += [_text(232, middle + 44 + 14 * number, text, "said") for number, text in enumerate(others)]
    said = f"{', '.join(row.replace('|', ' ') for row in rows)} over {'; '.join([f'{queue}, {link}', *others])}"
    return f'<svg viewBox="0 0 {WIDTH} {high:.0f}" role="img" aria-label="{html.escape(said)}">{"".join(parts)}</svg>'
