"""A new study: a copy of a small one that works."""

import shutil
from pathlib import Path

from dumbbell.errors import Unwritable
from dumbbell.writing import report_write_failures

EXAMPLE = Path(__file__).with_name("example")


def make(folder: Path) -> list[Path]:
    """Make a folder with a study and return its files; raises InputError if it exists or cannot be made."""
    if folder.exists():
        raise Unwritable("this folder already exists", "another name", file=folder)
    with report_write_failures(folder, "a folder that can be made"):
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "evidence", "*.duckdb"))
    return sorted(path for path in folder.rglob("*") if path.is_file())
