"""Where the packets of two runs part: the first packet that differs, and what follows it on both sides."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from dumbbell.errors import Nothing
from dumbbell.results.tables import align_table
from dumbbell.words import format_count, trim_zeros

AROUND = 5  # packets that are shown before the first difference, and after it on either side
MOST_STREAMS = 12  # flows and directions that the table names
# what is compared, with the words for it; `fate` and `window` only where both sides know them
_FIELDS = {
    "protocol": "protocol",
    "flags": "flags",
    "seq": "seq",
    "ack": "ack",
    "length": "length of the frame",
    "payload": "payload",
    "window": "window",
    "sack": "SACK blocks",
    "ecn": "ECN field",
    "fate": "fate",
}
_SHOWN = ("seq", "payload", "ack", "flags", "window", "ecn", "sack", "fate")
_STREAM = ["flow", "direction"]


@dataclass(frozen=True)
class PacketSide:
    """The packets of a run at a point, in order of time: `time_ns`, `flow`, `direction` and what `_FIELDS` names.

    `fate` is what queues did with a packet, "" for nothing; null if the side does not know. `of_run` is whether times
    count from the start of the run.
    """

    name: str
    rows: pl.DataFrame
    of_run: bool = True

    @property
    def start_ns(self) -> int:
        """When the first packet was seen, by the side's own clock."""
        return int(self.rows["time_ns"][0])


@dataclass(frozen=True)
class PacketStream:
    """A flow in one direction: its packets on both sides, how many are equal before the first that differs, and when.

    `first_ns` is null if none differs; `apart_ns` are the median and the largest difference of equal packets' times.
    """

    flow: int
    direction: str
    packets: tuple[int, int]
    equal: int
    first_ns: int | None
    apart_ns: tuple[float, int]


@dataclass(frozen=True)
class Parting:
    """The packets that two sides share, where they part, and what differs in the first packet that does."""

    point: str
    sides: tuple[PacketSide, PacketSide]
    within_ns: int | None
    streams: list[PacketStream]
    differences: list[str] = field(default_factory=list)
    shown: list[list[str]] = field(default_factory=list)

    @property
    def different(self) -> bool:
        """Whether any packet differs."""
        return bool(self.differences)

    def to_markdown(self) -> str:
        """Return all of it as text."""
        a, b = self.sides
        names = [f"A is {a.name}", f"B is {b.name}"]
        clock = "Times count from the start of each run"
        if not _have_same_clock(a, b):
            starts = " and ".join(_format_seconds(side.start_ns) for side in self.sides)
            clock = f"Times count from the first packet of each side, at {starts} s of its own clock"
        time = "they are not compared"
        if self.within_ns is not None:
            time = f"they may be {_format_microseconds(self.within_ns)} us apart"
        head = f"Packets at {self.point}. {clock}; {time}."
        rows = [_make_row(stream) for stream in self.streams[:MOST_STREAMS]]
        table = align_table(list(_HEADER), rows, words=(1,))
        left = len(self.streams) - len(rows)
        parts = ["\n".join([*names, head]), table]
        if left:
            parts.append(f"Left out: {left} flows and directions more, which part later or not at all.")
        if not self.differences:
            equal = format_count(sum(stream.equal for stream in self.streams), "packet")
            most = max(stream.apart_ns[1] for stream in self.streams)
            sentence = f"No difference in {equal}; their times are at most {_format_microseconds(most)} us apart."
            return "\n\n".join([*parts, sentence])
        first = self.streams[0]
        assert first.first_ns is not None
        sentence = (
            f"The first that differs is packet {first.equal + 1} of flow {first.flow}, {first.direction}, "
            f"at {_format_seconds(first.first_ns)} s:"
        )
        filled = [n for n in range(len(_COLUMNS)) if n < _ALWAYS or any(row[n] for row in self.shown)]
        columns = [_COLUMNS[n] for n in filled]
        words = tuple(n for n, column in enumerate(columns) if column in _WORDS)
        view = align_table(columns, [[row[n] for n in filled] for row in self.shown], words=words)
        legend = "`=` equal, `!` differs (A / B), `A` or `B`: only that side has it there."
        return "\n\n".join([*parts, "\n".join([sentence, *(f"- {one}" for one in self.differences)]), view, legend])


_HEADER = (
    *("flow", "way", "packets of A", "of B", "equal until they part", "they part at, s"),
    *("apart, median, us", "most, us"),
)
_COLUMNS = (
    *("", "way", "packet", "A, s", "B - A, us"),
    *("seq", "payload", "ack", "flags", "window", "ECN", "SACK", "fate"),
)
_ALWAYS = 5  # columns that are there even if they are empty
_WORDS = ("", "way", "flags", "ECN", "SACK", "fate")


