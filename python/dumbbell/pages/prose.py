"""Finds what was typed by hand in a template though it is a result: numbers, counts as words, comparisons.

A number may stand in a template only inside `{{ }}`; code, links, headings and names such as BBRv2 or RFC 9332 are no
results. A count as a word, or a comparison that a reader would take for a result, stands in `{% says %}`, whose
condition is checked, or in `{% why %}`, where it explains.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jinja2 import nodes

from dumbbell.pages.template import environment

# what has a digit in its name
NAMES = (
    r"BBRv?\d(?:\.\d)?",
    r"bbr\d",
    r"v[123]",
    r"(?:Dual)?PI2",
    r"L4S",
    r"QUIC v\d",
    r"IPv[46]",
    r"ECT\([01]\)",
    r"(?:Linux|FreeBSD|Prague|version|kernel)s? \d+(?:\.\d+)*(?:(?:,| and| or) \d+(?:\.\d+)+)*",
    r"RFCs? \d{3,4}(?: and \d{4})?",
    r"(?:sections?|[Ff]igures?|[Tt]ables?|equations?|lab book|cases?|question|finding) "
    r"\d+(?:\.\d+)*[a-z]?(?:(?:, | and | to |-)\d+(?:\.\d+)*)*",
    r"[PQ]\d{1,2}(?:\.\d+)?",
    r"(?:arXiv|draft)[-\w:. ]*\d[\w.]*",
    r"\((?:[A-Z][\w&+-]*(?: [A-Z][\w&+-]*)* )?(?:19|20)\d\d\)",  # (IMC 2019)
    r"(?:IMC|PAM|IFIP|CoNEXT|SIGCOMM|IETF|NSDI|ICNP) (?:19|20)?\d\d+",
    r"\b(?:of|in|since|before|until) (?:19|20)\d\d\b",
    r"\d+(?:st|nd|rd|th) percentile",
    r"802\.\d+\w*",
    r"triple-isolate",
)
WORDS = re.compile(
    r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|fifty|hundred|thousand|half|halves|third|"
    r"thirds|quarter|twice|thrice|double|doubles|doubled|triple|times as|tenth|fifth|sixth|"
    r"every (?:row|cell|case|run|rate|depth)|"
    r"all (?:rows|cells|cases|runs|rates|versions|queues)|in no|no difference|none of|never|always)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.])[-+±]?\d(?:[\d.,]*\d)?\w*")
ITEM = re.compile(r"^\s*\d+\. ", re.MULTILINE)


@dataclass(frozen=True)
class Problem:
    """Something typed by hand: its line and what it is."""

    line: int
    text: str
    around: str

    def __str__(self) -> str:
        return f"{self.line}: {self.text!r} in {self.around!r}"


def problems(text: str, names: Iterable[str] = ()) -> list[Problem]:
    """Return what a template says by hand; `names` are further patterns of names that have digits or number words."""
    found: list[Problem] = []
    known = re.compile("|".join(f"(?:{one})" for one in (*names, *NAMES)))
    for line, data, where in _data(environment().parse(_without_code(text))):
        shown = known.sub(_blank, ITEM.sub(_blank, data))
        hits = list(NUMBER.finditer(shown))
        if where is None:
            hits += WORDS.finditer(shown)
            hits += _headline(data)
        for hit in sorted(hits, key=lambda one: one.start()):
            around = " ".join(data[max(0, hit.start() - 40) : hit.end() + 40].split())
            found.append(Problem(line + data.count("\n", 0, hit.start()), hit[0].strip(), around))
    for node in environment().parse(text).find_all(nodes.Output):
        for inside in node.nodes:
            if isinstance(inside, nodes.Const) and re.search(r"\d", str(inside.value)):
                found.append(Problem(inside.lineno, str(inside.value), "{{ }} of a constant"))
    return sorted(found, key=lambda one: one.line)


def _headline(data: str) -> list[re.Match[str]]:
    """Return bold sentences and numbered findings, which are statements, outside of a statement."""
    return list(re.finditer(r"^\s*\d+\.\s+\S+|\*\*[^*\n]{12,}\*\*", data, re.MULTILINE))


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _without_code(text: str) -> str:
    """Blank what is not prose: fenced and indented code, inline code, comments, targets of links, headings' numbers."""
    for pattern in (
        r"^```.*?^```",
        r"<!--.*?-->",
        r"^(?: {4}|\t)(?!.*\{[%{]).*$",
        r"`[^`\n]+`",
        r"\]\([^)\s]*\)",
        r"^#+ \d+(?:\.\d+)*\.? ",
        r"^\s*\d+\. (?=\{%)",
        r"^\s*\[[^\]]+\]: \S+$",
    ):
        several = re.DOTALL if pattern.startswith(("^```", "<!--")) else re.NOFLAG
        text = re.sub(pattern, _blank, text, flags=re.MULTILINE | several)
    return text


def _data(node: nodes.Node, where: str | None = None) -> Iterable[tuple[int, str, str | None]]:
    """Yield line, text and the kind of statement that it is in."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.TemplateData):
            yield child.lineno, child.data, where
        elif isinstance(child, nodes.CallBlock):
            for inside in child.body:
                yield from _data(nodes.Template([inside]), "says")
        else:
            yield from _data(child, where)
