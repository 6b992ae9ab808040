"""The built site in headless Chromium: errors of its console, requests, layout, search, and pictures of its pages.

`python -m website.browser` opens every page of `target/site` as a file, wide and narrow, and prints what is wrong.
Chromium is driven over its debugging pipe, so nothing but its package is needed.
"""

import base64
import csv
import fcntl
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from website.markdown import ROOT

SITE = ROOT / "target" / "site"
LAYOUT = Path(__file__).with_name("layout.js")
SCHEMES = ("default", "slate")  # light and dark pages of the theme
INTERNALS = ("lab-book", "architecture", "code-glossary", "contributing", "style")  # pages that no user looks for
SEARCHES = Path(__file__).with_name("searches.csv")
WIDE, NARROW = (1400, 900), (390, 844)  # px of a window: a laptop, a phone
LOCAL = ("file", "data", "blob", "about")  # schemes of requests that ask nobody
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SETTLED = "new Promise(done => setTimeout(done, 150))"  # the theme's script runs after the page has loaded
SEARCH = """
new Promise((done, fail) => {
  const field = document.querySelector(".md-search__input");
  field.focus();
  field.value = WORDS;
  for (const name of ["focus", "input", "keyup"]) field.dispatchEvent(new Event(name, { bubbles: true }));
  const end = Date.now() + 15000;
  const look = () => {
    const found = [...document.querySelectorAll(".md-search-result__link")];
    if (found.length || Date.now() > end) done(found.map(link => link.href));
    else setTimeout(look, 100);
  };
  look();
})
"""


def find_program() -> str | None:
    """Return the path of Chromium, None if it is not installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """A page of headless Chromium; `errors` and `outside` collect what its console and its requests said."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._rest, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.outside: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _read_message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._receive, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note_message(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "assert"):
                self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] == "error":
                self.errors.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
            case "Network.requestWillBeSent" if urlsplit(said["request"]["url"]).scheme not in LOCAL:
                self.outside.append(said["request"]["url"])
            case "Network.loadingFailed" if not said.get("canceled"):
                self.errors.append(f"a request failed: {said['errorText']}")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a method of the DevTools protocol; raises RuntimeError if it fails."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while (answer := self._read_message()).get("id") != self._number:
            self._note_message(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression of JavaScript, of a promise when it is settled."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def set_window(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Set the size of the window, px, and whether the reader prefers dark pages."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path) -> None:
        """Open a file and wait until its scripts have run."""
        self.open_address(page.as_uri())

    def open_address(self, address: str) -> None:
        """Open an address and wait until the scripts of its page have run."""
        self._loaded = False
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._note_message(self._read_message())
        self.evaluate(SETTLED)

    def save_picture(self, file: Path, *, whole: bool = False) -> None:
        """Save what the window shows as PNG; with `whole` the page to its end."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def search_site(self, words: str) -> list[str]:
        """Return the addresses of the search's results, best first."""
        found: list[str] = self.evaluate(SEARCH.replace("WORDS", json.dumps(words)))
        return found


@contextmanager
def open_browser(chromium: str) -> Iterator[Browser]:
    """Start Chromium without a window, and end it."""
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-gpu"]
        options += ["--disable-background-networking", "--no-first-run", "--disable-dev-shm-usage"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        # Chromium reads from file descriptor 3 and writes to 4; copies above them are not overwritten by either
        high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (theirs_in, theirs_out)]
        actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, one, at) for at, one in enumerate(high, 3)]
        actions += [(os.POSIX_SPAWN_OPEN, at, os.devnull, os.O_WRONLY, 0) for at in (1, 2)]
        process = os.posix_spawn(chromium, [chromium, *options], os.environ, file_actions=actions)
        for one in (theirs_in, theirs_out, *high):
            os.close(one)
        try:
            yield Browser(ours_out, ours_in)
        finally:
            os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)
            os.close(ours_in)
            os.close(ours_out)


