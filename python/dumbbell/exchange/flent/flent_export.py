"""Runs as data files of Flent, for its plots."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import math
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import Ambiguous, Nothing, Unwritable
from dumbbell.exchange.flent import tests
from dumbbell.exchange.flent.file import NEWEST, read_start
from dumbbell.exchange.flent.metadata import OWN
from dumbbell.experiment import spelling
from dumbbell.experiment.registry import read_registry
from dumbbell.results.results import StoredResults
from dumbbell.scratch import Scratch
from dumbbell.writing import report_write_failures

ENDINGS = (".flent.gz", ".flent.bz2", ".flent", ".flnt")
_DATE = datetime(2000, 1, 1, tzinfo=UTC)  # of simulations, which have none: equal runs are equal files
# column of `series` → key of a sample; those of Flent have its names
_OF_TCP = {
    "srtt_ms": "tcp_rtt",
    "cwnd": "tcp_cwnd",
    "ssthresh": "tcp_ssthresh",
    "in_flight": "tcp_in_flight",
    "retransmissions": "retransmissions",
}
_PLOTTED = ("tcp_rtt", "tcp_cwnd")
_OF_QUEUE = {
    "backlog_bytes": "backlog_bytes",
    "backlog_packets": "backlog_pkts",
    "drops": "dropped",
    "ce_marks": "ecn_mark",
    "sojourn_mean_ms": "delay",
}
# disciplines with one queue, in which a ping waits as long as anything else
_ONE_QUEUE = ("pfifo", "bfifo", "red", "step", "codel", "pie", "pi2", "csaqm", "docsis_pie")
_PING_NOTE = "not measured: base RTT plus the mean time in queue of the interval"


@dataclass
class _ExportedRun:
    """A run with its rows."""

    row: dict[str, Any]
    config: dict[str, Any]
    flows: list[dict[str, Any]]
    classes: list[dict[str, Any]]
    series: pl.DataFrame
    queues: dict[str, pl.DataFrame]
    more: dict[str, list[dict[str, Any]]]
    title: str


def is_file(output: str) -> bool:
    """Whether the name of an output is that of a data file of Flent."""
    return output.endswith(ENDINGS)


def export(results: StoredResults, output: str) -> list[Path]:
    """Write runs as data files of Flent: one file, or into a folder a file for each, and return their paths.

    Files that exist are not written over. Raises InputError.
    """
    if is_file(output) and len(results) > 1:
        allowed = "one with --where KEY=VALUE, or write a file of each with --format flent -o FOLDER"
        raise Ambiguous(f"it has {len(results)} runs, and a file of Flent has one", allowed, file=results.path)
    texts = results.name_cells()
    files: dict[Path, bytes] = {}
    for run in _list_runs(results, texts):
        data = make_document(run)
        path = Path(output) if is_file(output) else _find_free_path(Path(output), data, run, files)
        data["metadata"]["DATA_FILENAME"] = path.name
        files[path] = pack_data(data, path.name)
    _write(files, is_folder=not is_file(output))
    return list(files)


def _list_runs(results: StoredResults, texts: dict[str, str]) -> list[_ExportedRun]:
    whole = results.runs
    several = len(results.seeds) > 1
    rows = {
        name: results.frame(name)
        for name in ("flows", "classes", "series", "queue_series", "hops", "hop_series", "rtt", "sojourn")
    }
    cells = dict(results._index.select("key", "cell").iter_rows())
    found = []
    for row in whole.iter_rows(named=True):
        own = {name: frame.filter(pl.col("key") == row["key"]) for name, frame in rows.items()}
        config = json.loads(row["config"])
        if own["series"].is_empty() or "time_s" not in own["series"].columns:
            raise Nothing(
                f"run {row['key'][:8]} has no time series", "runs with record.series = true", file=results.path
            )
        queues = {"bottleneck": own["queue_series"]}
        if own["hop_series"].height:
            for (hop,), frame in own["hop_series"].group_by("hop", maintain_order=True):
                queues[str(hop)] = frame
        said = texts.get(cells[row["key"]], "")
        words = [word for word in said.split(", ") if word and word != row["experiment"]]
        title = ", ".join([row["experiment"], *words, *([f"seed {row['seed']}"] if several else [])])
        flows, classes = (own[name].drop("key").to_dicts() for name in ("flows", "classes"))
        more = {name: own[name].drop("key").to_dicts() for name in ("hops", "rtt", "sojourn")}
        found.append(_ExportedRun(row, config, flows, classes, own["series"], queues, more, title))
    return found


def make_document(run: _ExportedRun) -> dict[str, Any]:
    """Return a run as the content of a data file."""
    said = json.loads(run.row.get("imported") or "{}")
    senders = [_describe_sender(flow) for flow in run.flows]
    test = tests.find_imported_test(said, len(senders)) or tests.choose_test(senders)
    times = sorted(set(run.series["time_s"].to_list()))
    step = min((b - a for a, b in itertools.pairwise(times)), default=times[0] if times else 0.2)
    zero = read_start({"T0": said.get("started")})
    began = _DATE if zero is None else datetime.fromtimestamp(zero, UTC)
    file = _DataFile(times, began.timestamp(), max(round(step, 9), 1e-4))
    for number, (flow, name) in enumerate(zip(run.flows, test.series, strict=True)):
        rows = run.series.filter(pl.col("flow") == number).sort("time_s")
        if senders[number].kind == "ping":
            file.ping(name, rows, _estimate(run, flow, rows))
        else:
            file.add_flow(name, flow, rows)
    if "Ping (ms) ICMP" not in file.results and test.name != "ping":
        first = next((flow for flow in run.flows if flow["cc"] not in ("udp", "ping")), None)
        if first is not None:
            file.ping("Ping (ms) ICMP", run.series.clear(), _estimate(run, first, run.series.clear()))
    hosts = [name for name, rows in run.queues.items() if file.add_queue(name, rows)]
    if hosts:
        test.parameters |= {"qdisc_stats_hosts": ",".join(hosts), "qdisc_stats_interfaces": ",".join(hosts)}
    file.finish()
    return {
        "version": NEWEST,
        "x_values": times,
        "results": file.results,
        "raw_values": file.raw,
        "metadata": _make_metadata(run, test, file, began, said),
    }


def _describe_sender(flow: dict[str, Any]) -> tests.Sender:
    kind = flow["cc"] if flow["cc"] in ("udp", "ping") else "flows"
    return tests.Sender(kind, flow.get("direction") or "down", float(flow["base_rtt_ms"] or 0.0), str(flow["cc"]))


def _select_answers(rows: pl.DataFrame) -> dict[float, float]:
    """Return the RTTs of pings over time, ms; in results that were imported before there was `rtt_ms`, `srtt_ms`."""
    for column in ("rtt_ms", "srtt_ms"):
        if column in rows.columns:
            kept = rows.filter(pl.col(column).is_finite() & (pl.col(column) > 0))
            if kept.height:
                return dict(kept.select("time_s", column).iter_rows())
    return {}


def _estimate(run: _ExportedRun, flow: dict[str, Any], rows: pl.DataFrame) -> dict[float, float]:
    """Return what a ping would see over time, ms: its base RTT and the time in queue on its way.

    Nothing is returned where queues keep flows apart, so that a ping waits less than others, or where pings have been
    measured.
    """
    if _select_answers(rows):
        return {}
    hops = [one for one in ("bottleneck", "reverse") if run.config.get(one)]
    if any(run.config[hop]["aqm"]["name"] not in _ONE_QUEUE for hop in hops) or run.config.get("hop"):
        return {}
    found: dict[float, float] = {}
    for hop in hops:
        queue = run.queues.get(hop)
        if queue is None or "sojourn_mean_ms" not in queue.columns:
            return {}
        for time, waited in queue.select("time_s", "sojourn_mean_ms").iter_rows():
            if waited is None or math.isnan(waited):
                return {}
            found[time] = found.get(time, float(flow["base_rtt_ms"] or 0.0)) + waited
    return found


class _DataFile:
    """Series of a data file as they are made."""

    def __init__(self, times: Sequence[float], zero: float, step: float) -> None:
        self.times, self.zero, self.step = times, zero, step
        self.results: dict[str, list[float | None]] = {}
        self.raw: dict[str, list[dict[str, Any]]] = {}
        self.meta: dict[str, dict[str, Any]] = {}

    def _add(self, name: str, units: str, values: dict[float, float], **more: Any) -> None:
        known = [value for value in values.values() if value is not None]
        self.results[name] = [values.get(time) for time in self.times]
        self.meta[name] = {"UNITS": units, "IDX": len(self.meta), "RUNNER": "dumbbell"} | more
        if known:
            self.meta[name] |= {
                "MEAN_VALUE": sum(known) / len(known),
                "MIN_VALUE": min(known),
                "MAX_VALUE": max(known),
            }

    def add_flow(self, name: str, flow: dict[str, Any], rows: pl.DataFrame) -> None:
        """Add a flow of TCP or UDP while it lasts."""
        start = float(flow["start_s"] or 0.0)
        length = flow.get("completion_s")
        end = start + length if length is not None and math.isfinite(length) else math.inf
        rows = rows.filter((pl.col("time_s") > start) & (pl.col("time_s") - self.step < end))
        keys = {ours: theirs for ours, theirs in _OF_TCP.items() if ours in rows.columns}
        samples, columns = [], {theirs: dict[float, float]() for theirs in ("val", *keys.values())}
        has_window = flow["cc"] != "udp"
        for row in rows.iter_rows(named=True):
            sample: dict[str, Any] = {"t": self.zero + row["time_s"], "dur": self.step}
            values = {"val": row.get("goodput_mbit")}
            values |= {theirs: row[ours] for ours, theirs in keys.items()} if has_window else {}
            for key, value in values.items():
                nothing = key == "tcp_rtt" and not value  # before the first sample
                if value is not None and math.isfinite(value) and not nothing:
                    sample[key] = value
                    columns[key][row["time_s"]] = value
            if "val" not in sample:
                del sample["dur"]
            samples.append(sample)
        self.raw[name] = samples
        self._add(name, "Mbits/s", columns["val"], CONG_CONTROL=flow["cc"])
        for key in _PLOTTED:
            if columns.get(key):
                self._add(f"{name}::{key}", "ms" if key == "tcp_rtt" else "packets", columns[key])

    def ping(self, name: str, rows: pl.DataFrame, estimate: dict[float, float]) -> None:
        """Add pings: as they were measured, or what the time in queue says of them."""
        values = estimate | _select_answers(rows)
        items = sorted(values.items())
        self.raw[name] = [{"t": self.zero + t, "val": value, "seq": n} for n, (t, value) in enumerate(items)]
        self._add(name, "ms", values, **({"NOTE": _PING_NOTE} if estimate else {}))

    def add_queue(self, host: str, rows: pl.DataFrame) -> bool:
        """Add what a queue counted; return whether anything is known of it."""
        keys = {ours: key for ours, key in _OF_QUEUE.items() if ours in rows.columns and rows[ours].count()}
        if not keys or rows.is_empty():
            return False
        name = f"qdisc_stats_{host}"
        samples, columns = [], {key: dict[float, float]() for key in keys.values()}
        sent = 0.0
        counts_bytes = "throughput_mbit" in rows.columns and rows["throughput_mbit"].null_count() == 0
        if counts_bytes:
            columns["sent_bytes"] = {}
        for row in rows.sort("time_s").iter_rows(named=True):
            values = {
                key: row[ours] for ours, key in keys.items() if row[ours] is not None and math.isfinite(row[ours])
            }
            if counts_bytes:
                sent += row["throughput_mbit"] * self.step / 8e-6
                values["sent_bytes"] = round(sent, 3)
            samples.append({"t": self.zero + row["time_s"]} | values)
            for key, value in values.items():
                columns[key][row["time_s"]] = value
        self.raw[name] = samples
        for key, of_key in columns.items():
            self._add(
                f"{name}::{key}",
                {"delay": "ms", "backlog_bytes": "bytes", "sent_bytes": "bytes"}.get(key, "packets"),
                of_key,
            )
        return True

    def finish(self) -> None:
        """Add what Flent's tests compute of their series: sums and means."""
        ways: dict[str, list[str]] = {"upload": [], "download": []}
        for name in [name for name in self.results if name.startswith("TCP ") and "::tcp" not in name]:
            ways["download" if " download" in name else "upload"].append(name)
        totals: dict[float, float] = {}
        for way, names in ways.items():
            if not names:
                continue
            sums: dict[float, float] = {}
            counts: dict[float, int] = {}
            for name in names:
                for time, value in zip(self.times, self.results[name], strict=True):
                    if value is not None:
                        sums[time] = sums.get(time, 0.0) + value
                        counts[time] = counts.get(time, 0) + 1
            self._add(f"TCP {way} sum", "Mbits/s", sums)
            self._add(f"TCP {way} avg", "Mbits/s", {time: total / counts[time] for time, total in sums.items()})
            for time, total in sums.items():
                totals[time] = totals.get(time, 0.0) + total
        if all(ways.values()):
            self._add("TCP totals", "Mbits/s", totals)
        pings = [name for name in self.results if name.startswith("Ping (ms)")]
        means: dict[float, float] = {}
        for place, time in enumerate(self.times):
            known = [value for name in pings if (value := self.results[name][place]) is not None]
            if known:
                means[time] = sum(known) / len(known)
        if pings:
            self._add("Ping (ms) avg", "ms", means)


