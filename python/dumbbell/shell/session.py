"""`dumbbell shell`: a shell or a command behind the bottleneck of an experiment file, both directions through it."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NoReturn

import typer

from dumbbell import _native, experiment
from dumbbell.engines.live.engine import LiveEngine, explain_rejection
from dumbbell.errors import (
    Ambiguous,
    Conflict,
    Failed,
    Needs,
    Unsupported,
    Unwritable,
    escape_line,
    parse_engine_error,
    quote_value,
)
from dumbbell.experiment import shipped, units
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.net import list_hops, select_direction
from dumbbell.experiment.schema import SENDERS
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.store import Store

DIRECTIONS = ("up", "down")  # as seen from the command
NOT_FOUND, NOT_RUN = 127, 126  # exit statuses of a shell (POSIX, section 2.8.2)
_FLOW = {"cc": "cubic"}  # of a file without flows: it gives the path its base RTT
_END_S = 5.0  # that the process of the session may take to end by itself
_HOSTS, _RESOLVER = Path("/etc/hosts"), Path("/etc/resolv.conf")


@dataclasses.dataclass(frozen=True)
class Session:
    """The set-up of a session: the bottleneck in each direction, and where its results go."""

    cells: dict[str, Cell]
    command: list[str]
    servers: list[str]
    output: str
    way_out: bool

    @property
    def about(self) -> dict[str, Any]:
        """The first message to `dumbbell watch`."""
        command = shlex.join(self.command)
        output = str(Path(self.output).resolve())
        return {"pid": os.getpid(), "experiment": self.cells["down"].experiment, "command": command, "output": output}

    def describe_job(self) -> dict[str, Any]:
        """Return the instructions for the process of the session."""
        resolver = _find_resolver() if self.way_out else None
        ways = {direction: cell.config for direction, cell in self.cells.items()}
        rest = {"servers": self.servers, "way_out": self.way_out, "about": self.about}
        return ways | rest | {"files": _make_files(resolver), "resolver": resolver}


@dataclasses.dataclass(frozen=True)
class SessionEnd:
    """How a session ended."""

    status: int
    servers: list[tuple[int, int]]
    results: dict[str, _native.Result]


def load(file: str, settings: list[str], up: list[str]) -> dict[str, Cell]:
    """Return the bottleneck of each direction; raises InputError."""
    cells = {}
    replaced = {one.partition("=")[0].strip() for one in up}
    kept = [one for one in settings if one.partition("=")[0].strip() not in replaced]
    for direction, own in (("up", [*kept, *up]), ("down", settings)):
        path = file if Path(file).exists() else shipped.find(Path(file).as_posix()) or file
        table = experiment.read_toml(path, known=shipped.list_experiments())
        if not any(table.get(sender) for sender in ("flows", "web", "udp")):
            table["flows"] = [_FLOW]
        found = experiment.parse(table, str(path), own)
        if found.matrix.size > 1:
            axes = ", ".join(f"{axis.text} ({len(axis.values)})" for axis in found.matrix.axes if len(axis.values) > 1)
            what = f"it describes {found.matrix.size} cells, by {axes}, and a shell has one"
            raise Ambiguous(what, "one with --set KEY=VALUE for each of these keys", file=found.file, key="matrix")
        cell = found.make_cell(0)
        _refuse(cell, found.file, up)
        record = cell.groups["record"] | {"from": 0, "trace": None}
        record.pop("queue", None)
        is_reverse = direction == "up" and cell.groups.get("reverse") is not None
        groups = select_direction(cell.groups, list(SENDERS), up=direction == "up")
        cell = dataclasses.replace(cell, groups=groups | {"record": record})
        try:
            _native.shell_check(cell.config)
        except ValueError as error:
            refused = parse_engine_error(found.file, error)
            if is_reverse and refused.key.startswith("bottleneck"):
                refused = refused.move(found.file, f"reverse{refused.key.removeprefix('bottleneck')}")
            raise refused from None
        cells[direction] = cell
    return cells


def _refuse(cell: Cell, file: str, up: list[str]) -> None:
    """Raise InputError for what a session has no place for: further hops, and two ways to say what is up."""
    if cell.groups.get("hop"):
        raise Unsupported("further hops", "[bottleneck] and [reverse]", file=file, key="hop[0]", where="a session")
    for name, hop in list_hops(cell.groups):
        if (link := hop.get("link")) and link["name"] != "trace":
            found, key, allowed = f"the link {link['name']}", "link", "shaper, or a trace"
        elif hop.get("delay"):
            found, key, allowed = "propagation of a hop", "delay", "base_rtt of the first flow"
        else:
            continue
        raise Unsupported(found, allowed, file=file, key=f"{name}.{key}", where="a session")
    if up and cell.groups.get("reverse") is not None:
        raise Conflict(f"{up[0]} and [reverse] in {file}", "--set reverse.KEY=VALUE", option="--up")


def _find_resolver() -> str | None:
    """Return the address of the host's name server if the host alone reaches it."""
    try:
        lines = _RESOLVER.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    addresses = [line.split()[1] for line in lines if line.split()[:1] == ["nameserver"] and len(line.split()) > 1]
    with contextlib.suppress(ValueError, IndexError):
        address = ipaddress.IPv4Address(addresses[0])
        return str(address) if address.is_loopback else None
    return None


