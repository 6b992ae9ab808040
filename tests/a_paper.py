"""A made-up paper of three queue disciplines, frames of its runs and verdicts on a single statement: for tests."""

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from dumbbell.evaluate.statement_file import StatementSuite, parse_statements
from dumbbell.evaluate.statement_verdict import StatementVerdict, judge_statements

Values = Callable[[dict[str, Any], int], float | None]
FILE: dict[str, Any] = {
    "title": "A paper",
    "of": "results",
    "program": "a_paper",
    "table": {
        "runs": {"measures": ["use", "fair"]},
        "classes": {"keys": ["cls"], "measures": ["share", "use"]},
    },
    "words": {
        "good": {"value": 0.9, "origin": "it is so"},
        "small": {"value": 0.2, "origin": "the lower half"},
    },
    "shares": {"most": {"more_than": 0.5, "origin": "literally"}, "generally": {"at_least": 0.75, "origin": "so"}},
    "defaults": {"variant": ["new", ""]},
    "sets": {"alone": {"mix": "a"}},
    "paragraphs": {"V": {"title": "V. Analysis"}, "own": {"title": "Acceptance", "counted": False}},
    "cells": [
        {"mix": "a", "variant": "", "aqm": ["STEP", "PI2", "X"], "n": ["2", "10"], "k": [0.1, 0.2, 1, 2], "cls": "a"},
        {
            "mix": "both",
            "variant": ["new", "old"],
            "aqm": ["STEP", "PI2", "X"],
            "n": ["2", "10"],
            "k": [0.1, 0.2, 1, 2],
            "cls": ["a", "b"],
        },
    ],
}
STATEMENT: dict[str, Any] = {
    "id": "c",
    "answers": ["V"],
    "says": "It is so.",
    "measure": "use",
    "set": "alone",
    "passes": ">= good",
    "cells": "every",
}


def read(*statements: dict[str, Any], **top: Any) -> StatementSuite:
    table = copy.deepcopy(FILE) | top | {"criterion": [STATEMENT | one for one in statements]}
    return parse_statements(table, "test.toml")


def frame(
    keys: list[str], measures: Mapping[str, Values], seeds: list[int], cells: Any = FILE["cells"]
) -> pl.DataFrame:
    """A row for each cell of the matrix and seed; a cell of which all values are None has no row."""
    rows = []
    for block in cells:
        lists = [block[key] if isinstance(block[key], list) else [block[key]] for key in keys]
        for values, seed in itertools.product(itertools.product(*lists), seeds):
            cell = dict(zip(keys, values, strict=True))
            found = {name: make(cell, seed) for name, make in measures.items()}
            if any(one is not None for one in found.values()):
                rows.append({"seed": seed, **cell, **found})
    return pl.DataFrame(rows, infer_schema_length=None)


KEYS = ["mix", "variant", "aqm", "n", "k"]


def verdict(statement: dict[str, Any], use: Values, fair: Values = lambda *_: 1.0, seeds: int = 1) -> StatementVerdict:
    """The verdict on one statement; `use` gives both tables their values."""
    each = list(range(seeds))
    tables = {
        "runs": frame(KEYS, {"use": use, "fair": fair}, each),
        "classes": frame([*KEYS, "cls"], {"share": use, "use": use}, each),
    }
    (found,) = judge_statements(read(statement), tables)
    return found


def by(key: str, values: Mapping[Any, float | None]) -> Values:
    return lambda cell, _: values[cell[key]]


K = {0.1: 0.5, 0.2: 0.7, 1: 0.95, 2: 0.99}
