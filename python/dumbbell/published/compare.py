"""Results against published ones, cell by cell, with errors and scores."""

import csv
import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from dumbbell.errors import InputError, Unfit, Unreadable, quote_value, spell_option
from dumbbell.experiment.matrix import format_path
from dumbbell.experiment.registry import Param, read_registry
from dumbbell.experiment.units import parse
from dumbbell.published.variants import require_alike
from dumbbell.results.dimensions import drop_seed, find_unlike_paths
from dumbbell.results.tables import align_table, format_number
from dumbbell.results.versions import choose_version

# reference column → column of `flows` or `runs`
METRICS = {
    "goodput_mbit": "goodput_mbit",
    "throughput_mbit": "goodput_mbit",  # so called in the SCE draft, which measures payload
    "rtt_ms": "rtt_mean_ms",
    "jain": "jain",
    "retransmissions": "retransmissions",
    "marks": "ce_marks",
    "drops": "drops",
}
_DERIVED = ("share", "ratio", "rate_ratio mean", "queue_delay_abs mean")  # from compared figures
_COUNTS = ("retransmissions", "marks", "drops")
_CELL = ("qdisc", "shaper", "ecn", "cc1", "cc2", "rate_mbit", "delay_ms", "seconds", "stagger_ms")
_NUMBERS = ("ecn", "rate_mbit", "delay_ms", "seconds", "stagger_ms")
# of a file with keys of an experiment and columns of the results tables, one row per flow of a run
MEASURED = frozenset(
    ("bottleneck.aqm", "bottleneck.rate", "hosts.ecn", "duration", "flow", "flows.cc", "flows.base_rtt", "goodput_mbit")
)
# of a published Cake that marks SCE, nothing says so where no flow takes notice
_UNSTATED = {"sce": (False, True, "off", "on")}

_SEED = re.compile(r'"seed":[0-9]+')

Cell = tuple[tuple[str, Any], ...]
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class Figure:
    """One published figure: what was measured where, and how much it was; `flow` is 1, 2 or 0 for the whole run."""

    cell: Cell
    table: str
    flow: int
    metric: str
    value: float


@dataclass
class Pair:
    """A simulated figure (mean over seeds), the published one, and the error of the first as it is scored.

    `keys` are those of the runs that gave the simulated figure.
    """

    figure: Figure
    simulated: float
    seeds: int
    score: str
    error: float
    keys: tuple[str, ...] = ()


@dataclass
class Comparison:
    """Everything that was compared; `missing` is how many published figures no run answers."""

    pairs: list[Pair] = field(default_factory=list)
    missing: int = 0

    def add(
        self,
        figure: Figure,
        values: Sequence[float],
        keys: tuple[str, ...],
        compute_error: Callable[[Figure, float], tuple[str, float]],
    ) -> Pair | None:
        """Add the mean of what runs give for a figure with its error; without values the figure is missing."""
        if not values:
            self.missing += 1
            return None
        mean = statistics.fmean(values)
        self.pairs.append(Pair(figure, mean, len(values), *compute_error(figure, mean), keys))
        return self.pairs[-1]