def _make_row(stream: PacketStream) -> list[str]:
    median, most = (_format_microseconds(one) if stream.equal else "-" for one in stream.apart_ns)
    at = "-" if stream.first_ns is None else _format_seconds(stream.first_ns)
    sizes = [str(one) for one in (*stream.packets, stream.equal)]
    return [str(stream.flow), stream.direction, *sizes, at, median, most]


def _have_same_clock(a: PacketSide, b: PacketSide) -> bool:
    """Return whether the times of both sides can be compared as they are."""
    return a.of_run and b.of_run


def _format_seconds(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09d}"


def _format_microseconds(ns: float) -> str:
    return trim_zeros(ns / 1e3, 3)


def find(a: PacketSide, b: PacketSide, point: str, *, within_ns: int | None = None, around: int = AROUND) -> Parting:
    """Return where two sides part.

    Packets of a flow and direction are compared one by one, in their order: nothing is skipped or tolerated. Times are
    compared only with `within_ns`: packets that are further apart differ. Raises InputError if a side has no packets.
    """
    for side in (a, b):
        if side.rows.is_empty():
            raise Nothing(f"found no packet at {point}", "a run with packets there", file=side.name)
    joined = _join_sides(a, b)
    late = pl.col("apart_ns") > within_ns if within_ns is not None else pl.lit(value=False)
    absent = pl.any_horizontal(pl.col("row", "row_b").is_null())
    joined = joined.with_columns(
        differs=absent | pl.any_horizontal(late, *(_find_difference(name) for name in _FIELDS)).fill_null(value=False)
    )
    first = pl.col("n").filter("differs").min()
    equal = pl.col("n") < first.fill_null(pl.lit(2**62))
    streams = joined.group_by(_STREAM, maintain_order=True).agg(
        a=pl.col("row").count(),
        b=pl.col("row_b").count(),
        equal=equal.sum(),
        first_ns=pl.min_horizontal(pl.col("at_ns", "at_ns_b").filter(pl.col("n") == first).min()),
        first_row=pl.min_horizontal(pl.col("row", "row_b").filter(pl.col("n") == first).min()),
        median=pl.col("apart_ns").filter(equal).median().fill_null(0.0),
        most=pl.col("apart_ns").filter(equal).max().fill_null(0),
    )
    order = ("first_ns", "first_row", "flow", "direction")
    found = [
        PacketStream(flow, direction, (in_a, in_b), equal, first_ns, (median, most))
        for flow, direction, in_a, in_b, equal, first_ns, _, median, most in streams.sort(order, nulls_last=True).rows()
    ]
    if found[0].first_ns is None:
        return Parting(point, (a, b), within_ns, found)
    lead = found[0]
    differing = joined.filter(flow=lead.flow, direction=lead.direction, n=lead.equal).row(0, named=True)
    shown = [_format_cells(one, within_ns) for one in _select_around(joined.filter(flow=lead.flow), lead, around)]
    return Parting(point, (a, b), within_ns, found, list(_describe_difference(differing, within_ns)), shown)


def _join_sides(a: PacketSide, b: PacketSide) -> pl.DataFrame:
    """Return a row for each packet of a flow and direction by its number, with both sides' columns, B's with `_b`."""
    starts = (0, 0) if _have_same_clock(a, b) else (a.start_ns, b.start_ns)
    numbered = [
        side.rows.with_columns(at_ns=pl.col("time_ns") - start, n=pl.int_range(pl.len()).over(_STREAM))
        .with_row_index("row")
        .select("row", "n", "at_ns", *_STREAM, *_FIELDS)
        for side, start in zip((a, b), starts, strict=True)
    ]
    joined = numbered[0].join(numbered[1], on=[*_STREAM, "n"], how="full", coalesce=True, suffix="_b")
    return joined.with_columns(apart_ns=(pl.col("at_ns_b") - pl.col("at_ns")).abs()).sort("row", "row_b")


def _find_difference(name: str) -> pl.Expr:
    """Return whether a field differs; what a side does not know is not compared."""
    other = pl.col(f"{name}_b")
    if name in ("fate", "window"):
        return (pl.col(name) != other).fill_null(value=False)
    return pl.col(name).ne_missing(other)


def _is_unlike(name: str, row: dict[str, Any]) -> bool:
    mine, other = row[name], row[f"{name}_b"]
    if name in ("fate", "window") and (mine is None or other is None):
        return False
    return bool(mine != other)


