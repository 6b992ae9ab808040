"""How short flows arrive and how long they are, as written in experiment files and as the engine wants it."""

import csv
import hashlib
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, OutOfRange, TooMany, Unreadable, WrongValue, find_nearest, quote_value
from dumbbell.experiment import units
from dumbbell.experiment.files import Files
from dumbbell.writing import get_reason

# bounds of the engine (crates/dumbbell-core/src/traffic.rs)
MAX_ARRIVALS = 1_000_000
MAX_SIZE = 2**50
SHAPES = (0.01, 100.0)
MAX_WEIGHT = 10**18
# of a distribution that comes from a file; it stands in the configuration of every run
MAX_SIZES = 10_000
MAX_FILE_BYTES = 16 * 2**20

ARRIVALS = f'arrivals from 0 to {MAX_ARRIVALS} such as "100/s", or "2.5/s/Mbit" for each Mbit/s of the bottleneck'
SIZES = 'a size such as "10kB", { pareto = 0.9, min = "1kB", max = "1MB" } or { csv = "sizes.csv" }'
_LINE = "a size in bytes, a comma and a weight"

_ARRIVALS = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*/\s*s(\s*/\s*Mbit)?\s*", re.ASCII)
_NUMBER = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)", re.ASCII)


def parse_arrivals(value: Any) -> dict[str, float]:
    """Return `{"per_second": N}` or `{"per_mbit": N}`; InputError without file and key."""
    if type(value) is int and value == 0:
        return {"per_second": 0.0}
    match = _ARRIVALS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        text = value if isinstance(value, str) else "" if isinstance(value, bool) else quote_value(value)
        number = _NUMBER.match(text)
        unit = "/s/Mbit" if "bit" in text.lower() else "/s"
        raise WrongValue(quote_value(value), ARRIVALS, nearest=f'"{number[1]}{unit}"' if number else None)
    flows = float(match[1])
    if flows > MAX_ARRIVALS:
        raise OutOfRange(quote_value(value), ARRIVALS)
    return {"per_mbit" if match[2] else "per_second": flows}


def _format_number(value: float) -> str:
    """Return a number with all its digits and without an exponent."""
    return f"{Decimal(repr(value)).normalize():f}"


def show_arrivals(arrivals: dict[str, float]) -> str:
    """Return arrivals as they would be written in an experiment file, without quotes."""
    per_mbit = arrivals.get("per_mbit")
    return f"{_format_number(arrivals['per_second'])}/s" if per_mbit is None else f"{_format_number(per_mbit)}/s/Mbit"


def compute_flow_rate(arrivals: dict[str, float], rate: int) -> float:
    """Return how many flows arrive a second in the mean at a bottleneck of `rate` bit/s."""
    per_mbit = arrivals.get("per_mbit")
    return arrivals["per_second"] if per_mbit is None else per_mbit * rate / 1e6


def _read(path: Path) -> dict[str, Any]:
    """Return the distribution in a file, `{"empirical": [[size, weight], ...]}`; InputError."""
    allowed = f"a CSV file with {_LINE} on each line"
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        # what is too long is cut, and told below
        rows = list(csv.reader(content.decode("utf-8-sig").splitlines())) if len(content) <= MAX_FILE_BYTES else []
    except (OSError, ValueError, csv.Error) as error:
        raise Unreadable(f"{get_reason(error)} ({path})", allowed) from None
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"there are more than {MAX_FILE_BYTES >> 20} MiB in {path}", f"{allowed}, at most 16 MiB")
    weights: dict[int, float] = {}
    first = True
    for line, row in enumerate(rows, 1):
        if not any(field.strip() for field in row):
            continue
        if not (first and _is_header(row)):
            size, weight = _pair(row, path, line)
            if weight > 0:
                weights[size] = weights.get(size, 0.0) + weight
        first = False
    if not weights:
        raise Unreadable(f"no size has a weight above 0 in {path}", allowed)
    if len(weights) > MAX_SIZES:
        raise TooMany(f"{len(weights)} different sizes in {path}", f"at most {MAX_SIZES}")
    if (total := sum(weights.values())) >= MAX_WEIGHT:
        raise OutOfRange(f"{total:.3g}", f"less than {MAX_WEIGHT:.0e}", key=f": the sum of the weights in {path}")
    return {"empirical": [[size, weights[size]] for size in sorted(weights)]}


