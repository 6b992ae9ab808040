"""The same dumbbells on dumbbell, ns-3 and csg-htsim, in turns, on one core; written to docs/peers.md.

python -m benches.peers           make bench-peers: runs all and writes the page
python -m benches.peers --page    writes the page from benches/peers.csv alone

ns-3 is its wheel from the index of Python packages, in an environment of its own; NS3=PREFIX takes an installed one.
csg-htsim takes part if CSG_HTSIM names its sources (https://github.com/Broadcom/csg-htsim), and is built there.
Both are driven by the small programs in benches/peers, compiled against them.
"""

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benches import children, program
from dumbbell.results.tables import align_table

ROOT = program.ROOT
FOLDER = ROOT / "target" / "peers"
SOURCES = Path(__file__).with_name("peers")
FIGURES = Path(__file__).with_name("peers.csv")
PAGE = ROOT / "docs" / "peers.md"
REPEATS = 3
NS3 = "3.44.post0"
MODULES = ("core", "network", "internet", "applications", "point-to-point", "traffic-control")


@dataclass(frozen=True)
class Case:
    """A dumbbell, and how many milliseconds each simulator simulates of it: some seconds of work, a minute at most."""

    what: str
    millis: dict[str, int]


CASES = {
    "a": Case("10 DCTCP, step, 1 Gbit/s, 5 ms", {"dumbbell": 30_000, "ns-3": 2_000, "csg-htsim": 30_000}),
    "b": Case("2 CUBIC, CoDel, 100 Mbit/s, 20 ms", {"dumbbell": 200_000, "ns-3": 10_000, "csg-htsim": 200_000}),
    "c": Case("10 DCTCP, step, 10 Gbit/s, 5 ms", {"dumbbell": 4_000, "ns-3": 100, "csg-htsim": 4_000}),
    "f": Case("10,000 CUBIC, FQ-CoDel, 100 Gbit/s, 20 ms", {"dumbbell": 1_000, "ns-3": 50, "csg-htsim": 1_000}),
}
# of each case in ns-3 and csg-htsim, what is not as above
UNLIKE = {("csg-htsim", "b"): "NewReno, FIFO", ("csg-htsim", "f"): "NewReno, FIFO"}


@dataclass(frozen=True)
class Runner:
    """A simulator that takes part: its version, and the command that runs a case for some milliseconds."""

    name: str
    version: str
    command: Callable[[str, int], list[str | Path]]
    note: str = ""


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-3000:]}")


def _compile_peer(name: str, *options: str | Path) -> Callable[[str, int], list[str | Path]]:
    binary = FOLDER / f"{name}-dumbbell"
    _run("c++", "-O3", SOURCES / f"{name}.cpp", "-o", binary, *options)
    return lambda case, millis: [binary, case, str(millis / 1000)]


