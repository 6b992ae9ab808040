"""Interactive figures: the page says what the store says, needs no network, and its controls do what they are for."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Command
from dumbbell import Results, figures, plotting
from dumbbell.errors import InputError
from dumbbell.figures.canvas import PAGES
from dumbbell.results import aggregate
from test_choice import AQMS, BBR, CUBIC, RATES, VERSIONS, WEB, made
from website import browser

needs_chromium = pytest.mark.skipif(browser.find_program() is None, reason="Chromium is not installed")
RTTS = {"flows[*].base_rtt": ["5ms", "20ms", "40ms"]}


def spec_of(page: Path) -> dict[str, Any]:
    """Return the specification that a page has."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="spec">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    spec: dict[str, Any] = json.loads(found[1])
    return spec


def values(spec: dict[str, Any]) -> pl.DataFrame:
    """Return the data of a specification with one block."""
    return pl.DataFrame(spec["data"]["values"], infer_schema_length=None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder, known = tmp_path_factory.mktemp("stores"), dict[str, Results]()
    tables: dict[str, dict[str, Any]] = {
        "one": {"record": {"interval": "100ms", "trace": "10ms"}, "title": "One <run> & more"},
        "map": {"matrix": RATES | RTTS, "seeds": [1, 2]},
        "aqms": {"matrix": AQMS | RATES, "seeds": [1, 2, 3]},
        "versions": {"bottleneck": {"rate": "10Mbit", "aqm": "dualpi2"}, "matrix": VERSIONS, "seeds": [1, 2, 3]},
        "many": {"flows": [CUBIC | {"count": 12}, BBR], "matrix": AQMS},
        "web": {"flows": None, "web": WEB, "matrix": AQMS},
    }

    def of(name: str) -> Results:
        if name not in known:
            known[name] = made(folder / f"{name}.duckdb", **tables[name])
        return known[name]

    return of


def test_a_map_has_the_shares_of_the_store(store: Any, tmp_path: Path) -> None:
    results = store("map")
    shown = values(spec_of(figures.write(results.plot(), tmp_path / "x.html")))
    shares = results.tidy().filter(flow=0).group_by("bottleneck.rate_mbit", "flows[*].base_rtt_ms")
    expected = {(f"{x:g}", f"{y:g}"): share for y, x, share in shares.agg(pl.col("share").mean()).iter_rows()}
    found = {(x, y): value for x, y, value in shown.select("x", "y", "value").iter_rows()}
    assert found.keys() == expected.keys() and len(found) == 9
    assert all(found[place] == pytest.approx(expected[place], rel=1e-6) for place in found)
    assert {float(text) for text in shown["text"]} == {round(value, 2) for value in found.values()}


def test_lines_and_bars_have_means_and_intervals_of_the_store(store: Any) -> None:
    means = aggregate.compute_means(store("aqms")._runs, "sojourn").frame
    # time in a queue is never negative, and intervals of figures end at 0
    wanted = {
        (aqm, float(rate.removesuffix("Mbit"))): (m, max(low, 0.0), high)
        for aqm, rate, m, low, high in means.select(
            "bottleneck.aqm", "bottleneck.rate", "mean", "low", "high"
        ).iter_rows()
    }
    drawn = figures.make_spec(store("aqms").plot("lines", value="sojourn"))
    shown = values(drawn)
    assert shown.height == len(wanted) == 9
    for line, x, *three in shown.select("line", "x", "y", "low", "high").iter_rows():
        assert three == pytest.approx(list(wanted[line, x]), rel=1e-6)
    assert drawn["layer"][-1]["encoding"]["y"]["title"] == ["time in queue,", "mean, ms"]
    bars = values(figures.make_spec(store("aqms").plot("bars", value="sojourn", against="bottleneck.aqm")))
    assert sorted(bars["y"]) == pytest.approx(sorted(mean for mean, *_ in wanted.values()), rel=1e-6)
    tips = [one["title"] for one in drawn["layer"][-1]["encoding"]["tooltip"]]
    assert tips == ["what", "rate, Mbit/s", "time in queue, mean, ms", "from, ms", "to, ms"]


def test_boxes_and_ellipses_have_every_run(store: Any) -> None:
    results = store("aqms")
    runs = results.tidy("runs")
    boxes = values(figures.make_spec(results.plot("box", value="sojourn")))
    assert sorted(boxes["y"]) == pytest.approx(sorted(runs["sojourn_mean_ms"]), rel=1e-6)
    shown = values(figures.make_spec(results.plot(value=["sojourn", "utilisation"], kind="ellipses")))
    means = shown.filter(what="mean")
    by = ["bottleneck.aqm", "bottleneck.rate_mbit"]
    expected = runs.group_by(by).agg(pl.col("utilisation").mean().alias("m"), pl.col("utilisation").std().alias("s"))
    assert sorted(means["y"]) == pytest.approx(sorted(expected["m"]), rel=1e-6)
    spread = ((means["high_y"] - means["low_y"]) / 2).to_list()
    assert sorted(spread) == pytest.approx(sorted(expected["s"]), rel=1e-4, abs=1e-9)
    assert set(means["n"]) == {3}


def test_differences_are_those_of_diff(store: Any) -> None:
    results = store("versions")
    shown = values(figures.make_spec(results.plot("differences", value=["goodput", "rtt"])))
    found = results.diff(by="bottleneck.aqm.version=linux-6.17,tsfifo", values=["goodput", "rtt"]).frame
    assert sorted(shown["x"]) == pytest.approx(sorted(100 * value for value in found["change"]), rel=1e-6)
    assert sorted(shown["low"]) == pytest.approx(sorted(100 * value for value in found["change_low"]), rel=1e-6)
    assert shown["sure"].sum() == found["differs"].sum()


def test_distributions_have_every_flow(store: Any) -> None:
    many = store("many")
    spec = figures.make_spec(many.plot())
    assert len(spec["concat"]) == 2
    shown = pl.DataFrame(spec["concat"][0]["data"]["values"])
    of_one = shown.filter(pl.col("line") == "cubic, pfifo")
    goodput = many.tidy().filter(pl.col("bottleneck.aqm") == "pfifo", cc="cubic")["goodput_mbit"]
    assert sorted(of_one["x"].unique()) == pytest.approx(sorted(goodput.unique()), rel=1e-6)
    assert of_one["y"].max() == 1 and of_one["y"].min() == 0
    web = store("web")
    completion = pl.DataFrame(figures.make_spec(web.plot())["concat"][0]["data"]["values"])
    times = web.short_flows["completion_s"].drop_nulls()
    assert completion["x"].max() == pytest.approx(times.max(), rel=1e-6)


def test_time_series_have_every_point(store: Any) -> None:
    results = store("one")
    picture = results.plot()
    spec = figures.make_spec(picture)
    ribbons, panels = spec["vconcat"][0], spec["vconcat"][1]["vconcat"]
    assert {one["state"] for one in ribbons["data"]["values"]} == {state for state in results.trace["state"] if state}
    rates, srtt = (pl.DataFrame(panels[i]["data"]["values"]) for i in (0, 1))
    series = results.series.sort("flow", "time_s")
    assert rates.filter(line="cubic").sort("x")["y"].to_list() == pytest.approx(
        series.filter(flow=0)["goodput_mbit"].to_list(), rel=1e-6
    )
    tops = rates.group_by("x").agg(pl.col("top").max(), pl.col("y").sum())
    assert tops["top"].to_list() == pytest.approx(tops["y"].to_list(), rel=1e-6)
    own = series.filter(pl.col("flow") == 0, pl.col("srtt_ms") > 0)
    assert srtt.filter(line="cubic")["y"].to_list() == pytest.approx(own["srtt_ms"].to_list(), rel=1e-6)
    assert len(panels) == len(picture.around.y_labels)
    ceiling = panels[0]["layer"][2]["data"]["values"]
    assert {point["y"] for point in ceiling} == {10.0}
    shares = values(figures.make_spec(results.plot("shares")))
    assert shares.group_by("x").agg(pl.col("y").sum())["y"].to_list() == pytest.approx([1.0] * 20)


def test_what_a_slider_chooses_is_every_value(store: Any) -> None:
    results = store("map")
    options: dict[str, Any] = {"kind": "lines", "value": "goodput", "against": "flows[*].base_rtt", "by": "flow"}
    spec = figures.make_spec(results.plot(**options, slider="bottleneck.rate"))
    (param,) = spec["params"]
    assert param["bind"]["labels"] == ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"] and spec["usermeta"]["sliders"] == [
        "at_c0"
    ]
    shown = values(spec)
    assert set(shown["c0"]) == set(param["bind"]["options"]) and shown.height == 2 * 9
    assert spec["transform"] == [{"filter": "datum.c0 === at_c0"}]
    beside = figures.make_spec(store("aqms").where("seed=1").plot("series", slider="rate", value="goodput"))
    assert beside["params"][0]["bind"]["labels"] == ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"]
    with pytest.raises(InputError, match=r"slider: \.png has no slider; use -o x\.html"):
        figures.write(results.plot(**options, slider="bottleneck.rate"), "x.png")


