"""Frames that figures are drawn from: the frame, its groups and their order, and the words for columns and values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import polars as pl

from dumbbell.errors import Nothing, Unfit, UnknownName, WrongValue
from dumbbell.experiment import units
from dumbbell.figures.palette import choose_styles
from dumbbell.figures.style import Style
from dumbbell.results import columns

Names = str | Sequence[str] | None
Numbers = np.ndarray[Any, np.dtype[np.float64]]


class Layout(TypedDict, total=False):
    """The keywords that figures of panels have in common.

    `facet` makes a panel of each combination of its values. `columns` is how many panels stand side by side, or names
    of columns whose values run across while those of `facet` run down. `x_label` and `y_label` are written at the axes
    instead of the columns' names, and `title` above the figure.
    """

    facet: Names
    columns: int | Names
    x_label: str | None
    y_label: str | None
    title: str | None


# the last word of a column's name → its unit
_UNITS = {
    **{name: name for name in ("ns", "us", "ms", "s", "packets", "segments", "bytes")},
    **{"bit": "bit/s", "kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "mbps": "Mbit/s"},
    **{"kb": "kB", "mb": "MB", "percent": "%", "pct": "%"},
}
_WRITTEN = {"bit": "bit/s", "kbit": "kbit/s", "Mbit": "Mbit/s", "Gbit": "Gbit/s", "Tbit": "Tbit/s"}
_CAPITALS = {
    **{word: word.upper() for word in ("rtt", "ecn", "aqm", "bdp", "ce", "sce", "abe", "udp", "tcp", "prr")},
    **{"jain": "Jain's index", "srtt": "smoothed RTT", "pie": "PIE", "codel": "CoDel"},
}
_WHOLE = {"beta_ecn": "beta", "cwnd": "cwnd, segments", "ssthresh": "ssthresh, segments"}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s*([A-Za-zµ]+)(?:/s)?)?", re.ASCII)


def convert_frame(frame: Any) -> pl.DataFrame:
    """Return `frame` as polars: a frame of polars itself, Arrow, pandas or whatever else `polars.DataFrame` takes."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    try:
        return pl.DataFrame(frame)
    except Exception as error:  # polars raises many kinds, none of its own base
        raise WrongValue(
            f"{type(frame).__name__} ({error})", "a frame of polars, Arrow or pandas", key="frame"
        ) from None


def list_names(names: Names) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def list_facets(layout: Layout, each: str | None = None) -> list[str]:
    """Return the columns whose values have panels of their own: those of a layout, and that of the measures."""
    columns = layout.get("columns")
    over = None if isinstance(columns, int) else columns
    return [name for names in (layout.get("facet"), over, each) for name in list_names(names)]


def read_rows(
    frame: Any, layout: Layout, numeric: Sequence[str], *, each: str | None = None, **options: Names
) -> pl.DataFrame:
    """Return the rows of a figure; raises InputError if a column is missing, or one in `numeric` has no numbers."""
    rows = convert_frame(frame)
    for option, names in {**options, "facet": list_facets(layout), "each": each}.items():
        for name in list_names(names):
            if name not in rows.columns:
                raise UnknownName(name, among=rows.columns, key=option, what="column")
            kind = rows.schema[name]
            if option in numeric and not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
                raise WrongValue(f"{kind}", "a column of numbers", key=f"{option}: column {name}")
    if rows.is_empty():
        raise Nothing("there are no rows", "rows to draw", key="frame")
    return rows


def check_unique(frame: pl.DataFrame, *columns: Names) -> None:
    """Raise InputError if two rows are for the same point: a figure does not average."""
    names = list(dict.fromkeys(name for some in columns for name in list_names(some)))
    if not names or not frame.select(names).is_duplicated().any():
        return
    row = frame.filter(frame.select(names).is_duplicated()).row(0, named=True)
    point = ", ".join(f"{name} {row[name]}" for name in names)
    raise Unfit(
        f"there are several rows of {point}",
        "one row per point; name the column that differs as by or facet",
        key="frame",
    )