def _make_files(resolver: str | None) -> list[tuple[str, str]]:
    """Return what the command finds in place of files of the host: path and content."""
    addresses = dict(_native.SHELL_ADDRESSES)
    files = []
    if _HOSTS.exists():
        names = "".join(f"{addresses[name]} {name}\n" for name in ("far", "host"))
        files.append((str(_HOSTS), names + _HOSTS.read_text(errors="replace")))
    if resolver is not None:
        others = [line for line in _RESOLVER.read_text().splitlines() if not line.startswith("nameserver")]
        files.append((str(_RESOLVER), "\n".join([f"nameserver {addresses['resolver']}", *others, ""])))
    return files


class _SessionChild:
    """The process of a session."""

    def __init__(self, session: Session) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        script, extension = Path(__file__).with_name("shell_child.py"), str(_native.__file__)
        line = [sys.executable, "-I", "-S", str(script), extension, str(theirs_in), str(theirs_out), *session.command]
        addresses = {f"DUMBBELL_{name.upper()}": address for name, address in _native.SHELL_ADDRESSES[:2]}
        names = {"DUMBBELL_SHELL": session.cells["down"].experiment}
        self.process = subprocess.Popen(line, pass_fds=(theirs_in, theirs_out), env=os.environ | addresses | names)
        os.close(theirs_in)
        os.close(theirs_out)
        self.reports: IO[bytes] = os.fdopen(ours_in, "rb")
        self._orders = os.fdopen(ours_out, "wb", buffering=0)

    def order(self, line: str) -> None:
        """Tell it something; that it is gone already is seen elsewhere."""
        with contextlib.suppress(BrokenPipeError):
            self._orders.write(line.encode() + b"\n")

    def close(self) -> None:
        """End it, and everything that it has begun."""
        self._orders.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _native.end_descendants(0.0)
        self.reports.close()


@contextlib.contextmanager
def _handle_signals(child: _SessionChild) -> Iterator[list[int]]:
    """Leave signals of the terminal to the command, and hand those on that are for us; yields these as they come."""
    come: list[int] = []

    def forward_signal(number: int, _: Any) -> None:
        come.append(number)
        child.order(f"end {number}")

    handlers: dict[int, Callable[[int, Any], None]] = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), forward_signal)
    handlers |= dict.fromkeys((signal.SIGINT, signal.SIGQUIT), lambda *_: None)
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield come
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def run(session: Session) -> SessionEnd:
    """Carry out a session. Raises InputError if it cannot be, or if a server ends at once; Exit for the command."""
    _native.adopt_descendants()
    child = _SessionChild(session)
    try:
        with _handle_signals(child):
            child.order(json.dumps(session.describe_job()))
            for line in child.reports:
                word, _, rest = line.decode(errors="replace").rstrip("\n").partition(" ")
                if word == "ready":
                    _greet(session)
                    child.order("go")
                elif word == "done":
                    status, servers, *lengths = rest.split(" ")
                    parts = [child.reports.read(int(length)) for length in lengths]
                    results = dict(zip(DIRECTIONS, map(_native.Result.from_bytes, parts), strict=True))
                    return SessionEnd(int(status), json.loads(servers), results)
                elif word == "failed":
                    _fail(session, *rest.split(" ", 1))
        raise Failed("the process of the session ended", "its process to run until you leave", command="shell")
    finally:
        child.close()


def _greet(session: Session) -> None:
    if session.command != [_find_shell()] or not sys.stdin.isatty():
        return
    ways = [describe_bottleneck(session.cells[direction]) for direction in ("down", "up")]
    both = ways[0] if ways[0] == ways[1] else f"{ways[0]} down, {ways[1]} up"
    print(f"behind {both}; dumbbell watch in another terminal shows it; exit ends it", file=sys.stderr)


