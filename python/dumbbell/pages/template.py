"""Renders a page: a Jinja template whose numbers are expressions and whose statements are conditions.

`{% says CONDITION %}a statement{% endsays %}` is the statement if the condition is true. If it is not, the page cannot
be made, and the error names the statement. `{% why %}…{% endwhy %}` marks an explanation, which no result decides.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from dumbbell.pages import template_words
from dumbbell.pages.evidence import Evidence
from dumbbell.pages.values import (
    Answers,
    Between,
    Other,
    PageError,
    Values,
    find_highest,
    find_lowest,
    is_most_of,
    pair_rows,
)
from dumbbell.words import format_count, join_words


class ContradictedError(PageError):
    """Statements that the results contradict."""

    def __init__(self, page: str, statements: list[tuple[int, str, str]]) -> None:
        self.statements = statements
        lines = [f"{page}:{line}: the results contradict {text!r}: {condition}" for line, text, condition in statements]
        super().__init__("\n".join(lines))


class _Says(Extension):
    tags = {"says", "why"}  # noqa: RUF012  as Jinja declares it

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.statements = 0

    def parse(self, parser: Parser) -> nodes.Node:
        token = next(parser.stream)
        condition: nodes.Expr = nodes.Const(None)
        number = self.statements  # of the statement in the template, from 0
        if token.value == "says":
            condition = parser.parse_expression()
            self.statements += 1
        body = parser.parse_statements((f"name:end{token.value}",), drop_needle=True)
        call = self.call_method("_check_statement", [condition, nodes.Const(token.lineno), nodes.Const(number)])
        return nodes.CallBlock(call, [], [], body).set_lineno(token.lineno)

    def _check_statement(self, condition: Any, line: int, number: int, caller: Callable[[], str]) -> str:
        text = caller()
        if isinstance(condition, Answers | Values) or not isinstance(condition, bool | None):
            raise PageError(
                f"line {line}: {condition!r} is not a condition: say .every, .most, .some or a comparison of numbers"
            )
        if condition is False:
            said = (line, number, " ".join(text.split()))
            self.environment.contradicted.append(said)  # type: ignore[attr-defined]
        return text


def make_environment() -> Environment:
    """Return what templates are read with."""
    found = Environment(  # Markdown, not HTML: nothing is escaped
        undefined=StrictUndefined,
        extensions=[_Says, "jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",
        comment_end_string="##}",
    )
    found.contradicted = []  # type: ignore[attr-defined]
    return found


@functools.lru_cache(32)
def _compile_template(text: str) -> Template:
    return make_environment().from_string(text)


def quote_value(text: str, source: str) -> str:
    """Return a number or statement that somebody else published; `source` says who, where."""
    if not source:
        raise PageError(f"{text!r}: a quotation names its source")
    return text


_COORDINATES = 40  # a column with more values is not a coordinate


def _collect_places(evidence: Evidence) -> set[float]:
    """Return the settings of runs and the coordinates of tables."""
    known = {
        value / scale
        for runs in evidence.made.values()
        for values in runs.get("setup", {}).values()
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool)
        for scale in (1, 1e3, 1e6, 1e9)
    }
    for frame in evidence.tables.values():
        for column in frame.get_columns():
            if column.dtype.is_numeric() and column.n_unique() <= _COORDINATES:
                known |= set(column.drop_nulls().to_list())
    return known


def name_place(known: set[float], text: str) -> str:
    """Return a place such as `5 Mbit/s and 80 ms`; each number must be one that is known."""
    for number in re.findall(r"\d+(?:\.\d+)?", text):
        if not any(math.isclose(float(number), one, rel_tol=1e-6) for one in known):
            raise PageError(f"at({text!r}): no run has {number}")
    return text


def render(text: str, evidence: Evidence, facts: dict[str, Any], page: str = "page.md") -> str:
    """Return the page that a template makes of evidence and facts.

    Raises ContradictedError if a statement does not hold, PageError if the template asks for what is not there.
    """
    known = functools.cache(lambda: _collect_places(evidence))
    names: dict[str, Any] = {
        **{name: evidence.select_table(name) for name in evidence.tables},
        **template_words.ALL,
        "pairs": pair_rows,
        "lowest": find_lowest,
        "highest": find_highest,
        "most_of": is_most_of,
        "between": Between,
        "other": Other,
        "quoted": quote_value,
        "at": lambda text: name_place(known(), text),
        "setup": lambda experiment, key: _get_settings(evidence, experiment, key),
        "made": lambda *experiments: describe_runs(evidence, experiments),
        "abs": abs,
        "min": min,
        "max": max,
        "round": round,
        "len": len,
        "mbit": lambda values: values / 1e6,
        "ms": lambda values: values / 1e6,
        "seconds": lambda values: values / 1e9,
        **facts,
    }
    try:
        # a statement that ends a line ends it; only lines of control leave nothing behind
        kept = re.sub(r"\{%\s*(endsays|endwhy)\s*%\}", r"{% \1 +%}", text)
        template = _compile_template(kept)
        wrong = template.environment.contradicted  # type: ignore[attr-defined]
        wrong.clear()
        made_text = template.render(names)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise PageError(f"{page}{f':{line}' if line else ''}: {error.message or error}") from error
    except PageError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # of an expression
        raise PageError(f"{page}: {type(error).__name__}: {error}") from error
    if wrong:
        conditions = re.findall(r"\{%-?\s*says\s+(.*?)-?%\}", text, re.DOTALL)
        statements = [(line, said, f"not {' '.join(conditions[number].split())}") for line, number, said in wrong]
        raise ContradictedError(page, statements)
    return re.sub(r"\n{3,}", "\n\n", made_text).strip("\n") + "\n"


def _get_settings(evidence: Evidence, experiment: str, key: str) -> Values:
    """Return the values of a key in an experiment's runs: bit/s, ns, bytes."""
    runs = evidence.made.get(experiment)
    if runs is None:
        raise PageError(f"no experiment {experiment!r}, only {', '.join(evidence.made)}")
    if key not in runs["setup"]:
        raise PageError(f"{experiment}: no key {key!r}, only {', '.join(runs['setup'])}")
    return Values(f"{experiment} {key}", runs["setup"][key])


def describe_runs(evidence: Evidence, experiments: tuple[str, ...] = ()) -> str:
    """Return a sentence on how the runs of all, or of some, experiments were made."""
    chosen = [evidence.made[name] for name in experiments or evidence.made]
    if not chosen:
        return "No run is behind this page."
    runs = sum(one["runs"] for one in chosen)
    engines = sorted({engine for one in chosen for engine in one["engines"]})
    seeds = sorted({(one["seeds"][0], len(one["seeds"])) for one in chosen})
    counts = sorted({count for _, count in seeds})
    of_seeds = join_words(counts) if len(counts) <= 2 else f"{counts[0]} to {counts[-1]}"
    name = "engine" if len(engines) == 1 else "engines"
    plural = "seed" if counts == [1] else "seeds"
    return f"{format_count(runs, 'run')} by {name} {join_words(engines)}, {of_seeds} {plural} per cell."