def _make_metadata(
    run: _ExportedRun, test: tests.Test, file: _DataFile, began: datetime, said: dict[str, Any]
) -> dict[str, Any]:
    config, row = run.config, run.row
    seconds = config["duration"] / 1e9
    stamp = began.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    host = str(said.get("host") or "receiver")
    hosts = test.hosts or [host]
    flows = [flow for flow in run.flows if flow["cc"] not in ("udp", "ping")]
    controls = list(dict.fromkeys(flow["cc"] for flow in flows))
    figures = {
        "runs": [_to_plain({k: v for k, v in row.items() if k not in _OF_STORE})],
        "flows": [_to_plain(one) for one in run.flows],
        "classes": [_to_plain(one) for one in run.classes],
        "rtt": run.more["rtt"],
        "sojourn": run.more["sojourn"],
        "hops": [_to_plain(one) for one in run.more["hops"]],
    }
    return {
        "NAME": test.name,
        "TITLE": run.title,
        "LENGTH": seconds,
        "TOTAL_LENGTH": seconds,
        "STEP_SIZE": file.step,
        "T0": stamp,
        "TIME": stamp,
        "LOCAL_HOST": "sender",
        "HOST": hosts[0],
        "HOSTS": hosts,
        "IP_VERSION": 4,
        "NOTE": f"{row['engine_version']}, seed {row['seed']}",
        "FAILED_RUNNERS": 0,
        "BATCH_NAME": row["experiment"],
        "BATCH_TITLE": row["title"],
        "BATCH_TIME": stamp,
        "BATCH_UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, f"dumbbell:{row['experiment']}:{row['engine_version']}")),
        "FLENT_VERSION": "2.0",
        "KERNEL_NAME": "dumbbell",
        "KERNEL_RELEASE": row["engine_version"],
        "TEST_PARAMETERS": test.parameters | ({"tcp_cong_control": controls[0]} if len(controls) == 1 else {}),
        "SYSCTLS": {
            "net.ipv4.tcp_congestion_control": controls[0] if controls else "",
            "net.ipv4.tcp_ecn": int(bool(config["hosts"]["ecn"])),
        },
        "EGRESS_INFO": _describe_interface("bottleneck" if not config.get("reverse") else "reverse", config),
        "REMOTE_METADATA": {"bottleneck": {"INGRESS_INFO": _describe_interface("bottleneck", config)}}
        if config.get("reverse")
        else {},
        "SERIES_META": file.meta,
        OWN: {
            "experiment": row["experiment"],
            "title": row["title"],
            "key": row["key"],
            "seed": row["seed"],
            "engine_version": row["engine_version"],
            "hash": row["hash"],
            "series": test.series,
            "config": config,
        }
        | ({} if "shell" in config else {"tables": figures}),
    }


