"""The words of a queue discipline after its name, by a table: what each takes, and what becomes of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dumbbell.errors import Missing, UnknownName, Unsupported, WrongValue, quote_value
from dumbbell.experiment import units
from dumbbell.tc import quantities
from dumbbell.tc.lexer import Word, place_error

ENGINE = "dumbbell"  # who does not support what a line asks for


@dataclass(frozen=True)
class Option:
    """A word of a table: with `read`, another word follows it, which `read` turns into a value of a file."""

    key: str = ""
    read: Callable[[Word], Any] | None = None
    value: Any = None
    """Of a word without another one."""
    why_left: str = ""
    """Why it may be left out: it changes nothing here."""
    remedy: str = ""
    """The remedy for a refused word."""


@dataclass(frozen=True)
class GivenWord:
    """A word of a line, with the one after it and with its value."""

    option: Option
    word: Word
    argument: Word | None
    value: Any

    @property
    def text(self) -> str:
        """The text of the line."""
        return f"{self.word} {self.argument}" if self.argument is not None else str(self.word)


@dataclass(frozen=True)
class Value:
    """A value in the spelling of an experiment file, and its source in words."""

    toml: Any
    source: str


Table = Mapping[str, Option]


def read_options(kind: str, words: Sequence[Word], table: Table, kind_word: Word) -> Iterator[GivenWord]:
    """Yield the options of a line; raises InputError for what the table does not have or refuses."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option = table.get(word)
        if option is None:
            refuse_variable(word)
            raise place_error(UnknownName(quote_value(str(word)), among=list(table), what=f"word of {kind}"), word)
        argument, value = None, option.value
        if option.read is not None:
            if not rest:
                last = word if len(words) > 1 else kind_word
                raise place_error(Missing("the value behind it", key=f"{kind} {word}"), last)
            argument = rest.pop(0)
            refuse_variable(argument)
            try:
                value = option.read(argument)
            except WrongValue as error:
                raise error.move(error.file, f"{kind} {word}") if not error.key else error from None
        if option.remedy:
            raise place_error(Unsupported(f"{word} of {kind}", option.remedy, where=ENGINE), word)
        yield GivenWord(option, word, argument, value)


def refuse_variable(word: Word) -> None:
    """Raise InputError for a variable of a shell, whose value nobody knows."""
    if "$" in word or "`" in word:
        raise place_error(WrongValue(f"{quote_value(str(word))}, a variable of a shell", "its value"), word)


# what a word after another one becomes in an experiment file


def spell_size(word: Word) -> str:
    """Return a size in the spelling of an experiment file."""
    return f"{quantities.parse_size(word)}B"


def spell_bytes(word: Word) -> str:
    """Return a size that tc takes as a plain number, or prints with its unit."""
    return f"{quantities.parse_size(word)}B"


def spell_time(word: Word) -> str:
    """Return a time in the spelling of an experiment file."""
    return units.show("time", quantities.parse_time(word))


def spell_rate(word: Word) -> str:
    """Return a rate in the spelling of an experiment file."""
    return units.show("rate", quantities.parse_rate(word))


def take(key: str, read: Callable[[Word], Any]) -> Option:
    """Return a word with a value, which becomes that of a key."""
    return Option(key, read)


def make_flags(key: str, words: Mapping[str, Any]) -> dict[str, Option]:
    """Return words each of which is a value of one key."""
    return {word: Option(key, value=value) for word, value in words.items()}


def leave(why: str, read: Callable[[Word], Any] | None = None) -> Option:
    """Return a word that changes nothing here."""
    return Option(read=read, why_left=why)


def refuse(remedy: str, read: Callable[[Word], Any] | None = None) -> Option:
    """Return a word that would change a run, and which no key stands for."""
    return Option(read=read, remedy=remedy)
