"""Queue disciplines of tc(8) that are queues here: their words, by tables, and the keys that these become.

Words, units and what tc computes by itself are those of tc-codel(8), tc-cake(8) and the others (iproute2 6.1, and 6.17
for dualpi2). A key that a line does not have keeps its default, which is the kernel's.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dumbbell.engines.linux.qdiscs import NOT_ZERO
from dumbbell.errors import InputError, Missing, WrongValue, quote_value
from dumbbell.experiment import spelling
from dumbbell.experiment.other_names import CAKE_RTTS, ISOLATIONS, TINS
from dumbbell.experiment.registry import read_registry
from dumbbell.tc import quantities
from dumbbell.tc.lexer import Word, place_error
from dumbbell.tc.options import (
    Option,
    Table,
    Value,
    leave,
    make_flags,
    read_options,
    refuse,
    spell_rate,
    spell_size,
    spell_time,
    take,
)

_PACKETS, _COUNT, _NUMBER = quantities.parse_packets, quantities.parse_count, quantities.parse_number


@dataclass
class Queue:
    """A queue discipline as keys of `aqm`, with keys for frames on the link, and the words that were left out."""

    name: str
    keys: dict[str, Value]
    left: dict[str, str] = field(default_factory=dict)
    """Words that change nothing here, with the reason."""
    layer: dict[str, Value] = field(default_factory=dict)
    """Keys of the hop: `link_layer`, or `overhead`, `mpu` and `framing`."""
    rate: Value | None = None
    """Of Cake's shaper; "0bit" for none."""
    rate_word: Word | None = None


def _parse_selector(word: Word) -> str:
    """Return whose packets a threshold marks: the bits of the DS byte in a mask are 0 of 0, or 1 of 3 for ECT(1)."""
    match = re.fullmatch(r"(0x[0-9a-f]{1,2}|[0-9]{1,3})(?:/(0x[0-9a-f]{1,2}|[0-9]{1,3}))?", word.lower())
    bits = (int(match[1], 0), int(match[2], 0) if match[2] else 0xFF) if match and _is_literal(match) else None
    found = {(0, 0): "all", (1, 3): "ect1"}.get(bits or (-1, -1))
    if found is None:
        raise place_error(WrongValue(quote_value(str(word)), "0/0, all packets, or 0x1/0x3, those with ECT(1)"), word)
    return found


def _is_literal(match: re.Match[str]) -> bool:
    """Whether Python takes the numbers, too, which may not begin with 0."""
    return all(part is None or part == "0" or part.startswith("0x") or part[0] != "0" for part in match.groups())


def _parse_step(word: Word) -> dict[str, Any]:
    """Return the threshold of DualPI2's step: a time, or packets with their unit."""
    if re.fullmatch(r"[0-9]+(p|pkts?|packets?)", word):
        return {"step_packets": quantities.parse_packets(word)}
    return {"step_thresh": spell_time(word)}


def _parse_percent(word: Word) -> int:
    return round(100 * quantities.parse_share(word))


_ECN = make_flags("ecn", {"ecn": True, "noecn": False})
_MODES = make_flags("bytemode", {"bytemode": True, "nobytemode": False}) | make_flags(
    "dq_rate_estimator", {"dq_rate_estimator": True, "no_dq_rate_estimator": False}
)
_CODEL: Table = {
    "limit": take("limit", _PACKETS),
    "target": take("target", spell_time),
    "interval": take("interval", spell_time),
    "ce_threshold": take("ce_threshold", spell_time),
    **_ECN,
}
_PIE: Table = {
    "limit": take("limit", _PACKETS),
    "target": take("target", spell_time),
    "tupdate": take("tupdate", spell_time),
    "alpha": take("alpha", _COUNT),
    "beta": take("beta", _COUNT),
    **_ECN,
    **_MODES,
}
_GSO = "bursts are queued as they come, and hosts.offload sets how they come"
_HOSTS = "src_host and dst_host of flows name their hosts, whatever their addresses"
_PACED = "packets here leave as fast as the link takes them; pacing of senders is hosts.pacing"
_DSCPS = "nothing behind the queue looks at a DSCP"

