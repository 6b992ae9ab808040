"""The figure itself: a grid of panels, room for every text around it, and the file it goes to.

A figure has the width of one column of a paper or of two (`style.SINGLE`, `style.DOUBLE`), or of `set_sizes`;
its panels share what the texts leave. The first line of a title says the subject; what follows a line break is the
set-up, small and grey. The legend stands between title and panels.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, ParamSpec

import matplotlib as mpl
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Bbox

from dumbbell.errors import InputError, TooMany, Unfit, UnknownName, Unwritable
from dumbbell.figures import style
from dumbbell.figures.dark import add_dark_colours
from dumbbell.figures.frames import Groups, Layout, list_facets, list_names, order_values
from dumbbell.figures.labels import name_lines, spread_names
from dumbbell.keywords import list_keywords
from dumbbell.scratch import replace_whole
from dumbbell.writing import get_reason, make_folder

MOST_PANELS, MOST_ACROSS = 36, 6
SUFFIXES = (".png", ".svg", ".pdf")
_EDGE, _GAP, _DPI = 0.1, 0.16, 100.0  # inches, inches, dots an inch while measuring
_SAVED_DPI = 200.0
_LONGEST = 48  # characters of a line of the legend
_ALONE = 4.7  # inches: a single panel that would be as wide by itself has the width of a column
_ROUND_NAME = 3.0  # pixels, around the name of a stretch
_LEAST_WIDE, _LEAST_HIGH = 0.45, 0.5  # inches of a panel
_APART = 5  # dots between numbers at an axis
_PASSES = 4  # in which the panels find their width: what ticks need depends on it, and the other way round
_MANY_SERIES = 12  # a single panel with more is larger

P = ParamSpec("P")


@dataclass
class _Around:
    """The texts around the panels."""

    title: str | None = None
    x_label: str = ""
    y_labels: list[str] = field(default_factory=list)  # one for all, or one per row
    column_titles: list[str] = field(default_factory=list)
    row_titles: list[str] = field(default_factory=list)
    x_labels: list[str] = field(default_factory=list)  # one a column, where columns have axes of their own
    bar: Axes | None = None
    bar_label: str = ""
    bar_lies: bool = False  # in the last place of the grid, which has no panel


# of the arguments of a figure, the labels of its axes and the keys that sliders choose from: a specification of
# Vega-Lite
Page = Callable[[Mapping[str, Any], Mapping[str, Any], Sequence[str]], dict[str, Any]]
PAGES: dict[str, Page] = {}  # of the functions that draw, by their names


@dataclass(frozen=True)
class FigureSource:
    """The source of a figure: the function, all its arguments by their names, and what makes a page of them."""

    kind: str
    options: Mapping[str, Any]
    page: Page | None
    draw: Callable[..., "Picture"]


class Picture(Figure):
    """A figure with its panels by the values of their facets; a notebook shows it, `save` writes it.

    `entries` are label and handle of everything that the legend names. After a change of what is written anywhere,
    `arrange` makes room for it again.
    """

    def __init__(self, down: int, across: int, size: tuple[float, float]) -> None:
        super().__init__(dpi=_DPI)
        FigureCanvasAgg(self)
        self.panels: dict[tuple[Any, ...], Axes] = {}
        self.entries: list[tuple[str, Artist]] = []
        self.colours: dict[str, str] = {}  # of each group, by its label
        self.around = _Around()
        self.grid: list[list[Axes | None]] = [[None] * across for _ in range(down)]
        self.panel_size = size
        self.rigid = False  # whether panels keep their height, whatever their width
        self.sizes = style.get_sizes()
        self.title_pad = 6.0  # points
        self.hint: str | None = None  # what the caller may want to know, in addition to the figure
        self.source: FigureSource | None = None
        self.sliders: tuple[str, ...] = ()  # keys of panels that a page shows one value of at a time
        self.why: str | None = None  # of a figure that nobody asked for: its kind, the reason, the option for another
        self.under: dict[Axes, list[list[Annotation]]] = {}  # lines of names below the ticks, from the top
        self.line_names: dict[Axes, list[Annotation]] = {}  # names at the ends of lines, in place of a legend
        self.categories: set[Axes] = set()
        self._texts: list[Text] = []
        # names of stretches of x, from the longest, and the text that shows the first that has room
        self.stretches: list[tuple[Text, tuple[float, float], tuple[str, ...]]] = []
        self._waits = False  # for room for its texts

    def add_panel(self, row: int, column: int, key: tuple[Any, ...], *, share: tuple[Axes | None, Axes | None]) -> Axes:
        """Return new axes in a place of the grid, which share x and y with those given."""
        axes = self.add_axes((0.0, 0.0, 1.0, 1.0), sharex=share[0], sharey=share[1], label=f"{row},{column}")
        self.grid[row][column] = axes
        self.panels[key] = axes
        return axes

    def list_lowest(self) -> list[Axes]:
        """Return the lowest panel of each column, which has the numbers of the horizontal axis."""
        columns = zip(*reversed(self.grid), strict=True)
        return [axes for column in columns for axes in [next((a for a in column if a is not None), None)] if axes]

    def add_entry(self, label: str, handle: Artist) -> None:
        """Name something in the legend, once."""
        if label and label not in [known for known, _ in self.entries]:
            self.entries.append((label, handle))

    def add_groups(self, groups: Groups, make_handle: Callable[[style.Style], Artist]) -> None:
        """Name groups in the legend, if there are several."""
        if len(groups.keys) > 1:
            for label, own in zip(groups.labels, groups.styles, strict=True):
                self.add_entry(label, make_handle(own))

    def set_texts(self, layout: Layout, x: str, y: str, each: str | None = None) -> "Picture":
        """Write the title and the labels of the axes, `x` and `y` unless a layout has others; measures have theirs."""
        labels = {"x_label": x, "y_label": y} | {name: text for name, text in layout.items() if text is not None}
        self.around.title, self.around.x_label = layout.get("title"), str(labels["x_label"])
        if each is None:
            self.around.y_labels = [str(labels["y_label"])]
        return self

    def draw_level(self, value: float, label: str = "", dashes: Literal["-", "--", ":"] = "-") -> None:
        """Draw a reference line across every panel."""
        self._waits = True
        with style.apply_style(self.sizes):
            for axes in self.panels.values():
                low, high = axes.get_ylim()
                if not low <= value <= high:  # what the legend names can be seen
                    axes.set_ylim(min(low, value - 0.05 * (high - value)), max(high, value + 0.05 * (value - low)))
                axes.axhline(value, color=style.GUIDE, linewidth=0.9, linestyle=dashes, zorder=1.5, label=f"_{label}")
            self.add_entry(label, Line2D([], [], color=style.GUIDE, linewidth=0.9, linestyle=dashes))

    def draw_limit(self, value: float, label: str = "", dashes: Literal["-", "--", ":"] = "--") -> None:
        """Draw an upright reference line in every panel. Call `arrange` afterwards if it has a label."""
        with style.apply_style(self.sizes):
            for axes in self.panels.values():
                low, high = axes.get_xlim()
                axes.axvline(value, color=style.GUIDE, linewidth=0.9, linestyle=dashes, zorder=1.5, label=f"_{label}")
                axes.set_xlim(min(low, value), max(high, value))
            self.add_entry(label, Line2D([], [], color=style.GUIDE, linewidth=0.9, linestyle=dashes))

    def draw_band(self, low: float, high: float, label: str = "", x: tuple[float, float] | None = None) -> None:
        """Shade what lies between two values in every panel, all over or between two places `x`."""
        self._waits = True
        with style.apply_style(self.sizes):
            for axes in self.panels.values():
                span = x or (axes.get_xlim() if x is None else x)
                axes.fill_between(span, low, high, color="0.85", linewidth=0, zorder=0.5, label=f"_{label}")
            self.add_entry(label, Patch(color="0.85", linewidth=0))

    def draw_curve(self, x: Sequence[float], y: Sequence[float], label: str) -> None:
        """Draw a theoretical curve in black in every panel."""
        self._waits = True
        with style.apply_style(self.sizes):
            for axes in self.panels.values():
                axes.plot(x, y, color="black", linewidth=1.2, label=label, zorder=1.8)
            self.add_entry(label, Line2D([], [], color="black", linewidth=1.2))

    def name_lines(
        self,
        names: Mapping[str, str] | None = None,
        panels: Sequence[tuple[Any, ...]] | None = None,
        *,
        legend: bool = False,
        solid: bool = False,
    ) -> "Picture":
        """Write the names of lines at their right ends and not in the legend (see `labels.name_lines`), and arrange.

        With `solid` these lines have no dashes in any panel: their names distinguish them.
        """
        with style.apply_style(self.sizes):
            named = name_lines(self, names, panels, legend=legend)
            for axes in self.panels.values():
                for line in axes.lines if solid else ():
                    if line.get_label() in named:
                        line.set_linestyle("-")
        return self if self._waits else self.arrange()

    def arrange(self) -> "Picture":
        """Set the size of the figure so that no text is cut off or lies over another; return the figure."""
        self._waits = False
        with style.apply_style(self.sizes):
            _Arrangement(self).make()
        return self

    def set_title(self, title: str | None) -> "Picture":
        """Give the figure another title, or none, and make room for it."""
        self.around.title = title
        return self if self._waits else self.arrange()

    def set_width(self, inches: float) -> "Picture":
        """Make the figure so wide unless the user asked for a width, and make room for its texts."""
        if self.sizes.width is None:
            self.sizes = replace(self.sizes, width=inches)
        return self if self._waits else self.arrange()

    def _settle(self) -> None:
        """Make room for the texts of a figure that was drawn `unarranged`."""
        if self._waits:
            self.arrange()

    def draw(self, renderer: Any) -> None:
        """Draw with the ticks and sizes that room was made for, whatever the user's own settings are."""
        self._settle()
        with style.apply_style(self.sizes):
            super().draw(renderer)

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """See `Figure.savefig`; text stays text."""
        self._settle()
        with style.apply_style(self.sizes):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        out = BytesIO()
        self.savefig(out, format="png", dpi=_DPI)
        return out.getvalue()


