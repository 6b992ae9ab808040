"""Names at the ends of lines: each next to its own line, none over another, and none in the legend as well."""

import itertools

import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from dumbbell import figures
from dumbbell.figures.ends import spread_places


def make_frame(last: dict[str, float], panels: int = 2) -> pl.DataFrame:
    rows = [
        {"x": x, "y": end * x / 3, "cc": cc, "panel": panel}
        for cc, end in last.items()
        for x in (1, 2, 3)
        for panel in range(panels)
    ]
    return pl.DataFrame(rows)


def test_lines_are_named_at_their_ends_in_their_order_without_touching() -> None:
    last = {"cubic": 10.0, "reno": 10.1, "bbr3": 10.2, "prague": 3.0, "dctcp": 0.0}
    picture = figures.lines(make_frame(last), "x", "y", by="cc", facet="panel", direct="rows")
    assert not picture.legends and sorted(name for name, _ in picture.ends) == sorted(last)
    picture.draw_without_rendering()
    boxes = {name: Text.get_window_extent(note) for name, note in picture.ends}
    by_height = sorted(last, key=lambda name: last[name])
    for lower, upper in itertools.pairwise(by_height):
        assert boxes[lower].y1 <= boxes[upper].y0, (lower, upper)
    [width, height] = picture.get_size_inches() * picture.dpi
    for name, note in picture.ends:
        assert note.axes is picture.panels[1,]  # the last one
        assert note.xy == (3, last[name]) and boxes[name].y0 >= 0 and boxes[name].y1 <= height
        assert boxes[name].x0 > note.axes.get_window_extent().x1 and boxes[name].x1 <= width
        arrow = note.arrow_patch
        assert arrow is not None
        assert to_hex(arrow.get_edgecolor()) == picture.colours[name].lower()
    assert {line.get_linestyle() for line in picture.panels[0,].lines} == {"-"}  # names tell them apart


def test_every_panel_names_its_own_lines_and_the_legend_what_no_panel_names() -> None:
    frame = make_frame({"cubic": 1.0, "prague": 2.0})
    apart = frame.filter((pl.col("panel") == 0) == (pl.col("cc") == "cubic"))
    picture = figures.lines(apart, "x", "y", by="cc", facet="panel", direct="every")
    assert {name: note.axes for name, note in picture.ends} == {
        "cubic": picture.panels[0,],
        "prague": picture.panels[1,],
    }
    rows = figures.lines(apart, "x", "y", by="cc", facet="panel", direct="rows")
    assert [name for name, _ in rows.ends] == ["prague"]
    assert [text.get_text() for text in rows.legends[0].get_texts()] == ["cubic"]
    rows.draw_level(1.5, "limit")
    assert sorted(name for name, _ in rows.arrange().ends) == ["limit", "prague"]
    series = figures.stacked_series([figures.Series(frame.filter(panel=0), "y", "cc")], x="x", direct="rows")
    assert not series.legends and {line.get_linestyle() for line in series.panels[0,].lines} == {"-"}


def test_places_are_apart_in_order_and_near() -> None:
    assert spread_places([0.2, 0.8], [0.1, 0.1]) == [0.2, 0.8]
    assert spread_places([0.5, 0.5, 0.9], [0.1] * 3) == pytest.approx([0.45, 0.55, 0.9])
    assert spread_places([1.0, 0.99, 0.0], [0.2] * 3) == pytest.approx([1.0, 0.8, 0.0])
    assert spread_places([0.5, 0.5], [0.1, 0.3]) == pytest.approx([0.4, 0.6])  # one has three lines
    assert spread_places([0.0] * 4, [0.5] * 4) == pytest.approx([0.0, 0.5, 1.0, 1.5])  # more than there is room for
    assert spread_places([], []) == []
