"""Files and folders: what the system refuses becomes an error that speaks to the user."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dumbbell.errors import Unreadable, Unwritable
from dumbbell.scratch import replace_whole


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


def make_folder(
    path: str | Path, allowed: str = "a folder that can be written to", *, command: str = "", option: str = ""
) -> Path:
    """Make a folder and those above, if it is not there, and return it; raises Unwritable."""
    with report_write_failures(path, allowed, command=command, option=option):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)
