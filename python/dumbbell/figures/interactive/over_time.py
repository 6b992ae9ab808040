"""Distributions, shares and time series of an interactive figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import UnknownName
from dumbbell.figures.axes import collect_finite, collect_numbers, format_category, is_log
from dumbbell.figures.distributions import MOST_POINTS, compute_steps
from dumbbell.figures.frames import (
    Groups,
    Numbers,
    convert_frame,
    convert_numbers,
    format_axis_label,
    list_names,
    order_values,
    parse_quantity,
    thin_line,
)
from dumbbell.figures.interactive import sheet
from dumbbell.figures.over_time import (
    BASE,
    EMPTY,
    TOP,
    Series,
    choose_steps,
    find_start,
    is_areas,
    join_labels,
    stack_rows,
    style_lines,
)
from dumbbell.figures.palette import choose_state_looks, make_solid
from dumbbell.figures.style import Style

_WIDE, _PANEL_HIGH, _RIBBON = 900, 110, 22  # px
_LEFT = 130  # px of the names and numbers of panels
_FEW_POINTS = 1500  # of a line, where there are many lines
_MANY_LINES = 24


def cdf(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return cumulative distributions: the same corners that the figure has."""
    of = sheet.make_sheet(options, chosen, by=options["by"])
    value, weight = options["value"], options["weight"]
    keys = [sheet.LINE, sheet.PANEL, *(one.name for one in of.controls), *list_names(of.each)]
    curves: list[pl.DataFrame] = []
    logs: dict[str | None, bool] = {}
    for measure, rows in of.of_measures:
        places = collect_numbers(rows, value)
        logs[measure] = is_log(options["log_x"], places, "log_x")
        edges = np.unique(places) if weight else np.array([])
        for key, own in rows.group_by(keys, maintain_order=True):
            x, y = compute_steps(own, value, weight, edges, complementary=options["complementary"])
            x, y = thin_line(x, y, MOST_POINTS, log=logs[measure]) if len(x) else (x, y)
            if options["log_y"]:
                x, y = x[y > 0], y[y > 0]
            curve = pl.DataFrame({"x": x, "share": y, "order": np.arange(len(x))})
            place = [pl.lit(one, dtype=own.schema[name]).alias(name) for name, one in zip(keys, key, strict=True)]
            curves.append(curve.with_columns(place))
    of = replace(of, rows=pl.concat(curves))

    def make_unit(rows: pl.DataFrame, measure: str | None, number: int) -> sheet.Spec:
        x_label = measure or words["x"]
        across = sheet.encode_quantity("x", x_label, collect_numbers(rows, "x"), log=logs[measure])
        shares = collect_numbers(rows, "share")
        up = sheet.encode_quantity(
            "y", words["y"], shares if options["log_y"] else np.array([0.0, 1.0]), log=options["log_y"]
        )
        base = {"x": across, "y": up, "order": {"field": "order", "type": "quantitative"}, **sheet.encode_colours(of)}
        shown = sheet.list_tips(of, ("x", x_label), ("y", words["y"]))
        line = {"type": "line", "interpolate": "linear" if weight else "step-after"}
        layers: list[sheet.Spec] = [
            {
                "mark": line,
                "params": [sheet.make_zoom(number), *sheet.pick(of, number)],
                "encoding": {**base, **sheet.encode_dashes(of.lines, make_solid(of.styles))},
            },
            _mark_nearest(f"near{number}", {**base, "tooltip": shown}),
        ]
        return {"layer": layers}

    return sheet.compose(of, make_unit, {"x": "x", "y": "share", "order": "order"}, across=True)