@pytest.mark.parametrize("kind", ["lines", "series", "cdf", "box", "heat", "ellipses", "shares"])
def test_an_unknown_key_is_told_with_the_option_that_has_it(store: Any, kind: str) -> None:
    for option in ("slider", "by", "facet"):
        given: dict[str, Any] = {option: "rtae"}
        with pytest.raises(InputError, match=rf": {option}: unknown key rtae; did you mean rate\? Choose from"):
            store("aqms").plot(kind, **given)


def test_every_kind_of_plot_has_a_page() -> None:
    made_by = {"ccdf": "cdf", "ratio": "heat", "differences": "forest", "series": "stacked_series", "felt": "dots"}
    assert {made_by.get(kind, kind) for kind in plotting.KINDS} | {"dots"} == {*PAGES}
    nested = figures.nested(pl.DataFrame({"a": ["x", "y"], "v": [1.0, 2.0]}), ["a"], "v")
    with pytest.raises(InputError, match=r"nested has no interactive form; .*, forest, front, heat"):
        figures.make_page(nested)


def test_names_at_an_axis_are_those_of_the_figure() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.5, None], "g": ["a", "b", "b"], "y": [1.0, 2.0, 3.0], "r": [1.5, None, 2.5]})
    text = frame.with_columns(pl.col("x").cast(pl.String))
    for drawn in (
        figures.box(frame, "x", "y"),
        figures.bars(frame, "x", "y", group="g", reference="r"),
        figures.heat(frame, "x", "g", "y"),
        figures.shares(frame, "x", "y", by="g"),
        figures.lines(text, "x", "y", by="g", reference="r"),
    ):
        (axes, *_) = drawn.panels.values()
        shown = values(figures.make_spec(drawn))
        assert set(shown["x"]) == {label.get_text() for label in axes.get_xticklabels()}, drawn.source
    for drawn in (figures.lines(frame, "x", "y", log_y=True), figures.box(frame, "x", "y", log_y=True)):
        scale = figures.make_spec(drawn)["layer"][0]["encoding"]["y"]["scale"]
        assert scale["type"] == "log" and 0 < scale["domain"][0] < 1 and 3 < scale["domain"][1] < 4
    published = values(
        figures.make_spec(figures.lines(frame.drop_nulls("x"), "x", "y", reference="r", reference_name="s"))
    )
    assert published["reference"].to_list() == [1.5, None]