def check_output(path: str | Path, endings: Sequence[str]) -> Path:
    """Return where a figure is written; raises InputError if the name has another ending, or the folder is missing."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        found = f"no figure is written as {path.suffix or 'a file without ending'}"
        raise Unfit(found, f"a file name that ends in {', '.join(endings)}", file=path)
    if not path.parent.is_dir():
        raise Unwritable(f"there is no folder {path.parent}", "a folder that exists", file=path)
    return path


def save(fig: Picture, path: str | Path) -> Path:
    """Write a figure as PNG, SVG or PDF, which its name says; raises InputError if that is not possible."""
    path = check_output(path, SUFFIXES)
    # no date: the same results give the same file
    dated = {"CreationDate": None} if path.suffix.lower() == ".pdf" else {"Date": None}
    metadata: dict[str, Any] = {} if path.suffix.lower() == ".png" else dated
    try:
        with replace_whole(path) as draft:
            svg = path.suffix.lower() == ".svg"
            fig.savefig(draft, dpi=_SAVED_DPI, metadata=metadata, facecolor="none" if svg else "white")
            if path.suffix.lower() == ".png":
                reduce_colours(draft)
            if svg:
                draft.write_text(add_dark_colours(draft.read_text(encoding="utf-8")), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Unwritable(get_reason(error), "a file that can be written", file=path) from None
    return path


def reduce_colours(path: str | Path) -> None:
    """Write a PNG file again with a palette of 256 colours, in about a third of the bytes; keep one with transparency.

    Lines, bars and text have few colours; those at their edges move by less than one sees.
    """
    from PIL import Image

    with Image.open(path) as image:
        opaque = "A" not in image.getbands() or image.getextrema()[-1] == (255, 255)
        dpi, drawn = image.info.get("dpi"), image.convert("RGB")
    if opaque:
        palette = drawn.quantize(256, Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
        palette.save(path, "PNG", optimize=True, dpi=dpi)


def save_all(
    made: Mapping[str, Callable[[], Picture]],
    folder: str | Path,
    only: str | None = None,
    formats: Sequence[str] = SUFFIXES[:1],
) -> list[Path]:
    """Write figures, or one of them, to a folder as NAME.png and so on; raises InputError if that is not possible."""
    if only is not None and only not in made:
        raise UnknownName(
            only, among=list(made) or "there are runs for none of this paper", key="FIGURE", what="figure"
        )
    make_folder(folder)
    paths = []
    for name, make in made.items():
        if only in (None, name):
            try:
                picture = make()
                paths += [save(picture, Path(folder) / f"{name}{ending}") for ending in formats]
            except InputError as error:
                raise error if error.file else error.move_into(name) from None
    return paths


_UNARRANGED: ContextVar[bool] = ContextVar("unarranged", default=False)


@contextmanager
def skip_arrangement() -> Iterator[None]:
    """Draw figures whose texts get their room when they are shown: those that become pages never need it."""
    token = _UNARRANGED.set(True)
    try:
        yield
    finally:
        _UNARRANGED.reset(token)


def make_drawing(page: Page | None = None) -> Callable[[Callable[P, Picture]], Callable[P, Picture]]:
    """Let a function draw in this package's look and make room for all texts afterwards.

    The figure keeps what it was drawn from, so that `page` can show the same.
    """

    def decorate(draw: Callable[P, Picture]) -> Callable[P, Picture]:
        named = list_keywords(Layout)(draw) if "layout" in signature(draw).parameters else draw
        known = signature(named)
        if page is not None:
            PAGES[draw.__name__] = page

        @wraps(named)
        def draw_arranged(*args: P.args, **kwargs: P.kwargs) -> Picture:
            given = known.bind(*args, **kwargs)
            given.apply_defaults()
            with style.apply_style():
                picture = draw(*args, **kwargs)
                if _UNARRANGED.get():
                    picture._waits = True
                else:
                    picture.arrange()
            picture.source = FigureSource(draw.__name__, given.arguments, page, draw_arranged)
            return picture

        return draw_arranged

    return decorate


@dataclass(frozen=True)
class Panel:
    """One panel: its axes, its rows of the frame, the values of its facets, and which of several measures it shows."""

    axes: Axes
    rows: pl.DataFrame
    key: tuple[Any, ...]
    measure: int = 0


def group_by_measure(panels: Sequence[Panel]) -> list[tuple[list[Panel], pl.DataFrame]]:
    """Return the panels of each measure, which have a scale in common, with their rows."""
    measures = sorted({panel.measure for panel in panels})
    each = [[panel for panel in panels if panel.measure == number] for number in measures]
    return [(own, pl.concat([panel.rows for panel in own])) for own in each]


def choose_panel_size(across: int, *, wide: float = 0.0, series: int = 1) -> tuple[float, float]:
    """Return width and height of a panel in inches when so many stand side by side; at least `wide`."""
    sizes = [(2.9, 2.0), (3.1, 2.1), (2.05, 1.6), (1.55, 1.35)]
    width, height = (5.2, 3.0) if across == 1 and series > _MANY_SERIES else sizes[min(across, 4) - 1]
    return max(width, wide), height


def spread(
    rows: pl.DataFrame,
    layout: Layout,
    *,
    wide: float = 0.0,
    series: int = 1,
    size: Callable[[int], tuple[float, float]] | None = None,
    shared: bool = True,
    most: int = MOST_PANELS,
    each: str | None = None,
    across_each: bool = False,
) -> tuple[Picture, list[Panel]]:
    """Return a figure with a panel for each combination of the facets of `layout`.

    Two facets without `columns` run down and across. Panels have common axes if `shared`.

    `each` is a column with names of measures: each has a row of panels with a vertical axis of its own, which its name
    labels, and facets run across. With `across_each` each has a column and a horizontal axis of its own instead.
    """
    down_names: Sequence[str] = list_names(layout.get("facet"))
    columns, facets = layout.get("columns"), list_facets(layout)
    if each is not None:
        down_names, columns = (facets, [each]) if across_each else ([each], facets)
        if not across_each and (wanted := len(Groups.from_frame(rows, facets).keys)) > MOST_ACROSS:
            found = f"{wanted} panels side by side"
            raise TooMany(found, f"at most {MOST_ACROSS}", "with several measures; filter the rows", key="facet")
    if columns is None and len(down_names) == 2:
        *down_names, columns = down_names
    if columns is None or isinstance(columns, int):
        groups = Groups.from_frame(rows, down_names)
        across = _count_across(len(groups.keys), columns)
        _check_panels(len(groups.keys), most)
        places = {key: divmod(i, across) for i, key in enumerate(groups.keys)}
        titles = dict(zip(groups.keys, groups.labels, strict=True)) if down_names else {}
        picture = Picture(-(-len(groups.keys) // across), across, (size or _choose_size(wide, series))(across))
        parts = list(zip(groups.keys, groups.split(rows), strict=True))
    else:
        down, over = Groups.from_frame(rows, down_names), Groups.from_frame(rows, columns)
        across = len(over.keys)
        _check_panels(len(down.keys) * across, most)
        picture = Picture(len(down.keys), across, (size or _choose_size(wide, series))(across))
        picture.around.column_titles = over.labels
        picture.around.row_titles = down.labels if down_names and len(down.keys) > 1 else []
        places, titles, parts = {}, {}, []
        for i, (upper, line) in enumerate(zip(down.keys, down.split(rows), strict=True)):
            for j, (key, part) in enumerate(zip(over.keys, over.split(line), strict=True)):
                if not part.is_empty():
                    places[upper + key] = (i, j)
                    parts.append((upper + key, part))
    panels: list[Panel] = []
    first: Axes | None = None
    firsts: dict[int, Axes] = {}
    for key, part in parts:
        row, column = places[key]
        measure = 0 if each is None else column if across_each else row
        own = firsts.get(measure)
        share = (own, first) if across_each else (first, own)
        axes = picture.add_panel(row, column, key, share=share if shared else (None, None))
        first = first or axes
        firsts.setdefault(measure, axes)
        if titles.get(key):
            axes.set_title(titles[key])
        panels.append(Panel(axes, part, key, measure))
    if each is not None:
        names = [str(value) for value in order_values(rows[each])]
        if across_each:
            picture.around.x_labels, picture.around.column_titles = names, []
        else:
            picture.around.y_labels, picture.around.row_titles = names, []
            picture.around.column_titles = Groups.from_frame(rows, facets).labels if facets else []
    return picture, panels


def _choose_size(wide: float, series: int) -> Callable[[int], tuple[float, float]]:
    return lambda across: choose_panel_size(across, wide=wide, series=series)


def _count_across(count: int, columns: int | None) -> int:
    if columns is not None:
        return max(1, min(columns, count))
    return count if count <= 3 else math.ceil(math.sqrt(count))


def _check_panels(count: int, most: int) -> None:
    if count > most:
        raise TooMany(f"{count} panels", f"at most {most}", "filter the rows, or use fewer facets", key="facet")


class _Arrangement:
    """Measures every text once and places panels, titles, labels, colour bar and legend; lengths in inches."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.renderer: RendererAgg = picture.canvas.get_renderer()  # type: ignore[attr-defined]
        self.width, self.height = picture.panel_size
        self.down, self.across = len(picture.grid), len(picture.grid[0])

    def _measure_size(self, artist: Artist) -> tuple[float, float]:
        box = artist.get_window_extent(self.renderer)
        return float(box.width) / _DPI, float(box.height) / _DPI

    def _fit(self, text: Text, room: float, *, upright: bool = False) -> None:
        """Break a text into lines that fit."""
        words = re.sub(r"\s*\n\s*", " ", text.get_text())
        text.set_text(words)
        needed = self._measure_size(text)[1 if upright else 0]
        if needed > room:
            # a unit stays with what it is the unit of
            words = re.sub(r"(?<=\d) (?=\S)|(?<=,) (?=\S+$)", "\N{NO-BREAK SPACE}", words)
            most = len(words) * room / needed  # characters of average width
            for share, breaks in ((1.0, False), (0.92, False), (0.85, False), (0.8, True)):
                text.set_text(textwrap.fill(words, max(8, int(most * share)), break_long_words=breaks))
                if self._measure_size(text)[1 if upright else 0] <= room:
                    break

    def _copy_text(self, text: str, **options: Any) -> Text:
        made = self.picture.text(0, 0, text, **options)
        self.picture._texts.append(made)
        return made

    def make(self) -> None:
        picture = self.picture
        natural_w, natural_h = picture.panel_size
        alone = self.across == 1 and natural_w <= _ALONE
        wanted = picture.sizes.width or (style.SINGLE if alone else style.DOUBLE)
        self.width = max(_LEAST_WIDE, (wanted - 0.7) / self.across - _GAP)
        self.height = natural_h
        for _ in range(_PASSES):
            if not picture.rigid and picture.sizes.height is None:
                self.height = natural_h * min(1.1, max(0.7, self.width / natural_w))
            around = self._measure(wanted)
            missing = wanted - around.width
            if picture.sizes.height is not None:
                self.height = max(_LEAST_HIGH, self.height + (picture.sizes.height - around.height) / self.down)
            if abs(missing) < 0.01 * self.across and picture.sizes.height is None:
                break  # nothing has changed since it was measured
            if abs(missing) < 0.01 * self.across and abs((picture.sizes.height or 0.0) - around.height) < 0.02:
                around = self._measure(wanted)
                break
            self.width = max(_LEAST_WIDE, self.width + missing / self.across)
        else:
            around = self._measure(wanted)
        self._place(around)
        self._name_stretches()

    def _name_stretches(self) -> None:
        """Write the names of stretches of x, or shorter ones, where they have room; the others only in the legend."""
        for text, ends, names in self.picture.stretches:
            assert text.axes is not None
            first, last = (text.axes.transData.transform((x, 0))[0] for x in ends)
            for name in (*names, ""):
                text.set_text(name)
                if not name or text.get_window_extent(self.renderer).width + _ROUND_NAME <= last - first:
                    break

    def _measure(self, wanted: float) -> "_Room":
        """Write every text, and return what it needs next to the panels."""
        picture = self.picture
        for old in [*picture._texts, *picture.legends]:
            old.remove()
        picture._texts = []
        picture.set_size_inches(self.across * (self.width + 1) + 3, self.down * (self.height + 1) + 1)
        total_w, total_h = picture.get_size_inches()
        for axes in picture.panels.values():
            axes.set_position((0.5, 0.5, self.width / total_w, self.height / total_h))
        self._hide_inner_ticks()
        self._fit_ticks()
        for names in picture.line_names.values():
            spread_names(names, {name: self._measure_size(name)[1] * _DPI for name in names}, _DPI)
        self._label_panels()
        return self._make_room(*self._measure_margins(), wanted)

    def _hide_inner_ticks(self) -> None:
        lowest = self.picture.list_lowest()
        for _, j, axes in self._list_places():
            axes.tick_params(labelleft=j == 0 or self._has_own_scale(axes), labelbottom=axes in lowest)

    def _has_own_scale(self, axes: Axes) -> bool:
        first = self.picture.grid[int(str(axes.get_label()).split(",")[0])][0]
        return first is None or not (axes is first or axes.get_shared_y_axes().joined(axes, first))

    def _list_places(self) -> list[tuple[int, int, Axes]]:
        return [
            (i, j, axes) for i, row in enumerate(self.picture.grid) for j, axes in enumerate(row) if axes is not None
        ]

    def _fit_ticks(self) -> None:
        """Turn names of categories that would overlap, leave out numbers that would."""
        done: list[Axes] = []
        for _, _, axes in reversed(self._list_places()):
            if not any(axes.get_shared_x_axes().joined(axes, other) for other in done):
                done.append(axes)
                self._fit_x_ticks(axes)
        for axes, lines in self.picture.under.items():
            labels = [label for label in axes.get_xticklabels() if label.get_text() and label.get_visible()]
            tallest = max((self._measure_size(label)[1] for label in labels), default=0.0)
            below = tallest * 72 + 9
            for line in lines:
                for name in line:
                    name.xyann = (name.xyann[0], -below)
                below += max(self._measure_size(name)[1] for name in line) * 72 + 3
            axes.xaxis.labelpad = below - tallest * 72 - 3

    def _list_boxes(self, axes: Axes) -> list[tuple[Text, Bbox]]:
        low, high = sorted(axes.get_xlim())
        labels = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        shown = [label for at, label in labels if label.get_text() and low <= at <= high]
        return sorted(((label, label.get_window_extent(self.renderer)) for label in shown), key=lambda pair: pair[1].x0)

    def _fit_x_ticks(self, axes: Axes) -> None:
        shared = axes.get_shared_x_axes()
        siblings = [other for other in self.picture.panels.values() if other is axes or shared.joined(axes, other)]
        if axes in self.picture.categories:
            self._fit_names(axes, siblings)
            return
        numbers = self._list_boxes(axes)
        shown = _choose_powers(numbers) if isinstance(axes.xaxis.get_major_locator(), LogLocator) else []
        if len(shown) < 2:
            shown = _choose_from_right(numbers)
        if len(shown) < len(numbers):
            low, high = sorted(axes.get_xlim())
            ticks = [at for at in axes.get_xticks() if low <= at <= high]  # others would widen the axis
            texts = [label.get_text() for label, _ in shown]
            labels = [
                label.get_text()
                for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
                if low <= at <= high
            ]
            axes.set_xticks(ticks, [text if text in texts else "" for text in labels])

    def _fit_names(self, axes: Axes, siblings: Sequence[Axes]) -> None:
        """Write names level if they have room, or else every second a line lower, or else turn them."""
        line = 1.3 * float(mpl.rcParams["xtick.labelsize"])
        ways = ((0, 0.0), (0, line), (40, 0.0), (90, 0.0))
        for turn, lower in ways if not self.picture.under else (ways[0], *ways[2:]):
            for other in siblings:
                for label in other.get_xticklabels():
                    label.set(rotation=turn, ha="right" if turn else "center", rotation_mode="anchor")
                    label.set_verticalalignment("center" if turn == 90 else "top")
                for i, tick in enumerate(other.xaxis.get_major_ticks()):
                    tick.set_pad(mpl.rcParams["xtick.major.pad"] + lower * (i % 2))
            boxes = [box for _, box in self._list_boxes(axes)]
            lines = [boxes[::2], boxes[1::2]] if lower else [boxes]
            if turn:
                apart = [later.x0 - earlier.x0 for earlier, later in pairwise(boxes)]
                if all(gap >= 0.17 * _DPI / math.sin(math.radians(turn)) for gap in apart):
                    return
            elif all(one.x1 + 4 <= other.x0 for boxes in lines for one, other in pairwise(boxes)):
                return

    def _label_panels(self) -> None:
        around, grid = self.picture.around, self.picture.grid
        for j, text in enumerate(around.column_titles):
            top = next((grid[i][j] for i in range(self.down) if grid[i][j] is not None), None)
            if top is not None:
                top.set_title(text, pad=self.picture.title_pad)
        lasts = [next((axes for axes in reversed(row) if axes is not None), None) for row in grid]
        beside = max([self._measure_texts(axes) for axes in lasts if axes], default=0.0) if around.row_titles else 0.0
        for text, last in zip(around.row_titles, lasts, strict=False):
            if last is not None:
                known = next((t for t in last.texts if t.get_gid() == "row title"), None)
                name = known or last.text(
                    1.0, 0.5, text, transform=last.transAxes, rotation=270, va="center", ha="left"
                )
                name.set_x(1.0 + (0.07 + beside) / self.width)
                name.set_gid("row title")
                name.set_fontsize("medium")
                self._fit(name, self.height, upright=True)
        for _, _, axes in self._list_places():
            self._fit(axes.title, self.width + 0.05)
        if len(around.y_labels) == self.down and (self.down > 1 or self.across >= 1):
            for i, text in enumerate(around.y_labels):
                first = grid[i][0]
                if first is not None:
                    first.set_ylabel(text)
                    self._fit(first.yaxis.label, self.height, upright=True)
        if self.across == 1 and self.down >= 1:
            last = grid[-1][0]
            if last is not None:
                last.set_xlabel(around.x_label)
                self._fit(last.xaxis.label, self.width + 0.3)
        for text, axes in zip(around.x_labels, self.picture.list_lowest(), strict=False):
            axes.set_xlabel(text)
            self._fit(axes.xaxis.label, self.width + 0.1)

    def _measure_texts(self, axes: Axes) -> float:
        """Return how far texts reach beyond the right edge of a panel, in inches, except the title of its row."""
        right = float(axes.get_window_extent(self.renderer).x1)
        texts = [text for text in axes.texts if text.get_gid() != "row title" and text.get_text()]
        return max([0.0, *((float(text.get_window_extent(self.renderer).x1) - right) / _DPI for text in texts)])

    def _measure_margins(self) -> tuple[list[float], list[float], list[float], list[float]]:
        left, right = [0.0] * self.across, [0.0] * self.across
        top, bottom = [0.0] * self.down, [0.0] * self.down
        for i, j, axes in self._list_places():
            inner, outer = axes.get_window_extent(self.renderer), axes.get_tightbbox(self.renderer)
            if outer is None:
                continue
            left[j] = max(left[j], (inner.x0 - outer.x0) / _DPI)
            right[j] = max(right[j], (outer.x1 - inner.x1) / _DPI)
            bottom[i] = max(bottom[i], (inner.y0 - outer.y0) / _DPI)
            top[i] = max(top[i], (outer.y1 - inner.y1) / _DPI)
        return left, right, top, bottom

    def _make_room(
        self, left: list[float], right: list[float], top: list[float], bottom: list[float], wanted: float
    ) -> "_Room":
        picture, around = self.picture, self.picture.around
        body_w = sum(left) + sum(right) + self.across * self.width + (self.across - 1) * _GAP
        body_h = sum(top) + sum(bottom) + self.down * self.height + (self.down - 1) * _GAP
        one_y = around.y_labels[0] if len(around.y_labels) == 1 and self.down > 1 else ""
        y_text = self._copy_text(one_y, rotation=90, va="center", ha="left") if one_y else None
        one_x = around.x_label if self.across > 1 and not around.x_labels else ""
        x_text = self._copy_text(one_x, va="bottom", ha="center") if one_x else None
        y_room = x_room = 0.0
        if y_text is not None:
            self._fit(y_text, body_h, upright=True)
            y_room = self._measure_size(y_text)[0] + 0.05
        if x_text is not None:
            self._fit(x_text, body_w)
            x_room = self._measure_size(x_text)[1] + 0.05
        bar_w = bar_h = bar_right = 0.0
        if around.bar is not None and around.bar_lies:
            self._fit(around.bar.xaxis.label, self.width)
        elif around.bar is not None:
            total_w, total_h = picture.get_size_inches()
            bar_h = min(body_h - top[0] - bottom[-1], 3.2)
            around.bar.set_position((0.1, 0.1, 0.12 / total_w, bar_h / total_h))
            self._fit(around.bar.yaxis.label, bar_h, upright=True)
            box = around.bar.get_tightbbox(self.renderer)
            inner = around.bar.get_window_extent(self.renderer)
            if box is not None:
                bar_right = (box.x1 - inner.x1) / _DPI
            bar_w = 0.15 + 0.12 + bar_right
        width = _EDGE + y_room + body_w + bar_w + _EDGE
        head = 0.97 * (max(width, wanted) - 2 * _EDGE)  # a browser's letters may be wider than those measured
        subject, _, setting = (around.title or "").partition("\n")
        heads = []
        if subject:
            heads.append(self._copy_text(subject, va="top", ha="left", fontsize="large"))
        if setting:
            heads.append(self._copy_text(setting, va="top", ha="left", fontsize="small", color=style.GUIDE))
        head_h = 0.0
        for text in heads:
            self._fit(text, head)
            head_h += self._measure_size(text)[1] + 0.05
        legend_h = self._arrange_legend(head)
        height = _EDGE + head_h + legend_h + body_h + x_room + _EDGE
        return _Room(
            width,
            height,
            (left, right, top, bottom),
            (y_text, y_room),
            (x_text, x_room),
            (bar_h, bar_w),
            heads,
            legend_h,
        )

    def _place(self, room: "_Room") -> None:
        picture, around = self.picture, self.picture.around
        left, right, top, bottom = room.margins
        total_w, total_h = room.width, room.height
        picture.set_size_inches(total_w, total_h)
        y_text, y_room = room.y
        x_text, x_room = room.x
        y = total_h - _EDGE
        for text in room.heads:
            text.set_position((_EDGE / total_w, y / total_h))
            y -= self._measure_size(text)[1] + 0.05
        if picture.legends:
            picture.legends[0].set_bbox_to_anchor((_EDGE / total_w, y / total_h), picture.transFigure)
            y -= room.legend
        xs, x = [], _EDGE + y_room
        for j in range(self.across):
            x += left[j]
            xs.append(x)
            x += self.width + right[j] + _GAP
        ys = []
        for i in range(self.down):
            y -= top[i] + self.height
            ys.append(y)
            y -= bottom[i] + _GAP
        for i, j, axes in self._list_places():
            axes.set_position(
                (xs[j] / total_w, ys[i] / total_h, self.width / total_w, self.height / total_h),
            )
        end, low = xs[-1] + self.width, ys[-1]
        if y_text is not None:
            y_text.set_position((_EDGE / total_w, (ys[0] + self.height + low) / 2 / total_h))
        if x_text is not None:
            x_text.set_position(((xs[0] + end) / 2 / total_w, (low - bottom[-1] - x_room) / total_h))
        if around.bar is not None and around.bar_lies:
            place = (xs[-1] + 0.05 * self.width, low + 0.55 * self.height)
            around.bar.set_position(
                (place[0] / total_w, place[1] / total_h, 0.9 * self.width / total_w, 0.12 / total_h)
            )
        elif around.bar is not None:
            middle = (ys[0] + self.height + low) / 2
            at, bar_h = end + right[-1] + 0.15, room.bar[0]
            around.bar.set_position((at / total_w, (middle - bar_h / 2) / total_h, 0.12 / total_w, bar_h / total_h))

    def _arrange_legend(self, room: float) -> float:
        """Make the legend in as many columns as there is room for; return the height that it needs."""
        entries = self.picture.entries
        if not entries:
            return 0.0
        labels = [textwrap.fill(label, _LONGEST) for label, _ in entries]
        handles = [handle for _, handle in entries]

        def make_legend(columns: int) -> tuple[float, float]:
            for old in list(self.picture.legends):
                old.remove()
            legend = self.picture.legend(
                handles, labels, loc="upper left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0, borderpad=0
            )
            return self._measure_size(legend)

        columns = len(entries)
        width, height = make_legend(columns)
        while width > room and columns > 1:  # at least as many fit as of the mean width
            columns = min(columns - 1, max(1, int(columns * room / width)))
            columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # no emptier last row than needed
            width, height = make_legend(columns)
        return height + 0.08


