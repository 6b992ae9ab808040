"""Pages that need nothing but themselves: one HTML file with its style, its scripts and its data, for charts Vega.

The file needs no network: `make_page` takes in the text of every script, and a policy in the page forbids
its own requests. Data are JSON in elements that no browser runs. Scripts find them by `dumbbell.data(NAME)`;
everything else that `web/page.js` offers is described there.
"""

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_ENDS = re.compile("</(?=script)|<!(?=--)", re.IGNORECASE)  # what ends a script early, or hides its end
# what a page may load: nothing from anywhere, but scripts in its own folder if it says so
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'{scripts}; style-src 'unsafe-inline';"
    " img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def _replace_nonfinite(data: Any) -> Any:
    """Return the same data with null for every number that JSON does not have."""
    match data:
        case float():
            return data if math.isfinite(data) else None
        case Mapping():
            return {str(key): _replace_nonfinite(value) for key, value in data.items()}
        case list() | tuple():
            return [_replace_nonfinite(value) for value in data]
    return data


def to_json(data: Any) -> str:
    """Return data as JSON that may stand in a `<script>` element: every `<` is escaped, NaN and infinity are null."""
    text = json.dumps(_replace_nonfinite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def make_data(name: str, value: Any) -> str:
    """Return an element with data, which `dumbbell.data(name)` reads."""
    return f'<script type="application/json" id="{escape(name)}">{to_json(value)}</script>'


def pack_bytes(content: bytes) -> str:
    """Return bytes as text of base64, compressed; `dumbbell.unpacked(text)` gives them back."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _escape(found: re.Match[str]) -> str:
    return f"<\\{found[0][1:]}"


def make_script(text: str) -> str:
    """Return a script as an element; what would end it early is escaped, as inside a string of JavaScript."""
    return f"<script>{_ENDS.sub(_escape, text)}</script>"


def read_shipped(*place: str) -> str:
    """Return the text of a file that comes with this package, from the folder of `figures`."""
    return _FOLDER.joinpath(*place).read_text(encoding="utf-8")


@cache
def make_library() -> str:
    """Return the libraries for charts as elements of scripts, each with its licence: 780 kB."""
    elements = []
    for line in read_shipped("vega", "VERSIONS").splitlines():
        name, version, file = line.split()
        licence = read_shipped("vega", f"LICENSE-{name}").strip().replace("*/", "* /")
        elements.append(
            make_script(f"/*! {name} {version}\n\n{licence}\n*/\n{read_shipped('vega', file.rpartition('/')[2])}")
        )
    return "\n".join(elements)


def make_page(
    title: str,
    body: str,
    *,
    elements: Iterable[str] = (),
    scripts: Iterable[str] = (),
    style: str = "",
    charts: bool = True,
    loads_scripts: bool = False,
) -> str:
    """Return a whole page.

    Args:
        title: plain text, for the window and for the bar at the top.
        body: HTML of the part between that bar and the end; the caller escapes what is in it.
        elements: elements after the body that the scripts need, such as those of `data`.
        scripts: texts of scripts, which run in this order after `web/page.js` and the libraries.
        style: CSS in addition to `web/page.css`.
        charts: whether the libraries for charts are needed.
        loads_scripts: whether the page may load scripts that lie next to it as files.

    """
    policy = _POLICY.format(scripts=" file: 'self'" if loads_scripts else "")
    libraries = [make_library()] if charts else []
    return read_shipped("web", "page.html").format(
        policy=escape(policy),
        title=escape(title),
        style=read_shipped("web", "page.css") + style,
        theme=make_script(read_shipped("web", "theme.js")),
        body=body,
        scripts="\n".join([*elements, *libraries, *map(make_script, [read_shipped("web", "page.js"), *scripts])]),
    )


def compute_digest(content: bytes) -> str:
    """Return the name of content, for files next to a page: 12 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:12]