def _is_header(row: list[str]) -> bool:
    return all(field.strip()[:1].isalpha() and _parse_number(field) is None for field in row)


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _pair(row: list[str], path: Path, line: int) -> tuple[int, float]:
    size, weight = (_parse_number(row[0]), _parse_number(row[1])) if len(row) == 2 else (None, None)
    if size is None or weight is None:
        raise Unreadable(f"line {line} of {path} is {quote_value(','.join(row))}", _LINE)
    if not 1 <= size <= MAX_SIZE or size != int(size):
        raise OutOfRange(row[0].strip(), f"whole bytes from 1 to {MAX_SIZE}", key=f": size in line {line} of {path}")
    if not 0 <= weight < MAX_WEIGHT:
        raise OutOfRange(row[1].strip(), f"from 0 to {MAX_WEIGHT:.0e}", key=f": weight in line {line} of {path}")
    return int(size), weight


def parse_sizes(value: Any, files: Files | None) -> dict[str, Any]:
    """Return sizes in canonical form; InputError without file, whose key is what follows that of the sizes."""
    if not isinstance(value, dict):
        size = _parse_size(value, "")
        return {"fixed": size}
    if value.keys() == {"csv"}:
        if not isinstance(value["csv"], str) or files is None:
            raise WrongValue(quote_value(value["csv"]), "the name of a CSV file", key=".csv")
        try:
            sizes: dict[str, Any] = files.read(value["csv"], _read)
        except InputError as error:
            raise error.move_into("", ".csv") from None
        return sizes
    if value.keys() != {"pareto", "min", "max"}:
        known = ("pareto", "min", "max", "csv")
        wrong = next((key for key in value if key not in known), None)
        raise WrongValue(quote_value(value), SIZES, nearest=find_nearest(wrong, known))
    shape, (low, high) = value["pareto"], (_parse_size(value[key], f".{key}") for key in ("min", "max"))
    if isinstance(shape, bool) or not isinstance(shape, int | float) or not SHAPES[0] <= shape <= SHAPES[1]:
        raise OutOfRange(quote_value(shape), f"a number from {SHAPES[0]} to {SHAPES[1]:g}", key=".pareto")
    if low >= high:
        raise OutOfRange(quote_value(value["max"]), f"a size above min, {units.show('size', low)}", key=".max")
    return {"pareto": float(shape), "min": low, "max": high}


def _parse_size(value: Any, key: str) -> int:
    try:
        size = units.parse("size", value)
    except InputError as error:
        raise error.move("", key) if key else WrongValue(error.found, SIZES, nearest=error.nearest) from None
    if not 1 <= size <= MAX_SIZE:
        raise OutOfRange(quote_value(value), f"a size from 1B to {MAX_SIZE}B", key=key)
    return size


def format_sizes(sizes: dict[str, Any]) -> Any:
    """Return sizes, but for those of a CSV file, as they would be written in an experiment file."""
    if "fixed" in sizes:
        return units.show("size", sizes["fixed"])
    return {"pareto": sizes["pareto"]} | {key: units.show("size", sizes[key]) for key in ("min", "max")}


def show_sizes(sizes: dict[str, Any]) -> str:
    """Return sizes as an experiment file would have them, without quotes; different ones are shown differently."""
    if "empirical" not in sizes:
        written = format_sizes(sizes)
        return written if isinstance(written, str) else quote_value(written, 200)
    pairs = sizes["empirical"]
    digest = hashlib.blake2b(json.dumps(pairs).encode(), digest_size=3).hexdigest()
    return f"empirical({len(pairs)} sizes, mean {compute_mean_size(sizes):.0f}B, {digest})"


def compute_mean_size(sizes: dict[str, Any]) -> float:
    """Return the mean of sizes, bytes."""
    if "fixed" in sizes:
        return float(sizes["fixed"])
    if "empirical" in sizes:
        total = math.fsum(weight for _, weight in sizes["empirical"])
        return math.fsum(size * weight for size, weight in sizes["empirical"]) / total
    shape, low, high = sizes["pareto"], sizes["min"], sizes["max"]
    scale = low / -math.expm1(shape * math.log(low / high))
    if abs(shape - 1.0) < 1e-9:
        return float(scale * math.log(high / low))
    return float(scale * shape / (shape - 1.0) * -math.expm1((shape - 1.0) * math.log(low / high)))