class _Links(HTMLParser):
    """Collects where a page leads, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.targets.add(value)
            if name == "id" and value:
                self.anchors.add(value)


# a page that keeps its state in the fragment has no such anchor: the playground reads #g=… itself
_STATE = re.compile(r"[a-z]+=")


def find_broken(site: Path) -> Iterator[str]:
    """Yield every link, image, script and style of the pages that leads to no file or anchor of the site."""
    pages: dict[Path, _Links] = {}
    for page in sorted(site.glob("**/*.html")):
        pages[page] = _Links()
        pages[page].feed(page.read_text(encoding="utf-8"))
    for page, links in pages.items():
        if page.name == "404.html":  # its links begin at the root of a server
            continue
        for target in sorted(links.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            name, anchor = urldefrag(target)
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if file.is_dir():
                file = file / "index.html"
            if not file.is_file():
                yield f"{page.relative_to(site)}: no file {name}"
            elif anchor and file in pages and not _STATE.match(anchor) and unquote(anchor) not in pages[file].anchors:
                yield f"{page.relative_to(site)}: no anchor {target}"


def find_faults(site: Path, chromium: str) -> Iterator[str]:
    """Yield what is wrong with the pages of a site as Chromium shows them.

    That is an error of the console, a request that leaves the site, a picture that cannot be drawn, a page that is
    wider than its window, a part that is cut, and text of too little contrast or headings lighter than text, on light
    and dark pages.
    """
    layout = LAYOUT.read_text(encoding="utf-8")
    with open_browser(chromium) as browser:
        for page in sorted(site.glob("**/*.html")):
            name = page.relative_to(site).as_posix()
            if name == "404.html" or name.startswith("files/"):
                continue
            for size in (WIDE, NARROW):
                browser.set_window(size)
                browser.open(page)
                width = browser.evaluate("document.documentElement.scrollWidth")
                if width > size[0]:
                    yield f"{name}: {width} px wide in a window of {size[0]} px"
                for scheme in SCHEMES:
                    browser.evaluate(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
                    for fault in browser.evaluate(layout):
                        yield f"{name}: {scheme}, {size[0]} px: {fault}"
            for image in browser.evaluate(
                "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
            ):
                yield f"{name}: no picture {image}"
            yield from (f"{name}: {said}" for said in browser.errors)
            yield from (f"{name}: asks {url}" for url in browser.outside)
            browser.errors.clear()
            browser.outside.clear()


def find_searches_that_miss(site: Path, chromium: str) -> Iterator[str]:
    """Yield the searches of `searches.csv` whose first result is not on the page that answers them.

    Pages about the code are not among the first three results, unless nothing else is found.
    """
    with open_browser(chromium) as browser, SEARCHES.open(encoding="utf-8", newline="") as rows:
        browser.open(site / "index.html")
        for row in csv.DictReader(rows):
            browser.open(site / "index.html")
            links = (urldefrag(link)[0].partition("?")[0] for link in browser.search_site(row["words"]))
            pages = list(dict.fromkeys(link.removeprefix(f"{site.as_uri()}/") for link in links)) or ["nothing"]
            if pages[0] != row["page"]:
                yield f"search: {row['words']} finds {pages[0]} first, not {row['page']}"
            for at, page in enumerate(pages[:3]):
                if page.removesuffix(".html") in INTERNALS and at + 1 < len(pages):
                    yield f"search: {row['words']} finds {page} before {pages[at + 1]}"
        yield from (f"search: {said}" for said in (*browser.errors, *browser.outside))


def main(site: Path = SITE) -> int:
    """Print what is wrong with the built site; 1 if something is, 2 if it cannot be tried."""
    chromium = find_program()
    if not (site / "index.html").is_file():
        print(f"{site}: no site, make docs builds it", file=sys.stderr)
        return 2
    found = list(find_broken(site))
    if chromium is None:
        print(f"none of {', '.join(PROGRAMS)} found: links are checked, pages are not opened", file=sys.stderr)
    else:
        found += find_faults(site, chromium)
        found += find_searches_that_miss(site, chromium)
    pages = defaultdict(list)
    for fault in found:
        pages[fault.partition(":")[0]].append(fault)
    print("\n".join(found) or f"no fault in {len(list(site.glob('**/*.html')))} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
