"""Tables of results: any key as rows and columns, any measure as values."""

import csv
import io
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from dumbbell import matrix, schema
from dumbbell.errors import InputError, nearest
from dumbbell.experiment import param_of
from dumbbell.registry import registry

SHORT = {
    "goodput": "goodput_mbit",
    "throughput": "throughput_mbit",
    "rtt": "rtt_mean_ms",
    "sojourn": "sojourn_mean_ms",
    "backlog": "backlog_mean",
    "relative": "relative_throughput",
    "slowdown": "slowdown_mean",
    "completion": "completion_mean_s",
}
_DESCRIPTIVE = ("key", "experiment", "title", "seed", "matrix", "config", "engine_version", "hash", "flow")

# tables whose rows are parts of a run: what one is called, and the keys that tell those of a run apart
PARTS = {
    "flows": ("flow", ("flow",)),
    "classes": ("class", ("class",)),
    "slowdowns": ("class and range of sizes", ("class", "from_bytes")),
    "short_flows": ("short flow", ("class",)),
}
_PART_KEYS = ("flow", "class", "kind", "cc", "base_rtt_ms", "from_bytes")


def value_text(path: matrix.Path, value: Any) -> str:
    """Return a canonical value of a run's configuration as an experiment file would have it."""
    param = param_of(path)
    if param is not None and (param.kind in ("arrivals", "sizes") or not isinstance(value, dict)):
        return schema.show_value(param, value)
    if isinstance(value, dict) and "name" in value:
        known = {**registry().aqm, **registry().cc, **registry().stage}.get(value["name"])
        params = known.params if known else {}
        unusual = {k: v for k, v in value.items() if k != "name" and (k not in params or params[k].default != v)}
        inside = ", ".join(f"{k}={schema.show_value(params[k], v) if k in params else v}" for k, v in unusual.items())
        return str(value["name"]) + (f"({inside})" if inside else "")
    if isinstance(value, dict) and value.keys() == {"min", "max"}:
        return (
            f"{value['min'] / 1e9:g}s"
            if value["min"] == value["max"]
            else f"{value['min'] / 1e9:g}..{value['max'] / 1e9:g}s"
        )
    if isinstance(value, list) and path[-1] in schema.PATH_KEYS:
        return " + ".join(value_text((*path, index), stage) for index, stage in enumerate(value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def number(value: float | None) -> str:
    """Return a number with four significant digits, `-` for none."""
    if value is None or value != value:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True)
class Key:
    """Values of one key, a row of `frame` each: as text, and what to sort by."""

    name: str
    texts: list[str]
    order: list[Any]


class Frame:
    """Runs and flows of a results file, with every key of their configurations at hand.

    Instead of flows there may be the rows of another of `PARTS`, named by `of`.
    """

    def __init__(self, runs: pl.DataFrame, flows: pl.DataFrame, file: str = "", of: str = "flows") -> None:
        self.file = file
        self.runs = runs
        self.of = of
        self.part, self.part_keys = PARTS[of]
        measures = [name for name in runs.columns if name not in flows.columns or name == "key"]  # a flow's own first
        # what UDP does not have, or classes of it, is not missing: a mean is over the others; nor are short flows that
        # the run ended too early for, which the table counts
        real = pl.selectors.float()
        if of != "flows":
            flows = flows.with_columns(real.fill_nan(None))
        elif "cc" in flows.columns:
            kept = pl.when(pl.col("cc") == "udp").then(real.fill_nan(None)).otherwise(real)
            flows = flows.with_columns(kept.name.keep())
        self.flows = flows.join(runs.select(measures), on="key", how="inner", maintain_order="left")
        self.flow_columns = set(flows.columns)
        self._configs = {key: json.loads(text) for key, text in runs.select("key", "config").iter_rows()}

    @cached_property
    def matrix_keys(self) -> list[str]:
        """Keys of the matrices of all experiments, in order."""
        found = (json.loads(text) for text in self.runs["matrix"].unique(maintain_order=True))
        return list(dict.fromkeys(key for keys in found for key in keys))

    def _config_key(self, name: str) -> matrix.Path | None:
        """Return the path that `name` means: a dotted key, or the end of a key of the matrix or of a section."""
        try:
            path = matrix.parse_path(name)
        except InputError:
            return None

        def known(key: matrix.Path) -> bool:
            return any(matrix.get_path(config, key) for config in self._configs.values())

        if known(path):
            return path
        ends = [key for key in self.matrix_keys if key.split(".")[-1] == name]
        sections, others = (
            [f"{s}.{name}" for s in of if known(matrix.parse_path(f"{s}.{name}"))]
            for of in (("bottleneck", "hosts", "flows[*]"), ("web[*]", "udp[*]"))
        )
        for candidates in (ends, sections, others):
            if len(candidates) == 1:
                return matrix.parse_path(candidates[0])
        return None

    def is_flow_key(self, name: str) -> bool:
        """Whether `name` differs between the flows of a run."""
        column = "base_rtt_ms" if name == "base_rtt" else name
        return column in _PART_KEYS and column in self.flow_columns

    def is_flow_measure(self, name: str) -> bool:
        """Whether `name` is measured for each flow and not for the whole run."""
        return name in self.flow_columns and (self.of != "flows" or name not in self.runs.columns)

    def rows(self, *, by_flow: bool) -> pl.DataFrame:
        """Return one row a flow, or one row a run."""
        return self.flows if by_flow else self.runs

    def key(self, name: str, *, by_flow: bool, option: str = "key") -> Key:
        """Return the values of a key for each of `rows`; InputError if there is no such key."""
        rows = self.rows(by_flow=by_flow)
        if by_flow and self.is_flow_key(name):
            if name == "base_rtt":
                values = rows["base_rtt_ms"].to_list()
                return Key(name, [f"{v:g}ms" for v in values], values)
            values = rows[name].to_list()
            return Key(name, [f"{v:g}" if isinstance(v, float) else str(v) for v in values], values)
        if name in ("seed", "title", "experiment", "engine_version"):
            values = rows[name].to_list()
            return Key(name, [str(v) for v in values], values)
        path = self._config_key(name)
        if path is None:
            parts = ("flow", "cc", "base_rtt") if self.of == "flows" else self.part_keys
            known = [*self.matrix_keys, "seed", "title", "experiment", *parts]
            raise InputError(
                self.file, option, name, f"{', '.join(known)}, any other key of a run", nearest(name, known)
            )
        texts: dict[str, tuple[str, Any]] = {}
        for run, config in self._configs.items():
            found = matrix.get_path(config, path)
            unlike = list(dict.fromkeys(value_text(path, value) for value in found))
            numeric = len(unlike) == 1 and isinstance(found[0], int | float) and not isinstance(found[0], bool)
            texts[run] = (" / ".join(unlike) or "-", found[0] if numeric else None)
        runs = rows["key"].to_list()
        order = [texts[run][1] for run in runs]
        if any(value is None for value in order):
            order = [texts[run][0] for run in runs]
        return Key(name, [texts[run][0] for run in runs], order)

    def measure(self, name: str) -> str:
        """Return the column that `name` means; InputError if there is none."""
        numeric = [
            column
            for column, kind in {**self.runs.schema, **self.flows.schema}.items()
            if column not in _DESCRIPTIVE and (kind.is_numeric() or kind == pl.Boolean)
        ]
        if name in numeric:
            return name
        if SHORT.get(name) in numeric:
            return SHORT[name]
        close = [column for column in numeric if column.startswith(f"{name}_")]
        if len(close) == 1:
            return close[0]
        raise InputError(self.file, "--value", name, ", ".join(numeric), nearest(name, [*numeric, *SHORT]))


def _select(frame: Frame, where: list[str], *, by_flow: bool) -> pl.Series:
    """Return which rows meet every `KEY=VALUE` in `where`."""
    keep = pl.Series([True] * frame.rows(by_flow=by_flow).height, dtype=pl.Boolean)
    for text in where:
        name, equals, wanted = text.partition("=")
        if not equals:
            raise InputError("--where", "", text, "KEY=VALUE, such as bottleneck.rate=10Mbit")
        values = frame.key(name.strip(), by_flow=by_flow, option="--where").texts
        if wanted.strip() not in values:
            present = sorted(set(values))
            raise InputError("--where", name, wanted, ", ".join(present[:30]), nearest(wanted, present))
        keep = keep & pl.Series([value == wanted.strip() for value in values], dtype=pl.Boolean)
    return keep


def aligned(header: list[str], rows: list[list[str]], *, words: tuple[int, ...] = (0,)) -> str:
    """Return a Markdown table whose columns line up: those numbered in `words` to the left, the others to the right."""
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        padded = zip(range(len(cells)), cells, widths, strict=True)
        return "| " + " | ".join(cell.ljust(w) if i in words else cell.rjust(w) for i, cell, w in padded) + " |"

    rule = line(["-" * w if i in words else "-" * (w - 1) + ":" for i, w in enumerate(widths)])
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def markdown(
    frame: Frame, rows: str, columns: str | None, value: str, *, where: list[str] | None = None, spread: bool = False
) -> str:
    """Return `value`, mean over everything but the keys `rows` and `columns`, as a Markdown table.

    A line above it names what the mean is over. `spread` adds the standard deviation. Raises InputError.
    """
    measure = frame.measure(value)
    where = where or []
    names = [rows, *([columns] if columns else []), *(text.partition("=")[0].strip() for text in where)]
    by_flow = frame.is_flow_measure(measure) or any(map(frame.is_flow_key, names))
    keep = _select(frame, where, by_flow=by_flow)
    down = frame.key(rows, by_flow=by_flow, option="--rows")
    across = frame.key(columns, by_flow=by_flow, option="--columns") if columns else None
    data = pl.DataFrame(
        {
            "down": down.texts,
            "down_order": down.order,
            "across": across.texts if across else [measure] * len(down.texts),
            "across_order": across.order if across else [0] * len(down.texts),
            "value": frame.rows(by_flow=by_flow)[measure].cast(pl.Float64),
        },
        strict=False,
    ).filter(keep)
    cells = {
        (d, a): (mean, deviation, count)
        for d, a, mean, deviation, count in data.group_by("down", "across")
        .agg(mean=pl.col("value").mean(), deviation=pl.col("value").std(), count=pl.len())
        .iter_rows()
    }
    heads = data.select("across", "across_order").unique().sort("across_order")["across"].to_list()
    lines = data.select("down", "down_order").unique().sort("down_order")["down"].to_list()

    def text(cell: tuple[float, float, int] | None) -> str:
        if cell is None:
            return "-"
        return number(cell[0]) + (f" ± {number(cell[1])}" if spread and cell[1] is not None else "")

    title = rows if not columns else f"{rows} \\ {columns}"
    table = aligned([title, *heads], [[d, *(text(cells.get((d, a))) for a in heads)] for d in lines])
    over = _averaged(frame, names, keep, by_flow=by_flow)
    return f"{measure} of each {frame.part if by_flow and measure in frame.flow_columns else 'run'}{over}\n\n{table}"


def _averaged(frame: Frame, used: list[str], keep: pl.Series, *, by_flow: bool) -> str:
    """Return which keys a table takes means over, with how many values each has."""
    over = []
    last = {name.split(".")[-1] for name in used}
    for name in [*frame.matrix_keys, "seed", *(frame.part_keys if by_flow else [])]:
        if name not in used and name.split(".")[-1] not in last:
            texts = pl.Series(frame.key(name, by_flow=by_flow).texts, dtype=pl.String).filter(keep)
            if texts.n_unique() > 1:
                over.append(f"{name} ({texts.n_unique()})")
    return f", mean over {', '.join(over)}" if over else ""


def tidy(frame: Frame, values: list[str], where: list[str] | None = None) -> str:
    """Return CSV with one value a row; columns are every key of the matrix, seed, flow, measure and value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    flow_columns = list(dict.fromkeys([*frame.part_keys, "cc", "base_rtt_ms"]))
    writer.writerow(["experiment", *frame.matrix_keys, "seed", *flow_columns, "measure", "value"])
    for measure in map(frame.measure, values):
        by_flow = frame.is_flow_measure(measure)
        rows = frame.rows(by_flow=by_flow).with_row_index("row")
        keep = _select(frame, where or [], by_flow=by_flow)
        keys = [frame.key(name, by_flow=by_flow).texts for name in frame.matrix_keys]
        for row in rows.filter(keep).iter_rows(named=True):
            described = [texts[row["row"]] for texts in keys]
            flow = [row.get(name, "") if by_flow else "" for name in flow_columns]
            writer.writerow([row["experiment"], *described, row["seed"], *flow, measure, row[measure]])
    return text.getvalue()


def selected(frame: Frame, where: list[str]) -> Frame:
    """Return only what meets every `KEY=VALUE`, `flow` of flows, else of runs; InputError if there is no such thing."""
    of_flows = [text for text in where if text.partition("=")[0].strip() == "flow"]
    runs = frame.runs.filter(_select(frame, [text for text in where if text not in of_flows], by_flow=False))
    flows = frame.flows.filter(_select(frame, of_flows, by_flow=True))
    own = [c for c in flows.columns if c == "key" or c not in runs.columns]
    return Frame(runs, flows.select(own), frame.file, frame.of)
