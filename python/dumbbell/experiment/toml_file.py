"""Reading a TOML file; what is wrong with it is said with line and column."""

import codecs
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dumbbell import file_kinds
from dumbbell.errors import InputError, Unreadable, escape_line, find_nearest
from dumbbell.experiment import places, shipped
from dumbbell.writing import get_reason

MAX_FILE_BYTES = 16 * 2**20


def read_toml(file: str | Path, kind: str = "an experiment file (TOML)", known: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a TOML file holds; raises InputError, said of `file`, which may be a misspelt name of `known`."""
    name = str(file)
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except IsADirectoryError:
        raise Unreadable("this is a directory", kind, file=name) from None
    except (OSError, ValueError) as error:
        names = list(known) if isinstance(error, FileNotFoundError) else []
        close = shipped.find_alike(name, names) or find_nearest(name, names)
        raise Unreadable(get_reason(error), f"{kind} that can be read", file=name, nearest=close) from None
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(
            f"it has more than {MAX_FILE_BYTES >> 20} MiB", f"at most {MAX_FILE_BYTES >> 20} MiB", file=name
        )
    what = file_kinds.find_kind(content)
    if what is not None and what is not file_kinds.EXPERIMENT:
        raise Unreadable(f"this is {what}", kind, file=name)
    try:
        return tomllib.loads(places.decode_toml(content))
    except UnicodeDecodeError as error:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Unreadable("this is UTF-16", "TOML, which is UTF-8: save it as UTF-8", file=name) from None
        raise Unreadable("this is not UTF-8", "TOML, which is UTF-8", file=name, key=f"byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise _make_error(name, content, str(error)) from None


def _make_error(name: str, content: bytes, said: str) -> InputError:
    """Return the error for a text that is not TOML, with its place if `said` has one."""
    text = places.decode_toml(content)
    what, line, column = said, 0, 1
    if match := re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", said, re.DOTALL):
        what = match[1]
        line, column = (int(match[2]), int(match[3])) if match[2] else (text.count("\n") + 1, 1)
    if not line:
        return Unreadable(f"this is not TOML: {what[:1].lower()}{what[1:]}", file=name)
    found, allowed = _find_duplicate(what, text.split("\n")[line - 1]) or (f"{what[:1].lower()}{what[1:]}", "")
    error = Unreadable(f"this is not TOML: {found}", allowed, file=name)
    begin = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
    return places.mark_error(error, text, places.Span(begin + column - 1, begin + column))


def _find_duplicate(said: str, line: str) -> tuple[str, str] | None:
    """Return what is there twice and what is right instead, if a parser says that in its words of a line."""
    if not re.match(r"Cannot (declare|overwrite|mutate|redefine) ", said):
        return None
    if header := re.match(r"\s*\[\[?([^\[\]]+)\]", line):
        table = header[1].strip()
        return f"{table} is there twice", f"there once, or a table [[{table}]] each time if there may be several"
    return f"{line.partition('=')[0].strip()} is there twice", "there once"


def read_title(file: str | Path) -> str:
    """Return the title of the experiment in `file`, unchecked; raises InputError."""
    return escape_line(str(read_toml(file).get("title", "")))
