"""The page of the playground with an experiment in it."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from dumbbell import _native
from dumbbell.errors import Needs, Unsupported
from dumbbell.experiment.cell import Cell
from dumbbell.figures.html import to_json

PAGE = Path(__file__).parent / "built" / "play.html"
GIVEN = '<script type="application/json" id="given">'
# keys of an experiment that the page has no controls for, with what they are in words
NOT_SHOWN = {"hop": "several hops", "plugins": "plugins"}
# keys whose values were computed from others: the page has the computed ones
_COMPUTED = ("buffer",)


def describe_cell(cell: Cell) -> dict[str, Any]:
    """Return what the experiment sets for one run, as the page keeps it: in ns, bit/s and bytes."""
    for key, words in NOT_SHOWN.items():
        if cell.given.get(key):
            raise Unsupported(words, "a bottleneck, and one on the way back", where="the playground", key=key)
    given = {key: value for key, value in cell.given.items() if value not in ({}, [])}
    for name in ("bottleneck", "reverse"):
        if name in given:
            given[name] = {key: value for key, value in given[name].items() if key not in _COMPUTED}
    return {"title": cell.title, "duration": cell.duration, "seed": cell.seed} | given


def make_fragment(cell: Cell) -> str:
    """Return the fragment of an address, without `#`, with which the page begins with this run.

    It is the run as JSON, deflated, in the letters of addresses (RFC 4648 section 5).
    """
    text = json.dumps(describe_cell(cell), ensure_ascii=False, separators=(",", ":"))
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(text.encode()) + packer.flush()
    return f"g={base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def make_page(cell: Cell | None = None) -> str:
    """Return the page, which begins with the run of `cell` if there is one; raises Needs if the page is not built."""
    if not PAGE.is_file():
        raise Needs(
            "its page, which is not built", "make play, with npm and Rust's target wasm32-unknown-unknown", file="play"
        )
    page = PAGE.read_text(encoding="utf-8")
    if cell is None:
        return page
    digest = _native.run(cell.config, _native.Cancel()).hash
    given = to_json({"experiment": describe_cell(cell), "digest": digest})
    return page.replace(GIVEN, f"{GIVEN}{given}", 1)
