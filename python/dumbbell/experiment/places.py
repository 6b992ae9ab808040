"""Where the keys of a TOML file stand, so that an error can say line and column and show the place."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dumbbell import _native
from dumbbell.errors import InputError, UnknownKey, combine_errors

Steps = tuple[str | int, ...]
_ESCAPED = re.compile(r"\\(.)")
_STEP = re.compile(r'\.?"((?:[^"\\]|\\.)*)"|\[(\d+)\]|\.?([^.\["]+)')


@dataclass(frozen=True)
class Span:
    """A part of a text, from the character `start` to the one before `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class KeyPlace:
    """Where a key stands and, if it has one there, its value. Elements of arrays have no key of their own."""

    key: Span
    value: Span


def find(text: str) -> dict[Steps, KeyPlace]:
    """Return the place of every key, table and element of an array in a text that is TOML."""
    found = _native.toml_places(text)
    return {tuple(path): KeyPlace(Span(*key), Span(*value)) for path, key, value in found}


def split_key(key: str) -> Steps:
    """Return the steps of a key as errors write it: `flows[0].cc`, `matrix."bottleneck.rate"[2]`."""
    found: list[str | int] = []
    for match in _STEP.finditer(key):
        quoted, index, name = match.groups()
        found.append(int(index) if index else _ESCAPED.sub(r"\1", quoted) if quoted is not None else name)
    return tuple(found)


def decode_toml(content: bytes) -> str:
    """Return the text of a TOML file as it is parsed: without a mark at its start, and lines ending in a newline."""
    return content.decode("utf-8-sig").replace("\r\n", "\n")


class ErrorPlacer:
    """A context in which errors of a TOML file that could be parsed say where in it they are, and in its order."""

    def __init__(self, file: str | Path) -> None:
        self._file = file

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, InputError):
            try:
                text = decode_toml(Path(self._file).read_bytes())
            except (OSError, ValueError):  # gone meanwhile
                return
            raise locate_error(error, str(self._file), text) from None


def locate_error(error: InputError, file: str, text: str) -> InputError:
    """Return an error, or several, with line, column and source of their keys in the text of a file."""
    places = find(text)
    found = [_locate_one(one, places, text) if one.file == file else one for one in error.errors]
    return combine_errors(sorted(found, key=lambda one: (one.line is None, one.line or 0, one.column or 0)))


def _locate_one(error: InputError, places: dict[Steps, KeyPlace], text: str) -> InputError:
    for path in _list_places(error.key):
        if path in places:
            # of what is missing, the table in which it is; of what is wrong, its value; of what is unknown, its name
            place = places[path]
            exact = path == split_key(error.key.partition(": ")[0])
            span = place.key if isinstance(error, UnknownKey) or not exact else place.value
            return mark_error(error, text, span)
    return error


def _list_places(key: str) -> Iterable[Steps]:
    """Yield the place that a key means, then those around it."""
    path = split_key(key.partition(": ")[0])
    return (path[:length] for length in range(len(path), 0, -1))


def mark_error(error: InputError, text: str, span: Span) -> InputError:
    """Return the error with the line, column and source of a part of `text`."""
    other = error.move_into(error.file)
    begin = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    other.line = text.count("\n", 0, span.start) + 1
    other.column = span.start - begin + 1
    other.source = text[begin : end if end >= 0 else len(text)]
    other.width = max(1, min(span.end, begin + len(other.source)) - span.start)
    return other
