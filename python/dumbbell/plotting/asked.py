"""Requests for figures, and the limits of figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

FEW_LINES, MOST_LINES = 8, 24  # in a panel: that keys nobody chose may make, and in all
FEW_PANELS, MOST_PANELS = 9, 36
MOST_BESIDE = 4  # columns of time series


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


def set_facets(asked: PlotRequest, facet: Sequence[str]) -> PlotRequest:
    """Return what is asked for, with these keys as facets and no others."""
    return replace(asked, against=None, by=(), facet=tuple(facet))
