"""Lines, bars, dots and boxes of an interactive figure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from dumbbell.figures.axes import format_category, format_place
from dumbbell.figures.frames import Groups, convert_frame, format_axis_label, format_value, list_names, order_values
from dumbbell.figures.interactive import sheet


def lines(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return lines with their intervals, and what was published as hollow markers."""
    of = sheet.make_sheet(options, chosen, by=options["by"])
    x, y, reference = options["x"], options["y"], options["reference"]
    low, high = options["low"], options["high"]
    numeric = of.rows.schema[x].is_numeric()
    columns: dict[str, Any] = {"x": x if numeric else sheet.format_categories(x), "y": y}
    columns |= {"low": low or y, "high": high or y} if low or high else {}
    columns |= {"reference": reference} if reference else {}

    def make_unit(rows: pl.DataFrame, measure: str | None, number: int) -> sheet.Spec:
        y_label = measure or words["y"]
        heights, log_y = sheet.find_axis(options, rows, [y, low, high, reference], "log_y")
        if numeric:
            places, log_x = sheet.find_axis(options, of.rows, [x], "log_x")
            across = sheet.encode_ticks(
                sheet.encode_quantity("x", words["x"], places, log=log_x), places, options["x_names"]
            )
        else:
            across = sheet.encode_names("x", words["x"], [format_category(one) for one in order_values(of.rows[x])])
        offset = {} if numeric else sheet.encode_offset(of)
        up = sheet.encode_quantity("y", y_label, heights, log=log_y, zero=True)
        said_of = sheet.list_tips(of, *([("x", words["x"])] if numeric else []), ("y", y_label))
        said_of += [] if numeric else [sheet.make_text_tip("x", words["x"])]
        said_of += list_interval_tips(y_label) if low or high else []
        base = {"x": across, "y": up, **offset, **sheet.encode_colours(of)}
        layers: list[sheet.Spec] = []
        if low or high:
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.2}, "encoding": encode_ends(base)})
        if numeric:
            layers.append({"mark": {"type": "line"}, "encoding": {**base, **sheet.encode_dashes(of.lines, of.styles)}})
        layers.append(
            {
                "mark": {"type": "point", "filled": True, "size": 55},
                "encoding": {**base, **sheet.encode_shapes(of), "tooltip": said_of},
            }
        )
        if reference:
            name = options["reference_name"] or "published"
            own = [
                *sheet.list_tips(of, ("x", words["x"]) if numeric else ("x", None)),
                *sheet.list_tips(of, ("reference", name))[-1:],
            ]
            mark = {"type": "point", "filled": False, "size": 70, "strokeWidth": 1.6, "xOffset": 4}
            layers.append({"mark": mark, "encoding": {**base, "y": {**up, "field": "reference"}, "tooltip": own}})
        layers[0]["params"] = [sheet.make_zoom(number, ("x", "y") if numeric else ("y",)), *sheet.pick(of, number)]
        return {"layer": layers} | ({} if numeric else {"most": _choose_width(len(order_values(of.rows[x])), of)})

    return sheet.compose(of, make_unit, columns)


def encode_ends(encoding: sheet.Spec) -> sheet.Spec:
    """Return the encoding of an interval from `low` to `high`."""
    up = encoding["y"]
    return {**encoding, "y": {**up, "field": "low"}, "y2": {"field": "high"}}


def list_interval_tips(label: str) -> list[sheet.Spec]:
    """Return the lines of a tooltip for the ends of an interval."""
    unit = label.rpartition(", ")[2] if ", " in label else ""
    ends = {"low": "from", "high": "to"}
    return [sheet.make_number_tip(field, f"{text}{f', {unit}' * bool(unit)}") for field, text in ends.items()]


