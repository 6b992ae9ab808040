"""Queue disciplines of experiment files as lines of tc(8), by the names and units of tc-codel(8) and the others."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from dumbbell.engines.linux.keys import list_changed, refuse_rest
from dumbbell.errors import Unsupported, WrongValue, spell_option
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.shaping import shapes_within_link


@dataclass(frozen=True)
class Qdisc:
    """A queue discipline as tc takes it, and what a capture on both sides of it has to be told."""

    kind: str
    """Its name in Linux."""
    options: str
    signals_on_arrival: bool
    """It drops and marks what arrives, not what leaves."""
    flow_queues: bool = False
    """Packets of different flows may overtake each other."""
    full: Literal["at drops", "at limit", "as counted"] = "as counted"
    """How to tell that it drops because it is full: it drops for nothing else, or what comes while so many packets are
    queued, or it counts such drops, which does not show which packets."""
    shapes: bool = False
    """It has a rate of its own."""
    limits: bool = False
    """What it lets leave is never more than its link carries, so that it needs no link below it."""

    @property
    def text(self) -> str:
        """Return the words after `tc qdisc add dev X parent Y`."""
        return f"{self.kind} {self.options}".rstrip()


# tc sends these only if they are not zero (iproute2, tc/q_codel.c and the others): the kernel would run its default.
# For RED it can compute nothing then.
NOT_ZERO = {
    "step": ("limit",),
    "codel": ("limit", "target"),
    "fq_codel": ("target",),
    "pie": ("limit", "alpha", "beta"),
    "fq_pie": ("alpha", "beta", "ecn_prob"),
    "red": ("probability",),
}
_TICK_NS = 1_000_000  # guests have CONFIG_HZ=1000: changes.py


def _to_microseconds(where: str, nanoseconds: int) -> str:
    """Return a time for tc, which computes in microseconds."""
    if nanoseconds % 1000:
        raise WrongValue(f"{nanoseconds} ns", "whole microseconds: tc has no finer ones", key=where)
    return f"{nanoseconds // 1000}us"


class _QdiscOptions:
    """The options of one discipline, put together from the keys that are `given`: for the others the kernel's count.

    What has no option must be as Linux has it.
    """

    def __init__(self, aqm: dict[str, Any], given: Collection[str], where: str) -> None:
        self.name, self._left, self._words = aqm["name"], dict(aqm), list[str]()
        self.where = where
        self._given = given
        del self._left["name"]

    def require_key(self, key: str) -> Any:
        """Take a key that tc needs, given or not."""
        return self._left.pop(key)

    def take(self, key: str) -> Any:
        """Take a key; None if it is not given, or given as unset."""
        value = self._left.pop(key)
        if key not in self._given:
            return None
        if key in NOT_ZERO.get(self.name, ()) and value == 0:
            found, allowed = "0, which tc takes for not given", f"a larger one, or {spell_option('engine')} sim"
            raise Unsupported(found, allowed, key=f"{self.where}.{key}", where="Linux")
        return value

    def peek(self, key: str) -> Any:
        """Return a key's value, given or not, without taking it."""
        return self._left[key]

    def is_given(self, key: str) -> bool:
        """Whether the experiment sets a key."""
        return key in self._given

    def take_microseconds(self, key: str, nanoseconds: int) -> str:
        """Return the time of a key for tc."""
        return _to_microseconds(f"{self.where}.{key}", nanoseconds)

    def add_numbers(self, *keys: str) -> "_QdiscOptions":
        """Numbers that Linux calls as we do."""
        for key in keys:
            if (value := self.take(key)) is not None:
                self._words += [key, str(value)]
        return self

    def add_time(self, *keys: str) -> "_QdiscOptions":
        for key in keys:
            if (value := self.take(key)) is not None:
                self._words += [key, self.take_microseconds(key, value)]
        return self

    def add_ticks(self, key: str) -> "_QdiscOptions":
        """Take a time that the kernel rounds up to whole ticks."""
        if (value := self.take(key)) is not None:
            if value % _TICK_NS:
                raise WrongValue(f"{value} ns", "whole ms: the kernel counts ticks of 1 ms", key=f"{self.where}.{key}")
            self._words += [key, self.take_microseconds(key, value)]
        return self

    def add_flag(self, *keys: str, off: str = "no") -> "_QdiscOptions":
        for key in keys:
            if (value := self.take(key)) is not None:
                self.add_word(key if value else f"{off}{key}")
        return self

    def add_choice(self, key: str, words: dict[Any, str]) -> "_QdiscOptions":
        """Take a key of which each value is a word of tc, or nothing."""
        return self.add_word(words.get(self.take(key), ""))

    def add_word(self, *words: str) -> "_QdiscOptions":
        self._words += [word for word in words if word]
        return self

    def has(self, *words: str) -> bool:
        """Whether one of these words is there already."""
        return any(word in text.split() for text in self._words for word in words)

    def finish(self, approximated: tuple[str, ...] = ()) -> str:
        """Return the options; raises InputError if a key that is left differs from its default."""
        params = read_registry().aqm[self.name].params
        left = {key: value for key, value in self._left.items() if key not in approximated}
        refuse_rest(self.where, left, params, {})
        return " ".join(self._words)


