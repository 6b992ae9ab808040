"""Reads Flent's data files of two posts on blog.cerowrt.org into references/flent-rrul.csv.

    git clone https://github.com/dtaht/blog-cerowrt
    python -m studies.home.flent_files blog-cerowrt/content/flent > studies/home/references/flent-rrul.csv

Goodput is what netperf said at its end, summed over the flows of a direction; `late_down_mbit` is the mean of Flent's
points of the sum of the downloads from 10 s after their start on. Percentiles of the pings are of those
sent while the flows ran, from 5 to 65 s; `idle_ms` is the median of those before. Queues, rates, RTT, ECN, pacing and
the router's offloads are what tc and sysctl said at the start of the run, if the file has it, or else what its title
says. A file is left out if its title names another queue than tc does.
"""

import csv
import gzip
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

COLUMNS = (
    *("source", "time", "qdisc", "qdisc_up", "ecn", "pacing", "offloads", "cc1", "flows_down", "flows_up"),
    *("rate_mbit", "up_mbit", "delay_ms", "seconds", "goodput_down_mbit", "goodput_up_mbit", "late_down_mbit"),
    *("idle_ms", "ping_p50_ms", "ping_p99_ms", "pings", "answered"),
)
_LEAD_S = 5  # Flent pings for so long before the flows start, and after they end
_LATE_S = 10
_PING_S = 0.2
# what tc of Linux 4.4 leaves unsaid, in the names of this project: whose PIE, and a quirk of FQ-CoDel
_KERNEL = {"pie": ("linux-4",), "fq_codel": ("stale_when_empty",)}
_TARGET = "5.0ms"  # default of CoDel and FQ-CoDel
_FILTERS = {
    "no-ack-filter": "cake",
    "ack-filter-aggressive": "cake ack-filter-aggressive",
    "ack-filter": "cake ack-filter",
}  # how a title ends → words of tc


def find_percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _format_qdisc(qdisc: dict[str, Any]) -> str:
    """Return a queue discipline in tc's words, without options that have their defaults."""
    name, params = str(qdisc["name"]), dict(qdisc["params"])
    if name == "cake":  # Flent pairs the words as they come: `diffserv4 flows` is a name and its value
        tin = next(word for word in params if word.startswith(("besteffort", "diffserv")))
        return f"cake {tin} {params[tin]}"
    words = [name, *_KERNEL.get(name, ())]
    for option, value in sorted(params.items()):
        if option in ("limit", "target", "tupdate") and value != _TARGET:
            words += [option, str(value).removesuffix("p").replace(".0ms", "ms")]
    return " ".join([*words, *(["ecn"] if "ecn" in params and name != "fq_codel" else [])])


def _read_router(meta: dict[str, Any]) -> dict[str, Any] | None:
    """Return what tc and sysctl said in `cake_vs_everything`; None if the title says otherwise."""
    router, server = (meta["REMOTE_METADATA"][f"root@{name}"] for name in ("router", "linux"))
    down, delay = router["INGRESS_INFO"], router["EGRESS_INFO"]["qdiscs"][0]
    shaped = [q for q in down["qdiscs"] if q["name"] in ("fq_codel", "pie", "codel", "cake")]
    if not shaped or shaped[0]["name"] not in meta["TITLE"]:
        return None
    words = _format_qdisc(shaped[0])
    paced = server["INGRESS_INFO"]["qdiscs"][0]["name"] == "fq"
    return {
        "source": "cake-vs-everything",
        "qdisc": words,
        "qdisc_up": words,  # tc of the interface that carries it is not in the files
        "ecn": int(meta["SYSCTLS"]["net.ipv4.tcp_ecn"] == 1),
        "pacing": "fq" if paced else "cc",
        "offloads": "on" if down["offloads"]["generic-receive-offload"] else "off",
        "cc1": meta["SYSCTLS"]["net.ipv4.tcp_congestion_control"],
        "rate_mbit": 110,
        "up_mbit": 10,
        "delay_ms": round(2 * float(delay["params"]["delay"].removesuffix("ms"))),
    }


def _read_namespaces(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what the titles of `ack_filter` and its post say; sysctl said that nobody asked for ECN."""
    up = next(words for ending, words in _FILTERS.items() if meta["TITLE"].endswith(ending))
    given = {"source": "ack-filtering", "qdisc": "cake", "qdisc_up": up, "ecn": 0, "pacing": "fq", "offloads": ""}
    return given | {"cc1": "cubic", "rate_mbit": 1000, "up_mbit": 20, "delay_ms": 100}


def _read_measured(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a file says of its flows and its ICMP pings."""
    meta, raw = data["metadata"], data["raw_values"]
    seconds = meta["LENGTH"]
    means = {s: of["MEAN_VALUE"] for s, of in meta["SERIES_META"].items() if s.startswith("TCP") and "load BE" in s}
    ways = {way: [mean for series, mean in means.items() if way in series] for way in ("down", "up")}
    began = datetime.strptime(f"{meta['T0']}+0000", "%Y-%m-%dT%H:%M:%S.%fZ%z").timestamp()
    pings = [(ping["t"] - began, ping["val"]) for ping in raw["Ping (ms) ICMP"]]
    loaded = [rtt for at, rtt in pings if _LEAD_S <= at < _LEAD_S + seconds]
    points = zip(data["x_values"], data["results"]["TCP download sum"], strict=True)
    late = [rate for at, rate in points if rate is not None and _LEAD_S + _LATE_S <= at <= _LEAD_S + seconds]
    return {
        "flows_down": len(ways["down"]),
        "flows_up": len(ways["up"]),
        "seconds": seconds,
        "goodput_down_mbit": round(sum(ways["down"]), 2),
        "goodput_up_mbit": round(sum(ways["up"]), 2),
        "late_down_mbit": round(statistics.fmean(late), 2),
        "idle_ms": round(statistics.median(rtt for at, rtt in pings if at < _LEAD_S), 2),
        "ping_p50_ms": find_percentile(loaded, 0.5),
        "ping_p99_ms": find_percentile(loaded, 0.99),
        "pings": round(seconds / _PING_S),
        "answered": len(loaded),
    }


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each file of `folder` that counts."""
    patterns = "cake_vs_everything/rrul_be-*.gz", "ack_filter/rrul_be-*1Gbit*.gz"
    for file in [file for pattern in patterns for file in sorted(folder.glob(pattern))]:
        data = json.loads(gzip.decompress(file.read_bytes()))
        meta = data["metadata"]
        described = _read_namespaces(meta) if "ack_filter" in file.parts else _read_router(meta)
        if described is not None:
            yield described | {"time": meta["TIME"][:19]} | _read_measured(data)


if __name__ == "__main__":
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(read_rows(Path(sys.argv[1])))
