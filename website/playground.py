"""Links from pages of the site into the playground, which is on the site if `make play` built it."""

import posixpath
from collections.abc import Mapping
from typing import Any

from dumbbell import experiment, play
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.play import play_page
from website.links import FILES

PAGE = play_page.PAGE
PLACE = f"{FILES}/playground.html"
_PING = {"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "40ms"}  # ten a second, as ping sends them


def make_link(cell: Cell, page: str = "folder/page.md") -> str:
    """Return a link from a page of the site to a run in the playground; empty if the playground cannot show it."""
    try:
        fragment = play.make_fragment(cell)
    except InputError:
        return ""
    place = posixpath.relpath(PLACE, posixpath.dirname(page) or ".")
    return f"[open in the playground]({place}#{fragment})" if PAGE.is_file() else ""


def make_algorithm_link(kind: str, name: str) -> str:
    """Return a link to two downloads and a ping with this queue discipline or congestion control."""
    flows: list[Mapping[str, Any]] = [{"cc": name if kind == "cc" else "cubic", "base_rtt": "40ms"}]
    table = {
        "title": f"{name} in the playground",
        "duration": "30s",
        "bottleneck": {"rate": "20Mbit", "aqm": name if kind == "aqm" else {"name": "pfifo", "limit": 100}},
        "flows": [*flows, {**flows[0], "start": "4s"}],
        "udp": [_PING],
    }
    return make_link(experiment.parse(table).make_cell(0))