def describe_bottleneck(cell: Cell) -> str:
    """Return a bottleneck in few words: `10Mbit codel 20ms`."""
    bottleneck, flows = cell.groups["bottleneck"], cell.groups["flows"] or cell.groups["web"]
    link = bottleneck.get("link")
    trace = link["file"] if link else bottleneck["trace"]
    rate = trace["file"] if trace else units.show("rate", bottleneck["rate"])
    rtt = units.show("time", flows[0]["base_rtt"]) if flows else "20ms"
    return f"{rate} {bottleneck['aqm']['name']} {rtt}"


def _fail(session: Session, kind: str, text: str = "") -> NoReturn:
    if kind in ("FileNotFoundError", "PermissionError"):
        found = "no such program" if kind == "FileNotFoundError" else text.partition(" (os error")[0].lower()
        _print_line(f"{session.command[0]}: {found}")
        raise typer.Exit(NOT_FOUND if kind == "FileNotFoundError" else NOT_RUN)
    if kind == "ChildProcessError":  # server N ended with status S
        words = text.split()
        found = f"{quote_value(session.servers[int(words[1])])} ended with status {words[-1]}"
        raise Failed(found, "a program that listens", command="shell", option="--server")
    if kind == "Interrupted":
        raise KeyboardInterrupt
    if kind == "RuntimeError" or ", allowed: " not in text:
        raise RuntimeError(escape_line(text))
    raise parse_engine_error("shell", text)


def store_session(session: Session, ended: SessionEnd, started: datetime, seconds: float) -> None:
    """Add a session to its results file: a run for each direction, of the flows that were seen."""
    runs = []
    for direction, result in ended.results.items():
        cell = session.cells[direction]
        summary = json.loads(result.summary)
        path = (cell.groups["flows"] or [{"base_rtt": 20_000_000, "start": {"min": 0, "max": 0}}])[0]
        flows = [path | {"cc": {"name": kind}, "count": count} for kind, count in summary["flows_seen"].items()]
        described = {
            "direction": direction,
            "command": shlex.join(session.command),
            "servers": session.servers,
            "started": started.isoformat(timespec="milliseconds"),
        }
        groups = cell.groups | {
            "duration": int(seconds * 1e9),
            "flows": flows,
            "web": [],
            "udp": [],
            "shell": described,
        }
        engine = LiveEngine()
        # the keys by which sessions are distinguished
        matrix = {f"shell.{key}": str(described[key]) for key in ("direction", "command", "started")}
        done = dataclasses.replace(cell, matrix=matrix, groups=groups, engine=engine.version)
        runs.append(Finished(done, MeasuredRun(seconds, result, engine.described)))
    with Store.open(session.output, write=True) as store:
        store.add(runs)


def _print_line(text: str) -> None:
    print(escape_line(f"dumbbell shell: {text}"), file=sys.stderr)


def _print_end(session: Session, ended: SessionEnd) -> None:
    for number, status in ended.servers:
        _print_line(f"server {quote_value(session.servers[number])} ended early, with status {status}")
    texts = []
    for direction in ("down", "up"):
        summary = json.loads(ended.results[direction].summary)
        texts.append(
            f"{direction} {summary['throughput_mbit']:.3g} Mbit/s, {summary['sojourn_mean_ms']:.3g} ms in queue, "
            f"{summary['ce_marks']} marks, {summary['drops']} drops"
        )
    _print_line(f"{'; '.join(texts)}: {session.output}")
    # both were forwarded by one thread, but the faster link allows less
    if invalid := explain_rejection(ended.results["down"]) or explain_rejection(ended.results["up"]):
        _print_line(f"INVALID: {invalid}")


def _check_output(path: Path) -> None:
    """Raise InputError for results that could not be kept; a file that is not there is not made yet."""
    if path.exists():
        with Store.open(path, write=True):
            pass
    elif not path.parent.is_dir():
        raise Unwritable(f"there is no folder {path.parent}", "a file in a folder that exists", file=path)


def _find_shell() -> str:
    return os.environ.get("SHELL") or "/bin/sh"


def start(
    file: str,
    command: list[str],
    *,
    settings: list[str],
    up: list[str],
    servers: list[str],
    output: str,
    alone: bool,
) -> int:
    """Run a command, or a shell, behind the bottleneck of a file, keep what was measured, and return its status."""
    if not hasattr(_native, "Shell"):
        raise Needs("Linux", "this is another system", command="shell")
    cells = load(file, settings, up)
    session = Session(cells, command or [_find_shell()], servers, output, not alone)
    _check_output(Path(output))
    started, began = datetime.now().astimezone(), time.monotonic()
    ended = run(session)
    store_session(session, ended, started, time.monotonic() - began)
    _print_end(session, ended)
    return ended.status
