"""Ribbons of states above a figure over time: what a sender was in, one ribbon a sender."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from dumbbell.figures.canvas import Picture
from dumbbell.figures.palette import choose_state_looks
from dumbbell.figures.style import GUIDE

_HIGH, _APART = 0.13, 0.03  # inches: a ribbon, and what is between two


@dataclass(frozen=True)
class Band:
    """A stretch of time with a name, such as a state."""

    start: float
    end: float
    name: str


def find_bands(times: Iterable[float], names: Iterable[str | None], end: float) -> list[Band]:
    """Return the stretches of the same name, each up to the next, the last up to `end`; None has no stretch."""
    points = [(time, name) for time, name in zip(times, names, strict=True) if name is not None]
    first = [next(own) for _, own in groupby(points, key=lambda point: point[1])]
    ends = [*(time for time, _ in first[1:]), end]
    return [Band(time, until, name) for (time, name), until in zip(first, ends, strict=True)]


def draw_ribbons(picture: Picture, states: Mapping[str, Sequence[Band]], *, named: bool) -> float:
    """Draw a ribbon for each sender above the highest panels; return the room that they need, in inches.

    A state has one colour and one hatch in all ribbons, and its name in those of its stretches that are long enough.
    With `named` its sender's name is next to a ribbon; else the colours of a single one lie behind the lines of all
    panels, too. Raises InputError if there are more states than colours.
    """
    names = list(dict.fromkeys(band.name for own in states.values() for band in own))
    looks = choose_state_looks(names)
    for axes in (axes for axes in picture.grid[0] if axes is not None):
        for number, (sender, own) in enumerate(reversed(list(states.items()))):
            _draw_ribbon(picture, axes, sender if named else "", own, looks, _APART + number * (_HIGH + _APART))
    if len(states) == 1 and not named:
        [own] = states.values()
        for axes in picture.panels.values():
            limits = axes.get_xlim()
            for band in own:
                colour = looks[band.name][0]
                axes.axvspan(
                    band.start, band.end, facecolor=colour, alpha=0.6, linewidth=0.0, zorder=0.5, label=f"_{band.name}"
                )
            axes.set_xlim(*limits)
    for name, (colour, hatch) in looks.items():
        picture.add_entry(name, Patch(facecolor=colour, hatch=hatch, edgecolor="0.65", linewidth=0.0))
    return len(states) * (_HIGH + _APART) + _APART if states else 0.0


def _draw_ribbon(
    picture: Picture, axes: Axes, sender: str, own: Sequence[Band], looks: dict[str, tuple[str, str]], above: float
) -> None:
    """Draw one ribbon so many inches above a panel."""
    assert axes.figure is not None
    top = axes.figure.dpi_scale_trans + ScaledTranslation(0, 1, axes.transAxes)  # type: ignore[arg-type]  # any transform will do
    place = blended_transform_factory(axes.transData, top)
    low, high = axes.get_xlim()
    for band in own:
        start, end = max(band.start, low), min(band.end, high)
        if start >= end:
            continue
        colour, hatch = looks[band.name]
        axes.broken_barh(
            [(start, end - start)],
            (above, _HIGH),
            facecolor=colour,
            hatch=hatch,
            edgecolor="0.65",
            linewidth=0.0,
            transform=place,
            clip_on=False,
            label=f"_{band.name}, {sender}",
        )
        text = axes.text(
            (start + end) / 2,
            above + _HIGH / 2 - 0.005,
            "",
            transform=place,
            ha="center",
            va="center_baseline",
            fontsize="x-small",
        )
        text.set_bbox({"facecolor": colour, "linewidth": 0.0, "pad": 0.4})
        picture.stretches.append((text, (start, end), (band.name, band.name.rpartition("_")[2])))
    if sender:
        beside = axes.text(low, above + _HIGH / 2, f"{sender} ", transform=place, ha="right", va="center", color=GUIDE)
        beside.set_fontsize("small")
