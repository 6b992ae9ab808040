"""The rows of an interactive figure, and the parts of a specification that all kinds have in common.

Rows have plain names: `x`, `y`, `low`, `high`, `line` (the group's label), `panel`, and `c0`, `c1` of what is chosen.
"""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import UnknownName
from dumbbell.figures.axes import FEW, collect_numbers, format_category, is_log
from dumbbell.figures.frames import (
    Groups,
    Layout,
    Names,
    Numbers,
    convert_frame,
    format_axis_label,
    list_facets,
    order_values,
    parse_quantity,
)
from dumbbell.figures.style import MARKERS, Style

Spec = dict[str, Any]
Unit = Callable[[pl.DataFrame, str | None, int], Spec]  # of rows, the measure's name and its number

LINE, PANEL, CHOSEN = "line", "panel", "c"
MOST_PANELS, FEW_VALUES = 6, 2  # panels in a page, and values of a number that have panels nevertheless
WIDE, HIGH = 460, 300  # px of a single panel; the page fits the width to the window
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
FORMAT, TICKS = ".5~r", ".6~g"
MOST_WIDE, LEFT = 1200, 100  # px of a figure, and of what is to the left of its panels
_TITLE, _WIDE_TITLE = 18, 60  # characters of a line of a title, upright and across
COLOUR = "#2f8cc4"  # of marks without groups: it can be seen on light pages and on dark ones
PALE = 0.12  # opacity of lines that the legend does not single out


@dataclass(frozen=True)
class Control:
    """A key whose values are shown one at a time: what it is called, and its values in order."""

    name: str
    label: str
    texts: list[str]
    numeric: bool

    @property
    def param(self) -> Spec:
        """The parameter of the specification, which a list binds where no page brings a slider."""
        words = f"{self.label.partition(',')[0]} "
        short = [text.removeprefix(words) for text in self.texts]
        bind = {"input": "select", "options": self.texts, "labels": short, "name": f"{self.label}: "}
        return {"name": f"at_{self.name}", "value": self.texts[0], "bind": bind}

    @property
    def filter(self) -> Spec:
        """The rows of the chosen value."""
        return {"filter": f"datum.{self.name} === at_{self.name}"}


@dataclass(frozen=True)
class Sheet:
    """Rows with their lines, panels and controls."""

    rows: pl.DataFrame
    lines: list[str]
    styles: list[Style]
    panels: list[str]
    controls: list[Control]
    each: str | None

    @property
    def of_measures(self) -> list[tuple[str | None, pl.DataFrame]]:
        """The rows of each measure with its name, which labels its axis; of a single one without."""
        if self.each is None:
            return [(None, self.rows)]
        return [(str(one), self.rows.filter(pl.col(self.each) == one)) for one in order_values(self.rows[self.each])]


def list_sliders(controls: Sequence[Control]) -> list[str]:
    """Return the parameters that a page shows as sliders: those of numbers."""
    return [f"at_{one.name}" for one in controls if one.numeric and len(one.texts) > FEW_VALUES]


def label_rows(rows: pl.DataFrame, names: Names, column: str) -> tuple[pl.DataFrame, Groups]:
    """Return rows with the label of their group, and the groups in order."""
    groups = Groups.from_frame(rows, names)
    if not groups.names:
        return rows.with_columns(pl.lit("").alias(column)), groups
    schema: dict[str, Any] = {**{name: rows.schema[name] for name in groups.names}, column: pl.String}
    found = [(*key, label) for key, label in zip(groups.keys, groups.labels, strict=True)]
    table = pl.DataFrame(found, schema=schema, orient="row")
    return rows.join(table, on=groups.names, how="left", nulls_equal=True, maintain_order="left"), groups


def make_sheet(options: Mapping[str, Any], chosen: Sequence[str], *, by: Names = None) -> Sheet:
    """Return the rows of a figure, in lines by `by`, in panels and controls by its facets.

    Facets in `chosen` are controls. So are others that are numbers with more than two values, and those of which there
    would be too many panels.
    """
    rows = convert_frame(options["frame"])
    layout: Layout = {"facet": options.get("facet"), "columns": options.get("columns")}
    facets = [name for name in dict.fromkeys(list_facets(layout)) if rows[name].n_unique() > 1]
    for name in chosen:
        if name not in facets:
            raise UnknownName(name, among=facets or "no panels in this figure", option="--slider", what="key of panels")
    controls: list[Control] = []
    panels: list[str] = []
    count = 1
    for name in sorted(facets, key=lambda one: rows[one].n_unique()):
        values = rows[name].n_unique()
        numeric = all(parse_quantity(str(value)) is not None for value in rows[name].unique().drop_nulls().to_list())
        if name in chosen or (numeric and values > FEW_VALUES) or count * values > MOST_PANELS:
            number = f"{CHOSEN}{len(controls)}"
            rows, groups = label_rows(rows, name, number)
            controls.append(Control(number, format_axis_label(name), groups.labels, numeric))
        else:
            panels.append(name)
            count *= values
    rows, parts = label_rows(rows, panels, PANEL)
    rows, lines = label_rows(rows, by, LINE)
    titles = parts.labels if panels else []
    return Sheet(rows, lines.labels, lines.styles, titles, controls, options.get("each"))


