"""Every kind of figure: it shows the numbers of its frame under their own names, and no text is cut off or covered."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch, PathPatch, Rectangle
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox
from PIL import Image, ImageChops

from dumbbell import figures
from dumbbell.errors import InputError
from dumbbell.figures import Picture, Series, frames, palette, style
from dumbbell.figures.canvas import reduce_colours
from dumbbell.results import columns
from studies.abe import paper as abe

CCS = ("cubic", "reno", "bbr", "dctcp-sce")
AQMS = ("codel", "fq_codel", "pie")
RTTS = (10, 20, 40, 80, 160, 320)


def groups(count: int) -> list[dict[str, Any]]:
    """Values of `by`: words, numbers, or both."""
    if count == 2:
        return [{"cc": cc} for cc in CCS[:2]]
    if count == 10:
        return [{"beta": round(0.5 + 0.05 * i, 2)} for i in range(10)]
    return [{"cc": cc, "target_ms": target} for cc in CCS for target in (1, 2, 5, 10, 20, 50)]


def label(group: dict[str, Any]) -> str:
    """The name of a group, written independently of the package."""
    words = {"cc": "{}", "beta": "beta {:g}", "target_ms": "target {:g} ms"}
    return ", ".join(words[name].format(value) for name, value in group.items())


def points(count: int, aqms: tuple[str, ...] = AQMS) -> pl.DataFrame:
    """A row for each group, AQM and base RTT, in no order, no two with the same numbers."""
    rng = np.random.default_rng(count)
    rows = [
        {**group, "aqm": aqm, "base_rtt_ms": rtt, "goodput_mbit": 5 + 0.01 * rtt + float(rng.random())}
        for group in groups(count)
        for aqm in aqms
        for rtt in RTTS
    ]
    y = pl.col("goodput_mbit")
    return (
        pl.DataFrame(rows)
        .with_columns(low=y - 0.3, high=y + 0.2, published=y + 0.1)
        .sample(fraction=1.0, shuffle=True, seed=1)
    )


def measures(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame twice, for goodput and, at other numbers, for a time."""
    names = pl.Enum(["throughput, Mbit/s", "mean time in queue, ms"])
    y = pl.col("goodput_mbit")
    halves = [
        frame.with_columns(pl.lit(name, dtype=names).alias("measure"), value=size * y).with_columns(
            low=pl.col("value") * 0.9, high=pl.col("value") * 1.1
        )
        for name, size in zip(names.categories, (1.0, 123.0), strict=True)
    ]
    return pl.concat(halves)


def of(frame: pl.DataFrame, **values: Any) -> pl.DataFrame:
    return frame.filter(*(pl.col(name) == value for name, value in values.items()))


def over_time(count: int) -> pl.DataFrame:
    time = np.linspace(0, 60, 121)
    rng = np.random.default_rng(count)
    return pl.concat(
        pl.DataFrame({"time_s": time, "goodput_mbit": rng.random(121), "cwnd": rng.integers(1, 50, 121)}).with_columns(
            **{name: pl.lit(value) for name, value in group.items()}
        )
        for group in groups(count)
    )


def seeds(count: int) -> pl.DataFrame:
    rng = np.random.default_rng(count)
    return pl.DataFrame(
        [
            {**group, "aqm": aqm, "seed": seed, "rtt_ms": 20 + 3 * i + float(a), "goodput_mbit": 9 - i / 5 + float(b)}
            for i, group in enumerate(groups(count))
            for aqm in AQMS
            for seed, (a, b) in enumerate(rng.random((8, 2)))
        ]
    )


def cells(count: int) -> pl.DataFrame:
    rng = np.random.default_rng(count)
    return pl.DataFrame(
        [
            {
                **group,
                "rate_mbit": rate,
                "base_rtt_ms": rtt,
                "error": float(rng.normal()),
                "ratio": float(rng.random() + 0.5),
            }
            for group in groups(count)
            for rate in (0.5, 1, 2, 5, 10, 25, 50, 100)[: 8 if count < 24 else 4]
            for rtt in (0, 2, 5, 10, 20, 40, 80, 160)[: 8 if count < 24 else 4]
        ]
    )


def by(count: int) -> list[str]:
    return list(groups(count)[0])


def stacked(count: int) -> Picture:
    rows = over_time(count)
    queue = of(rows, **groups(count)[0]).select("time_s", sojourn_mean_ms="goodput_mbit", ce_marks="cwnd")
    panels: list[Series | tuple[Any, ...]] = [
        Series(rows, "goodput_mbit", by(count)),
        Series(rows, "cwnd", by(count)),
        Series(queue, "sojourn_mean_ms", levels=[(0.5, "target")]),
        (queue, "ce_marks"),
    ]
    return figures.stacked_series(panels, marks=[(20, "10 Mbit/s"), (22, "5 Mbit/s"), (50, "a change of rate")])


KINDS: dict[str, Callable[[int], Picture]] = {
    "lines": lambda n: figures.lines(
        of(points(n), aqm="pie"), "base_rtt_ms", "goodput_mbit", low="low", high="high", by=by(n), reference="published"
    ),
    "names": lambda n: figures.lines(
        of(points(n), base_rtt_ms=20), "aqm", "goodput_mbit", low="low", high="high", by=by(n), reference="published"
    ),
    "facets": lambda n: figures.lines(
        points(n),
        "base_rtt_ms",
        "goodput_mbit",
        by=by(n),
        facet="aqm",
        title="Goodput over base RTT: " + 12 * "a long title ",
    ),
    "rows": lambda n: figures.lines(
        pl.concat([points(n), of(points(n), aqm="pie").with_columns(aqm=pl.lit("cake"))]).with_columns(
            rate_mbit=pl.col("aqm").replace_strict({"codel": 10, "fq_codel": 100, "pie": 10, "cake": 100})
        ),
        "base_rtt_ms",
        "goodput_mbit",
        by=by(n),
        facet="aqm",
        columns="rate_mbit",
    ),
    "bars": lambda n: figures.bars(
        of(points(n), base_rtt_ms=20), "aqm", "goodput_mbit", low="low", high="high", group=by(n), reference="published"
    ),
    "dots": lambda n: figures.dots(
        of(points(n), base_rtt_ms=20).with_columns(text=pl.col("goodput_mbit").round(1)),
        "aqm",
        "goodput_mbit",
        low="low",
        high="high",
        by=by(n),
        text="text",
        reference="published",
    ),
    "dots of measures": lambda n: figures.dots(
        measures(points(n)).filter(pl.col("base_rtt_ms") < 40),
        "aqm",
        "value",
        by=by(n),
        facet="base_rtt_ms",
        each="measure",
    ),
    "bars of three levels": lambda n: figures.bars(
        points(n).filter(pl.col("base_rtt_ms") < 60), "aqm", "goodput_mbit", group="base_rtt_ms", inner=by(n)
    ),
    "names within names": lambda n: figures.nested(
        points(n), ("base_rtt_ms", "aqm"), "goodput_mbit", low="low", high="high", by=by(n), words=("RTT", "AQM")
    ),
    "measures": lambda n: figures.lines(
        measures(points(n)), "base_rtt_ms", "value", low="low", high="high", by=by(n), facet="aqm", each="measure"
    ),
    "bars of measures": lambda n: figures.bars(
        of(measures(points(n)), base_rtt_ms=20), "aqm", "value", low="low", high="high", group=by(n), each="measure"
    ),
    "boxes of measures": lambda n: figures.box(measures(seeds(n)), "aqm", "value", by=by(n), each="measure"),
    "shares of measures": lambda n: figures.cdf(of(measures(seeds(n)), aqm="pie"), "value", by=by(n), each="measure"),
    "box": lambda n: figures.box(seeds(n), "aqm", "goodput_mbit", by=by(n)),
    "cdf": lambda n: figures.cdf(seeds(n), "rtt_ms", by=by(n), facet="aqm", columns=2),
    "ellipses": lambda n: figures.ellipses(of(seeds(n), aqm="pie"), "rtt_ms", "goodput_mbit", by=by(n)),
    "series": stacked,
    "shares": lambda n: figures.shares(of(points(n), base_rtt_ms=20), "aqm", "goodput_mbit", by=by(n)),
    "shares over time": lambda n: figures.shares(over_time(n), "time_s", "goodput_mbit", by=by(n)),
    "heat": lambda n: figures.heat(cells(n), "base_rtt_ms", "rate_mbit", "error", facet=by(n)),
    "ratios": lambda n: (
        figures.heat(cells(n), "base_rtt_ms", "rate_mbit", "ratio", facet=by(n)[-1:], columns=by(n)[:1], kind="ratio")
        if n == 24
        else figures.heat(cells(n), "base_rtt_ms", "rate_mbit", "ratio", facet=by(n), kind="ratio")
    ),
}


