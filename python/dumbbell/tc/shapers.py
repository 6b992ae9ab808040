"""HTB and TBF of tc(8): the rate and the bucket by which packets leave."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dumbbell.errors import InputError, Missing, Unfit, UnknownName, Unsupported, WrongValue, quote_value
from dumbbell.experiment import units
from dumbbell.tc import quantities
from dumbbell.tc.devices import Device, HtbClass, Place, QdiscNode
from dumbbell.tc.lexer import Word, place_error
from dumbbell.tc.options import ENGINE, GivenWord, Option, Table, Value, leave, read_options, refuse, take

ETHERNET = 14  # bytes of the header, which tc counts and `overhead` of a file replaces
LEAST_BURST, MOST_BURST = 1514, 100_000_000  # bytes of a hop's `burst`
_MTU = 1600  # bytes, of HTB by default: tc-htb(8), burst
_NS = 1e9  # tc computes the default burst for a clock of 1 ns, /proc/net/psched


def _parse_overhead(word: Word) -> int:
    """Return an overhead in bytes, which may be negative."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4}", word):
        raise place_error(WrongValue(quote_value(str(word)), "bytes, such as 38 or -4"), word)
    return int(word)


def _parse_linklayer(word: Word) -> str:
    known = {"ethernet": "none", "atm": "atm", "adsl": "atm"}
    if word not in known:
        raise place_error(UnknownName(quote_value(str(word)), among=list(known), what="linklayer"), word)
    return known[word]


_LAYER: dict[str, Option] = {
    "overhead": take("overhead", _parse_overhead),
    "mpu": take("mpu", quantities.parse_size),
    "linklayer": take("framing", _parse_linklayer),
}
_ALONE = "no other class shares the link"
_CLASS: Table = {
    "rate": take("rate", quantities.parse_rate),
    "ceil": take("ceil", quantities.parse_rate),
    **dict.fromkeys(("burst", "buffer", "maxburst"), take("burst", quantities.parse_size)),
    **dict.fromkeys(("cburst", "cbuffer", "cmaxburst"), take("cburst", quantities.parse_size)),
    "mtu": take("mtu", quantities.parse_size),
    "prio": Option("prio", quantities.parse_count, why_left=_ALONE),
    "quantum": Option("quantum", quantities.parse_size, why_left=_ALONE),
    "leaf": Option(read=str),
    "level": Option(read=str),
    **_LAYER,
}
_HTB: Table = {
    "default": Option("default", str),
    "r2q": leave(_ALONE, quantities.parse_count),
    "direct_qlen": leave("all traffic is in the class", quantities.parse_count),
    "direct_packets_stat": Option(read=str),
    "ver": Option(read=str),
    "offload": leave("a card does here what the kernel does"),
}
_TBF: Table = {
    "rate": take("rate", quantities.parse_rate),
    **dict.fromkeys(("burst", "buffer", "maxburst"), take("burst", quantities.parse_size)),
    "limit": take("limit", quantities.parse_size),
    **dict.fromkeys(("latency", "lat"), take("latency", quantities.parse_time)),
    "peakrate": refuse("rate and burst alone", quantities.parse_rate),
    **dict.fromkeys(("mtu", "minburst"), leave("it belongs to peakrate", quantities.parse_size)),
    **_LAYER,
}
_STAB: Table = {
    **_LAYER,
    "mtu": leave("no frame here is longer than the table", quantities.parse_size),
    "tsize": leave("bytes are counted one by one, without a table", quantities.parse_count),
}


@dataclass
class Shaper:
    """A rate and a bucket."""

    rate: int
    burst: int
    rate_source: str
    burst_source: str
    layer: dict[str, Value] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    limit: Value | None = None
    """Of TBF's own queue, bytes."""