def convert_numbers(column: pl.Series) -> Numbers:
    """Return a column as floating-point numbers, NaN for what is missing."""
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def parse_quantity(text: str) -> tuple[str, float] | None:
    """Return kind and size of a quantity, such as `20ms`, `10Mbit` or `0.85`; None if it is none."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    if match[2] is None:
        return "", float(match[1])
    for kind, known in (("time", units.TIME), ("rate", units.RATE), ("size", units.SIZE)):
        if match[2] in known:
            return kind, float(match[1]) * known[match[2]]
    return None


def _rank(value: Any) -> tuple[Any, ...]:
    """Return what to sort a value by: numbers and quantities by size, then texts with numbers in them by number."""
    if value is None:
        return (3,)
    if isinstance(value, bool | int | float):
        return (3,) if value != value else (0, "", float(value))
    text = str(value)
    size = parse_quantity(text)
    if size is not None:
        return (0, *size)
    parts = re.split(r"([0-9]+(?:\.[0-9]+)?)", text)
    return (1, tuple((float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)), text)


def order_values(column: pl.Series) -> list[Any]:
    """Return the values that occur in order: numbers and quantities by size, an Enum in its own, text by name."""
    values = column.unique()
    if isinstance(column.dtype, pl.Enum):
        return [None if value is None else str(value) for value in values.sort(nulls_last=True).to_list()]
    return sorted(values.to_list(), key=_rank)


def format_number(number: str) -> str:
    """Return a number as it is printed: with a minus sign (U+2212), which is as wide as a plus, for a hyphen."""
    return number.replace("-", "\N{MINUS SIGN}")


def format_plain(value: float) -> str:
    """Return a number without needless digits, as it is printed."""
    return format_number(f"{value:.6g}" if abs(value) < 1e6 else f"{value:.4g}")


def _split_name(name: str) -> tuple[str, str]:
    """Return the last part of a column's or a key's name and its unit: `("base RTT", "ms")` for `base_rtt_ms`."""
    last = name.rpartition(".")[2]
    if last in _WHOLE:
        text, _, unit = _WHOLE[last].partition(", ")
        return text, unit
    parts = last.split("_")
    unit = _UNITS.get(parts[-1], "") if len(parts) > 1 else ""
    parts = parts[:-1] if unit else parts
    parts = [_CAPITALS.get(word, word.upper() if re.fullmatch(r"p[0-9]+", word) else word) for word in parts]
    return " ".join(parts), unit


def format_axis_label(name: str) -> str:
    """Return a column's name in words with its unit: `time in queue, P99, ms`.

    A name of several words that is a measure of results has the label that it has there. A name of one word, such as
    `share`, may be anything in a frame; so may one that tables of results use for different measures.
    """
    labels = {columns.format_axis_label(name, table) for table, _ in columns.find(name)} if "_" in name else set()
    if len(labels) == 1:
        return labels.pop()
    words, unit = _split_name(name)
    return f"{words}, {unit}" if unit else words


def format_value(name: str, value: Any) -> str:
    """Return a value so that it can be understood by itself: `cubic`, `target 5 ms`, `beta 0.85`, `no ECN`."""
    words, unit = _split_name(name)
    if value is None:
        return f"no {words}"
    if isinstance(value, bool) or value in ("true", "false"):
        return words if str(value).lower() == "true" else f"no {words}"
    if isinstance(value, int | float):
        return f"{words} {format_plain(value)}{f' {unit}' if unit else ''}"
    text = str(value)
    match = _QUANTITY.fullmatch(text.strip()) if parse_quantity(text) else None
    if match is not None:
        own = _WRITTEN.get(match[2], match[2]) if match[2] else unit
        return f"{words} {match[1]}{f' {own}' if own else ''}"
    return f"{words} {text}" if text in ("on", "off", "none", "-", "") else text


@dataclass(frozen=True)
class Groups:
    """The groups that columns divide a frame into, in order, each with its label; without columns one group, `""`."""

    names: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    labels: list[str]

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, names: Names) -> "Groups":
        """Return the groups of a frame; a label says only what differs between them."""
        names = list_names(names)
        if not names:
            return cls((), [()], [""])
        ranks = {name: {value: rank for rank, value in enumerate(order_values(frame[name]))} for name in names}
        found = frame.select(names).unique().rows()
        keys = sorted(found, key=lambda key: tuple(ranks[name][value] for name, value in zip(names, key, strict=True)))
        differ = [i for i in range(len(names)) if len({key[i] for key in keys}) > 1] or list(range(len(names)))
        labels = [
            ", ".join(format_value(names[i], key[i]) for i in differ if key[i] is not None)
            or format_value(names[0], None)
            for key in keys
        ]
        if len(set(labels)) < len(labels):  # two columns that say the same of different things
            labels = [", ".join(f"{n} {v}" for n, v in zip(names, key, strict=True)) for key in keys]
        return cls(names, keys, labels)

    def split(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """Return the rows of each group, in the order of `keys`; a group may have none."""
        if not self.names:
            return [frame]
        found = frame.partition_by(self.names, as_dict=True, maintain_order=True)
        return [found.get(key, frame.clear()) for key in self.keys]

    @property
    def styles(self) -> list[Style]:
        """The style of each group; raises InputError if they are too many to distinguish."""
        return choose_styles(self.keys)

    def list_parts(self, frame: pl.DataFrame) -> list[tuple[int, str, pl.DataFrame, Style]]:
        """Return number, label, rows and style of each group that has rows in a frame."""
        every = zip(self.labels, self.split(frame), self.styles, strict=True)
        return [(number, *own) for number, own in enumerate(every) if not own[1].is_empty()]


def thin_line(x: Numbers, y: Numbers, most: int, *, pixels: int = 1200, log: bool = False) -> tuple[Numbers, Numbers]:
    """Return a line of more than `most` points by the first, lowest, highest and last of each pixel column.

    `x` must rise. Peaks are kept, and so is the picture; a column without any number leaves a gap.
    """
    if len(x) <= most:
        return x, y
    at = np.log(x) if log else x
    low, high = np.nanmin(at), np.nanmax(at)
    columns = np.minimum(((at - low) / ((high - low) or 1.0) * pixels).astype(int), pixels - 1)
    starts = np.flatnonzero(np.diff(columns, prepend=-1))
    kept: set[int] = set()
    for start, end in zip(starts, [*starts[1:], len(x)], strict=True):
        kept.update((int(start), int(end) - 1))
        part = y[start:end]
        if not np.isnan(part).all():
            kept.update((int(start + np.nanargmin(part)), int(start + np.nanargmax(part))))
    chosen = np.array(sorted(kept))
    return x[chosen], y[chosen]