def legend(picture: Picture) -> dict[str, Any]:
    """The handles of the legend by their labels."""
    if not picture.legends:
        return {}
    [made] = picture.legends
    return dict(zip([text.get_text() for text in made.get_texts()], made.legend_handles, strict=True))


def look(artist: Any) -> tuple[Any, ...]:
    """What an artist looks like: colour, and marker and line style or hatching."""
    if isinstance(artist, Line2D):
        dashes = vars(artist)["_unscaled_dash_pattern"]
        return to_hex(artist.get_color()), artist.get_marker(), str(artist.get_linestyle()), str(dashes)
    colour = artist.get_facecolor()
    return to_hex(colour[0] if np.ndim(colour) > 1 else colour), artist.get_hatch() or ""


def named(axes: Axes) -> Iterator[tuple[str, Any]]:
    """The artists of a panel that have a name of a group."""
    for artist in [*axes.lines, *axes.patches, *axes.collections]:
        name = str(artist.get_label())
        if name and not name.startswith("_"):
            yield name, artist


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float)))


@pytest.mark.parametrize(("bands", "facet"), [(None, None), (True, None), (False, None), (None, "cc")])
def test_intervals_are_bands_where_a_panel_has_few_lines_or_as_asked(bands: bool | None, facet: str | None) -> None:
    names = ["cubic", "reno", "bbr1", "bbr2", "bbr3"]
    frame = pl.DataFrame({"x": [1, 2] * 5, "y": range(10), "cc": sorted(names * 2)}).with_columns(
        low=pl.col("y") - 1, high=pl.col("y") + 1
    )
    picture = figures.lines(frame, "x", "y", low="low", high="high", by="cc", bands=bands, facet=facet)
    kinds = {str(one.get_label()).rpartition(" ")[2] for axes in picture.panels.values() for one in axes.collections}
    assert kinds == {"interval" if bands or facet else "bars"}


def test_a_width_is_that_of_the_figure_unless_the_user_asked_for_one() -> None:
    frame = pl.DataFrame({"x": [1, 2], "y": [1, 2]})
    assert figures.lines(frame, "x", "y").set_width(5.0).get_size_inches()[0] == pytest.approx(5, abs=0.05)
    with figures.set_sizes(width=4.0):
        assert figures.lines(frame, "x", "y").set_width(5.0).get_size_inches()[0] == pytest.approx(4, abs=0.05)


@pytest.mark.parametrize("count", [2, 10, 24])
def test_lines_are_the_rows_of_their_names(count: int) -> None:
    frame = points(count)
    picture = figures.lines(
        frame, "base_rtt_ms", "goodput_mbit", low="low", high="high", by=by(count), facet="aqm", reference="published"
    )
    handles = legend(picture)
    assert list(handles) == [label(group) for group in sorted(groups(count), key=lambda g: tuple(g.values()))] + [
        "published"
    ]
    assert set(picture.panels) == {(aqm,) for aqm in AQMS}
    for (aqm,), axes in picture.panels.items():
        drawn = {str(line.get_label()): line for line in axes.lines}
        assert {name for name, _ in named(axes)} == set(handles) - {"published"}
        bars = {str(bar.get_label()): bar for bar in axes.collections}
        for group in groups(count):
            rows, name = of(frame, aqm=aqm, **group).sort("base_rtt_ms"), label(group)
            assert close(drawn[name].get_xdata(), rows["base_rtt_ms"])
            assert close(drawn[name].get_ydata(), rows["goodput_mbit"])
            assert look(drawn[name]) == look(handles[name])
            hollow = drawn[f"_{name}, reference"]
            assert close(hollow.get_ydata(), rows["published"]) and close(hollow.get_xdata(), rows["base_rtt_ms"])
            assert to_hex(hollow.get_markeredgecolor()) == look(handles[name])[0]
            if count <= 3:  # a band, or bars where several bands would cover each other, and never both
                corners = np.asarray(bars[f"_{name}, interval"].get_paths()[0].vertices, dtype=float)[:, 1]
                assert f"_{name}, bars" not in bars and close(
                    sorted(set(corners)), sorted([*rows["low"], *rows["high"]])
                )
                continue
            ends = np.array([segment[:, 1] for segment in bars[f"_{name}, bars"].get_segments()])  # type: ignore[attr-defined]
            assert f"_{name}, interval" not in bars and close(ends, rows.select("low", "high").to_numpy())
        assert axes.get_xscale() == "log" and [text.get_text() for text in axes.get_xticklabels()] == [*map(str, RTTS)]
    assert [axes.get_title() for axes in picture.panels.values()] == list(AQMS)


def test_each_measure_has_a_scale_of_its_own_and_its_own_rows() -> None:
    frame = measures(points(2))
    first, second = frame["measure"].unique(maintain_order=True)
    picture = KINDS["measures"](2)
    assert [first, second] == [picture.grid[i][0].get_ylabel().replace("\N{NO-BREAK SPACE}", " ") for i in (0, 1)]  # type: ignore[union-attr]
    assert [axes.get_title() for axes in picture.grid[0] if axes] == list(AQMS)
    for (measure, aqm), axes in picture.panels.items():
        for name, line in named(axes):
            rows = of(frame, measure=measure, aqm=aqm, cc=name).sort("base_rtt_ms")
            assert close(line.get_ydata(), rows["value"]) and close(line.get_xdata(), rows["base_rtt_ms"])
    limits = [{axes.get_ylim() for axes in row if axes} for row in picture.grid]
    assert [len(found) for found in limits] == [1, 1] and limits[0] != limits[1]
    assert len({axes.get_xlim() for axes in picture.panels.values()}) == 1
    shares = KINDS["shares of measures"](2)
    [row] = shares.grid
    assert [axes.get_xlabel() for axes in row if axes] == [first, second]
    assert len({axes.get_xlim() for axes in row if axes}) == 2 and len({axes.get_ylim() for axes in row if axes}) == 1
    many = pl.concat([measures(points(2)).with_columns(n=pl.lit(i)) for i in range(12)])
    with pytest.raises(
        InputError, match="facet: 12 panels side by side are too many; at most 6 are allowed: with several"
    ):
        figures.lines(many, "base_rtt_ms", "value", by=["cc", "aqm"], facet="n", each="measure")


@pytest.mark.parametrize("count", [2, 24])
def test_names_are_never_joined(count: int) -> None:
    frame = of(points(count), base_rtt_ms=20)
    [axes] = figures.lines(frame, "aqm", "goodput_mbit", by=by(count)).panels.values()
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert ticks == list(AQMS)
    for group in groups(count):
        line = next(line for line in axes.lines if line.get_label() == label(group))
        assert line.get_linestyle() == "None"
        for x, y in np.asarray(line.get_xydata()):
            assert y == of(frame, aqm=ticks[round(x)], **group)["goodput_mbit"].item()
    places = [float(x) for line in axes.lines for x in np.asarray(line.get_xdata(), dtype=float)]
    assert len(set(places)) == len(places)  # side by side


def test_bars_are_the_rows_of_their_names() -> None:
    frame = points(10).filter(pl.col("base_rtt_ms") < 60)
    picture = figures.bars(
        frame, "aqm", "goodput_mbit", low="low", high="high", group="base_rtt_ms", inner="beta", reference="published"
    )
    handles, [axes] = legend(picture), picture.panels.values()
    outer = {note.get_text(): note.xy[0] for lines in picture.under.values() for note in lines[0]}
    inner = list(zip(axes.get_xticks(), [text.get_text() for text in axes.get_xticklabels()], strict=True))
    found = 0
    for container in axes.containers:
        name = str(container.get_label())
        values = {str(s.get_label()): s for s in [*axes.lines, *axes.collections]}
        marks = dict(np.asarray(values[f"_{name}, reference"].get_xydata()).tolist())  # type: ignore[attr-defined]
        for bar in container:
            assert isinstance(bar, Rectangle) and look(bar) == look(handles[name])
            middle = bar.get_x() + bar.get_width() / 2
            aqm = min(outer, key=lambda text: abs(outer[text] - middle))
            rtt = min(inner, key=lambda tick: abs(tick[0] - middle))[1]
            row = of(frame, aqm=aqm, base_rtt_ms=int(rtt), beta=float(name.removeprefix("beta ")))
            assert bar.get_height() == row["goodput_mbit"].item()
            assert marks[min(marks, key=lambda x: abs(x - middle))] == row["published"].item()
            found += 1
    assert found == frame.height and set(handles) == {f"beta {0.5 + 0.05 * i:.3g}" for i in range(10)} | {"published"}


