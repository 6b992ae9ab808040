"""Requests for figures, and the limits of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from dumbbell.experiment import units

FEW_LINES, MOST_LINES = 8, 24  # in a panel: that keys nobody chose may make, and in all
FEW_PANELS, MOST_PANELS = 9, 36
MOST_BESIDE = 4  # columns of time series


class PlotOptions(TypedDict, total=False):
    """The options of a figure, except its kind and the results to compare with; `Results.plot` describes them."""

    value: str | Sequence[str] | None
    against: str | None
    by: str | Sequence[str] | None
    facet: str | Sequence[str] | None
    mean_over: str | Sequence[str] | None
    of: str | None
    baseline: str | None
    reference: str | Path | None
    time: str | tuple[float | str, float | str] | None
    slider: str | Sequence[str] | None
    log_x: bool | None
    log_y: bool | None
    title: str | None
    width: float | None
    height: float | None
    font_size: float | None


@dataclass(frozen=True)
class PlotRequest:
    """The request of a caller for a figure."""

    value: tuple[str, ...]
    against: str | None
    by: tuple[str, ...]
    facet: tuple[str, ...]
    """With those of `slider`."""
    slider: tuple[str, ...]
    mean_over: tuple[str, ...]
    of: str | None
    baseline: str | None
    time: tuple[float, float] | None
    log_x: bool | None
    log_y: bool

    @classmethod
    def from_options(cls, options: PlotOptions) -> PlotRequest:
        """Return the request that options make; raises InputError if the time is none."""
        names: dict[str, Any] = {
            name: list_names(options.get(name)) for name in ("value", "by", "facet", "slider", "mean_over")
        }
        others: dict[str, Any] = {name: options.get(name) for name in ("against", "of", "baseline", "log_x")}
        time = options.get("time")
        span = None if time is None else units.parse_span(time, "time")
        every = names | others | {"facet": names["facet"] + names["slider"]}
        return cls(**every, time=span, log_y=bool(options.get("log_y")))

    @property
    def keys(self) -> list[str]:
        """The keys that are wanted somewhere."""
        return [*([self.against] if self.against else []), *self.by, *self.facet]

    @property
    def options(self) -> dict[str, str]:
        """The option that asked for each of the keys."""
        places = {"--facet": self.facet, "--slider": self.slider, "--by": self.by}
        found = {name: option for option, names in places.items() for name in names}
        return found | ({self.against: "--against"} if self.against else {})


def set_facets(request: PlotRequest, facet: Sequence[str]) -> PlotRequest:
    """Return what is asked for, with these keys as facets and no others."""
    return replace(request, against=None, by=(), facet=tuple(facet))


def list_names(names: object) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else ()
