"""Which figure is drawn of results that nobody says anything of: by what varies in them, and by their traffic."""

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import dumbbell
from conftest import Command, described
from dumbbell import Results, plotting
from dumbbell.errors import InputError
from dumbbell.figures import Picture, interactive
from dumbbell.plotting import choice, draw

CUBIC = {"cc": "cubic", "base_rtt": "20ms"}
BBR = {"cc": "bbr3", "base_rtt": "20ms", "start": {"uniform": ["0s", "200ms"]}}
AQMS = {"bottleneck.aqm": ["pfifo", "codel", "fq_codel"]}
RATES = {"bottleneck.rate": ["5Mbit", "10Mbit", "20Mbit"]}
WEB = [{"cc": "cubic", "base_rtt": "5ms", "arrivals": "200/s", "size": "3kB"}]
VERSIONS = {"bottleneck.aqm.version": ["linux-6.17", "tsfifo"]}
# what varies → the kind, and what decides
SHAPES: dict[str, tuple[dict[str, Any], str, str]] = {
    "one run": ({}, "series", "one run, as it went"),
    "two seeds": ({"seeds": [1, 2]}, "series", "the first seed is shown"),
    "many seeds": ({"seeds": [1, 2, 3, 4]}, "box", "4 runs differ in their seeds alone"),
    "two flows over rates and RTTs": (
        {"matrix": RATES | {"flows[*].base_rtt": ["5ms", "20ms"]}},
        "heat",
        r"two flows over bottleneck.rate and flows\[\*\].base_rtt",
    ),
    "every control with every other": (
        {"matrix": {f"flows[{i}].cc": ["cubic", "reno", "bbr1"] for i in (0, 1)}},
        "heat",
        r"two flows over flows\[0\].cc and flows\[1\].cc",
    ),
    "queue disciplines": (
        {"flows": [CUBIC | {"count": 2}], "matrix": AQMS, "seeds": [1, 2, 3]},
        "ellipses",
        "3 queue disciplines",
    ),
    "queue disciplines over rates": (
        {"flows": [CUBIC | {"count": 2}], "matrix": AQMS | RATES, "seeds": [1, 2, 3]},
        "lines",
        "3 queue disciplines.*over bottleneck.rate",
    ),
    "unlike flows over queue disciplines": (
        {"matrix": AQMS, "seeds": [1, 2]},
        "bars",
        "what each of the unlike flows gets; bottleneck.aqm has few values",
    ),
    "unlike flows over one queue with settings": (
        {"matrix": {"bottleneck.aqm": ["codel", {"name": "codel", "ecn": True}, {"name": "codel", "target": "20ms"}]}},
        "bars",
        "what each of the unlike flows gets; bottleneck.aqm has few values",
    ),
    "flows that are alike over two queue disciplines": (
        {"flows": [CUBIC | {"count": 2}], "matrix": {"bottleneck.aqm": ["pfifo", "codel"]}, "seeds": [1, 2]},
        "ellipses",
        "2 queue disciplines",
    ),
    "versions of an algorithm": (
        {"bottleneck": {"rate": "10Mbit", "aqm": "dualpi2"}, "matrix": VERSIONS, "seeds": [1, 2, 3]},
        "differences",
        "versions in bottleneck.aqm.version: what changes from linux-6.17 to tsfifo",
    ),
    "many flows": ({"flows": [CUBIC | {"count": 12}, BBR]}, "cdf", "13 flows per run"),
    "many flows over queue disciplines": (
        {"flows": [CUBIC | {"count": 12}, BBR], "matrix": AQMS},
        "cdf",
        "13 flows per run over bottleneck.aqm",
    ),
    "short flows": ({"flows": None, "web": WEB, "matrix": AQMS}, "cdf", "short flows over bottleneck.aqm"),
    "UDP": ({"flows": None, "udp": [{"rate": "1Mbit"}, {"rate": "64kbit", "size": "200B"}]}, "series", "one run"),
    "UDP over queue disciplines": (
        {"flows": [CUBIC], "udp": [{"rate": "1Mbit"}], "matrix": AQMS},
        "ellipses",
        "3 queue disciplines",
    ),
    "several hops": ({"hop": [{"name": "core", "rate": "8Mbit", "aqm": "pie"}]}, "series", "one run"),
    "one flow over rates": ({"flows": [CUBIC], "matrix": RATES}, "lines", "bottleneck.rate is a number"),
    "a parameter of a queue": (
        {"matrix": {"bottleneck.aqm.target": ["2ms", "5ms", "20ms"]}},
        "lines",
        "bottleneck.aqm.target is a number",
    ),
    "controls": ({"flows": [CUBIC], "matrix": {"flows[0].cc": ["cubic", "reno"]}}, "bars", r"flows\[0\].cc has few"),
}