def test_a_page_explains_the_legend_where_there_is_one() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0, 1.0, 2.0], "g": ["a", "a", "b", "b"], "y": [1.0, 2.0, 3.0, 4.0]})
    words = "Click a name of the legend"
    assert words in figures.make_page(figures.lines(frame, "x", "y", by="g"))
    assert words not in figures.make_page(figures.heat(frame.with_columns(pl.col("x").cast(pl.String)), "x", "g", "y"))


def test_a_notebook_gets_a_specification_and_a_picture(store: Any, tmp_path: Path) -> None:
    figure = store("map").plot(interactive=True)
    bundle = figure._repr_mimebundle_()
    assert {"application/vnd.vegalite.v5+json", "text/plain"} < {*bundle}
    spec = bundle["application/vnd.vegalite.v5+json"]
    assert json.loads(json.dumps(spec)) == spec and spec["data"]["values"]
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert figure.save(tmp_path / "x.html").read_text().startswith("<!doctype html>")
    assert figure.save(tmp_path / "x.svg").read_text().startswith("<?xml")


def test_the_command_writes_a_page_or_says_why_not(store: Any, tmp_path: Path, command: Command) -> None:
    path = store("one").path
    done = command("plot", path, "-o", "x.html")
    assert done.returncode == 0 and done.stderr.startswith("x.html\nkind series")
    text = (tmp_path / "x.html").read_text()
    assert "One &lt;run&gt; &amp; more" in text and "<run>" not in text
    assert not re.search(r"(?:src|href)=\"https?:", text)
    wrong = command("plot", path, "-o", "x.gif")
    assert wrong.returncode == 2 and "ends in .png, .svg, .pdf, .html" in wrong.stderr
    assert "no folder" in command("plot", path, "-o", "none/x.html").stderr


