"""Suites of statements about results, such as those of a paper. docs/statements.md says what every key means."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, Nothing, Unfit, UnknownName, WrongValue, quote_value
from dumbbell.evaluate.criterion_bar import CriterionBar, parse_bar
from dumbbell.evaluate.suite_file import (
    Criterion,
    EvaluationSuite,
    Paragraph,
    SuiteReader,
    find_suite_file,
    read_suite_file,
)
from dumbbell.experiment import shipped
from dumbbell.experiment.toml_checks import check_keys, check_kind, check_name, is_number, make_error

Value = str | float
Cell = tuple[tuple[str, Value], ...]
"""The columns that distinguish a cell, with their values, in the order of the file."""
Selection = Mapping[str, frozenset[Value]]
"""The values that are selected, by column."""
Compared = tuple[tuple[str, tuple[Value, ...]], ...]
"""Columns, each with a value and the values that it is compared with."""

KIND = "results"
ALONG = ("mean", "least", "greatest", "range", "balance", "change", "trend", "least at")
"""Functions that reduce the values along a column to one."""
_FILE_KEYS = (
    *("title", "of", "source", "first", "program", "results", "table", "paragraphs"),
    *("words", "shares", "defaults", "sets", "cells", "criterion"),
)
_REQUIRED = ("title", "of", "table", "cells", "paragraphs", "criterion")
STATEMENT_KEYS = (
    *("id", "answers", "figure", "says", "measure", "set", "where", "except", "given", "over", "along", "against"),
    *("passes", "cells", "note", "reason", "linux"),
)


@dataclass(frozen=True)
class Quantifier:
    """How many cells have to meet a bar: a share of them, more than it if `strict`; or their mean."""

    name: str
    share: float = 1.0
    strict: bool = False
    origin: str = ""

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean over the cells that has to meet the bar."""
        return self.name == "mean"

    def is_true_of(self, held: int, of: int) -> bool:
        """Whether `held` cells of `of` are enough."""
        share = held / of
        return share > self.share if self.strict else share >= self.share - 1e-9


QUANTIFIERS = {
    "every": Quantifier("every"),
    "some": Quantifier("some", 0.0, strict=True),
    "mean": Quantifier("mean"),
}


@dataclass(frozen=True)
class GivenCondition:
    """A condition on a cell, or on its neighbour with other values of some columns."""

    table: str
    measure: str
    replaced: Mapping[str, Value]
    bar: CriterionBar


@dataclass(frozen=True, kw_only=True)
class Statement(Criterion):
    """A criterion about results: a measure in cells of a table, what is made of it, and how many cells meet a bar."""

    figures: tuple[int, ...]
    table: str
    cells: Mapping[Cell, Cell]
    """Cells of the matrix, each as the table has it: with the columns that only the defaults select."""
    selects: str
    """The selected part of the matrix, as text."""
    given: tuple[GivenCondition, ...]
    over: Compared
    along: tuple[tuple[str, str], ...]
    against: Compared
    condition: str
    """The bar, with numbers in the place of words."""
    quantifier: Quantifier
    reason: str
    linux_fails: bool | None
    linux: str

    @property
    def bar(self) -> CriterionBar:
        """The bar that cells have to meet."""
        return self.bars[0]

    @property
    def text(self) -> str:
        """The comparison in one line."""
        parts = [self.measure]
        for column, (first, *others) in self.over:
            parts.append(f"{column} {format_column_value(first)} / {' or '.join(map(format_column_value, others))}")
        parts += [f"{kind} along {key}" for key, kind in self.along]
        for column, (first, *others) in self.against:
            parts.append(f"{column} {format_column_value(first)} - {' or '.join(map(format_column_value, others))}")
        return f"{', '.join(parts)} {self.condition} [{self.quantifier.name}]"


@dataclass(frozen=True)
class StatementTable:
    """Rows of runs: measures, the columns that only its rows have, and where they come from: SQL or a function."""

    measures: tuple[str, ...]
    keys: tuple[str, ...] = ()
    sql: str = ""


@dataclass(frozen=True, kw_only=True)
class StatementSuite(EvaluationSuite):
    """A checked suite of statements."""

    criteria: tuple[Statement, ...]
    program: str
    results: tuple[str, ...]
    """The files that are judged if a folder is given; every one if there are none."""
    tables: Mapping[str, StatementTable]
    shares: Mapping[str, Quantifier]
    columns: Mapping[str, tuple[Value, ...]]
    """The values of every column of the matrix, in order."""

    def list_columns(self, table: str) -> tuple[str, ...]:
        """Return the columns of the cells of a table: those that no other table has for itself."""
        others = {key for one in self.tables.values() for key in one.keys} - {*self.tables[table].keys}
        return tuple(column for column in self.columns if column not in others)