def read_layer(given: Sequence[GivenWord], of: str, header: int) -> dict[str, Value]:
    """Return the keys of a hop for words that count from the frame of the device, with `header` bytes."""
    layer: dict[str, Value] = {}
    words = {one.option.key: one for one in given if one.option.key in ("overhead", "mpu", "framing")}
    if overhead := words.get("overhead"):
        total = overhead.value + header
        if not 0 <= total <= 256:
            allowed = f"{-header} to {256 - header}: no frame is counted as shorter than its IP packet here"
            error = WrongValue(f"{overhead.value} bytes", allowed, key=f"{of} overhead")
            raise place_error(error, overhead.argument or overhead.word)
        if overhead.value or not header:
            counts = f", which counts from the frame: {header} less" if header else ""
            layer["overhead"] = Value(f"{total}B", f"{of} {overhead.text}{counts}")
    if (mpu := words.get("mpu")) and mpu.value:
        if mpu.value > 256:
            error = WrongValue(f"{mpu.value} bytes", "at most 256", key=f"{of} mpu")
            raise place_error(error, mpu.argument or mpu.word)
        layer["mpu"] = Value(f"{mpu.value}B", f"{of} {mpu.text}")
    if (framing := words.get("framing")) and framing.value != "none":
        layer["framing"] = Value(framing.value, f"{of} {framing.text}")
    return layer


