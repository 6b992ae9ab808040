"""What MkDocs calls: it gets the pages and files that are made, and links that fit the site."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from website import gallery, links, pages, playground
from website.markdown import DOCS, ROOT

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
# weights of pages in the search: a reference or a history has the words of every other page
WEIGHTS = {
    "lab-book.md": 0.0,
    **dict.fromkeys((f"{name}.md" for name in ("linux-keys", "python", "commands", "references")), 0.3),
    **dict.fromkeys((f"{name}.md" for name in ("architecture", "code-glossary", "contributing", "style")), 0.1),
}
FOLDER_WEIGHTS = {"reference": 0.3, "gallery": 0.3, "algorithms": 2}
# words under which a page is found first, next to those of its headings
WORDS = {
    "accuracy.md": ("accurate", "accuracy", "trust"),
    **{f"algorithms/{name}.md": (name,) for name in ("cubic", "reno", "dctcp", "codel", "pie", "red")},
    "concepts/measures.md": ("rtt", "goodput", "throughput", "delay", "retransmissions"),
    "cookbook.md": ("loss", "recipes"),
    "experiment-files.md": ("matrix", "sweep", "toml"),
    "faq.md": ("cite", "licence", "license"),
    "findings/bbr.md": ("bbr", "fairness"),
    "how-to/coming-from.md": ("flent", "tc", "netem"),
    "how-to/figures.md": ("plot", "figure"),
    "how-to/quic-stack.md": ("quic",),
    "how-to/uplink.md": ("bufferbloat", "queue", "uplink", "router"),
    "how-to/report.md": ("report",),
    "how-to/trace.md": ("pcap", "wireshark"),
    "linux.md": ("linux", "kernel"),
    "standards.md": ("rfc", "draft"),
    "teaching.md": ("exercises", "teach", "students"),
    "tutorial.md": ("start", "begin", "first"),
    "why-not-ns3.md": ("ns", "ns3", "mahimahi", "htsim"),
}
KEYS = re.compile(r"^\| `(\w+_\w+)` \|", re.MULTILINE)  # keys that are no words of sentences
TABLE = re.compile(r"^\| (?:key|column|I want to) \|.*\n(?:\|.*\n)+", re.MULTILINE)
# The search index of the theme writes a node's key without separators, so that words with digits get lost or break it.
SEARCH_FAULT = ("e=e+s+o.id}return e", 'e=e+s+o.id+","}return e')
ENDS = pages.list_appended()
MADE = pages.list_generated()


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Let the navigation name every page of findings and of the gallery, and the footer name the version."""
    config.nav = pages.complete_navigation(config.nav)
    config.copyright = pages.add_version(config.copyright or "")
    return config


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add pages that are made, experiment files, and files outside of `docs` that a page links to."""
    for place, make in MADE.items():
        files.append(File.generated(config, place, content=make()))
    for place, file in links.list_sources().items():
        if not file.is_relative_to(DOCS):
            files.append(File.generated(config, place, abs_src_path=str(file)))
    if playground.PAGE.is_file():
        files.append(File.generated(config, playground.PLACE, abs_src_path=str(playground.PAGE)))
    experiments = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("studies/*/experiments/*.toml")}
    figures = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("studies/*/figures/*.svg")}
    for path in sorted(links.list_files() | experiments | figures):
        files.append(File.generated(config, f"{links.FILES}/{path}", abs_src_path=str(ROOT / path)))
    return files


def _wrap_table(table: re.Match[str]) -> str:
    """Return a table with a class, by which narrow windows show each row as a paragraph."""
    kind = "parameters" if table[0].startswith("| key") else "columns"
    return f'<div class="{kind}" markdown="1">\n\n{table[0]}\n</div>\n'


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Return the text of a page with its links as the site needs them, and the part that is made."""
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    weight = WEIGHTS.get(place, FOLDER_WEIGHTS.get(place.partition("/")[0], 1))
    page.meta["search"] = {"boost": weight} if weight else {"exclude": True}
    keys = KEYS.findall(markdown) if place.startswith("reference/keys/") else ()
    page.meta["tags"] = [*WORDS.get(place, ()), *keys]
    if place in MADE:
        return markdown
    source = links.list_sources()[place].relative_to(ROOT).as_posix()
    text = pages.add_picture(links.move_links(markdown, source, place), place)
    if source.startswith("studies/"):
        text = gallery.link_figures(text, place)
    if place.startswith("reference/") or place == "index.md":
        text = TABLE.sub(_wrap_table, text)
    text = re.sub(r"<details>", '<details markdown="1">', text)
    return f"{text.rstrip()}\n\n{ENDS[place]()}" if place in ENDS else text


def on_post_page(output: str, page: "Page", **_: object) -> str:
    """Return the page as it is; raises PluginError if a browser would fetch a part of it from a server."""
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} asks the network: {found[0]}")
    return output


def on_post_build(config: "MkDocsConfig", **_: object) -> None:
    """Correct the index of the search; raises PluginError if the theme's script is another one."""
    for script in Path(config.site_dir).glob("assets/javascripts/workers/search.*.min.js"):
        text = script.read_text(encoding="utf-8")
        if text.count(SEARCH_FAULT[0]) != 1:
            raise PluginError(f"{script}: found no {SEARCH_FAULT[0]}; is the fault of the search fixed?")
        script.write_text(text.replace(*SEARCH_FAULT), encoding="utf-8")
