"""Folders for what a process needs only while it runs, and files that are whole or not there.

The folders go with the process; if it is killed, the next command removes them.

A process holds a lock on each of its folders. The kernel releases it when the process ends, however it ends. So a
folder without a lock is a leftover. Process numbers would not tell: containers that share a folder have different ones.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "dumbbell-scratch-"  # mkdtemp adds eight characters; nobody calls a folder of his own so
_NAME = re.compile(_PREFIX + r"[a-z0-9_]{8}")
_ATTEMPTS, _AGAIN_S = 40, 0.05  # to remove a folder to which a child of the killed process may still write for a moment


class Scratch:
    """A new folder in `parent`, by default that of temporary files; a context manager that yields its path."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder, and remove what killed processes left in `parent`. Raises OSError."""
        parent = parent or Path(tempfile.gettempdir())
        clear(parent)
        path, file = _make_folder(parent)
        self.path = path
        self._end = weakref.finalize(self, _remove, path, file)

    def close(self) -> None:
        """Remove the folder."""
        self._end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def find_cache_folder(name: str) -> Path:
    """Return the folder `dumbbell/NAME` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG base directory specification ignores paths that are not absolute
    return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "dumbbell" / name


def find_kernels_folder() -> Path:
    """Return the folder of kernels and of their runs: $DUMBBELL_LINUX, else dumbbell/linux in the user's cache."""
    chosen = os.environ.get("DUMBBELL_LINUX")
    return Path(chosen).absolute() if chosen else find_cache_folder("linux")


def clear_leftovers() -> None:
    """Remove what killed processes of this user left wherever dumbbell makes folders."""
    clear(Path(tempfile.gettempdir()), SHARED_MEMORY, find_kernels_folder() / "runs")


def _make_folder(parent: Path) -> tuple[Path, int]:
    """Return a new folder and an open file of it that is locked."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # taken for a leftover, since it was not locked yet
            continue
        with contextlib.suppress(OSError):  # a file system without locks, where `clear` removes nothing
            fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return path, file
        os.close(file)


def _remove(path: Path, file: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(file)


def clear(*parents: Path) -> None:
    """Remove the folders that killed processes of this user left in `parents`."""
    for parent in parents:
        with contextlib.suppress(OSError), os.scandir(parent) as entries:
            for name in [entry.name for entry in entries if _NAME.fullmatch(entry.name)]:
                with contextlib.suppress(OSError):
                    _clear(parent / name)


def _clear(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(file).st_uid != os.geteuid():
            return
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: in use
        for _ in range(_ATTEMPTS):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                return
            time.sleep(_AGAIN_S)
    finally:
        os.close(file)


@contextlib.contextmanager
def keep_whole(paths: Iterable[Path]) -> Iterator[None]:
    """Remove those of the files that were written meanwhile if it comes to nothing, by an error or by Ctrl-C."""
    before = {path: _read_state(path) for path in paths}
    try:
        yield
    except BaseException:
        for path, state in before.items():
            if path.is_file() and _read_state(path) != state:  # no pipe, and no file that stands as it was
                path.unlink()
        raise


@contextlib.contextmanager
def replace_whole(path: Path) -> Iterator[Path]:
    """Yield a file to write to, which takes the place of `path` once it is complete; else `path` stays as it was.

    A pipe, a device, and a file in a folder where none can be made are written to themselves.
    """
    path = path.resolve()
    if (path.exists() and not (path.is_file() and os.access(path, os.W_OK))) or not os.access(path.parent, os.W_OK):
        yield path
        return
    draft = path.with_name(f"{path.stem[:100]}.{os.getpid()}.new{path.suffix}")
    try:
        yield draft
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read_state(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is written; None if there is none."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def create_whole(path: Path, content: bytes) -> None:
    """Make a file, complete at the moment at which it appears. Raises OSError, FileExistsError if there is one."""
    try:
        _create_nameless(path, content)
    except FileExistsError:
        raise
    except OSError:  # a file system or a system without files that have no name
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            draft.write_bytes(content)
            try:
                os.link(draft, path)  # unlike rename() not over another file
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)


def _create_nameless(path: Path, content: bytes) -> None:
    """Do so without another name before, so that a kill leaves nothing: open(2) on O_TMPFILE."""
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    with open(os.open(path.parent, nameless | os.O_WRONLY, 0o666), "wb") as file:  # noqa: PTH123
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        # src_dir_fd has no part in an absolute path, but only with it does Python follow the link
        os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=file.fileno())