def make_dumbbell() -> Runner:
    """Return dumbbell as `make bench` has it: the release build, without Python."""
    binary = program.build_program("release")
    said = subprocess.run(["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True, check=False)
    return Runner("dumbbell", said.stdout.strip(), lambda case, millis: [binary, "--only", case, str(millis)])


def make_ns3() -> Runner:
    """Return ns-3: of NS3, or else its wheel."""
    if prefix := os.environ.get("NS3"):
        home, version = Path(prefix).resolve(), "of its own build"
    else:
        home = FOLDER / "ns3"
        python = home / "bin" / "python"
        if not python.exists():
            print("installing ns-3 into target/peers/ns3, some 800 MB", flush=True)
            _run(sys.executable, "-m", "venv", home)
        _run(python, "-m", "pip", "install", "--quiet", "--no-deps", f"ns3=={NS3}")
        home, version = next(home.glob("lib*/python*/site-packages/ns3")), f"{NS3.removesuffix('.post0')}, its wheel"
    core = next(path for path in home.glob("lib*/libns3*-core*.so"))
    before, after = core.name.removeprefix("lib").removesuffix(".so").split("core")
    link = [f"-l{before}{module}{after}" for module in MODULES]
    command = _compile_peer(
        "ns3",
        "-std=c++20",
        f"-I{home / 'include'}",
        f"-L{core.parent}",
        f"-Wl,-rpath,{core.parent}",
        *link,
        "-Wl,--allow-shlib-undefined",
    )
    # a build without logging says nothing
    asked = subprocess.run(
        command("a", 1), env=os.environ | {"NS_LOG": "TcpSocketBase"}, capture_output=True, text=True, check=False
    )
    note = (
        "This build of ns-3 contains its logging, which costs time: a build without logging is faster."
        if asked.stderr
        else ""
    )
    return Runner("ns-3", version, command, note)


def make_htsim(folder: str) -> Runner:
    """Return csg-htsim, whose sources are in a folder."""
    place = Path(folder).resolve()
    sim = place if (place / "eventlist.h").exists() else place / "sim"
    _run("make", "-C", sim, "libhtsim.a")
    command = _compile_peer("htsim", "-std=c++11", "-w", f"-I{sim}", sim / "libhtsim.a")
    said = subprocess.run(["git", "-C", place, "log", "-1", "--format=%h"], capture_output=True, text=True, check=False)
    return Runner("csg-htsim", os.environ.get("CSG_HTSIM_VERSION", said.stdout.strip()) or "its sources", command)


def list_runners() -> list[Runner]:
    """Return who takes part."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if shutil.which("c++") is None:
        raise SystemExit("make bench-peers needs a C++ compiler")
    found = [make_dumbbell(), make_ns3()]
    if folder := os.environ.get("CSG_HTSIM"):
        found.append(make_htsim(folder))
    else:
        print("csg-htsim does not take part: CSG_HTSIM=DIR names its sources", flush=True)
    return found


def run_race() -> None:
    """Run all cases in turns and write what was measured; who did not take part keeps what was measured before."""
    taking = list_runners()
    rows = []
    for turn in range(REPEATS):
        for name, case in CASES.items():
            for one in taking:
                millis = case.millis[one.name]
                child = children.run(one.command(name, millis))
                packets = int(child.printed.split()[-1])
                row = {"simulator": one.name, "version": one.version, "case": name, "turn": turn, "millis": millis}
                row |= {
                    "packets": packets,
                    "cpu_s": f"{child.cpu:.2f}",
                    "memory_mb": f"{child.memory:.1f}",
                    "note": one.note,
                }
                rows.append(row)
                print(f"{name} {one.name}: {packets / child.cpu:.3g} packets per CPU second", flush=True)
    names = {one.name for one in taking}
    kept = [row for row in read_known() if row["simulator"] not in names] if FIGURES.exists() else []
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, *kept])


def read_known() -> list[dict[str, str]]:
    """Return what was measured."""
    with FIGURES.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@dataclass(frozen=True)
class Figure:
    """What one simulator did in one case: the fastest turn, the slowest, the most memory."""

    fastest: float
    slowest: float
    memory: float
    millis: int


def collect_figures() -> dict[tuple[str, str], Figure]:
    """Return the figures by simulator and case."""
    turns: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in read_known():
        turns.setdefault((row["simulator"], row["case"]), []).append(row)
    found = {}
    for key, rows in turns.items():
        speeds = [float(row["packets"]) / float(row["cpu_s"]) for row in rows]
        memory = max(float(row["memory_mb"]) for row in rows)
        found[key] = Figure(max(speeds), min(speeds), memory, int(rows[0]["millis"]))
    return found


def _format_speed(speed: float) -> str:
    return f"{_format_two_digits(speed / 1e6)} M" if speed >= 1e6 else f"{_format_two_digits(speed / 1e3)} k"


def _format_two_digits(value: float) -> str:
    """Write a figure with two digits that count: `220`, `9.1`."""
    return f"{float(f'{value:.2g}'):,g}"


def _format_span(millis: int) -> str:
    return f"{millis / 1000:g} s"


def _make_rows(found: dict[tuple[str, str], Figure]) -> Iterator[list[str]]:
    for name, case in CASES.items():
        ours = found["dumbbell", name]
        for simulator in ("dumbbell", "csg-htsim", "ns-3"):
            if (one := found.get((simulator, name))) is None:
                continue
            what = f"{name}: {case.what}" if simulator == "dumbbell" else UNLIKE.get((simulator, name), "")
            ratio = "" if simulator == "dumbbell" else _format_two_digits(ours.fastest / one.fastest)
            speeds = [_format_speed(one.fastest), _format_speed(one.slowest)]
            yield [what, simulator, _format_span(one.millis), *speeds, f"{_format_two_digits(one.memory)} MB", ratio]


def _make_summary(found: dict[tuple[str, str], Figure]) -> str:
    """Say in how many cases dumbbell is faster, for each of the others."""
    sentences = []
    for other in ("csg-htsim", "ns-3"):
        ratios = {
            name: found["dumbbell", name].fastest / found[other, name].fastest
            for name in CASES
            if (other, name) in found
        }
        if not ratios:
            continue
        low, high = min(ratios.values()), max(ratios.values())
        slower = ", ".join(name for name, ratio in ratios.items() if ratio <= 1)
        but = f", and not faster in {slower}" if slower else ""
        sentences.append(
            f"dumbbell is {_format_two_digits(low)} to {_format_two_digits(high)} times as fast as {other}{but}."
        )
    return " ".join(sentences)


MODELS = (SOURCES / "models.md").read_text(encoding="utf-8")


def make_page() -> str:
    """Return the page."""
    found = collect_figures()
    rows = read_known()
    versions = dict.fromkeys(f"{row['simulator']} ({row['version']})" for row in rows)
    notes = dict.fromkeys(row["note"] for row in rows if row["note"])
    header = [
        "case",
        "simulator",
        "simulated",
        "packets per CPU second",
        "slowest turn",
        "memory",
        "dumbbell over it",
    ]
    table = align_table(header, list(_make_rows(found)), words=(0, 1))
    return f"""\
# Speed next to other simulators

`make bench-peers` writes this page. It runs one dumbbell on each simulator, in turns, with one process on one core.
The rate is the number of data packets through the bottleneck per CPU second of the whole process, including its
set-up, in the fastest of {REPEATS} turns; the slowest turn shows how noisy the machine was. Memory is the peak of the
process. The simulated time differs, so that each run takes some seconds.

{_make_summary(found)} {" ".join(notes)}

{table}

Simulators: {"; ".join(versions)}. The programs that build these dumbbells are in `benches/peers`.

## What each models

A packet costs less in a simulator that does less for it, so the ratios compare programs and not how well they are
written.

{MODELS}
In ns-3, one node contains all senders and one all receivers, which is the fastest arrangement; for 10,000 flows there
are 100 nodes on each side. Its step is RED with one threshold and without averaging; the threshold is 850 µs of the
link in all three simulators. In c and f, the short simulated time of ns-3 is mostly slow start. All simulators are
compiled with full optimisation, without a profile.

    make bench-peers CSG_HTSIM=/path/to/csg-htsim

repeats the measurement. Without `CSG_HTSIM`, the figures of csg-htsim do not change; `NS3=PREFIX` uses an installed
ns-3 instead of the wheel.
"""


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        run_race()
    PAGE.write_text(make_page(), encoding="utf-8")
    print(f"the page is in {PAGE.relative_to(ROOT)}")
