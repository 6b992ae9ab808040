"""picoquic as a stack: its tree, its build by cmake, and what the library does behind the C interface of plugins."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Command
from dumbbell import stacks
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import InputError
from dumbbell.experiment.plugins import built
from dumbbell.stacks import build as building
from dumbbell.stacks import picoquic, tools
from stack_harness import compiled, field, lines

ADAPTER = Path(building.__file__).parent / "adapter" / "picoquic"
TREE = "DUMBBELL_PICOQUIC_TREE"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return built.find_home()


def tree(folder: Path, project: str = "project(picoquic\n  VERSION 1.1.52.0\n  LANGUAGES C CXX)") -> Path:
    """Make what looks like a tree of picoquic."""
    (folder / "picoquic").mkdir(parents=True)
    (folder / "picoquic" / "picoquic.h").touch()
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.13)\n{project}\n")
    return folder


def test_a_tree_is_known_by_its_project(tmp_path: Path) -> None:
    found = picoquic.read(tree(tmp_path / "mine"), None)
    assert (found.folder, found.version, found.picotls) == (tmp_path / "mine", "1.1.52.0", None)
    for place in ("mine/build/_deps/picotls-src", "mine/picotls", "picotls"):  # the nearest one last
        for name in picoquic._NEEDED_OF_PICOTLS:
            (tmp_path / place / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place / name).touch()
        assert picoquic.read(tmp_path / "mine", None).picotls == tmp_path / place
    (tmp_path / "picotls" / picoquic._NEEDED_OF_PICOTLS[1]).unlink()  # a tree without its submodules
    assert picoquic.read(tmp_path / "mine", None).picotls == tmp_path / "mine" / "picotls"
    with pytest.raises(InputError, match=r"it has no project\(picoquic VERSION …\); it must be that of picoquic"):
        picoquic.read(tree(tmp_path / "other", "project(other VERSION 1.0)"), None)


@pytest.mark.usefixtures("home")
def test_what_cannot_be_built_is_refused_before_anything_is_done(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tree(tmp_path / "tree"))
    refusals = {
        (): "stack build: picoquic is built from a tree of your own; use --path DIR",
        ("--path", path, "--version", "1.1.52"): "--version is 1.1.52; it must be left out: the tree says which",
        (
            "--path",
            str(tmp_path),
        ): "has no picoquic in it; use a tree of picoquic, with CMakeLists.txt and the folder picoquic",
        ("--path", path, "--name", "picoquic"): "not quinn, noq, quiche or picoquic alone",
    }
    for words, said in refusals.items():
        refused = command("stack", "build", "picoquic", *words)
        assert said in refused.stderr
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^stack build needs cmake: the package cmake, with make or ninja and comp"):
        building.build(building.StackRequest("picoquic", path=Path(path)), StepProgress())
    assert not built.find_home().exists()
    with pytest.raises(InputError, match=r"no stack is built; build it with dumbbell stack build picoquic --path DIR"):
        stacks.find_library("picoquic-1.1.52.0")


def test_complaints_of_cmake_and_compilers_are_told_in_a_line() -> None:
    told = (
        "-- The C compiler\nCMake Error at CMakeLists.txt:3 (project):\n  No C found.\n\n\n-- Configuring incomplete\n"
    )
    assert tools.find_complaint_of_cmake(told).startswith("CMake Error at CMakeLists.txt:3 (project): No C found.")
    told = "[1/2] Building C\nflow.c:8:10: fatal error: picoquic.h: No such file\n    8 | #include\nstopped.\n"
    assert tools.find_complaint_of_cmake(told) == "flow.c:8:10: fatal error: picoquic.h: No such file"
    assert tools.find_complaint_of_cmake("ninja: killed\n") == "ninja: killed"


def test_every_parameter_is_declared_and_used() -> None:
    texts = {name: (ADAPTER / name).read_text() for name in ("stack.h", "params.c", "flow.c")}
    enum = re.search(r"enum \{([^}]*)\};", texts["stack.h"])
    assert enum is not None
    names = re.findall(r"P_\w+", enum[1])
    assert names.pop() == "P_COUNT"
    assert names == re.findall(r"\[(P_\w+)\] = \{\"", texts["params.c"])
    for name in names:
        assert f"values[{name}]" in texts["flow.c"]


def test_all_that_draws_is_led_to_our_generator() -> None:
    text = (ADAPTER / "random.c").read_text()
    wrapped = re.search(r"foreach\(function ([^)]*)\)", (ADAPTER / "CMakeLists.txt").read_text())
    assert wrapped is not None
    assert {*wrapped[1].split()} == {*re.findall(r"^\w+ __wrap_(\w+)\(", text, re.MULTILINE)}


# --- with a tree ----------------------------------------------------------------------------------------------------

long = pytest.mark.long
patient = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = os.environ.get(TREE)
    if folder is None:
        pytest.skip(f"no tree of picoquic: {TREE}=DIR, with picotls beside it")
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        made, is_new = building.build(building.StackRequest("picoquic", path=Path(folder)), StepProgress())
        assert is_new
        yield made.library


@pytest.fixture(scope="module")
def bottleneck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("bottleneck"))


@long
@patient
def test_a_library_says_what_it_is_and_exports_no_more(library: Path) -> None:
    said = json.loads(library.with_name("stack.json").read_text())
    assert said["controls"][0] == "newreno"
    assert {"cubic", "bbr", "prague"} < {*said["controls"]}
    assert library.parent.name == f"picoquic-{said['version']}"
    if shutil.which("nm") is None:
        pytest.skip("no nm (binutils)")
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["dumbbell_describe"]


@long
@patient
def test_one_flow_fills_the_link(library: Path, bottleneck: Path) -> None:
    """1405 of 1482 bytes are payload of the stream, with a packet of 1440 bytes: 94.8 % at most."""
    for control in ("newreno", "cubic", "bbr"):
        for mbit in (10, 100):
            line = lines(bottleneck, library, control, mbit, 20, 30)[0]
            assert 0.9 < float(field(line, "goodput")) / mbit < 0.948, line


@long
@patient
def test_equal_seeds_give_equal_datagrams(library: Path, bottleneck: Path) -> None:
    for control in json.loads(library.with_name("stack.json").read_text())["controls"]:
        together = lines(bottleneck, f"{library},{library}", control, 50, 40, 10)
        alone = lines(bottleneck, library, control, 50, 40, 10)
        other = lines(bottleneck, library, control, 50, 40, 10, "seed=2")
        hashes = {field(line, "hash") for line in (*together, *alone)}
        assert len(hashes) == 1, control
        assert field(other[0], "hash") not in hashes


@long
@patient
def test_all_that_is_written_arrives(library: Path, bottleneck: Path) -> None:
    for loss in (3, 30):
        line = lines(bottleneck, library, "cubic", 50, 40, 60, "bytes=500000", f"loss={loss}")[0]
        assert field(line, "received") == "500000"
    stopped = lines(bottleneck, library, "cubic", 50, 40, 20, "stop=5")[0]
    assert 5 <= float(field(stopped, "last at")) < 5.5
    lost = lines(bottleneck, library, "cubic", 50, 40, 60, "loss=1")
    assert lost[1] == "closed: the client: idle timeout (0x433)"


@long
@patient
def test_ecn_is_used_where_the_hosts_let_it(library: Path, bottleneck: Path) -> None:
    marked = lines(bottleneck, library, "cubic", 50, 40, 20, "mark=1")[0]
    assert int(field(marked, "marked")) > 0
    assert field(marked, "ECT(0)") == field(marked, "sent")
    scalable = lines(bottleneck, library, "prague", 50, 40, 20, "mark=1")[0]
    assert (field(scalable, "ECT(0)"), field(scalable, "marked") == "0") == ("0", False)
    without = lines(bottleneck, library, "cubic", 50, 40, 20, "mark=1", "ecn=0")[0]
    assert (field(without, "marked"), field(without, "ECT(0)")) == ("0", "0")


@long
@patient
def test_parameters_have_their_effect(library: Path, bottleneck: Path) -> None:
    for limit in ("cwin_max=50000", "max_data=50000"):  # a window of 50 kB in an RTT of 40 ms: 10 Mbit/s
        assert float(field(lines(bottleneck, library, "cubic", 50, 40, 10, limit)[0], "goodput")) < 10
    plain = lines(bottleneck, library, "bbr", 50, 40, 10)[0]
    for setting in ("mtu=1200", "mtu_discovery=1", "ack_frequency=0", "seed_cwin=250000 seed_rtt=40000000"):
        changed = lines(bottleneck, library, "bbr", 50, 40, 10, *setting.split())[0]
        assert field(changed, "hash") != field(plain, "hash"), setting