@pytest.mark.parametrize("count", [2, 10])
def test_dots_are_the_rows_of_their_names_and_lie_apart(count: int) -> None:
    frame = of(points(count), base_rtt_ms=20).with_columns(text=pl.col("goodput_mbit").round(2))
    picture = figures.dots(
        frame, "aqm", "goodput_mbit", low="low", high="high", by=by(count), text="text", reference="published"
    )
    handles, [axes] = legend(picture), picture.panels.values()
    ticks = dict(zip(axes.get_yticks(), [text.get_text() for text in axes.get_yticklabels()], strict=True))
    assert [ticks[at] for at in sorted(ticks, reverse=True)] == list(AQMS)
    lines = {str(line.get_label()): line for line in axes.lines}
    bars = {str(bar.get_label()): bar for bar in axes.collections}
    written = {text.xy[1]: text.get_text() for text in axes.texts if isinstance(text, Annotation)}
    places = []
    for group in groups(count):
        name = label(group)
        assert look(lines[name]) == look(handles[name]) and lines[name].get_linestyle() == "None"
        segments = {float(s[0, 1]): s[:, 0] for s in bars[f"_{name}, bars"].get_segments()}  # type: ignore[attr-defined]
        hollow = {y: x for x, y in np.asarray(lines[f"_{name}, reference"].get_xydata()).tolist()}
        for x, y in np.asarray(lines[name].get_xydata()).tolist():
            row = of(frame, aqm=ticks[round(y)], **group).row(0, named=True)
            assert (x, hollow[y], written[y]) == (row["goodput_mbit"], row["published"], f"{row['text']:.6g}")
            assert close(segments[y], [row["low"], row["high"]])
            places.append(y)
    assert len(set(places)) == len(places) == frame.height == len(written)
    ordered = [of(frame, aqm=ticks[round(y)])["aqm"][0] for y in sorted(places, reverse=True)]
    assert ordered == [aqm for aqm in AQMS for _ in range(count)]  # each row's marks lie within it


def test_dots_have_an_axis_for_each_measure_or_limits_that_are_asked() -> None:
    picture = KINDS["dots of measures"](2)
    assert [len(row) for row in picture.grid] == [2, 2]
    assert len({axes.get_xlim() for axes in picture.panels.values()}) == 2
    wide = points(2).filter(pl.col("base_rtt_ms") == 20).with_columns(goodput_mbit=10.0 ** pl.int_range(pl.len()))
    [axes] = figures.dots(wide, "aqm", "goodput_mbit", by="cc").panels.values()
    assert axes.get_xscale() == "log"
    [axes] = figures.dots(wide, "aqm", "goodput_mbit", by="cc", log_x=False, limits=(0, 5)).panels.values()
    assert axes.get_xscale() == "linear" and axes.get_xlim() == (0, 5)
    with pytest.raises(InputError, match="frame: there are several rows of cc"):
        figures.dots(points(2), "aqm", "goodput_mbit", by="cc")


def test_boxes_are_the_quartiles_of_their_rows() -> None:
    frame = seeds(10)
    picture = figures.box(frame, "aqm", "goodput_mbit", by="beta")
    handles, [axes] = legend(picture), picture.panels.values()
    ticks = list(zip(axes.get_xticks(), [text.get_text() for text in axes.get_xticklabels()], strict=True))
    boxes = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    assert len(boxes) == 30
    for box in boxes:
        name, outline = str(box.get_label()), np.asarray(box.get_path().vertices)
        aqm = min(ticks, key=lambda tick: abs(tick[0] - float(outline[:, 0].mean())))[1]
        values = of(frame, aqm=aqm, beta=float(name.removeprefix("beta ")))["goodput_mbit"]
        assert close(sorted(set(outline[:4, 1])), np.percentile(values, [25, 75]))
        assert look(box) == look(handles[name])
    drawn = [y for line in axes.lines if str(line.get_label()).endswith("points") for y in np.asarray(line.get_ydata())]
    assert sorted(drawn) == sorted(frame["goodput_mbit"])


def test_shares_of_values_and_of_bins() -> None:
    frame = seeds(2)
    picture = figures.cdf(frame, "rtt_ms", by="cc", facet="aqm")
    for (aqm,), axes in picture.panels.items():
        for name, line in named(axes):
            values = of(frame, aqm=aqm, cc=name)["rtt_ms"].sort()
            x, y = (np.asarray(data, dtype=float) for data in line.get_data())
            assert [float(y[x <= value].max()) for value in values] == pytest.approx([(i + 1) / 8 for i in range(8)])
            assert look(line) == look(legend(picture)[name])
    bins = pl.DataFrame(
        {"cc": ["a", "a", "a", "b", "a"], "from_x": [1.0, 2.0, 4.0, 3.0, 2.0], "packets": [1, 2, 4, 5, 1]}
    )
    [axes] = figures.cdf(bins, "from_x", weight="packets", by="cc", complementary=True).panels.values()
    lines = {name: np.asarray(line.get_xydata()).tolist() for name, line in named(axes)}
    # 8 packets of a: 1 from 1 to 2, 3 (two runs) from 2 to 3, 4 from 4 on, as far as the bin before it reaches
    assert lines == {"a": [[1, 1], [2, 7 / 8], [2, 7 / 8], [3, 0.5], [4, 0.5], [5, 0]], "b": [[3, 1], [4, 0]]}
    with pytest.raises(InputError, match="log_x: there is a value of 0"):
        figures.cdf(bins.with_columns(from_x=pl.lit(0.0)), "from_x", log_x=True)


def signed(value: float) -> str:
    return f"{value:z.2f}".replace("-", "\N{MINUS SIGN}")


def test_negative_numbers_have_a_minus_sign_and_limits_are_alike_on_both_sides() -> None:
    frame = of(cells(2), cc="cubic").with_columns(
        error=pl.when(pl.col("base_rtt_ms") == 0).then(-3.0).otherwise(1.0), low=pl.lit(-4.0), high=pl.lit(2.0)
    )
    made = [
        figures.heat(frame, "base_rtt_ms", "rate_mbit", "error"),
        figures.lines(frame, "base_rtt_ms", "error", by="rate_mbit", low="low", high="high"),
        figures.bars(of(frame, rate_mbit=1.0), "base_rtt_ms", "error"),
        figures.box(frame, "base_rtt_ms", "error"),
        figures.forest(of(frame, rate_mbit=1.0), "base_rtt_ms", "error", low="low", high="high"),
        figures.stacked_series([(of(frame, base_rtt_ms=0), "error")], x="rate_mbit"),
        figures.cdf(frame, "error"),
    ]
    assert made[0].panels[()].images[0].get_clim() == (-3, 3)
    for picture in made:
        check_layout(picture)
        texts = [text.get_text() for text, _ in drawn_texts(picture)]
        assert any(text.startswith("\N{MINUS SIGN}") for text in texts), texts
        assert not [text for text in texts if re.search(r"(?<![a-z0-9])-[0-9]", text)], texts


def test_maps_hold_the_cells_of_their_title() -> None:
    frame = of(cells(10), beta=0.5).with_columns(cc=pl.lit("one"))
    frame = pl.concat([frame, frame.with_columns(cc=pl.lit("two"), error=pl.col("error") * 2)])
    frame = frame.filter((pl.col("base_rtt_ms") != 5) | (pl.col("rate_mbit") != 25))
    picture = figures.heat(frame, "base_rtt_ms", "rate_mbit", "error", facet="cc")
    most = max(map(abs, frame["error"]))
    for (cc,), axes in picture.panels.items():
        assert axes.get_title() == cc
        [image] = axes.images
        grid = image.get_array()
        assert image.get_clim() == (-most, most) and grid is not None
        rates, rtts = (sorted(set(frame[name])) for name in ("rate_mbit", "base_rtt_ms"))
        written = {text.get_position(): text.get_text() for text in axes.texts}
        for (i, rate), (j, rtt) in itertools.product(enumerate(rates), enumerate(rtts)):
            rows = of(frame, cc=cc, rate_mbit=rate, base_rtt_ms=rtt)
            if rows.is_empty():
                assert np.ma.is_masked(grid[i, j]) and (j, i) not in written
            else:
                assert grid[i, j] == rows["error"].item() and written[j, i] == signed(rows["error"].item())
    first = picture.panels["one",]
    assert [text.get_text() for text in first.get_yticklabels()] == ["0.5", "1", "2", "5", "10", "25", "50", "100"]
    small = frame.with_columns(error=pl.col("error") / 1e3)
    check_layout(figures.heat(small, "base_rtt_ms", "rate_mbit", "error", facet="cc"))
    ratio = figures.heat(cells(2), "base_rtt_ms", "rate_mbit", "ratio", facet="cc", kind="ratio")
    low, high = ratio.panels["cubic",].images[0].get_clim()
    assert low * high == pytest.approx(1)


