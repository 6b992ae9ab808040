"""Lines, bars and boxes of an interactive figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dumbbell.figures.axes import category
from dumbbell.figures.frames import Groups, listed, ordered, said, taken
from dumbbell.figures.interactive.sheet import (
    LINE,
    Sheet,
    Spec,
    as_category,
    at_values,
    axes_of,
    colour,
    compose,
    dash,
    names,
    pick,
    quantity,
    shape,
    sheet,
    text_tip,
    tips,
    zoom,
)


def lines(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> Spec:
    """Return lines with their intervals, and what was published as hollow markers."""
    of = sheet(options, chosen, by=options["by"])
    x, y, reference = options["x"], options["y"], options["reference"]
    low, high = options["low"], options["high"]
    numeric = of.rows.schema[x].is_numeric()
    columns: dict[str, Any] = {"x": x if numeric else as_category(x), "y": y}
    columns |= {"low": low or y, "high": high or y} if low or high else {}
    columns |= {"reference": reference} if reference else {}

    def unit(rows: pl.DataFrame, measure: str | None, number: int) -> Spec:
        y_label = measure or words["y"]
        heights, log_y = axes_of(options, rows, [y, low, high, reference], "log_y")
        if numeric:
            places, log_x = axes_of(options, of.rows, [x], "log_x")
            across = at_values(quantity("x", words["x"], places, log=log_x), places, options["x_names"])
        else:
            across = names("x", words["x"], [category(one) for one in ordered(of.rows[x])])
        offset = {} if numeric or len(of.lines) < 2 else {"xOffset": {"field": LINE, "sort": of.lines}}
        up = quantity("y", y_label, heights, log=log_y, zero=True)
        said_of = tips(of, *([("x", words["x"])] if numeric else []), ("y", y_label))
        said_of += [] if numeric else [text_tip("x", words["x"])]
        said_of += tips_of_interval(y_label) if low or high else []
        base = {"x": across, "y": up, **offset, **colour(of)}
        layers: list[Spec] = []
        if low or high:
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.2}, "encoding": ends(base)})
        if numeric:
            layers.append({"mark": {"type": "line"}, "encoding": {**base, **dash(of.lines)}})
        layers.append(
            {
                "mark": {"type": "point", "filled": True, "size": 55},
                "encoding": {**base, **shape(of), "tooltip": said_of},
            }
        )
        if reference:
            name = options["reference_name"] or "published"
            own = [*tips(of, ("x", words["x"]) if numeric else ("x", None)), *tips(of, ("reference", name))[-1:]]
            mark = {"type": "point", "filled": False, "size": 70, "strokeWidth": 1.6, "xOffset": 4}
            layers.append({"mark": mark, "encoding": {**base, "y": {**up, "field": "reference"}, "tooltip": own}})
        layers[0]["params"] = [zoom(number, ("x", "y") if numeric else ("y",)), *(pick(of) if number == 0 else [])]
        return {"layer": layers} | ({} if numeric else {"most": _wide(len(ordered(of.rows[x])), of)})

    return compose(of, unit, columns)


def ends(encoding: Spec) -> Spec:
    """Return the encoding of an interval from `low` to `high`."""
    up = encoding["y"]
    return {**encoding, "y": {**up, "field": "low"}, "y2": {"field": "high"}}


def tips_of_interval(label: str) -> list[Spec]:
    """Return the lines of a tooltip for the ends of an interval."""
    unit = label.rpartition(", ")[2] if ", " in label else ""
    ends_of = {"low": "from", "high": "to"}
    return [
        {"field": field, "type": "quantitative", "title": f"{text}{f', {unit}' * bool(unit)}", "format": ".5~r"}
        for field, text in ends_of.items()
    ]


def bars(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> Spec:
    """Return bars in groups; points on a logarithmic axis, where a bar would have no foot."""
    coloured, middle = (options["inner"], options["group"]) if options["inner"] else (options["group"], None)
    of = sheet(options, chosen, by=coloured)
    x, y, reference = options["x"], options["y"], options["reference"]
    low, high = options["low"], options["high"]
    rows, texts = _places(of.rows, x, middle)
    of = type(of)(rows, of.lines, of.panels, of.controls, of.each)
    columns: dict[str, Any] = {"x": "place", "y": y}
    columns |= {"low": low or y, "high": high or y} if low or high else {}
    columns |= {"reference": reference} if reference else {}

    def unit(rows: pl.DataFrame, measure: str | None, number: int) -> Spec:
        y_label = measure or words["y"]
        heights, log = axes_of(options, rows, [y, low, high, reference], "log_y")
        up = quantity("y", y_label, heights if log else np.concatenate([heights, [0.0]]), log=log)
        if not log and len(heights) and heights.min() >= 0:
            up["scale"]["domain"][0] = 0.0
        offset = {"xOffset": {"field": LINE, "sort": of.lines}} if len(of.lines) > 1 else {}
        base = {"x": names("x", words["x"] or None, texts), "y": up, **offset, **colour(of)}
        shown = [*tips(of, ("y", y_label)), *([text_tip("x", words["x"])] if words["x"] else [])]
        shown += tips_of_interval(y_label) if low or high else []
        mark = {"type": "point", "filled": True, "size": 60} if log else {"type": "bar"}
        layers: list[Spec] = [{"mark": mark, "encoding": {**base, "tooltip": shown}}]
        layers[0]["params"] = [zoom(number, ("y",)), *(pick(of) if number == 0 else [])]
        if low or high:
            thin = {key: value for key, value in ends(base).items() if key != "color"}
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.3}, "encoding": thin})
        if reference:
            name = options["reference_name"] or "published"
            mark = {"type": "point", "shape": "diamond", "filled": False, "size": 80}
            thin = {key: value for key, value in base.items() if key != "color"}
            own = {"y": {**up, "field": "reference"}, "tooltip": tips(of, ("reference", name))}
            layers.append({"mark": mark, "encoding": {**thin, **own}})
        return {"layer": layers, "most": _wide(len(texts), of)}

    return compose(of, unit, columns)


def _wide(places: int, of: Sheet) -> int:
    """Return the width of a panel in px beyond which bars would only become wider."""
    return 160 + places * max(90, 46 * len(of.lines))


def _places(rows: pl.DataFrame, x: str, middle: Any) -> tuple[pl.DataFrame, list[str]]:
    """Return rows with the name of their place, and the names in order: the outer key behind the middle one."""
    outer = ordered(rows[x])
    groups = Groups.of(rows, middle)
    several = len(groups.keys) > 1 or bool(listed(middle))
    short = [_short(groups.names, key) for key in groups.keys]
    schema: dict[str, Any] = {
        x: rows.schema[x],
        **{name: rows.schema[name] for name in groups.names},
        "place": pl.String,
    }
    found = [
        (one, *key, f"{text}, {said(x, one)}" if several else category(one))
        for one in outer
        for key, text in zip(groups.keys, short, strict=True)
    ]
    table = pl.DataFrame(found, schema=schema, orient="row")
    keys = [x, *groups.names]
    whole = rows.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")
    there = set(whole["place"])
    return whole, [place for *_, place in found if place in there]


def _short(keys: tuple[str, ...], values: tuple[Any, ...]) -> str:
    return (
        category(values[0])
        if len(values) == 1
        else ", ".join(said(name, value) for name, value in zip(keys, values, strict=True))
    )


def box(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> Spec:
    """Return box plots with their values as points."""
    of = sheet(options, chosen, by=options["by"])
    x, y = options["x"], options["y"]
    texts = [category(one) for one in ordered(taken(options["frame"])[x])]
    columns: dict[str, Any] = {"x": as_category(x), "y": y}

    def unit(rows: pl.DataFrame, measure: str | None, number: int) -> Spec:
        y_label = measure or words["y"]
        heights, log = axes_of(options, rows, [y], "log_y")
        up = quantity("y", y_label, heights, log=log, zero=True)
        offset = {"xOffset": {"field": LINE, "sort": of.lines}} if len(of.lines) > 1 else {}
        base = {"x": names("x", words["x"] or None, texts), "y": up, **offset}
        hue = {key: value for key, value in colour(of).items() if key == "color"}
        layers: list[Spec] = [
            {"mark": {"type": "boxplot", "extent": 1.5, "outliers": False, "size": 26}, "encoding": {**base, **hue}},
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.8},
                "params": [zoom(number, ("y",))],
                "encoding": {**base, "tooltip": tips(of, ("y", y_label))},
            },
        ]
        return {"layer": layers, "most": _wide(len(texts), of)}

    return compose(of, unit, columns)
