"""Plain words: what pages, help texts, messages and docstrings do not say, and what they say instead."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from every_case import every_case
from website import commands, links

ROOT = Path(__file__).parent.parent
# patterns with what to write instead
WORDS = {
    r"\bbeside\b": "against, sharing with, next to, in addition to",
    r"\breckon": "compute, count",
    r"(?<!bandwidth-delay )\bproducts? of (?:the )?(?:bandwidth|rate)\b|\b[0-9.]+ products?\b": "BDP",
    r"\buse of the link\b": "utilisation",
    r"\bleast and largest\b": "min-max",
    r"\bwhat is sent again\b": "retransmissions",
    r"\bonce an? (?:run|ACK|round|packet|cell|interval|flow|seed)\b": "once per …",
    r"\bone \w+ an? (?:run|cell|class|flow|seed|line|interval|page|queue)\b": "one … per …",
    r"\ba line each\b": "one line each",
    r"\b(?:packets|frames|flows|segments|starts|times) an? (?:second|round trip)\b": "… per …",
    r"(?<!there )\bis no (?!longer\b|such\b|more\b|way\b|one\b|\w+er\b)\w+": "is not a …",
    r"\btells? (?:\w+ ){1,8}apart\b|\btold apart\b": "distinguish",
    r"\b(?:its|the|from|at) begin\b": "start",
    r"\bof late\b": "recently",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\blistens? to nobody\b": "unresponsive",
    r"\bwould be a lie\b": "say what is so",
    r"\banew\b": "again",
    r"\bfor sure\b": "significantly (FDR 5 %)",
    r"\bin vain\b": "without effect",
    r"\bleaves with \d": "exits with",
    r"\bknown are\b": "choose from",
    r"\bdo not go together\b": "cannot be combined",
    r"\bthere may be (?:one|at most)\b": "at most … are allowed",
    r"\bdiffers? in nothing\b(?! (?:but|else))": "have the same settings",
    r"\bkeeps? parts of\b": "selects",
    r"\bit cannot be written\b": "cannot write",
}
# in pages alone
PAGE_WORDS = {
    r"(?-i:(?:^|(?<=[.:] ))Of )": "name the subject first",
    r"\bgo(?:es)? on\b": "continue, resume",
    r"\bbut for\b": "except",
    r"\b(?:held|holds?) (?:\w+ ){0,3}against\b": "compare with",
    r"\bstands? (?:next|behind|there)\b": "is, appears",
    r"\b(?:nobody|somebody|anybody|whoever)\b": "name the reader or the part",
    r"\bsays? (?:so|how|what|when|which)\b": "explains, reports, lists",
    r"\bcannot be told\b|\btells? (?:how|what|when|which)\b": "cannot be determined; shows, lists",
    r"\bknows? (?:no|nothing|what|which)\b": "does not support, does not distinguish",
    r"\b(?:command|crate|figure|file|glossary|header|page)s? (?:has|have) (?:an?|all|its|one|the)\b": "contains, lists",
}
STYLE_GUIDE = ROOT / "docs" / "style.md"  # quotes the words that it replaces
# in docstrings and comments alone
CODE_WORDS = {
    r"\bwhoever\b": "the user, the program, the process",
    r"\bfor who\b": "for users who",
    r"\b(?:is|are|was|were) told\b": "gets, is given, is printed, is reported",
    r"\bis to know\b": "to know",
    r"\bthat there (?:is|are) not\b": "that does not exist",
    r"\bof somebody's own\b": "of a user",
    r"\bas it is[.:;]?$": "unchanged",
    r"\bfaults? of\b": "error in",
}
# written by programs from results or from the engine's own descriptions; a notebook
MADE = ("docs/validation", "docs/lab-book.md", "docs/reference/")
WRITTEN = ("README.md", "tables.md")  # in the folder of a study
INSIDE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)  # of a template: no prose
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("studies/*/*.md"))]
    if not path.relative_to(ROOT).as_posix().startswith(MADE)
    and not (path.name in WRITTEN and path.is_relative_to(ROOT / "studies"))
]
SUITES = sorted(ROOT.glob("python/dumbbell/suites/*/*.toml"))
# of a suite and its experiments; queries, bars and names are code
SUITE_TEXTS = (
    "title",
    "source",
    "first",
    "origin",
    "says",
    "note",
    "no_data",
    "author",
    "lacks",
    "word",
    "setup",
    "real",
)
PROGRAMS = sorted(path for path in ROOT.glob("python/**/*.py") if "studies" not in path.parts)


def prose(text: str) -> str:
    """Return the prose of a page: without code, links and what a template computes."""
    text = links.INLINE.sub("", links.FENCE.sub("", INSIDE.sub(" ", text)))
    text = re.sub(r"^(?: {4}(?! *[-*\d]).*\n)+", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)|<[^>]*>", "", text)


def find_sentences(program: str) -> Iterator[str]:
    """Yield the sentences of a program: docstrings, messages, help; not words that stand alone."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield re.sub(r"`[^`]*`", "", node.value)


def notes(program: str) -> Iterator[str]:
    """Yield the docstrings and the comments of a program."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(program).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def find_texts(table: Any) -> Iterator[str]:
    """Yield the texts of a suite that reports print."""
    for key, value in table.items() if isinstance(table, dict) else ():
        if key in SUITE_TEXTS and isinstance(value, str):
            yield re.sub(r"`[^`]*`", "", value)
    inner = table.values() if isinstance(table, dict) else table if isinstance(table, list) else ()
    for one in inner:
        yield from find_texts(one)


def refused(text: str, words: Mapping[str, str] = WORDS) -> list[str]:
    """Return what a text should not say, each with what to write instead."""
    plain = re.sub(r"\s+", " ", text)
    return [
        f"…{plain[max(found.start() - 30, 0) : found.end() + 20]}…: {instead}"
        for pattern, instead in words.items()
        for found in re.finditer(pattern, plain, re.IGNORECASE)
    ]


@every_case("page", PAGES)
def test_a_page_has_plain_words(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    if page != STYLE_GUIDE:
        assert not refused(text)
        assert not refused(re.sub(r"^\|.*\n", "", text, flags=re.MULTILINE), PAGE_WORDS)


@pytest.mark.slow
@every_case("program", PROGRAMS)
def test_messages_and_docstrings_have_plain_words(program: Path) -> None:
    assert not [one for text in find_sentences(program.read_text(encoding="utf-8")) for one in refused(text)]


@every_case("program", PROGRAMS)
def test_docstrings_and_comments_name_parts_and_not_people(program: Path) -> None:
    assert not [one for text in notes(program.read_text(encoding="utf-8")) for one in refused(text, CODE_WORDS)]


@every_case("suite", SUITES)
def test_a_suite_has_plain_words(suite: Path) -> None:
    for text in find_texts(tomllib.loads(suite.read_text(encoding="utf-8"))):
        assert not refused(text)
        assert not refused(text, PAGE_WORDS)


def test_help_has_plain_words() -> None:
    assert not refused(commands.make_page())


def test_what_is_refused() -> None:
    assert refused("CUBIC beside Reno") and refused("the mean is no\nmedian") and refused("It tells two of them apart.")
    assert refused("8 products") and refused("one row a run") and refused("from its begin")
    assert not refused(
        "there is no such file; it is no longer one; begin here; the bandwidth-delay product; put it apart"
    )
    assert refused("Nobody needs it, and a note says so.", PAGE_WORDS) and refused("The page has a table.", PAGE_WORDS)
    assert refused("The link knows no flows; the file tells which.", PAGE_WORDS)
    assert not refused("The file has to exist; a page has been written; an error names it.", PAGE_WORDS)
    assert prose("a `beside` b\n\n    beside\n\n{{ beside(1) }} [c](beside.md)\n").split() == ["a", "b", "[c"]
