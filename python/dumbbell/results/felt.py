"""Measures that people feel: delay, loss and MOS of calls, games, video, pings, the slow-down of pages, then rates.

Settings of queues are judged by the traffic that waits for others: sparse UDP, pings and short flows. Time in queue of
all packets says little of flow queues, where each flow waits for itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from dumbbell.experiment.matrix import SETTING
from dumbbell.results import dimensions as dims
from dumbbell.results.dimensions import Dimension
from dumbbell.results.results import StoredResults

_SPARSE = 0.05  # of the bottleneck's rate, below which a source of UDP waits for others rather than being waited for
LOST = 0.01  # share of lost packets from which on the 99th percentile of delays is a packet that never arrives
_NOT_COMPARED = ("engine_version", "kernel", "given", "experiment")
_ENDPOINTS = ("udp", "ping")


@dataclass(frozen=True)
class Felt:
    """One column: what it is of, its label with its unit, whether more is better, and what it counts for."""

    label: str
    word: str
    """In a sentence, with `{}` for the value."""
    of: str
    """The class of traffic, or the direction or hop."""
    role: str
    """delay, score, jitter, loss, late, rate or use: delays order the settings, with loss; rates are the cost."""
    unit: str = ""
    """After a value in a sentence."""
    more_is_better: bool = False
    offset: float = 0.0
    """Of a delay: what it leaves out, in its unit. UDP has no propagation of its own."""


@dataclass(frozen=True)
class _OfApp:
    """A measure of the users of an application: `{way}` in the texts of `felt` is a direction."""

    app: str
    measure: str
    felt: Felt
    factor: float = 1.0
    is_inverse: bool = False
    """Whether `factor` over the measure is shown: the time of something that is counted per time."""


_OF_APPS = (
    _OfApp(
        "call",
        "delay_p99_ms",
        Felt("call {way}, delay P99, ms", "a packet of a call {way} takes {} at P99", "call {way}", "delay", " ms"),
    ),
    _OfApp("call", "loss_share", Felt("call, loss, %", "the call loses {}", "call", "loss", " %"), 100),
    _OfApp(
        "call",
        "late_share",
        Felt("call, late or lost, %", "{} of its frames come too late or never", "call", "late", " %"),
        100,
    ),
    _OfApp(
        "call",
        "mos",
        Felt("call {way}, MOS", "a call {way} has a MOS of {}", "call {way}", "score", more_is_better=True),
    ),
    _OfApp(
        "game",
        "delay_p99_ms",
        Felt("game {way}, delay P99, ms", "a packet of the game takes {} {way} at P99", "game {way}", "delay", " ms"),
    ),
    _OfApp("game", "loss_share", Felt("game, loss, %", "the game loses {}", "game", "loss", " %"), 100),
    _OfApp(
        "game",
        "late_share",
        Felt("game, late or lost, %", "{} of its updates come too late or never", "game", "late", " %"),
        100,
    ),
    _OfApp(
        "video",
        "frame_delay_p95_ms",
        Felt("video, frame delay P95, ms", "a frame of the video takes {} at P95", "video", "delay", " ms"),
    ),
    _OfApp("video", "loss_share", Felt("video, loss, %", "the video loses {}", "video", "loss", " %"), 100),
    _OfApp("video", "frozen_s", Felt("video, frozen, s", "the video is frozen for {}", "video", "late", " s")),
    _OfApp(
        "video",
        "encoder_mbit",
        Felt("video, Mbit/s", "the video has {} Mbit/s", "video", "score", more_is_better=True),
    ),
    _OfApp("pages", "load_p95_s", Felt("page, load P95, s", "a page takes {} to load at P95", "page", "delay", " s")),
    _OfApp(
        "request",
        "load_p95_s",
        Felt("response, P95, ms", "a response takes {} at P95", "request", "delay", " ms"),
        1000,
    ),
    _OfApp("onoff", "load_p95_s", Felt("files, P95, s", "files at once take {} at P95", "files", "delay", " s")),
    _OfApp(
        "dash",
        "stalled_share",
        Felt("video, stalled, %", "a video stalls {} of the time", "video", "late", " %"),
        100,
    ),
    _OfApp(
        "dash",
        "bitrate_mbit",
        Felt("video, bit rate, Mbit/s", "{} Mbit/s of video", "video", "use", more_is_better=True),
    ),
    _OfApp(
        "responsiveness",
        "rpm",
        Felt("round trip under load, ms", "a round trip under load takes {}", "round trip", "delay", " ms"),
        60_000,
        is_inverse=True,
    ),
)


@dataclass(frozen=True)
class SettingComparison:
    """Settings of queues under equal conditions: `frame` has `setting`, `seed`, `hash`, `label` and `value`, by run."""

    keys: list[str]
    """The keys that are compared."""
    where: dict[str, str]
    """The other keys by which runs differ, and their values here."""
    settings: list[str]
    columns: list[Felt]
    frame: pl.DataFrame
    seeds: int

    def compute_mean(self, setting: str, label: str) -> float | None:
        """Return the mean over seeds; None where no run has a value."""
        value = self.frame.filter(setting=setting, label=label)["value"].mean()
        return float(value) if isinstance(value, int | float) else None


def is_felt(results: StoredResults) -> bool:
    """Return whether there is traffic that waits for others: sparse UDP, pings, short flows, or applications."""
    kinds = ("web", "app")
    return any(
        _list_sparse_sources(config) or any(config.get(kind) for kind in kinds)
        for config in results.configurations.values()
    )


def list_settings(results: StoredResults) -> list[Dimension]:
    """Return the keys that are compared: settings, those of queue disciplines, or the only key by which runs differ."""
    keys = [one for one in results.dimensions if one.name not in _NOT_COMPARED]
    if named := [one for one in keys if one.name == SETTING]:
        return named
    queues = [one for one in keys if any("aqm" in part.name.split(".") for part in one.parts)]
    return [part for one in queues or (keys if len(keys) == 1 else []) for part in one.parts]


def compare_settings(results: StoredResults) -> list[SettingComparison]:
    """Return the settings of queues against each other, for each combination of all other keys; none without any."""
    keys = list_settings(results)
    if not keys or not is_felt(results):
        return []
    texts = _name_settings(results, keys)
    compared = {*_NOT_COMPARED, *(one.name for one in keys)}
    others = [one for one in results.dimensions if compared.isdisjoint(part.name for part in (one, *one.parts))]
    rows, columns = _measure_runs(results)
    found = []
    groups: dict[tuple[str, ...], list[str]] = {}
    for cell in results.configurations:
        groups.setdefault(tuple(one.texts[cell] for one in others), []).append(cell)
    for values, cells in groups.items():
        settings = list(dict.fromkeys(texts[cell] for cell in sorted(cells, key=_order(keys))))
        if len(settings) < 2:
            continue
        own = rows.filter(pl.col("cell").is_in(cells))
        own = own.with_columns(setting=pl.col("cell").replace_strict(texts, return_dtype=pl.String))
        own = own.group_by("setting", "seed", "hash", "label", maintain_order=True).agg(pl.col("value").mean())
        known = set(own.drop_nulls()["label"])
        where = {one.name: value for one, value in zip(others, values, strict=True) if len(one.ordered) > 1}
        felt = [one for one in columns if one.label in known]
        # seeds that all make the same run are one
        seeds = own.group_by("setting").agg(pl.col("hash").n_unique())["hash"].min()
        found.append(SettingComparison([one.name for one in keys], where, settings, felt, own, int(str(seeds))))
    return [one for one in found if any(column.role == "delay" for column in one.columns)]


def _order(keys: Sequence[Dimension]) -> Any:
    places = [{text: place for place, text in enumerate(one.ordered)} for one in keys]
    return lambda cell: tuple(place[one.texts[cell]] for one, place in zip(keys, places, strict=True))


def _name_settings(results: StoredResults, keys: Sequence[Dimension]) -> dict[str, str]:
    """Return what the setting of each cell is called: one name if all its queues are the same."""
    called = [dims.distinguish_texts(one, results.configurations) for one in keys]
    found = {}
    for cell in results.configurations:
        own = [names[one.texts[cell]] for one, names in zip(keys, called, strict=True)]
        own = [text for text in own if text != dims.NOTHING]
        found[cell] = own[0] if len(set(own)) == 1 else " / ".join(own)
    return found


def _list_sparse_sources(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources of UDP that wait for others."""
    rate = config["bottleneck"].get("rate") or math.inf
    for hop in (config.get("reverse"), *(config.get("hop") or [])):
        rate = min(rate, (hop or {}).get("rate") or math.inf)
    return [one for one in config.get("udp") or [] if (one.get("rate") or 0) <= _SPARSE * rate or one.get("protocol")]


