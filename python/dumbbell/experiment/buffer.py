"""The buffer of a hop, in any unit: it sets the limit of whichever queue discipline the hop has.

`buffer = "1.5bdp"`, `"100p"`, `"64KiB"` or `"80ms"`; a bare number counts packets, as limits do.
"""

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

from dumbbell.errors import Conflict, OutOfRange, Unfit, WrongValue, quote_value
from dumbbell.experiment import units
from dumbbell.experiment.frame_size import compute_full_frame
from dumbbell.experiment.net import BUFFER, find_largest_base_rtt, list_hops
from dumbbell.experiment.plugins import find_algorithm
from dumbbell.experiment.registry import Algorithm, Param, read_registry

MOST_PACKETS = 100_000_000  # of limits that count packets
MOST_BYTES = 10**12  # of limits that count bytes
LONGEST = 3600 * 10**9  # ns
LEAST_BDP, MOST_BDP = Fraction(1, 1000), Fraction(1000)
ALLOWED = (
    'a buffer such as "1.5bdp" (from 0.001bdp to 1000bdp), "100p" or 100 (packets, from 1 to 100000000), '
    '"64KiB" (from 1B to 1TB) or "80ms" (up to 3600s)'
)
_COUNTED = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(bdp|p)\s*", re.ASCII)
_LIMITS = ("limit", "memlimit")  # parameters of queue disciplines that limit all that waits


def parse(value: Any) -> str:
    """Return a buffer in canonical form, which is text such as `1.5bdp`; InputError without file and key."""
    if type(value) is int:
        value = f"{value}p"
    if not isinstance(value, str):
        raise WrongValue(quote_value(value), ALLOWED)
    if match := _COUNTED.fullmatch(value):
        number, unit = Fraction(match[1]), match[2]
        low, high = (LEAST_BDP, MOST_BDP) if unit == "bdp" else (Fraction(1), Fraction(MOST_PACKETS))
        if not low <= number <= high:
            raise OutOfRange(quote_value(value), ALLOWED)
        if unit == "p" and number.denominator != 1:
            raise WrongValue(quote_value(value), ALLOWED)
        return f"{_format_number(match[1])}{unit}"
    for kind, most in (("time", LONGEST), ("size", MOST_BYTES)):
        if units.has_unit(kind, value):
            amount = units.parse(kind, value)
            if not 0 < amount <= most:
                raise OutOfRange(quote_value(value), ALLOWED)
            return units.show(kind, amount)
    raise WrongValue(quote_value(value), ALLOWED)


def _format_number(digits: str) -> str:
    """Return a decimal number without zeros at its ends."""
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")


def settle(run: dict[str, Any], given: dict[str, Any], written: Mapping[str, Collection[str]]) -> None:
    """Set the limits of the queues whose hops have a `buffer`; they count as `given`.

    `written` names the keys that the file sets in each algorithm. Raises InputError without file.
    """
    for (place, hop), (_, own) in zip(list_hops(run), list_hops(given), strict=True):
        if hop[BUFFER.name] is None:
            continue
        algorithm = find_algorithm(hop["aqm"], read_registry().algorithms)
        limit = _find_limit(algorithm)
        if algorithm is None or limit is None:
            found = f"{hop['aqm']['name']} has no limit of packets or bytes"
            raise Unfit(found, "omit buffer, or use another queue", key=f"{place}.{BUFFER.name}")
        if limit.name in written.get(f"{place}.aqm", ()):
            allowed = "one of the two: each sets how much the queue holds"
            raise Conflict(f"buffer and aqm.{limit.name}", allowed, key=f"{place}.{BUFFER.name}")
        values = {limit.name: _compute_limit(place, hop, limit, run)}
        memory = algorithm.params.get("memory_limit")
        if memory is not None and memory.name not in written.get(f"{place}.aqm", ()):
            values[memory.name] = _compute_memory(memory, hop["aqm"], values[limit.name], run)
        hop["aqm"] |= values
        own["aqm"] |= values


def _find_limit(algorithm: Algorithm | None) -> Param | None:
    """Return the parameter that limits all that waits in a queue, in packets or bytes."""
    params = algorithm.params if algorithm is not None else {}
    return next(
        (params[name] for name in _LIMITS if name in params and params[name].unit in ("packets", "bytes")), None
    )


def _compute_limit(place: str, hop: dict[str, Any], limit: Param, run: dict[str, Any]) -> int:
    """Return the limit that the buffer of a hop makes, in the unit of `limit`; at least one full frame."""
    full = compute_full_frame(run)
    size = _compute_size(place, hop, run)
    packets = max(1, _round(size / full))
    if limit.unit == "packets":
        value = packets
    elif limit.name == "memlimit":  # counts the memory of packets
        value = packets * _compute_segment_memory(run)
    else:
        value = max(full, _round(size))
    if (limit.min is not None and value < limit.min) or (limit.max is not None and value > limit.max):
        found = f"{quote_value(hop[BUFFER.name])}, which makes aqm.{limit.name} = {value}"
        raise OutOfRange(found, f"one with a limit from {limit.min} to {limit.max}", key=f"{place}.{BUFFER.name}")
    return value


def _compute_size(place: str, hop: dict[str, Any], run: dict[str, Any]) -> Fraction:
    """Return the size of a buffer, bytes of frames without FCS."""
    text = hop[BUFFER.name]
    if text.endswith("bdp"):
        rtt = find_largest_base_rtt(run)
        if not rtt:
            found = f"{quote_value(text)}, and no base RTT in this run is above 0s"
            raise WrongValue(found, 'packets, bytes or a time, such as "100p"', key=f"{place}.{BUFFER.name}")
        return Fraction(text.removesuffix("bdp")) * rtt * int(hop["rate"]) / (8 * 10**9)
    if text.endswith("p"):
        return Fraction(text.removesuffix("p")) * compute_full_frame(run)
    if units.has_unit("time", text):
        return Fraction(units.parse("time", text) * hop["rate"], 8 * 10**9)
    return Fraction(units.parse("size", text))


def _round(value: Fraction) -> int:
    """Return the nearest integer, the larger one of two."""
    return int(value + Fraction(1, 2))


def _compute_segment_memory(run: dict[str, Any]) -> int:
    """Return the memory of a full segment in a queue, bytes, as Linux counts it."""
    hosts = run["hosts"]
    return int(hosts["mss"]) + read_registry().profiles[hosts["profile"]].segment_memory


def _compute_memory(memory: Param, aqm: dict[str, Any], packets: int, run: dict[str, Any]) -> int:
    """Return a limit of memory above which the limit of packets decides.

    No frame takes more than twice its bytes and 1056 B: its buffer is padded by up to 400 B, then to a power of two,
    and `struct sk_buff` takes 256 B (crates/dumbbell-core/src/buffers.rs).
    """
    enough = packets * (2 * compute_full_frame(run) + 1056)
    return min(max(int(aqm[memory.name]), enough), int(memory.max))