QUEUES: dict[str, Table] = {
    "pfifo": {"limit": take("limit", _PACKETS)},
    "bfifo": {"limit": take("limit", spell_size)},
    "red": {
        "limit": take("limit", spell_size),
        "min": take("min", spell_size),
        "max": take("max", spell_size),
        "avpkt": take("avpkt", spell_size),
        "burst": take("burst", _COUNT),
        "probability": take("probability", _NUMBER),
        "bandwidth": take("bandwidth", spell_rate),
        **make_flags("ecn", {"ecn": True}),
        **make_flags("harddrop", {"harddrop": True}),
        **make_flags("nodrop", {"nodrop": True}),
        **make_flags("adaptive", {"adaptive": True}),
    },
    "codel": _CODEL,
    "fq": {
        "limit": take("limit", _PACKETS),
        "flow_limit": take("flow_limit", _PACKETS),
        "quantum": take("quantum", spell_size),
        "initial_quantum": take("initial_quantum", spell_size),
        "refill_delay": take("refill_delay", spell_time),
        "ce_threshold": take("ce_threshold", spell_time),
        "maxrate": refuse("a rate of the hop, or hosts.pacing", str),
        "defrate": leave("Linux ignores it", str),
        **dict.fromkeys(("pacing", "nopacing"), leave(_PACED)),
        **dict.fromkeys(
            ("buckets", "orphan_mask", "low_rate_threshold", "timer_slack", "horizon", "priomap", "weights"),
            leave(_PACED, str),
        ),
        **dict.fromkeys(("horizon_drop", "horizon_cap"), leave(_PACED)),
    },
    "fq_codel": {
        **_CODEL,
        "flows": take("flows", _COUNT),
        "quantum": take("quantum", spell_size),
        "memory_limit": take("memory_limit", spell_size),
        "drop_batch": take("drop_batch", _COUNT),
        "ce_threshold_selector": take("ce_threshold_selector", _parse_selector),
    },
    "pie": _PIE,
    "fq_pie": {
        **_PIE,
        "flows": take("flows", _COUNT),
        "quantum": take("quantum", spell_size),
        "ecn_prob": take("ecn_prob", _COUNT),
        "memory_limit": leave("Linux counts what exceeds it, and drops nothing for it", spell_size),
    },
    "dualpi2": {
        "limit": take("limit", _PACKETS),
        "memlimit": take("memlimit", spell_size),
        "coupling_factor": take("coupling_factor", _COUNT),
        "step_thresh": Option("step_thresh", _parse_step),
        "min_qlen_step": take("min_qlen_step", _PACKETS),
        **make_flags("overload", {"drop_on_overload": "drop", "overflow": "overflow"}),
        **make_flags("drop", {"drop_dequeue": "dequeue", "drop_enqueue": "enqueue"}),
        **make_flags("ecn_mask", {"l4s_ect": "l4s_ect", "any_ect": "any_ect"}),
        "classic_protection": take("classic_protection", _parse_percent),
        "max_rtt": take("max_rtt", spell_time),
        "typical_rtt": take("typical_rtt", spell_time),
        "target": take("target", spell_time),
        "tupdate": take("tupdate", spell_time),
        "alpha": take("alpha", _NUMBER),
        "beta": take("beta", _NUMBER),
        **dict.fromkeys(("split_gso", "no_split_gso"), leave(_GSO)),
    },
}


# Cake, whose words of the link become keys of the hop


@dataclass
class _Layer:
    """Overhead, least length and framing as tc adds them up from the words of Cake."""

    overhead: int | None = None
    mpu: int = 0
    framing: str | None = None
    presets: list[str] = field(default_factory=list)
    is_plain: bool = True
    """Whether only names of links were given, and no numbers."""
    is_raw: bool = False
    """Whether the overhead counts from the frame of the device."""


