"""Files and folders: what the system refuses becomes an error that speaks to the user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dumbbell.errors import Unreadable, Unwritable, WrongValue, quote_value
from dumbbell.scratch import replace_whole

# what files are called, and folders are not
_OF_FILES = re.compile(
    r"\.(bz2|csv|duckdb|flent|gz|html?|jsonl?|md|parquet|pcap|pcapng|pdf|png|ps|qlog|sqlog|svg|tex|toml|txt|xml|zip)",
    re.IGNORECASE,
)


def get_reason(error: Exception) -> str:
    """Return what the system says, without the name of the file: `no space left on device`."""
    return (getattr(error, "strerror", None) or str(error)).lower()


@contextmanager
def _report_failures(
    kind: type[Unreadable | Unwritable], path: str | Path, allowed: str = "", *, command: str = "", option: str = ""
) -> Iterator[None]:
    """Let errors of the system be errors of this kind, of the path, or of an option of a command that names it."""
    try:
        yield
    except OSError as error:
        if command:
            raise kind(f"{path}: {get_reason(error)}", allowed, file=command, option=option) from None
        raise kind(get_reason(error), allowed, file=path) from None


report_write_failures = partial(_report_failures, Unwritable)
report_read_failures = partial(_report_failures, Unreadable)


def write_text(path: Path, text: str, allowed: str, *, command: str = "", option: str = "") -> None:
    """Write a text file whole, or leave what is there; raises Unwritable."""
    with report_write_failures(path, allowed, command=command, option=option), replace_whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def refuse_file_name(path: str | Path, allowed: str, *, command: str | None = None, option: str = "--output") -> None:
    """Raise WrongValue if a folder that does not exist yet would get the name of a file: `out.pdf`."""
    if _OF_FILES.fullmatch(Path(path).suffix) and not Path(path).is_dir():
        raise WrongValue(quote_value(str(path)), allowed, command=command, option=option)


def make_folder(
    path: str | Path, allowed: str = "a folder that can be written to", *, command: str = "", option: str = ""
) -> Path:
    """Make a folder and those above, if it is not there, and return it; raises InputError."""
    if option:
        refuse_file_name(path, "the name of a folder", command=command or None, option=option)
    with report_write_failures(path, allowed, command=command, option=option):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)
