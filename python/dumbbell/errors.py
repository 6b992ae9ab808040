"""Errors that speak to the user: one kind for each thing that can be wrong, and one sentence each.

Every error has its place (`file`, `line`, `column`, `key`) and what the sentence is made from (`found`, `allowed`,
`known`, `nearest`) as attributes. The nearest name comes first, before any list.
"""

import contextlib
import copy
import difflib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack

T = TypeVar("T")
MOST_NAMED = 12  # names that a sentence lists

MOST_TOLD = 20  # errors that are shown together
_ABSENT = (
    "there is no such file",
    "there is no such folder",
    "no such file",
)  # what a file is said to be that does not exist
_AROUND = 60  # characters of a line before and after a wrong place
# options that Python does not call as the command line does
_IN_PYTHON = {"set": "overrides", "linear-x": "log_x", "linear-y": "log_y"}
_spelt = {"on the command line": False}
OPTION = re.compile(r"--[a-z]{2}")


@contextlib.contextmanager
def speak_as_command_line() -> Iterator[None]:
    """Let errors speak of options as the command line has them, `--mean-over`, and not as Python does, `mean_over`."""
    before = _spelt["on the command line"]
    _spelt["on the command line"] = True
    try:
        yield
    finally:
        _spelt["on the command line"] = before


def spell_option(name: str) -> str:
    """Return what the user calls an option: `--mean-over` on the command line, `mean_over` in Python."""
    name = name.removeprefix("--")
    return f"--{name}" if _spelt["on the command line"] else _IN_PYTHON.get(name, name.replace("-", "_"))


def escape_line(text: str) -> str:
    """Return `text` with everything that does not print, line breaks included, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quote_value(value: Any, limit: int = 60) -> str:
    """Return `value` as it would be written in a TOML file, cut to `limit` characters."""
    match value:
        case bool():
            text = "true" if value else "false"
        case int() if abs(value) > 10**30:
            text = f"an integer of {value.bit_length()} bits"
        case str():
            text = json.dumps(value[: limit + 1], ensure_ascii=False)
        case dict():
            text = "{" + ", ".join(f"{k} = {quote_value(v, limit)}" for k, v in list(value.items())[:8]) + "}"
        case list():
            text = "[" + ", ".join(quote_value(v, limit) for v in value[:8]) + ("]" if len(value) <= 8 else ", ...]")
        case None:
            text = "nothing"
        case _:
            text = str(value)
    return text if len(text) <= limit else text[:limit] + "..."


def _count_columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def join_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return names as a list in a sentence: at most `most`, then how many there are."""
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])}, … ({len(names)} in all)"


def join_closest(word: str, names: Sequence[str]) -> str:
    """Return names as a list in a sentence: all of a few; of many those that are most like `word`, and how many."""
    if len(names) <= MOST_NAMED:
        return join_names(names)
    word = word.strip('"')

    def compute_likeness(name: str) -> float:
        last = name.rpartition(".")[2]
        return max(difflib.SequenceMatcher(None, word, one).ratio() for one in (name, last))

    return join_names(sorted(names, key=compute_likeness, reverse=True))