# columns of table `runs` that say what a run is, and are not measured
_OF_STORE = {
    *("key", "experiment", "title", "seed", "number", "matrix", "config", "engine_version", "kernel", "given", "cell"),
    *("wall_s", "hash", "imported"),
}


def _to_plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON takes it: what has no value is left out."""
    return {
        key: value
        for key, value in row.items()
        if value is not None and not (isinstance(value, float) and math.isnan(value))
    }


def _describe_interface(hop: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return a hop as Flent describes an interface, with the parameters of tc."""
    one = config[hop]
    aqm = dict(one["aqm"])
    name = str(aqm.pop("name"))
    known = read_registry().aqm[name].params if name in read_registry().aqm else {}
    if aqm.get("ecn") is not True:  # tc names what is on
        aqm.pop("ecn", None)
    params = {
        key: spelling.show_value(known[key], value) for key, value in aqm.items() if key in known and value is not None
    }
    rate, htb = f"{one['rate']}bit", one["shaper"] == "htb"
    return {
        "iface": hop,
        "driver": None,
        "link_params": {"qlen": "1000"},
        "offloads": None,
        "bql": {},
        "classes": [{"id": "1:1", "name": "htb", "parent": "root", "params": {"rate": rate, "ceil": rate}}]
        if htb
        else [],
        "qdiscs": [
            {"id": "1:", "name": "htb" if htb else "tbf", "parent": "root", "params": {} if htb else {"rate": rate}},
            {"id": "2:", "name": name, "parent": "1:1", "params": params},
        ],
    }


