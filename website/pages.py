"""Which pages of the site are made, and which hand-written ones get more at their end."""

from collections.abc import Callable
from functools import partial
from typing import Any

from dumbbell.cli import key_reference
from dumbbell.engines.linux import reach
from website import agreement, algorithms, commands, findings, gallery, python_api
from website.links import sources


def appended() -> dict[str, Callable[[], str]]:
    """Return what makes the end of hand-written pages, by their places in `docs`."""
    found: dict[str, Callable[[], str]] = {
        f"algorithms/{name}.md": partial(algorithms.page, name) for name in algorithms.algorithms()
    }
    return found | {
        "algorithms/index.md": algorithms.index,
        "commands.md": commands.page,
        "findings/index.md": findings.index,
        "linux-keys.md": lambda: sections(reach.format_markdown()),
        "gallery/index.md": gallery.index,
        "python.md": python_api.page,
        "reference.md": lambda: sections(key_reference.format_markdown()),
    }


def sections(text: str) -> str:
    """Return a page without its title and introduction."""
    return text[text.index("\n## ") + 1 :]


def drawn(text: str, place: str) -> str:
    """Return the text of a page with its picture, if it has one that is drawn from evidence."""
    return text.replace(agreement.MARK, agreement.draw()) if place == agreement.PLACE else text


def generated(*, sized: bool = True) -> dict[str, Callable[[], str]]:
    """Return what makes each page that has no file in `docs`, by its place on the site.

    `sized` says how large every experiment of the gallery is, which takes half a minute to find out.
    """
    return {f"gallery/{folder}.md": partial(gallery.page, folder, sized=sized) for folder in gallery.folders()}


def navigation(part: Any) -> Any:
    """Return a part of the navigation with the pages of findings and of the gallery behind their indexes."""
    match part:
        case dict():
            return {title: navigation(pages) for title, pages in part.items()}
        case list() if len(part) == 1 and str(part[0]).endswith("/index.md"):
            folder = part[0].removesuffix("index.md")
            return [
                part[0],
                *sorted(
                    place for place in {**sources(), **generated()} if place.startswith(folder) and place != part[0]
                ),
            ]
        case list():
            return [navigation(one) for one in part]
    return part
