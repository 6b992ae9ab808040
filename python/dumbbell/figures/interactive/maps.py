"""Heat maps, ellipses and forests of an interactive figure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl

from dumbbell.figures.axes import collect_numbers, format_category, is_log
from dumbbell.figures.ellipses import compute_outline, select_points
from dumbbell.figures.frames import convert_numbers, format_axis_label, order_values
from dumbbell.figures.heat import MAPS, MOST_WRITTEN, choose_format, list_ratio_ticks, make_norm
from dumbbell.figures.interactive import sheet

_STEPS = 21  # colours that stand for a scale
_INSIDE = 0.985  # of an axis, where arrows point at what lies beyond it
_CELL = (34, 26)  # px of a cell, at least


def heat(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return a heat map in the colours of the figure, with the numbers of its cells where there are few."""
    of = sheet.make_sheet(options, chosen)
    x, y, value, kind = options["x"], options["y"], options["value"], options["kind"]
    across, down = ([format_category(one) for one in order_values(of.rows[name])] for name in (x, y))
    from_top = across == down and len(down) > 1 and isinstance(order_values(of.rows[y])[0], str)
    every = collect_numbers(of.rows, value)
    bar_label = format_axis_label(value) if options["label"] is None else options["label"]
    limit = options["limit"]
    norm = make_norm(every if limit is None else np.array([limit]), kind)
    colours = mpl.colormaps[MAPS[kind]]
    form = choose_format(every, kind, options["decimals"])
    named = {"x": across, "y": down}
    rows = of.rows.with_columns(
        *(sheet.format_categories(column).alias(f"{name} text") for name, column in (("x", x), ("y", y))),
        *_write_cells(of.rows[value], norm, colours, form),
    )
    of = replace(of, rows=rows)
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 1.0)
    hue: sheet.Spec = {"field": "value", "type": "quantitative", "legend": _make_legend(bar_label, kind, norm)}
    places = [float(place) for place in np.linspace(0, 1, _STEPS)]
    ends = [low, *(float(norm.inverse(place)) for place in places[1:-1]), high]
    hue["scale"] = {
        "type": "linear",
        "domain": ends,
        "range": [mpl.colors.to_hex(colours(p)) for p in places],
        "clamp": True,
    }
    if kind == "ratio":
        hue["scale"]["type"] = "log"
    columns = {"x": "x text", "y": "y text", "value": value, "text": "text", "dark": "dark"}

    def make_unit(_rows: pl.DataFrame, _measure: str | None, _number: int) -> sheet.Spec:
        base = {name: sheet.encode_names(name, words[name], texts) for name, texts in named.items()}
        base["y"]["sort"] = down if from_top else down[::-1]
        shown = [
            *sheet.list_tips(of, ("value", bar_label)),
            *(sheet.make_text_tip(name, words[name]) for name in named),
        ]
        layers: list[sheet.Spec] = [{"mark": {"type": "rect"}, "encoding": {**base, "color": hue, "tooltip": shown}}]
        if len(across) * len(down) <= MOST_WRITTEN:
            ink = {"condition": {"test": "datum.dark", "value": "white"}, "value": "black"}
            text = {"field": "text", "type": "nominal"}
            layers.append(
                {
                    "mark": {"type": "text", "fontSize": 11},
                    "encoding": {**base, "text": text, "color": ink, "tooltip": shown},
                }
            )
        wide = 260 + len(across) * max(_CELL[0], 9 * max(map(len, across)) + 10, 60)
        return {"layer": layers, "height": max(180, _CELL[1] * len(down)), "most": wide}

    return sheet.compose(of, make_unit, columns)


def _make_legend(title: str, kind: str, norm: Any) -> sheet.Spec:
    """Return the bar of colours, with ticks on both sides of 1 for ratios."""
    own = {"values": list_ratio_ticks(norm)} if kind == "ratio" else {}
    return {"title": sheet.break_title(title, 26), "titleLimit": 300, "format": ".3~g", **own}


def _write_cells(values: pl.Series, norm: Any, colours: Any, form: Any) -> list[pl.Series]:
    """Return what is written into each cell, and whether the cell is dark."""
    found = convert_numbers(values)
    shades = colours(norm(np.ma.masked_invalid(found)))
    dark = np.asarray(shades)[:, :3] @ np.array([0.3, 0.59, 0.11]) < 0.5
    texts = [form(number) if np.isfinite(number) else "" for number in found]
    return [pl.Series("text", texts, dtype=pl.String), pl.Series("dark", dark.tolist(), dtype=pl.Boolean)]


