"""The folders whose plugins may be loaded: those that the user has named, for this process or once for all."""

import os
from pathlib import Path

from dumbbell.errors import Needs, escape_line, join_names
from dumbbell.writing import report_write_failures

VARIABLE = "DUMBBELL_TRUST"  # folders, separated as in PATH

_here: set[Path] = set()  # for this process


def _find_file() -> Path:
    """Return the file with the folders that are trusted for good, one a line."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "dumbbell" / "trusted"


def list_folders() -> list[Path]:
    """Return the folders that are trusted, for good and for this process."""
    try:
        lines = _find_file().read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        lines = []
    lines += os.environ.get(VARIABLE, "").split(os.pathsep)
    return [*(Path(line) for line in lines if line.strip()), *sorted(_here)]


def is_trusted(path: Path) -> bool:
    """Whether a file lies in a folder that is trusted, or in one below."""
    place = path.resolve()
    return any(place.is_relative_to(folder.expanduser().resolve()) for folder in list_folders())


def check(path: Path) -> None:
    """Raise InputError, said of the key `plugin`, if the code in a file may not be run."""
    if not is_trusted(path):
        folder = path.resolve().parent
        how = f"dumbbell run --trust, or once for all: dumbbell plugin trust {folder}"
        if _here:  # --trust was given, and does not reach it
            trusted = join_names([escape_line(str(one)) for one in sorted(_here)])
            how = f"dumbbell plugin trust {folder}, once for all: --trust and dumbbell.trust are about {trusted} here"
        raise Needs(f"you to trust {escape_line(path.name)}, which is code", how, key=".plugin")


def trust(folder: str | Path) -> None:
    """Let experiments load the plugins in a folder, and in those below, as long as this process lives: it is code."""
    _here.add(Path(folder).resolve())


def trust_permanently(folder: Path) -> Path:
    """Trust the plugins in a folder, and in those below, for good; return the file that says so. Raises InputError."""
    file, place = _find_file(), folder.resolve()
    with report_write_failures(file):
        known = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if file.exists() else []
        if str(place) not in known:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8", errors="surrogateescape") as out:
                out.write(f"{place}\n")
    return file
