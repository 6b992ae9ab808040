"""/etc/config/sqm of OpenWrt as the commands of tc(8) that sqm-scripts give for it.

The scripts are those of sqm-scripts: piece_of_cake, layer_cake, simplest, simplest_tbf and simple, with their defaults.
Only what reaches tc is made; rules of a firewall are not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dumbbell.errors import Ambiguous, InputError, Nothing, UnknownName, WrongValue, quote_value
from dumbbell.tc.lexer import Source, Word, place_error, split_commands

_QUEUE = "queue"
_LIMIT = 1001  # packets; LIMIT
_BURST_US = 1000  # SHAPER_BURST_DUR_US
_MOST_OVERHEAD = 48  # bytes for each packet that get_burst reckons with
_CELLS_US = 33 * 53 * 8 * 1000  # of the longest packet, at 1 kbit/s; adapt_target_to_slow_link
_LEAST_TARGET_US = 5_000
_SCRIPTS = ("piece_of_cake.qos", "layer_cake.qos", "simplest.qos", "simplest_tbf.qos", "simple.qos")
_MTU, _MTU_PPP = 1500, 1492


@dataclass
class _UciSection:
    """A section of UCI: its words, each with its place."""

    word: Word
    options: dict[str, Word] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """Return an option; its default if it is missing or empty."""
        return str(self.options.get(name) or default)

    def get_number(self, name: str, default: int = 0) -> int:
        """Return an option that is a whole number; raises InputError."""
        word = self.options.get(name)
        if not word:
            return default
        if not re.fullmatch(r"-?[0-9]{1,9}", word):
            raise place_error(WrongValue(quote_value(str(word)), "a whole number", key=name), word)
        return int(word)


def is_sqm(text: str) -> bool:
    """Whether text is a configuration of SQM."""
    return re.search(r"(?m)^\s*config\s+queue\b", text) is not None


def convert_sqm(source: Source, left: dict[str, str]) -> Source:
    """Return the commands for the first section that is enabled, or for the first; notes what else there is."""
    sections = list(_read_sections(source))
    enabled = [one for one in sections if one.get("enabled", "0") == "1"]
    if not sections:
        raise Nothing("it has no section config queue", "a configuration of SQM", file=source.name)
    if len(enabled) > 1:
        names = ", ".join(one.get("interface", "?") for one in enabled)
        error: InputError = Ambiguous(f"it has {len(enabled)} queues that are enabled ({names})", "one, in the file")
        raise place_error(error, enabled[1].word)
    section = enabled[0] if enabled else sections[0]
    if not enabled:
        left["enabled 0 of SQM"] = "the queue is taken as if it were enabled"
    lines = tuple(_make_commands(section, left))
    return Source(f"{source.name} as tc", lines)


def _read_sections(source: Source) -> Iterator[_UciSection]:
    section: _UciSection | None = None
    for words in split_commands(source):
        if words[0] == "config":
            if section is not None:
                yield section
            section = _UciSection(words[0]) if len(words) > 1 and words[1] == _QUEUE else None
        elif words[0] == "option" and len(words) > 1 and section is not None:
            value = words[2] if len(words) == 3 else words[-1].replace_text(" ".join(words[2:]))
            section.options[str(words[1])] = value
    if section is not None:
        yield section


@dataclass(frozen=True)
class _ShapedWay:
    """One direction: the device that shapes, and the letters of its options."""

    device: str
    rate: int
    letter: str
    """"e" of options for what leaves, "i" for what enters."""
    name: str


def _make_commands(section: _UciSection, left: dict[str, str]) -> Iterator[str]:
    interface = section.get("interface", "eth0")
    script = section.get("script", "simple.qos")
    if script not in _SCRIPTS:
        word = section.options["script"]
        raise place_error(UnknownName(quote_value(script), among=_SCRIPTS, what="script of SQM"), word)
    down, up = section.get_number("download"), section.get_number("upload")
    for key, value in (("download", down), ("upload", up)):
        if value < 0:
            word = section.options[key]
            raise place_error(WrongValue(quote_value(str(word)), "kbit/s, or 0 for no shaper", key=key), word)
        if not value:
            left[f"{key} 0 of SQM"] = "SQM does not shape this direction"
    for key in ("ingress_ecn", "egress_ecn"):
        if section.get(key) and script.startswith(("piece", "layer")):
            left[f"{key} of SQM"] = "Cake always marks"
    if script == "simple.qos":
        left["rules of the firewall of simple.qos"] = "filters lead to classes by marks that no packet here has"
    if up:
        yield from _make_way(section, script, _ShapedWay(interface, up, "e", "egress"))
    if down:
        ifb = f"ifb4{interface}"
        yield f"tc qdisc add dev {interface} handle ffff: ingress"
        yield from _make_way(section, script, _ShapedWay(ifb, down, "i", "ingress"))
        yield (
            f"tc filter add dev {interface} parent ffff: protocol all prio 10 u32 match u32 0 0 flowid 1:1"
            f" action mirred egress redirect dev {ifb}"
        )


def _make_way(section: _UciSection, script: str, way: _ShapedWay) -> Iterator[str]:
    is_cake_script = script in ("piece_of_cake.qos", "layer_cake.qos")
    qdisc = "cake" if is_cake_script else section.get("qdisc", "fq_codel")
    options = section.get(f"{way.letter}qdisc_opts")
    stab = _make_stab(section, qdisc)
    add = f"tc qdisc add dev {way.device}"
    if qdisc == "cake" and script != "simplest_tbf.qos":
        words = _list_cake_words(section, script, way)
        yield " ".join(f"{add} root {stab} cake bandwidth {way.rate}kbit {words} {options}".split())
        return
    if qdisc == "cake":
        qdisc = "fq_codel"  # with which that script replaces it
    leaf = f"{qdisc} {_list_queue_words(section, qdisc, way)} {options}".strip()
    burst = _compute_burst(section, way.rate)
    if script == "simplest_tbf.qos":
        yield " ".join(f"{add} root handle 1: {stab} tbf rate {way.rate}kbit burst {burst} latency 300ms".split())
        yield f"{add} parent 1: handle 110: {leaf}"
        return
    default = 12 if script == "simple.qos" else 10
    yield " ".join(f"{add} root handle 1: {stab} htb default {default}".split())
    private = _make_private_layer(section)
    add_class = f"tc class add dev {way.device}"
    bucket = f"quantum {burst} burst {burst} cburst {burst}"

    def make_class(parent: str, name: int, rate: int, ceil: int, more: str) -> str:
        words = f"{add_class} parent {parent} classid 1:{name} htb rate {rate}kbit ceil {ceil}kbit {more} {private}"
        return " ".join(words.split())

    yield make_class("1:", 1, way.rate, way.rate, bucket)
    if script == "simplest.qos":
        yield make_class("1:1", 10, way.rate, way.rate, f"{bucket} prio 0")
        yield f"{add} parent 1:10 handle 110: {leaf}"
        return
    third, sixth, ceil = way.rate // 3, way.rate // 6, way.rate - 16
    yield make_class("1:1", 11, 128, third, f"quantum {burst} prio 1")
    yield make_class("1:1", 12, sixth, ceil, f"{bucket} prio 2")
    yield make_class("1:1", 13, sixth, ceil, f"{bucket} prio 3")
    flow_queues = " quantum 300" if qdisc in ("fq_codel", "fq_pie") else ""
    for name in (11, 12, 13):
        yield f"{add} parent 1:{name} handle {name}0: {qdisc}{flow_queues}{leaf.removeprefix(qdisc)}"


def _list_cake_words(section: _UciSection, script: str, way: _ShapedWay) -> str:
    words = []
    if script == "layer_cake.qos":
        words.append("diffserv3 nat")
        if way.letter == "i" and section.get("squash_ingress", "1") == "1":
            words.append("besteffort")
    elif script == "piece_of_cake.qos":
        words.append("diffserv3 nat besteffort")
    elif script == "simplest.qos":
        words.append("besteffort")
    if way.letter == "i" and script in ("layer_cake.qos", "piece_of_cake.qos"):
        words += ["wash"] * (section.get("squash_dscp", "1") == "1")
    if _choose_mechanism(section, "cake") == "cake":
        layer = section.get("linklayer", "none")
        if layer != "none":
            words += ["atm"] if layer == "atm" else []
            words.append(f"overhead {section.get_number('overhead')} mpu {section.get_number('tcMPU')}")
    return " ".join(words)


def _choose_mechanism(section: _UciSection, qdisc: str) -> str:
    """Return what accounts for the link: stab, HTB by itself, or Cake."""
    given = section.get("linklayer_adaptation_mechanism", "default")
    if given == "default":
        return "cake" if qdisc == "cake" else "tc_stab"
    return given


def _make_stab(section: _UciSection, qdisc: str) -> str:
    layer = section.get("linklayer", "none")
    if layer == "none" or _choose_mechanism(section, qdisc) != "tc_stab":
        return ""
    mtu, tsize = section.get_number("tcMTU", 2047), section.get_number("tcTSIZE", 512)
    return (
        f"stab mtu {mtu} tsize {tsize} mpu {section.get_number('tcMPU')} overhead {section.get_number('overhead')}"
        f" linklayer {layer}"
    )


def _make_private_layer(section: _UciSection) -> str:
    layer = section.get("linklayer", "none")
    if layer == "none" or section.get("linklayer_adaptation_mechanism") != "htb_private":
        return ""
    mtu = section.get_number("tcMTU", 2047)
    return f"mpu {section.get_number('tcMPU')} linklayer {layer} overhead {section.get_number('overhead')} mtu {mtu}"


def _compute_burst(section: _UciSection, rate: int) -> int:
    """Return the bytes of a burst: what the rate (kbit/s) carries in a millisecond, and at least a packet in cells."""
    mtu = _MTU_PPP if section.get("interface").startswith("ppp") else _MTU
    least = (mtu + _MOST_OVERHEAD + 47) // 48 * 53
    return max(_BURST_US * rate // 8000, least)


def _list_queue_words(section: _UciSection, qdisc: str, way: _ShapedWay) -> str:
    words = []
    limit = section.get(f"{way.letter}limit")
    if limit or qdisc != "bfifo":
        words.append(f"limit {limit or _LIMIT}")
    if qdisc.endswith(("codel", "pie")):
        words += _list_target(section, qdisc, way)
        if ecn := section.get(f"{way.name}_ecn", "ECN"):
            words.append({"ECN": "ecn", "NOECN": "noecn"}.get(ecn, ""))
    if qdisc.startswith("fq_"):
        words.append("flows 1024")
    return " ".join(filter(None, words))


def _list_target(section: _UciSection, qdisc: str, way: _ShapedWay) -> Iterator[str]:
    """Yield the words for the target: as given, or longer than 5 ms if a packet takes that long."""
    given = section.get(f"{way.letter}target", "auto")
    if given.lower() == "default":
        return
    if given.lower() != "auto":
        yield f"target {given}"
        return
    target = max(_CELLS_US // max(1, way.rate), _LEAST_TARGET_US)
    yield f"target {target}us"
    if qdisc.endswith("codel"):
        yield f"interval {95_000 + target}us"
