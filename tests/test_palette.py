"""Colours with a meaning: each control, queue and state has its own in all figures, on light pages and on dark ones."""

import itertools
import re
from pathlib import Path

import polars as pl
import pytest

from dumbbell import figures
from dumbbell.errors import InputError
from dumbbell.experiment.registry import read_registry
from dumbbell.figures import dark, palette, style

ROOT = Path(__file__).parents[1]
PICTURES = {".svg", ".png", ".jpg", ".gif"}
DARK = "@media (prefers-color-scheme: dark)"


def list_styles(*keys: object) -> list[style.Style]:
    return palette.choose_styles([key if isinstance(key, tuple) else (key,) for key in keys])


def test_a_control_has_one_colour_under_each_of_its_names_and_beside_any_other() -> None:
    for names in (["cubic", "reno"], ["Reno", "CUBIC"], ["bbr3", "CUBIC, 10 ms"], ["something", "cubic (beta=0.5)"]):
        found = dict(zip(names, list_styles(*names), strict=True))
        [cubic] = [own.colour for name, own in found.items() if name.lower().startswith("cubic")]
        assert cubic == style.COLOURS[0] and len({own.colour for own in found.values()}) == 2
    assert len({list_styles(name, "cubic")[0] for name in ("bbr1", "BBRv1", "bbr_1", "BBRv1 with ECN")}) == 1
    assert list_styles("codel", "pie")[0].colour != list_styles("fq_codel", "pie")[0].colour


def test_every_registered_algorithm_has_a_colour() -> None:
    known = {name for family in palette._FAMILIES for name in family}
    names = [*read_registry().cc, *read_registry().aqm]
    assert len(names) > 20 and {palette._simplify(name) for name in names} <= known


def test_one_key_decides_the_colour_and_the_others_marker_and_dashes() -> None:
    for keys in (
        list(itertools.product(["cubic", "bbr3"], [5, 20, 80])),
        [(rate, name) for name, rate in itertools.product(["cubic", "bbr3"], [5, 20, 80])],
        list(itertools.product(["a", "b"], [5, 20, 80])),
    ):
        found = list_styles(*keys)
        column = 0 if isinstance(keys[0][0], str) else 1
        hues: dict[object, set[str]] = {}
        shapes: dict[object, set[tuple[str, str]]] = {}
        for key, own in zip(keys, found, strict=True):
            hues.setdefault(key[column], set()).add(own.colour)
            shapes.setdefault(key[1 - column], set()).add((own.marker, str(own.dashes)))
        assert [len(one) for one in hues.values()] == [1, 1] and [len(one) for one in shapes.values()] == [1, 1, 1]
        assert len({own.colour for own in found}) == 2 and len(set(map(str, found))) == 6


def test_variants_of_a_name_have_its_colour_and_differ_otherwise() -> None:
    first, second = list_styles("BBRv3", "BBRv3, ECN")
    assert first.colour == second.colour and first.marker != second.marker and first.dashes != second.dashes


def test_values_without_a_known_name_get_colours_in_order() -> None:
    assert [own.colour for own in list_styles(5, 20, 80)] == list(style.COLOURS[:3])
    assert [own.colour for own in list_styles("x", "cubic", "reno")] == [style.COLOURS[i] for i in (2, 0, 1)]


def test_a_state_has_one_colour_whatever_is_beside_it() -> None:
    alone = palette.choose_state_looks(["probe_up"])["probe_up"]
    assert palette.choose_state_looks(["startup", "Probe Up", "mystery"])["Probe Up"] == alone
    every = palette.choose_state_looks([*palette.STATES, "mystery", "riddle"])
    assert len(set(every.values())) == len(every)
    with pytest.raises(InputError, match="states: "):
        palette.choose_state_looks(str(number) for number in range(40))


def test_an_svg_has_a_second_set_of_colours_and_no_page_of_its_own(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [1, 2, 1, 2], "y": [1.0, 2, 3, 4], "cc": ["cubic", "cubic", "bbr3", "bbr3"]})
    text = figures.save(figures.lines(frame, "x", "y", by="cc"), tmp_path / "a.svg").read_text()
    assert text.count("<style>") == 1 and "prefers-color-scheme: dark" in text
    for light, other in zip(style.COLOURS, style.DARK_COLOURS, strict=True):
        assert (light.lower() in text) == (f"stroke: {other}" in text), light
    assert 'id="patch_1"' in text and not re.search(r"fill: #ffffff[^}]*\"/>\s*</g>\s*<g id=\"axes_1\"", text)
    assert dark.add_dark_colours("<svg a='1'><g/></svg>").count("!important") == 0


def test_every_colour_of_a_committed_figure_suits_a_dark_page() -> None:
    left: dict[str, set[str]] = {}
    for path in [*ROOT.glob("studies/*/figures/*.svg"), *ROOT.glob("docs/**/*.svg")]:
        text = path.read_text()
        if "matplotlib" not in text:
            continue
        drawn = re.sub(r"<style>.*?</style>|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        found = {one.lower() for one in re.findall(r"(?:fill|stroke)[:=] ?\"?(#[0-9a-fA-F]{6})", drawn)}
        left[path.name] = found - set(dark._SETS) - {style.ON_PALE, style.ON_STRONG}
    assert left and not {name: colours for name, colours in left.items() if colours}


def test_no_picture_of_the_pages_is_a_white_slab_on_a_dark_page() -> None:
    pictures = [
        path for place in ("docs", "studies") for path in (ROOT / place).rglob("*.*") if path.suffix in PICTURES
    ]
    drawn = [path for path in pictures if not {"reports", "evidence"} & set(path.parts)]
    assert len(drawn) > 70
    assert [path.name for path in drawn if path.suffix != ".svg" or DARK not in path.read_text()] == []


def test_pages_and_figures_have_the_same_colours() -> None:
    css = (ROOT / "python/dumbbell/figures/web/page.css").read_text()
    found = re.findall(r"--series-\d: light-dark\((#\w+), (#\w+)\)", css)
    lights, darks = zip(*found, strict=True)
    assert [one.lower() for one in style.COLOURS] == list(lights) and list(style.DARK_COLOURS) == list(darks)
    script = (ROOT / "python/dumbbell/figures/web/page.js").read_text()
    assert re.search(r"LIGHT = (\[.*?\]);", script)[1] == str(list(style.COLOURS)).replace("'", '"')  # type: ignore[index]
