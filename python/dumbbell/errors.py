"""Errors that speak to the user: which file, which key, what was found, what is allowed."""

import difflib
import json
from collections.abc import Iterable
from typing import Any


def one_line(text: str) -> str:
    """Return `text` with everything that does not print, line breaks included, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: Any, limit: int = 60) -> str:
    """Return `value` as it would stand in a TOML file, cut to `limit` characters."""
    match value:
        case bool():
            text = "true" if value else "false"
        case int() if abs(value) > 10**30:
            text = f"an integer of {value.bit_length()} bits"
        case str():
            text = json.dumps(value[: limit + 1], ensure_ascii=False)
        case dict():
            text = "{" + ", ".join(f"{k} = {shown(v, limit)}" for k, v in list(value.items())[:8]) + "}"
        case list():
            text = "[" + ", ".join(shown(v, limit) for v in value[:8]) + ("]" if len(value) <= 8 else ", ...]")
        case None:
            text = "nothing"
        case _:
            text = str(value)
    return text if len(text) <= limit else text[:limit] + "..."


def nearest(word: Any, words: Iterable[str]) -> str | None:
    """Return the one of `words` that `word` is most likely a misspelling of, if any."""
    if not isinstance(word, str):
        return None
    by_folded = {w.casefold().replace("-", "_"): w for w in words}
    close = difflib.get_close_matches(word[:100].casefold().replace("-", "_"), by_folded, n=1, cutoff=0.5)
    return by_folded[close[0]] if close else None


class InputError(ValueError):
    """Bad input; its text is one line: `FILE: KEY: found X, allowed: Y (nearest: Z)`."""

    def __init__(self, file: str, key: str, found: str, allowed: str, nearest: str | None = None) -> None:
        self.file, self.key, self.found, self.allowed, self.nearest = file, key, found, allowed, nearest
        parts = [part for part in (file, key) if part]
        tail = f" (nearest: {nearest})" if nearest else ""
        super().__init__(one_line(": ".join([*parts, f"found {found}, allowed: {allowed}{tail}"])))

    def within(self, file: str, prefix: str = "") -> "InputError":
        """Return the same error, said of `file`, with `prefix` before its key."""
        return InputError(file, prefix + self.key, self.found, self.allowed, self.nearest)