def pack_data(data: dict[str, Any], name: str) -> bytes:
    """Return the content of a file with this name; equal data are equal bytes."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()
    if name.endswith(".gz"):
        return gzip.compress(text, mtime=0)
    return bz2.compress(text) if name.endswith((".bz2", ".flnt")) else text


def _find_free_path(folder: Path, data: dict[str, Any], run: _ExportedRun, taken: dict[Path, bytes]) -> Path:
    """Return a name in a folder as Flent makes it: test, time and title."""
    metadata = data["metadata"]
    began = datetime.fromisoformat(metadata["TIME"].replace("Z", "+00:00")).replace(tzinfo=None)
    title = re.sub(r"[^A-Za-z0-9-]", "_", metadata["TITLE"])[:120]
    stem = f"{metadata['NAME']}-{began.isoformat(timespec='microseconds').replace(':', '')}.{title}"
    path = folder / f"{stem}.flent.gz"
    return path if path not in taken else folder / f"{stem}_{run.row['key'][:8]}.flent.gz"


def _write(files: dict[Path, bytes], *, is_folder: bool) -> None:
    """Write files, all of them or none."""
    for path in files:
        if path.exists():
            raise Unwritable("this file already exists", "another name", file=path)
    folder = next(iter(files)).parent
    allowed = "a folder that can be written to, with space, or NAME.flent.gz" if is_folder else "another place"
    with report_write_failures(folder, allowed):
        if is_folder:
            folder.mkdir(parents=True, exist_ok=True)
        with Scratch(folder) as draft:
            for path, content in files.items():
                (draft / path.name).write_bytes(content)
            for path in files:
                (draft / path.name).rename(path)