def _measure_runs(results: StoredResults) -> tuple[pl.DataFrame, list[Felt]]:
    """Return one row per run and column, and the columns: calls, pings, pages, then rates and use."""
    columns: list[Felt] = []
    frames: list[pl.DataFrame] = []

    def add(felt: Felt, rows: pl.DataFrame, name: str, aggregate: str) -> None:
        value = getattr(pl.col(name).cast(pl.Float64), aggregate)()
        own = rows.group_by("cell", "key", "seed", "hash", maintain_order=True).agg(value=value)
        own = own.with_columns(pl.col("value").fill_nan(None), label=pl.lit(felt.label)).drop_nulls()
        if own.height:
            columns.append(felt)
            frames.append(own)

    _add_udp(results, add)
    _add_apps(results, add)
    _add_pages(results, add)
    _add_rates(results, add)
    empty = {"cell": pl.String, "key": pl.String, "seed": pl.Int64, "hash": pl.String, "value": pl.Float64}
    return (pl.concat(frames) if frames else pl.DataFrame(schema=empty | {"label": pl.String})), columns


def _list_directions(rows: pl.DataFrame) -> list[str]:
    return [way for way in ("down", "up") if way in set(rows["direction"])]


def _add_udp(results: StoredResults, add: Any) -> None:
    names = ("delay_p99_ms", "jitter_mean_ms", "rtt_p99_ms", "loss_share")
    known = [name for name in names if name in results.measures("flows")]
    numbers = {
        cell: [
            number
            for number, one in enumerate(one for one in config["udp"] for _ in range(one.get("count", 1)))
            if one in _list_sparse_sources(config)
        ]
        for cell, config in results.configurations.items()
        if config.get("udp")
    }
    flows = results.parts("flows", known)
    udp = flows.filter(pl.col("cc").is_in(_ENDPOINTS))
    if udp.is_empty() or not known:
        return
    # flows come first, then sources of UDP
    ahead = {
        cell: sum(one.get("count", 1) for one in config["flows"]) for cell, config in results.configurations.items()
    }
    place = pl.struct("cell", "flow").map_elements(
        lambda row: row["flow"] - ahead[row["cell"]] in numbers.get(row["cell"], ()), return_dtype=pl.Boolean
    )
    udp = udp.filter(place)
    calls, pings = udp.filter(cc="udp"), udp.filter(cc="ping")
    half_rtt_ms = max(map(_get_base_rtt, results.configurations.values()), default=0.0) / 2e6
    for way in _list_directions(calls) if "delay_p99_ms" in known else []:
        up = f" {way}" * (len(_list_directions(calls)) > 1)
        name, sentence = f"call{up}, delay P99, ms", f"a call{up} waits {{}} at P99"
        felt = Felt(name, sentence, f"call{up}", "delay", " ms", offset=half_rtt_ms)
        add(felt, calls.filter(direction=way), "delay_p99_ms", "max")
    for measure, felt, rows in (
        ("jitter_mean_ms", Felt("call, jitter, ms", "its jitter is {}", "call", "jitter", " ms"), calls),
        ("loss_share", Felt("call, loss, %", "the call loses {}", "call", "loss", " %"), calls),
        ("rtt_p99_ms", Felt("ping, RTT P99, ms", "a ping takes {} at P99", "ping", "delay", " ms"), pings),
        ("loss_share", Felt("ping, loss, %", "the ping loses {}", "ping", "loss", " %"), pings),
    ):
        if measure in known:
            add(felt, _convert_to_percent(rows, measure) if measure == "loss_share" else rows, measure, "max")