def normalise_value(value: Any) -> Value:
    """Return a value of a column in the form in which values are compared: text, or a number of six digits."""
    return value if isinstance(value, str) else float(f"{value:.6g}")


def format_column_value(value: Value) -> str:
    """Return a value of a column as text."""
    return value if isinstance(value, str) else f"{value:g}"


def load_statements(name: str | Path) -> StatementSuite:
    """Return the suite of a study that comes with dumbbell, of a folder, or of a file. Raises InputError."""
    path = Path(name) if Path(name).is_file() else find_suite_file(str(name), shipped.list_suites())
    return read_suite_file(path, lambda *given: _StatementReader(*given).read_suite())


def parse_statements(table: dict[str, Any], file: str) -> StatementSuite:
    """Return the checked suite of what a TOML file holds; raises InputError, said of `file`."""
    try:
        return _StatementReader(table, Path(file)).read_suite()
    except InputError as error:
        raise error.move_into(file) from None


def list_suites_about(experiments: Iterable[str]) -> list[str]:
    """Return the studies with suites of statements to which experiments belong, by the names of their files."""
    own = {name.partition("/")[2]: name.partition("/")[0] for name in shipped.list_experiments()}
    return sorted({own[name] for name in experiments if name in own} & shipped.list_suites().keys())


