"""What MkDocs calls: it gets the pages and files that are made, and links that fit the site."""

import re
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from website import links, pages
from website.markdown import DOCS, ROOT

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
SEARCH = {
    "lab-book.md": {"exclude": True},  # a history, whose words are those of every other page
    **{f"{name}.md": {"boost": 0.3} for name in ("linux-keys", "python", "commands", "references")},
    **{f"{name}.md": {"boost": 0.3} for name in ("architecture", "code-glossary", "contributing")},
    **{f"{name}.md": {"boost": 3} for name in ("faq", "accuracy", "why-not-ns3", "cookbook", "teaching", "standards")},
    **{
        f"{name}.md": {"boost": 6}
        for name in ("tutorial", "findings/bbr", "how-to/quic-stack", "how-to/uplink", "algorithms/cubic")
    },
}
ENDS = pages.list_appended()
MADE = pages.list_generated()


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Let the navigation name every page of findings and of the gallery."""
    config.nav = pages.complete_navigation(config.nav)
    return config


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add pages that are made, experiment files, and files outside of `docs` that a page links to."""
    for place, make in MADE.items():
        files.append(File.generated(config, place, content=make()))
    for place, file in links.list_sources().items():
        if not file.is_relative_to(DOCS):
            files.append(File.generated(config, place, abs_src_path=str(file)))
    experiments = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("studies/*/experiments/*.toml")}
    figures = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("studies/*/figures/*.svg")}
    for path in sorted(links.list_files() | experiments | figures):
        files.append(File.generated(config, f"{links.FILES}/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Return the text of a page with its links as the site needs them, and the part that is made."""
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    if place in SEARCH or place.startswith("algorithms/"):
        page.meta["search"] = SEARCH.get(place, {"boost": 3})
    if place in MADE:
        return markdown
    source = links.list_sources()[place].relative_to(ROOT).as_posix()
    text = pages.add_picture(links.move_links(markdown, source, place), place)
    text = re.sub(r"<details>", '<details markdown="1">', text)
    return f"{text.rstrip()}\n\n{ENDS[place]()}" if place in ENDS else text


def on_post_page(output: str, page: "Page", **_: object) -> str:
    """Return the page as it is; raises PluginError if a browser would fetch a part of it from a server."""
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} asks the network: {found[0]}")
    return output
