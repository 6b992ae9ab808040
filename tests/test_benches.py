"""What the programs in benches say follows from what was measured, and their reader of callgrind's files reads them."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from benches import callgrind, guard, limits, page, peers, where

ROOT = Path(__file__).parent.parent
# two functions of one object, one of another; lines and names are compressed as callgrind compresses them
CALLGRIND = """\
# callgrind format
positions: instr
events: Ir D1mr

ob=(1) /here/engine
fl=(1) engine.rs
fn=(1) step
0x10 5 1
+4 7
cfi=(2) alloc.rs
cob=(2) /lib/libc.so
cfn=(2) malloc
calls=3 0x900
* 60 2

fn=(3) other
-8 1

ob=(2)
fl=(2)
fn=(2)
0x900 60 2

totals: 73 3
"""


def test_costs_are_read_where_they_are() -> None:
    events, costs = callgrind.read(iter(CALLGRIND.splitlines(keepends=True)))
    assert events == ("Ir", "D1mr")
    engine, library = "/here/engine", "/lib/libc.so"
    assert costs == [
        callgrind.Cost(engine, "step", 0x10, (5, 1)),
        callgrind.Cost(engine, "step", 0x14, (7, 0)),
        callgrind.Cost(engine, "step", 0x14, (60, 2), (library, "malloc")),
        callgrind.Cost(engine, "other", 0xC, (1, 0)),
        callgrind.Cost(library, "malloc", 0x900, (60, 2)),
    ]
    assert callgrind.Profile("", events, costs).sum_object(engine) == 13


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("/build/crates/dumbbell-core/src/tcp/sender.rs", "sender"),
        ("/build/crates/dumbbell-core/src/tcp/receiver.rs", "receiver"),
        ("crates/dumbbell-core/src/cc/bbr/probing/mod.rs", "control"),
        ("crates/dumbbell-bottleneck/src/bottleneck.rs", "link and queue"),
        ("crates/dumbbell-sim/src/min_tree.rs", "scheduling"),
        ("crates/dumbbell-core/src/record.rs", "measuring"),
        ("crates/dumbbell-core/src/units.rs", None),
        ("crates/dumbbell-core/src/buffers.rs", None),
        ("/rustc/0123/library/core/src/num/mod.rs", None),
        ("crates/dumbbell-new/src/lib.rs", "other"),
    ],
)
def test_a_file_is_of_one_part(file: str, part: str | None) -> None:
    assert where.find_part(file) == part


def test_every_file_of_the_engine_has_a_part() -> None:
    crates = ("dumbbell-core", "dumbbell-config", "dumbbell-measure", "dumbbell-bottleneck", "dumbbell-sim")
    files = [path for crate in crates for path in (ROOT / "crates" / crate / "src").rglob("*.rs")]
    assert files
    assert [path for path in files if where.find_part(path.as_posix()) == "other" and path.name != "lib.rs"] == []


def test_guarded_cases_have_figures_with_reasons() -> None:
    figures = tomllib.loads(guard.FIGURES.read_text(encoding="utf-8"))
    assert figures.pop("compiler").startswith("rustc ")
    assert set(figures) == set(guard.CASES)
    assert all(figure["instructions"] > 0 and figure["reason"] for figure in figures.values())


@pytest.mark.slow
def test_pages_are_those_of_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {file: file.read_text(encoding="utf-8") for file in (page.PAGE, peers.PAGE)}
    monkeypatch.setattr(page, "PAGE", tmp_path / "speed.md")  # figures go next to it
    assert page.make_text() == written[ROOT / "docs" / "speed.md"]
    assert peers.make_page() == written[peers.PAGE]


def test_the_simulator_alone_has_the_features_that_the_bindings_have() -> None:
    """Otherwise CI compiles the crates twice, and what `make pgo` learns does not fit the extension."""

    def features(package: str, edges: str) -> dict[str, str]:
        command = ["cargo", "tree", "--locked", "-p", package, "-e", edges, "-f", "{p}|{f}", "--prefix", "none"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        pairs = (line.removesuffix(" (*)").split("|") for line in said.splitlines())
        return {pair[0].split(" (")[0]: pair[1].strip() for pair in pairs}

    alone, bindings = features("dumbbell-sim", "normal,build,dev"), features("dumbbell-py", "normal,build")
    used = set(features("dumbbell-sim", "normal"))
    assert {name: alone[name] for name in used} == {name: bindings[name] for name in used}


@pytest.mark.parametrize(
    ("packets", "instructions", "time", "waiting", "expected"),
    [
        # 20 million a second are 50 ns; 1000 instructions in 100 ns are 10 a nanosecond, so that 500 would do
        (20e6, 1000, 100, 7, "is the 1000 instructions, of which 10.0 pass in a nanosecond: 500 would be few enough."),
        (20e6, 450, 45, 7, "20 million packets per second is 50 ns, which is reached."),
        (
            8.3e6,
            2000,
            400,
            600,
            "take 600 ns one after the other. So at least 5.0 misses must be under way at all times",
        ),
    ],
)
def test_what_stands_in_the_way_is_said(
    packets: float, instructions: float, time: float, waiting: float, expected: str
) -> None:
    assert expected in limits.describe_limit("x", packets, instructions, time, waiting)


def test_misses_wait_for_where_they_end() -> None:
    # three of five end in the cache behind the first, at 10 ns; two in memory, at 100
    assert limits.estimate_waits(5, 2, 10, 100) == 230