# names of links: bytes that they add, framing, least length
_LINKS: dict[str, tuple[int, str | None, int]] = {
    "ipoa-vcmux": (8, "atm", 0),
    "ipoa-llcsnap": (16, "atm", 0),
    "bridged-vcmux": (24, "atm", 0),
    "bridged-llcsnap": (32, "atm", 0),
    "pppoa-vcmux": (10, "atm", 0),
    "pppoa-llc": (14, "atm", 0),
    "pppoe-vcmux": (32, "atm", 0),
    "pppoe-llcsnap": (40, "atm", 0),
    "pppoe-ptm": (30, "ptm", 0),
    "bridged-ptm": (22, "ptm", 0),
    "ethernet": (38, None, 84),
    "ether-vlan": (4, None, 0),
    "docsis": (18, "none", 64),
}
_FRAMINGS = {"noatm": "none", "atm": "atm", "ptm": "ptm"}
_OF_LAYER = ("raw", "conservative", *_LINKS, *_FRAMINGS, "overhead", "mpu")
_NEVER = ("100s", "1000s")  # target and interval of CoDel as a step: plan.py and qdiscs.py of engines/linux
_MOST_OVERHEAD = 256  # of tc-cake(8)


def _parse_overhead(word: Word) -> int:
    """Return an overhead, which may be negative."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4}", word):
        raise place_error(WrongValue(quote_value(str(word)), "bytes, such as 38 or -4"), word)
    return int(word)


_CAKE: Table = {
    "bandwidth": take("bandwidth", lambda word: "0bit" if word == "unlimited" else spell_rate(word)),
    "unlimited": Option("bandwidth", value="0bit"),
    "autorate-ingress": refuse(
        "a fixed bandwidth: Cake does not estimate the rate of its link here; rate_changes change it"
    ),
    "rtt": take("rtt", spell_time),
    **make_flags("rtt", CAKE_RTTS | {"interplanetary": "1000s"}),
    **make_flags("diffserv", {one: one for one in TINS} | {"diffserv": "diffserv4"}),
    **make_flags("isolation", {one: one for one in (*ISOLATIONS, "hosts", "flows")}),
    "nat": leave(_HOSTS),
    "nonat": leave(_HOSTS),
    "wash": leave(_DSCPS),
    "nowash": leave(_DSCPS),
    "split-gso": leave(_GSO),
    "no-split-gso": leave(_GSO),
    "fwmark": leave("no packet here has a mark of a firewall", str),
    "via-ethernet": leave("tc ignores it, too"),
    **make_flags("ingress", {"ingress": True, "egress": False}),
    **make_flags("ack_filter", {"ack-filter": "on", "ack-filter-aggressive": "aggressive", "no-ack-filter": "off"}),
    "memlimit": take("memlimit", spell_size),
    **make_flags("sce", {"sce": "on", "sce-single": "single", "no-sce": "off"}),
    "sce-thresh": Option("sce", lambda word: {"sce": "thresh", "sce_thresh": _COUNT(word)}),
    **{one: Option(one) for one in _OF_LAYER},
    "overhead": take("overhead", _parse_overhead),
    "mpu": take("mpu", _COUNT),
}

KINDS = (*QUEUES, "cake")


def read_queue(kind: Word, words: Sequence[Word], header: int = 14) -> Queue:
    """Return the queue that a line describes; raises InputError for what it cannot be here.

    `header` is the bytes in front of the IP packet that frames of the device have.
    """
    if kind == "codel" and (step := _read_step(kind, words)):
        return step
    queue = Queue(str(kind), {"name": Value(str(kind), f"qdisc {kind}")})
    layer = _Layer()
    layer_texts: list[str] = []
    for given in read_options(kind, words, _CAKE if kind == "cake" else QUEUES[kind], kind):
        option, word, value = given.option, given.word, given.value
        if option.why_left:
            queue.left[given.text] = option.why_left
        elif kind == "cake" and word in _OF_LAYER:
            _add_layer(layer, word, value, given.argument)
            layer_texts.append(given.text)
        elif kind == "cake" and option.key == "bandwidth":
            queue.rate, queue.rate_word = Value(value, f"{kind} {given.text}"), word
        elif value == 0 and type(value) is int and option.key in NOT_ZERO.get(kind, ()):
            queue.left[given.text] = "tc takes 0 for not given"
        else:
            values = value if isinstance(value, dict) else {option.key: value}
            for key, one in values.items():
                _check_value(kind, key, one, given.argument or word)
                queue.keys[key] = Value(one, f"{kind} {given.text}")
    if kind == "red":
        for key in ("limit", "avpkt"):
            if key not in queue.keys:
                raise place_error(Missing(f"{key} of red, for which tc has no default", key=f"red {key}"), kind)
    if layer_texts:
        if layer.is_raw:
            layer.overhead = layer.overhead + header if layer.overhead else None
        queue.layer = _describe_layer(layer, f"cake {' '.join(layer_texts)}", kind)
    return queue


def _read_step(kind: Word, words: Sequence[Word]) -> Queue | None:
    """Return the step that CoDel is if its own target is never reached: what `--show-commands` prints for step."""
    texts = {str(word): after for word, after in itertools.pairwise(words)}
    if (str(texts.get("target")), str(texts.get("interval"))) != _NEVER or "ce_threshold" not in texts:
        return None
    kept = [word for word in words if word not in ("target", "interval", *_NEVER, "ecn")]
    queue = Queue("step", {"name": Value("step", f"{kind} with a target that is never reached")})
    for given in read_options(kind, kept, _CODEL, kind):
        key = "threshold" if given.option.key == "ce_threshold" else given.option.key
        _check_value("step", key, given.value, given.argument or given.word)
        queue.keys[key] = Value(given.value, f"{kind} {given.text}")
    return queue


def _check_value(kind: str, key: str, value: Any, word: Word) -> None:
    """Raise InputError, at its word, for a value that the key does not take."""
    try:
        spelling.parse_value(read_registry().aqm[kind].params[key], value)
    except InputError as error:
        raise place_error(error.move("", f"{kind} {key}"), word) from None


def _add_layer(layer: _Layer, word: Word, value: Any, argument: Word | None) -> None:
    """Add a word of the link as tc does: names add their overhead, a number replaces it."""
    if word in _LINKS:
        overhead, framing, mpu = _LINKS[word]
        layer.overhead = (layer.overhead or 0) + overhead
        layer.framing, layer.mpu = framing or layer.framing, mpu or layer.mpu
        layer.presets.append(str(word))
        return
    layer.is_plain = layer.is_plain and word == "conservative"
    if word == "conservative":
        layer.overhead, layer.framing = 48, "atm"
        layer.presets.append("conservative")
    elif word == "raw":
        layer.overhead, layer.framing, layer.is_raw = 0, "none", True
    elif word in _FRAMINGS:
        layer.framing = _FRAMINGS[word]
    elif word == "overhead":
        if not 0 <= value <= _MOST_OVERHEAD:
            allowed = f"0 to {_MOST_OVERHEAD}: no frame is counted as shorter than its IP packet here"
            raise place_error(WrongValue(f"{value} bytes", allowed, key="cake overhead"), argument or word)
        layer.overhead = value
    else:
        if value > _MOST_OVERHEAD:
            error = WrongValue(f"{value} bytes", f"0 to {_MOST_OVERHEAD}", key="cake mpu")
            raise place_error(error, argument or word)
        layer.mpu = value


def _describe_layer(layer: _Layer, source: str, kind: Word) -> dict[str, Value]:
    """Return the keys of the hop."""
    name = "ethernet-vlan" if layer.presets == ["ethernet", "ether-vlan"] else "".join(layer.presets[:1])
    if layer.is_plain and name != "ether-vlan" and len(layer.presets) == 1 + (name == "ethernet-vlan"):
        return {"link_layer": Value(name, source)}
    keys: dict[str, Value] = {}
    if layer.overhead is not None:
        if layer.overhead > _MOST_OVERHEAD:
            error = WrongValue(f"{layer.overhead} bytes", f"at most {_MOST_OVERHEAD}", key="cake overhead")
            raise place_error(error, kind)
        keys["overhead"] = Value(f"{layer.overhead}B", source)
    if layer.mpu:
        keys["mpu"] = Value(f"{layer.mpu}B", source)
    if layer.framing not in (None, "none"):
        keys["framing"] = Value(layer.framing, source)
    return keys