@pytest.mark.slow
@needs_chromium
def test_pages_work_in_a_browser(store: Any, tmp_path: Path) -> None:
    lines: dict[str, Any] = {"kind": "lines", "value": ["goodput", "rtt"], "against": "flows[*].base_rtt", "by": "flow"}
    pictures = {
        "one": store("one").plot(),
        "map": store("map").plot(),
        "slider": store("map").plot(**lines, slider="bottleneck.rate"),
        "ellipses": store("aqms").plot(),
        "differences": store("versions").plot(),
        "many": store("many").plot(),
        "box": store("aqms").plot("box", value="sojourn", log_y=True),
        "ratio": store("map").plot("ratio", value="sojourn", baseline="bottleneck.rate=10Mbit"),
        "shares": store("aqms").plot("shares", against="bottleneck.aqm"),
        "beside": store("aqms").where("seed=1").plot("series"),
    }
    chromium = browser.find_program()
    assert chromium is not None
    with browser.open_browser(chromium) as page:
        for name, picture in pictures.items():
            path = figures.write(picture, tmp_path / f"{name}.html")
            sizes = [(browser.WIDE, False), *([(browser.NARROW, True)] if name in ("one", "slider", "many") else [])]
            for size, dark in sizes:
                page.set_window(size, dark=dark)
                page.open(path)
                page.evaluate(READY)
                assert page.evaluate("document.querySelectorAll('#chart canvas').length") == 1, name
                assert page.evaluate("document.documentElement.scrollWidth") <= size[0], (
                    f"{name}: wider than its window"
                )
            assert (page.errors, page.outside) == ([], []), name
        page.set_window(browser.WIDE)
        page.open(tmp_path / "slider.html")
        page.evaluate(READY)
        shown = page.evaluate(f"({MOVE})(2)")
        assert shown["said"] == "20 Mbit/s" and len(shown["rows"]) == 6
        means = aggregate.compute_means(store("map")._runs, "goodput").frame.filter(
            pl.col("bottleneck.rate") == "20Mbit"
        )
        assert sorted(shown["rows"]) == pytest.approx(sorted(means["mean"]), rel=1e-6)
        # the pointer over a cell of a map shows its value
        page.open(tmp_path / "map.html")
        page.evaluate(READY)
        place = page.evaluate(f"({CELL})('40', '20')")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=place["x"], y=place["y"])
        tip = page.evaluate(
            "new Promise(done => setTimeout(() => done(document.querySelector('.tip').innerText), 300))"
        )
        rows = store("map").tidy().filter(pl.col("flow") == 0, pl.col("bottleneck.rate_mbit") == 20)
        share = rows.filter(pl.col("flows[*].base_rtt_ms") == 40)["share"].mean()
        assert f"cubic's share of goodput in common time\t{share:.5g}" in tip and "base RTT, ms\t40" in tip
        # a wheel turned over the figure moves its axes
        page.open(tmp_path / "one.html")
        page.evaluate(READY)
        before, after = page.evaluate(f"({ZOOM})()")
        assert after[1] - after[0] < 0.9 * (before[1] - before[0])
        assert page.errors == []


READY = """
new Promise((done, fail) => {
  const end = Date.now() + 30000;
  const late = () => fail(new Error("no figure"));
  const look = () => dumbbell.view ? done(true) : Date.now() > end ? late() : setTimeout(look, 20);
  look();
})
"""
# sets the slider, and returns what it says and the values that the first panel draws
MOVE = """
async place => {
  const slider = document.querySelector("#controls input[type=range]");
  slider.value = place;
  slider.dispatchEvent(new Event("input"));
  await dumbbell.view.runAsync();
  const shown = new Set();
  const walk = item => {
    if (item.marktype === "symbol") for (const one of item.items) shown.add(one.datum.y);
    else for (const one of item.items ?? []) walk(one);
  };
  const groups = dumbbell.view.scenegraph().root.items[0].items;
  const first = groups.find(one => one.marktype === "group" && one.items.length);
  walk(first.items[0]);
  return { said: document.querySelector("#controls output").textContent, rows: [...shown] };
}
"""
# returns where in the window a cell of a map is
CELL = """
(x, y) => {
  const box = document.querySelector("#chart canvas").getBoundingClientRect();
  const [left, top] = dumbbell.view.origin();
  const at = (name, value) => dumbbell.view.scale(name)(value) + dumbbell.view.scale(name).bandwidth() / 2;
  return { x: box.left + left + at("x", x), y: box.top + top + at("y", y) };
}
"""
ZOOM = """
async () => {
  const scale = () => dumbbell.view.getState({ signals: name => name === "time_x" }).signals.time_x;
  const canvas = document.querySelector("#chart canvas");
  const box = canvas.getBoundingClientRect();
  const now = { clientX: box.left + 400, clientY: box.top + 110, bubbles: true, cancelable: true, deltaY: -400 };
  const series = dumbbell.data("spec").vconcat[1].vconcat[0].layer[0].encoding.x.scale.domain;
  canvas.dispatchEvent(new PointerEvent("pointermove", now));
  canvas.dispatchEvent(new WheelEvent("wheel", now));
  await new Promise(done => setTimeout(done, 200));
  await dumbbell.view.runAsync();
  return [series, scale()];
}
"""
