"""The parts of runs: flows and classes of traffic, what each is called, and which of them conditions mean."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import polars as pl

from dumbbell.errors import InputError
from dumbbell.experiment import spelling
from dumbbell.experiment.override import find_param
from dumbbell.experiment.settings import parse_setting
from dumbbell.results import dimensions as dims
from dumbbell.results import selecting
from dumbbell.results.labels import group_labels, list_further_words, number_labels
from dumbbell.results.selecting import Condition
from dumbbell.results.source import RunTables

# what distinguishes parts of a run, and the columns that have it; `from_bytes` is of ranges of sizes alone
KEYS = {
    "flow": ("flow", "which"),
    "class": ("class", "class_which"),
    "kind": ("kind",),
    "direction": ("direction",),
    "cc": ("cc_text",),
    "cc.name": ("cc",),
    "base_rtt": ("base_rtt_ms",),
}
_TEXTS = pl.List(pl.String)
_NOTHING_MORE = ("", "")  # of connections of a session, which nobody listed
OF_FLOWS = ("flows", "series", "trace")  # tables with a row or more for each listed flow
OF_CLASSES = ("classes", "sojourn", "rtt", "short_flows", "slowdowns", "apps", "app_loads")
_TYPES = {"cell": pl.String, "flow": pl.Int64, "class": pl.Int64, "kind": pl.String, "cc": pl.String}
_TYPES |= {
    "direction": pl.String,
    "base_rtt_ms": pl.Float64,
    "cc_text": pl.String,
    "which": pl.String,
    "class_which": pl.String,
}


def list_parts(source: RunTables, cells: pl.DataFrame, configs: dict[str, dict[str, Any]]) -> pl.DataFrame:
    """Return one row per flow of each cell, and one for each class that has no listed flow.

    `cells` has a run, `key`, of each `cell`: all runs of a cell have the same parts. Columns: `cell`, `flow` (null of a
    class without), `class`, `kind`, `cc` (the name), `direction`, `base_rtt_ms`, `cc_text` (with its parameters),
    `which` and `class_which` (what tells it from the others of its run, in few words).
    """
    if "class" not in source.columns["classes"]:
        return pl.DataFrame(schema=_TYPES)
    of_class = ("kind", "cc", "direction", "base_rtt_ms")
    classes = source.read("classes", cells, ["class", *of_class]).select("cell", "class", *of_class)
    classes = classes.sort("cell", "class", maintain_order=True)
    flows = source.read("flows", cells, ["flow", "class", *of_class[1:]]).select("cell", "flow", "class", *of_class[1:])
    groups, webs = _list_groups(configs), _list_webs(configs)
    flows = flows.sort("flow").join_asof(groups, left_on="flow", right_on="first", by="cell", check_sortedness=False)
    seen = pl.col("cell").is_in([cell for cell, config in configs.items() if "shell" in config])
    flows = flows.drop("first").with_columns(
        # who sends what in a session is not listed in advance
        cc_text=pl.when(seen).then("cc").otherwise("cc_text"),
        which=pl.when(seen).then("cc").otherwise("which"),
    )
    texts = flows.select("cell", "class", "cc_text", "more")
    texts = texts.unique(["cell", "class"], keep="first", maintain_order=True)
    web = pl.col("kind") == "web"
    number = pl.when(web).then(web.cast(pl.Int64).cum_sum().over("cell"))
    classes = (
        classes.with_columns(web=number)
        .join(texts, on=["cell", "class"], how="left", maintain_order="left")
        .join(webs, on=["cell", "web"], how="left", maintain_order="left")
        .with_columns(cc_text=pl.coalesce("cc_text", "web_text", "cc"), more=pl.coalesce("more", "web_more"))
        .drop("web", "web_text", "web_more")
    )
    classes = classes.join(_name_classes(classes), on=["cell", "class"], how="left", maintain_order="left")
    of_flows = flows.join(classes.select("cell", "class", "kind", "class_which"), on=["cell", "class"], how="left")
    others = classes.join(flows, on=["cell", "class"], how="anti").with_columns(
        flow=pl.lit(None, dtype=pl.Int64), which=pl.col("class_which")
    )
    columns = [pl.col(name).cast(kind) for name, kind in _TYPES.items()]
    whole = pl.concat([rows.select(columns) for rows in (of_flows, others)])
    place = cells.select("cell").with_row_index("place")
    return whole.join(place, on="cell").sort("place", "class", "flow", nulls_last=True).drop("place")


def _list_groups(configs: dict[str, dict[str, Any]]) -> pl.DataFrame:
    """One row per group of alike flows of a cell: its first flow, what it is called, its control, and `more` of it."""
    rows = []
    several = any(len(config["flows"]) + len(config["udp"]) > 1 for config in configs.values())
    for cell, config in configs.items():
        groups = [*config["flows"], *config["udp"]]
        first = 0
        # one group alone has no label unless other runs have several
        for one, label in zip(groups, group_labels(groups, alone=several), strict=True):
            name = "ping" if one.get("echo") else "udp"
            text = dims.spell_path_value(("flows", 0, "cc"), one["cc"]) if "cc" in one else name
            rows.append((cell, first, label, text, list_further_words(one)))
            first += one["count"]
    schema_: dict[str, Any] = {
        "cell": pl.String,
        "first": pl.Int64,
        "which": pl.String,
        "cc_text": pl.String,
        "more": _TEXTS,
    }
    return pl.DataFrame(rows, schema=schema_, orient="row").sort("first")


def _list_webs(configs: dict[str, dict[str, Any]]) -> pl.DataFrame:
    """One row a source of short flows of a cell, numbered from 1: its control with its parameters, and `more` of it."""
    rows = [
        (cell, number, dims.spell_path_value(("web", 0, "cc"), one["cc"]), list_further_words(one))
        for cell, config in configs.items()
        for number, one in enumerate(config["web"], 1)
    ]
    schema_: dict[str, Any] = {"cell": pl.String, "web": pl.Int64, "web_text": pl.String, "web_more": _TEXTS}
    return pl.DataFrame(rows, schema=schema_, orient="row")


def _name_classes(classes: pl.DataFrame) -> pl.DataFrame:
    """One row per class of a cell, and what tells it from the others there."""
    labels: list[tuple[str, int, str]] = []
    for (cell,), own in classes.group_by("cell", maintain_order=True):
        names = ("cc_text", "direction", "base_rtt", "kind")
        texts = [row | {"base_rtt": f"{row['base_rtt_ms']:g}ms"} for row in own.iter_rows(named=True)]
        tcp = [text for text in texts if text["kind"] != "udp"]
        unlike = [name for name in names if len({text[name] for text in tcp}) > 1]
        unlike = unlike or ["kind" if len(texts) > 1 else "cc_text"]
        ways = ["direction"] if len({text["direction"] for text in texts}) > 1 else []
        words = [
            [text["cc"], *(text[name] for name in ways)] if text["kind"] == "udp" else [text[name] for name in unlike]
            for text in texts
        ]
        for more in zip(*(text["more"] or _NOTHING_MORE for text in texts), strict=True):
            longer = [[*of_class, one] if one else of_class for of_class, one in zip(words, more, strict=True)]
            if len(set(map(tuple, longer))) > len(set(map(tuple, words))):
                words = longer
        said = [", ".join(of_class) for of_class in words]
        labels += zip([cell] * len(texts), own["class"], number_labels(said), strict=True)
    return pl.DataFrame(labels, schema={"cell": pl.String, "class": pl.Int64, "class_which": pl.String}, orient="row")


def list_texts(parts: pl.DataFrame, key: str) -> list[str]:
    """Return the texts that a key of parts has, as tables show them, in the order of the file."""
    rows = parts.filter(pl.col("flow").is_not_null()) if key == "flow" else parts
    columns = [rows[column] for column in KEYS[key]][::-1]  # names ahead of numbers
    texts = [_format_value(value, key) for column in columns for value in column.unique(maintain_order=True).to_list()]
    return [text for text in dict.fromkeys(texts) if text]


def _format_value(value: Any, key: str) -> str:
    if value is None:
        return ""
    return f"{value:g}ms" if key == "base_rtt" else str(value)


def select_parts(
    parts: pl.DataFrame, condition: Condition, ccs: dict[str, dict[str, Any]], *, checked: bool = False
) -> pl.Series:
    """Return which parts a condition on one of `KEYS` means; raises InputError for a value that none of them has.

    `ccs` has the parameters of each congestion control. A condition that was `checked` on more runs than these may have
    values that no part has.
    """
    key, there = condition.key, list_texts(parts, condition.key)

    def find_texts(text: str) -> list[str]:
        return selecting.select_texts(text, there, lambda part: _find_other_texts(parts, key, part, ccs), key=key)

    if checked and condition.text not in there:
        wanted = []
        for text in selecting.split_values(condition.text):
            with contextlib.suppress(InputError):
                wanted += find_texts(text)
    else:
        wanted = find_texts(condition.text)
    found = pl.Series([False] * parts.height, dtype=pl.Boolean)
    for column in KEYS[key]:
        texts = pl.Series([_format_value(value, key) for value in parts[column].to_list()], dtype=pl.String)
        found = found | texts.is_in(wanted)
    return found & parts["flow"].is_not_null() if key == "flow" else found


def _find_other_texts(parts: pl.DataFrame, key: str, text: str, ccs: dict[str, dict[str, Any]]) -> Sequence[str]:
    """Return the texts that `text` means where none is like it: another unit, a name, a table of parameters."""
    name = selecting.strip_quotes(text)
    if key == "base_rtt":
        param = find_param(("flows", 0, "base_rtt"))
        assert param is not None
        try:
            value = spelling.parse_value(param, f"{name}ms" if name.replace(".", "", 1).isdigit() else name)
        except InputError as error:
            raise error.move("--where", key) from None
        wanted = f"{value / 1e6:g}ms"
        return [wanted] if wanted in list_texts(parts, key) else []
    if key == "cc" and text.startswith("{"):
        table = parse_setting(f"cc={text}")[1]
        return [one for one in list_texts(parts, key) if one in ccs and selecting.is_wanted(ccs[one], table, key)]
    if key in ("cc", "flow", "class"):
        rows = parts.filter((pl.col("cc") == name) | (pl.col("kind") == name) & pl.lit(key == "class"))
        rows = rows.filter(pl.col("flow").is_not_null() | pl.lit(key != "flow"))
        return [one for one in rows[KEYS[key][-1]].unique(maintain_order=True).to_list() if one]
    return []