def _describe_difference(row: dict[str, Any], within_ns: int | None) -> Iterator[str]:
    """Say what differs in a packet."""
    for name, here, there in (("A", "row", "row_b"), ("B", "row_b", "row")):
        if row[there] is None:
            yield f"only {name} has this packet"
            assert row[here] is not None
            return
    for name, words in _FIELDS.items():
        if _is_unlike(name, row):
            yield f"{words}: A {_format_field(name, row[name])}, B {_format_field(name, row[f'{name}_b'])}"
    if within_ns is not None and row["apart_ns"] > within_ns:
        yield f"time: {_format_microseconds(row['apart_ns'])} us apart, more than {_format_microseconds(within_ns)} us"


def _format_field(name: str, value: Any) -> str:
    return str(value) if value not in (None, "") else "none" if name in ("sack", "fate") else "-"


def _select_around(rows: pl.DataFrame, lead: PacketStream, around: int) -> Iterator[dict[str, Any]]:
    """Yield the last packets of the flow, both ways, before the first difference, then those of both sides from there.

    A row has both sides if they are equal, or differ in something; packets of one side alone have the other's null.
    """
    equal = rows.filter(pl.col("n") < pl.col("n").filter("differs").min().over("direction").fill_null(2**62))
    lines = rows.filter((pl.col("direction") == lead.direction) & (pl.col("n") == lead.equal)).row(0, named=True)
    ahead = pl.any_horizontal(
        (pl.col(row) < lines[row]).fill_null(value=False) for row in ("row", "row_b") if lines[row] is not None
    )
    before = equal.filter(ahead).sort("row")
    yield from before.tail(around).rows(named=True)
    done = before.select("direction", "n")
    following = []
    for row, suffix in (("row", ""), ("row_b", "_b")):
        own = (
            rows.filter(pl.col(row).is_not_null()).join(done, on=["direction", "n"], how="anti").sort(row).head(around)
        )
        following.append([_select_side(one, suffix) for one in own.rows(named=True)])
    yield from _match_packets(*following)


def _select_side(row: dict[str, Any], suffix: str) -> dict[str, Any]:
    """Return one side of a row: its own columns under their names."""
    kept = ("at_ns", "row", *_FIELDS)
    return {"n": row["n"], "direction": row["direction"]} | {name: row[f"{name}{suffix}"] for name in kept}


def _match_packets(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the packets of both sides next to each other: those that are alike, then those in the same place."""
    keys = [
        [tuple(str(row[name]) for name in ("direction", "seq", "ack", "payload", "flags")) for row in side]
        for side in (a, b)
    ]
    for _, first, last, first_b, last_b in difflib.SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        left, right = a[first:last], b[first_b:last_b]
        while left or right:
            both = left and right and left[0]["direction"] == right[0]["direction"]
            mine = left.pop(0) if left else None
            yield _join_halves(mine, right.pop(0) if both or mine is None else None)


def _join_halves(a: dict[str, Any] | None, b: dict[str, Any] | None) -> dict[str, Any]:
    """Return one row of two halves."""
    some = a or b
    assert some is not None
    row = {"direction": some["direction"], "n": some["n"]}
    for half, suffix in ((a, ""), (b, "_b")):
        row |= {f"{name}{suffix}": half[name] if half else None for name in ("at_ns", "row", *_FIELDS)}
    row["number_b"] = b["n"] if b else None
    return row


def _format_cells(row: dict[str, Any], within_ns: int | None) -> list[str]:
    """Return a line of the table of packets."""
    in_a, in_b = row["row"] is not None, row["row_b"] is not None
    late = in_a and in_b and within_ns is not None and abs(row["at_ns_b"] - row["at_ns"]) > within_ns
    unlike = late or (in_a and in_b and any(_is_unlike(name, row) for name in _FIELDS))
    mark = ("!" if unlike else "=") if in_a and in_b else "A" if in_a else "B"
    apart = f"{(row['at_ns_b'] - row['at_ns']) / 1e3:+.3f}" if in_a and in_b else ""
    at = _format_seconds(row["at_ns"] if in_a else row["at_ns_b"])
    other = row.get("number_b", row["n"])
    number = f"{row['n'] + 1}" if other in (None, row["n"]) else f"{row['n'] + 1} / {other + 1}"
    values = []
    for name in _SHOWN:
        if in_a and in_b and _is_unlike(name, row):
            values.append(f"{_write_value(row[name])} / {_write_value(row[f'{name}_b'])}")
        else:
            values.append(_write_value(row[name if in_a else f"{name}_b"], empty=""))
    return [mark, row["direction"], number, at, apart, *values]


def _write_value(value: Any, empty: str = "-") -> str:
    return empty if value in (None, "") else str(value)