def test_a_map_of_the_same_names_begins_at_the_top_and_its_key_fills_the_last_place() -> None:
    names = pl.Enum(["Reno", "CUBIC", "BBRv1", "Prague"])
    rows = [
        {"queue": queue, "own": own, "other": other, "harm": 10.0 * i + 3 * j + 0.4}
        for queue in ("codel", "fq_codel", "pie")
        for (i, own), (j, other) in itertools.product(enumerate(names.categories), repeat=2)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"own": names, "other": names})
    picture = figures.heat(
        frame, "other", "own", "harm", facet="queue", columns=2, kind="percent", label="of its goodput alone, %"
    )
    check_layout(picture)
    axes, bar = picture.panels["codel",], picture.around.bar
    assert [text.get_text() for text in axes.get_yticklabels()] == [*reversed(names.categories)]
    written = {text.get_position(): text.get_text() for text in axes.texts}
    assert [written[j, 3 - j] for j in range(4)] == ["0", "13", "26", "39"]  # the diagonal, from the top left
    assert axes.images[0].get_clim() == (0, 100) and bar is not None
    place, last, first = (own.get_position() for own in (bar, picture.panels["pie",], picture.panels["fq_codel",]))
    assert first.x0 < place.x0 < place.x1 < first.x1 and last.y0 < place.y0 < place.y1 < last.y1
    spec = figures.make_spec(picture)["spec"]["layer"][0]["encoding"]["y"]
    assert spec["sort"] == list(names.categories)


def test_names_without_room_stand_in_two_lines_before_they_are_turned() -> None:
    for length, turned, lines in ((4, 0, 1), (14, 0, 2), (26, 40, 1)):
        names = [letter * length for letter in "abcdef"]
        with style.set_sizes(width=4.5):
            picture = figures.bars(pl.DataFrame({"x": names, "y": [1.0] * 6}), "x", "y")
        [axes] = picture.panels.values()
        check_layout(picture)
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert {label.get_rotation() for label in axes.get_xticklabels()} == {turned}
        assert turned or len({round(box.y1) for box in boxes}) == lines


def test_ellipses_are_mean_and_covariance() -> None:
    frame = of(seeds(24), aqm="pie")
    picture = figures.ellipses(frame, "rtt_ms", "goodput_mbit", by=["cc", "target_ms"])
    [axes] = picture.panels.values()
    assert axes.xaxis_inverted() and len(legend(picture)) == 24
    shapes = {str(p.get_label()): p for p in axes.patches if isinstance(p, Ellipse)}
    for group in groups(24):
        xy = of(frame, **group).select("rtt_ms", "goodput_mbit").to_numpy()
        line = next(line for line in axes.lines if line.get_label() == label(group))
        assert close(line.get_xydata(), [xy.mean(axis=0)]) and look(line) == look(legend(picture)[label(group)])
        shape = shapes[f"_{label(group)}, ellipse"]
        # a point a standard deviation away, in any direction of the covariance
        turn = math.radians(shape.angle)
        axes_of = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
        squares = np.diag([(shape.width / 2) ** 2, (shape.height / 2) ** 2])
        assert close(axes_of.T @ squares @ axes_of, np.cov(xy.T)) and close(shape.center, xy.mean(axis=0))


def test_series_keep_names_colours_and_peaks() -> None:
    frame = over_time(10)
    picture = stacked(10)
    for i, column in enumerate(["goodput_mbit", "cwnd"]):
        drawn = dict(named(picture.panels[i,]))
        assert set(drawn) == set(legend(picture)) == {label(group) for group in groups(10)}
        for group in groups(10):
            rows, line = of(frame, **group).sort("time_s"), drawn[label(group)]
            assert close(line.get_xdata(), rows["time_s"]) and close(line.get_ydata(), rows[column])
            assert look(line) == look(legend(picture)[label(group)])
    time = np.linspace(0, 100, 300_001)
    heights = np.sin(time)
    heights[[12_345, 200_000]] = 9.0, -9.0
    [axes] = figures.stacked_series([(pl.DataFrame({"time_s": time, "srtt_ms": heights}), "srtt_ms")]).panels.values()
    kept = np.asarray(axes.lines[0].get_xydata())
    assert len(kept) <= 5000 and kept[:, 1].max() == 9 and kept[:, 1].min() == -9 and (np.diff(kept[:, 0]) > 0).all()
    assert set(map(tuple, kept)) <= set(zip(time, heights, strict=True))


@pytest.mark.parametrize(("frame", "x"), [(of(points(10), base_rtt_ms=20), "aqm"), (over_time(10), "time_s")])
def test_shares_add_up_to_one(frame: pl.DataFrame, x: str) -> None:
    picture = figures.shares(frame, x, "goodput_mbit", by="beta")
    [axes] = picture.panels.values()
    names, handles = sorted(set(frame[x])), legend(picture)
    whole = {name: of(frame, **{x: name})["goodput_mbit"].sum() for name in names}
    thick: dict[str, list[float]] = {}
    if x == "aqm":
        for container in axes.containers:
            thick[str(container.get_label())] = [bar.get_height() for bar in container]
            assert {look(bar) for bar in container} == {look(handles[str(container.get_label())])}
    else:
        for area in axes.collections:
            corners = np.asarray(area.get_paths()[0].vertices)
            thick[str(area.get_label())] = [
                float(np.ptp(corners[np.isclose(corners[:, 0], name), 1])) for name in names
            ]
            assert look(area) == look(handles[str(area.get_label())])
    assert list(reversed(thick)) == list(handles)  # as they lie one upon another
    for name, found in thick.items():
        rows = of(frame, beta=float(name.removeprefix("beta ")))
        assert close(found, [of(rows, **{x: at})["goodput_mbit"].item() / whole[at] for at in names])


def test_areas_with_room_for_their_names_need_no_legend_and_no_hatching() -> None:
    time = [float(second) for second in range(31)]
    wide = pl.concat(
        pl.DataFrame({"time_s": time, "goodput_mbit": [size + 0.3 * (i % 2) for i in range(31)]}).with_columns(
            cc=pl.lit(cc)
        )
        for cc, size in (("cubic", 5.0), ("bbr3", 3.0), ("prague", 4.0))
    )
    picture = figures.shares(wide, "time_s", "goodput_mbit", by="cc")
    check_layout(picture)
    [axes] = picture.panels.values()
    areas = {str(area.get_label()): np.asarray(area.get_paths()[0].vertices) for area in axes.collections}
    assert not picture.legends and {text.get_text() for text in axes.texts} == {*areas}
    assert not [area for area in axes.collections if area.get_hatch()]
    for text in axes.texts:
        x, y = text.get_position()
        own = areas[text.get_text()]
        heights = own[np.abs(own[:, 0] - float(x)) < 0.5, 1]
        assert heights.min() < float(y) < heights.max()
    thin = wide.with_columns(goodput_mbit=pl.when(cc="prague").then(0.05).otherwise("goodput_mbit"))
    assert set(legend(figures.shares(thin, "time_s", "goodput_mbit", by="cc"))) == {*areas}


def test_curves_with_room_beside_them_have_their_names_there() -> None:
    rng = np.random.default_rng(1)
    apart = pl.DataFrame(
        {"aqm": ["codel"] * 40 + ["pfifo"] * 40, "ms": [*(5 + rng.random(40)), *(400 + 50 * rng.random(40))]}
    )
    picture = figures.cdf(apart, "ms", by="aqm", log_x=True)
    check_layout(picture)
    [axes] = picture.panels.values()
    assert not picture.legends and {text.get_text() for text in axes.texts} == {"codel", "pfifo"}
    colours = {str(line.get_label()): to_hex(line.get_color()) for line in axes.lines}
    assert {text.get_text(): to_hex(text.get_color()) for text in axes.texts} == colours
    same = apart.with_columns(ms=pl.Series([*range(40), *range(40)], dtype=pl.Float64))
    assert set(legend(figures.cdf(same, "ms", by="aqm"))) == {"codel", "pfifo"}


def drawn_texts(picture: Picture) -> list[tuple[Text, Bbox]]:
    """Every text that can be seen, with its place in pixels."""
    renderer = picture.canvas.get_renderer()  # type: ignore[attr-defined]
    ticks = {
        label: tick in shown
        for axes in picture.axes
        for axis in (axes.xaxis, axes.yaxis)
        for shown in [axis._update_ticks()]  # type: ignore[union-attr]
        for tick in {*axis.get_major_ticks(), *axis.get_minor_ticks()}
        for label in (tick.label1, tick.label2)
    }
    seen = [t for t in picture.findobj(Text) if isinstance(t, Text) and t.get_visible() and t.get_text().strip()]
    seen = [text for text in seen if ticks.get(text, True)]
    return [(text, Text.get_window_extent(text, renderer)) for text in seen]