def bars(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return bars in groups; points on a logarithmic axis, where a bar would have no foot."""
    coloured, middle = (options["inner"], options["group"]) if options["inner"] else (options["group"], None)
    of = sheet.make_sheet(options, chosen, by=coloured)
    x, y, reference = options["x"], options["y"], options["reference"]
    low, high = options["low"], options["high"]
    rows, texts = _name_places(of.rows, x, middle)
    of = replace(of, rows=rows)
    columns: dict[str, Any] = {"x": "place", "y": y}
    columns |= {"low": low or y, "high": high or y} if low or high else {}
    columns |= {"reference": reference} if reference else {}

    def make_unit(rows: pl.DataFrame, measure: str | None, number: int) -> sheet.Spec:
        y_label = measure or words["y"]
        heights, log = sheet.find_axis(options, rows, [y, low, high, reference], "log_y")
        up = sheet.encode_quantity("y", y_label, heights if log else np.concatenate([heights, [0.0]]), log=log)
        if not log and len(heights) and heights.min() >= 0:
            up["scale"]["domain"][0] = 0.0
        base = {
            "x": sheet.encode_names("x", words["x"] or None, texts),
            "y": up,
            **sheet.encode_offset(of),
            **sheet.encode_colours(of),
        }
        shown = [*sheet.list_tips(of, ("y", y_label)), *([sheet.make_text_tip("x", words["x"])] if words["x"] else [])]
        shown += list_interval_tips(y_label) if low or high else []
        mark = {"type": "point", "filled": True, "size": 60} if log else {"type": "bar"}
        layers: list[sheet.Spec] = [{"mark": mark, "encoding": {**base, "tooltip": shown}}]
        layers[0]["params"] = [sheet.make_zoom(number, ("y",)), *sheet.pick(of, number)]
        if low or high:
            thin = {key: value for key, value in encode_ends(base).items() if key != "color"}
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.3}, "encoding": thin})
        if reference:
            name = options["reference_name"] or "published"
            mark = {"type": "point", "shape": "diamond", "filled": False, "size": 80}
            thin = {key: value for key, value in base.items() if key != "color"}
            own = {"y": {**up, "field": "reference"}, "tooltip": sheet.list_tips(of, ("reference", name))}
            layers.append({"mark": mark, "encoding": {**thin, **own}})
        return {"layer": layers, "most": _choose_width(len(texts), of)}

    return sheet.compose(of, make_unit, columns)


def dots(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return marks in rows, with their intervals, texts and references."""
    of = sheet.make_sheet(options, chosen, by=options["by"])
    y, x, reference, text = options["y"], options["x"], options["reference"], options["text"]
    low, high, limits = options["low"], options["high"], options["limits"]
    names = [format_category(one) for one in order_values(of.rows[y])]
    columns: dict[str, Any] = {"y": sheet.format_categories(y), "x": x}
    columns |= {"low": low or x, "high": high or x} if low or high else {}
    columns |= {"reference": reference} if reference else {}
    columns |= {"text": sheet.format_categories(text)} if text else {}
    known = [pl.col(name).cast(pl.Float64) for name in (x, low, high, reference) if name]
    columns |= {"end": pl.max_horizontal(known)} if text else {}

    def make_unit(rows: pl.DataFrame, measure: str | None, number: int) -> sheet.Spec:
        label = measure or words["x"]
        widths, log = sheet.find_axis(options, rows, [x, low, high, reference], "log_x")
        across = sheet.encode_quantity("x", label, widths, log=log, zero=True)
        if limits is not None:
            across["scale"]["domain"] = list(limits)
        rises = {"yOffset": {"field": sheet.LINE, "sort": of.lines}} if len(of.lines) > 1 else {}
        base = {"x": across, "y": sheet.encode_names("y", words["y"] or None, names, labelLimit=320), **rises}
        hue = sheet.encode_colours(of)
        shown = [sheet.make_text_tip("y", format_axis_label(y)), *sheet.list_tips(of, ("x", label))]
        shown += list_interval_tips(label) if low or high else []
        layers: list[sheet.Spec] = []
        if low or high:
            ends = {"x": {**across, "field": "low"}, "x2": {"field": "high"}}
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.4}, "encoding": {**base, **hue, **ends}})
        mark = {"type": "point", "filled": True, "size": 60}
        layers.append({"mark": mark, "encoding": {**base, **hue, **sheet.encode_shapes(of), "tooltip": shown}})
        if reference:
            name = options["reference_name"] or "published"
            own = {"x": {**across, "field": "reference"}, "tooltip": sheet.list_tips(of, ("reference", name))}
            hollow = {"type": "point", "shape": "diamond", "filled": False, "size": 80}
            layers.append({"mark": hollow, "encoding": {**base, **own}})
        if text:
            written = {"x": {**across, "field": "end"}, "text": {"field": "text", "type": "nominal"}}
            beside = {"type": "text", "align": "left", "dx": 7}
            layers.append({"mark": beside, "encoding": {**base, **written}})
        layers[0]["params"] = [sheet.make_zoom(number, ("x",)), *sheet.pick(of, number)]
        wide = 60 + min(320, 7 * max(map(len, names)))
        return {"layer": layers, "height": max(180, (14 * len(of.lines) + 12) * len(names)), "left": wide}

    return sheet.compose(of, make_unit, columns, across=True)