class _StatementReader(SuiteReader):
    keys, required = _FILE_KEYS, _REQUIRED

    def read_suite(self) -> StatementSuite:
        top = self.table
        check_name("of", top["of"], [KIND])
        words = self._read_named("words", self._read_word)
        # what comes first is needed to check what comes later
        self.numbers = {name: word.value for name, word in words.items()}
        self.shares = self._read_named("shares", self._read_share)
        self.tables = self._read_named("table", self._read_table)
        self.own = {key for table in self.tables.values() for key in table.keys}
        self.columns: dict[str, list[Value]] = {}
        self.blocks = self._read_blocks(check_kind("cells", top["cells"], list, "tables, each a product of values"))
        self.defaults = self._read_selection("defaults", top.get("defaults", {}))
        self.sets = self._read_named("sets", lambda _, key, one: self._read_selection(key, one))
        self.paragraphs = self._read_named("paragraphs", self._read_paragraph)
        found: dict[str, Statement] = {}
        for key, one in self._list_criteria():
            name = check_kind(key, one, dict, "a table").get("id")
            if not isinstance(name, str) or not name:
                raise make_error(f"{key}.id", name, "a short name")
            try:
                if name in found:
                    raise Unfit("two criteria have this name", "another name for one of them", key="id")
                found[name] = self._read_statement(one)
            except InputError as error:
                raise error.move_into("", f"criterion {name}: ") from None
        return StatementSuite(
            name=self.path.resolve().parent.name.replace("_", "-"),
            file=self.path,
            of=KIND,
            paragraphs=self.paragraphs,
            words=words,
            criteria=tuple(found.values()),
            results=self._read_texts("results", top.get("results", [])),
            tables=self.tables,
            shares=self.shares,
            columns={column: tuple(values) for column, values in self.columns.items()},
            **self._read_all("", top, "title", "source", "first", "program"),
        )

    # head of the file

    def _read_paragraph(self, name: str, key: str, value: Any) -> Paragraph:
        table = check_keys(key, value, ("title", "counted"), ("title",))
        counted = check_kind(f"{key}.counted", table.get("counted", True), bool, "true or false")
        return Paragraph(name, self._read_text(f"{key}.title", table["title"]), counted=counted)

    def _read_share(self, name: str, key: str, one: Any) -> Quantifier:
        if name in QUANTIFIERS:
            raise Unfit(f"{', '.join(QUANTIFIERS)} are names that every file has", "another name", key=key)
        bound = "more_than" if isinstance(one, dict) and "more_than" in one else "at_least"
        table = check_keys(key, one, (bound, "origin"), (bound, "origin"))
        share = table[bound]
        if not is_number(share) or not 0 <= share <= 1:
            raise make_error(f"{key}.{bound}", share, "a share from 0 to 1")
        return Quantifier(name, share, bound == "more_than", self._read_text(f"{key}.origin", table["origin"]))

    def _read_table(self, _name: str, key: str, one: Any) -> StatementTable:
        table = check_keys(key, one, ("measures", "keys", "sql"), ("measures",))
        measures, keys = (self._read_texts(f"{key}.{name}", table.get(name, [])) for name in ("measures", "keys"))
        return StatementTable(measures, keys, self._read_text(f"{key}.sql", table.get("sql", "")))

    def _read_blocks(self, blocks: list[Any]) -> list[dict[str, list[Value]]]:
        """Return the blocks of the matrix, which all have the same columns, and learn the values of the columns."""
        found = []
        for number, block in enumerate(blocks):
            key = f"cells[{number}]"
            first = list(self.columns or block)
            check_keys(key, block, first, first)
            found.append(
                {one: list(map(normalise_value, self._read_values(f"{key}.{one}", block[one]))) for one in first}
            )
            for column, values in found[-1].items():
                known = self.columns.setdefault(column, [])
                known += [value for value in values if value not in known]
        for values in self.columns.values():
            if all(isinstance(value, float) for value in values):
                values.sort()
        return found

    def _read_values(self, key: str, value: Any) -> list[Any]:
        values = value if isinstance(value, list) else [value]
        for one in values:
            if not isinstance(one, str) and not is_number(one):
                raise make_error(key, one, "text or a number, or a list of them")
        return values

    # parts of a statement

    def _read_bar(self, key: str, text: Any) -> CriterionBar:
        return parse_bar(text, self.numbers, key)

    def _read_value(self, key: str, column: str, value: Any) -> Value:
        """Return a value of a column that the matrix has."""
        known = self._find_column(key, column)
        if not (isinstance(value, str) or is_number(value)) or normalise_value(value) not in known:
            texts = [one for one in known if isinstance(one, str)]
            raise make_error(key, value, ", ".join(map(format_column_value, known)), texts)
        return normalise_value(value)

    def _find_column(self, key: str, column: str) -> list[Value]:
        if column not in self.columns:
            raise UnknownName(column, among=self.columns, key=key, what="column")
        return self.columns[column]

    def _read_selection(self, key: str, table: Any) -> dict[str, frozenset[Value]]:
        found = {}
        for column, wanted in check_kind(key, table, dict, "a table of columns").items():
            here = f"{key}.{column}"
            known = self._find_column(here, column)
            numbers = [one for one in known if isinstance(one, float)]
            if len(numbers) == len(known) and isinstance(wanted, str):
                bar = self._read_bar(here, wanted)
                values: list[Value] = [one for one in numbers if bar.is_met(one, self.numbers)]
                if not values:
                    texts = ", ".join(map(format_column_value, known))
                    raise make_error(here, wanted, f"a range with some of {texts}")
            else:
                values = [self._read_value(here, column, one) for one in self._read_values(here, wanted)]
            found[column] = frozenset(values)
        return found

    def _read_along(self, table: Any) -> tuple[tuple[str, str], ...]:
        kinds = []
        for column, kind in check_kind("along", table, dict, "a table of columns, each with a kind").items():
            values = self._find_column(f"along.{column}", column)
            check_name(f"along.{column}", kind, ALONG)
            if kind == "least at" and not all(isinstance(one, float) for one in values):
                raise make_error(f"along.{column}", kind, "a column of numbers")
            kinds.append((column, str(kind)))
        return tuple(kinds)

    def _read_compared(self, key: str, table: Any, *, several: bool = False) -> Compared:
        """Return columns with the values that are compared: two, or also several if it is the only column."""
        found = []
        for column, values in check_kind(key, table, dict, "a table of columns, each with two values").items():
            here = f"{key}.{column}"
            several = several and len(table) == 1
            if not isinstance(values, list) or len(values) < 2 or (len(values) > 2 and not several):
                raise make_error(here, values, f"two values{', or more if `passes` has one bound' * several}: [A, B]")
            found.append((column, tuple(self._read_value(here, column, one) for one in values)))
        return tuple(found)

    def _read_given(self, number: int, table: Any, keys: set[str]) -> GivenCondition:
        key = f"given[{number}]"
        found = check_keys(key, table, ("measure", "is", *self.columns), ("measure", "is"))
        replaced = {
            column: self._read_value(f"{key}.{column}", column, value)
            for column, value in found.items()
            if column not in ("measure", "is")
        }
        name = self._find_table(f"{key}.measure", found["measure"], set(), keys)
        return GivenCondition(name, found["measure"], replaced, self._read_bar(f"{key}.is", found["is"]))

    def _find_table(self, key: str, measure: Any, named: set[str], keys: set[str] | None = None) -> str:
        """Return the first table with a measure whose rows have the columns `named`, and none other than `keys`."""
        tables = self.tables
        check_name(key, measure, list(dict.fromkeys(one for table in tables.values() for one in table.measures)))
        for name, table in tables.items():
            fits = named & self.own <= set(table.keys) and (keys is None or set(table.keys) <= keys)
            if measure in table.measures and fits:
                return name
        columns = ", ".join(sorted(named & self.own)) or "the columns of this criterion"
        raise WrongValue(quote_value(measure), f"a measure that goes with {columns}", key=key)

    def _read_statement(self, one: dict[str, Any]) -> Statement:
        check_keys("", one, STATEMENT_KEYS, ("answers", "says", "measure", "passes", "cells"))
        bar = self._read_bar("passes", one["passes"])
        over = self._read_compared("over", one.get("over", {}))
        along = self._read_along(one.get("along", {}))
        against = self._read_compared("against", one.get("against", {}), several=len(bar.conditions) == 1)
        used = [key for key, _ in (*over, *along, *against)]
        if len(set(used)) < len(used):
            raise make_error("over, along, against", ", ".join(used), "each column once")
        wanted = dict(self.sets[check_name("set", one["set"], list(self.sets))]) if "set" in one else {}
        wanted |= self._read_selection("where", one.get("where", {}))
        wanted |= {column: frozenset(values) for column, values in (*over, *against)}
        left_out = self._read_selection("except", one.get("except", {}))
        named = {*wanted, *left_out, *used}
        table = self._find_table("measure", one["measure"], named)
        implied = [column for column in self.defaults if column not in named]
        wanted |= {column: self.defaults[column] for column in implied}
        keys = [column for column in self.columns if column not in self.own or column in self.tables[table].keys]
        cells = self._select_cells(keys, implied, wanted, left_out)
        kept = set(keys) - set(implied)
        conditions = check_kind("given", one.get("given", []), list, "a list of tables")
        linux = check_keys("linux", one.get("linux", {}), ("fails", "says"))
        quantifiers = QUANTIFIERS | self.shares
        figures = self._read_values("figure", one.get("figure", []))
        return Statement(
            id=one["id"],
            answers=self._read_answers("answers", one["answers"]),
            says=check_kind("says", one["says"], str, "one sentence"),
            measure=one["measure"],
            passes=bar,
            figures=tuple(check_kind("figure", each, int, "numbers of figures") for each in figures),
            table=table,
            cells=cells,
            selects=self._list_restricted(cells),
            given=tuple(self._read_given(number, each, kept) for number, each in enumerate(conditions)),
            over=over,
            along=along,
            against=against,
            condition=bar.format_numbers(self.numbers),
            quantifier=quantifiers[check_name("cells", one["cells"], list(quantifiers))],
            linux_fails=check_kind("linux.fails", linux["fails"], bool, "true or false") if "fails" in linux else None,
            linux=self._read_text("linux.says", linux.get("says", "")),
            **self._read_all("", one, "note", "reason"),
        )

    def _list_restricted(self, cells: Iterable[Cell]) -> str:
        """Return the columns that `cells` restrict, with the values that remain."""
        parts = []
        for column, values in collect_values(cells).items():
            ordered = [format_column_value(value) for value in self.columns[column] if value in values]
            if len(ordered) < len(self.columns[column]):
                parts.append(f"{column} {', '.join(ordered)}")
        return "; ".join(parts)

    def _select_cells(
        self, keys: Sequence[str], implied: Sequence[str], wanted: Selection, left_out: Selection
    ) -> dict[Cell, Cell]:
        """Return the selected cells without the columns `implied`, each with the cell of the matrix that it is."""
        place = {column: {value: i for i, value in enumerate(values)} for column, values in self.columns.items()}
        found: dict[Cell, Cell] = {}
        matrix = (
            zip(keys, values, strict=True)
            for one in self.blocks
            for values in itertools.product(*(one[key] for key in keys))
        )
        for full in map(tuple, matrix):
            if not _is_selected(full, wanted) or (left_out and _is_selected(full, left_out)):
                continue
            cell = tuple(pair for pair in full if pair[0] not in implied)
            if found.setdefault(cell, full) != full:
                both = (", ".join(format_column_value(dict(one)[c]) for c in implied) for one in (found[cell], full))
                said = f"the cells differ in {', '.join(implied)} alone ({' and '.join(both)})"
                raise Unfit(said, "one of them", key="where")
        if not found:
            raise Nothing("it selects no cell of the matrix", "a selection with cells", key="where")
        return dict(sorted(found.items(), key=lambda item: [place[column][value] for column, value in item[0]]))


def _is_selected(cell: Cell, selection: Selection) -> bool:
    return all(value in selection[column] for column, value in cell if column in selection)


def collect_values(cells: Iterable[Cell]) -> dict[str, list[Value]]:
    """Return the values of every column of cells, in order."""
    found: dict[str, dict[Value, None]] = {}
    for cell in cells:
        for column, value in cell:
            found.setdefault(column, {})[value] = None
    return {column: list(values) for column, values in found.items()}