def has_columns(path: str | Path, wanted: frozenset[str]) -> bool:
    """Whether a CSV file can be read and has at least these columns."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            return set(next(csv.reader(stream), [])) >= wanted
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def read_csv(
    path: str | Path,
    parse_row: Callable[[dict[str, str]], Iterable[_Parsed]],
    allowed: str = "a number in every numeric column",
) -> list[_Parsed]:
    """Return what `parse_row` makes of the rows of a CSV file; raises InputError, with the line that it refuses."""
    found: list[_Parsed] = []
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            for line, row in enumerate(csv.DictReader(stream), 2):
                try:
                    found += parse_row(row)
                except (IndexError, KeyError, TypeError, ValueError) as error:
                    raise Unreadable(f"this cannot be read ({error})", allowed, file=path, key=f"line {line}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or f"it cannot be read ({error})"
        raise Unreadable(reason, "a CSV file of published results", file=path) from None
    return found


def read_reference(path: str | Path) -> list[Figure]:
    """Return the figures of a reference CSV, either one metric a row or one column a metric; raises InputError.

    Several measurements of one cell count as their mean.
    """
    name = str(path)
    rows = read_csv(path, lambda row: [row])
    columns = list(rows[0]) if rows else []
    if set(columns) >= MEASURED:
        try:
            rows = _convert_rows(rows)
        except (IndexError, KeyError, ValueError) as error:
            raise Unreadable(f"this cannot be read ({error})", "a row for each flow of a run", file=name) from None
        columns = list(rows[0])
    long = {"metric", "value"} <= set(columns)
    measured = [c for c in columns if c in METRICS]
    if not {"cc1", "rate_mbit", "delay_ms"} <= set(columns) or not (long or measured):
        found = "it has columns " + quote_value(columns) if columns else "it has no rows"
        raise Unreadable(
            found,
            "a CSV file with columns cc1, rate_mbit, delay_ms and metric, value or some of " + ", ".join(METRICS),
            file=name,
        )
    repeats: dict[tuple[Cell, str, int, str], list[float]] = {}
    for line, row in enumerate(rows, 2):
        try:
            cell = tuple(
                (c, float(row[c]) if c in _NUMBERS else row[c]) for c in _CELL if c in columns and _is_stated(c, row[c])
            )
            flow = int(row.get("flow") or 0)
            table = row.get("table") or ""
            wanted = [(row["metric"], row["value"])] if long else [(c, row[c]) for c in measured]
            for metric, value in wanted:
                whole = metric in ("jain", "marks", "drops")
                if value and not (whole and flow > 1):
                    key = (cell, table, 0 if whole else flow, metric)
                    repeats.setdefault(key, []).append(float(value))
        except (TypeError, ValueError) as error:
            raise Unreadable(
                f"this cannot be read ({error})", "a number in every numeric column", file=name, key=f"line {line}"
            ) from None
    return [Figure(*key, statistics.fmean(values)) for key, values in repeats.items()]


def _convert_rows(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Return rows of keys and results, one per flow of a run, with the columns of cells of one or two flows."""
    runs: list[list[dict[str, str]]] = []
    for row in rows:
        if int(row["flow"]) == 0:
            runs.append([])
        runs[-1].append(row)
    return [
        {
            "qdisc": row["bottleneck.aqm"],
            "shaper": row.get("bottleneck.shaper", ""),
            "ecn": {"true": "1", "false": "0"}[row["hosts.ecn"]],
            "cc1": run[0]["flows.cc"],
            "cc2": run[1]["flows.cc"] if len(run) > 1 else "",
            "rate_mbit": str(parse("rate", row["bottleneck.rate"]) / 1e6),
            "delay_ms": str(parse("time", row["flows.base_rtt"]) / 1e6),
            "seconds": str(parse("time", row["duration"]) / 1e9),
            "stagger_ms": str(parse("time", start) / 1e6) if (start := run[-1].get("flows.start")) else "",
            "flow": str(number),
            "goodput_mbit": row["goodput_mbit"],
            "rtt_ms": row.get("rtt_mean_ms", ""),
            "retransmissions": row.get("retransmissions", ""),
            "drops": row.get("drops", ""),
            "marks": row.get("ce_marks", ""),
        }
        for run in runs
        for number, row in enumerate(run, 1)
    ]


def _is_stated(column: str, value: str) -> bool:
    return column == "cc2" or bool(value)


def _name_control(cc: dict[str, Any]) -> str:
    return str(cc["name"]) + ("-sce" if cc.get("sce") in (True, "on") else "")


def _parse_word(param: Param, words: list[str]) -> Any:
    """Return the value that tc words give `param`, None if they do not say."""
    for i, word in enumerate(words):
        folded = word.replace("-", "_")
        if param.kind == "bool" and folded in (param.name, f"no{param.name}"):
            return folded == param.name
        if param.kind == "choice":
            for choice in param.choices:
                if word == choice or folded == f"{param.name}_{choice}":
                    return choice
            if "on" in param.choices and folded in (param.name, f"no_{param.name}"):
                return "on" if folded == param.name else "off"
        if folded == param.name and i + 1 < len(words):
            return _parse_number(param.kind, words[i + 1])
    return None


def _parse_number(kind: str, word: str) -> Any:
    """Return what a number of tc means in canonical units, None if it is none."""
    try:
        if kind in ("time", "rate"):
            return parse(kind, word)
        return float(word) if kind == "float" else int(word)
    except (InputError, ValueError):
        return None


