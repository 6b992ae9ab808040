"""Text with commands of tc(8), cut into words that know where they stand."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from dumbbell.errors import InputError

# a word with its quotes, the end of a line that goes on, or what stands between commands of a shell
_TOKEN = re.compile(r"""(?:[^\s"'\\;&|]|"[^"]*"|'[^']*'|\\\S|["'])+|\\$|[;&|]+""")
_REDIRECTION = re.compile(r"(?<!\S)[0-9]?>{1,2}(?:&[0-9]|\s*[^\s;&|]+)")
_QUOTES = re.compile(r"""["']|\\(?=\S)""")
_BETWEEN = re.compile(r"[;&|]+")
# words of a shell, and of those who need to be root, in front of a command
_IN_FRONT = ("then", "do", "else", "!", "{", "(", "sudo", "doas", "time", "exec")


@dataclass(frozen=True)
class Source:
    """Where text is from: the name of its file, or `tc` for arguments; its lines."""

    name: str
    lines: tuple[str, ...]
    only_commands: bool = False
    """Whether every line has to be a command of tc."""


class Word(str):
    """A word of a command, with its line and its column, which count from 1."""

    __slots__ = ("column", "line", "source")
    source: Source
    line: int
    column: int

    @classmethod
    def make(cls, text: str, source: Source, line: int, column: int) -> Self:
        """Return a word at a place."""
        word = cls(text)
        word.source, word.line, word.column = source, line, column
        return word

    def replace_text(self, text: str) -> "Word":
        """Return another word at the same place."""
        return Word.make(text, self.source, self.line, self.column)


def place_error(error: InputError, word: Word) -> InputError:
    """Return an error with the place of a word."""
    other = error.move(word.source.name, error.key)
    other.of_file = True
    other.line, other.column, other.width = word.line, word.column, max(1, len(word))
    other.source = word.source.lines[word.line - 1]
    return other


def split_commands(source: Source) -> Iterator[list[Word]]:
    """Yield the words of each command: one for each line, unless a line goes on or has several."""
    words: list[Word] = []
    for number, line in enumerate(source.lines, start=1):
        goes_on = False
        bare = _REDIRECTION.sub(lambda found: " " * len(found[0]), line)
        for token in _TOKEN.finditer(bare):
            text = token[0]
            if text.startswith("#"):
                break
            if text == "\\":
                goes_on = True
            elif _BETWEEN.fullmatch(text):
                yield from _finish(words)
                words = []
            else:
                words.append(Word.make(_QUOTES.sub("", text), source, number, token.start() + 1))
        if not goes_on:
            yield from _finish(words)
            words = []
    yield from _finish(words)


def _finish(words: list[Word]) -> Iterator[list[Word]]:
    while words and words[0] in _IN_FRONT:
        words = words[1:]
    if words:
        yield words