def find_nearest(word: Any, words: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the one of `words` that `word` is most likely a misspelling of, if any."""
    if not isinstance(word, str):
        return None
    by_folded = {w.casefold().replace("-", "_"): w for w in words}
    close = difflib.get_close_matches(word[:100].casefold().replace("-", "_"), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


class ErrorPlace(TypedDict, total=False):
    """Where an error is: in a file or in a command, at a key or at an option. `nearest` is what may have been meant."""

    file: str | Path
    command: str
    option: str
    key: str
    nearest: str | None


class InputError(ValueError):
    """Bad input; its text is `FILE:LINE:COLUMN: SENTENCE`, a line for each of its `errors`.

    Raise one of the kinds below: with what was found, with what is allowed, and by keyword with where it is.

    `allowed` is what would be right, in words or as a list of names; the nearest of these is found if none is given.
    """

    line: int | None = None
    column: int | None = None
    source: str = ""
    """The line of the file; the wrong part of it begins at `column` and has `width` characters."""
    width: int = 1
    in_sentence = False
    """Whether the sentence says the key, so that it is not part of the place before it."""
    has_nearest = True
    """Whether the name nearest to what was found is looked for."""
    of_file = False
    """Whether the key is one of a file, which may begin as an option does."""

    def __init__(
        self,
        found: str = "",
        allowed: str | Iterable[str] = "",
        *,
        file: str | Path | None = None,
        command: str | None = None,
        option: str = "",
        key: str = "",
        nearest: str | None = None,
    ) -> None:
        super().__init__()
        place = command if file is None else file
        self.file, self.key = (option, key) if place is None else (str(place), option or key)
        self.found = found
        self.known = () if isinstance(allowed, str) else tuple(allowed)
        self.allowed = allowed if isinstance(allowed, str) else ", ".join(self.known)
        self.nearest = nearest or (self._find_nearest() if self.has_nearest else None)

    def _find_nearest(self) -> str | None:
        return find_nearest(self.found.strip('"'), self.known)

    def __str__(self) -> str:
        where = f":{self.line}:{self.column}" if self.line is not None else ""
        context, _, key = self.key.rpartition(": ")
        place = [f"{self._spell_place(self.file)}{where}", *context.split(": ")]
        if self.in_sentence and not key:
            place, key = ([where], self.file) if self.file.startswith("--") else (place, "")
        elif not self.in_sentence:
            place.append(self._spell_key(key))
        return escape_line(": ".join([*(part for part in place if part), self.make_sentence(self._spell_key(key))]))

    def make_sentence(self, key: str) -> str:
        """Return what is wrong, of `key`, in one sentence."""
        raise NotImplementedError

    def move_into(self, file: str, prefix: str = "") -> Self:
        """Return the same error, said of `file`, with `prefix` before its key."""
        other = copy.copy(self)
        other.file, other.key, other.of_file = file, prefix + self.key, True
        return other

    def move(self, file: str, key: str) -> Self:
        """Return the same error, said of another file and key."""
        other = copy.copy(self)
        other.file, other.key = file, key
        return other

    @property
    def errors(self) -> "tuple[InputError, ...]":
        """The single errors of which this one tells."""
        return (self,)

    @property
    def excerpt(self) -> str:
        """The wrong line of the file with a mark under the place, two lines; nothing if the place is not known."""
        if self.line is None or self.column is None:
            return ""
        first = max(0, self.column - 1 - _AROUND)
        before, marked, after = (
            "".join(c if c.isprintable() else " " for c in self.source[start:end])
            for start, end in (
                (first, self.column - 1),
                (self.column - 1, self.column - 1 + self.width),
                (self.column - 1 + self.width, first + 2 * _AROUND),
            )
        )
        marked = marked[: 2 * _AROUND]
        number = str(self.line)
        return (
            f"{number} | {before}{marked}{after}\n"
            f"{' ' * len(number)} | {' ' * _count_columns(before)}{'^' * max(_count_columns(marked), 1)}"
        )

    def _spell_place(self, place: str) -> str:
        return spell_option(place) if OPTION.match(place) else place

    def _spell_key(self, key: str) -> str:
        return key if self.of_file else self._spell_place(key)

    def _ask_for_nearest(self) -> str:
        """Return the question after the nearest name, or nothing."""
        if not self.nearest:
            return ""
        quoted = self.found.startswith('"') and not self.nearest.startswith('"')
        return f"did you mean {json.dumps(self.nearest, ensure_ascii=False) if quoted else self.nearest}?"

    def _format_allowed(self) -> str:
        """Return what is allowed, as what follows "it must be"."""
        match self.known:
            case ():
                return self.allowed
            case (one,):
                return one
            case (one, other):
                return f"{one} or {other}"
        return f"one of {join_names(self.known)}"

    def _format_advice(self) -> str:
        """Return what to do: use what is allowed, or omit what is not."""
        if not self.allowed:
            return ""
        return self.allowed if self.allowed.startswith("omit ") else f"use {self._format_allowed()}"

    def _join_sentence(self, what: str, must: str) -> str:
        """Return the sentence: what is wrong, the nearest name if there is one, and what `must` be."""
        if meant := self._ask_for_nearest():
            return f"{what}; {meant}" + (f" {must[:1].upper()}{must[1:]}" if must else "")
        return f"{what}; {must}" if must else what

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows instead of a traceback; IPython calls this."""
        return str(self).splitlines()


def _rebuild(kind: type[InputError], attributes: dict[str, Any]) -> InputError:
    error = kind.__new__(kind)
    error.__dict__.update(attributes)
    return error


class UnknownKey(InputError):
    """A key that does not exist."""

    in_sentence = True

    def __init__(self, found: str, *, among: str | Iterable[str] = (), **place: Unpack[ErrorPlace]) -> None:
        super().__init__(found, among, **place)

    def make_sentence(self, key: str) -> str:
        """`unknown key bottleneck.targte; did you mean bottleneck.aqm.target?`."""
        if self.nearest:
            return f"unknown key {key or self.found}; did you mean {self.nearest}?"
        return self._join_sentence(
            f"unknown key {key or self.found}", f"choose from {join_names(self.known)}" if self.known else self.allowed
        )

    def _find_nearest(self) -> str | None:
        return find_nearest(self.key.rpartition(".")[2], self.known)


class UnknownName(InputError):
    """A name of something (`what`) that does not exist; `also` is what else is allowed."""

    def __init__(
        self,
        found: str,
        *,
        among: str | Iterable[str] = (),
        what: str = "name",
        also: str = "",
        **place: Unpack[ErrorPlace],
    ) -> None:
        super().__init__(found, among, **place)
        self.what, self.also = what, also

    def make_sentence(self, key: str) -> str:
        """`unknown aqm "fq_codle"; did you mean "fq_codel"? Choose from pfifo, …`."""
        if self.known == (self.nearest,):
            return f"unknown {self.what} {self.found}; {self._ask_for_nearest()}"
        must = f"choose from {join_closest(self.found, self.known)}" if self.known else self.allowed or "there are none"
        if len(self.known) == 1:
            must = f"the only one is {self.known[0]}"
        must += f"; {self.also}" if self.also else ""
        return self._join_sentence(f"unknown {self.what} {self.found}", must)


class WrongValue(InputError):
    """A value of the wrong kind or form."""

    in_sentence = True

    def make_sentence(self, key: str) -> str:
        """`duration is 20; did you mean "20ms"? It must be a time such as …`."""
        return self._join_sentence(f"{key or 'the value'} is {self.found}", f"it must be {self._format_allowed()}")


class OutOfRange(WrongValue):
    """A value of the right kind that is too small or too large."""


def check_count(
    value: object, allowed: str, *, least: int = 1, most: int | None = None, **place: Unpack[ErrorPlace]
) -> None:
    """Raise OutOfRange unless a value is a whole number from `least` to `most`, if there is a largest one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        raise OutOfRange(quote_value(value), allowed, **place)


class TooMany(InputError):
    """More things than there may be; `remedy` is what to do about it."""

    def __init__(self, found: str, allowed: str, remedy: str = "", **place: Unpack[ErrorPlace]) -> None:
        super().__init__(found, allowed, **place)
        self.remedy = remedy

    def make_sentence(self, key: str) -> str:
        """`facet: 40 panels are too many; at most 36 are allowed: filter the rows`."""
        verb = "is" if self.allowed.split()[-1] in ("one", "1") else "are"
        return f"{self.found} are too many; {self.allowed} {verb} allowed" + (f": {self.remedy}" if self.remedy else "")


class Ambiguous(InputError):
    """Several things of which one is meant; `found` says so in a clause, `allowed` is how to choose."""

    has_nearest = False

    def make_sentence(self, key: str) -> str:
        """`sharing.toml: it describes 9 runs; choose one with --cell N or --where KEY=VALUE`."""
        return f"{self.found}; choose {self.allowed}"


class Missing(InputError):
    """A value that has to be given is missing."""

    in_sentence = True
    has_nearest = False

    def __init__(
        self, allowed: str | Iterable[str] = "", *, found: str = "nothing", **place: Unpack[ErrorPlace]
    ) -> None:
        super().__init__(found, allowed, **place)

    def make_sentence(self, key: str) -> str:
        """`flows[0].base_rtt is missing; give a time`."""
        return f"{key or 'something'} is missing; give {self._format_allowed()}"


class Conflict(InputError):
    """Things that are right each, but not together."""

    def make_sentence(self, key: str) -> str:
        """`run: --jobs and --cluster cannot be combined; use one of them`."""
        return self._join_sentence(
            f"{self.found} cannot be combined", f"use {self._format_allowed()}" if self.allowed else ""
        )


class Unfit(InputError):
    """The request does not fit what exists; `found` says so in a clause."""

    def make_sentence(self, key: str) -> str:
        """`--mean-over: nothing differs in rate; use a key by which runs differ`."""
        return self._join_sentence(self.found, self._format_advice())


class Unsupported(InputError):
    """A feature that an engine (`where`) does not support."""

    has_nearest = False

    def __init__(self, found: str, allowed: str | Iterable[str], *, where: str, **place: Unpack[ErrorPlace]) -> None:
        super().__init__(found, allowed, **place)
        self.where = where

    def make_sentence(self, key: str) -> str:
        """`bottleneck.aqm: Linux does not support csaqm; use one of pfifo, bfifo, …`."""
        return self._join_sentence(f"{self.where} does not support {self.found}", self._format_advice())


class Unreadable(InputError):
    """A file that is not what it should be; `found` says what it is in a clause."""

    def make_sentence(self, key: str) -> str:
        """`results.duckdb: this is a directory; it must be a results file written by dumbbell run`."""
        verb = "give" if self.found.startswith(_ABSENT) else "it must be"
        return self._join_sentence(self.found, f"{verb} {self._format_allowed()}" if self.allowed else "")


class Unwritable(InputError):
    """A file that cannot be written."""

    def make_sentence(self, key: str) -> str:
        """`out/p.png: cannot write: there is no folder out; choose a folder that exists`."""
        return self._join_sentence(f"cannot write: {self.found}", f"choose {self.allowed}" if self.allowed else "")


class Needs(InputError):
    """A program, package or permission is missing; `allowed` fixes that."""

    in_sentence = True

    def make_sentence(self, key: str) -> str:
        """`linux build needs flex and bison: sudo apt-get install flex bison`."""
        return f"{key or self.file} needs {self.found}: {self.allowed}"

    def __str__(self) -> str:
        return escape_line(self.make_sentence(self._spell_place(self.key)))


class Nothing(InputError):
    """Nothing is left, or nothing there, to work on; `found` says so."""

    has_nearest = False

    def make_sentence(self, key: str) -> str:
        """`results.duckdb: found no finished run; give results of at least one run`."""
        return self._join_sentence(self.found, f"give {self._format_allowed()}" if self.allowed else "")


class Failed(InputError):
    """A program or service that was asked did not do its work; `found` is what it said."""

    def make_sentence(self, key: str) -> str:
        """`linux build: download of linux-source-6.12: no route to host; this needs a connection`."""
        return f"{self.found}; this needs {self.allowed}" if self.allowed else self.found


class Implausible(InputError):
    """Values that contradict each other or the path; `allowed` is what may be wrong."""

    def make_sentence(self, key: str) -> str:
        """`trace.qlog: time: a round trip takes 40.1 s by the clock …; times look like us, read as ms`."""
        return f"{self.found}; {self.allowed}"


class InUse(InputError):
    """Something that another process uses; `found` is that process, `allowed` is what to do."""

    def make_sentence(self, key: str) -> str:
        """`results.duckdb: process 9508 is using it; end that process, or choose another results file`."""
        return f"{self.found or 'another process'} is using it; {self.allowed}"


class Several(InputError):
    """Errors that are shown together, one line each."""

    def __init__(self, errors: Iterable[InputError]) -> None:
        self._errors = tuple(errors)
        first = self._errors[0]
        super().__init__(first.found, first.allowed, file=first.file, key=first.key, nearest=first.nearest)

    @property
    def errors(self) -> tuple[InputError, ...]:
        """The errors, in the order of their places."""
        return self._errors

    def __str__(self) -> str:
        more = len(self._errors) - MOST_TOLD
        lines = [*map(str, self._errors[:MOST_TOLD]), *([f"{escape_line(self.file)}: {more} more"] if more > 0 else [])]
        return "\n".join(lines)

    def move_into(self, file: str, prefix: str = "") -> "Several":
        """Return the same errors, said of `file`, with `prefix` before their keys."""
        return Several(error.move_into(file, prefix) for error in self._errors)


def keep_error(found: list[InputError], read: Callable[..., T], *args: Any) -> T | None:
    """Return what `read` returns; if it raises an InputError, keep that among those `found`."""
    try:
        return read(*args)
    except InputError as error:
        found += error.errors
        return None


def combine_errors(errors: Sequence[InputError]) -> InputError:
    """Return one error as it is, and more as one that tells of all."""
    return errors[0] if len(errors) == 1 else Several(errors)


def parse_machine_error(file: str, text: str) -> InputError:
    """Return what an engine says of a machine on which it cannot work, `PLACE: found X, allowed: Y`."""
    key, found, allowed = _split_sentence(text)
    return Failed(found, allowed, file=file, key=key)


def _split_sentence(text: str) -> tuple[str, str, str]:
    """Return key, found and allowed of `KEY: found X, allowed: Y`."""
    key, _, rest = text.rpartition("found ")
    found, _, allowed = rest.partition(", allowed: ")
    return key.removesuffix(": "), found, allowed


def parse_engine_error(file: str, said: ValueError | str) -> InputError:
    """Return what an engine says of a configuration that it cannot run.

    Its ValueError has `key`, `found` and `allowed`; from another process comes the text, `KEY: found X, allowed: Y`.
    """
    if hasattr(said, "allowed"):
        key, found, allowed = (str(getattr(said, name)) for name in ("key", "found", "allowed"))
    else:
        key, found, allowed = _split_sentence(str(said))
    if found == "this key":
        return UnknownKey(key, among=allowed.split(", "), file=file, key=key)
    return WrongValue(found, allowed, file=file, key=key)