def _choose_width(places: int, of: sheet.Sheet) -> int:
    """Return the width of a panel in px beyond which bars would only become wider."""
    return 160 + places * max(90, 46 * len(of.lines))


def _name_places(rows: pl.DataFrame, x: str, middle: Any) -> tuple[pl.DataFrame, list[str]]:
    """Return rows with the name of their place, and the names in order: the outer key behind the middle one."""
    outer = order_values(rows[x])
    groups = Groups.from_frame(rows, middle)
    several = len(groups.keys) > 1 or bool(list_names(middle))
    short = [format_place(groups.names, key) for key in groups.keys]
    schema: dict[str, Any] = {
        x: rows.schema[x],
        **{name: rows.schema[name] for name in groups.names},
        "place": pl.String,
    }
    found = [
        (one, *key, f"{text}, {format_value(x, one)}" if several else format_category(one))
        for one in outer
        for key, text in zip(groups.keys, short, strict=True)
    ]
    table = pl.DataFrame(found, schema=schema, orient="row")
    keys = [x, *groups.names]
    whole = rows.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")
    there = set(whole["place"])
    return whole, [place for *_, place in found if place in there]


def box(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return box plots with their values as points."""
    of = sheet.make_sheet(options, chosen, by=options["by"])
    x, y = options["x"], options["y"]
    texts = [format_category(one) for one in order_values(convert_frame(options["frame"])[x])]
    columns: dict[str, Any] = {"x": sheet.format_categories(x), "y": y}

    def make_unit(rows: pl.DataFrame, measure: str | None, number: int) -> sheet.Spec:
        y_label = measure or words["y"]
        heights, log = sheet.find_axis(options, rows, [y], "log_y")
        up = sheet.encode_quantity("y", y_label, heights, log=log, zero=True)
        base = {"x": sheet.encode_names("x", words["x"] or None, texts), "y": up, **sheet.encode_offset(of)}
        hue = {key: value for key, value in sheet.encode_colours(of).items() if key == "color"}
        layers: list[sheet.Spec] = [
            {"mark": {"type": "boxplot", "extent": 1.5, "outliers": False, "size": 26}, "encoding": {**base, **hue}},
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.8},
                "params": [sheet.make_zoom(number, ("y",))],
                "encoding": {**base, "tooltip": sheet.list_tips(of, ("y", y_label))},
            },
        ]
        return {"layer": layers, "most": _choose_width(len(texts), of)}

    return sheet.compose(of, make_unit, columns)


def front(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return the points of a front and the others, with intervals and steps on the front."""
    of = sheet.make_sheet(options, chosen, by=options["group"])
    x, y = options["x"], options["y"]
    ends = {
        f"{axis}_{end}": name
        for axis in ("x", "y")
        for end, name in zip(("low", "high"), options[f"{axis}_ends"] or (), strict=False)
    }
    columns: dict[str, Any] = {"x": x, "y": y, "place": options["group"], **ends}

    def make_unit(rows: pl.DataFrame, _measure: str | None, number: int) -> sheet.Spec:
        widths, log_x = sheet.find_axis(options, rows, [x], "log_x")
        heights, log_y = sheet.find_axis(options, rows, [y], "log_y")
        across = sheet.encode_quantity("x", words["x"], widths, log=log_x)
        up = sheet.encode_quantity("y", words["y"], heights, log=log_y)
        base = {"x": across, "y": up, **sheet.encode_colours(of)}
        on_front = [{"filter": {"field": "place", "equal": "on the front"}}]
        tips = sheet.list_tips(of, ("x", words["x"]), ("y", words["y"]))
        mark = {"type": "point", "filled": True, "size": 40}
        layers: list[sheet.Spec] = [{"mark": mark, "encoding": {**base, **sheet.encode_shapes(of), "tooltip": tips}}]
        layers[0]["params"] = [sheet.make_zoom(number, ("x", "y")), *sheet.pick(of, number)]
        path = {"type": "line", "interpolate": f"step-{'after' if options['steps'] == 'post' else 'before'}"}
        layers.append({"mark": path, "transform": on_front, "encoding": base})
        for axis, encoding in (("x", across), ("y", up)):
            if options[f"{axis}_ends"]:
                span = {axis: {**encoding, "field": f"{axis}_low"}, f"{axis}2": {"field": f"{axis}_high"}}
                layers.append({"mark": {"type": "rule"}, "transform": on_front, "encoding": {**base, **span}})
        return {"layer": layers}

    return sheet.compose(of, make_unit, columns)
