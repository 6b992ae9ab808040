"""The names that other tools and papers use for keys of experiment files, algorithms and measures."""

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

# words of tc(8), netem(8) and SQM where queue disciplines, their keys and shapers stand: what there is instead
ISOLATIONS = ("srchost", "dsthost", "flowblind", "dual-srchost", "dual-dsthost", "triple-isolate")
TINS = ("besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8")
CAKE_RTTS = {  # tc-cake(8)
    "datacentre": "100us",
    "lan": "1ms",
    "metro": "10ms",
    "regional": "30ms",
    "internet": "100ms",
    "oceanic": "300ms",
    "satellite": "1s",
}
_NO_CLASSES = "there are no classes but the tins of cake and those of htb_classes"
_SHAPER = 'a shaper is shaper = "htb" of the hop, with the queue behind it as aqm'
_STAGES = "delays, losses and reordering are base_rtt and stages of a path: dumbbell list"
_TC = {
    "tbf": 'a token bucket is shaper = "htb" of the hop, with burst; its queue is aqm',
    "htb": _SHAPER,
    "hfsc": f"{_NO_CLASSES}; {_SHAPER}",
    "sfq": "it is not modelled; fq_codel keeps flows apart",
    **dict.fromkeys(("ets", "cbq"), _NO_CLASSES),
    "hhf": "it is not modelled; fq_codel keeps flows apart",
    "sfb": "it is not modelled; the nearest are red and pie",
    "choke": "it is not modelled; the nearest are red and pie",
    "gred": "there is one queue for all classes; red is that of one",
    "multiq": "a hop has one queue; [[hop]] adds others",
    **dict.fromkeys(("mqprio", "taprio", "etf", "cbs"), "schedules of a network card are not modelled"),
    "skbprio": "it is not modelled; the tins of cake have priorities",
    "plug": 'link = "onoff" stops and goes on',
    "noqueue": "a queue without limit and delay is pfifo behind a faster link",
    "clsact": "what it leads to, an ifb or a policer, is a [[hop]] or the stage policer",
    "drr": f"{_NO_CLASSES}; fq_codel takes turns by deficits",
    "qfq": f"{_NO_CLASSES}; fq_codel takes turns by deficits",
    "prio": _NO_CLASSES,
    "mq": "a hop has one queue; [[hop]] adds others",
    "netem": _STAGES,
    "police": "it is the stage policer of a path",
    "ifb": "an ingress shaper is a [[hop]] behind the link whose traffic it shapes",
    "pfifo-fast": "its three bands are not modelled; pfifo is one of them",
    "nat": "src_host and dst_host of flows say which hosts they are of, whatever their addresses",
    "nonat": "src_host and dst_host of flows say which hosts they are of, whatever their addresses",
    "wash": "it is not modelled: a DSCP stays as it is; stage bleach clears the ECN field",
    "nowash": "a DSCP stays as it is",
    "split-gso": "hosts.offload says how packets come; bursts are queued as they come",
    "no-split-gso": "it is always so: bursts are queued as they come",
    "autorate-ingress": "it is not modelled: bandwidth stays, or follows the link where it is unset",
    "egress": "it is the default; ingress = true is the other",
    "ack-filter-aggressive": 'it is ack_filter = "aggressive"',
    "no-ack-filter": 'it is ack_filter = "off"',
    "unlimited": 'it is bandwidth = "0bit"',
    "noecn": "it is ecn = false",
    "ceil": "there are no classes: rate of the hop is the ceiling",
    "stab": "it is link_layer, or overhead, mpu and framing of the hop; stab counts from the Ethernet frame, these from"
    " the IP packet: overhead is 14 more",
    "linklayer": "it is framing of the hop, or link_layer, which has the overhead, too",
    **{one: f'it is isolation = "{one}"' for one in ISOLATIONS},
    **{one: f'it is diffserv = "{one}"' for one in TINS},
    **{one: f'it is rtt = "{time}"' for one, time in CAKE_RTTS.items()},
    **{one: f'it is framing = "{one}"' for one in ("atm", "ptm")},
    "noatm": 'it is framing = "none"',
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


def find_measures(word: str, columns: Sequence[str]) -> list[str]:
    """Return those of `columns` that others call `word`."""
    return [one for one in _MEASURES.get(re.sub(r"[- ]", "_", word.casefold()), ()) if one in columns]


def find_algorithm(word: str, names: Sequence[str]) -> tuple[str | None, str]:
    """Return the one of the `names` of algorithms that others call `word`, and what to know of it."""
    name, remark = _ALGORITHMS.get(re.sub(r"[-_ ]", "", word.casefold()), ("", ""))
    return (name, remark) if name in names else (None, "")


def explain_tc_word(word: str) -> str:
    """Return what there is instead of a word of tc; nothing for any other word."""
    return _TC.get(word.casefold().replace("_", "-"), "")


def find_key(word: str, keys: Sequence[str]) -> str | None:
    """Return the one of `keys` that an unknown `word` means: by what others call it, or as a part of its name."""
    other = _CALLED.get(word.casefold().replace("-", "_"))
    found = [other] if other in keys else [key for key in keys if word.casefold() in key.split("_")]
    return found[0] if len(found) == 1 else None
