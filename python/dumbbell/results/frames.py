"""Frames for other libraries: Polars is what this package has, pandas and Arrow what others want."""

from typing import Any, Literal

import polars as pl

from dumbbell.errors import Needs, UnknownName

To = Literal["polars", "pandas", "arrow"]
KINDS: tuple[To, ...] = ("polars", "pandas", "arrow")


def given(frame: pl.DataFrame, to: str) -> Any:
    """Return a frame as one of Polars, as a `pandas.DataFrame` or as a `pyarrow.Table`.

    Raises InputError if `to` is none of `KINDS`, or if pandas is not installed: dumbbell does not need it.
    """
    if to == "polars":
        return frame
    if to == "arrow":
        return frame.to_arrow()
    if to != "pandas":
        raise UnknownName(to, among=list(KINDS), key="to", what="library")
    try:
        return frame.to_pandas()
    except ModuleNotFoundError as error:
        raise Needs(f"the package {error.name}", f"pip install {error.name}", key='to="pandas"') from None
