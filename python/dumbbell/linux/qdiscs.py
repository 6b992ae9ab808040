"""Queue disciplines of experiment files as lines of tc(8), by the names and units of tc-codel(8) and the others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dumbbell.errors import InputError
from dumbbell.linux.keys import refuse_rest, unlike
from dumbbell.registry import registry

_UNLIMITED = 2**62


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
    limit: int = _UNLIMITED
    """Packets that fit; 0 where all drops are because it is full."""
    shapes: bool = False
    """It has a rate of its own and needs no shaper."""

    @property
    def text(self) -> str:
        """Return the words after `tc qdisc add dev X parent Y`."""
        return f"{self.kind} {self.options}".rstrip()


def _us(key: str, nanoseconds: int) -> str:
    """Return a time for tc, which reckons in microseconds."""
    if nanoseconds % 1000:
        raise InputError("", f"bottleneck.aqm.{key}", f"{nanoseconds} ns", "whole microseconds: tc has no finer ones")
    return f"{nanoseconds // 1000}us"


class _Options:
    """The options of one discipline, put together; what is left over must be as Linux has it."""

    def __init__(self, aqm: dict[str, Any]) -> None:
        self.name, self._left, self._words = aqm["name"], dict(aqm), list[str]()
        del self._left["name"]

    def take(self, key: str) -> Any:
        return self._left.pop(key)

    def number(self, *keys: str) -> "_Options":
        """Numbers that Linux calls as we do; those that are unset have Linux's default."""
        for key in keys:
            if (value := self.take(key)) is not None:
                self._words += [key, str(value)]
        return self

    def time(self, *keys: str) -> "_Options":
        for key in keys:
            if (value := self.take(key)) is not None:
                self._words += [key, _us(key, value)]
        return self

    def flag(self, *keys: str, off: str = "") -> "_Options":
        for key in keys:
            self.word(key if self.take(key) else f"{off}{key}" if off else "")
        return self

    def word(self, *words: str) -> "_Options":
        self._words += [word for word in words if word]
        return self

    def done(self, approximated: tuple[str, ...] = ()) -> str:
        """Return the options; raises InputError if a key that is left differs from its default."""
        params = registry().aqm[self.name].params
        left = {key: value for key, value in self._left.items() if key not in approximated}
        refuse_rest("bottleneck.aqm", left, params, {})
        return " ".join(self._words)


def _fifo(options: _Options) -> Qdisc:
    return Qdisc(options.name, options.number("limit").done(), True, limit=0)


def _threshold(options: _Options) -> None:
    options.time("ce_threshold")


def _codel(options: _Options) -> Qdisc:
    limit = options._left["limit"]
    options.number("limit").time("target", "interval").flag("ecn", off="no")
    _threshold(options)
    return Qdisc("codel", options.done(), False, limit=limit)


def _step(options: _Options) -> Qdisc:
    """CoDel with nothing but ce_threshold: its own target is never reached (times of CoDel wrap after 73 minutes)."""
    limit, threshold = options.take("limit"), options.take("threshold")
    words = f"limit {limit} target 100s interval 1000s ecn ce_threshold {_us('threshold', threshold)}"
    return Qdisc("codel", options.word(words).done(), False, limit=limit)


def _fq_codel(options: _Options) -> Qdisc:
    limit = options._left["limit"]
    options.number("limit", "flows", "quantum", "memory_limit", "drop_batch").time("target", "interval")
    options.flag("ecn", off="no")
    _threshold(options)
    if options.take("ce_threshold_selector") == "ect1":
        options.word("ce_threshold_selector 0x1/0x3")
    return Qdisc("fq_codel", options.done(("stale_when_empty",)), False, flow_queues=True, limit=limit)


def _pie(options: _Options) -> Qdisc:
    limit = options._left["limit"]
    options.number("limit").time("target", "tupdate").number("alpha", "beta").flag("ecn", "bytemode", off="no")
    options.word("dq_rate_estimator" if options.take("dq_rate_estimator") else "no_dq_rate_estimator")
    return Qdisc("pie", options.done(), True, limit=limit)


def _fq_pie(options: _Options) -> Qdisc:
    limit = options._left["limit"]
    options.number("limit", "flows", "quantum").time("target", "tupdate").number("alpha", "beta", "ecn_prob")
    options.flag("ecn", "bytemode", off="no")
    options.word("dq_rate_estimator" if options.take("dq_rate_estimator") else "no_dq_rate_estimator")
    return Qdisc("fq_pie", options.done(), True, flow_queues=True, limit=limit)


