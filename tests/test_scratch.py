"""Folders for the time of a process, and files that appear whole."""

import fcntl
import os
import resource
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

import dumbbell
from conftest import described
from dumbbell.errors import Unwritable
from dumbbell.figures.interactive.chart_page import write
from dumbbell.scratch import Scratch, clear, create_whole, keep_whole, replace_whole

HOLD = """
import sys
from pathlib import Path
from dumbbell.scratch import Scratch
held = Scratch(Path(sys.argv[1]))
(held.path / "file").touch()
print(held.path, flush=True)
sys.stdin.readline()
"""


def test_a_folder_stays_while_its_process_runs_and_goes_when_the_next_one_clears(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        path = Path(child.stdout.readline().strip())
        clear(tmp_path)
        assert (path / "file").exists(), "it is in use"
        child.kill()
        child.wait()
    assert (path / "file").exists(), "the process could not remove it"
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_clears_its_place_and_goes_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "dumbbell-scratch-abcd_123").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/dumbbell-scratch-")
    assert list(tmp_path.iterdir()) == []


def test_what_is_called_otherwise_stays(tmp_path: Path) -> None:
    names = {"dumbbell-main", "dumbbell-scratch-", "dumbbell-scratch-mine", "scratch", "dumbbell-scratch-ABCDEFGH"}
    for name in names:
        (tmp_path / name).mkdir()
    elsewhere = tmp_path / "scratch" / "file"
    elsewhere.touch()
    (tmp_path / "dumbbell-scratch-abcdefgh").symlink_to(elsewhere.parent)
    (tmp_path / "dumbbell-scratch-abcdefg1").write_text("a file")
    clear(tmp_path, tmp_path / "nowhere", elsewhere)
    assert {path.name for path in tmp_path.iterdir()} == names | {
        "dumbbell-scratch-abcdefgh",
        "dumbbell-scratch-abcdefg1",
    }
    assert elsewhere.exists()


def test_what_another_user_has_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dumbbell-scratch-abcdefgh").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    clear(tmp_path)
    assert (tmp_path / "dumbbell-scratch-abcdefgh").exists()


def test_a_folder_that_is_cleared_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = fcntl.flock, iter(range(100))

    def late(file: int, how: int) -> None:
        if how == fcntl.LOCK_EX and next(times) < 2:
            clear(tmp_path)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Scratch(tmp_path) as path:
        assert next(times) == 3
        assert list(tmp_path.iterdir()) == [path]
        clear(tmp_path)
        assert path.exists()


def test_many_that_make_and_clear_at_once_keep_what_is_theirs(tmp_path: Path) -> None:
    lost: list[Path] = []

    def work() -> None:
        for _ in range(50):
            with Scratch(tmp_path) as path:
                (path / "file").write_text("x")
                clear(tmp_path)
                if not (path / "file").exists():
                    lost.append(path)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (lost, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize("nameless", [True, False])
def test_a_file_appears_whole_and_never_over_another(
    nameless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    create_whole(tmp_path / "new", b"content")
    assert (tmp_path / "new").read_bytes() == b"content"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~umask()
    with pytest.raises(FileExistsError):
        create_whole(tmp_path / "new", b"other")
    assert (tmp_path / "new").read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        create_whole(tmp_path / "nowhere" / "new", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_without_links_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    create_whole(tmp_path / "new", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_was_half_written_goes_and_what_stood_there_before_stays(
    tmp_path: Path, error: type[BaseException]
) -> None:
    new, old, over = (tmp_path / name for name in ("new", "old", "over"))
    old.write_text("of an earlier run")
    over.write_text("of an earlier run")
    with pytest.raises(error), keep_whole([new, old, over]):
        new.write_text("half")
        over.write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "of an earlier run"


@pytest.mark.parametrize("old", [None, "of an earlier run"])
def test_a_file_is_replaced_by_a_whole_one_or_stays(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "page.html"
    if old is not None:
        path.write_text(old)
        path.chmod(0o640)
    with pytest.raises(OSError), replace_whole(path) as draft:
        draft.write_text("half")
        raise OSError
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == ([("page.html", old)] if old else [])
    with replace_whole(path) as draft:
        assert draft.suffix == ".html"  # which says the format
        draft.write_text("whole")
    assert path.read_text() == "whole" and list(tmp_path.iterdir()) == [path]
    assert old is None or path.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to_itself(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replace_whole(pipe) as draft:
        assert draft == pipe
    with replace_whole(Path(os.devnull)) as draft:
        assert draft == Path(os.devnull)


@pytest.mark.slow
def test_a_full_disk_leaves_no_empty_files(tmp_path: Path) -> None:
    results = dumbbell.run(described(duration="1s"), output=tmp_path / "r.duckdb")
    (tmp_path / "out").mkdir()
    old = tmp_path / "out" / "old.html"
    old.write_text("of an earlier run")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    drawn = results.plot("bars", value="goodput")
    drawings = (partial(write, drawn), results.report)
    for name, which in (("p.png", 0), ("p.svg", 0), ("p.html", 0), ("r.html", 1), ("old.html", 1)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(Unwritable):
                drawings[which](tmp_path / "out" / name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "out").iterdir()) == [old] and old.read_text() == "of an earlier run"
