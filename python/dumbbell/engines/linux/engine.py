"""Runs on Linux: one guest per run, each a process group on one core, with the clock of the guest as virtual time."""

import array
import bisect
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell import _native
from dumbbell.engines.base import Local
from dumbbell.engines.linux import guest, kernels, readback
from dumbbell.engines.linux.changes import SEED_VARIABLE
from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.mapping import VERSION, Mapped, list_notes, map_cell, name_by_path
from dumbbell.engines.linux.plan import FIRST_PORT
from dumbbell.engines.linux.points import PROGRAM as _TRACER
from dumbbell.engines.linux.points import CapturePoint, make_command
from dumbbell.engines.linux.qdiscs import Qdisc
from dumbbell.errors import InputError, Needs, escape_line
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.results.measured_run import MeasuredRun
from dumbbell.scratch import SHARED_MEMORY, Scratch

# of a guest, for each sender, and for the captures at each hop but one; what it does not use it does not take
MEMORY_MB, SENDER_MB, HOP_MB, MOST_MB = 384, 2, 40, 4096
APPS_MB = 128  # of the program of the applications
START = 1_700_000_000  # of the guest's clock, seconds since 1970: any fixed time will do
BOOT_S, PACKETS_PER_SECOND = 1.5, 8000.0  # what a run costs: make agree, one core
STALL_S = 120.0  # without 200 ms of virtual time, and as long again for each 100000 packets that these hold
_LOOK_S = 0.02
# The folder of a run, as its guest finds it through the host's /proc. The command line of a kernel is part of the seed
# of its random numbers (random_init_early in drivers/char/random.c), so nothing in it may differ between processes.
_HERE, _PROGRAM = "/proc/self/cwd", "program"
_UNLIMITED = 2**62  # packets
_RECORD_WORDS = 4  # of 64 bits, in a record of a packet; the first is its time
_CHECKED = 4096  # runs of an experiment that are checked before the first one, or a sample of as many


@dataclass(frozen=True)
class LinuxEngine:
    """Linux, as a kernel that was built here runs it."""

    kernel: Kernel

    @property
    def version(self) -> str:
        """Part of every run's key, with its plan: kernel, guest, mapping, and what makes tables of captures."""
        parts = f"{guest.compute_code_digest()} {VERSION} {_native.measuring_version()}"
        ours = hashlib.blake2b(parts.encode(), digest_size=4).hexdigest()
        return f"linux-{self.kernel.release}+{self.kernel.digest[:8]}.{ours}"

    def format_plan(self, cell: Cell) -> str:
        """Return all that the kernel gets of a run: part of its key, so that other commands are another run."""
        try:
            plan = map_cell(cell, self.kernel)
        except InputError as error:  # of a sweep too large to be checked as a whole; its run will fail
            return str(error)
        return "\n".join([*plan.arguments, plan.plan])

    @property
    def described(self) -> str:
        """JSON: what the kernel and the tools are."""
        tools = {"iproute2": _read_iproute2_version(), "guest": guest.compute_digest(), "mapping": VERSION}
        return json.dumps({"kernel": self.kernel.described, **tools}, sort_keys=True)

    @staticmethod
    def estimate_seconds(cells: Sequence[Cell], _jobs: int) -> list[float]:
        """Return about how many seconds of a core each run takes."""
        return [BOOT_S + cell.packets / PACKETS_PER_SECOND for cell in cells]

    @staticmethod
    def count_parallel(jobs: int) -> int:
        """Return how many runs go on at once where `jobs` are allowed."""
        return jobs

    def open_workers(self, jobs: int) -> "Guests":
        """Return the cores of this machine, with a guest on each; raises InputError."""
        return Guests(self, jobs)

    def prepare(self, experiments: list[Experiment]) -> list[str]:
        """Check every run, and return what Linux does only nearly as the simulator; raises InputError."""
        _read_iproute2_version()
        return self.check_experiments(experiments)

    def check_experiments(self, experiments: list[Experiment]) -> list[str]:
        """Return the same without a look at this machine's tools."""
        said: dict[str, None] = {}
        for experiment in experiments:
            cells = list(experiment.make_cells()) if len(experiment) <= _CHECKED else experiment.sample_cells(_CHECKED)
            for cell in cells:
                self.check(cell, experiment.file)
            said |= dict.fromkeys(list_notes(cells, self.kernel))
        return list(said)

    def check(self, cell: Cell, file: str) -> list[str]:
        """Return what Linux does only nearly; raises InputError, said of `file`, if it cannot carry out a run."""
        plugins.refuse(cell.groups, file, "--engine linux")
        try:
            map_cell(cell, self.kernel)
        except InputError as error:
            raise error.move_into(file) from None
        return list_notes([cell], self.kernel)

    @contextlib.contextmanager
    def capture_run(self, cell: Cell) -> Iterator[tuple[_native.Result, "_native._Files"]]:
        """Carry out a run, and yield what it measured and the files of its packets.

        They are captured at all points, whichever are wanted: another program in the guest makes it another run, a few
        hundred nanoseconds apart, and all traces of a cell are to be of the same one.
        """
        plan = map_cell(cell, self.kernel)
        with Guests(self, 1) as guests, guests.run_guest(cell, plan, _native.Progress(), plan.points) as folder:
            yield _measure_run(cell, plan, folder), _list_files(cell, plan, folder)


