"""Titles that nobody gave: one line with what a figure shows, from the rows that it was drawn from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from dumbbell import figures
from dumbbell.figures import Picture, Series, format_value
from dumbbell.figures.frames import Groups, list_names
from dumbbell.words import format_count, join_words

_FEW = 5  # flows whose means a title lists


def describe_picture(picture: Picture) -> str:
    """Return what a figure shows in one line, with numbers; nothing for a kind that no line sums up."""
    source = picture.source
    describe = _DESCRIBE.get(source.draw) if source else None
    return describe(picture, source.options) if source and describe else ""


def _describe_range(picture: Picture, options: Mapping[str, Any]) -> str:
    """Return the lowest and the highest value with their places: of the first measure, if there are several."""
    value = options.get("value") or options["y"]
    label = picture.around.bar_label or (picture.around.y_labels or [""])[0]
    rows: pl.DataFrame = options["frame"]
    if each := options.get("each"):
        first = rows[each][0] if rows.height else None
        rows, label = rows.filter(pl.col(each) == first), str(first)
    names = [options["x"], *([options["y"]] if "value" in options else [])]
    names += [name for key in ("by", "group", "inner", "facet") for name in list_names(options.get(key))]
    return _capitalise(_name_ends(rows, value, _list_keys(rows, names), label))


def _describe_rows(_: Picture, options: Mapping[str, Any]) -> str:
    """Return the ends of marks in rows: of the first measure, if there are several."""
    rows: pl.DataFrame = options["frame"]
    label = str(options.get("x_label") or "")
    if each := options.get("each"):
        label = str(rows[each].drop_nulls()[0]) if rows.height else ""
        rows = rows.filter(pl.col(each) == label)
    names = [options["y"], *(name for key in ("by", "facet") for name in list_names(options.get(key)))]
    return _capitalise(_name_ends(rows, options["x"], _list_keys(rows, names), label))


def _describe_trade(picture: Picture, options: Mapping[str, Any]) -> str:
    """Return the ends of the mean delays, and those of the mean throughputs."""
    rows: pl.DataFrame = options["frame"]
    keys = _list_keys(rows, [name for key in ("by", "facet") for name in list_names(options.get(key))])
    x, y = options["x"], options["y"]
    means = rows.group_by(keys or pl.lit(1), maintain_order=True).agg(pl.col(x, y).mean())
    delay = picture.around.x_label.removesuffix(" (smaller is to the right)")
    ends = [_name_ends(means, x, keys, delay), _name_ends(means, y, keys, picture.around.y_labels[0])]
    return _capitalise("; ".join(filter(None, ends)))


def _describe_course(_: Picture, options: Mapping[str, Any]) -> str:
    """Return the means over time of the lines in the first panel of one run."""
    first = options["panels"][0]
    one = first if isinstance(first, Series) else Series(*first)
    if options.get("columns") and one.frame[options["columns"]].n_unique() > 1:
        return ""
    groups = Groups.from_frame(one.frame, one.by)
    if len(groups.keys) > _FEW:
        return ""
    name, unit = _split_label(one.y_label or one.y)
    means = [part[one.y].cast(pl.Float64).mean() for part in groups.split(one.frame)]
    texts = [
        f"{label} {_format(mean)}".strip() for label, mean in zip(groups.labels, means, strict=True) if mean is not None
    ]
    return f"Mean {name}: {join_words(texts)}{unit}" if texts else ""


def _describe_changes(_: Picture, options: Mapping[str, Any]) -> str:
    """Return how many of the changes are significant, and which is the largest of these."""
    rows: pl.DataFrame = options["frame"]
    if rows["n"].max() == 1:
        return ""
    sure = rows.filter(pl.col(options["sure"]).fill_null(value=False))
    if sure.is_empty():
        return f"No significant change in {format_count(rows.height, 'comparison')}"
    top = sure.sort(pl.col("change").abs(), descending=True).row(0, named=True)
    name = str(top["name"]).partition(",")[0]
    return (
        f"{sure.height} of {rows.height} changes are significant; the largest: {name} {top['change']:+.3g} %".replace(
            "-", "\N{MINUS SIGN}"
        )
    )


_DESCRIBE: dict[Callable[..., Picture], Callable[[Picture, Mapping[str, Any]], str]] = {
    figures.lines: _describe_range,
    figures.bars: _describe_range,
    figures.dots: _describe_rows,
    figures.heat: _describe_range,
    figures.ellipses: _describe_trade,
    figures.stacked_series: _describe_course,
    figures.forest: _describe_changes,
}


def _list_keys(rows: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the keys that differ between rows; the numbers of a key are named by its text."""
    found = [name.removesuffix(" as a number") for name in names]
    return [name for name in dict.fromkeys(found) if name in rows.columns and rows[name].n_unique() > 1]


def _name_ends(rows: pl.DataFrame, value: str, keys: Sequence[str], label: str) -> str:
    """Return `goodput: 8.4 (cubic) to 38 Mbit/s (bbr3), both with codel`; one value if all are the same."""
    known = rows.filter(pl.col(value).cast(pl.Float64).is_finite()).sort(value, maintain_order=True)
    if known.is_empty():
        return ""
    name, unit = _split_label(label)
    low, high = _format(known[value][0]), _format(known[value][-1])
    if low == high:
        return f"{name}: {low}{unit}{' everywhere' * (known.height > 1)}"
    first, last = (known.row(i, named=True) for i in (0, -1))
    shared = [key for key in keys if first[key] == last[key] and first[key] is not None]
    one, other = (_name_place(row, [key for key in keys if key not in shared]) for row in (first, last))
    both = f", both with {', '.join(format_value(key, first[key]) for key in shared)}" if shared else ""
    return f"{name}: {low}{one} to {high}{unit}{other}{both}"


def _name_place(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    texts = [format_value(key, row[key]) for key in keys if row[key] is not None]
    return f" ({', '.join(texts)})" if texts else ""


def _split_label(label: str) -> tuple[str, str]:
    """Return a measure's name and its unit with a space before it: mean time in queue and ms."""
    name, _, unit = label.rpartition(", ")
    words, unit = (name, f" {unit}") if name else (label, "")
    measure, _, statistic = words.rpartition(", ")
    return (f"{statistic} {measure}", unit) if measure and statistic in ("mean", "P99", "median") else (words, unit)


def _format(value: Any) -> str:
    return f"{float(value):.3g}" if abs(float(value)) < 1000 else f"{float(value):.0f}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