def check_layout(picture: Picture) -> None:
    picture.draw_without_rendering()
    with style.apply_style(picture.sizes):  # ticks depend on the size of text
        texts = drawn_texts(picture)
    whole = picture.bbox
    for text, box in texts:
        inside = box.x0 >= whole.x0 and box.y0 >= whole.y0 and box.x1 <= whole.x1 and box.y1 <= whole.y1
        assert inside, (text.get_text(), box, whole)
    upright = [(text, box) for text, box in texts if text.get_rotation() % 90 == 0]
    x0, y0, x1, y1 = np.array([box.extents for _, box in upright]).T
    over = (x0[:, None] < x1 - 0.5) & (x0 < x1[:, None] - 0.5) & (y0[:, None] < y1 - 0.5) & (y0 < y1[:, None] - 0.5)
    assert not (pairs := np.argwhere(np.triu(over, 1)).tolist()), [[upright[i][0].get_text() for i in p] for p in pairs]
    for axes in picture.axes:
        inner = axes.get_window_extent().padded(-1)
        own = set(axes.texts)
        covered = [text.get_text() for text, box in texts if text not in own and inner.overlaps(box)]
        assert not covered, covered
        for made in picture.legends:
            assert not inner.overlaps(made.get_window_extent())
    panels = [axes.get_window_extent().padded(-1) for axes in picture.axes]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(panels, 2))


