"""`dumbbell shell` and `dumbbell watch`: programs behind a bottleneck, what is measured, and that nothing is left."""

import contextlib
import csv
import hashlib
import importlib.util
import json
import os
import pty
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from dumbbell import _native
from dumbbell.errors import InputError
from dumbbell.shell import session as shell
from dumbbell.shell import watch
from dumbbell.watch.sparks import draw_sparks
from terminal import Terminal, echoes

pytestmark = [pytest.mark.timed, pytest.mark.skipif(not hasattr(_native, "Shell"), reason="shells need Linux")]

LINK = """\
[bottleneck]
rate = "8Mbit"
aqm = { name = "codel", ecn = true }

[[flows]]
base_rtt = "20ms"
cc = "cubic"

[hosts]
ecn = true

[record]
interval = "100ms"
"""
PYTHON = sys.executable
FETCH = "import sys, urllib.request as r; sys.stdout.buffer.write(r.urlopen(sys.argv[1], timeout=20).read())"
HERE = Path(__file__).parent


def fetched(url: str) -> list[str]:
    return ["--", PYTHON, "-c", FETCH, url]


@pytest.fixture
def link(tmp_path: Path) -> Path:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    return path


def line(*arguments: str | Path) -> list[str]:
    return [PYTHON, "-m", "dumbbell", *map(str, arguments)]


def _skip_where_forbidden(status: int, said: str) -> None:
    if status == 2 and "no permission for network namespaces" in said:
        pytest.skip(said.strip())


Shell = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(link: Path) -> Shell:
    """Run a shell in an empty folder; skips where network namespaces are not allowed."""

    def of(*arguments: str | Path, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        command = line("shell", link, *arguments)
        done = subprocess.run(command, cwd=link.parent, capture_output=True, timeout=100, check=False, **options)
        _skip_where_forbidden(done.returncode, done.stderr.decode())
        return done

    return of


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of one session; skips where network namespaces are not allowed."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "link.toml").write_text(LINK)
    command = line("shell", "link.toml", "--", "true")
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=100, check=False)
    _skip_where_forbidden(done.returncode, done.stderr.decode())
    assert done.returncode == 0, done.stderr
    return folder / "results.duckdb"


def measured(path: Path) -> tuple[dict[str, dict[str, Any]], pl.DataFrame]:
    """Return the run of each direction, and the flows."""
    results = dumbbell.open(path)
    runs = {json.loads(row["config"])["shell"]["direction"]: row for row in results.runs.iter_rows(named=True)}
    return runs, results.flows


