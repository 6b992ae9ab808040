"""Which pages of the site are made, and which hand-written ones get more at their end."""

from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

from dumbbell.engines.linux import reach
from website import agreement, algorithms, commands, findings, gallery, python_api
from website.links import list_sources


def list_appended() -> dict[str, Callable[[], str]]:
    """Return what makes the end of hand-written pages, by their places in `docs`."""
    found: dict[str, Callable[[], str]] = {
        f"algorithms/{name}.md": partial(algorithms.make_page, name) for name in algorithms.list_algorithms()
    }
    return found | {
        "algorithms/index.md": algorithms.make_index,
        "commands.md": commands.make_page,
        "findings/index.md": findings.make_index,
        "linux-keys.md": lambda: drop_title(reach.format_markdown()),
        "gallery/index.md": gallery.make_index,
        "python.md": python_api.make_page,
    }


def drop_title(text: str) -> str:
    """Return a page without its title and introduction."""
    return text[text.index("\n## ") + 1 :]


def add_picture(text: str, place: str) -> str:
    """Return the text of a page with its picture, if it has one that is drawn from evidence."""
    return text.replace(agreement.MARK, agreement.draw()) if place == agreement.PLACE else text


def list_generated(*, sized: bool = True) -> dict[str, Callable[[], str]]:
    """Return what makes each page that has no file in `docs`, by its place on the site.

    `sized` says how large every experiment of the gallery is, which takes half a minute to find out.
    """
    return {
        f"gallery/{folder}.md": partial(gallery.make_page, folder, sized=sized) for folder in gallery.list_folders()
    }


def add_version(footer: str) -> str:
    """Return the footer of every page with the version that the site describes."""
    return f"{footer} · version {metadata.version('dumbbell')}"


def complete_navigation(part: Any) -> Any:
    """Return a part of the navigation with the pages of findings and of the gallery behind their indexes."""
    match part:
        case dict():
            return {title: complete_navigation(pages) for title, pages in part.items()}
        case list() if len(part) == 1 and str(part[0]).endswith("/index.md"):
            folder = part[0].removesuffix("index.md")
            return [
                part[0],
                *sorted(
                    place
                    for place in {**list_sources(), **list_generated()}
                    if place.startswith(folder) and place != part[0]
                ),
            ]
        case list():
            return [complete_navigation(one) for one in part]
    return part