def make_records(rows: pl.DataFrame, columns: Mapping[str, str | pl.Expr], of: Sheet) -> list[Spec]:
    """Return rows for a specification: `columns` by their new names, with line, panel and what is chosen."""
    own = [(pl.col(one) if isinstance(one, str) else one).alias(name) for name, one in columns.items()]
    place = [*([LINE] if of.lines != [""] else []), *([PANEL] if of.panels else []), *(one.name for one in of.controls)]
    place = [name for name in place if name not in columns and name in rows.columns]
    found = rows.select(*own, *place)
    floats = [name for name, kind in found.schema.items() if kind.is_float()]
    return found.with_columns(pl.col(name).round_sig_figs(8) for name in floats).to_dicts()


def format_categories(name: str) -> pl.Expr:
    """Return a column as the names that its values have at an axis."""
    return pl.col(name).map_elements(format_category, return_dtype=pl.String, skip_nulls=False)


def compose(of: Sheet, unit: Unit, columns: Mapping[str, str | pl.Expr], *, across: bool = False) -> Spec:
    """Return a specification with a block for each measure, in panels, and the parameters of the controls."""
    blocks: list[Spec] = []
    most, left = MOST_WIDE, LEFT
    for number, (measure, rows) in enumerate(of.of_measures):
        one = unit(rows, measure, number)
        height = one.pop("height", HIGH)
        most = min(most, one.pop("most", most))
        left = max(left, one.pop("left", left))
        block: Spec = {"data": {"values": make_records(rows, columns, of)}}
        if of.controls:
            block["transform"] = [control.filter for control in of.controls]
        if of.panels:
            header = {"title": None, "labelLimit": 400}
            block["facet"] = {"field": PANEL, "type": "nominal", "sort": of.panels, "title": None, "header": header}
            block["columns"] = len(of.panels) if len(of.panels) <= 3 else 2 if len(of.panels) == 4 else 3
            block["spec"] = {"width": WIDE // block["columns"] + 60, "height": height * 2 // 3, **one}
        else:
            block |= {"width": WIDE, "height": height, **one}
        blocks.append(block)
    whole = blocks[0] if len(blocks) == 1 else {"concat": blocks, "columns": len(blocks) if across else 1}
    return {
        "params": [control.param for control in of.controls],
        "usermeta": {"most": most, "left": left, "sliders": list_sliders(of.controls)},
        **whole,
    }


# encodings


def encode_quantity(
    name: str, title: str | None, values: Numbers, *, log: bool = False, zero: bool = False, reverse: bool = False
) -> Spec:
    """Return the encoding of a numeric axis that shows all `values`, whichever are chosen."""
    scale: Spec = {"type": "log" if log else "linear", "nice": False, "zero": False}
    if len(values):
        low, high = float(values.min()), float(values.max())
        if log:
            scale["domain"] = [low / 1.15, high * 1.15]
        else:
            room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
            begin = 0.0 if zero and 0 <= low < 0.5 * high else low - room  # as `from_zero` of the figure
            scale["domain"] = [begin, high + room]
    if reverse:
        scale["reverse"] = True
    shown = {"minExtent": 44, "format": TICKS, **({"tickCount": 6} if log else {})}
    said = title and break_title(title, _TITLE if name in ("y", "top") else _WIDE_TITLE)
    return {"field": name, "type": "quantitative", "title": said, "scale": scale, "axis": shown}


def break_title(title: str, most: int) -> str | list[str]:
    """Return a title in lines of so many characters."""
    lines = textwrap.wrap(title, most, break_long_words=False)
    return lines if len(lines) > 1 else title


def encode_ticks(encoding: Spec, values: Numbers, names: Mapping[float, str] | None = None) -> Spec:
    """Return the encoding of an axis with a tick at each value, if there are few; `names` are what to write there."""
    found = [float(value) for value in np.unique(values)]
    if len(found) > FEW:
        return encoding
    texts = {f"{number:.12g}": text for number, text in (names or {}).items()}
    said = {"labelExpr": f"{json.dumps(texts)}[format(datum.value, '.12~g')] || datum.label"} if texts else {}
    return {**encoding, "axis": {**encoding["axis"], "values": found, **said}}


def encode_names(name: str, title: str | None, texts: Sequence[str], **axis: Any) -> Spec:
    """Return the encoding of an axis with names."""
    shown = {"labelAngle": 0 if name == "y" or sum(map(len, texts)) < 60 else -40, **axis}
    return {"field": name, "type": "nominal", "title": title, "sort": list(texts), "axis": shown}


def find_axis(
    options: Mapping[str, Any], rows: pl.DataFrame, columns: Sequence[str | None], option: str
) -> tuple[Numbers, bool]:
    """Return all numbers of an axis, and whether it is logarithmic, as the figure has it."""
    values = collect_numbers(rows, *columns)
    return values, is_log(options.get(option), values, option)


def encode_colours(of: Sheet) -> Spec:
    """Return the encodings of the lines: colour, dimmed where the legend singles out another."""
    if len(of.lines) < 2:
        return {}
    legend = {"orient": "top", "title": None, "columns": 4, "symbolStrokeWidth": 2, "symbolLimit": 60}
    return {
        **encode_line_colours(of.lines, of.styles, legend),
        "opacity": {"condition": {"param": "pick", "value": 1, "empty": True}, "value": PALE},
    }


def encode_line_colours(lines: Sequence[str], styles: Sequence[Style], legend: Spec) -> Spec:
    """Return the encoding of the colours of lines, which a page replaces by those of its theme."""
    scale = {"domain": list(lines), "range": [style.colour for style in styles]}
    return {"color": {"field": LINE, "type": "nominal", "scale": scale, "legend": legend}}


def encode_dashes(lines: Sequence[str], styles: Sequence[Style]) -> Spec:
    """Return the encoding of line styles, by which lines are distinguished in grey."""
    if len(lines) < 2:
        return {}
    every = [[1, 0] if one.dashes == "-" else [round(1.7 * length, 1) for length in one.dashes[1]] for one in styles]
    scale = {"domain": list(lines), "range": every}
    return {"strokeDash": {"field": LINE, "type": "nominal", "scale": scale, "legend": None}}


def encode_shapes(of: Sheet) -> Spec:
    """Return the encoding of markers."""
    if len(of.lines) < 2:
        return {}
    scale = {"domain": of.lines, "range": [_SHAPES[MARKERS.index(style.marker)] for style in of.styles]}
    return {"shape": {"field": LINE, "type": "nominal", "scale": scale, "legend": None}}


def encode_offset(of: Sheet) -> Spec:
    """Return the encoding of the places of lines next to each other at a name."""
    return {"xOffset": {"field": LINE, "sort": of.lines}} if len(of.lines) > 1 else {}


def pick(of: Sheet, number: int = 0) -> list[Spec]:
    """Return the selection of a line by its name in the legend, which the first measure has for all."""
    if len(of.lines) < 2 or number > 0:
        return []
    return [{"name": "pick", "select": {"type": "point", "fields": [LINE]}, "bind": "legend"}]


def make_zoom(number: int, encodings: Sequence[str] = ("x", "y")) -> Spec:
    """Return the selection by which a reader zooms and moves."""
    return {"name": f"zoom{number}", "select": {"type": "interval", "encodings": list(encodings)}, "bind": "scales"}


def list_tips(of: Sheet, *shown: tuple[str, str | None]) -> list[Spec]:
    """Return what a tooltip says: the line and the panel, then fields with their titles; numbers to five digits."""
    said: list[Spec] = []
    if of.lines != [""]:
        said.append({"field": LINE, "type": "nominal", "title": "what"})
    if of.panels:
        said.append({"field": PANEL, "type": "nominal", "title": "panel"})
    said += [{"field": one.name, "type": "nominal", "title": one.label} for one in of.controls]
    return [*said, *(make_number_tip(field, title) for field, title in shown if title is not None)]


def make_number_tip(field: str, title: str) -> Spec:
    """Return a line of a tooltip with a number, to five digits."""
    return {"field": field, "type": "quantitative", "title": title, "format": FORMAT}


def make_text_tip(field: str, title: str) -> Spec:
    """Return a line of a tooltip with words."""
    return {"field": field, "type": "nominal", "title": title}
