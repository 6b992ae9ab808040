"""Runs in real time, one after the other: each in a process of its own, which takes its network namespaces with it."""

import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dumbbell import _native
from dumbbell.engines.base import Local
from dumbbell.engines.linux.keys import refuse_rest
from dumbbell.errors import InputError, Needs, UnknownName, escape_line, parse_engine_error, parse_machine_error
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.experiment.registry import read_registry
from dumbbell.results.measured_run import MeasuredRun
from dumbbell.scratch import Scratch

SET_UP_S = 0.5  # what a run takes in addition to its duration, about: a process, namespaces
PATIENCE_S = 30.0  # beyond the duration of a run, after which it is given up
_CHECKED = 512  # runs of a sweep that are checked before the first
_FIRST_PORT, _FIRST_RECEIVER = 10_000, 5_001  # flows.rs: ports of senders, and those of receivers below them
_HOSTS = ("profile", "ecn", "mss")  # that the live engine minds, or refuses by itself


@dataclass(frozen=True)
class LiveEngine:
    """The bottleneck on the real clock, between kernel TCP of this machine."""

    @property
    def version(self) -> str:
        """Part of every run's key: our sources, and the kernel that sends."""
        return f"live-{_native.live_version()}.{platform.release()}"

    @property
    def described(self) -> str:
        """JSON: the machine that runs it."""
        machine = {"release": platform.release(), "machine": platform.machine(), "cores": os.cpu_count()}
        return json.dumps({"kernel": machine}, sort_keys=True)

    @property
    def format_plan(self) -> None:
        """Nothing: all that a run does follows from its configuration."""
        return

    @staticmethod
    def estimate_seconds(cells: Sequence[Cell], _jobs: int) -> list[float]:
        """Return about how many seconds each run takes."""
        return [SET_UP_S + cell.duration / 1e9 for cell in cells]

    def prepare(self, experiments: list[Experiment]) -> list[str]:
        """Check every cell; raises InputError for what cannot be run live."""
        for experiment in experiments:
            cells = list(experiment.make_cells()) if len(experiment) <= _CHECKED else experiment.sample_cells(_CHECKED)
            for cell in cells:
                check(cell, experiment.file)
        return []

    @staticmethod
    def check(cell: Cell, file: str) -> list[str]:
        """Return nothing; raises InputError, said of `file`, if a run cannot be carried out live."""
        check(cell, file)
        return []

    @contextlib.contextmanager
    def capture_run(self, cell: Cell) -> Iterator[tuple[_native.Result, "_native._Files"]]:
        """Carry out a run, and yield what it measured and the files of its packets."""
        with Scratch() as folder, LiveLab(self) as lab:
            yield lab.measure_run(cell, _native.Progress(), folder), _list_files(cell, folder)

    @staticmethod
    def count_parallel(_jobs: int) -> int:
        """Return 1: each run needs the whole machine."""
        return 1

    def open_workers(self, _jobs: int) -> "LiveLab":
        """Return where runs are carried out: one at a time, whatever is asked for."""
        return LiveLab(self)


def make_engine(which: str | None = None) -> LiveEngine:
    """Return the engine; raises InputError where it cannot work at all."""
    if which is not None:
        raise UnknownName(f"live:{which}", among=("live",), option="--engine", what="engine")
    if not hasattr(_native, "live_run"):
        raise Needs("Linux", "or --engine sim", key="--engine live")
    return LiveEngine()


def check(cell: Cell, file: str) -> None:
    """Raise InputError, said of `file`, if a run cannot be carried out live."""
    plugins.refuse(cell.groups, file, "--engine live")
    try:
        _native.live_check(cell.config)
    except ValueError as error:
        raise parse_engine_error(file, error) from None
    try:
        _refuse_switches(cell.groups)
    except InputError as error:
        raise error.move_into(file) from None


def _refuse_switches(groups: dict[str, Any]) -> None:
    """Raise InputError for a switch of the hosts or of a congestion control: this kernel has its own settings."""
    hosts, known = groups["hosts"], read_registry()
    profile = known.profiles[hosts["profile"]]
    switches = {key: value for key, value in hosts.items() if key not in _HOSTS}
    refuse_rest("hosts", switches, known.sections["hosts"], profile.hosts)
    for number, flow in enumerate(groups["flows"]):
        control = flow["cc"]
        name = control["name"]
        params = {key: value for key, value in control.items() if key != "name"}
        refuse_rest(f"flows[{number}].cc", params, known.cc[name].params, profile.cc.get(name, {}))


