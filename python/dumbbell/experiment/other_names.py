"""What other tools and papers call the keys of experiment files, algorithms and measures."""

import re
from collections.abc import Sequence

_CALLED = {
    "bandwidth": "rate",
    "bw": "rate",
    "capacity": "rate",
    "qdisc": "aqm",
    "queue": "aqm",
    "algorithm": "cc",
    "cca": "cc",
    "congestion_control": "cc",
    "control": "cc",
    "tcp": "cc",
    "delay": "base_rtt",
    "link": "bottleneck",
    "flow": "flows",
    "hops": "hop",
    "length": "duration",
    "time": "duration",
    "name": "title",
    "rtt": "base_rtt",
    "seed": "seeds",
}

# of algorithms: ours, and what to know of theirs
_ALGORITHMS = {
    "bbr": ("bbr1", "mainline Linux's bbr is BBRv1, here bbr1"),  # net/ipv4/tcp_bbr.c of Linux 6.12
    "newreno": ("reno", ""),
    "droptail": ("pfifo", ""),
    "taildrop": ("pfifo", ""),
    "fifo": ("pfifo", ""),
}

# of measures: ours, the most likely one first
_DELAYS = ("sojourn_mean_ms", "rtt_mean_ms")
_LOSSES = ("drop_share", "drops", "retransmissions")
_RATES = ("goodput_mbit", "throughput_mbit")
_MEASURES = {
    **dict.fromkeys(("delay", "latency"), _DELAYS),
    **dict.fromkeys(("queue_delay", "queueing_delay", "queuing_delay"), _DELAYS[:1]),
    **dict.fromkeys(("loss", "losses", "loss_rate", "packet_loss", "drop_rate"), _LOSSES),
    **dict.fromkeys(("bandwidth", "bw", "rate", "speed"), _RATES),
    **dict.fromkeys(("fairness", "fairness_index", "jain_index"), ("jain",)),
    **dict.fromkeys(("queue", "queue_length", "queue_size"), ("backlog_mean_packets", "sojourn_mean_ms")),
    **dict.fromkeys(("ping", "pings"), ("rtt_mean_ms",)),
    "fct": ("completion_s", "completion_mean_s"),
}


def measures(word: str, columns: Sequence[str]) -> list[str]:
    """Return those of `columns` that others call `word`."""
    return [one for one in _MEASURES.get(re.sub(r"[- ]", "_", word.casefold()), ()) if one in columns]


def algorithm(word: str, names: Sequence[str]) -> tuple[str | None, str]:
    """Return the one of the `names` of algorithms that others call `word`, and what to know of it."""
    name, remark = _ALGORITHMS.get(re.sub(r"[-_ ]", "", word.casefold()), ("", ""))
    return (name, remark) if name in names else (None, "")


def meant(word: str, keys: Sequence[str]) -> str | None:
    """Return the one of `keys` that an unknown `word` means: by what others call it, or as a part of its name."""
    other = _CALLED.get(word.casefold().replace("-", "_"))
    found = [other] if other in keys else [key for key in keys if word.casefold() in key.split("_")]
    return found[0] if len(found) == 1 else None
