"""Where the keys of a TOML file stand, so that an error can say line and column and show the place."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dumbbell.errors import InputError, UnknownKey, combine_errors

Steps = tuple[str | int, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # also between the values of an array
_SCALAR = re.compile(r"[^,\]}#\n]*")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LITERAL = re.compile(r"'[^']*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL)
_SHORT_ESCAPE = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\", "e": "\x1b"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
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


@dataclass
class _Scanner:
    """Walks through a text that is known to be TOML."""

    text: str
    at: int = 0
    places: dict[Steps, KeyPlace] = field(default_factory=dict)
    arrays: dict[Steps, int] = field(default_factory=dict)  # of tables: how many there were so far

    def scan(self) -> dict[Steps, KeyPlace]:
        table: Steps = ()
        while self._skip(_BLANK) < len(self.text):
            if self.text[self.at] != "[":
                self._pair(table)
                continue
            is_array = self.text.startswith("[[", self.at)
            self.at += 2 if is_array else 1
            keys = self._read_keys()
            self._skip(_SPACE)
            self.at += 2 if is_array else 1
            table = self._find_table(keys, is_array=is_array)
        return self.places

    def _skip(self, what: re.Pattern[str]) -> int:
        match = what.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at

    def _find_table(self, keys: list[tuple[str, Span]], *, is_array: bool) -> Steps:
        """Return the place that the header of a table means."""
        path: Steps = ()
        for number, (key, span) in enumerate(keys):
            path = (*path, key)
            if is_array and number == len(keys) - 1:
                self.arrays[path] = self.arrays.get(path, 0) + 1
            self._set(path, span)
            if path in self.arrays:
                path = (*path, self.arrays[path] - 1)
                self._set(path, span)
        return path

    def _set(self, path: Steps, key: Span, value: Span | None = None) -> None:
        self.places.setdefault(path, KeyPlace(key, value or key))

    def _pair(self, table: Steps) -> None:
        keys = self._read_keys()
        self._skip(_SPACE)
        self.at += 1  # the sign =
        self._skip(_SPACE)
        path = table
        for key, span in keys[:-1]:
            path = (*path, key)
            self._set(path, span)
        key, span = keys[-1]
        self._read_value((*path, key), span)

    def _read_keys(self) -> list[tuple[str, Span]]:
        """Return the parts of a dotted key."""
        found = []
        while True:
            self._skip(_SPACE)
            start = self.at
            quote = self.text[start]
            self._skip({'"': _BASIC, "'": _LITERAL}.get(quote, _BARE))
            text = self.text[start : self.at]
            key = _unescape(text[1:-1]) if quote == '"' else text.strip("'")
            found.append((key, Span(start, self.at)))
            end = self.at
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                self.at = end
                return found
            self.at += 1

    def _read_value(self, path: Steps, key: Span | None) -> None:
        start = self.at
        match self.text[start : start + 3], self.text[start : start + 1]:
            case '"""', _:
                self._skip(_LONG_BASIC)
            case "'''", _:
                self._skip(_LONG_LITERAL)
            case _, '"':
                self._skip(_BASIC)
            case _, "'":
                self._skip(_LITERAL)
            case _, "[":
                self._read_items(path)
            case _, "{":
                self._read_inline(path)
            case _:
                self._skip(_SCALAR)
                self.at = start + len(self.text[start : self.at].rstrip())
        span = Span(start, self.at)
        self._set(path, key or span, span)

    def _read_items(self, path: Steps) -> None:
        self.at += 1
        number = 0
        while self.text[self._skip(_BLANK)] != "]":
            self._read_value((*path, number), None)
            number += 1
            if self.text[self._skip(_BLANK)] == ",":
                self.at += 1
        self.at += 1

    def _read_inline(self, path: Steps) -> None:
        self.at += 1
        while self.text[self._skip(_BLANK)] != "}":
            self._pair(path)
            if self.text[self._skip(_BLANK)] == ",":
                self.at += 1
        self.at += 1


def _unescape(text: str) -> str:
    def replace_escape(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else _SHORT_ESCAPE.get(match[4], match[4])

    return _ESCAPE.sub(replace_escape, text)


def find(text: str) -> dict[Steps, KeyPlace]:
    """Return the place of every key, table and element of an array in a text that is TOML."""
    return _Scanner(text).scan()


def split_key(key: str) -> Steps:
    """Return the steps of a key as errors write it: `flows[0].cc`, `matrix."bottleneck.rate"[2]`."""
    found: list[str | int] = []
    for match in _STEP.finditer(key):
        quoted, index, name = match.groups()
        found.append(int(index) if index else _unescape(quoted) if quoted is not None else name)
    return tuple(found)


def decode_toml(content: bytes) -> str:
    """Return the text of a TOML file as it is parsed: without a mark at its start, and lines ending in a newline."""
    return content.decode("utf-8-sig").replace("\r\n", "\n")


@contextlib.contextmanager
def place_errors(file: str | Path) -> Iterator[None]:
    """Let errors of a TOML file that could be parsed say where in it they are, and in its order."""
    try:
        yield
    except InputError as error:
        try:
            text = decode_toml(Path(file).read_bytes())
        except (OSError, ValueError):  # gone meanwhile
            raise error from None
        raise locate_error(error, str(file), text) from None


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