def content(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def test_a_download_over_http_passes_the_bottleneck(run: Shell, tmp_path: Path) -> None:
    sent = content(2_000_000)
    (tmp_path / "file").write_bytes(sent)
    done = run("--server", f"exec {PYTHON} -m http.server 8080 --bind 0.0.0.0", *fetched("http://far:8080/file"))
    assert done.returncode == 0, done.stderr.decode()
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(sent).digest()
    runs, flows = measured(tmp_path / "results.duckdb")
    down = runs["down"]
    # 2 MB take 2 s at 8 Mbit/s, headers not counted: nothing went past the link
    assert 2.0 < down["wall_s"] < 20.0
    assert down["throughput_mbit"] <= 8.0
    assert down["ce_marks"] > 0
    assert runs["up"]["throughput_mbit"] < 1.0
    flow = flows.filter(pl.col("direction") == "down").row(0, named=True)
    assert (flow["cc"], flow["source"]) == ("tcp", "10.200.0.2:8080")
    assert flow["destination"].startswith("10.200.0.1:")
    assert flow["ce_marks"] == down["ce_marks"]
    assert flow["packets"] == down["packets"]
    # the file and a header of HTTP, over the lifetime of the flow
    assert 0.5 * 8.0 < flow["goodput_mbit"] < 8.0 * 1448 / 1514
    series = dumbbell.open(tmp_path / "results.duckdb").where("shell.direction=down").queue_series
    # a point of the series is as late as the thread that takes it: this allows for a stall of 50 ms
    assert 6.0 < max(series["throughput_mbit"].drop_nulls()) <= 8.0 * 1.5


@pytest.mark.skipif(importlib.util.find_spec("aioquic") is None, reason="needs aioquic, of requirements-dev.txt")
def test_a_quic_transfer_passes_the_bottleneck(run: Shell, tmp_path: Path) -> None:
    sent = content(500_000)
    (tmp_path / "file").write_bytes(sent)
    script = HERE / "quic_file.py"
    server = f"exec {PYTHON} {script} serve file 4433"
    # a short queue, since QUIC of this kind knows no ECN
    narrow = ["--set", "bottleneck.rate=2Mbit", "--set", 'bottleneck.aqm={ name = "pfifo", limit = 10 }']
    done = run(*narrow, "--server", server, "--", PYTHON, script, "fetch", "far", "4433", "got")
    assert done.returncode == 0, done.stderr.decode()
    assert hashlib.sha256((tmp_path / "got").read_bytes()).digest() == hashlib.sha256(sent).digest()
    runs, flows = measured(tmp_path / "results.duckdb")
    assert runs["down"]["drops"] > 0
    assert flows["cc"].unique().to_list() == ["udp"]
    flow = flows.filter(pl.col("direction") == "down").row(0, named=True)
    assert flow["source"] == "10.200.0.2:4433"
    assert flow["drops"] == runs["down"]["drops"]
    # the file and what QUIC adds to it, over the lifetime of the flow
    assert 0.5 < flow["goodput_mbit"] < 2.0
    assert runs["down"]["throughput_mbit"] <= 2.0


def test_status_folder_environment_and_user_are_those_of_the_command(run: Shell, tmp_path: Path) -> None:
    ask = 'pwd; id -u; echo "$WHAT"; cat; exit 7'
    done = run("--", "sh", "-c", ask, env={**os.environ, "WHAT": "a b"}, input=b"typed")
    assert done.returncode == 7, done.stderr.decode()
    assert done.stdout.decode() == f"{tmp_path}\n{os.getuid()}\na b\ntyped"
    assert run("--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert run("--", "./nothing").returncode == 127
    assert run("--", "/").returncode == 126


def test_the_way_out_leads_to_the_host_in_tcp_and_udp(run: Shell, tmp_path: Path) -> None:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))

    def echo() -> None:
        with contextlib.suppress(OSError):
            while True:
                question, client = udp.recvfrom(2000)
                udp.sendto(question.upper(), client)

    threading.Thread(target=echo, daemon=True).start()
    sent = content(300_000)
    (tmp_path / "file").write_bytes(sent)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([PYTHON, "-m", "http.server", str(port), "--bind", "127.0.0.1"], cwd=tmp_path)
    ask = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5);"
        f"a = ('host', {udp.getsockname()[1]}); s.sendto(b'one ', a); print(s.recv(9).decode(), end='');"
        "s.sendto(b'two', a); print(s.recv(9).decode())"
    )
    try:
        assert until(lambda: answers(port))
        done = run(*fetched(f"http://host:{port}/file"))
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == sent
        done = run("--", PYTHON, "-c", ask)
        assert (done.returncode, done.stdout) == (0, b"ONE TWO\n"), done.stderr.decode()
        # nobody listens there: the connection is refused or reset, soon
        assert run(*fetched(f"http://host:{udp.getsockname()[1]}/")).returncode == 1
        assert run("--alone", *fetched(f"http://host:{port}/file")).returncode == 1
    finally:
        udp.close()
        server.terminate()
        server.wait()