@lru_cache(maxsize=256)
def _parse_words(words: str) -> tuple[str, list[tuple[Param, Any]]]:
    """Return the queue discipline that tc's words name, and its parameters with what they say of each."""
    known = read_registry().aqm
    first, *rest = words.split() or [""]
    if first not in known:
        first, rest = "cake", words.split()
    return first, [(param, _parse_word(param, rest)) for param in known[first].params.values()]


def matches_qdisc(words: str, aqm: dict[str, Any]) -> bool:
    """Whether tc's `words` (`pfifo limit 100`, `flowblind` for a Cake) describe the resolved queue discipline `aqm`.

    What the words leave out has its default.
    """
    name, stated = _parse_words(words)
    if aqm["name"] != name:
        return False
    for param, wanted in stated:
        actual = aqm.get(param.name)
        if wanted is not None:
            if wanted != actual:
                return False
        elif actual != param.default and actual not in _UNSTATED.get(param.name, ()):
            return False
    return True


def _matches(config: dict[str, Any], column: str, value: Any) -> bool:
    """Whether a run has the value that a column of a published cell states."""
    flows = config["flows"]
    match column:
        case "qdisc":
            return matches_qdisc(value, config["bottleneck"]["aqm"])
        case "shaper":
            return bool(config["bottleneck"]["shaper"] == value)
        case "ecn":
            return bool(config["hosts"]["ecn"] == bool(value))
        case "cc1":
            return _name_control(flows[0]["cc"]) == str(value)
        case "cc2":
            return (_name_control(flows[1]["cc"]) if len(flows) > 1 else "") == str(value)
        case "rate_mbit":
            return math.isclose(config["bottleneck"]["rate"] / 1e6, value)
        case "delay_ms":
            return all(math.isclose(flow["base_rtt"] / 1e6, value, abs_tol=1e-9) for flow in flows)
        case "stagger_ms":
            start = flows[-1]["start"]
            return bool(start["min"] == start["max"] == value * 1e6)
        case _:
            return math.isclose(config["duration"] / 1e9, value)


