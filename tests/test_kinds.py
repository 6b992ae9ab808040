"""A kind of figure is a file and a line in the table of kinds."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from dumbbell import figures, parse, plotting
from dumbbell.cli import completion
from dumbbell.cli.commands import carry_out
from dumbbell.engines.sweep import run
from dumbbell.errors import InputError
from dumbbell.figures import Picture, canvas
from dumbbell.plotting.kinds import KINDS, Kind, list_kinds
from dumbbell.plotting.request import PlotRequest
from dumbbell.results.results import StoredResults


def _page(options: Mapping[str, Any], labels: Mapping[str, Any], _: Sequence[str]) -> dict[str, Any]:
    values = options["frame"].select("mean").to_dicts()
    return {"data": {"values": values}, "mark": {"type": "point"}, "encoding": {"x": {"title": labels["x"]}}}


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a kind: its file, and its line."""
    monkeypatch.setattr(canvas, "PAGES", {**canvas.PAGES})

    @canvas.make_drawing(page=_page)
    def dots(frame: pl.DataFrame) -> Picture:
        picture, [panel] = canvas.spread(frame, {})
        panel.axes.plot(frame["mean"], [0] * frame.height, "o")
        picture.around.x_label = "goodput"
        return picture

    def draw(results: StoredResults, _: PlotRequest) -> Picture:
        return dots(results.flows.select(mean="goodput_mbit"))

    file = ModuleType("dumbbell.plotting.scratch")
    file.DOTS = Kind("dots", draw, values="one", time=True, against=False)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, file.__name__, file)
    monkeypatch.setitem(KINDS, "dots", "scratch")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> StoredResults:
    table = {
        "duration": "1s",
        "bottleneck": {"rate": "10Mbit", "aqm": "pie"},
        "flows": [{"cc": "cubic", "base_rtt": "20ms"}],
        "matrix": {"bottleneck.rate": ["5Mbit", "10Mbit"]},
    }
    path = tmp_path_factory.mktemp("kinds") / "results.duckdb"
    run([parse(table, "x.toml")], path)
    return StoredResults(path)


@pytest.mark.usefixtures("scratch")
def test_a_file_and_a_line_make_a_kind(
    results: StoredResults, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = plotting.plot(results, "dots", time=(0.0, 1.0))
    assert picture.source is not None and picture.source.kind == "dots"
    assert figures.write(picture, tmp_path / "dots.png").stat().st_size > 1000
    assert '"mark":{"type":"point"' in figures.make_page(picture).replace(" ", "")
    # refusals follow from the object, those of other kinds name the new one
    for wanted, message in (
        (
            {"value": ["goodput", "rtt"]},
            "2 measures are too many; one is allowed: kind dots shows one, lines, bars",
        ),
        (
            {"baseline": "rate=5Mbit"},
            "kind dots does not take a baseline; use kind lines, bars, box, heat, ratio or differences",
        ),
        ({"against": "rate"}, "rate and kind dots cannot be combined"),
        ({"kind": "lines", "time": (0.0, 1.0)}, "kind lines does not take a time; use kind series, shares or dots"),
        ({"kind": "dost"}, "unknown kind dost; did you mean dots"),
    ):
        given: dict[str, Any] = {"kind": "dots", **wanted}
        with pytest.raises(InputError) as error:
            plotting.plot(results, **given)
        assert message in str(error.value)
    # help and completion name it
    carry_out(["plot", "--help"])
    assert "front, dots." in " ".join(capsys.readouterr().out.split())
    assert completion.list_commands()["plot"].values["--kind"] == [*KINDS]


def test_every_kind_is_called_as_its_line() -> None:
    assert [kind.name for kind in list_kinds()] == [*KINDS] == [*plotting.KINDS]