def luminance(colour: str) -> float:
    """L* of CIE 1976."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    y = float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


@functools.cache
def of_two(kind: str) -> Picture:
    return KINDS[kind](2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_cut_off_or_covered_and_series_differ(kind: str) -> None:
    for count in (2, 10, 24):
        picture = of_two(kind) if count == 2 else KINDS[kind](count)
        check_layout(picture)
        handles = [handle for name, handle in legend(picture).items() if name != "published"]
        named = {text.get_text() for axes in picture.panels.values() for text in axes.texts}
        if kind == "shares over time" and not handles:
            assert named == {label(group) for group in groups(count)}
            continue
        assert kind in ("heat", "ratios", "ellipses") or len(handles) == count
        looks = [look(handle) for handle in handles]
        assert len(set(looks)) == len(looks)
        # in grey; where two keys differ, one decides the colour alone
        for one, other in itertools.combinations(looks if count < 24 else [], 2):
            assert one[1:] != other[1:] or abs(luminance(one[0]) - luminance(other[0])) > 6, (one, other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_has_the_width_of_a_column_or_what_is_asked(kind: str) -> None:
    width = of_two(kind).get_size_inches()[0]
    assert min(abs(width - style.SINGLE), abs(width - style.DOUBLE)) < 0.06
    with style.set_sizes(width=5.0, height=4.0):
        wide, high = KINDS[kind](2).get_size_inches()
    assert abs(wide - 5.0) < 0.06 and (abs(high - 4.0) < 0.06 or kind in ("heat", "ratios"))


def test_text_has_the_size_that_is_asked() -> None:
    with style.set_sizes(text=11):
        picture = KINDS["lines"](2)
    axes = next(iter(picture.panels.values()))
    assert axes.xaxis.label.get_fontsize() == 11
    check_layout(picture)
    usual = next(iter(KINDS["lines"](2).panels.values()))
    assert usual.xaxis.label.get_fontsize() == style.TEXT >= 6


def test_the_first_line_of_a_title_is_the_subject_and_the_rest_the_set_up() -> None:
    frame = of(points(2), aqm="pie")
    picture = figures.lines(frame, "base_rtt_ms", "goodput_mbit", by="cc", title="Goodput\n10 Mbit/s, PIE")
    check_layout(picture)
    subject, setting = (text for text in picture.texts if text.get_text() in ("Goodput", "10 Mbit/s, PIE"))
    assert subject.get_text() == "Goodput" and float(subject.get_fontsize()) > float(setting.get_fontsize())
    assert subject.get_position()[1] > setting.get_position()[1] and setting.get_color() != subject.get_color()


def test_a_unit_is_not_broken_from_what_it_belongs_to() -> None:
    frame = of(points(2), aqm="pie")
    label = "time in queue of Prague beside three flows of CUBIC, 99th percentile, ms"
    picture = figures.lines(frame, "base_rtt_ms", "goodput_mbit", by="cc", y_label=label)
    check_layout(picture)
    written = next(iter(picture.panels.values())).yaxis.label.get_text()
    assert "\n" in written and written.endswith("percentile,\N{NO-BREAK SPACE}ms")


def test_cells_without_data_are_blank_beside_numbers_and_hatched_elsewhere() -> None:
    frame = of(cells(2), cc="cubic").filter(pl.col("rate_mbit") != 5, pl.col("base_rtt_ms") != 5)
    some = pl.concat([frame, of(cells(2), cc="cubic", rate_mbit=5.0, base_rtt_ms=5)])
    picture = figures.heat(some, "base_rtt_ms", "rate_mbit", "error", limit=0.5)
    axes = next(iter(picture.panels.values()))
    assert axes.texts and not axes.patch.get_hatch() and to_hex(axes.get_facecolor(), keep_alpha=True)[7:] == "00"
    assert axes.images[0].get_clim() == (-0.5, 0.5)  # colours can end at a bar
    assert axes.images[0].get_cmap()(np.ma.masked_invalid([np.nan]))[0, 3] == 0  # what is behind can be seen
    rows = [{"x": x, "y": y, "error": float(x - y)} for x in range(12) for y in range(12) if x != 5 or y != 5]
    [large] = figures.heat(pl.DataFrame(rows), "x", "y", "error").panels.values()
    assert large.patch.get_hatch() and not large.texts


def test_a_negative_margin_is_red_and_a_negative_difference_blue() -> None:
    frame = pl.DataFrame({"x": [1, 2], "y": [1, 1], "value": [-1.0, 1.0]})
    for picture, sign in (
        (figures.heat(frame, "x", "y", "value", kind="margin", decimals=0), 1),
        (figures.heat(frame, "x", "y", "value", kind="difference"), -1),
    ):
        [axes] = picture.panels.values()
        red, _, blue, _ = axes.images[0].to_rgba(np.array([-1.0]))[0]
        assert sign * (red - blue) > 0.2 and axes.images[0].get_clim() == (-1.0, 1.0)
        assert [text.get_text().lstrip("\N{MINUS SIGN}") for text in axes.texts] == ["1" if sign > 0 else "1.00"] * 2


def test_lines_without_data_points_have_no_markers() -> None:
    drawn = [KINDS["series"](2), KINDS["cdf"](2), KINDS["shares over time"](2)]
    for picture in drawn:
        assert {str(line.get_marker()) for axes in picture.panels.values() for line in axes.lines} <= {"None", ""}


def test_the_users_figures_and_settings_stay_as_they_are(tmp_path: Path) -> None:
    plt.switch_backend("svg")
    try:
        mine, axes = plt.subplots()
        with mpl.rc_context({"font.size": 7, "axes.grid": False, "lines.linewidth": 9}):
            before = dict(mpl.rcParams)
            picture = KINDS["lines"](2)
            picture.savefig(tmp_path / "b.pdf")
            assert b"/Type3" not in (tmp_path / "b.pdf").read_bytes()
            figures.save(picture, tmp_path / "a.png")
            assert picture._repr_png_().startswith(b"\x89PNG")
            assert dict(mpl.rcParams) == before
            assert plt.get_fignums() == [mine.number] and plt.gcf() is mine and plt.gca() is axes
            assert mpl.get_backend() == "svg" and next(iter(picture.panels.values())).lines[0].get_linewidth() == 1.2
    finally:
        plt.close("all")
        plt.switch_backend("agg")


@pytest.mark.parametrize("name", ["a.png", "b.svg", "c.pdf"])
def test_a_file_says_its_kind(name: str, tmp_path: Path) -> None:
    picture = KINDS["lines"](2)
    one, two = (figures.save(picture, tmp_path / f"{number}{name}").read_bytes() for number in (1, 2))
    assert one[:4] in (b"\x89PNG", b"%PDF", b"<?xm") and one == two


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nodir/p.png", "nodir/p.png: cannot write: there is no folder nodir; choose a folder that exists"),
        ("p.jpg", "p.jpg: no figure is written as .jpg; use a file name that ends in .png, .svg, .pdf"),
        ("p", "p: no figure is written as a file without ending; use a file name that ends in .png, .svg, .pdf"),
        ("dir.png", "dir.png: cannot write: is a directory; choose a file that can be written to"),
    ],
)
def test_a_file_that_cannot_be_written(path: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir.png").mkdir()
    with pytest.raises(InputError) as error:
        figures.save(KINDS["lines"](2), path)
    assert said.startswith(str(error.value)) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"y": "goodput"}, "y: unknown column goodput; did you mean goodput_mbit. Choose from cc, aqm, base_rtt_ms, "),
        ({"y": "aqm"}, "y: column aqm is String; it must be a column of numbers"),
        ({"by": None}, "frame: there are several rows of aqm .*; use one row per point"),
        (
            {"facet": "base_rtt_ms", "columns": "goodput_mbit"},
            "facet: [0-9]+ panels are too many; at most 36 are allowed: filter",
        ),
    ],
)
def test_what_cannot_be_drawn(options: dict[str, Any], said: str) -> None:
    given = {"x": "base_rtt_ms", "y": "goodput_mbit", "by": "cc", "facet": "aqm"} | options
    with pytest.raises(InputError, match=said):
        figures.lines(points(2), **given)
    with pytest.raises(InputError, match="there are no rows"):
        figures.lines(points(2).clear(), "base_rtt_ms", "goodput_mbit", by="cc", facet="aqm")
    many = pl.DataFrame({"flow": range(99), "x": [1.0] * 99, "y": [1.0] * 99})
    with pytest.raises(InputError, match="by: 99 series are too many"):
        figures.lines(many, "x", "y", by="flow")


def test_other_frames_than_polars() -> None:
    arrow = points(2).to_arrow()
    [axes] = figures.lines(of(points(2), aqm="pie").to_arrow(), "base_rtt_ms", "goodput_mbit", by="cc").panels.values()
    assert {name for name, _ in named(axes)} == {"cubic", "reno"} and frames.convert_frame(arrow).height == points(
        2
    ).height
    with pytest.raises(InputError, match="frame is int"):
        frames.convert_frame(5)


def test_values_in_words_and_in_order() -> None:
    for name, value, said in [
        ("cc", "cubic", "cubic"),
        ("bottleneck.aqm.target", "5ms", "target 5 ms"),
        ("target_ms", 5.0, "target 5 ms"),
        ("flows[0].cc.beta_ecn", 0.85, "beta 0.85"),
        ("rate", "10Mbit", "rate 10 Mbit/s"),
        ("hosts.ecn", True, "ECN"),
        ("hosts.ecn", "false", "no ECN"),
        ("base_rtt_ms", 20, "base RTT 20 ms"),
    ]:
        assert figures.format_value(name, value) == said
    texts = pl.Series(["100ms", "2ms", "1s", "20us", "10ms"])
    assert frames.order_values(texts) == ["20us", "2ms", "10ms", "100ms", "1s"]
    assert frames.order_values(pl.Series([10, 2, 1])) == [1, 2, 10]
    assert frames.order_values(pl.Series(["flow 10", "flow 2", "cubic"])) == ["cubic", "flow 2", "flow 10"]
    assert frames.order_values(pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"]))) == ["b", "a"]
    assert frames.format_axis_label("queue_ms") == "queue, ms" and frames.format_axis_label("jain") == "Jain's index"
    assert frames.format_axis_label("share") == "share" and frames.format_axis_label("from_ms") == "from, ms"


def test_a_measure_of_results_has_one_label_in_tables_and_figures() -> None:
    differ = {
        name: (frames.format_axis_label(name), labels)
        for table in columns.COLUMNS.values()
        for name in table
        if "_" in name
        and len(labels := {columns.format_axis_label(name, of) for of, _ in columns.find(name)}) == 1
        and frames.format_axis_label(name) not in labels
    }
    assert not differ and frames.format_axis_label("sojourn_p99_ms") == "time in queue, P99, ms"


KEYS = {"NewReno": "reno", "CUBIC": "cubic", "CoDel": "codel", "PIE": "pie"}  # of what figures show


class MadeUp(abe.Results):
    """Results of studies/abe/experiments with numbers of which no two are alike."""

    def __init__(self) -> None:
        self.notes = []
        rng = np.random.default_rng(1)
        rows: list[dict[str, Any]] = []
        betas = {"reno": (0.5, 0.7, 0.8, 0.95), "cubic": (0.7, 0.8, 0.85, 0.95)}
        for name in abe.EXPERIMENTS:
            reductions = ("immediate", "prr") if name == "slow-start" else ("prr",)
            for cc, aqm, rtt, seed, reduction in itertools.product(
                betas, ("codel", "pie"), (20.0, 80.0), (1, 2), reductions
            ):
                for beta, rival in itertools.product(betas[cc], (False, True)):
                    rows.append(
                        {"key": str(len(rows)), "hash": str(len(rows)), "seed": 2 * seed + rival}
                        | {"experiment": name, "cc": cc, "aqm": aqm, "rtt": rtt, "beta": beta}
                        | {"abe": beta != abe.STANDARD[cc], "ecn": True, "rival_ecn": rival, "rate": 10.0 * seed}
                        | {"size": 200.0 * seed, "reduction": reduction}
                        | {
                            f: float(rng.random())
                            for f in ("goodput_total_mbit", "sojourn_p50_ms", "sojourn_p99_ms", "rate_ratio")
                        }
                        | {"convergence": float(rng.random()) if rng.random() < 0.7 else None}
                    )
        self.runs = pl.DataFrame(rows, infer_schema_length=None)
        keys = self.runs["key"]
        time = [0.0, 1.0, 2.0]
        series = [{"key": k, "time_s": t, "cwnd": int(rng.integers(2, 99))} for k in keys for t in time]
        queue = [{"key": k, "time_s": t, "sojourn_mean_ms": float(rng.random())} for k in keys for t in time]
        bins = [{"key": k, "from_ms": t, "packets": int(rng.integers(1, 99))} for k in keys for t in time]
        flows = [{"key": k, "completion_s": float(rng.random())} for k in keys]
        self._tables = {
            n: pl.DataFrame(t)
            for n, t in (("series", series), ("queue_series", queue), ("sojourn", bins), ("flows", flows))
        }

    def count_overshoots(self) -> pl.DataFrame:
        found = self.select_runs("slow-start")
        return found.with_columns(reductions=pl.col("key").cast(pl.Int64) % 17, left=pl.lit(40))


def lines_of(picture: Picture) -> dict[tuple[Any, ...], dict[str, list[list[float]]]]:
    """Points of every line that has a name, by panel and name; each line looks as its entry in the legend does."""
    check_layout(picture)
    handles = legend(picture)
    for axes in picture.panels.values():
        for name, line in named(axes):
            if name in handles:
                assert look(line)[:2] == look(handles[name])[:2], name
            else:  # its name is next to it
                ends = {tuple(note.xy) for note in picture.line_names.get(axes, ())}
                assert ends & {tuple(point) for point in line.get_xydata()} or not picture.line_names.get(axes), name
    colours = [
        look(handle)[:2] for handle in handles.values() if isinstance(handle, Line2D) and handle.get_marker() != "None"
    ]
    assert len(set(colours)) == len(colours)
    return {
        key: {name: np.asarray(line.get_xydata()).tolist() for name, line in named(axes)}
        for key, axes in picture.panels.items()
    }


def mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def test_gains_of_abe_under_their_own_beta() -> None:
    results = MadeUp()
    runs = results.select_runs("gain").rows(named=True)

    def goodputs(**wanted: Any) -> list[float]:
        return [r["goodput_total_mbit"] for r in runs if all(r[k] == v for k, v in wanted.items())]

    drawn = lines_of(abe.FIGURES["gain"](results))
    assert set(drawn) == {
        ("NewReno", "10 Mbit/s", "CoDel"),
        ("NewReno", "10 Mbit/s", "PIE"),
        *itertools.product(["CUBIC"], ["10 Mbit/s", "20 Mbit/s"], ["CoDel", "PIE"]),
    }
    for (called, link, queue), lines in drawn.items():
        cc, aqm, rate = KEYS[called], KEYS[queue], int(link.split()[0])
        standard = abe.STANDARD[cc]
        betas = {"reno": [0.5, 0.7, 0.8, 0.95], "cubic": [0.7, 0.8, 0.85, 0.95]}[cc]
        assert list(lines) == ["RTT 20 ms", "RTT 80 ms"]
        for rtt in (20, 80):
            assert [beta for beta, _ in lines[f"RTT {rtt} ms"]] == betas
            for beta, value in lines[f"RTT {rtt} ms"]:
                place = {"cc": cc, "rate": rate, "aqm": aqm, "rtt": rtt}
                one, other = goodputs(**place, beta=beta), goodputs(**place, beta=standard)
                assert len(one) == 2
                assert value == pytest.approx(mean([100 * (a / b - 1) for a, b in zip(one, other, strict=True)]))


def test_convergence_of_abe_ends_at_the_share_of_runs_that_converge() -> None:
    results = MadeUp()
    picture = abe.FIGURES["convergence"](results)
    every = results.select_runs("convergence")
    late = 0
    for (called, queue, rtt), lines in lines_of(picture).items():
        cc, aqm = KEYS[called], KEYS[queue]
        assert rtt == 80 and list(lines) == ["without ABE", "RFC 8511's beta"]
        never = []
        for beta, found in zip((abe.STANDARD[cc], abe.DEFAULTS[cc]), lines.values(), strict=True):
            runs = of(every, cc=cc, aqm=aqm, beta=beta, rtt=rtt)["convergence"]
            reached = sorted(runs.drop_nulls())
            assert found[0][1] == 0 and close([at for at, _ in found[1 : len(reached) + 1]], reached)
            assert close(
                [share for _, share in found[1:]][: len(reached)], [(i + 1) / len(runs) for i in range(len(reached))]
            )
            assert found[-1][1] == pytest.approx(len(reached) / len(runs))
            never += [f"{runs.null_count()} never"] if runs.null_count() else []
        late += len(never)
        notes = picture.line_names.get(picture.panels[called, queue, rtt], [])
        assert [note.get_text() for note in notes] == never
    assert late


@pytest.mark.slow
def test_other_figures_of_abe_under_their_own_names(tmp_path: Path) -> None:
    results = MadeUp()
    runs = results.select_runs("coexistence").filter(pl.col("cc") == "cubic")
    for (rival, queue), lines in lines_of(abe.FIGURES["ratio"](results)).items():
        assert list(lines) == ["RTT 20 ms", "RTT 80 ms", "mean"]
        here = of(runs, aqm=KEYS[queue], rival_ecn=rival.endswith("with ECN"))
        for name, found in lines.items():
            own = here if name == "mean" else of(here, rtt=float(name.split()[1]))
            for beta, value in found:
                assert value == pytest.approx(of(own, beta=beta)["rate_ratio"].mean())
    done = results.select_runs("short").join(results._tables["flows"], on="key")
    for (called, queue), lines in lines_of(abe.FIGURES["completion"](results)).items():
        cc, aqm = KEYS[called], KEYS[queue]
        assert set(lines) == {f"beta {b:g}" for b in ((0.7, 0.8, 0.95) if cc == "reno" else (0.8, 0.85, 0.95))}
        for name, found in lines.items():
            beta = float(name.removeprefix("beta "))
            for place, value in found:
                size = 1000 * place
                ratios = [
                    one / other
                    for rtt in (20.0, 80.0)
                    for one in of(done, cc=cc, aqm=aqm, size=size, rtt=rtt, beta=beta)["completion_s"]
                    for other in of(done, cc=cc, aqm=aqm, size=size, rtt=rtt, abe=False)["completion_s"]
                ]
                assert value == pytest.approx(sum(ratios) / len(ratios))
    [lines] = lines_of(abe.FIGURES["reductions"](results)).values()
    for beta, value in lines["simulated"]:
        overshoots = of(results.count_overshoots(), reduction="immediate", beta=beta)
        assert value == pytest.approx(overshoots["reductions"].mean())
    for (called, queue), lines in lines_of(abe.FIGURES["sojourn"](results)).items():
        cc, aqm = KEYS[called], KEYS[queue]
        rtt = 80.0
        for name, found in lines.items():
            beta = {"without ABE": abe.STANDARD[cc], "RFC 8511's beta": abe.DEFAULTS[cc], "beta 0.95": 0.95}[name]
            own = of(results.select_runs("gain"), cc=cc, aqm=aqm, rtt=rtt, beta=beta, rate=10)
            bins = (
                results._tables["sojourn"]
                .join(own, on="key", how="semi")
                .group_by("from_ms")
                .agg(pl.col("packets").sum())
            )
            for edge in (1.0, 2.0):
                share = sum(bins.filter(pl.col("from_ms") < edge)["packets"]) / sum(bins["packets"])
                assert [edge, pytest.approx(share)] in found
    series = results._tables["series"]
    of_runs = {
        key[0]: rows.select("time_s", "cwnd").rows() for key, rows in series.partition_by("key", as_dict=True).items()
    }
    for (title, panel), lines in lines_of(abe.FIGURES["slow-start"](results)).items():
        if panel == 0:
            [key] = [key for key, rows in of_runs.items() if [*map(list, rows)] == lines["cwnd"]]
            run = of(results.count_overshoots(), key=key).row(0, named=True)
            assert f"beta {run['beta']:g}, {run['rtt']:g} ms: {run['goodput_total_mbit']:.2f} Mbit/s" in title
            assert {y for _, y in lines["BDP"]} == {run["rate"] * 1e3 * run["rtt"] / 8 / 1514}
    drawn = abe.draw(results, tmp_path / "new", "abe-reductions", [".png", ".pdf"])
    assert drawn == [tmp_path / "new" / "abe-reductions.png", tmp_path / "new" / "abe-reductions.pdf"]
    with pytest.raises(InputError, match=r"FIGURE: unknown figure abe-reduction; did you mean abe-reductions"):
        abe.draw(results, tmp_path / "new", "abe-reduction")
    results.runs = results.runs.filter(pl.col("experiment") != "slow-start")
    with pytest.raises(InputError, match="unknown figure abe-reductions"):
        abe.draw(results, tmp_path / "new", "abe-reductions")
    assert [path.stem for path in abe.draw(results, tmp_path / "some", "abe-gain")] == ["abe-gain"]
    assert "Reductions" not in abe.format_tables(results) and "Gain in goodput" in abe.format_tables(results)


STATES = {
    "Linux": [figures.Band(0, 0.2, "startup"), figures.Band(0.2, 0.25, "drain"), figures.Band(0.25, 3, "cruise")],
    "simulator": [figures.Band(0, 0.25, "startup"), figures.Band(0.25, 2, "cruise")],
}


def of_states(states: dict[str, list[figures.Band]]) -> Picture:
    frame = pl.DataFrame({"time_s": np.linspace(0, 2, 50), "cwnd": np.linspace(10, 60, 50)})
    return figures.stacked_series(
        [(frame, "cwnd"), (frame, "cwnd")], states=states, marks=[(1, "rate"), (1.02, "and delay")], title="States"
    )


def test_ribbons_are_the_states_of_each_sender() -> None:
    picture = of_states(STATES)
    check_layout(picture)
    top = picture.grid[0][0]
    assert top is not None
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    heights: dict[str, set[float]] = {}
    for artist in top.collections:
        name, _, sender = str(artist.get_label()).removeprefix("_").partition(", ")
        outline = np.asarray(artist.get_paths()[0].vertices)
        found.setdefault((sender, name), []).append((outline[:, 0].min(), outline[:, 0].max()))
        heights.setdefault(sender, set()).add(outline[:, 1].min())
        handle = legend(picture)[name]
        assert look(artist)[1] == handle.get_hatch() and look(artist)[0] == look(handle)[0]
    # what ends after the figure does is cut
    assert found == {
        ("Linux", "startup"): [(0, 0.2)],
        ("Linux", "drain"): [(0.2, 0.25)],
        ("Linux", "cruise"): [(0.25, 2)],
        ("simulator", "startup"): [(0, 0.25)],
        ("simulator", "cruise"): [(0.25, 2)],
    }
    assert [len(at) for at in heights.values()] == [1, 1] and min(heights["Linux"]) > min(heights["simulator"])
    texts = [text.get_text().strip() for text in top.texts]
    assert texts.count("Linux") == texts.count("simulator") == 1 and texts.count("cruise") == 2
    assert "drain" not in texts, "a name that has no room is in the legend alone"
    assert list(legend(picture)) == ["startup", "drain", "cruise"]
    looks = [look(handle)[1] for handle in legend(picture).values()]
    assert len(set(looks)) == 3, "told apart in grey"
    assert not [patch for axes in picture.panels.values() for patch in axes.patches]
    alone = of_states({"one": STATES["Linux"]})
    check_layout(alone)
    for axes in alone.panels.values():  # of one sender, the colours lie behind the lines
        assert [str(patch.get_label()) for patch in axes.patches] == ["_startup", "_drain", "_cruise"]
    many = [figures.Band(i, i + 1, str(i)) for i in range(15)]
    with pytest.raises(InputError, match="states: 15 names are too many; at most 14 are allowed"):
        of_states({"one": many})


def test_stretches_of_states_are_of_the_points_with_the_same_name() -> None:
    made = figures.find_bands([0.0, 1.0, 2.0, 3.0, 4.0], ["a", "a", None, "b", "a"], 5.0)
    assert made == [figures.Band(0, 3, "a"), figures.Band(3, 4, "b"), figures.Band(4, 5, "a")]


def test_a_level_is_shown_wherever_it_lies() -> None:
    frame = of(points(2), aqm="pie").with_columns(goodput_mbit=pl.col("goodput_mbit") / 20)
    picture = figures.lines(frame, "base_rtt_ms", "goodput_mbit", by="cc")
    [axes] = picture.panels.values()
    low, high = axes.get_ylim()
    assert high < 0.9
    picture.draw_level(0.9, "half of the link")
    assert axes.get_ylim()[0] == low and axes.get_ylim()[1] > 0.9
    picture.draw_level(-0.2)
    assert axes.get_ylim()[0] < -0.2
    check_layout(picture.arrange())


def test_ticks_are_at_round_numbers() -> None:
    for most in (3, 10, 19, 24, 85, 250):
        frame = pl.DataFrame({"time_s": [0.0, 1.0], "y": [0.0, float(most)]})
        [axes] = figures.stacked_series([(frame, "y")]).panels.values()
        with style.apply_style():
            steps = {round(float(step), 9) for step in np.diff(axes.get_yticks())}
            low, high = axes.get_ylim()
            assert len([tick for tick in axes.get_yticks() if low <= tick <= high]) >= 3
        [step] = steps
        assert f"{step:e}"[0] in "125" and f"{step:.1e}"[2] == "0", steps
    narrow = pl.DataFrame({"x": ["a", "b"], "y": [0.65, 1.8]})
    [axes] = figures.lines(narrow, "x", "y", log_y=True).panels.values()
    low, high = axes.get_ylim()
    assert len([tick for tick in axes.get_yticks() if low <= tick <= high]) >= 3


def list_shown_numbers(axes: Axes) -> list[str]:
    low, high = sorted(axes.get_xlim())
    labels = zip(axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()], strict=True)
    return [text for at, text in labels if text and low <= at <= high]


def test_a_logarithmic_axis_shows_powers_of_ten_first_and_large_numbers_with_a_letter() -> None:
    frame = pl.DataFrame({"y": ["a", "b"], "x": [39.0, 5700.0]})
    with style.set_sizes(width=2.2):
        [axes] = figures.dots(frame, "y", "x").panels.values()
    assert list_shown_numbers(axes) == ["100", "1000"] and axes.get_xlim()[0] > 20  # not as far as a tick outside
    with style.set_sizes(width=6):
        [axes] = figures.dots(frame, "y", "x").panels.values()
    assert list_shown_numbers(axes) == ["50", "100", "200", "500", "1000", "2000", "5000"]
    [axes] = figures.dots(frame.with_columns(x=pl.Series([12.0, 2e6])), "y", "x").panels.values()
    assert list_shown_numbers(axes) == ["10", "100", "1k", "10k", "100k", "1M"]
    flows = pl.DataFrame({"flows": [1, 10, 100, 10_000, 100_000], "y": [1.0, 2, 3, 4, 5]})
    [axes] = figures.lines(flows, "flows", "y").panels.values()
    assert list_shown_numbers(axes) == ["1", "10", "100", "10k", "100k"]


def test_styles_of_as_many_series_as_allowed() -> None:
    made = palette.choose_styles([(number,) for number in range(style.MOST_SERIES)])
    assert len({(s.colour, s.marker, str(s.dashes)) for s in made}) == style.MOST_SERIES
    assert isinstance(Patch(hatch=made[-1].hatch), Patch)


def test_counts_of_an_interval_stand_before_their_point_and_windows_after() -> None:
    frame = pl.DataFrame({"time_s": [1.0, 2.0, 3.0], "drops": [4, 0, 2], "cwnd": [10, 20, 30]})
    fig = figures.stacked_series([figures.Series(frame, "drops"), figures.Series(frame, "cwnd")])
    styles = [
        line.get_drawstyle() for axes in fig.axes for line in axes.lines if len(np.asarray(line.get_xdata())) == 3
    ]
    assert styles == ["steps-pre", "steps-post"]


def test_time_begins_at_zero_but_where_a_part_of_it_is_drawn() -> None:
    frame = pl.DataFrame({"time_s": [0.1, 0.2, 0.3, 0.4], "y": [1.0, 2, 3, 4]})
    late = pl.DataFrame({"time_s": [0.6, 0.7, 5.0, 20.0], "y": [1.0, 2, 3, 4]})
    for rows, begins in ((frame, 0.0), (frame.filter(pl.col("time_s") > 0.15), 0.2), (late, 0.0)):
        [axes] = figures.stacked_series([figures.Series(rows, "y")]).panels.values()
        assert axes.get_xlim()[0] == pytest.approx(begins)


def test_a_png_has_a_palette_and_the_colours_of_the_figure(tmp_path: Path) -> None:
    drawn = Image.new("RGB", (64, 64), (255, 255, 255))
    for at in range(64):
        drawn.putpixel((at, at), (0, 114, 178))
    drawn.save(tmp_path / "a.png", dpi=(200, 200))
    reduce_colours(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as reduced:
        assert reduced.mode == "P" and reduced.info["dpi"] == pytest.approx((200, 200), abs=0.01)
        assert ImageChops.difference(reduced.convert("RGB"), drawn).getbbox() is None
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    clear.save(tmp_path / "clear.png")
    reduce_colours(tmp_path / "clear.png")
    with Image.open(tmp_path / "clear.png") as kept:
        assert kept.mode == "RGBA"


def test_names_of_lines_stand_at_their_ends_in_their_colours_and_do_not_touch() -> None:
    ends = {"cubic": 1.0, "reno": 1.01, "bbr3": 0.99, "prague": 0.2}
    rows = [{"x": x, "y": y + 0.1 * (3 - x), "cc": cc, "aqm": "pie"} for cc, y in ends.items() for x in (1.0, 2.0, 3.0)]
    picture = figures.lines(pl.DataFrame(rows), "x", "y", by="cc", facet="aqm")
    picture.name_lines({cc: f"{cc}, at its end" for cc in ends if cc != "reno"})
    assert [label for label, _ in picture.entries] == ["reno"]  # it keeps its place in the legend
    [axes] = picture.panels.values()
    found = {text.get_text().partition(",")[0]: text for text in axes.texts}
    assert set(found) == set(ends) - {"reno"}
    check_layout(picture)
    for cc, text in found.items():
        line = next(line for line in axes.lines if line.get_label() == cc)
        assert tuple(text.xy) == pytest.approx((3.0, ends[cc]))  # type: ignore[attr-defined]
        assert text.get_color() == style.TEXT_COLOURS[to_hex(line.get_color())]
    boxes = sorted((text.get_window_extent() for text in found.values()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 0.5 for below, above in itertools.pairwise(boxes))


def test_named_lines_can_be_solid_in_every_panel() -> None:
    rows = [
        {"x": x, "y": x, "cc": cc, "aqm": aqm} for cc in ("cubic", "reno") for aqm in ("pie", "red") for x in (1, 2)
    ]
    frame = pl.DataFrame(rows)
    for names, dashed in ((None, set()), ({"reno": "Reno"}, set()), ({"cubic": "CUBIC"}, {"reno"})):
        picture = figures.lines(frame, "x", "y", by="cc", facet="aqm").name_lines(names, solid=True)
        lines = [line for axes in picture.panels.values() for line in axes.lines]
        assert {line.get_label() for line in lines if line.get_linestyle() != "-"} == dashed


def test_text_in_the_colour_of_a_line_can_be_read_on_white() -> None:
    for colour in style.TEXT_COLOURS.values():
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        contrast = 1.05 / (float(np.dot(linear, (0.2126, 0.7152, 0.0722))) + 0.05)
        assert contrast >= 4.5, (colour, contrast)


def test_places_and_events_are_marked_where_they_are() -> None:
    frame = pl.DataFrame({"time_s": [0.0, 1.0, 2.0, 3.0], "cwnd": [1, 3, 2, 1]})
    picture = figures.stacked_series([figures.Series(frame, "cwnd")])
    [(key, axes)] = picture.panels.items()
    low = axes.get_ylim()[0]
    figures.mark_events(picture, key, [2.5, 0.5])
    [ticks] = axes.collections
    assert [tuple(segment[:, 0]) for segment in ticks.get_segments()] == [(0.5, 0.5), (2.5, 2.5)]  # type: ignore[attr-defined]
    assert all(segment[:, 1].max() < low for segment in ticks.get_segments())  # type: ignore[attr-defined]
    for x, side in ((0.4, "left"), (2.6, "right")):
        figures.mark_place(picture, key, x, f"at {x}")
        assert axes.texts[-1].get_horizontalalignment() == side and axes.lines[-1].get_xdata()[0] == x  # type: ignore[index]
    check_layout(picture.arrange())


def test_intervals_are_bands_where_they_are_asked_for() -> None:
    frame = points(10)
    options: dict[str, Any] = {"low": "low", "high": "high", "by": by(10), "facet": "aqm"}
    for bands in (True, False):
        picture = figures.lines(frame, "base_rtt_ms", "goodput_mbit", bands=bands, **options)
        kinds = {
            str(shown.get_label()).rpartition(", ")[2] for axes in picture.panels.values() for shown in axes.collections
        }
        assert kinds == ({"interval"} if bands else {"bars"})


def test_lines_of_shares_go_on_to_the_end_where_something_never_happened() -> None:
    frame = pl.DataFrame({"wait": [1.0, 2.0, math.inf, 1.0, 4.0], "cc": ["cubic"] * 3 + ["reno"] * 2})
    [axes] = figures.cdf(frame, "wait", by="cc").panels.values()
    found = {str(line.get_label()): np.asarray(line.get_xydata())[-1].tolist() for line in axes.lines}
    assert found == {"cubic": [4.0, pytest.approx(2 / 3)], "reno": [4.0, 1.0]}