def _mark_nearest(name: str, encoding: sheet.Spec) -> sheet.Spec:
    """Return points that show what is nearest to the pointer."""
    encoding = {key: value for key, value in encoding.items() if key not in ("opacity", "order")}
    near = {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout"}
    return {
        "mark": {"type": "point", "filled": True, "size": 70},
        "params": [{"name": name, "select": near}],
        "encoding": {**encoding, "opacity": {"condition": {"param": name, "value": 1, "empty": False}, "value": 0}},
    }


def shares(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return shares of a sum: areas over time, bars over a key."""
    of = sheet.make_sheet(options, chosen, by=options["by"])
    x, y = options["x"], options["y"]
    areas = is_areas(of.rows[x])
    place = [sheet.PANEL, *(one.name for one in of.controls), x]
    value = pl.col(y).cast(pl.Float64).fill_nan(None).fill_null(0.0)
    whole = value.sum().over(place)
    rows = of.rows.with_columns(share=pl.when(whole > 0).then(value / whole).otherwise(0.0))
    of = replace(of, rows=rows)
    texts = [format_category(one) for one in order_values(rows[x])]
    columns: dict[str, Any] = {"x": x if areas else sheet.format_categories(x), "y": "share", "value": y}

    def make_unit(rows: pl.DataFrame, _measure: str | None, number: int) -> sheet.Spec:
        across = sheet.encode_names("x", words["x"], texts)
        if areas:
            across = sheet.encode_quantity("x", words["x"], collect_numbers(rows, x))
        up = sheet.encode_quantity("y", words["y"], np.array([0.0, 1.0]))
        up["scale"]["domain"] = [0, 1]
        # the first of the legend lies on top, as in the figure
        rank = "indexof(" + str(of.lines[::-1]) + f", datum.{sheet.LINE})"
        shown = [*sheet.list_tips(of, ("y", words["y"]), ("value", format_axis_label(y)))]
        shown += sheet.list_tips(of, ("x", words["x"]))[-1:] if areas else [sheet.make_text_tip("x", words["x"])]
        mark = {"type": "area"} if areas else {"type": "bar"}
        encoding = {
            "x": across,
            "y": {**up, "stack": "zero"},
            **sheet.encode_colours(of),
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": shown,
        }
        return {
            "transform": [{"calculate": rank, "as": "rank"}],
            "layer": [
                {
                    "mark": mark,
                    "params": [sheet.make_zoom(number, ("x",) if areas else ("y",)), *sheet.pick(of)],
                    "encoding": encoding,
                }
            ],
        }

    return sheet.compose(of, make_unit, columns)


@dataclass(frozen=True)
class _Whole:
    """What all panels have in common."""

    x: str
    x_label: str
    columns: str | None
    runs: Mapping[Any, str]  # value of `columns` → its label
    controls: list[sheet.Control]
    labels: list[str]
    styles: list[Style]
    marks: Sequence[tuple[float, str]]
    why_empty: Mapping[Any, str]
    times: Numbers
    most: int  # points of a line

    @property
    def filters(self) -> list[sheet.Spec]:
        """What chooses the rows that are shown."""
        return [one.filter for one in self.controls]

    @property
    def across(self) -> sheet.Spec:
        """The axis of time."""
        found = sheet.encode_quantity("x", None, self.times)
        found["scale"]["domain"] = _find_time_ends(self.times)
        return found


def stacked_series(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return panels one above another over common time; what stands side by side in the figure is chosen."""
    given = [one if isinstance(one, Series) else Series(*one) for one in options["panels"]]
    x, columns = options["x"], options["columns"]
    controls, runs = _choose_runs(given, columns, chosen)
    frames: list[tuple[pl.DataFrame, Groups]] = []
    for one in given:
        rows = convert_frame(one.frame)
        rows = stack_rows(rows, x, one.y, one.by, columns) if one.stacked else rows
        frames.append(sheet.label_rows(rows, one.by, sheet.LINE))
    styles = style_lines(join_labels([own for _, own in frames]))
    many = sum(len(own.labels) for _, own in frames) * max(len(runs), 1) > _MANY_LINES
    whole = _Whole(
        x=x,
        x_label=words["x"],
        columns=columns,
        runs=runs,
        controls=controls,
        labels=list(styles),
        styles=list(styles.values()),
        marks=options["marks"],
        why_empty=options["why_empty"] or {},
        times=collect_finite(*(convert_numbers(rows[x]) for rows, _ in frames)),
        most=_FEW_POINTS if many else MOST_POINTS,
    )
    panels = [
        _make_panel(number, one, rows, words["each y"][number], whole)
        for number, (one, (rows, _)) in enumerate(zip(given, frames, strict=True))
    ]
    panels[-1]["layer"][0]["encoding"]["x"]["title"] = words["x"]
    shared = {"scale": {"x": "shared", "color": "shared"}}
    body: sheet.Spec = {"vconcat": panels, "spacing": 12, "resolve": shared}
    ribbons = _make_ribbons(options["states"] or {}, whole)
    if ribbons:
        body = {
            "vconcat": [*ribbons, body],
            "spacing": 6,
            "resolve": {"scale": {**shared["scale"], "color": "independent"}},
        }
    first = [one["layer"][0] for one in panels]
    views = [one["name"] for one in first]
    params = [
        *(one.param for one in controls),
        {"name": "time", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales", "views": views},
    ]
    named = [one["name"] for one in first if "color" in one["encoding"]]
    if named:
        params.append(
            {"name": "pick", "select": {"type": "point", "fields": [sheet.LINE]}, "bind": "legend", "views": named}
        )
    return {"params": params, "usermeta": {"left": _LEFT, "sliders": sheet.list_sliders(controls)}, **body}


def _choose_runs(
    given: Sequence[Series], columns: str | None, chosen: Sequence[str]
) -> tuple[list[sheet.Control], dict[Any, str]]:
    """Return the control of what stands side by side, and the label of each value."""
    for name in chosen:
        if columns is None or name not in (columns, columns.rpartition(".")[2]):
            raise UnknownName(
                name, among=[columns] if columns else "no panels side by side", option="--slider", what="key"
            )
    if columns is None:
        return [], {}
    groups = Groups.from_frame(pl.concat([convert_frame(one.frame).select(columns) for one in given]), columns)
    runs = {key[0]: label for key, label in zip(groups.keys, groups.labels, strict=True)}
    numeric = all(parse_quantity(str(value)) is not None for value in runs)
    return [sheet.Control("c0", format_axis_label(columns), groups.labels, numeric)], runs


def _make_panel(number: int, one: Series, rows: pl.DataFrame, label: str, whole: _Whole) -> sheet.Spec:
    """Return one panel: lines or areas, levels, marks, and what the pointer is near to."""
    data: list[sheet.Spec] = []
    for key, own in rows.group_by([sheet.LINE, *([whole.columns] if whole.columns else [])], maintain_order=True):
        place = {sheet.LINE: key[0], **({"c0": whole.runs[key[1]]} if whole.columns else {})}
        data += [place | point for point in _make_points(own.sort(whole.x), one, whole)]
    ceiling = _make_ceiling(one.ceiling, whole) if one.ceiling else []
    ends = [point["top"] for point in data] + [value for value, _ in one.levels] + [point["y"] for point in ceiling]
    heights = collect_finite(np.array(ends, dtype=float))
    log = is_log(one.log_y or None if one.log_y else False, heights, "log_y")
    up = sheet.encode_quantity("top", label, heights, log=log)
    if not log and len(heights) and heights.min() >= 0:
        up["scale"]["domain"][0] = 0.0
    up["axis"] |= {"tickCount": 4, "minExtent": 52, "titleLimit": 2 * _PANEL_HIGH}
    hue: sheet.Spec = {}
    if any(point[sheet.LINE] for point in data):
        legend = {"orient": "top", "title": None, "columns": 6, "symbolType": "stroke", "symbolStrokeWidth": 3}
        hue = sheet.encode_line_colours(whole.labels, whole.styles, legend)
        hue["opacity"] = {"condition": {"param": "pick", "value": 1, "empty": True}, "value": sheet.PALE}
    across = whole.across
    base = {"x": across, "y": up, **hue}
    if one.stacked:
        mark: sheet.Spec = {"type": "area", "clip": True}
        encoding = {**base, "y": {**up, "stack": None}, "y2": {"field": "base"}}
    else:
        mark = {"type": "line", "interpolate": choose_steps(one), "clip": True}
        encoding = {**base, **(sheet.encode_dashes(whole.labels, whole.styles) if hue else {})}
    said = [sheet.make_text_tip(sheet.LINE, "what")] if hue else []
    said += [sheet.make_number_tip("x", whole.x_label), sheet.make_number_tip("y", label)]
    layers: list[sheet.Spec] = [
        {"name": f"panel{number}", "mark": mark, "encoding": encoding},
        _mark_nearest(f"near{number}", {**base, "tooltip": said}),
    ]
    if one.ceiling and ceiling:
        name, unit = one.ceiling[2], label.rpartition(", ")[2]
        line = {"type": "line", "strokeDash": [5, 3], "strokeWidth": 1.2, "clip": True}
        own_y = {**up, "field": "y"}
        shown = [sheet.make_number_tip("y", f"{name}, {unit}")]
        at = {"x": across, "y": own_y, "tooltip": shown}
        layers.append({"data": {"values": ceiling}, "transform": whole.filters, "mark": line, "encoding": at})
        words = {"type": "text", "text": name, "align": "right", "baseline": "bottom", "dy": -3}
        layers.append({"data": {"values": ceiling[-1:]}, "mark": words, "encoding": {"x": across, "y": own_y}})
    there = {point.get("c0") for point in data}
    empty = [
        {"c0": label, "why": whole.why_empty.get(c, EMPTY)} for c, label in whole.runs.items() if label not in there
    ]
    if empty:
        at = {"x": {"value": _WIDE / 2}, "y": {"value": _PANEL_HIGH / 2}, "text": {"field": "why", "type": "nominal"}}
        layers.append({"data": {"values": empty}, "transform": whole.filters, "mark": "text", "encoding": at})
    for value, text in one.levels:
        at = {"y": {"datum": value, "type": "quantitative"}, "tooltip": {"value": text}}
        layers.append({"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": at})
    for time, text in whole.marks:
        at = {"x": {"datum": time, "type": "quantitative"}, "tooltip": {"value": f"{text} at {time:g} s"}}
        layers.append({"mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5}, "encoding": at})
    size = {"width": _WIDE, "height": _PANEL_HIGH}
    return {**size, "data": {"values": data}, "transform": whole.filters, "layer": layers}


def _make_points(rows: pl.DataFrame, one: Series, whole: _Whole) -> list[sheet.Spec]:
    """Return the points of a line: its place, its value, and where it is drawn."""
    if one.stacked:
        known = rows.select(x=whole.x, y=pl.col(one.y).cast(pl.Float64), top=TOP, base=BASE)
    else:
        at, values = thin_line(convert_numbers(rows[whole.x]), convert_numbers(rows[one.y]), whole.most)
        known = pl.DataFrame({"x": at, "y": values, "top": values})
    known = known.with_columns(pl.selectors.float().fill_nan(None).round_sig_figs(8))
    return known.drop_nulls("top").to_dicts()


def _make_ceiling(ceiling: tuple[Any, str, str], whole: _Whole) -> list[sheet.Spec]:
    frame, column, _ = ceiling
    run = pl.col(whole.columns) if whole.columns else pl.lit(None)
    rows = convert_frame(frame).sort(whole.x).select(x=whole.x, y=column, c=run).drop_nulls("y")
    return [
        {"x": float(x), "y": float(y), **({"c0": whole.runs[c]} if whole.columns else {})}
        for x, y, c in rows.iter_rows()
    ]


def _make_ribbons(states: Mapping[str, Any], whole: _Whole) -> list[sheet.Spec]:
    """Return ribbons of states, one per sender."""
    data = [
        {"sender": sender, "state": band.name, "x": band.start, "x2": band.end}
        for sender, own in states.items()
        for band in own
    ]
    if not data:
        return []
    every: list[str] = list(dict.fromkeys(one["state"] for one in data))
    legend = {"orient": "top", "title": None, "columns": 8, "symbolType": "square"}
    scale = {"domain": every, "range": [colour for colour, _ in choose_state_looks(every).values()]}
    encoding = {
        "x": {**whole.across, "axis": None},
        "x2": {"field": "x2"},
        "y": {"field": "sender", "type": "nominal", "title": None, "axis": {"minExtent": 52, "labelLimit": 60}},
        "color": {"field": "state", "type": "nominal", "scale": scale, "legend": legend},
        "tooltip": [
            sheet.make_text_tip("sender", "sender"),
            sheet.make_text_tip("state", "state"),
            sheet.make_number_tip("x", "from, s"),
            sheet.make_number_tip("x2", "to, s"),
        ],
    }
    ribbon: sheet.Spec = {"mark": {"type": "rect", "clip": True}, "encoding": encoding, "data": {"values": data}}
    return [{"width": _WIDE, "height": _RIBBON * len(states), **ribbon}]


def _find_time_ends(times: Numbers) -> list[float]:
    """Return the ends of an axis of time, as the figure has them."""
    return [find_start(times), float(times.max())] if len(times) else [0.0, 1.0]
