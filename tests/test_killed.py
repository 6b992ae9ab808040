"""Commands that are killed at a random moment: nothing of them is left once the next command has started.

`make killed` does it 20 times for each engine, the usual tests three times.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dumbbell import _native, experiment
from dumbbell.engines import find_engine, sweep
from dumbbell.engines.linux import kernels
from dumbbell.errors import InputError
from dumbbell.results.store import Store
from real_linux import has_kernel
from test_store import contents, same

KILLS = int(os.environ.get("DUMBBELL_KILLS", "3"))
SEED = int(os.environ.get("DUMBBELL_SEED", "16"))
PATIENCE_S = 30.0  # for a command that was asked to end
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
SHARED_MEMORY = Path("/dev/shm")
# signal, and whether the whole process group gets it or the command alone
WAYS = [
    (signal.SIGKILL, False),
    (signal.SIGKILL, True),
    (signal.SIGINT, True),
    (signal.SIGTERM, False),
    (signal.SIGKILL, False),
    (signal.SIGINT, False),
    (signal.SIGKILL, True),
    (signal.SIGTERM, True),
]
PLAN = """\
duration = "{duration}"
seeds = [{seeds}]
[bottleneck]
rate = "10Mbit"
aqm = "codel"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
start = {{ uniform = ["0s", "100ms"] }}
"""
PLANS = {"sim": ("100s", 24), "live": ("500ms", 2), "linux": ("1s", 5)}  # duration, seeds
TINY = PLAN.format(duration="200ms", seeds="7")


def _parent(process: int) -> tuple[int, str]:
    """Return the parent of a process and its state; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, ""
    return int(fields[1]), fields[0]


def processes() -> dict[int, str]:
    """Return all descendants of this process that have not ended, with their command lines.

    This process gets the orphans among them (`adopting`), and buries those that have ended.
    """
    parents = {int(place.name): _parent(int(place.name)) for place in Path("/proc").glob("[0-9]*")}
    found: dict[int, str] = {}
    for process, (parent, state) in parents.items():
        ancestor = parent
        while ancestor not in (0, 1, os.getpid()):
            ancestor = parents.get(ancestor, (0, ""))[0]
        if ancestor != os.getpid():
            continue
        if state == "Z" and parent == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
            continue
        with contextlib.suppress(OSError):
            found[process] = Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")[:200]
    return found


def namespaces(process: int | str) -> dict[int, str]:
    """Return the network namespaces that a process holds, by its threads or open files: inode numbers and where."""
    found = {}
    places = []
    with contextlib.suppress(OSError):
        places += [task / "ns" / "net" for task in Path(f"/proc/{process}/task").iterdir()]
        places += Path(f"/proc/{process}/fd").iterdir()
    for place in places:
        with contextlib.suppress(OSError):
            if match := re.fullmatch(r"net:\[(\d+)\]", str(place.readlink())):
                found[int(match[1])] = str(place)
    return found