def made(path: Path, **changes: Any) -> Results:
    table = described(
        **({"duration": "2s", "seeds": [1], "flows": [CUBIC, BBR], "record": {"interval": "100ms"}} | changes)
    )
    if "hop" in changes:
        table["flows"] = [one | {"route": ["bottleneck", "core"]} for one in table["flows"]]
    return dumbbell.run(table, output=path, progress=False)


class Shaped(NamedTuple):
    """Results, the figure that is drawn of them unasked, its kind and why it is that."""

    results: Results
    picture: Picture
    kind: str
    why: str


@pytest.fixture(scope="module", params=SHAPES, ids=lambda name: name.replace(" ", "-"))
def shaped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shaped:
    changes, kind, why = SHAPES[request.param]
    results = made(tmp_path_factory.mktemp("shape") / "r.duckdb", **changes)
    return Shaped(results, results.plot(), kind, why)


def test_a_shape_has_its_figure_and_the_line_says_why(shaped: Shaped) -> None:
    results, picture, kind, why = shaped
    assert picture.why is not None and "\n" not in picture.why
    assert re.match(f"kind {kind}: .*{why}.*; other figures: --", picture.why)
    assert picture.panels, "something is drawn"
    asked = results.plot(kind if kind != "heat" else "bars")
    assert asked.why is None, "who asks for a kind knows why"


def others(picture: Picture) -> list[dict[str, Any]]:
    """Return the options for other figures that a line names."""
    said = (picture.why or "").partition("; other figures: ")[2]
    commands = re.findall(r"--(?:kind|value|by|baseline) \S+(?: --(?:value|by|baseline) \S+)*", said.replace(",", " "))
    words = [shlex.split(command) for command in commands]
    return [{word.removeprefix("--"): value for word, value in zip(own[::2], own[1::2], strict=True)} for own in words]


def test_the_options_for_another_figure_draw_one(shaped: Shaped) -> None:
    results, picture, kind, _ = shaped
    found = others(picture)
    assert found
    for options in found:
        drawn = results.plot(**options)
        assert drawn.panels
        assert options.get("kind") != kind or "value" in options, f"{options} is another figure"


@pytest.mark.parametrize(
    ("matrix", "asked", "kind"),
    [
        (AQMS, {"value": "jain"}, "bars"),
        (AQMS | RATES, {"by": "aqm", "value": "jain"}, "lines"),
        (AQMS, {"by": "aqm", "value": "jain"}, "bars"),  # no number is left for a line
        (AQMS, {"facet": "aqm", "value": "goodput"}, "bars"),
        (AQMS, {"against": "aqm", "value": "goodput"}, "bars"),
        (RATES, {"value": "jain"}, "lines"),
        (RATES, {"value": ["jain", "sojourn"]}, "lines"),
        ({}, {"time": (0.5, 1.0)}, "series"),
    ],
)
def test_what_is_asked_for_has_other_figures_that_can_be_drawn(
    tmp_path: Path, matrix: dict[str, Any], asked: dict[str, Any], kind: str
) -> None:
    results = made(tmp_path / "r.duckdb", **({"matrix": matrix} if matrix else {}))
    picture = results.plot(**asked)
    assert (picture.why or "").startswith(f"kind {kind}: ")
    if kind == "lines":
        assert any(line.get_linestyle() != "None" for axes in picture.panels.values() for line in axes.lines)
    for options in others(picture):
        assert results.plot(**(asked | options)).panels, options


