"""Forest plots: estimates with intervals, one below another."""

import numpy as np
import polars as pl
import pytest

from dumbbell import figures
from dumbbell.errors import InputError

ROWS = pl.DataFrame(
    {
        "what": ["rate", "delay", "marks"],
        "change": [-5.0, 20.0, 300.0],
        "low": [-8.0, -1.0, 250.0],
        "high": [-2.0, 41.0, 350.0],
        "sure": [True, False, True],
    },
    schema_overrides={"what": pl.Enum(["rate", "delay", "marks"])},
)


def test_the_first_row_is_on_top_and_what_is_beyond_the_limits_is_an_arrow() -> None:
    picture = figures.forest(ROWS, "what", "change", low="low", high="high", sure="sure", limits=(-60, 60))
    (axes,) = picture.panels.values()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["marks", "delay", "rate"]
    drawn = {
        (line.get_marker(), line.get_markerfacecolor() == "white"): np.asarray(line.get_xydata()).tolist()
        for line in axes.lines
        if line.get_linestyle() == "None"
    }
    assert drawn == {("o", False): [[-5.0, 2.0]], ("o", True): [[20.0, 1.0]], (">", False): [[60.0, 0.0]]}


def test_an_estimate_has_one_row() -> None:
    with pytest.raises(InputError, match="several rows of what rate"):
        figures.forest(pl.concat([ROWS, ROWS]), "what", "change", low="low", high="high")
