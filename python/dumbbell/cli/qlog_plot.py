"""The part of `dumbbell plot` that draws qlog files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dumbbell import file_kinds
from dumbbell.experiment import units

_ENDINGS = (".qlog", ".sqlog", ".json", ".jsonl")


def is_qlog(path: str) -> bool:
    """Whether a file is qlog by its content, or by its name if its content is of no known kind."""
    kind = file_kinds.find_kind_of_file(path)
    bare = path
    for ending in file_kinds.PACKED:
        bare = bare.removesuffix(ending)
    return kind is file_kinds.QLOG or (kind is None and bare.endswith(_ENDINGS))


def draw(files: Sequence[str], output: str, time: str | None, title: str | None) -> None:
    """Draw qlog files over time: window, bytes in flight, RTT and losses. Raises InputError."""
    from dumbbell import figures
    from dumbbell.qlog import figure

    found = figure.read_all([Path(one) for one in files])
    picture = figure.draw(found, None if time is None else units.parse_span(time, "--time"), title)
    notes = [f"{path}: {note}" for path, one in found.items() for note in one.notes]
    print("\n".join([str(figures.save(picture, Path(output))), *notes]), file=sys.stderr)