class LiveLab(Local):
    """One run at a time, since each needs the whole machine."""

    def __init__(self, chosen: LiveEngine, on_invalid: Callable[[Cell, str], None] | None = None) -> None:
        """`on_invalid` is called for runs whose timing was too bad for them to count; by default standard error is."""
        super().__init__(1)
        self._described = chosen.described
        self._on_invalid = on_invalid or _print_warning
        self._child: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End what runs and what waits."""
        super().stop()
        if (child := self._child) is not None:
            child.kill()

    def run(self, cell: Cell, progress: _native.Progress) -> MeasuredRun:
        """Carry out a run in a process of its own."""
        began = time.perf_counter()
        result = self.measure_run(cell, progress)
        return MeasuredRun(time.perf_counter() - began, result, self._described)

    def measure_run(self, cell: Cell, progress: _native.Progress, trace: Path | None = None) -> _native.Result:
        """Carry out a run and return what it measured; headers of all frames go into the folder `trace`."""
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("live_child.py")), str(_native.__file__)]
        command += [] if trace is None else [str(trace)]
        # a session of its own: a Ctrl-C in the terminal is for us, and it gets its own share of the cores (priority.rs)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
            self._child = child
            timer = threading.Timer(cell.duration / 1e9 + PATIENCE_S, child.kill)
            timer.start()
            try:
                assert child.stdin is not None and child.stdout is not None
                if self.stopped.is_set():
                    raise _native.Interrupted
                child.stdin.write(cell.config.encode() + b"\n")
                child.stdin.flush()
                result = self._read_result(child.stdout, progress)
            except BrokenPipeError:
                raise RuntimeError("the process of the run ended before it began") from None
            finally:
                timer.cancel()
                self._child = None
                child.kill()
        if invalid := explain_rejection(result):
            self._on_invalid(cell, invalid)
        return result

    def _read_result(self, output: IO[bytes], progress: _native.Progress) -> _native.Result:
        for line in output:
            word, _, rest = line.decode(errors="replace").rstrip("\n").partition(" ")
            if word == "progress":
                progress.reach(int(rest))
            elif word == "done":
                return _native.Result.from_bytes(output.read(int(rest)))
            elif word == "failed":
                kind, _, text = rest.partition(" ")
                if kind == "OSError":  # no run can be carried out here
                    raise parse_machine_error("--engine live", text)
                raise RuntimeError(escape_line(text))
        if self.stopped.is_set():
            raise _native.Interrupted
        raise RuntimeError("the process of the run ended too early")


def _list_files(cell: Cell, folder: Path) -> "_native._Files":
    """Return what crates/dumbbell-live/src/trace.rs wrote: of each direction, down and up, what came and what went."""
    streams: list[tuple[str, int, Path, int]] = []
    told: list[tuple[int, Path]] = []
    for number, (here, there) in enumerate((("left", "right"), ("right", "left"))):
        arrived, left, sent = (folder / f"{kind}.{number}" for kind in ("arrived", "left", "sent"))
        if number == 0 or cell.groups.get("reverse") is not None:
            streams += [("into", number, arrived, 0), ("out", number, left, 0)]
            told.append((number, folder / f"told.{number}"))
        streams += [(here, 0, arrived, 0), (there, 0, sent, 0)]
    return {
        "streams": streams,
        "queues": [],
        "told": told,
        "started": 0,
        "first_port": _FIRST_PORT,
        "receivers": (_FIRST_RECEIVER, _FIRST_PORT - 1),
        "mss": None,
        "completes": False,
    }


def explain_rejection(result: _native.Result) -> str:
    """Return why the timing of a run was too bad for it to count; empty if it was not."""
    summary = json.loads(result.summary)
    late, allowed = summary["lateness_p99_ms"], summary["lateness_allowed_ms"]
    if summary["valid"]:
        return ""
    remedy = "use a lower rate or an idle machine"
    if late > allowed:
        return f"1 % of the frames left more than {late:.3g} ms late, allowed: {allowed:.3g} ms; {remedy}"
    if (waited := summary["ends_waited_ms"] or 0.0) > allowed:
        return f"senders or receivers waited {waited:.3g} ms for a core on average, allowed: {allowed:.3g} ms; {remedy}"
    return f"{summary['frames_lost']} frames were lost outside the bottleneck, allowed: none; {remedy}"


def _print_warning(cell: Cell, text: str) -> None:
    place = "".join(f", {key} = {value}" for key, value in cell.matrix.items())
    print(escape_line(f"{cell.experiment}: INVALID: {text} (seed = {cell.seed}{place})"), file=sys.stderr)
