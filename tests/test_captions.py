"""Captions of the figures of studies say of how many runs they are, from the evidence that is drawn."""

import re

import polars as pl
import pytest

from dumbbell.pages import study
from dumbbell.pages.captions import describe_runs
from dumbbell.pages.evidence import Evidence

_WORDS = "two|three|four|five|six|seven|eight|nine|ten"
_SEVERAL = re.compile(rf"\b(?:[2-9]|[1-9]\d+|{_WORDS})(?: (?:to|and) \w+)? (?:seeds|runs|starts)\b", re.IGNORECASE)
_FIGURES = [(one, name) for one in study.list_studies() for name in study.find(one).figures]


def of_one_seed(found: Evidence) -> Evidence:
    """Return evidence as a quick run would leave it: with the first seed of every experiment alone."""
    tables = {
        name: frame.filter(pl.col("seed") == pl.col("seed").min())
        if "seed" in frame.columns
        else frame.with_columns(pl.lit(1).alias(one) for one in frame.columns if one == "seeds")
        for name, frame in found.tables.items()
    }
    return Evidence(tables, {name: {**one, "seeds": one["seeds"][:1]} for name, one in found.made.items()})


@pytest.mark.parametrize(("name", "figure"), _FIGURES)
def test_a_caption_of_one_seed_says_no_more(name: str, figure: str) -> None:
    chosen = study.find(name)
    title = chosen.figures[figure](of_one_seed(chosen.read_evidence())).around.title or ""
    assert not _SEVERAL.search(title), title


def test_what_points_are_follows_from_their_counts() -> None:
    assert describe_runs(pl.Series([4, 4]), seconds=[120.0]) == "mean and min-max of 4 runs of 120 s"
    assert describe_runs(pl.Series([3, 4]), "median", what="seed") == "median and min-max of 3 to 4 seeds"
    assert describe_runs(pl.Series([5]), spread="", what="seed") == "mean of 5 seeds"
    assert describe_runs(pl.Series([1, 1]), seconds=[60.0, 90.0]) == "one run of 60 to 90 s each"