def _get_base_rtt(config: Mapping[str, Any]) -> float:
    return max((one.get("base_rtt") or 0 for kind in ("flows", "web") for one in config.get(kind) or []), default=0)


def _convert_to_percent(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.with_columns(pl.col(name) * 100)


def _add_apps(results: StoredResults, add: Any) -> None:
    known = [name for name in dict.fromkeys(one.measure for one in _OF_APPS) if name in results.measures("apps")]
    if not known:
        return
    users = _fill_load_times(results, results.parts("apps", [*known, "loads_begun"]))
    for one in _OF_APPS:
        own = users.filter(name=one.app)
        if own.is_empty() or one.measure not in known:
            continue
        measured = pl.col(one.measure).cast(pl.Float64)
        own = own.with_columns((one.factor / measured if one.is_inverse else measured * one.factor).alias(one.measure))
        for way in _list_directions(own) if "{way}" in one.felt.label else [""]:
            rows = own.filter(direction=way) if way else own
            texts = {name: getattr(one.felt, name).replace("{way}", way) for name in ("label", "word", "of")}
            # the user who fares worst
            add(replace(one.felt, **texts), rows, one.measure, "min" if one.felt.more_is_better else "max")


def _fill_load_times(results: StoredResults, users: pl.DataFrame) -> pl.DataFrame:
    """Return users of applications: where loads began and none was complete, they took the measured time or longer."""
    measured = {
        cell: (config["duration"] - config["record"].get("from", 0)) / 1e9
        for cell, config in results.configurations.items()
    }
    waits = (pl.col("loads_begun") > 0) & pl.col("load_p95_s").fill_nan(None).is_null()
    longest = pl.col("cell").replace_strict(measured, return_dtype=pl.Float64)
    return users.with_columns(load_p95_s=pl.when(waits).then(longest).otherwise(pl.col("load_p95_s")))


def _add_pages(results: StoredResults, add: Any) -> None:
    pages = results.parts("short_flows", ["slowdown"]).with_columns(pl.col("slowdown").fill_nan(None)).drop_nulls()
    if pages.is_empty():
        return
    runs = pages.group_by("cell", "key", "seed", "hash", maintain_order=True)
    slow = runs.agg(pl.col("slowdown").quantile(0.99, "higher"))
    felt = Felt("page, slow-down P99", "a page takes {} as long as on an empty link at P99", "page", "delay", " times")
    add(felt, slow, "slowdown", "max")


def _add_rates(results: StoredResults, add: Any) -> None:
    flows = results.parts("flows", ["goodput_mbit"]).filter(~pl.col("cc").is_in(_ENDPOINTS))
    words = {"down": "download", "up": "upload"}
    for way in _list_directions(flows):
        word = words[way] if len(_list_directions(flows)) > 1 else "goodput"
        felt = Felt(f"{word}, Mbit/s", f"{{}} Mbit/s {way}", way, "rate", more_is_better=True)
        add(felt, flows.filter(direction=way), "goodput_mbit", "sum")
    hops = results.parts("hops", ["utilisation"]) if "utilisation" in results.measures("hops") else pl.DataFrame()
    if hops.height:
        for hop in hops["hop"].unique(maintain_order=True).to_list():
            own = _convert_to_percent(hops.filter(hop=hop), "utilisation")
            add(Felt(f"utilisation of {hop}, %", "{} %", hop, "use", more_is_better=True), own, "utilisation", "mean")
    elif "utilisation" in results.measures("runs"):
        own = _convert_to_percent(results.parts("runs", ["utilisation"]), "utilisation")
        add(Felt("utilisation, %", "{} %", "link", "use", more_is_better=True), own, "utilisation", "mean")