def _map_fifo(options: _QdiscOptions) -> Qdisc:
    return Qdisc(options.name, options.add_numbers("limit").finish(), True, full="at drops")


def _map_codel(options: _QdiscOptions) -> Qdisc:
    options.add_numbers("limit").add_time("target", "interval").add_flag("ecn").add_time("ce_threshold")
    return Qdisc("codel", options.finish(), False, full="at limit")


def _step(options: _QdiscOptions) -> Qdisc:
    """CoDel with nothing but ce_threshold: its own target is never reached (times of CoDel wrap after 73 minutes)."""
    threshold = options.take_microseconds("threshold", options.require_key("threshold"))
    options.add_numbers("limit").add_word(f"target 100s interval 1000s ecn ce_threshold {threshold}")
    return Qdisc("codel", options.finish(), False, full="at limit")


def _map_fq_codel(options: _QdiscOptions) -> Qdisc:
    options.add_numbers("limit", "flows", "quantum", "memory_limit", "drop_batch").add_time("target", "interval")
    options.add_flag("ecn").add_time("ce_threshold")
    # a mask of the two ECN bits: 0/0 are all packets
    options.add_choice(
        "ce_threshold_selector", {"all": "ce_threshold_selector 0/0", "ect1": "ce_threshold_selector 0x1/0x3"}
    )
    return Qdisc("fq_codel", options.finish(("stale_when_empty",)), False, flow_queues=True)


def _map_pie(options: _QdiscOptions) -> Qdisc:
    options.add_numbers("limit").add_time("target").add_ticks("tupdate").add_numbers("alpha", "beta").add_flag(
        "ecn", "bytemode"
    )
    options.add_flag("dq_rate_estimator", off="no_")
    return Qdisc("pie", options.finish(), True, full="at limit")


def _map_fq_pie(options: _QdiscOptions) -> Qdisc:
    options.add_numbers("limit", "flows", "quantum").add_time("target").add_ticks("tupdate").add_numbers(
        "alpha", "beta", "ecn_prob"
    )
    options.add_flag("ecn", "bytemode").add_flag("dq_rate_estimator", off="no_")
    return Qdisc("fq_pie", options.finish(), True, flow_queues=True, full="at limit")


def _map_red(options: _QdiscOptions) -> Qdisc:
    if options.take("adaptive"):
        # tc (q_red.c) asks for it in TCA_RED_FLAGS; __red_change starts the timer for the flags of tc_red_qopt alone
        found = "true, whose timer is never started,"
        raise Unsupported(
            found, f"false, or {spell_option('engine')} sim", key=f"{options.where}.adaptive", where="Linux"
        )
    # tc makes all of RED's parameters, the kernel has no defaults; these two tc has none for either
    options.add_word(f"limit {options.require_key('limit')}").add_numbers("min", "max")
    options.add_word(f"avpkt {options.require_key('avpkt')}").add_numbers("burst", "probability")
    if (bandwidth := options.take("bandwidth")) is not None:
        options.add_word(f"bandwidth {bandwidth}bit")
    for word in ("ecn", "harddrop", "nodrop"):  # tc has no word for without
        options.add_choice(word, {True: word})
    return Qdisc("red", options.finish(), True)


