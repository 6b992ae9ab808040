"""From what a user gives (lines, files of commands, configurations) to an experiment file."""

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dumbbell.errors import Missing, Unreadable
from dumbbell.experiment.file import parse
from dumbbell.tc import libreqos, sqm
from dumbbell.tc.devices import KINDS, read_commands
from dumbbell.tc.lexer import Source
from dumbbell.tc.setup import Wishes, make_setup
from dumbbell.tc.write import format_experiment, list_remarks
from dumbbell.writing import report_read_failures

_MOST_BYTES = 10_000_000
ARGUMENTS = "tc"  # what errors call lines that are arguments


@dataclass
class Converted:
    """An experiment file, and what there is to say about it."""

    text: str
    remarks: list[str] = field(default_factory=list)


def convert(given: Sequence[str], wishes: Wishes) -> Converted:
    """Return the experiment file of lines, `-` for standard input, or files; raises InputError."""
    left: dict[str, str] = {}
    notes: list[str] = []
    collected = _collect_sources(given)
    sources = _translate(collected, left, notes)
    if wishes.down is None and any(libreqos.is_shaped_devices("\n".join(one.lines)) for one in collected):
        wishes = replace(wishes, down=libreqos.DOWN)
    system = read_commands(sources)
    if system.others:
        left[f"{system.others} other line{'s' * (system.others > 1)}"] = "not of tc, or what tc prints of counters"
    system.left = left | system.left
    setup = make_setup(system, wishes)
    text = format_experiment(setup, _make_title(given), system.texts)
    parse(tomllib.loads(text), ARGUMENTS).make_cell(0)
    return Converted(text, list_remarks(setup.left, dict.fromkeys(notes + setup.notes)))


def _make_title(given: Sequence[str]) -> str:
    names = ["standard input" if one == "-" else one for one in given if _is_file(one)]
    return f"From {', '.join(names)}" if names else "From lines of tc"


def _collect_sources(given: Sequence[str]) -> list[Source]:
    """Return what arguments are: lines, or words of one line, and files."""
    if len(given) > 1 and not any(" " in one or _is_file(one) for one in given):
        return [Source(ARGUMENTS, (" ".join(given),), only_commands=True)]
    lines: list[str] = []
    sources: list[Source] = []
    for one in given:
        if _is_file(one):
            sources.append(_read_file(one))
        elif " " in one.strip() or one in KINDS or "\n" in one:
            lines += [one] if "\n" not in one else []
            sources += [Source(ARGUMENTS, tuple(one.splitlines()))] if "\n" in one else []
        else:
            raise Unreadable("there is no such file", "a file, or a line such as 'cake bandwidth 50mbit'", file=one)
    if lines:
        sources.insert(0, Source(ARGUMENTS, tuple(lines), only_commands=True))
    if not any(line.strip() for source in sources for line in source.lines):
        raise Missing("lines of tc, or a file of them", command="tc", key="LINE")
    return sources


def _is_file(word: str) -> bool:
    try:
        return word == "-" or Path(word).is_file()
    except (OSError, ValueError):
        return False


def _read_file(name: str) -> Source:
    shown = "standard input" if name == "-" else name
    allowed = "a file of tc commands, /etc/config/sqm, or ShapedDevices.csv"
    with report_read_failures(shown, allowed):
        content = sys.stdin.buffer.read(_MOST_BYTES + 1) if name == "-" else Path(name).read_bytes()[: _MOST_BYTES + 1]
    if len(content) > _MOST_BYTES:
        raise Unreadable("it has more than 10 MB", allowed, file=shown)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("this is not text", allowed, file=shown) from None
    return Source(shown, tuple(text.splitlines()))


def _translate(sources: list[Source], left: dict[str, str], notes: list[str]) -> list[Source]:
    """Return sources with commands alone: configurations become the commands that their programs give."""
    texts = {source.name: "\n".join(source.lines) for source in sources}
    networks = [source for source in sources if texts[source.name].lstrip().startswith("{")]
    found: list[Source] = []
    for source in sources:
        text = texts[source.name]
        if sqm.is_sqm(text):
            found.append(sqm.convert_sqm(source, left))
        elif libreqos.is_shaped_devices(text):
            found.append(libreqos.convert_devices(source, networks[0] if networks else None, left, notes))
        elif source in networks:
            if not any(libreqos.is_shaped_devices(other) for other in texts.values()):
                raise Missing("ShapedDevices.csv next to it", file=source.name, key="network.json")
        else:
            found.append(source)
    return found
