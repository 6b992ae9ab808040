"""SVG files whose colours suit a dark page as well: the file itself has a second set of colours.

A browser takes the second set where the page around the file is dark (`prefers-color-scheme`, which an `<img>` has from
the `color-scheme` of its page); programs that do not know such rules show the first.
"""

import re

from dumbbell.figures.style import COLOURS, DARK_COLOURS, TEXT_COLOURS

_TEXT, _PAGE = "#e2e4e9", "#1e2129"
# greys of axes, grids and areas, and the pale colours of states
_OTHERS = {
    "#000000": "#c9cdd4",
    "#ffffff": _PAGE,
    "#333333": "#c9cdd4",
    "#4c4c4c": "#b9bec7",
    "#595959": "#b9bec7",
    "#737373": "#a4aab5",
    "#8c8c8c": "#9299a6",
    "#a6a6a6": "#7d838f",
    "#cccccc": "#4a4f5a",
    "#d1d1d1": "#4a4f5a",
    "#d9d9d9": "#434854",
    "#e6e6e6": "#363b46",
    "#bbccee": "#34466e",
    "#eeeebb": "#58562a",
    "#ccddaa": "#41552a",
    "#ffcccc": "#6e3a3a",
    "#cceeff": "#2c5367",
    "#dddddd": "#454a55",
    "#e6d5f0": "#523c63",
    "#f7e1c8": "#664a2a",
}
_LINES = {light.lower(): dark for light, dark in zip(COLOURS, DARK_COLOURS, strict=True)}
_SETS = _LINES | {TEXT_COLOURS[light]: dark for light, dark in _LINES.items()} | _OTHERS


def add_dark_colours(svg: str) -> str:
    """Return an SVG of matplotlib with rules that replace its colours on a dark page.

    Text without a colour of its own is black in the file, and light on a dark page; text in cells of maps has colours
    that no rule replaces, since the cells keep theirs.
    """
    used = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}\b", svg)}
    rules = [f"text {{ fill: {_TEXT} }}"]
    for light, dark in _SETS.items():
        if light in used:
            rules += [f'[style*="{part}: {light}"] {{ {part}: {dark} !important }}' for part in ("fill", "stroke")]
            rules.append(f'[fill="{light}"] {{ fill: {dark} }}')  # behind hatches
    style = "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"
    return re.sub(r"(<svg\b[^>]*>)", lambda found: f"{found[0]}\n <style>\n{style}\n </style>", svg, count=1)
