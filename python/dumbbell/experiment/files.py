"""Files that an experiment names: each is read once, however many runs it is for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


class Files:
    """Files whose names are relative to `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checked: dict[tuple[str, bytes], tuple[dict[str, Any], dict[str, Any]]] = {}
        """Tables that name files and are known to be right, canonical: with every key, and with those given."""
        self.uses = 0
        """How often a file was asked for."""
        self._known: dict[tuple[Callable[[Path], Any], str], Any] = {}

    def read(self, name: str, reader: Callable[[Path], Any]) -> Any:
        """Return what `reader` makes of the file `name`, the same object for every call."""
        self.uses += 1
        if (reader, name) not in self._known:
            self._known[reader, name] = reader(self.folder / name)
        return self._known[reader, name]
