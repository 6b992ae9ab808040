"""Finds what was typed by hand in a template though it is a result: numbers, counts as words, comparisons.

A number may stand in a template only inside `{{ }}`; code, links, headings and names such as BBRv2 or RFC 9332 are no
results. A count as a word, or a comparison that a reader would take for a result, stands in `{% says %}`, whose
condition is checked, or in `{% why %}`, where it explains.

A condition must test the sentence that it guards. So a sentence with a superlative needs `lowest`, `highest`, or
`.min` or `.max` on a side of `==`; one with "most" needs `.most` or `most_of`; one with "every", "all" or "never" needs
`.every`, `.none` or an extreme; one with "than" needs a comparison of two values of the evidence. A number behind
"within", "at most" or "at least" is a bound, which `at_most` and `at_least` round outwards.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jinja2 import nodes

from dumbbell.pages.template import make_environment

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


_SUPERLATIVE = re.compile(
    r"\b(?<!at )(?<!at the )(least|lowest|highest|largest|smallest|best|worst|fewest|longest|shortest|fastest|slowest|"
    r"weakest|strongest|nearest|closest)\b|\b(?:than any|more than all|\w+s most)\b(?! of)",
    re.IGNORECASE,
)
_MOST = re.compile(r"\b(mostly|most of|most \w+s|usually|the majority)\b", re.IGNORECASE)
_EVERY = re.compile(r"\b(every|all|always|never|none|in no|neither|no other)\b", re.IGNORECASE)
# a fair share is a number of the measure itself, as half of a link is
_THAN = re.compile(r"\b(than|instead of)\b(?! (?:its|a|an|their) (?:fair|equal|share)| half)", re.IGNORECASE)
_EXTREMES = {"min", "max", "lowest", "highest"}
_WHOLE = _EXTREMES | {"every", "none", "count", "only", "missing", "differs"}
_ROUND_TO_NEAREST = {"fixed", "number", "percent", "span", "percents", "numbers"}
_BOUND_BEFORE = re.compile(
    r"\b(within|at most|at least|no more than|no fewer than|fewer than|less than|up to|by at most|by up to)\s+\W{0,3}$",
    re.IGNORECASE,
)
_BOUND_BEHIND = re.compile(r"^[^.;:,{(]{0,40}?\b(at most|at worst|at least|or more|or less|or better)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """Something typed by hand: its line and what it is."""

    line: int
    text: str
    around: str

    what: str = "typed by hand"
    """What is wrong with it."""

    def __str__(self) -> str:
        return f"{self.line}: {self.text!r} in {self.around!r}: {self.what}"


def find_problems(text: str, names: Iterable[str] = ()) -> list[Problem]:
    """Return what a template says by hand; `names` are further patterns of names that have digits or number words."""
    found: list[Problem] = []
    known = re.compile("|".join(f"(?:{one})" for one in (*names, *NAMES)))
    parsed = make_environment().parse(_blank_code(text))
    for line, data, where in _list_data(parsed):
        shown = known.sub(_blank_match, ITEM.sub(_blank_match, data))
        hits = list(NUMBER.finditer(shown))
        if where is None:
            hits += WORDS.finditer(shown)
            hits += _find_statements(data)
        for hit in sorted(hits, key=lambda one: one.start()):
            around = " ".join(data[max(0, hit.start() - 40) : hit.end() + 40].split())
            found.append(Problem(line + data.count("\n", 0, hit.start()), hit[0].strip(), around))
    for node in make_environment().parse(text).find_all(nodes.Output):
        for inside in node.nodes:
            if isinstance(inside, nodes.Const) and re.search(r"\d", str(inside.value)):
                found.append(Problem(inside.lineno, str(inside.value), "{{ }} of a constant"))
    found += _find_rounded_bounds(parsed)
    found += _find_untested(parsed, known)
    return sorted(found, key=lambda one: one.line)


def _find_rounded_bounds(template: nodes.Template) -> Iterable[Problem]:
    """Yield bounds that are rounded to nearest, so that a reader takes 0.074 for "within 0.07"."""
    for output in template.find_all(nodes.Output):
        for place, expression in enumerate(output.nodes):
            if not (isinstance(expression, nodes.Call) and isinstance(expression.node, nodes.Name)):
                continue
            before, behind = (_find_data(output, place + step) for step in (-1, 1))
            hit = _BOUND_BEFORE.search(before) or _BOUND_BEHIND.search(behind)
            if hit and expression.node.name in _ROUND_TO_NEAREST:
                around = " ".join(f"{before[-40:]}{{{{ {expression.node.name}() }}}}{behind[:40]}".split())
                fault = f"a bound that {expression.node.name}() rounds to nearest: use at_most, at_least or bounds"
                yield Problem(expression.lineno, hit[0].strip(), around, fault)


def _find_data(output: nodes.Output, place: int) -> str:
    """Return the text at a place of an output, or nothing if an expression stands there."""
    one = output.nodes[place] if 0 <= place < len(output.nodes) else None
    return one.data if isinstance(one, nodes.TemplateData) else ""


def _find_untested(template: nodes.Template, known: re.Pattern[str]) -> Iterable[Problem]:
    """Yield words of statements that their conditions do not test."""
    variables = {
        assignment.target.name: {one.name for one in _list_parts(assignment.node) if isinstance(one, nodes.Name)}
        for assignment in template.find_all(nodes.Assign)
        if isinstance(assignment.target, nodes.Name)
    }
    for block in template.find_all(nodes.CallBlock):
        condition = block.call.args[0]
        if isinstance(condition, nodes.Const):
            continue  # an explanation, or a sentence whose condition is a constant
        pieces = [
            one.data if isinstance(one, nodes.TemplateData) else "#"
            for output in nodes.Template(block.body).find_all(nodes.Output)
            for one in output.nodes
        ]
        said = known.sub(_blank_match, " ".join("".join(pieces).split()))
        parts = _list_parts(condition)
        asked = {one.attr if isinstance(one, nodes.Getattr) else getattr(one, "name", "") for one in parts}
        asked |= {"lowest", "highest"} & {name for variable in asked for name in variables.get(variable, ())}
        tests = {
            "lowest(), highest(), or .min or .max on a side of ==": (_SUPERLATIVE, _asks_for_extreme(parts, asked)),
            ".most or most_of()": (_MOST, bool(asked & {"most", "most_of"})),
            ".every, .none or an extreme": (_EVERY, bool(asked & _WHOLE)),
            "a comparison of two values of the evidence": (_THAN, _compares_values(parts, asked)),
        }
        for needed, (words, is_tested) in tests.items():
            hit = words.search(said)
            if hit and not is_tested:
                around = said[max(0, hit.start() - 40) : hit.end() + 40]
                yield Problem(block.lineno, hit[0], around, f"its condition does not test that: it needs {needed}")


def _list_parts(expression: nodes.Node) -> list[nodes.Node]:
    """Return an expression and the names, attributes and comparisons in it."""
    return [expression, *expression.find_all((nodes.Getattr, nodes.Name, nodes.Compare))]


def _asks_for_extreme(parts: Iterable[nodes.Node], asked: set[str]) -> bool:
    """Return whether a condition asks who has the lowest or highest value of all."""
    equal = [one for one in parts if isinstance(one, nodes.Compare) and one.ops[0].op == "eq"]
    sides = [side for one in equal for side in (one.expr, one.ops[0].expr)]
    return bool(asked & {"lowest", "highest"}) or any(
        isinstance(one, nodes.Getattr) and one.attr in ("min", "max")
        for side in sides
        for one in [side, *side.find_all(nodes.Getattr)]
    )


def _compares_values(parts: Iterable[nodes.Node], asked: set[str]) -> bool:
    """Return whether a condition, in its `parts`, compares two values that are both of the evidence."""
    if asked & {"pairs", "lowest", "highest", "difference", "ratio"}:
        return True
    return any(
        _is_of_evidence(one.expr) and any(_is_of_evidence(operand.expr) for operand in one.ops)
        for one in parts
        if isinstance(one, nodes.Compare)
    )


def _is_of_evidence(expression: nodes.Expr) -> bool:
    return isinstance(expression, nodes.Name) or expression.find(nodes.Name) is not None


def _find_statements(data: str) -> list[re.Match[str]]:
    """Return bold sentences and numbered findings, which are statements, outside of a statement."""
    return list(re.finditer(r"^\s*\d+\.\s+\S+|\*\*[^*\n]{12,}\*\*", data, re.MULTILINE))


def _blank_match(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _blank_code(text: str) -> str:
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
        text = re.sub(pattern, _blank_match, text, flags=re.MULTILINE | several)
    return text


def _list_data(node: nodes.Node, where: str | None = None) -> Iterable[tuple[int, str, str | None]]:
    """Yield line, text and the kind of statement that it is in."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.TemplateData):
            yield child.lineno, child.data, where
        elif isinstance(child, nodes.CallBlock):
            for inside in child.body:
                yield from _list_data(nodes.Template([inside]), "says")
        else:
            yield from _list_data(child, where)
