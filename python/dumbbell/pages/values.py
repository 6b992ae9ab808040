"""The values of results for templates: rows of a table, the values of a column, and comparisons that hold or not.

Nothing is empty: a selection without rows is an error, so that "in every row" never speaks of no row.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from statistics import mean, median
from typing import Any

import polars as pl


class PageError(ValueError):
    """A page that cannot be made; its text is one line."""


class Between:
    """A condition: from `low` to `high`, both included; None means no limit."""

    def __init__(self, low: float | None = None, high: float | None = None) -> None:
        self.low, self.high = low, high

    def __repr__(self) -> str:
        return f"between({self.low}, {self.high})"


class Other:
    """A condition: none of these values."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"other{self.values}"


class Rows:
    """Rows of one table. `rows(cc="BBRv1", depth=between(0, 1))` narrows them; `rows.share` are a column's values."""

    def __init__(self, name: str, frame: pl.DataFrame) -> None:
        self.name, self.frame = name, frame

    def __call__(self, **where: Any) -> "Rows":
        """Return the rows in which each column has the value, one of a list, or one that Between or Other allows."""
        narrowed = self.frame
        for column, wanted in where.items():
            self._require_column(column)
            narrowed = narrowed.filter(_make_condition(column, wanted))
        name = f"{self.name}({', '.join(f'{column}={wanted!r}' for column, wanted in where.items())})"
        if narrowed.is_empty():
            raise PageError(f"{name}: no rows")
        return Rows(name, narrowed)

    def __getattr__(self, column: str) -> "Values":
        if column not in self.frame.columns:  # Jinja then asks __getitem__, which says more
            raise AttributeError(column)
        return self[column]

    def __getitem__(self, column: str) -> "Values":
        self._require_column(column)
        return Values(f"{self.name}.{column}", self.frame[column].to_list())

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.frame.iter_rows(named=True)

    def _require_column(self, column: str) -> None:
        if column not in self.frame.columns:
            raise PageError(f"{self.name}: no column {column!r}, only {', '.join(self.frame.columns)}")

    def group(self, *by: str, **values: tuple[str, str]) -> "Rows":
        """Return one row per value of `by`; `high=("share", "max")` adds a column: mean, median, min, max or sum."""
        for column in (*by, *(column for column, _ in values.values())):
            self._require_column(column)
        made = [getattr(pl.col(column), how)().alias(name) for name, (column, how) in values.items()]
        return Rows(f"{self.name} by {', '.join(by)}", self.frame.group_by(by, maintain_order=True).agg(*made))


def _make_condition(column: str, wanted: Any) -> pl.Expr:
    col = pl.col(column)
    match wanted:
        case Between():
            low = pl.lit(True) if wanted.low is None else col >= wanted.low - 1e-9
            high = pl.lit(True) if wanted.high is None else col <= wanted.high + 1e-9
            return low & high
        case Other():
            return ~pl.any_horizontal(col.eq_missing(one) for one in wanted.values)
        case list() | tuple():
            return pl.any_horizontal(col.eq_missing(one) for one in wanted)
        case None:
            return col.is_null()
        case _:
            return col.eq(wanted)


def _make_arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[["Values", Any], "Values"]:
    """Return the method of an operator that gives a value for each row."""
    return lambda self, other: Values(self.name, self._join_values(other, compute))


def _make_comparison(sign: str, compare: Callable[[Any, Any], bool]) -> Callable[["Values", Any], "Answers"]:
    """Return the method of an operator that gives an answer for each row."""
    return lambda self, other: Answers(f"{self.name} {sign} {other}", self._join_values(other, compare))