def make_engine(kernel: str | None = None) -> LinuxEngine:
    """Return the engine with the kernel of this name, or the newest; raises InputError if there is none."""
    return LinuxEngine(kernels.load(kernel))


def _read_iproute2_version() -> str:
    try:
        said = subprocess.run(["tc", "-V"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise Needs("the program tc (iproute2)", "apt-get install iproute2", key="--engine linux") from None
    return (re.search(r"iproute2-([0-9.]+\S*?)[,\s]", said) or re.search(r"(.+)", said))[1]  # type: ignore[index]


class Guests(Local):
    """The cores of this machine with a guest on each."""

    def __init__(self, chosen: LinuxEngine, jobs: int) -> None:
        """Compile the guest's program; raises InputError."""
        super().__init__(jobs)
        self._engine = chosen
        self._program = guest.compile_program()
        self._described = chosen.described

    def run(self, cell: Cell, progress: _native.Progress) -> MeasuredRun:
        """Carry out a run in a guest."""
        began = time.perf_counter()
        try:
            plan = map_cell(cell, self._engine.kernel)
        except InputError as error:  # of a sweep too large to be checked as a whole
            raise RuntimeError(str(error)) from None
        with self.run_guest(cell, plan, progress) as folder:
            result = _measure_run(cell, plan, folder)
        return MeasuredRun(time.perf_counter() - began, result, self._described)

    @contextlib.contextmanager
    def run_guest(
        self, cell: Cell, plan: Mapped, progress: _native.Progress, wanted: Sequence[CapturePoint] = ()
    ) -> Iterator[Path]:
        """Carry out a run and yield its folder, which has the packets at the points that are wanted."""
        try:
            with Scratch(kernels.make_runs_folder()) as folder:
                lines = plan.plan
                if wanted:
                    lines += make_command(wanted)
                    (folder / _TRACER).symlink_to(guest.compile_program(guest.TRACER))
                if cell.groups.get("app"):
                    lines = guest.name_apps(lines)
                    (folder / "config").write_text(cell.config, encoding="utf-8")
                (folder / "plan").write_text(name_by_path(lines), encoding="ascii")
                (folder / _PROGRAM).symlink_to(self._program)
                with self._start_guest(cell, plan, folder) as child:
                    self._wait(child, cell, folder, progress)
                yield folder
        except OSError as error:
            raise RuntimeError(f"{error.filename or kernels.make_runs_folder()}: {error.strerror or error}") from None

    @contextlib.contextmanager
    def _start_guest(self, cell: Cell, plan: Mapped, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Start a guest. Its keeper ends it when the pipe to us is closed, however that comes about."""
        memory = MEMORY_MB + SENDER_MB * plan.senders + HOP_MB * (len(plan.hops) - 1)
        memory = min(memory + APPS_MB * bool(cell.groups.get("app")), MOST_MB)
        command = [
            str(self._program), "keep", str(self._engine.kernel.binary), f"mem={memory}M",
            "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={_HERE}/{_PROGRAM}",
            "con=null", "con0=null,fd:1", "quiet", "panic=-1", "time-travel=inf-cpu", f"time-travel-start={START}",
            "uml_dir=.", "umid=guest", *plan.arguments, "--", _HERE,
        ]  # fmt: skip
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), SEED_VARIABLE: str(cell.seed)}
        with contextlib.ExitStack() as undo:
            if os.access(SHARED_MEMORY, os.W_OK):  # where programs may run, unlike some /tmp
                environment["TMPDIR"] = str(undo.enter_context(Scratch(SHARED_MEMORY)))
            with open(folder / "console", "wb") as console:  # noqa: PTH123
                child = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=console,
                    stderr=console,
                    env=environment,
                    start_new_session=True,
                )
            try:
                yield child
            finally:
                assert child.stdin is not None
                child.stdin.close()
                try:
                    child.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()

    def _wait(self, child: subprocess.Popen[bytes], cell: Cell, folder: Path, progress: _native.Progress) -> None:
        patience = STALL_S * (1 + cell.packets * 2e8 / max(cell.duration, 1) / 1e5)
        reached, since = -1, time.monotonic()
        while child.poll() is None:
            if self.stopped.is_set():
                raise _native.Interrupted
            with contextlib.suppress(OSError):
                now = int.from_bytes((folder / "progress").read_bytes()[:8], sys.byteorder)
                if now != reached:
                    reached, since = now, time.monotonic()
                    progress.reach(now)
            if time.monotonic() - since > patience:
                at = f"at {reached / 1e9:.1f} s" if reached >= 0 else "before the start"
                raise RuntimeError(f"the guest made no progress for {patience:.0f} s {at}")
            self.stopped.wait(_LOOK_S)
        if self.stopped.is_set() and not (folder / "done").exists():
            raise _native.Interrupted


def _measure_run(cell: Cell, plan: Mapped, folder: Path) -> _native.Result:
    if (failed := folder / "failed").exists():
        raise RuntimeError(escape_line(failed.read_text(errors="replace")))
    if not (folder / "done").exists():
        lines = (folder / "console").read_text(errors="replace").split("\n")
        telling = [
            line.strip()
            for line in lines
            if re.search(r"(?i)panic|denied|not permitted|fail|error|no space|memory", line)
        ]
        raise RuntimeError(f"the guest ended too early: {escape_line((telling or ['it printed nothing'])[0])}")
    result = _native.from_capture(
        cell.config,
        hops=[_read_hop(one, folder, f".{number}" if number else "") for number, one in enumerate(plan.hops)],
        samples=b"".join(_read_if_there(folder / name) for name in ("samples", "samples.apps")),
        started=int((folder / "done").read_text()),
        apps=_read_if_there(folder / "apps"),
    )
    _read_back(plan, folder)
    return result


def _read_if_there(path: Path) -> bytes:
    """Return the content of a file; nothing if a run has none."""
    return path.read_bytes() if path.exists() else b""


def _read_back(plan: Mapped, folder: Path) -> None:
    """Raise RuntimeError if the kernel has other settings than it was given."""
    printed = {
        command: (folder / f"shown{f'.{number}' if number else ''}").read_text(errors="replace")
        for number, command in enumerate(readback.list_commands(plan.settings))
    }
    if found := readback.find_differences(plan.settings, printed):
        raise RuntimeError(escape_line(f"the kernel did not take these settings: {'; '.join(found)}"))


def _read_hop(qdisc: Qdisc, folder: Path, suffix: str) -> "_native._Captured":
    """Return what was captured at a hop whose files have this suffix."""
    said = find_discipline((folder / f"counters{suffix}").read_text(), qdisc.kind)
    return {
        "arrived": (folder / f"arrived{suffix}").read_bytes(),
        "sent": (folder / f"sent{suffix}").read_bytes(),
        "signals_on_arrival": qdisc.signals_on_arrival,
        "flow_queues": qdisc.flow_queues,
        "limit": _find_limit(qdisc, said),
        "counters": read_counters(said),
    }


def _list_files(cell: Cell, plan: Mapped, folder: Path) -> "_native._Files":
    """Return what was captured for a trace, and what its queues are like."""
    started = int((folder / "done").read_text())
    places = {(point.place, point.hop): folder / point.file for point in plan.points}
    queues: list[_native._Queue] = []
    for hop, qdisc in enumerate(plan.hops):
        suffix = f".{hop}" if hop else ""
        times = array.array("Q", (folder / f"arrived{suffix}").read_bytes())[::_RECORD_WORDS]
        said = find_discipline((folder / f"counters{suffix}").read_text(), qdisc.kind)
        queues.append(
            {
                "arrived": places["into", hop],
                "left": places.get(("behind queue", hop), places["out", hop]),
                "count": bisect.bisect_right(times, started + cell.duration),
                "drops_on_arrival": qdisc.signals_on_arrival,
                "flow_queues": qdisc.flow_queues,
                "limit": _find_limit(qdisc, said),
                "drops": read_counters(said).get("drops", 0),
            }
        )
    return {
        "streams": [
            (point.place, point.hop, folder / point.file, point.earlier)
            for point in plan.points
            if point.place != "behind queue"
        ],
        "queues": queues,
        "told": [],
        "started": started,
        "first_port": FIRST_PORT,
        "receivers": plan.receivers,
        "mss": cell.groups["hosts"]["mss"],
        "completes": True,
    }


def _find_limit(qdisc: Qdisc, said: dict[str, Any]) -> int | None:
    """Return how many packets fit, as the kernel says; 0 where all drops are because it is full, None if unknown."""
    counters = read_counters(said)
    if qdisc.full == "at limit":  # of packets, unless memory was short (fq_pie)
        return None if counters.get("overmemory") else int(said["options"]["limit"])
    drops = counters.get("drops", 0)
    overflows = drops if qdisc.full == "at drops" else _count_overflows(qdisc.kind, counters)
    if overflows == drops:
        return 0
    return _UNLIMITED if overflows == 0 else None


def _count_overflows(kind: str, counters: dict[str, int]) -> int | None:
    """Return how many packets a discipline dropped because it was full, as it counts them; None if it does not."""
    if kind == "cake":  # it counts the most memory that it had, which is more than the limit where packets were dropped
        return 0 if counters.get("memory_used", 0) <= counters.get("memory_limit", 0) else None
    return counters.get({"fq_codel": "drop_overlimit", "red": "pdrop"}.get(kind, ""))


def find_discipline(said: str, kind: str) -> dict[str, Any]:
    """Return what tc -s -j qdisc says of the discipline `kind` of the bottleneck."""
    ours = [one for one in json.loads(said) if one.get("kind") == kind and one.get("handle") == "2:"]
    if not ours:
        raise RuntimeError(f"tc qdisc show: no {kind} with the handle 2:")
    found: dict[str, Any] = ours[0]
    return found


def read_counters(said: dict[str, Any]) -> dict[str, int]:
    """Return the counters of a discipline; those of Cake's tins are summed."""
    found: dict[str, int] = {}
    for tin in said.get("tins", []):
        for name, value in _select_integers(tin).items():
            found[name] = found.get(name, 0) + value
    return found | _select_integers(said)


def _select_integers(stats: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in stats.items() if type(value) is int and value >= 0}
