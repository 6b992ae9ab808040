"""Names within names: every point stands over its own names, and what is missing is blank."""

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes

from dumbbell import figures
from dumbbell.errors import InputError
from dumbbell.figures import Picture
from test_figures import check_layout

AQMS, COUNTS, KS = ("STEP", "PI2", "CSAQM"), ("2", "10", "2-2-8-8"), (0.05, 0.5, 2.0)


def cells() -> pl.DataFrame:
    """A row for each AQM, N, K and class, no two alike, but none of ten flows over PI2 and no number of one more."""
    rows = [(aqm, n, k, cls) for aqm in AQMS for n in COUNTS for k in KS for cls in ("bbr2-5", "dctcp-5")]
    frame = pl.DataFrame(rows, ["aqm", "n", "k", "cls"], orient="row").with_columns(
        y=pl.int_range(1, pl.len() + 1) / 20
    )
    frame = frame.with_columns(pl.col("aqm").cast(pl.Enum(AQMS)), low=pl.col("y") - 0.01, high=pl.col("y") + 0.02)
    frame = frame.filter((pl.col("aqm") != "PI2") | (pl.col("n") != "10"))
    gone = (pl.col("aqm") == "STEP") & (pl.col("n") == "2") & (pl.col("k") == 0.5) & (pl.col("cls") == "bbr2-5")
    return frame.with_columns(y=pl.when(~gone).then("y"))


def places(picture: Picture, axes: Axes) -> dict[float, tuple[str, str, str]]:
    """AQM, N and K of each place of the axis, as they are written below it."""
    inner = zip(axes.get_xticks(), [text.get_text() for text in axes.get_xticklabels()], strict=True)
    words, lines = [], []
    for line in picture.under[axes]:
        words.append(line[0].get_text())
        lines.append({note.xy[0]: note.get_text() for note in line[1:]})
    assert words == ["N", "AQM"] and [len(line) for line in lines] == [9, 3]
    near = [lambda at, line=line: line[min(line, key=lambda other: abs(other - at))] for line in lines]
    return {at: (near[1](at), near[0](at), k) for at, k in inner}


def test_every_point_stands_over_its_names() -> None:
    frame = cells()
    words = ("K", "N", "AQM")
    picture = figures.nested(frame, ("k", "n", "aqm"), "y", low="low", high="high", by="cls", words=words)
    [axes] = picture.panels.values()
    where = places(picture, axes)
    assert list(where.values()) == [(aqm, n, f"{k:g}") for aqm in AQMS for n in COUNTS for k in KS]
    assert sorted(where) == list(where) and min(np.diff(sorted(where))) == 1
    expected = {(aqm, n, f"{k:g}", cls): y for aqm, n, k, cls, y, _, _ in frame.rows() if y is not None}
    found: dict[tuple[str, ...], float] = {}
    for line in axes.lines:
        cls = str(line.get_label())
        if cls.startswith("_"):
            continue
        names = [where[at] for at in np.asarray(line.get_xdata(), dtype=float)]
        assert len({name[:2] for name in names}) == 1, "a line stays within its N and AQM"
        for name, y in zip(names, np.asarray(line.get_ydata(), dtype=float), strict=True):
            if not np.isnan(y):
                found[(*name, cls)] = float(y)
    assert found == pytest.approx(expected) and len(found) == 2 * 8 * 3 - 1
    ends = {str(bar.get_label()): bar.get_segments() for bar in axes.collections}  # type: ignore[attr-defined]
    assert len(ends["_dctcp-5, bars"]) == 24
    for (x, low), (_, high) in ends["_dctcp-5, bars"]:
        assert (low, high) == pytest.approx(
            (expected[*where[x], "dctcp-5"] - 0.01, expected[*where[x], "dctcp-5"] + 0.02)
        )
    assert axes.get_ylim()[0] == 0
    check_layout(picture)


def test_panels_stand_below_each_other_and_axes_end_where_they_are_told() -> None:
    frame = cells().with_columns(y=pl.col("y") - 1)
    picture = figures.nested(frame, ("k", "n", "aqm"), "y", facet="cls", bottom=-0.5, top=1.05)
    assert [axes.get_title() for axes in picture.panels.values()] == ["bbr2-5", "dctcp-5"]
    assert len(picture.grid) == 2 and len(picture.grid[0]) == 1
    assert all(axes.get_ylim() == (-0.5, 1.05) for axes in picture.panels.values())
    assert not picture.legends
    check_layout(picture)
    [axes] = figures.nested(frame.filter(pl.col("cls") == "dctcp-5"), ("k", "n", "aqm"), "y").panels.values()
    assert axes.get_ylim()[0] < -0.9


def test_one_key_has_one_line_of_names() -> None:
    frame = pl.DataFrame({"k": [0.05, 0.5], "y": [1.0, 2.0]})
    picture = figures.nested(frame, ("k",), "y", log_y=True)
    [axes] = picture.panels.values()
    assert picture.under[axes] == [] and axes.get_yscale() == "log"
    check_layout(picture)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="several rows of k"):
        figures.nested(cells(), ("k", "n", "aqm"), "y")
    with pytest.raises(InputError, match="x is 4 keys; it must be 1 to 3"):
        figures.nested(cells(), ("k", "n", "aqm", "cls"), "y")
