"""The check of the built site in a browser: it finds every kind of fault in a small site that has them all."""

from pathlib import Path

import pytest

from website import browser

PAGE = "<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>{}</title><body>{}"


def write(site: Path, **pages: str) -> Path:
    site.mkdir(exist_ok=True)
    for name, text in pages.items():
        (site / f"{name}.html").write_text(PAGE.format(name, text), encoding="utf-8")
    return site


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    site = write(
        tmp_path / "site",
        index='<h1 id="top"></h1><a href="other.html#here">a</a><a href="https://a.org">b</a><a href="#top">c</a>',
        other='<p id="here"><a href="index.html#gone">d</a><a href="index.html#g=state">e</a>'
        '<a href="missing.html">f</a><img src="no.png">',
    )
    assert list(browser.find_broken(site)) == [
        "other.html: no anchor index.html#gone",
        "other.html: no file missing.html",
        "other.html: no file no.png",
    ]


@pytest.mark.slow
@pytest.mark.skipif(browser.find_program() is None, reason="Chromium is not installed")
def test_what_a_browser_says_of_a_page(tmp_path: Path) -> None:
    write(
        tmp_path / "site",
        cut='<p style="width: 50px; overflow: hidden">awordthatiswiderthanfiftypixels</p>',
        pale='<p>text</p><p style="color: #888">pale text</p><h2 style="color: #444">a lighter heading</h2>',
        error="<script>undefined_name()</script>",
        logged="<script>console.error('it failed')</script>",
        outside='<img src="http://127.0.0.1:9/x.png">',
        picture='<img src="no.png">',
        sound="<p>a line of text that is as wide as its window</p><script>console.log('fine')</script>",
        wide='<div style="width: 600px">x</div>',
    )
    chromium = browser.find_program()
    assert chromium is not None
    found: dict[str, list[str]] = {}
    for fault in browser.find_faults(tmp_path / "site", chromium):
        page, _, said = fault.partition(": ")
        found.setdefault(page, []).append(said)
    assert set(found) == {f"{name}.html" for name in ("cut", "error", "logged", "outside", "pale", "picture", "wide")}
    assert "undefined_name is not defined" in " ".join(found["error.html"])
    assert "it failed" in found["logged.html"]
    assert "asks http://127.0.0.1:9/x.png" in found["outside.html"]
    assert any(said.startswith("no picture file://") for said in found["picture.html"])
    assert 'default, 1400 px: cut: p "awordthatiswiderthanfiftypixels"' in found["cut.html"]
    assert 'slate, 390 px: contrast 3.5 p "pale text"' in found["pale.html"]
    assert 'default, 390 px: lighter than text: h2 "a lighter heading"' in found["pale.html"]
    assert "px wide in a window of 390 px" in found["wide.html"][0]


@pytest.mark.skipif(browser.find_program() is None, reason="Chromium is not installed")
def test_a_window_has_a_size_and_a_scheme(tmp_path: Path) -> None:
    site = write(tmp_path / "site", index="<p>x")
    chromium = browser.find_program()
    assert chromium is not None
    with browser.open_browser(chromium) as opened:
        opened.set_window(browser.NARROW, dark=True)
        opened.open(site / "index.html")
        assert opened.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [390, True]
        opened.save_picture(tmp_path / "page.png")
        assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(RuntimeError, match="undefined_name"):
            opened.evaluate("undefined_name")