def ellipses(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return means with their ellipses of one standard deviation; smaller delays to the right."""
    of = sheet.make_sheet(options, chosen, by=options["by"])
    x, y = options["x"], options["y"]
    places = collect_numbers(of.rows, x)
    log = is_log(options["log_x"], places, "log_x")
    rows = _compute_ellipses(of.rows, [sheet.LINE, sheet.PANEL, *(one.name for one in of.controls)], x, y, log=log)
    of = replace(of, rows=rows)
    columns = {name: name for name in ("x", "y", "low_x", "high_x", "low_y", "high_y", "n", "what", "order", "id")}

    def make_unit(rows: pl.DataFrame, _measure: str | None, number: int) -> sheet.Spec:
        xs, ys = (collect_numbers(rows, name) for name in ("x", "y"))
        base = {
            "x": sheet.encode_quantity("x", words["x"], xs, log=log, reverse=True),
            "y": sheet.encode_quantity("y", words["y"], ys),
        }
        shown = sheet.list_tips(of, ("x", words["x"]), ("y", words["y"]))
        sides = {"low_x": "delay from", "high_x": "delay to", "low_y": "from", "high_y": "to", "n": "runs"}
        shown += [sheet.make_number_tip(field, title) for field, title in sides.items()]
        hue = sheet.encode_colours(of)
        closed = {"type": "line", "filled": True, "fillOpacity": 0.22, "strokeWidth": 1}
        area = {**base, **hue, "order": {"field": "order", "type": "quantitative"}, "detail": {"field": "id"}}
        layers: list[sheet.Spec] = [
            {"transform": [{"filter": "datum.what === 'ellipse'"}], "mark": closed, "encoding": area},
            {
                "transform": [{"filter": "datum.what === 'mean'"}],
                "mark": {"type": "point", "filled": True, "size": 90},
                "params": [sheet.make_zoom(number), *sheet.pick(of)],
                "encoding": {**base, **hue, **sheet.encode_shapes(of), "tooltip": shown},
            },
        ]
        return {"layer": layers}

    return sheet.compose(of, make_unit, columns)


def _compute_ellipses(rows: pl.DataFrame, keys: list[str], x: str, y: str, *, log: bool) -> pl.DataFrame:
    """Return the mean of each group, with its standard deviations, and the points of its ellipse."""
    found: list[dict[str, Any]] = []
    for number, (key, own) in enumerate(rows.group_by(keys, maintain_order=True)):
        points = select_points(own, x, y, log=log)
        if not len(points):
            continue
        place = dict(zip(keys, key, strict=True)) | {"id": number}

        def place_value(value: float) -> float:
            return 10**value if log else value

        mean = points.mean(axis=0)
        one = {"x": place_value(float(mean[0])), "y": float(mean[1]), "n": len(points)}
        if len(points) > 1:
            dx, dy = (float(points[:, i].std(ddof=1)) for i in (0, 1))
            one |= {"low_x": place_value(float(mean[0]) - dx), "high_x": place_value(float(mean[0]) + dx)}
            one |= {"low_y": float(mean[1]) - dy, "high_y": float(mean[1]) + dy}
        found.append(place | one | {"what": "mean", "order": 0})
        around = compute_outline(points, mean)
        corners = [] if around is None else around.tolist()
        found += [
            place | {"x": place_value(a), "y": b, "what": "ellipse", "order": i} for i, (a, b) in enumerate(corners)
        ]
    texts = dict.fromkeys([*keys, "what"], pl.String)
    floats = dict.fromkeys(("x", "y", "low_x", "high_x", "low_y", "high_y"), pl.Float64)
    return pl.DataFrame(found, schema={**texts, **floats, **dict.fromkeys(("n", "order", "id"), pl.Int64)})


def forest(options: Mapping[str, Any], words: Mapping[str, Any], chosen: Sequence[str]) -> sheet.Spec:
    """Return estimates with their intervals, one below another; hollow where nothing is significant."""
    of = sheet.make_sheet(options, chosen)
    x, y, sure, limits = options["x"], options["y"], options["sure"], options["limits"]
    texts = [format_category(one) for one in order_values(of.rows[y])]
    certain = pl.col(sure).cast(pl.Boolean) if sure else pl.lit(value=True)
    columns: dict[str, str | pl.Expr] = {"y": sheet.format_categories(y), "x": x, "sure": certain}
    columns |= {"low": options["low"], "high": options["high"]}
    clipped = pl.col(x).clip(*(_INSIDE * end for end in limits)) if limits is not None else pl.col(x)
    beyond = pl.when(clipped < pl.col(x)).then(pl.lit("above")).when(clipped > pl.col(x)).then(pl.lit("below"))
    columns |= {"at": clipped, "beyond": beyond.otherwise(pl.lit(""))}

    def make_unit(rows: pl.DataFrame, _measure: str | None, number: int) -> sheet.Spec:
        places = collect_numbers(rows, x, options["low"], options["high"])
        across = sheet.encode_quantity("x", words["x"], np.concatenate([places, [0.0]]))
        if limits is not None:
            across["scale"]["domain"] = list(limits)
        up = sheet.encode_names("y", words["y"] or None, texts, labelLimit=320)
        shown = [
            sheet.make_text_tip("y", "measure"),
            *sheet.list_tips(of, ("x", words["x"]), ("low", "from"), ("high", "to")),
        ]
        shown.append(sheet.make_text_tip("sure", "significant (FDR 5 %)"))
        filled = {"condition": {"test": "datum.sure", "value": 1}, "value": 0}
        arrows = [
            {"test": f"datum.beyond === '{side}'", "value": f"triangle-{way}"}
            for side, way in (("above", "right"), ("below", "left"))
        ]
        layers: list[sheet.Spec] = [
            {"mark": {"type": "rule", "strokeDash": [3, 3]}, "encoding": {"x": {"datum": 0, "type": "quantitative"}}},
            {
                "mark": {"type": "rule", "strokeWidth": 1.6, "clip": True},
                "params": [sheet.make_zoom(number, ("x",))],
                "encoding": {"x": {**across, "field": "low"}, "x2": {"field": "high"}, "y": up},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "strokeWidth": 1.6, "stroke": sheet.COLOUR},
                "encoding": {
                    "x": {**across, "field": "at"},
                    "y": up,
                    "fillOpacity": filled,
                    "strokeOpacity": {"value": 1},
                    "shape": {"condition": arrows, "value": "circle"},
                    "tooltip": shown,
                },
            },
        ]
        wide = 60 + min(320, 7 * max(map(len, texts)))
        return {"layer": layers, "height": max(180, 24 * len(texts)), "left": wide}

    return sheet.compose(of, make_unit, columns)