@pytest.mark.slow
def test_an_imported_run_lies_beside_its_simulation(tmp_path: Path, command: Command) -> None:
    file = Path(__file__).parent / "imports" / "upload.json"
    assert command("import", str(file), "--run", "-o", "both.duckdb").returncode == 0
    both = Results(tmp_path / "both.duckdb").engine("all")
    picture = both.plot()
    assert (picture.why or "").startswith("kind series: one run by import-4 and by ")
    assert all(len(row) == 2 for row in picture.grid)
    for key, axes in picture.panels.items():  # where the file has nothing to draw, that is said; where it has, not
        said = [text.get_text() for text in axes.texts]
        assert (not axes.lines and not axes.collections) == (said == ["not in the file"]), (key, said)
    assert any(not axes.lines for axes in picture.panels.values())
    assert '"not in the file"' in interactive.make_page(picture)
    for options in others(picture):
        assert both.plot(**options).panels
    # a tool that was not at the queue knows no packets: nothing of them is offered
    alone = both.where("engine_version=import-4").plot()
    assert (alone.why or "").startswith("kind series: one run") and not others(alone)


def test_an_option_and_its_value_stay_on_one_line_of_a_page(tmp_path: Path) -> None:
    picture = made(tmp_path / "r.duckdb", matrix=RATES, flows=[CUBIC]).plot()
    text = interactive.make_page(picture)
    assert "<code>--kind bars</code>" in text and "p code { white-space: nowrap; }" in text


def test_every_shape_is_one_of_the_kinds() -> None:
    assert {kind for _, kind, _ in SHAPES.values()} <= {*plotting.KINDS}
    assert {kind for _, kind, _ in SHAPES.values()} >= {"series", "heat", "ellipses", "differences", "cdf", "box"}


def test_the_command_prints_the_line(tmp_path: Path, command: Command) -> None:
    made(tmp_path / "r.duckdb", matrix=AQMS)
    done = command("plot", "r.duckdb", "-o", "a.png")
    assert done.returncode == 0 and done.stdout == ""
    first, line = done.stderr.splitlines()
    assert (
        first == "a.png" and line.startswith("kind bars: what each of the unlike") and "; other figures: --kind" in line
    )
    assert command("plot", "r.duckdb", "-o", "b.png", "--kind", "bars").stderr.splitlines() == ["b.png"]


