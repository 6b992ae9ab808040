"""A hop of a run in the guest, and the options of the class that is its link."""

import json
from dataclasses import dataclass
from typing import Any

from dumbbell import _native
from dumbbell.engines.linux.qdiscs import Qdisc
from dumbbell.errors import WrongValue
from dumbbell.experiment.shaping import LINK_LAYER

# PTM sends 65 bytes for 64, which htb knows as a lower rate alone: less than a byte of difference a frame
_PTM = (64, 65)
_LATE_NS = 4_000  # some readings of User-Mode Linux's clock, which take 256 ns each
_ETHERNET_HEADER = 14  # which htb counts, and an overhead replaces


@dataclass(frozen=True)
class Hop:
    """A hop, and where it is."""

    place: str
    """In an experiment file."""
    own: dict[str, Any]
    qdisc: Qdisc
    space: str
    """Its namespace, and below the devices by which packets come and go."""
    arrival: str
    departure: str
    behind: tuple[str, str]
    """The namespace behind it that has a serial link or a delay, and its device."""

    @property
    def serial(self) -> bool:
        """Whether packets leave it one by one, with a link behind the shaper."""
        return self.own["shaper"] == "link" and not self.qdisc.shapes

    @property
    def delay(self) -> int:
        """Propagation behind its link, ns."""
        return int(self.own.get("delay", 0))


def _describe_layer(hop: Hop) -> tuple[int | None, int, str]:
    """Return what a frame takes on the link of a hop: overhead and least size in bytes, and the framing."""
    layer = {key: hop.own[key] for key in LINK_LAYER if hop.own.get(key) is not None}
    return _native.link_layer(json.dumps(layer))


def compute_class_rate(rate: int, hop: Hop) -> int:
    """Return the rate of the class that is the link of a hop: what PTM leaves of it."""
    return rate * _PTM[0] // _PTM[1] if _describe_layer(hop)[2] == "ptm" else rate


def compute_burst(rate: int, hop: Hop) -> int:
    """Return the burst of the class that is the link of a hop, bytes.

    A class that may send a whole frame at once lets one frame leave early, so that one more fits into the queue. The
    class of a serial link may only catch up on what its timer was late, a few readings of the guest's clock.
    """
    burst: int = hop.own["burst"]
    return min(burst, max(1, rate * _LATE_NS // 8_000_000_000)) if hop.serial else burst


def format_class_options(rate: int, hop: Hop) -> str:
    """Return the options of the class that is the link of a hop, which counts what frames take on it."""
    overhead, mpu, framing = _describe_layer(hop)
    words = ""
    if overhead is not None:
        if overhead < _ETHERNET_HEADER:
            allowed = f"{_ETHERNET_HEADER} or more: htb cannot count a frame as shorter than it is"
            raise WrongValue(f"{overhead} bytes below a shaper", allowed, key=f"{hop.place}.overhead")
        words = f" overhead {overhead - _ETHERNET_HEADER}"
    words += f" mpu {mpu}" if mpu else ""
    words += " linklayer atm" if framing == "atm" else ""
    rate, burst = compute_class_rate(rate, hop), compute_burst(rate, hop)
    return f"rate {rate}bit ceil {rate}bit burst {burst} cburst {burst} quantum 1514{words}"