@dataclass
class Place:
    """Folders for everything that a command may leave files in, and what is on the machine before it starts."""

    root: Path
    before: set[int] = field(default_factory=set)
    """Processes."""
    shared: set[str] = field(default_factory=set)
    interfaces: list[str] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "tmp", "work", "linux"):
            (self.root / name).mkdir()
        self.before = set(processes())
        self.shared, self.interfaces, self.mounts = self._shared(), self._interfaces(), self._mounts()

    @property
    def said(self) -> Path:
        """The output of the last command."""
        return self.root / "said"

    @property
    def work(self) -> Path:
        return self.root / "work"

    def environment(self) -> dict[str, str]:
        places = {"HOME": "home", "TMPDIR": "tmp", "DUMBBELL_LINUX": "linux", "XDG_CACHE_HOME": "home/cache"}
        return {**os.environ, **{name: str(self.root / place) for name, place in places.items()}}

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command in a session of its own, in which signals do what they do by default."""
        with self.said.open("wb") as said:  # no pipe: nobody waits for who still has it
            return subprocess.Popen(
                [sys.executable, "-m", "dumbbell", *arguments],
                cwd=self.work,
                env=self.environment(),
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored below a shell's &
            )

    def run(self, *arguments: str) -> str:
        """Run a command to its end and return what it said; skips where there are no namespaces for it."""
        child = self.start(*arguments)
        child.wait(timeout=PATIENCE_S * 2)
        said = self.said.read_text()
        if child.returncode and "no permission for network namespaces" in said:
            pytest.skip(said)
        assert child.returncode == 0, said
        return said

    @staticmethod
    def _shared() -> set[str]:
        """Return what is in shared memory that may be a guest's; what somebody has locked is in use."""
        found = set()
        for place in (*SHARED_MEMORY.glob("dumbbell*"), *SHARED_MEMORY.glob("vm_file-*")):
            with contextlib.suppress(OSError):
                file = os.open(place, os.O_RDONLY)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    found.add(place.name)
                finally:
                    os.close(file)
        return found

    @staticmethod
    def _interfaces() -> list[str]:
        return sorted(place.name for place in Path("/sys/class/net").iterdir())

    @staticmethod
    def _mounts() -> list[str]:
        """Return what keeps a namespace without a process, and all that is mounted below a folder of ours."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return sorted(line for line in lines if " - nsfs " in line or "dumbbell" in line or "test_killed" in line)

    def files(self) -> set[str]:
        """Return the files and folders that nobody ordered."""
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*")}
        ordered = r"said|home|tmp|work(/[\w-]+\.(toml|duckdb))?|linux(/(default|programs(/guest-[0-9a-f]{32})?|runs))?"
        return {name for name in found if not re.fullmatch(ordered, name)}

    def left(self, output: Path | None = None) -> dict[str, object]:
        """Return what is left of a command; the log of its results file `output` is a part of them."""
        files = self.files() - ({f"work/{output.name}.wal"} if output else set())
        found = {
            "processes": {process: name for process, name in processes().items() if process not in self.before},
            "interfaces": set(self._interfaces()) ^ set(self.interfaces),
            "mounts": set(self._mounts()) ^ set(self.mounts),
            "shared memory": self._shared() - self.shared,
            "files": files,
            "sockets": [line for line in Path("/proc/net/unix").read_text().splitlines() if str(self.root) in line],
        }
        return {what: names for what, names in found.items() if names}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place to kill commands in; while it is there, their orphans are children of this process."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    made = Place(tmp_path)
    with contextlib.suppress(InputError):
        (made.root / "linux" / "default").symlink_to(kernels.load().binary.parent, target_is_directory=True)
    monkeypatch.setenv("DUMBBELL_LINUX", str(made.root / "linux"))
    try:
        yield made
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for process in set(processes()) - made.before:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)


@contextlib.contextmanager
def held(parent: int) -> Iterator[set[int]]:
    """Yield the network namespaces of a command, held open, so that no other namespace gets their inode numbers."""
    own = namespaces("self")
    with contextlib.ExitStack() as files:
        numbers = set()
        for process in {parent, *processes()}:
            for number, place in namespaces(process).items():
                if number not in own:
                    with contextlib.suppress(OSError):
                        file = os.open(place, os.O_RDONLY)
                        files.callback(os.close, file)
                        numbers.add(os.fstat(file).st_ino)
        yield numbers


def holders(numbers: set[int]) -> list[str]:
    """Return who on this machine still holds one of these network namespaces."""
    everyone = [place.name for place in Path("/proc").glob("[0-9]*") if place.name != str(os.getpid())]
    found = {process: namespaces(process) for process in everyone} if numbers else {}
    return [place for of_one in found.values() for number, place in of_one.items() if number in numbers]


def kept(output: Path) -> int:
    """Return how many runs a results file has; none if there is no file."""
    if not output.exists():
        return 0
    with Store.open(output) as store:
        return store.read_table("runs").height


def kill(
    place: Place, command: list[str], moment: float, way: tuple[int, bool], following: list[str]
) -> tuple[str, int]:
    """Start a command, kill it after `moment` seconds, and run the `following` one at once.

    Return what the command said, and how many network namespaces it had.
    """
    child = place.start(*command)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=moment)
        with held(child.pid) as spaces:
            if child.poll() is None:
                (os.killpg if way[1] else os.kill)(child.pid, way[0])
            child.wait(timeout=PATIENCE_S)
            said = place.said.read_text()
            place.run(*following)
            assert holders(spaces) == [], f"network namespaces of {command}"
            return said, len(spaces)
    finally:
        child.kill()
        child.wait()


@pytest.mark.timed
@pytest.mark.timeout(120 + 40 * KILLS)
@pytest.mark.parametrize(
    "engine",
    [
        "sim",
        pytest.param("live", marks=pytest.mark.skipif(not hasattr(_native, "live_run"), reason="needs Linux")),
        pytest.param("linux", marks=pytest.mark.skipif(not has_kernel(), reason="no kernel (dumbbell linux build)")),
    ],
)
def test_nothing_is_left_of_a_killed_run_once_the_next_command_has_started(engine: str, place: Place) -> None:
    duration, seeds = PLANS[engine]
    plan, whole = place.work / "plan.toml", place.work / "whole.duckdb"
    plan.write_text(PLAN.format(duration=duration, seeds=", ".join(map(str, range(1, seeds + 1)))))
    (place.work / "tiny.toml").write_text(TINY)
    place.run("run", "tiny.toml", "--engine", engine, "-o", whole.name)  # compiles the guest's program
    began = time.monotonic()
    place.run("run", plan.name, "--engine", engine, "-o", whole.name)
    length = time.monotonic() - began
    rng = random.Random(SEED)
    moments = [length * (number + rng.random()) / KILLS for number in range(KILLS)]
    rng.shuffle(moments)
    following = [
        ["doctor", "sim"],
        ["run", "tiny.toml", "-o", "next.duckdb"],
        ["run", "tiny.toml", "--engine", engine, "-o", "next.duckdb"],
    ]
    spaces, unfinished = 0, 0
    for number, moment in enumerate(moments):
        way = ended, group = WAYS[number % len(WAYS)]
        output = place.work / f"r{number}.duckdb"
        told = f"kill {number} by {ended.name} of {'all' if group else 'one'} after {moment:.3f} s, seed {SEED}"
        if engine == "linux" and number % 3 == 2:  # so that some are killed while they compile it
            for program in (place.root / "linux" / "programs").iterdir():
                program.unlink()
        command = ["run", plan.name, "--engine", engine, "-o", output.name]
        said, of_run = kill(place, command, moment, way, following[number % len(following)])
        spaces += of_run
        assert place.left(output) == {}, told
        runs = kept(output)
        unfinished += runs < seeds
        if done := re.search(r"(\d+) runs? done", said):
            assert runs == int(done[1]), told
        report = sweep.run([experiment.load(plan)], output, engine=find_engine(engine), progress=False)
        assert (report.done, report.kept, report.failed) == (seeds - runs, runs, []), told
        assert place.left() == {}, told
        ours, theirs = contents(output), contents(whole)
        theirs = {
            name: table.filter(table["key"].is_in(ours["runs"]["key"].implode())) for name, table in theirs.items()
        }
        if engine == "live":
            assert set(ours["runs"]["key"]) == set(theirs["runs"]["key"]), told
        else:
            assert same(ours, theirs), told
    assert unfinished, "no run was killed before its end"
    if engine == "live" and KILLS >= 10:
        assert spaces, "no run was killed while it had network namespaces"