def compare(
    runs: pl.DataFrame, flows: pl.DataFrame, figures: Iterable[Figure], *, any_length: bool = False
) -> Comparison:
    """Return every published figure that a run answers, with what the run gives.

    `any_length` takes runs of any duration as answers to a cell that states one.
    """
    by_flow = {(row["key"], row["flow"]): row for row in flows.iter_rows(named=True)} if flows.height else {}
    first_flow = min((flow for _, flow in by_flow), default=0)
    answers: dict[Cell, list[dict[str, Any]]] = {}
    coarse: dict[tuple[float, float], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row in runs.iter_rows(named=True):
        config = _unfold_text(row["config"])
        if has_only_flows(config):
            place = (config["bottleneck"]["rate"] / 1e6, config["flows"][0]["base_rtt"] / 1e6)
            coarse.setdefault(place, []).append((config, row))
    result = Comparison()
    for figure in figures:
        if figure.cell not in answers:
            stated = [(c, v) for c, v in figure.cell if not (any_length and c == "seconds")]
            stated.sort(key=lambda one: one[0] == "qdisc")  # what takes longest comes last
            place = (dict(figure.cell)["rate_mbit"], dict(figure.cell)["delay_ms"])
            found = [row for config, row in coarse.get(place, []) if all(_matches(config, c, v) for c, v in stated)]
            answers[figure.cell] = select_alike(select_latest_engine(found), format_cell(figure.cell))
        source = METRICS.get(figure.metric, figure.metric)
        values = []
        for row in answers[figure.cell]:
            measured = by_flow.get((row["key"], first_flow + figure.flow - 1), {}) if figure.flow else row
            if measured.get(source) is not None:
                values.append(float(measured[source]))
        result.add(figure, values, tuple(row["key"] for row in answers[figure.cell]), compute_error)
    result.pairs += _make_share_pairs(result.pairs)
    answering = {key for pair in result.pairs for key in pair.keys}
    require_alike(runs.filter(pl.col("key").is_in(list(answering))))
    return result


def select_latest_engine(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of the current engine version or, if there are none, of the version that comes last."""
    versions = [str(row.get("engine_version")) for row in rows]
    wanted = choose_version(versions, "sim") or next(reversed(versions), None)
    return [row for row, version in zip(rows, versions, strict=True) if version == wanted]


def select_alike(rows: list[dict[str, Any]], place: str) -> list[dict[str, Any]]:
    """Return `rows`, runs of one `place`; InputError with the keys in which they differ, but for seeds."""
    if len({_SEED.sub("", row["config"]) for row in rows}) > 1:
        configs = [drop_seed(json.loads(row["config"])) for row in rows]
        keys = ", ".join(map(format_path, find_unlike_paths((), configs)))
        found = f"several kinds of runs belong to one published cell, {place}: they differ in {keys}"
        raise Unfit(found, f"{spell_option('where')} KEY=VALUE for runs of one kind", file="results")
    return rows


def has_only_flows(config: dict[str, Any]) -> bool:
    """Whether a run is what published cells describe: long flows and nothing else."""
    return bool(config["flows"]) and not config["web"] and not config["udp"]


def _unfold_text(text: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(text)
    config["flows"] = [flow for flow in config["flows"] for _ in range(min(flow["count"], 3))][:3]
    return config


def compute_relative_error(simulated: float, published: float) -> float:
    """Return the error of a simulated value over the published one; NaN if that is 0."""
    return (simulated - published) / published if published else math.nan


def compute_error(figure: Figure, simulated: float) -> tuple[str, float]:
    """Return the score that a figure belongs to and its error: signed, relative where the score is."""
    if METRICS.get(figure.metric) == "goodput_mbit":
        return "goodput, |sim - pub| / rate", (simulated - figure.value) / dict(figure.cell)["rate_mbit"]
    if figure.metric == "rtt_ms":
        return "RTT, |sim - pub| / pub", compute_relative_error(simulated, figure.value)
    if figure.metric in _COUNTS:
        return f"{figure.metric}, |ln((sim + 1) / (pub + 1))|", math.log((simulated + 1) / (figure.value + 1))
    return f"{figure.metric}, |sim - pub|", simulated - figure.value


def _make_share_pairs(pairs: list[Pair]) -> list[Pair]:
    """Return, for two flows, flow 1's share of their sum and the ratio of their goodputs."""
    both: dict[tuple[Cell, str], dict[int, Pair]] = {}
    for pair in pairs:
        if METRICS.get(pair.figure.metric) == "goodput_mbit":
            both.setdefault((pair.figure.cell, pair.figure.table), {})[pair.figure.flow] = pair
    derived = []
    for (cell, table), of in both.items():
        if of.keys() < {1, 2}:
            continue
        sim, pub = (of[1].simulated, of[2].simulated), (of[1].figure.value, of[2].figure.value)
        if sum(sim) > 0 and sum(pub) > 0:
            share, published = sim[0] / sum(sim), pub[0] / sum(pub)
            figure = Figure(cell, table, 1, "share", published)
            score, error = "share of flow 1, |sim - pub|", share - published
            derived.append(Pair(figure, share, of[1].seeds, score, error, of[1].keys))
        if min(*sim, *pub) > 0:
            ratio, published = sim[0] / sim[1], pub[0] / pub[1]
            figure = Figure(cell, table, 1, "ratio", published)
            score = "ratio of goodputs, |ln(sim / pub)|"
            derived.append(Pair(figure, ratio, of[1].seeds, score, math.log(ratio / published), of[1].keys))
    return derived


def format_cell(cell: Cell) -> str:
    """Return a published cell in few words."""
    named = dict(cell)
    ccs = named.get("ccs") or "+".join(named[c] for c in ("cc1", "cc2") if named.get(c))
    given = [named[c] for c in ("delay_ms", "delay2_ms") if c in named]
    rtts = named.get("rtts_ms") or "+".join(f"{rtt:g}" for rtt in dict.fromkeys(given) if not math.isnan(rtt))
    words = [ccs, f"{named['rate_mbit']:g}Mbit", f"{rtts}ms"]
    if named.get("udp_mbit"):
        words.append(f"udp {named['udp_mbit']:g}Mbit in {named['udp_class']}")
    if "ccs" in named and not named["ecn"]:
        words.append("noecn")
    return " ".join([*words, *([named["qdisc"]] if named.get("qdisc") else [])])


def format_scores(comparison: Comparison) -> str:
    """Return median, 90th percentile and worst cell of every score as a Markdown table."""
    by_score: dict[str, list[Pair]] = {}
    for pair in comparison.pairs:
        if not math.isnan(pair.error):
            by_score.setdefault(pair.score, []).append(pair)
    rows = []
    for score, pairs in by_score.items():
        errors = [abs(pair.error) for pair in pairs]
        worst = max(pairs, key=lambda pair: abs(pair.error))
        figures = [f"{value:.4f}" for value in (*np.quantile(errors, (0.5, 0.9)), abs(worst.error))]
        flow = f" flow {worst.figure.flow}" if dict(worst.figure.cell).get("cc2") and worst.figure.flow else ""
        rows.append([score.replace("|", "\\|"), str(len(pairs)), *figures, format_cell(worst.figure.cell) + flow])
    header = ["score", "cells", "median", "p90", "worst", "where"]
    table = align_table(header, rows, words=(0, len(header) - 1))
    total = comparison.missing + sum(pair.figure.metric not in _DERIVED for pair in comparison.pairs)
    return f"{table}\n\nCompared: {total - comparison.missing} of the {total} figures of the reference."


def format_grids(comparison: Comparison) -> str:
    """Return Markdown tables, rate by delay, one a published table, measure and flow: simulated / published / error."""
    groups: dict[tuple[Any, ...], list[Pair]] = {}
    for pair in comparison.pairs:
        if pair.figure.metric in ("share", "ratio"):
            continue
        same = tuple((c, v) for c, v in pair.figure.cell if c not in ("rate_mbit", "delay_ms"))
        group = (pair.figure.table, pair.figure.metric, pair.figure.flow, same, bool(dict(same).get("cc2")))
        groups.setdefault(group, []).append(pair)
    parts = []
    for (table, metric, flow, same, two), pairs in groups.items():
        named = dict(same)
        ccs = " and ".join(named[c] for c in ("cc1", "cc2") if named.get(c))
        rest = ", ".join(
            f"{c} {v:g}" if isinstance(v, float) else v for c, v in same if c not in ("cc1", "cc2") and v != ""
        )
        title = ": ".join(p for p in (f"Table {table}" if table else "", f"{ccs}" + (f", {rest}" if rest else "")) if p)
        of = f" of flow {flow}" if two and flow else ""
        rates = sorted({dict(p.figure.cell)["rate_mbit"] for p in pairs})
        delays = sorted({dict(p.figure.cell)["delay_ms"] for p in pairs})
        cells = {(dict(p.figure.cell)["rate_mbit"], dict(p.figure.cell)["delay_ms"]): p for p in pairs}
        rows = [
            [f"{rate:g} Mbit/s", *(_format_pair_with_error(cells.get((rate, delay))) for delay in delays)]
            for rate in rates
        ]
        header = ["rate \\ delay", *(f"{d:g} ms" for d in delays)]
        heading = f"### {title}: {metric}{of} (simulated / published / error)"
        parts.append(f"{heading}\n\n{align_table(header, rows)}")
    return "\n\n".join(parts)


def format_pair(pair: Pair | None) -> str:
    """Return the simulated and the published figure, `-` where there is none."""
    return "-" if pair is None else f"{format_number(pair.simulated)} / {format_number(pair.figure.value)}"


def _format_pair_with_error(pair: Pair | None) -> str:
    if pair is None:
        return "-"
    relative = pair.score.startswith(("goodput", "RTT"))
    error = f"{100 * pair.error:+.1f}%" if relative else f"{pair.error:+.3f}"
    return f"{format_pair(pair)} / {error}"


def tidy_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row per compared figure: cell, simulated, published, seeds, score and signed error."""
    return [
        {
            "table": p.figure.table,
            **dict(p.figure.cell),
            "flow": p.figure.flow or None,
            "metric": p.figure.metric,
            "simulated": p.simulated,
            "published": p.figure.value,
            "seeds": p.seeds,
            "score": p.score,
            "error": p.error,
        }
        for p in comparison.pairs
    ]
