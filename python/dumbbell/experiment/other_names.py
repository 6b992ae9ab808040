"""What other tools and papers call the keys of experiment files."""

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
    "seed": "seeds",
}


def meant(word: str, keys: Sequence[str]) -> str | None:
    """Return the one of `keys` that an unknown `word` means: by what others call it, or as a part of its name."""
    other = _CALLED.get(word.casefold().replace("-", "_"))
    found = [other] if other in keys else [key for key in keys if word.casefold() in key.split("_")]
    return found[0] if len(found) == 1 else None