class Values:
    """Numbers (or words) in the order of their rows; a missing one is an error where it would count."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name, self.values = name, list(values)
        if not self.values:
            raise PageError(f"{name}: no values")

    def _list_numbers(self) -> list[Any]:
        if any(value is None or value != value for value in self.values):
            raise PageError(f"{self.name}: {self.values.count(None)} of {len(self.values)} are missing")
        return self.values

    @property
    def min(self) -> float:
        """The least."""
        return float(min(self._list_numbers()))

    @property
    def max(self) -> float:
        """The largest."""
        return float(max(self._list_numbers()))

    @property
    def mean(self) -> float:
        """The mean."""
        return float(mean(self._list_numbers()))

    @property
    def median(self) -> float:
        """The median."""
        return float(median(self._list_numbers()))

    @property
    def sum(self) -> float:
        """The sum."""
        return float(sum(self._list_numbers()))

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def only(self) -> Any:
        """The value that all have; an error if they differ."""
        if any(value != self.values[0] for value in self.values):
            raise PageError(f"{self.name}: {len(set(self.values))} values where one is meant")
        return self.values[0]

    @property
    def present(self) -> "Values":
        """Those that are not missing."""
        return Values(self.name, [value for value in self.values if value is not None])

    @property
    def missing(self) -> int:
        """How many are missing."""
        return self.values.count(None)

    def _join_values(self, other: Any, of: Callable[[Any, Any], Any]) -> list[Any]:
        if isinstance(other, Values):
            if other.n != self.n:
                raise PageError(f"{self.name} has {self.n} values, {other.name} {other.n}: pairs() puts them together")
            return [of(a, b) for a, b in zip(self._list_numbers(), other._list_numbers(), strict=True)]
        return [of(a, other) for a in self._list_numbers()]

    __add__ = _make_arithmetic(operator.add)
    __sub__ = _make_arithmetic(operator.sub)
    __mul__ = __rmul__ = _make_arithmetic(operator.mul)
    __truediv__ = _make_arithmetic(operator.truediv)
    __lt__ = _make_comparison("<", operator.lt)
    __le__ = _make_comparison("<=", operator.le)
    __gt__ = _make_comparison(">", operator.gt)
    __ge__ = _make_comparison(">=", operator.ge)
    __eq__ = _make_comparison("==", operator.eq)  # type: ignore[assignment]
    __ne__ = _make_comparison("!=", operator.ne)  # type: ignore[assignment]

    def __abs__(self) -> "Values":
        return Values(self.name, [abs(a) for a in self._list_numbers()])

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in self.values[:12])
        return f"{self.name} = [{shown}{', ...' if self.n > 12 else ''}]"


class Answers:
    """Whether a comparison holds, row by row; `every`, `most`, `some`, `none` or `count` says what is meant."""

    def __init__(self, name: str, answers: Sequence[bool]) -> None:
        self.name, self.answers = name, list(answers)

    @property
    def every(self) -> bool:
        """Whether it holds in every row."""
        return all(self.answers)

    @property
    def some(self) -> bool:
        """Whether it holds in one row or more."""
        return any(self.answers)

    @property
    def none(self) -> bool:
        """Whether it holds in no row."""
        return not any(self.answers)

    @property
    def count(self) -> int:
        """In how many rows it holds."""
        return sum(self.answers)

    @property
    def most(self) -> bool:
        """Whether it holds in more than half of the rows."""
        return 2 * sum(self.answers) > len(self.answers)

    @property
    def share(self) -> float:
        """In which share of the rows it holds."""
        return sum(self.answers) / len(self.answers)

    def both(self, other: "Answers") -> "Answers":
        """Return whether this and another comparison of the same rows hold, row by row."""
        if other.n != self.n:
            raise PageError(f"{self.name} has {self.n} rows, {other.name} {other.n}")
        return Answers(
            f"{self.name} and {other.name}", [a and b for a, b in zip(self.answers, other.answers, strict=True)]
        )

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.answers)

    def __bool__(self) -> bool:
        raise PageError(f"{self.name}: say .every, .most, .some, .none or .count")


def pair_rows(first: Rows, second: Rows, on: str | Sequence[str], value: str) -> Rows:
    """Return rows with `first`, `second`, `difference` and `ratio` (first to second) of a column, by the columns `on`.

    Every row of either must have its counterpart, and only one.
    """
    keys = [on] if isinstance(on, str) else list(on)
    left, right = (
        rows.frame.select(*keys, pl.col(value).alias(name)) for rows, name in ((first, "first"), (second, "second"))
    )
    both = left.join(right, on=keys, how="inner", validate="1:1", nulls_equal=True)
    if both.height != left.height or both.height != right.height:
        raise PageError(f"{first.name} and {second.name}: {left.height} and {right.height} rows, {both.height} pairs")
    if both.is_empty():
        raise PageError(f"{first.name} and {second.name}: no pairs")
    a, b = pl.col("first"), pl.col("second")
    return Rows(f"{first.name} against {second.name}", both.with_columns(difference=a - b, ratio=a / b))


def find_lowest(rows: Rows, value: str, who: dict[str, Any], in_each: str | Sequence[str] = ()) -> Answers:
    """Return, for each combination of the columns `in_each`, whether `who` has the lowest value of all rows there.

    Without `in_each` all rows are compared at once. `who` narrows rows as a call does. All of its rows must lie below
    all others; with a tie nobody has the lowest value.
    """
    return _find_extreme(rows, value, who, in_each, sign=1)


def find_highest(rows: Rows, value: str, who: dict[str, Any], in_each: str | Sequence[str] = ()) -> Answers:
    """Return, for each combination of the columns `in_each`, whether `who` has the highest value of all rows there."""
    return _find_extreme(rows, value, who, in_each, sign=-1)


def _find_extreme(rows: Rows, value: str, who: dict[str, Any], in_each: str | Sequence[str], *, sign: int) -> Answers:
    keys = [in_each] if isinstance(in_each, str) else list(in_each)
    for column in (*keys, value, *who):
        rows[column]  # or an error that names the columns
    chosen = pl.all_horizontal(_make_condition(column, wanted) for column, wanted in who.items())
    name = f"{'lowest' if sign > 0 else 'highest'} {value} of {rows.name}: {who}"
    answers = []
    frame = rows.frame.with_columns(_chosen=chosen.fill_null(False))
    for place, group in frame.group_by(keys, maintain_order=True) if keys else [(("all rows",), frame)]:
        mine, others = (group.filter(pl.col("_chosen") == is_mine)[value] for is_mine in (True, False))
        if mine.is_empty() or others.is_empty() or group[value].null_count():
            what = "a value is missing" if group[value].null_count() else "nothing to compare"
            raise PageError(f"{name}: {what} at {', '.join(map(str, place))}")
        answers.append(bool((sign * mine).max() < (sign * others).min()))  # type: ignore[operator]
    return Answers(name, answers)


def is_most_of(part: float, whole: float) -> bool:
    """Return whether a part is more than half of its whole; both are positive."""
    return part > 0 and whole > 0 and 2 * part > whole
