"""Links of hops: traces, files in mahimahi's format, what stands of them in a run, and which keys go together.

`{"file": name, "schedule": text}`: the name is that of the file without folder and ending, the text is all that the
engine needs, about two characters for each different millisecond (crates/dumbbell-core/src/link_trace.rs).
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dumbbell import _native
from dumbbell.errors import Conflict, Missing, Unreadable, WrongValue, escape_line, quote_value
from dumbbell.experiment import matrix, net
from dumbbell.experiment.files import Files
from dumbbell.writing import get_reason

MAX_FILE_BYTES = 32 * 2**20
_HOPS = tuple((name,) for name in net.HOPS)
ALLOWED = "the name of a file in mahimahi's format: a time in whole milliseconds per line"


def parse(value: Any, files: Files | None) -> dict[str, str]:
    """Return the trace in the file that `value` names, in canonical form; InputError without file and key."""
    if not isinstance(value, str) or files is None:
        raise WrongValue(quote_value(value), ALLOWED)
    trace: dict[str, str] = files.read(value, _read)
    return trace


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{get_reason(error)} ({path})", ALLOWED) from None
    if len(content) > MAX_FILE_BYTES:
        most = f"at most {MAX_FILE_BYTES >> 20} MiB"
        raise Unreadable(f"it has more than {MAX_FILE_BYTES >> 20} MiB ({path})", f"{ALLOWED}, {most}")
    try:
        schedule = _native.link_schedule(content)
    except ValueError as error:
        found, allowed = error.args
        raise Unreadable(f"there is {found} ({path})", allowed) from None
    return {"file": escape_line(path.stem), "schedule": schedule}


@lru_cache(maxsize=64)
def compute_mean_rate(schedule: str) -> int:
    """Return the mean rate of a trace, bit/s; frames are counted without FCS, as by `bottleneck.rate`."""
    return _native.link_rate(schedule)


def show(trace: dict[str, str]) -> str:
    """Return a trace in a word; different ones are shown differently."""
    digest = hashlib.blake2b(trace["schedule"].encode(), digest_size=3).hexdigest()
    return f"{trace['file']} ({digest})"


WITHOUT_LINK = ("trace", "shaper", "burst")  # of a hop


def _apply_link(place: str, given: set[str], hop: dict[str, Any]) -> None:
    """Refuse keys that are `given` together with a link that the hop names."""
    link = hop["link"]
    if link is None:
        return
    for key in WITHOUT_LINK:
        if key in given and hop[key] is not None:
            allowed = "one of the two: each determines how packets leave the queue"
            raise Conflict(f"{key} and link", allowed, key=f"{place}.{key}")
    if link["name"] == "trace" and link["file"] is None:
        raise Missing(ALLOWED, key=f"{place}.link.file")


WITHOUT_TRACE = ("rate", "shaper", "burst", "rate_changes")  # of a bottleneck


def _apply_trace(place: str, given: set[str], hop: dict[str, Any]) -> None:
    """Make the rate of a hop with a trace that of the trace; InputError if a key is `given` that it replaces."""
    link = hop["link"]
    trace = link["file"] if link is not None and link["name"] == "trace" else hop["trace"]
    if trace is None:
        return
    for key in WITHOUT_TRACE:
        if key in given and hop[key] != []:
            allowed = "one of the two: the trace says when the link sends, and its mean rate is the rate"
            raise Conflict(f"{key} and trace", allowed, key=f"{place}.{key}")
    hop["rate"] = compute_mean_rate(trace["schedule"])


def settle(place: str, given: set[str], hop: dict[str, Any]) -> None:
    """Make what a hop says of its link whole; InputError if a key is `given` that another replaces."""
    _apply_link(place, given, hop)
    _apply_trace(place, given, hop)


def remove_replaced(table: dict[str, Any], settings: Sequence[tuple[matrix.Path, Any]]) -> None:
    """Take keys of hops out of a run's table that `settings` of other keys replace.

    A hop has a link, a shaper, or a trace, which replaces the rate too: a user who sets one means it alone.
    """
    given = dict(settings)
    for hop in {path[:-1] for path in given if path[:1] in _HOPS}:
        replaced: tuple[str, ...] = ()
        link = given.get((*hop, "link"), "none")
        if given.get((*hop, "trace"), "none") != "none":
            replaced = (*WITHOUT_TRACE, "link")
        elif link != "none":
            of_trace = isinstance(link, dict) and link.get("name") == "trace"
            replaced = (*WITHOUT_LINK, *(WITHOUT_TRACE if of_trace else ()))
        elif (*hop, "shaper") in given:
            replaced = ("link",)
        elif (*hop, "rate") in given:
            replaced = ("trace",)
        for key in replaced:
            if (*hop, key) not in given:
                for one in matrix.get_path(table, hop):
                    if isinstance(one, dict):
                        one.pop(key, None)
