"""Links of the sources: where they lead on the site.

Files of `docs` are pages and files of the site at the same place, pages of studies are findings. Experiments,
references and single files that lie outside of `docs` have a place on the site, too, so that every link of a source
works in the repository and there.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from website.markdown import DOCS, ROOT

LINK = re.compile(r"(\]\()([^)\s]+)((?:\s+\"[^\"]*\")?\))")
NAMED = re.compile(r"\[((?:[\w.-]+/)*[\w-]+\.md)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
PLACES = {
    "README.md": "index.md",
    "docs": "index.md",
    "studies": "findings/index.md",
    "studies/validation/README.md": "validation.md",
}
FILES = "files"  # folder of the site for files outside of docs
NOTEBOOKS = ("lab-book.md",)  # pages that are no guide for users


def _place_study_page(file: Path) -> str:
    """Return the place on the site of a Markdown file that a study has written."""
    path = file.relative_to(ROOT).as_posix()
    study = file.parent.name.replace("_", "-")
    return PLACES.get(path, f"findings/{study}.md" if file.stem == "README" else f"findings/{study}-{file.stem}.md")


def _list_written(folder: Path) -> list[Path]:
    """Return the pages of a study: its Markdown but for the templates."""
    return sorted(path for path in folder.glob("*.md") if "{" not in path.read_text(encoding="utf-8"))


@cache
def list_sources() -> dict[str, Path]:
    """Return the files of the pages that are not made, by their places on the site."""
    studies = [path for program in sorted(ROOT.glob("studies/*/study.py")) for path in _list_written(program.parent)]
    found = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.glob("**/*.md"))}
    return found | {"index.md": ROOT / "README.md"} | {_place_study_page(path): path for path in studies}


def is_outside(target: str) -> bool:
    """Whether a link leads out of the repository."""
    return bool(re.match(r"[a-z][a-z+.-]*:", target))


def list_targets(text: str) -> Iterator[str]:
    """Yield where the links and images of a Markdown text lead, but for those in code."""
    plain = INLINE.sub("", FENCE.sub("", text))
    for found in LINK.finditer(plain):
        yield found[2]


def place_on_site(path: str) -> str:
    """Return the place on the site of a file or folder of the repository; both from their roots.

    Raises FileNotFoundError if there is no such file.
    """
    if path in PLACES:
        return PLACES[path]
    place = ROOT / path
    if not place.exists():
        raise FileNotFoundError(path)
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if place in list_sources().values():
        return _place_study_page(place)
    if place.is_dir():
        parts = path.split("/")
        if parts[0] == "studies":
            return f"gallery/{parts[1].replace('_', '-')}.md"
        raise FileNotFoundError(f"{path}: folders have no page")
    return f"{FILES}/{path}"


def read_title(page: str) -> str:
    """Return the title of a page that is not made, empty if it is none."""
    file = list_sources().get(page)
    found = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE) if file else None
    return found[1] if found else ""


def _name_links(text: str, source: str) -> str:
    """Return a text in which links that are called by the name of a page's file have the page's title."""

    def link(found: re.Match[str]) -> str:
        target = found[2].partition("#")[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        return f"[{read_title(place_on_site(path)) if (ROOT / path).exists() else found[1]}]({found[2]})"

    return NAMED.sub(link, text)


def move_links(text: str, source: str, page: str) -> str:
    """Return a text with links as its page on the site needs them.

    `source` is the file of the text, from the root of the repository, `page` its place on the site. A link that shows
    the name of a file shows the title of its page instead.
    """

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        if not target or is_outside(target):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = posixpath.relpath(place_on_site(path), posixpath.dirname(page) or ".")
        return f"{found[1]}{place}{'#' * bool(anchor)}{anchor}{found[3]}"

    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, _name_links(text[at : fence.start()], source)), fence[0]]
        at = fence.end()
    return "".join([*parts, LINK.sub(link, _name_links(text[at:], source))])


def list_files() -> set[str]:
    """Return the files outside of `docs` that pages link to, from the root of the repository."""
    found = set()
    for source in list_sources().values():
        for target in list_targets(source.read_text(encoding="utf-8")):
            name = target.partition("#")[0]
            if name and not is_outside(name):
                path = posixpath.normpath(posixpath.join(source.parent.relative_to(ROOT).as_posix(), name))
                if place_on_site(path).startswith(f"{FILES}/"):
                    found.add(path)
    return found
