"""The specification, the page and the file of an interactive figure, and what a notebook shows of it."""

import re
from html import escape
from pathlib import Path
from typing import Any

from dumbbell.errors import Unfit
from dumbbell.figures import html
from dumbbell.figures.canvas import PAGES, SUFFIXES, Picture, check_output, save
from dumbbell.figures.interactive.sheet import COLOUR
from dumbbell.figures.style import COLOURS
from dumbbell.writing import write_text

Spec = dict[str, Any]
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_MIME = ("application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json")
_PAGE = ".html"
_HELP = "Drag to move and scroll to zoom; a double click shows everything again. Point at a mark for its values."
_HELP_LEGEND = " Click a name of the legend to single it out, with Shift several."

_OPTION = re.compile(r"--[a-z-]+ [^\s,;]+")  # with its value, which is not to stand on another line


def make_spec(picture: Picture) -> Spec:
    """Return a figure as a specification of Vega-Lite, with all its data.

    Raises InputError if the figure is of a kind that has no interactive form, or lacks the panels of its `sliders`.
    """
    source = picture.source
    if source is None or source.page is None:
        kind = source.kind if source else "a figure that was not drawn by dumbbell.figures"
        raise Unfit(f"{kind} has no interactive form", ", ".join(PAGES), key="figure")
    labels = picture.around.y_labels
    words = {"x": picture.around.x_label, "y": (labels or [""])[0], "each y": labels}
    made = source.page(source.options, words, picture.sliders)
    subject, _, note = (picture.around.title or "").partition("\n")
    _hide_tooltips(made)
    about = made.pop("usermeta", {}) | {"title": subject, "note": note, "why": picture.why or ""}
    return {"$schema": _SCHEMA, "usermeta": about, "config": {"mark": {"color": COLOUR}}, **made}


def _hide_tooltips(part: Any) -> None:
    """Let marks for which nothing is to be said show no tooltip: it would have the plain names of fields."""
    if isinstance(part, list):
        for one in part:
            _hide_tooltips(one)
    elif isinstance(part, dict):
        if isinstance(part.get("mark"), dict) and "tooltip" not in part.get("encoding", {}):
            part["mark"]["tooltip"] = None
        for name in ("layer", "spec", "concat", "vconcat"):
            _hide_tooltips(part.get(name))


def _binds_legend(part: Any) -> bool:
    """Return whether a click on a name of a legend selects in a specification, or in a part of it."""
    if isinstance(part, list):
        return any(_binds_legend(one) for one in part)
    if not isinstance(part, dict):
        return False
    inner = (part.get(name) for name in ("layer", "spec", "concat", "vconcat"))
    return any(one.get("bind") == "legend" for one in part.get("params", ())) or any(
        _binds_legend(one) for one in inner
    )


def make_page(picture: Picture, title: str = "Figure") -> str:
    """Return a figure as a page that needs no network; raises InputError as `spec` does.

    `title` is that of a page whose figure has none.
    """
    made = make_spec(picture)
    about = made["usermeta"]
    title = about["title"] or title
    notes = "".join(f'<p class="note">{escape(text)}</p>' for text in (about["note"],) if text)
    said = _OPTION.sub(r"<code>\g<0></code>", escape(about["why"]))
    why = f'<p class="note">{said}</p>' if said else ""
    tips = _HELP + (_HELP_LEGEND if _binds_legend(made) else "")
    body = (
        f'{notes}<form id="controls" class="controls" hidden></form>'
        f'<div id="chart" role="img" aria-label="{escape(title)}"></div><p class="note">{tips}</p>{why}'
    )
    return html.make_page(
        title,
        body,
        elements=[html.make_data("spec", made)],
        scripts=[html.read_shipped("web", "figure.js")],
        style=html.read_shipped("web", "figure.css"),
    )


def write(picture: Picture, path: str | Path) -> Path:
    """Write a figure as PNG, SVG or PDF, or as a page, which its name says; raises InputError if that is impossible."""
    path = check_output(path, (*SUFFIXES, _PAGE))
    if path.suffix.lower() == _PAGE:
        write_text(path, make_page(picture, path.stem), "a file that can be written")
        return path
    if picture.sliders:
        raise Unfit(f"{path.suffix} has no slider", f"-o {path.stem}{_PAGE}", option="--slider")
    return save(picture, path)


class Interactive:
    """A figure that a notebook shows interactively: zoom, values at the pointer, lists for keys.

    `spec` is its specification of Vega-Lite, `picture` the figure of matplotlib, which shows where the other cannot.
    """

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.spec = make_spec(picture)

    def save(self, path: str | Path) -> Path:
        """Write it as a page, or as PNG, SVG or PDF; raises InputError if that is not possible."""
        return write(self.picture, path)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        subject, note = (self.spec["usermeta"][name] for name in ("title", "note"))
        shown: Spec = {"title": {"text": subject, "subtitle": note, "anchor": "start"}} if subject or note else {}
        made: Spec = {**self.spec, **shown, "config": {**self.spec["config"], "range": {"category": list(COLOURS)}}}
        bundle: dict[str, Any] = dict.fromkeys(_MIME, made)
        return {**bundle, "text/plain": repr(self)}

    def _repr_png_(self) -> bytes:
        return self.picture._repr_png_()

    def __repr__(self) -> str:
        kind = self.picture.source.kind if self.picture.source else "figure"
        return f"Interactive({kind}: {self.picture.around.title or 'no title'})".replace("\n", ": ")