@pytest.fixture
def mark() -> Iterator[dict[str, str]]:
    """Yield an environment by which processes are found, and end them."""
    found = {**os.environ, "DUMBBELL_TEST": uuid.uuid4().hex}
    yield found
    for pid in marked(found):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: dict[str, str]) -> list[int]:
    wanted = f"DUMBBELL_TEST={mark['DUMBBELL_TEST']}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def command_line(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def answers(port: int) -> bool:
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def until(true: Callable[[], Any], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", ["end", "SIGINT", "SIGTERM", "SIGKILL", "SIGKILL of its process"])
def test_nothing_is_left(how: str, once: Path, link: Path, mark: dict[str, str]) -> None:
    shutil.copy(once, link.parent)
    # one that ignores what is asked of it, in a session of its own
    stubborn = "trap '' TERM HUP INT; while :; do sleep 1; done"
    ask = f'setsid sh -c "{stubborn}" & echo here; sleep {1 if how == "end" else 100}'
    began = line("shell", link, "--server", f"exec {PYTHON} -m http.server 80", "--", "sh", "-c", ask)

    def sleeps() -> bool:
        return any(command_line(pid) == b"sleep\x00100\x00" for pid in marked(mark))

    with subprocess.Popen(
        began,
        cwd=link.parent,
        env=mark,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored below a shell's &
    ) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"here\n"
        children = marked(mark)
        if how == "SIGINT":  # as a terminal does; dash puts off what comes while it starts a program
            assert until(sleeps)
            os.killpg(session.pid, signal.SIGINT)
            # what came while the shell started its program reached neither: it is pressed again
            if not until(lambda: not sleeps(), 3.0):
                os.killpg(session.pid, signal.SIGINT)
        elif how == "SIGKILL of its process":
            child = Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text().split()
            os.kill(int(child[0]), signal.SIGKILL)
        elif how != "end":
            session.send_signal(signal.Signals[how])
        status = session.wait(20)
    expected = {"end": 0, "SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9, "SIGKILL of its process": 2}
    assert status == expected[how]
    assert len(children) >= 4
    assert until(lambda: not marked(mark)), marked(mark)
    # two of the first session; one that was told to end keeps what was measured
    kept = 4 if how in ("end", "SIGINT", "SIGTERM") else 2
    assert len(dumbbell.open(link.parent / "results.duckdb")) == kept


# keys that are pressed at the wrong moment do nothing: the test can fail where the program is right
RACES = pytest.mark.skipif("DUMBBELL_KILLS" not in os.environ, reason="make killed: depends on when keys are pressed")


@RACES
def test_a_shell_of_its_own_has_a_terminal_and_job_control(link: Path, run: Shell) -> None:
    run("--", "true")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(link.parent)
        os.execve(
            PYTHON, line("shell", link), {**os.environ, "SHELL": "/bin/bash", "PS1": "% ", "HOME": "/nonexistent"}
        )
    said = b""

    def comes(wanted: bytes, seconds: float = 20.0) -> bool:
        nonlocal said
        deadline = time.monotonic() + seconds
        while wanted not in said and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    said += os.read(terminal, 4096)
        found = wanted in said
        said = said.partition(wanted)[2]
        return found

    try:
        os.write(terminal, b"echo be''gun\n")
        assert comes(b"begun"), said
        os.write(terminal, b"sleep 100; echo in''terrupted $?\n")
        time.sleep(0.5)
        os.write(terminal, b"\x03")
        time.sleep(0.5)
        os.write(terminal, b"sleep 100\n")
        time.sleep(0.5)
        os.write(terminal, b"\x1a")
        assert comes(b"Stopped"), said
        os.write(terminal, b"kill -9 %1; wait; echo in the ba''ckground\n")
        assert comes(b"in the background"), said
        os.write(terminal, b"exit 7\n")
        assert comes(b"exit"), said
        said_at_end = until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
        comes(b"never", 0.5)
        assert said_at_end
    finally:
        with contextlib.suppress(ProcessLookupError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.usefixtures("once")
def test_watch_on_a_terminal_obeys_its_keys(link: Path) -> None:
    path = link.parent / "keys.duckdb"
    with subprocess.Popen(line("shell", link, "-o", path, "--", "sleep", "60"), cwd=link.parent) as session:
        try:
            assert until(
                lambda: [one for one in watch.list_running() if one.about["output"] == str(path.resolve())], 60
            )
            terminal = Terminal(link.parent, "watch", str(path))
            try:
                assert terminal.comes("share of the link")
                assert not echoes(terminal.now())
                assert terminal.comes("share of the link")  # it is drawn again
                terminal.press(" ")
                terminal.comes("\0never", 1.0)
                terminal.said = b""
                assert not terminal.comes("share of the link", 1.5)
                terminal.press(" ")
                assert terminal.comes("share of the link")
                terminal.press("q")
                assert terminal.ends() == 0
                assert terminal.now() == terminal.modes
                assert session.poll() is None
            finally:
                terminal.close()
        finally:
            session.terminate()


@pytest.mark.usefixtures("once")
def test_watch_shows_what_goes_on(link: Path) -> None:
    (link.parent / "file").write_bytes(content(3_000_000))
    server = f"exec {PYTHON} -m http.server 8080 --bind 0.0.0.0"
    ask = 'while [ ! -e go ]; do sleep 0.1; done; exec "$@"'
    began = line("shell", link, "-o", "watched.duckdb", "--server", server, "--", "sh", "-c", ask, "sh")
    path = link.parent / "watched.duckdb"
    with subprocess.Popen(
        [*began, *fetched("http://far:8080/file")[1:]], cwd=link.parent, stdout=subprocess.DEVNULL
    ) as session:
        assert until(lambda: [one for one in watch.list_running() if one.about["output"] == str(path.resolve())], 60)
        command = line("watch", path, "--format", "csv", "--interval", "200ms")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            seen = watching.stdout.readline() + watching.stdout.readline()
            (link.parent / "go").touch()
            seen += watching.stdout.read()
            assert watching.wait() == 0
        assert session.wait(20) == 0
    rows = list(csv.DictReader(seen.splitlines()))
    down = [row for row in rows if row["direction"] == "down"]
    rates = [float(row["rate_mbit"]) for row in down]
    assert len(down) >= 5
    assert max(rates) <= 8.0 + 1514 * 8e-6 / 0.19
    assert max(rates) > 6.0
    assert any(float(row["sojourn_ms"] or 0) > 1.0 for row in down)
    runs, _ = measured(path)
    assert sum(int(row["marks"]) for row in down) <= runs["down"]["ce_marks"]
    assert subprocess.run(line("watch", path), capture_output=True, check=False).returncode == 2


def test_the_way_up_has_its_own_values(link: Path) -> None:
    cells = shell.load(str(link), ["bottleneck.rate=4Mbit"], ["bottleneck.rate=1Mbit"])
    assert {name: cell.groups["bottleneck"]["rate"] for name, cell in cells.items()} == {"up": 10**6, "down": 4 * 10**6}


def test_the_way_up_is_what_the_file_says(link: Path) -> None:
    down, up = '[bottleneck]\naqm = "cake"\nrate = "50Mbit"\n', 'aqm = { name = "cake", rtt = "50ms" }\n'
    both = f'{down}[reverse]\nrate = "10Mbit"\n{up}'
    link.write_text(both + '[[flows]]\ncc = "cubic"\nbase_rtt = "30ms"\n[[flows]]\ncc = "reno"\ndirection = "up"\n')
    cells = shell.load(str(link), ["reverse.rate=8Mbit"], [])
    assert {name: shell.describe_bottleneck(cell) for name, cell in cells.items()} == {
        "up": "8Mbit cake 30ms",
        "down": "50Mbit cake 30ms",
    }
    assert (
        cells["up"].groups["bottleneck"]["aqm"]["rtt"] == 50_000_000 != cells["down"].groups["bottleneck"]["aqm"]["rtt"]
    )
    assert "reverse" not in cells["down"].groups and "direction" not in cells["up"].groups["flows"][0]


REVERSE = '[bottleneck]\naqm = "codel"\n[reverse]\naqm = "codel"\n'


@pytest.mark.parametrize(
    ("text", "up", "wrong", "allowed"),
    [
        (REVERSE, ["bottleneck.rate=1Mbit"], "[reverse]", "--set reverse."),
        (REVERSE + '[[hop]]\nname = "a"\naqm = "codel"', [], "further hops", "[reverse]"),
        (REVERSE + 'delay = "5ms"', [], "propagation", "base_rtt"),
        (REVERSE + 'link = "docsis"', [], "docsis", "shaper"),
        ('[bottleneck]\naqm = "codel"\n[matrix]\n"bottleneck.rate" = ["1Mbit", "2Mbit"]', [], "2 cells", "--set"),
        ('[bottleneck]\naqm = "csaqm"\n[[flows]]\ncc = "cubic"', [], "csaqm", "headers"),
        ('[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "cubic"\nloss = 0.1', [], "stages", "none"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(text: str, up: list[str], wrong: str, allowed: str, link: Path) -> None:
    link.write_text(text)
    with pytest.raises(InputError) as caught:
        shell.load(str(link), [], up)
    assert wrong in caught.value.found
    assert allowed in caught.value.allowed


def test_what_the_queue_on_the_way_up_cannot_do_is_said_of_reverse(link: Path) -> None:
    link.write_text('[bottleneck]\naqm = "codel"\n[reverse]\naqm = { name = "cake", ack_filter = "on" }\n')
    with pytest.raises(InputError) as caught:
        shell.load(str(link), [], [])
    assert caught.value.key == "reverse.aqm.ack_filter" and "off" in caught.value.allowed


def test_queues_of_two_kinds_carry_a_session(link: Path, run: Shell) -> None:
    link.write_text('[bottleneck]\naqm = "pie"\n[reverse]\naqm = "cake"\nrate = "5Mbit"\n')
    done = run("--", "true")
    assert done.returncode == 0, done.stderr


def test_a_file_without_flows_has_the_default_base_rtt(link: Path) -> None:
    link.write_text('[bottleneck]\naqm = "codel"\nrate = "5Mbit"')
    assert shell.describe_bottleneck(shell.load(str(link), [], [])["down"]) == "5Mbit codel 20ms"


def test_a_server_that_ends_at_once_is_said(run: Shell) -> None:
    done = run("--server", "exit 3", "--", "true")
    assert done.returncode == 2
    assert b'"exit 3" ended with status 3; this needs a program that listens' in done.stderr


def test_bars_are_as_high_as_the_values() -> None:
    assert draw_sparks([0.0, 4.0, 8.0, 9.0], 8.0) == " ▄██"
    assert draw_sparks([1.0], 0.0) == " "