def _red(options: _Options) -> Qdisc:
    if options.take("adaptive"):
        # tc (q_red.c) asks for it in TCA_RED_FLAGS; __red_change starts the timer for the flags of tc_red_qopt alone
        found = "true, which Linux shows but does not do: its timer is never started"
        raise InputError("", "bottleneck.aqm.adaptive", found, "false, or --engine sim")
    options.number("limit", "min", "max", "avpkt", "burst", "probability")
    options.word(f"bandwidth {options.take('bandwidth')}bit").flag("ecn", "harddrop", "nodrop")
    return Qdisc("red", options.done(), True)


_MASKS = {"l4s_ect": "l4s_ect", "any_ect": "any_ect"}


def _dualpi2(options: _Options) -> Qdisc:
    limit = options._left["limit"]
    options.number("limit", "memlimit").time("target", "tupdate").number("alpha", "beta").time("max_rtt", "typical_rtt")
    options.number("coupling_factor")
    packets, threshold = options.take("step_packets"), options.take("step_thresh")
    if packets is not None:
        options.word(f"step_thresh {packets}packets")
    elif threshold is not None:
        options.word(f"step_thresh {_us('step_thresh', threshold)}")
    options.number("min_qlen_step", "classic_protection")
    options.word({"drop": "drop_on_overload", "overflow": "overflow"}[options.take("overload")])
    options.word({"dequeue": "drop_dequeue", "enqueue": "drop_enqueue"}[drop := options.take("drop")])
    mask = options._left["ecn_mask"]
    if mask in _MASKS:
        options.take("ecn_mask")
        options.word(_MASKS[mask])
    text = options.done(("ramp_range",))
    return Qdisc("dualpi2", text, drop == "enqueue", flow_queues=True, limit=limit or 10000)


def _cake(options: _Options, rate: int) -> Qdisc:
    bandwidth = options.take("bandwidth")
    bandwidth = rate if bandwidth is None else bandwidth
    options.word(f"bandwidth {bandwidth}bit" if bandwidth else "unlimited")
    options.word(options.take("diffserv"), options.take("isolation")).time("rtt")
    overhead, framing = options.take("overhead"), options.take("framing")
    options.word("raw" if overhead is None else f"overhead {overhead}")
    options.word({"none": "noatm" if overhead is not None else "", "atm": "atm", "ptm": "ptm"}[framing])
    options.number("mpu", "memlimit").word("ingress" if options.take("ingress") else "")
    options.word("no-split-gso")
    return Qdisc("cake", options.done(("sce_thresh",)), False, flow_queues=True, shapes=True)


_MAPPED: dict[str, Callable[[_Options], Qdisc]] = {
    "pfifo": _fifo,
    "bfifo": _fifo,
    "red": _red,
    "step": _step,
    "codel": _codel,
    "fq_codel": _fq_codel,
    "pie": _pie,
    "fq_pie": _fq_pie,
    "dualpi2": _dualpi2,
}


def qdisc(aqm: dict[str, Any], rate: int, available: tuple[str, ...]) -> Qdisc:
    """Return what Linux has for a queue discipline over a link of `rate` bit/s; raises InputError if it has none.

    `available` are the disciplines of the kernel.
    """
    name = aqm["name"]
    if name not in (*_MAPPED, "cake"):
        raise InputError("", "bottleneck.aqm", f"{name}, which Linux does not have", ", ".join([*_MAPPED, "cake"]))
    options = _Options(aqm)
    found = _cake(options, rate) if name == "cake" else _MAPPED[name](options)
    if found.kind not in available:
        known = ", ".join(one for one in (*_MAPPED, "cake") if one in available or one == "step")
        raise InputError("", "bottleneck.aqm", f"{name}, which this kernel does not have", known)
    return found


def approximated(aqm: dict[str, Any]) -> list[str]:
    """Return what of a queue discipline is only nearly the same in Linux, in words."""
    notes = []
    if aqm["name"] == "step":
        notes.append("bottleneck.aqm = step is CoDel's ce_threshold, with a target that is never reached")
    if unlike(aqm, registry().aqm[aqm["name"]].params, ("stale_when_empty",)):
        notes.append("bottleneck.aqm.stale_when_empty is as the kernel has it")
    return notes