def read_stab(qdisc: QdiscNode, header: int) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the keys of a hop for `stab`, and what was left out of it."""
    if qdisc.stab_word is None:
        return {}, {}
    given = list(read_options("stab", qdisc.stab, _STAB, qdisc.stab_word))
    left = {f"stab {one.text}": one.option.why_left for one in given if one.option.why_left}
    return read_layer(given, "stab", header), left


# TBF


def read_tbf(qdisc: QdiscNode, header: int, full_frame: int) -> Shaper:
    """Return the bucket of a TBF; raises InputError for one that lets no full frame through.

    TBF sends a frame once its tokens pay for it, and HTB once it has no debt. With full frames the bucket of TBF is
    that of HTB with one frame less.
    """
    given = list(read_options("tbf", qdisc.options, _TBF, qdisc.kind))
    values = {one.option.key: one for one in given if one.option.key}
    for key in ("rate", "burst"):
        if key not in values:
            raise place_error(Missing(f"{key} of tbf", key=f"tbf {key}"), qdisc.kind)
    rate, burst = values["rate"], values["burst"]
    _check_rate(rate)
    if burst.value < full_frame:
        found = (
            f"tbf drops each frame that is longer than its burst, and a full frame takes {full_frame} B on this link"
        )
        allowed = f"a burst of {full_frame} or more"
        raise place_error(Unfit(found, allowed, key=f"tbf {burst.text}"), burst.argument or burst.word)
    shaper = Shaper(rate.value, burst.value - full_frame, f"tbf {rate.text}", "")
    shaper.burst_source = f"tbf {burst.text}, less the {full_frame} B of the frame that TBF waits for and HTB lends"
    if shaper.burst < LEAST_BURST:
        shaper.burst = LEAST_BURST
        shaper.burst_source = f"tbf {burst.text}; {LEAST_BURST} B is the least of a hop"
        shaper.notes.append(
            f"tbf {burst.text}: after an idle time a second full frame may follow the first at once, because"
            f" {LEAST_BURST} B is the least burst here"
        )
    shaper.layer = read_layer(given, "tbf", header)
    shaper.left = {f"tbf {one.text}": one.option.why_left for one in given if one.option.why_left}
    if latency := values.get("latency"):
        limit = rate.value // 8 * latency.value // 10**9 + burst.value
        shaper.limit = Value(f"{limit}B", f"tbf {latency.text}: rate times latency, and the burst")
    elif limit := values.get("limit"):
        shaper.limit = Value(f"{limit.value}B", f"tbf {limit.text}")
    else:
        raise place_error(Missing("limit or latency of tbf", key="tbf limit"), qdisc.kind)
    return shaper


def _check_rate(rate: GivenWord) -> None:
    if not 1000 <= rate.value <= 10**13:
        error = WrongValue(units.show("rate", rate.value), "a rate from 1kbit to 10tbit", key=f"{rate.word}")
        raise place_error(error, rate.argument or rate.word)


# HTB


@dataclass(frozen=True)
class _Bucket:
    """A rate that limits, with the bucket that belongs to it."""

    rate: int
    burst: int
    rate_source: str
    burst_source: str


def choose_class(qdisc: QdiscNode, device: Device, wanted: str | None) -> HtbClass:
    """Return the class in which all traffic is: the only one, or the wanted one; raises InputError if there is none."""
    major = (qdisc.handle or (0, 0))[0]
    classes = {place: one for place, one in device.classes.items() if place[0] == major}
    if not classes:
        found = "htb without a class shapes nothing"
        raise place_error(Unfit(found, "tc class add … htb rate … as well", key=device.name), qdisc.kind)
    parents = {one.parent for one in classes.values()}
    leaves = {format_place(place): one for place, one in classes.items() if place not in parents}
    if not leaves:
        found = f"each class of {device.name} is below another one"
        raise place_error(Unfit(found, "a class whose parent is htb itself"), qdisc.kind)
    if wanted is not None:
        if wanted not in leaves:
            raise UnknownName(wanted, among=list(leaves), what="class", option="--class")
        return leaves[wanted]
    return next(iter(leaves.values()))


def format_place(place: Place) -> str:
    """Return a handle or class as tc prints it."""
    return f"{place[0]:x}:{place[1]:x}" if place[1] else f"{place[0]:x}:"


def find_default(qdisc: QdiscNode, major: int) -> str:
    """Return the class that has what no filter leads elsewhere; empty without one."""
    for one in read_options("htb", qdisc.options, _HTB, qdisc.kind):
        if one.option.key == "default":
            try:
                return format_place((major, int(one.value, 16)))
            except ValueError:
                error = WrongValue(quote_value(str(one.value)), "the number of a class, such as 10", key="htb default")
                raise place_error(error, one.argument or one.word) from None
    return ""


@dataclass(frozen=True)
class ClassWords:
    """The options of a class, with the text of each value."""

    rate: int
    ceil: int
    prio: int
    quantum: int
    burst: int
    rate_text: str
    ceil_text: str
    burst_text: str
    layer: dict[str, Value]


def read_class(one: HtbClass, header: int) -> ClassWords:
    """Return the values of a class; raises InputError for wrong ones."""
    name = f"class {format_place(one.place)}"
    given = list(read_options("htb", one.options, _CLASS, one.word))
    values = {given_one.option.key: given_one for given_one in given if given_one.option.key}
    if "rate" not in values:
        raise place_error(Missing("rate of the class", key=f"{name} rate"), one.word)
    for key in ("rate", "ceil"):
        if key in values:
            _check_rate(values[key])

    def take_value(key: str, default: int) -> int:
        return int(values[key].value) if key in values else default

    rate = take_value("rate", 0)
    burst = max(
        (values[key] for key in ("burst", "cburst") if key in values), key=lambda word: word.value, default=None
    )
    return ClassWords(
        rate,
        take_value("ceil", rate),
        take_value("prio", 0),
        take_value("quantum", 0),
        burst.value if burst else 0,
        values["rate"].text,
        values["ceil"].text if "ceil" in values else "",
        burst.text if burst else "",
        read_layer(given, name, header),
    )


def read_htb(qdisc: QdiscNode, device: Device, leaf: HtbClass, header: int) -> Shaper:
    """Return the bucket of HTB for a class whose siblings are idle: its ceiling, or less if no class lends it more."""
    major = leaf.place[0]
    chain, at = [leaf], leaf
    while at.parent != (major, 0):
        parent = device.classes.get(at.parent)
        if parent is None or parent in chain:
            found = f"no line has the class {format_place(at.parent)}, from which {format_place(at.place)} borrows"
            raise place_error(Unfit(found, "its line, too", key=f"class {format_place(at.place)}"), at.word)
        chain.append(parent)
        at = parent
    bucket: _Bucket | None = None
    layer: dict[str, Value] = {}
    left: dict[str, str] = {}
    notes: list[str] = []
    for one in reversed(chain):
        name = f"class {format_place(one.place)}"
        given = list(read_options("htb", one.options, _CLASS, one.word))
        values = {given_one.option.key: given_one for given_one in given if given_one.option.key}
        bucket = _combine_buckets(name, one, values, bucket, notes)
        layer = read_layer(given, name, header)
        left |= {f"htb {given_one.text}": given_one.option.why_left for given_one in given if given_one.option.why_left}
    assert bucket is not None
    for option in read_options("htb", qdisc.options, _HTB, qdisc.kind):
        if option.option.why_left:
            left[f"htb {option.text}"] = option.option.why_left
    default = find_default(qdisc, major)
    if not (qdisc.is_implied or device.filters or default == format_place(leaf.place)):
        notes.append(
            f"neither a filter nor default leads to the class {format_place(leaf.place)}, and HTB sends such traffic"
            " unshaped; here all traffic is in the class"
        )
    others = len(device.classes) - len(chain)
    if others:
        notes.append(f"the {others} other class{'es' * (others > 1)} of {device.name} are idle here")
    shaper = Shaper(bucket.rate, bucket.burst, bucket.rate_source, bucket.burst_source, layer, left, notes)
    if shaper.burst < LEAST_BURST:
        shaper.notes.append(f"{shaper.burst_source}: raised to {LEAST_BURST} B, the least burst here")
        shaper.burst = LEAST_BURST
    shaper.burst = min(shaper.burst, MOST_BURST)
    return shaper


def _combine_buckets(
    name: str, one: HtbClass, values: dict[str, GivenWord], above: _Bucket | None, notes: list[str]
) -> _Bucket:
    """Return what limits a class: its ceiling, or what it has and may borrow from `above`."""
    if "rate" not in values:
        raise place_error(Missing("rate of the class", key=f"{name} rate"), one.word)
    for key in ("rate", "ceil"):
        if key in values:
            _check_rate(values[key])
    rate, mtu = values["rate"].value, values["mtu"].value if "mtu" in values else _MTU
    ceil = values["ceil"].value if "ceil" in values else rate
    own = _make_bucket(name, values, ("rate", "burst"), rate, mtu)
    most = _make_bucket(name, values, ("ceil" if "ceil" in values else "rate", "cburst"), ceil, mtu)
    lent = own
    if above is not None and above.rate >= own.rate:
        lent = above if above.rate > own.rate or above.burst < own.burst else own
    elif above is None and ceil > rate:
        notes.append(
            f"{name}: there is no class above from which it could borrow, so that its rate limits it; ceil"
            f" {units.show('rate', ceil)} only limits how fast its burst leaves, which is at once here"
        )
    if most.rate < lent.rate or (most.rate == lent.rate and most.burst < lent.burst):
        return most
    return lent


def _make_bucket(name: str, values: dict[str, GivenWord], keys: tuple[str, str], rate: int, mtu: int) -> _Bucket:
    of_rate, of_burst = keys
    burst = values.get(of_burst)
    size = burst.value if burst and burst.value else int(rate / 8 / _NS) + mtu
    default = f"{name}: tc's default {of_burst}, {mtu} B and what the rate carries in a tick"
    source = f"{name} {burst.text}" if burst else default
    return _Bucket(rate, size, f"{name} {values[of_rate].text}", source)


def refuse_second(place: str, qdisc: QdiscNode) -> InputError:
    """Return the error for a shaper below another one."""
    found = f"{qdisc.kind} below {place}, two shapers of which one pulls the other,"
    return place_error(Unsupported(found, "the slower of both", where=ENGINE), qdisc.kind)