def _map_dualpi2(options: _QdiscOptions) -> Qdisc:
    options.add_numbers("limit", "memlimit").add_time("target", "tupdate").add_numbers("alpha", "beta").add_time(
        "max_rtt", "typical_rtt"
    )
    options.add_numbers("coupling_factor")
    packets, threshold = options.take("step_packets"), options.take("step_thresh")
    if packets is not None:
        options.add_word(f"step_thresh {packets}packets")
    elif threshold is not None:
        options.add_word(f"step_thresh {options.take_microseconds('step_thresh', threshold)}")
    options.add_numbers("min_qlen_step", "classic_protection")
    options.add_choice("overload", {"drop": "drop_on_overload", "overflow": "overflow"})
    drop, mask = options.peek("drop"), options.peek("ecn_mask")
    options.add_choice("drop", {"dequeue": "drop_dequeue", "enqueue": "drop_enqueue"})
    if mask in ("l4s_ect", "any_ect"):
        options.add_choice("ecn_mask", {mask: mask})
    return Qdisc("dualpi2", options.finish(("ramp_range",)), drop == "enqueue", flow_queues=True, full="at limit")


_FRAMING = {"none": "noatm", "atm": "atm", "ptm": "ptm"}


def _map_cake(options: _QdiscOptions, hop: dict[str, Any]) -> Qdisc:
    rate: int = hop["rate"]
    bandwidth = options.require_key("bandwidth")
    bandwidth = rate if bandwidth is None else bandwidth
    options.add_word(f"bandwidth {bandwidth}bit" if bandwidth else "unlimited")
    options.add_word(options.take("diffserv") or "", options.take("isolation") or "").add_time("rtt")
    # its own overhead, cells and least length come before those of the hop
    layer = hop.get("link_layer", "raw")
    preset = {"raw": "", "ethernet-vlan": "ethernet ether-vlan"}.get(layer, layer)
    options.add_word(*preset.split())
    if options.is_given("overhead"):
        overhead = options.require_key("overhead")
        options.add_word("" if overhead is None and preset else "raw" if overhead is None else f"overhead {overhead}")
    if hop.get("overhead") is not None and not options.has("overhead"):
        options.add_word(f"overhead {hop['overhead']}")
    options.add_choice("framing", _FRAMING).add_numbers("mpu", "memlimit")
    if hop.get("framing") is not None and not options.has(*_FRAMING.values()):
        options.add_word(_FRAMING[hop["framing"]])
    if hop.get("mpu") is not None and not options.has("mpu"):
        options.add_word(f"mpu {hop['mpu']}")
    options.add_choice("ingress", {True: "ingress", False: "egress"})
    filters = {"off": "no-ack-filter", "on": "ack-filter", "aggressive": "ack-filter-aggressive"}
    options.add_choice("ack_filter", filters)
    options.add_word("no-split-gso")  # the simulator's Cake takes bursts as they come
    shapes = bandwidth > 0
    limits = shapes and shapes_within_link(hop)
    return Qdisc("cake", options.finish(("sce_thresh",)), False, flow_queues=True, shapes=shapes, limits=limits)


_MAPPED: dict[str, Callable[[_QdiscOptions], Qdisc]] = {
    "pfifo": _map_fifo,
    "bfifo": _map_fifo,
    "red": _map_red,
    "step": _step,
    "codel": _map_codel,
    "fq_codel": _map_fq_codel,
    "pie": _map_pie,
    "fq_pie": _map_fq_pie,
    "dualpi2": _map_dualpi2,
}


def map_qdisc(hop: dict[str, Any], given: Collection[str], available: tuple[str, ...], place: str) -> Qdisc:
    """Return what Linux has for the queue discipline of a hop; raises InputError if it has none.

    Of its keys those that are `given` become options. `available` are the disciplines of the kernel. `place` is where
    the hop stands in an experiment file.
    """
    name, where = hop["aqm"]["name"], f"{place}.aqm"
    if name not in (*_MAPPED, "cake"):
        raise Unsupported(name, [*_MAPPED, "cake"], key=where, where="Linux")
    options = _QdiscOptions(hop["aqm"], given, where)
    found = _map_cake(options, hop) if name == "cake" else _MAPPED[name](options)
    if found.kind not in available:
        known = [one for one in (*_MAPPED, "cake") if one in available or one == "step"]
        raise Unsupported(name, known, key=where, where="this kernel")
    return found


def list_approximated(aqm: dict[str, Any], place: str) -> list[str]:
    """Return what of the queue discipline of the hop at `place` is only nearly the same in Linux, in words."""
    notes = []
    if aqm["name"] == "step":
        notes.append(f"{place}.aqm = step is CoDel's ce_threshold, with a target that is never reached")
    if list_changed(aqm, read_registry().aqm[aqm["name"]].params, ("stale_when_empty",)):
        notes.append(f"{place}.aqm.stale_when_empty is as the kernel has it")
    return notes