def test_the_share_on_the_map_is_that_of_the_first_flow(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb", matrix=RATES | {"flows[*].base_rtt": ["5ms", "20ms"]})
    picture = results.plot()
    (axes,) = picture.panels.values()
    shown = axes.images[0].get_array()
    assert shown is not None
    first = results.tidy().filter(flow=0).sort("bottleneck.rate_mbit", "flows[*].base_rtt_ms")["share"].to_list()
    assert shown.ravel().tolist() == pytest.approx(first)
    assert (axes.images[0].norm.vmin, axes.images[0].norm.vmax) == (0, 1)
    assert picture.around.bar is not None
    label = picture.around.bar.get_ylabel().replace("\n", " ")
    assert label == "cubic's share of goodput in common time"


def test_rates_on_top_of_each_other_are_the_goodput(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb")
    picture = results.plot()
    top = picture.grid[0][0]
    assert top is not None
    edges = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in top.lines}
    series = results.series.sort("time_s", "flow")
    both = series.group_by("time_s", maintain_order=True).agg(pl.col("goodput_mbit").sum())["goodput_mbit"]
    assert edges["_cubic, edge"] == pytest.approx(series.filter(flow=0)["goodput_mbit"].to_list())
    upper = edges["_bbr3, edge"]
    # a flow that has not begun counts as nothing
    assert upper[5:] == pytest.approx(both.to_list()[5:]) and len(upper) == len(both)
    assert edges["capacity of the link"] == pytest.approx([10.0] * 20)
    with pytest.raises(InputError, match="rates on top of each other, of several runs"):
        made(tmp_path / "s.duckdb", matrix=RATES).plot("series", value="rates")


def test_the_change_on_the_figure_is_that_of_diff(tmp_path: Path) -> None:
    queue = {"rate": "10Mbit", "aqm": "dualpi2"}
    results = made(tmp_path / "r.duckdb", bottleneck=queue, matrix=VERSIONS, seeds=[1, 2, 3])
    picture = results.plot("differences", value=["goodput", "sojourn"], baseline="version=linux-6.17")
    (axes,) = picture.panels.values()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert sorted(names) == ["goodput, bbr3", "goodput, cubic", "time in queue, mean"]
    found = results.diff(by="bottleneck.aqm.version=linux-6.17,tsfifo", values=["goodput", "sojourn"]).frame
    changes = sorted(100 * value for value in found["change"])
    points = [np.asarray(line.get_xdata()).tolist() for line in axes.lines if line.get_linestyle() == "None"]
    shown = sorted(x for own in points for x in own)
    inside = [value for value in changes if abs(value) < 150]
    assert [value for value in shown if abs(value) < 150] == pytest.approx(inside)
    assert picture.around.x_label == "change from linux-6.17 to tsfifo, %"
    with pytest.raises(InputError, match="baseline is missing; give KEY=VALUE"):
        made(tmp_path / "s.duckdb", matrix=RATES).plot("differences")
    with pytest.raises(InputError, match=r"bottleneck\.rate and kind differences"):
        results.plot("differences", by="bottleneck.rate")


@pytest.mark.slow
def test_two_files_are_drawn_by_their_differences(tmp_path: Path, command: Command) -> None:
    first = made(tmp_path / "a.duckdb", seeds=[1, 2, 3], matrix=RATES)
    second = made(tmp_path / "b.duckdb", seeds=[1, 2, 3], matrix=RATES, bottleneck={"rate": "10Mbit", "aqm": "pie"})
    picture = first.plot(other=second, value="sojourn")
    found = first.diff(second, values=["sojourn"]).frame
    changes = sorted(100 * value for value in found["change"])
    points = [line for axes in picture.panels.values() for line in axes.lines if line.get_linestyle() == "None"]
    shown = sorted(x for line in points for x in np.asarray(line.get_xdata()).tolist())
    assert len(picture.panels) == 3 and shown == pytest.approx([value for value in changes if abs(value) < 150])
    assert picture.around.x_label == "change from a.duckdb to b.duckdb, %"
    done = command("plot", "a.duckdb", "b.duckdb", "-o", "d.html")
    assert done.stderr.splitlines()[0] == "d.html" and "kind differences: two results" in done.stderr
    for options in (("--kind", "bars"), ("--by", "bottleneck.rate"), ("--baseline", "rate=5Mbit")):
        refused = command("plot", "a.duckdb", "b.duckdb", "-o", "e.png", *options)
        assert refused.returncode == 2 and "two results" in refused.stderr


@pytest.mark.slow
def test_what_a_run_recorded_of_its_insides_is_drawn(tmp_path: Path) -> None:
    record = {"interval": "100ms", "trace": "10ms", "queue": ["p"]}
    results = made(tmp_path / "r.duckdb", bottleneck={"rate": "10Mbit", "aqm": "pie"}, record=record)
    picture = results.plot()
    assert picture.around.y_labels[0] == "goodput, Mbit/s" and picture.around.y_labels[-1] == "p of the queue"
    named = {name for name, _ in picture.entries}
    states = {state for state in results.trace["state"].unique() if state}
    assert states and states <= named
    hops = made(tmp_path / "h.duckdb", hop=[{"name": "core", "rate": "8Mbit", "aqm": "pie"}])
    assert {"bottleneck", "core"} <= {name for name, _ in hops.plot().entries}


def test_what_cannot_be_drawn_gives_way_to_what_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = made(tmp_path / "r.duckdb", matrix=AQMS)
    impossible = choice.Choice("heat", "", (), value=("jain",))
    possible = choice.Choice("bars", "it is possible", (choice.OtherFigure("--kind box"),))
    monkeypatch.setattr(draw, "list_choices", lambda *_: iter([impossible, possible]))
    assert (results.plot().why or "").startswith("kind bars: it is possible")
    monkeypatch.setattr(draw, "list_choices", lambda *_: iter([possible, impossible]))
    assert (results.plot().why or "").startswith("kind bars")
    monkeypatch.setattr(draw, "list_choices", lambda *_: iter([impossible]))
    with pytest.raises(InputError, match="fewer than two keys differ"):
        results.plot()