def _choose_from_right(numbers: Sequence[tuple[Text, Bbox]]) -> list[tuple[Text, Bbox]]:
    """Return the numbers at an axis that have room, the last of them first."""
    shown: list[tuple[Text, Bbox]] = []
    for label, box in reversed(numbers):
        if not shown or box.x1 + _APART <= shown[-1][1].x0:
            shown.append((label, box))
    return shown


def _choose_powers(numbers: Sequence[tuple[Text, Bbox]]) -> list[tuple[Text, Bbox]]:
    """Return the numbers at a logarithmic axis that have room: the powers of ten before all that begin with 5 or 2."""
    shown: list[tuple[Text, Bbox]] = []
    for digit in "1527":
        more = [pair for pair in numbers if pair[0].get_text().strip("0.")[:1] == digit and pair not in shown]
        every = sorted([*shown, *more], key=lambda pair: pair[1].x0)
        if all(one.x1 + _APART <= other.x0 for (_, one), (_, other) in pairwise(every)):
            shown = every
    return shown


@dataclass
class _Room:
    """What the figure is made of: its size in inches, margins of the panels, texts and the room that they need."""

    width: float
    height: float
    margins: tuple[list[float], list[float], list[float], list[float]]
    y: tuple[Text | None, float]
    x: tuple[Text | None, float]
    bar: tuple[float, float]
    heads: list[Text]
    legend: float
