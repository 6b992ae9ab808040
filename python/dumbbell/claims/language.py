"""The language of claims: a TOML file, checked, becomes `Claims`. docs/claims.md says what every key means."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from dumbbell.errors import (
    InputError,
    Nothing,
    Unfit,
    UnknownName,
    WrongValue,
    quote_value,
)
from dumbbell.experiment import places, shipped
from dumbbell.experiment.toml_checks import check_keys, check_kind, check_name, is_number, make_error
from dumbbell.experiment.toml_file import read_toml

_T = TypeVar("_T")
Value = str | float
Cell = tuple[tuple[str, Value], ...]  # what distinguishes a cell: columns with their values, in the order of the file

ALONG = {
    "mean": "mean over the values of the key",
    "least": "least value",
    "greatest": "greatest value",
    "range": "greatest less least value",
    "balance": "least over greatest value; 1 if all are equal",
    "change": "value at the last less value at the first value of the key",
    "trend": "rank correlation (Spearman) with the order of the key; 0 if nothing changes",
    "least at": "value of the key at which the measure is least; the first of several",
}
QUANTIFIERS = {
    "every": "every cell satisfies `is`",
    "some": "at least one cell does",
    "mean": "the mean over the cells does",
}
_FILE_KEYS = ("title", "frames", "tables", "words", "shares", "defaults", "sets", "cells", "sections", "claims")
_CLAIM_KEYS = (
    *("id", "section", "figure", "says", "measure", "set", "where", "except", "given", "over", "along", "against"),
    *("is", "cells", "note", "reason", "linux"),
)
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = "< X, <= X, > X, >= X, within X..Y, outside X..Y, where X is a number or a word"


@dataclass(frozen=True)
class Predicate:
    """A condition on a value: `op` with one bound, or with two for `within` and `outside`. `text` is as in the file."""

    text: str
    op: str
    low: float
    high: float = math.nan

    def is_true_of(self, value: float) -> bool:
        """Whether a value satisfies it."""
        if self.op in COMPARISONS:
            return COMPARISONS[self.op](value, self.low)
        return (self.low <= value <= self.high) == (self.op == "within")

    def __str__(self) -> str:
        """As in the file, with numbers in the place of words: `>= 0.95`."""
        if self.op in ("within", "outside"):
            return f"{self.op} {self.low:.4g}..{self.high:.4g}"
        return f"{self.op} {self.low:.4g}"


@dataclass(frozen=True)
class Quantifier:
    """How many cells have to satisfy a predicate: a share of them, more than it if `strict`; or their mean."""

    name: str
    share: float = 1.0
    strict: bool = False

    @property
    def is_mean(self) -> bool:
        """Whether the predicate is of the mean over the cells."""
        return self.name == "mean"

    def is_true_of(self, held: int, of: int) -> bool:
        """Whether `held` cells of `of` are enough."""
        share = held / of
        return share > self.share if self.strict else share >= self.share - 1e-9


@dataclass(frozen=True)
class CellSelection:
    """Conditions on columns: each has the values that are meant."""

    values: Mapping[str, frozenset[Value]]

    def has(self, cell: Cell) -> bool:
        """Whether a cell satisfies every condition."""
        return all(value in self.values[column] for column, value in cell if column in self.values)


@dataclass(frozen=True)
class Given:
    """A condition on a cell, or on its neighbour with other values of some columns."""

    table: str
    measure: str
    replaced: Mapping[str, Value]
    predicate: Predicate


@dataclass(frozen=True)
class Claim:
    """One statement: a measure in `cells` of a table, what is made of it, and what has to hold of how many cells."""

    id: str
    section: str
    figures: tuple[int, ...]
    says: str
    table: str
    measure: str
    cells: tuple[Cell, ...]  # of the paper's matrix, before `given`
    stored: Mapping[Cell, Cell]  # each cell as the table has it: with the columns that only the defaults select
    selects: str  # what is selected of the matrix, as text
    given: tuple[Given, ...]
    over: tuple[str, Value, Value] | None
    along: tuple[tuple[str, str], ...]
    against: tuple[tuple[str, tuple[Value, ...]], ...]
    predicate: Predicate
    quantifier: Quantifier
    note: str = ""
    reason: str = ""
    linux_fails: bool | None = None
    linux: str = ""

    @property
    def text(self) -> str:
        """The condition in one line."""
        parts = [self.measure]
        if self.over:
            parts.append("{} {} / {}".format(*map(label, self.over)))
        parts += [f"{kind} along {key}" for key, kind in self.along]
        for column, (first, *others) in self.against:
            parts.append(f"{column} {label(first)} - {' or '.join(map(label, others))}")
        return f"{', '.join(parts)} {self.predicate} [{self.quantifier.name}]"


@dataclass(frozen=True)
class ClaimSection:
    """A part of the list; `counted` says whether its claims are the paper's."""

    id: str
    title: str
    counted: bool = True


