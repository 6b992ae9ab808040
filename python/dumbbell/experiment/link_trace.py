"""Traces of links: files in mahimahi's format, and what stands of them in the configuration of a run.

`{"file": name, "schedule": text}`: the name is that of the file without folder and ending, the text is all that the
engine needs, about two characters for each different millisecond (crates/dumbbell-core/src/link_trace.rs).
"""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from dumbbell import _native
from dumbbell.errors import Unreadable, WrongValue, one_line, shown
from dumbbell.experiment.files import Files

MAX_FILE_BYTES = 32 * 2**20
ALLOWED = "the name of a file in mahimahi's format: a time in whole milliseconds per line"


def parse(value: Any, files: Files | None) -> dict[str, str]:
    """Return the trace in the file that `value` names, in canonical form; InputError without file and key."""
    if not isinstance(value, str) or files is None:
        raise WrongValue("", "", shown(value), ALLOWED)
    trace: dict[str, str] = files.read(value, _read)
    return trace


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Unreadable("", "", f"{reason.lower()} ({path})", ALLOWED) from None
    if len(content) > MAX_FILE_BYTES:
        most = f"at most {MAX_FILE_BYTES >> 20} MiB"
        raise Unreadable("", "", f"it has more than {MAX_FILE_BYTES >> 20} MiB ({path})", f"{ALLOWED}, {most}")
    try:
        schedule = _native.link_schedule(content)
    except ValueError as error:
        found, allowed = error.args
        raise Unreadable("", "", f"there is {found} ({path})", allowed) from None
    return {"file": one_line(path.stem), "schedule": schedule}


@lru_cache(maxsize=64)
def mean_rate(schedule: str) -> int:
    """Return the mean rate of a trace, bit/s; frames are counted without FCS, as by `bottleneck.rate`."""
    return _native.link_rate(schedule)


def show(trace: dict[str, str]) -> str:
    """Return a trace in a word; different ones are shown differently."""
    digest = hashlib.blake2b(trace["schedule"].encode(), digest_size=3).hexdigest()
    return f"{trace['file']} ({digest})"