@dataclass(frozen=True)
class ClaimTable:
    """A function of the module of frames: its measures, and the keys that only its rows have."""

    measures: tuple[str, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claims:
    """A checked file of claims."""

    file: str
    title: str
    frames: str
    tables: dict[str, ClaimTable]
    words: dict[str, tuple[float, str]]  # with the reason of each
    shares: dict[str, tuple[Quantifier, str]]
    sections: dict[str, ClaimSection]
    claims: tuple[Claim, ...]
    order: dict[str, tuple[Value, ...]]  # the values of every column, in order

    def select(self, names: Sequence[str]) -> Claims:
        """Return the claims or sections with these names, all if there are none. Raises InputError."""
        known = [*(one.id for one in self.claims), *self.sections]
        for name in names:
            if name not in known:
                raise UnknownName(quote_value(name), among=list(known), option="--only", what="claim or section")
        kept = tuple(one for one in self.claims if not names or one.id in names or one.section in names)
        return replace(self, claims=kept)


def normalise_value(value: Any) -> Value:
    """Return a value of a column in the form in which values are compared: text, or a number of six digits."""
    return value if isinstance(value, str) else float(f"{value:.6g}")


def label(value: Value) -> str:
    """Return a value of a column as text."""
    return value if isinstance(value, str) else f"{value:g}"


def load(name: str | Path) -> Claims:
    """Return the claims of a file, or of those that come with dumbbell, such as `coexistence`. Raises InputError."""
    known = shipped.list_claims()
    path = name if Path(name).exists() else known.get(str(name), name)
    table = read_toml(path, "a file of claims (TOML)", known)
    with places.place_errors(path):
        return parse(table, str(path))


def parse(table: dict[str, Any], file: str) -> Claims:
    """Return checked claims of what a TOML file holds; raises InputError, said of `file`."""
    try:
        return _ClaimsReader(table, file).read_claims()
    except InputError as error:
        raise error.move_into(file) from None


@dataclass
class _ClaimsReader:
    """The file as it is read: what comes first is needed to check what comes later."""

    table: dict[str, Any]
    file: str
    columns: dict[str, list[Value]] = field(default_factory=dict)  # values of each column of `cells`, in order

    def read_claims(self) -> Claims:
        top = check_keys("", self.table, _FILE_KEYS, ("frames", "tables", "cells", "sections", "claims"))
        self.words = self._read_named("words", self._read_word)
        self.shares = self._read_named("shares", self._read_share)
        self.tables = self._read_named("tables", self._read_table)
        self.own = {key for table in self.tables.values() for key in table.keys}
        blocks = check_kind("cells", top["cells"], list, "tables, each a product of values")
        self.matrix = list(self._read_blocks(blocks))
        self.defaults = self._read_selection("defaults", top.get("defaults", {}))
        self.sets = self._read_named("sets", self._read_selection)
        sections = self._read_named("sections", self._read_section)
        claims: dict[str, Claim] = {}
        for number, one in enumerate(check_kind("claims", top["claims"], list, "tables, one per claim")):
            name = check_kind(f"claims[{number}]", one, dict, "a table").get("id")
            if not isinstance(name, str) or not name:
                raise make_error(f"claims[{number}].id", name, "a short name")
            try:
                if name in claims:
                    raise Unfit("two claims have this name", "another name for one of them", key="id")
                claims[name] = self._read_claim(one, sections)
            except InputError as error:
                raise error.move_into("", f"claim {name}: ") from None
        order = {column: tuple(values) for column, values in self.columns.items()}
        title, frames = (check_kind(key, top.get(key, ""), str, "text") for key in ("title", "frames"))
        found = tuple(claims.values())
        return Claims(self.file, title, frames, self.tables, self.words, self.shares, sections, found, order)

    # head of the file

    def _read_named(self, key: str, read: Callable[[str, Any], _T]) -> dict[str, _T]:
        """Return what `read` makes of each table of a table, by name."""
        found: dict[str, Any] = check_kind(key, self.table.get(key, {}), dict, "a table of tables")
        return {name: read(f"{key}.{name}", one) for name, one in found.items()}

    def _read_word(self, key: str, one: Any) -> tuple[float, str]:
        return self._number_of(key, one, "value"), str(one["reason"])

    def _number_of(self, key: str, one: Any, name: str) -> float:
        table = check_keys(key, one, (name, "reason"), (name, "reason"))
        if not is_number(table[name]):
            raise make_error(f"{key}.{name}", table[name], "a number")
        return float(table[name])

    def _read_share(self, key: str, one: Any) -> tuple[Quantifier, str]:
        name = key.removeprefix("shares.")
        if name in QUANTIFIERS:
            raise Unfit(f"{', '.join(QUANTIFIERS)} are names that every file has", "another name", key=key)
        strict = isinstance(one, dict) and "more_than" in one
        share = self._number_of(key, one, "more_than" if strict else "at_least")
        if not 0 <= share <= 1:
            raise make_error(key, share, "a share from 0 to 1")
        return Quantifier(name, share, strict), str(one["reason"])

    def _read_table(self, key: str, one: Any) -> ClaimTable:
        table = check_keys(key, one, ("measures", "keys"), ("measures",))
        return ClaimTable(
            *(
                tuple(map(str, check_kind(f"{key}.{name}", table.get(name, []), list, "a list of columns")))
                for name in ("measures", "keys")
            )
        )

    def _read_section(self, key: str, one: Any) -> ClaimSection:
        table = check_keys(key, one, ("title", "counted"), ("title",))
        counted = check_kind(f"{key}.counted", table.get("counted", True), bool, "true or false")
        return ClaimSection(key.removeprefix("sections."), str(table["title"]), counted)

    def _read_blocks(self, blocks: list[Any]) -> Iterator[dict[str, list[Value]]]:
        """Return each block of the paper's matrix and learn the columns; all blocks have the same columns."""
        for number, block in enumerate(blocks):
            key = f"cells[{number}]"
            first = self.columns or block
            check_keys(key, block, list(first), list(first))
            found = {}
            for column in first:
                values = [normalise_value(one) for one in self._list(f"{key}.{column}", block[column])]
                found[column] = values
                known = self.columns.setdefault(column, [])
                known += [value for value in values if value not in known]
            yield found
        for values in self.columns.values():
            if all(isinstance(value, float) for value in values):
                values.sort()

    def _list(self, key: str, value: Any) -> list[Any]:
        values = value if isinstance(value, list) else [value]
        for one in values:
            if not isinstance(one, str) and not is_number(one):
                raise make_error(key, one, "text or a number, or a list of them")
        return values

    # parts of a claim

    def _read_number(self, key: str, text: str) -> float:
        """Return a number, or the value of a word; either with a minus."""
        try:
            return float(text)
        except ValueError:
            sign, word = (-1, text[1:]) if text.startswith("-") else (1, text)
            if word not in self.words:
                allowed = f"a number, or a word: {', '.join(self.words) or 'there are none'}"
                raise make_error(key, text, allowed, list(self.words)) from None
            return sign * self.words[word][0]

    def _read_predicate(self, key: str, text: Any) -> Predicate:
        op, _, rest = check_kind(key, text, str, _OPERATORS).partition(" ")
        if op in COMPARISONS:
            return Predicate(text, op, self._read_number(key, rest.strip()))
        low, dots, high = rest.partition("..")
        if op not in ("within", "outside") or not dots:
            raise make_error(key, text, _OPERATORS)
        return Predicate(text, op, self._read_number(key, low.strip()), self._read_number(key, high.strip()))

    def _read_value(self, key: str, column: str, value: Any) -> Value:
        """Return a value of a column that the matrix has."""
        known = self._get_column(key, column)
        if not (isinstance(value, str) or is_number(value)) or normalise_value(value) not in known:
            raise make_error(key, value, ", ".join(map(label, known)), [one for one in known if isinstance(one, str)])
        return normalise_value(value)

    def _get_column(self, key: str, column: str) -> list[Value]:
        if column not in self.columns:
            raise UnknownName(column, among=self.columns, key=key, what="column")
        return self.columns[column]

    def _read_selection(self, key: str, table: Any) -> dict[str, frozenset[Value]]:
        found = {}
        for column, wanted in check_kind(key, table, dict, "a table of columns").items():
            here = f"{key}.{column}"
            known = self._get_column(here, column)
            numeric = all(isinstance(one, float) for one in known)
            if numeric and isinstance(wanted, str):
                predicate = self._read_predicate(here, wanted)
                values = [one for one in known if isinstance(one, float) and predicate.is_true_of(one)]
                if not values:
                    raise make_error(here, wanted, f"a range with some of {', '.join(map(label, known))}")
            else:
                values = [self._read_value(here, column, one) for one in self._list(here, wanted)]  # type: ignore[misc]
            found[column] = frozenset[Value](values)
        return found

    def _read_over(self, table: Any) -> tuple[str, Value, Value] | None:
        if table is None:
            return None
        allowed = "one column with two values, such as { cls = [A, B] }"
        if not isinstance(table, dict) or len(table) != 1:
            raise make_error("over", table, allowed)
        ((column, values),) = table.items()
        if not isinstance(values, list) or len(values) != 2:
            raise make_error(f"over.{column}", values, allowed)
        first, second = (self._read_value(f"over.{column}", column, one) for one in values)
        return column, first, second

    def _read_along(self, table: Any) -> tuple[tuple[str, str], ...]:
        kinds = []
        for column, kind in check_kind("along", table, dict, "a table of columns, each with a kind").items():
            values = self._get_column(f"along.{column}", column)
            check_name(f"along.{column}", kind, list(ALONG))
            if kind == "least at" and not all(isinstance(one, float) for one in values):
                raise make_error(f"along.{column}", kind, "a column of numbers")
            kinds.append((column, str(kind)))
        return tuple(kinds)

    def _read_against(self, table: Any, predicate: Predicate) -> tuple[tuple[str, tuple[Value, ...]], ...]:
        found = []
        for column, values in check_kind("against", table, dict, "a table of columns, each with values").items():
            key = f"against.{column}"
            if not isinstance(values, list) or len(values) < 2:
                raise make_error(key, values, "a value, and one or more to hold it against: [A, B, C]")
            if len(values) > 2 and (predicate.op in ("within", "outside") or len(table) > 1):
                raise make_error(key, values, "two values, unless it is the only column and `is` has one bound")
            found.append((column, tuple(self._read_value(key, column, one) for one in values)))
        return tuple(found)

    def _read_given(self, number: int, table: Any, keys: set[str]) -> Given:
        key = f"given[{number}]"
        found = check_keys(key, table, ("measure", "is", *self.columns), ("measure", "is"))
        replaced = {
            column: self._read_value(f"{key}.{column}", column, value)
            for column, value in found.items()
            if column not in ("measure", "is")
        }
        name = self._measure(f"{key}.measure", found["measure"], set(), keys)
        return Given(name, found["measure"], replaced, self._read_predicate(f"{key}.is", found["is"]))

    def _measure(self, key: str, measure: Any, named: set[str], keys: set[str] | None = None) -> str:
        """Return the first table with a measure whose rows have the columns `named`, and none other than `keys`."""
        measures = list(dict.fromkeys(one for table in self.tables.values() for one in table.measures))
        check_name(key, measure, measures)
        for name, table in self.tables.items():
            fits = named & self.own <= set(table.keys) and (keys is None or set(table.keys) <= keys)
            if measure in table.measures and fits:
                return str(name)
        columns = ", ".join(sorted(named & self.own)) or "the columns of this claim"
        raise WrongValue(quote_value(measure), f"a measure that goes with {columns}", key=key)

    def _read_claim(self, one: dict[str, Any], sections: Mapping[str, ClaimSection]) -> Claim:
        check_keys("", one, _CLAIM_KEYS, ("section", "says", "measure", "is", "cells"))
        predicate = self._read_predicate("is", one["is"])
        over, along = self._read_over(one.get("over")), self._read_along(one.get("along", {}))
        against = self._read_against(one.get("against", {}), predicate)
        used = [*([over[0]] if over else []), *(key for key, _ in along), *(key for key, _ in against)]
        if len(set(used)) < len(used):
            raise make_error("over, along, against", ", ".join(used), "each column once")
        wanted = dict(self.sets[check_name("set", one["set"], list(self.sets))]) if "set" in one else {}
        wanted |= self._read_selection("where", one.get("where", {}))
        for column, values in [*([(over[0], over[1:])] if over else []), *against]:
            wanted[column] = frozenset(values)
        left_out = self._read_selection("except", one.get("except", {}))
        named = {*wanted, *left_out, *used}
        table = self._measure("measure", one["measure"], named)
        implied = [column for column in self.defaults if column not in named]
        wanted |= {column: self.defaults[column] for column in implied}
        keys = [column for column in self.columns if column not in self.own or column in self.tables[table].keys]
        stored = self._select_cells(keys, implied, CellSelection(wanted), CellSelection(left_out) if left_out else None)
        keys = [column for column in keys if column not in implied]
        if not stored:
            raise Nothing("it selects no cell of the matrix", "a selection with cells", key="where")
        given = [
            self._read_given(number, each, set(keys))
            for number, each in enumerate(check_kind("given", one.get("given", []), list, "a list of tables"))
        ]
        figures = self._list("figure", one.get("figure", []))
        linux = check_keys("linux", one.get("linux", {}), ("fails", "says"))
        quantifiers = {"every": Quantifier("every"), "some": Quantifier("some", 0.0, strict=True)}
        quantifiers |= {"mean": Quantifier("mean")} | {name: share for name, (share, _) in self.shares.items()}
        return Claim(
            id=one["id"],
            section=check_name("section", one["section"], list(sections)),
            figures=tuple(check_kind("figure", each, int, "numbers of figures") for each in figures),
            says=check_kind("says", one["says"], str, "one sentence"),
            table=table,
            measure=one["measure"],
            cells=tuple(stored),
            stored=stored,
            selects=self._list_restricted(stored),
            given=tuple(given),
            over=over,
            along=along,
            against=against,
            predicate=predicate,
            quantifier=quantifiers[check_name("cells", one["cells"], list(quantifiers))],
            note=check_kind("note", one.get("note", ""), str, "text"),
            reason=check_kind("reason", one.get("reason", ""), str, "text"),
            linux_fails=check_kind("linux.fails", linux["fails"], bool, "true or false") if "fails" in linux else None,
            linux=check_kind("linux.says", linux.get("says", ""), str, "text"),
        )

    def _list_restricted(self, cells: Iterable[Cell]) -> str:
        """Return the columns that `cells` restrict, with the values that remain."""
        found: dict[str, set[Value]] = {}
        for cell in cells:
            for column, value in cell:
                found.setdefault(column, set()).add(value)
        parts = []
        for column, values in found.items():
            ordered = [label(value) for value in self.columns[column] if value in values]
            parts += [f"{column} {', '.join(ordered)}"] if len(ordered) < len(self.columns[column]) else []
        return "; ".join(parts)

    def _select_cells(
        self, keys: Sequence[str], implied: Sequence[str], wanted: CellSelection, left_out: CellSelection | None
    ) -> dict[Cell, Cell]:
        """Return the selected cells without the columns `implied`, each with the cell of the matrix that it is."""
        place = {column: {value: i for i, value in enumerate(values)} for column, values in self.columns.items()}
        found: dict[Cell, Cell] = {}
        for block in self.matrix:
            for values in itertools.product(*(block[column] for column in keys)):
                full = tuple(zip(keys, values, strict=True))
                if not wanted.has(full) or (left_out is not None and left_out.has(full)):
                    continue
                cell = tuple(pair for pair in full if pair[0] not in implied)
                if found.setdefault(cell, full) != full:
                    texts = " and ".join(", ".join(label(dict(one)[c]) for c in implied) for one in (found[cell], full))
                    raise Unfit(f"the cells differ in {', '.join(implied)} alone ({texts})", "one of them", key="where")
        return dict(sorted(found.items(), key=lambda item: [place[column][value] for column, value in item[0]]))
