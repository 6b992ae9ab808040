"""QUIC stacks: how they are built, listed and removed; what a built one does behind the C interface of plugins."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

import polars as pl
import pytest

from conftest import Command
from dumbbell import _native, stacks
from dumbbell.cli import commands, doctor
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Failed, InputError
from dumbbell.experiment.file import parse
from dumbbell.experiment.plugins import built
from dumbbell.qlog import figure
from dumbbell.qlog import write as writing
from dumbbell.stacks import build as building
from dumbbell.stacks import describe, project, tools, tree, work
from dumbbell.stacks.work import WORK
from stack_harness import compiled, field, lines

HERE = Path(__file__).parent
ADAPTER = Path(building.__file__).with_name("adapter")
CONTROLS = {"quinn": ["cubic", "newreno", "bbr"], "noq": ["cubic", "newreno", "bbr3"]}
LARGE = ("stream_receive_window=1073741824", "send_window=134217728")
USER = """
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::{any::Any, sync::Arc, time::Instant};

#[derive(Clone)]
struct Fixed(u64);

impl Controller for Fixed {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 { self.0 }
    fn clone_box(&self) -> Box<dyn Controller> { Box::new(self.clone()) }
    fn initial_window(&self) -> u64 { self.0 }
    fn into_any(self: Box<Self>) -> Box<dyn Any> { self }
}

impl ControllerFactory for Fixed {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        assert!(self.0 > 0, "no window\\nat all");
        Box::new(Fixed(self.0))
    }
}

pub fn controllers() -> Vec<(&'static str, Arc<dyn ControllerFactory + Send + Sync>)> {
    vec![("fixed", Arc::new(Fixed(100_000))), ("broken", Arc::new(Fixed(0)))]
}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return built.find_home()


def carried_out(*words: str) -> int:
    return commands.carry_out(["stack", "build", *words])


def fake(
    name: str, stack: str, version: str, *, release: bool = True, when: str = "2026-01-01", digest: str = "0"
) -> Path:
    """Put a stack there that is none."""
    place = built.find_home() / name
    place.mkdir(parents=True)
    (place / built.LIBRARY).write_bytes(b"library")
    said = {"stack": stack, "version": version, "release": release, "origin": f"{stack}-proto {version}", "bytes": 7}
    said |= {"controls": CONTROLS[stack], "when": when, "digest": digest}
    said |= {"sha256": hashlib.sha256(b"library").hexdigest()}
    (place / built.DESCRIPTION).write_text(json.dumps(said))
    return place / built.LIBRARY


@pytest.mark.usefixtures("home")
def test_stacks_are_listed_by_version_and_removed(command: Command) -> None:
    assert command("stack", "list").stdout == "no stacks: dumbbell stack build quinn\n"
    assert command("stack", "list", "--format", "json").stdout == "[]\n"
    for name, stack, version in (
        ("noq-1.4.0", "noq", "1.4.0"),
        ("quinn-0.11.9", "quinn", "0.11.9"),
        ("q", "quinn", "0.11.16"),
    ):
        fake(name, stack, version)
    lines = command("stack", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "quinn-0.11.9", "q", "noq-1.4.0"]
    assert lines[-1].endswith("cubic newreno bbr3")
    told = json.loads(command("stack", "list", "--format", "json").stdout)
    assert (told[0]["name"], told[0]["controls"]) == ("quinn-0.11.9", CONTROLS["quinn"])
    assert command("stack", "remove", "q", "noq-1.4.0").stdout == "q: removed\nnoq-1.4.0: removed\n"
    assert [one.name for one in stacks.list_installed()] == ["quinn-0.11.9"]
    refused = command("stack", "remove", "quinn-0.11.8")
    assert (refused.returncode, refused.stderr) == (
        2,
        "stack remove: unknown stack quinn-0.11.8; did you mean quinn-0.11.9?\n",
    )
    assert "unknown stack .." in command("stack", "remove", "..").stderr
    work = built.find_home() / WORK
    work.mkdir()
    command("stack", "remove", "quinn-0.11.9")
    assert not work.exists()


@pytest.mark.usefixtures("home")
def test_the_library_that_writes_its_own_qlog_lies_next_to_the_one_with_the_same_content(tmp_path: Path) -> None:
    library = fake("quinn-0.11.16", "quinn", "0.11.16")
    copy = tmp_path / "copy.so"
    copy.write_bytes(library.read_bytes())
    assert built.find_logging_library(copy) == copy
    writes = library.with_name(built.LOGGING)
    writes.write_bytes(b"another")
    assert built.find_logging_library(copy) == writes
    copy.write_bytes(b"of somebody else")
    assert built.find_logging_library(copy) == copy


@pytest.mark.usefixtures("home")
def test_a_library_is_found_by_name_or_as_the_newest() -> None:
    with pytest.raises(
        InputError, match=r"unknown stack quinn; no stack is built; build it with dumbbell stack build quinn"
    ):
        stacks.find_library("quinn")
    old, new = fake("quinn-0.11.9", "quinn", "0.11.9"), fake("quinn-0.11.16", "quinn", "0.11.16")
    fake("quinn-local", "quinn", "0.12.0", release=False, when="2027-01-01")
    assert stacks.find_library("quinn") == new
    assert stacks.find_library("quinn-0.11.9") == old
    with pytest.raises(InputError, match=r"quinn-0.11.19.*build it with dumbbell stack build quinn --version 0.11.19"):
        stacks.find_library("quinn-0.11.19")
    with pytest.raises(
        InputError,
        match=r"hoose from quinn-0.11.9, quinn-0.11.16, quinn-local, or build it with dumbbell stack build noq",
    ):
        stacks.find_library("noq")
    first = fake("mine", "noq", "1.4.0", release=False, when="2026-01-01")
    last = fake("his", "noq", "1.4.0", release=False, when="2026-02-01")
    assert stacks.find_library("noq") == last != first
    assert built.find("quinn").read_content() == b"library"
    new.write_bytes(b"another")
    with pytest.raises(InputError, match=r"it is damaged \(it is not what was built\); it must be a whole stack"):
        built.find("quinn").read_content()
    new.write_bytes(b"shorter or longer")
    assert stacks.find_library("quinn") == old
    with pytest.raises(InputError, match=r"it is damaged .*dumbbell stack remove quinn-0.11.16, and build it again"):
        stacks.find_library("quinn-0.11.16")


@pytest.mark.usefixtures("home")
def test_what_cannot_be_built_is_refused_before_anything_is_done(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "find_program", lambda program: f"/nowhere/{program}")
    monkeypatch.setattr(tools, "read_rustc_version", lambda: "rustc 1")
    refusals = {
        ("quin",): "stack build: unknown stack quin; did you mean quinn?",
        (
            "quinn",
            "--version",
            "0.11",
        ): 'stack build: --version is "0.11"; it must be a released version such',
        ("quinn", "--version", "0.11.2"): "stack build: --version is 0.11.2; it must be 0.11.14 or a later one of 0.11",
        ("quinn", "--version", "0.12.0"): "stack build: --version is 0.12.0; it must be 0.11.14 or a later one of 0.11",
        ("noq", "--name", "a/b"): 'stack build: --name is "a/b"; it must be letters, digits and . _ -',
        ("noq", "--name", "noq"): 'stack build: --name is "noq"; it must be letters',
        (
            "quinn",
            "--path",
            str(tmp_path / "no"),
        ): "no is not a folder; use a tree of quinn, or a crate that depends on",
        ("quinn", "--path", str(HERE)): "has neither Cargo.toml nor quinn-proto/Cargo.toml",
    }
    for words, said in refusals.items():
        refused = command("stack", "build", *words)
        assert said in refused.stderr
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert not built.find_home().exists()


@pytest.mark.usefixtures("home")
def test_without_cargo_there_is_a_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"stack build needs cargo: https://rustup.rs"):
        carried_out("quinn")
    check = doctor._check_stacks()
    assert (check.state, check.found) == ("optional", "none built; no cargo; no cmake")
    assert "rustup" in check.remedy


@pytest.mark.usefixtures("home")
def test_doctor_says_what_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_program", lambda program: f"/nowhere/{program}")
    assert doctor._check_stacks().remedy == "dumbbell stack build quinn"
    fake("quinn-0.11.16", "quinn", "0.11.16")
    assert (doctor._check_stacks().state, doctor._check_stacks().found) == ("ok", "quinn-0.11.16")


@pytest.mark.parametrize("stack", ["picoquic", "quiche"])
def test_a_library_that_a_stack_has_not_cannot_be_left_out(stack: str) -> None:
    with pytest.raises(InputError, match=f"there is no library of {stack} .*; use quinn or noq"):
        building.build(building.StackRequest(stack, logs=False), StepProgress())


@pytest.mark.usefixtures("home")
def test_a_version_that_is_built_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_program", lambda program: f"/nowhere/{program}")
    monkeypatch.setattr(tools, "read_rustc_version", lambda: "rustc 1")
    plan = project.BuildPlan("quinn", "0.11.16", None)
    fake("quinn-0.11.16", "quinn", "0.11.16", digest=project.compute_digest(plan, "rustc 1"))
    made, is_new = building.build(building.StackRequest("quinn", "0.11.16", logs=False), StepProgress())
    assert (made.name, is_new) == ("quinn-0.11.16", False)
    # who wants the library with the stack's own qlog, too, has to build it
    digest = made.described["digest"]
    assert building._find_built(made.name, digest, building.StackRequest("quinn", "0.11.16")) is None
    made.library.with_name(built.LOGGING).write_bytes(b"")
    assert building._find_built(made.name, digest, building.StackRequest("quinn", "0.11.16")) == made
    others = [
        project.compute_digest(plan, "rustc 2"),
        project.compute_digest(project.BuildPlan("quinn", "0.11.17", None), "rustc 1"),
    ]
    assert made.described["digest"] not in others


def test_libclang_is_asked_for_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Heard(StepProgress):
        def print_line(self, line: str) -> None:
            heard.append(line)

    monkeypatch.setattr(tools, "require_program", lambda program: program)
    monkeypatch.setattr(tools, "finds_libclang", lambda: False)
    with pytest.raises(InputError, match="a released version"):
        building.build(building.StackRequest("quiche", "x"), Heard())
    assert len(heard) == 1 and heard[0].startswith("there is no libclang")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_build_says_that_it_waits_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Heard(StepProgress):
        def print_line(self, line: str) -> None:
            heard.append(line)

    monkeypatch.setattr(work, "LOCK_WAIT_S", 1.5)
    with (
        work.StackWork(StepProgress()),
        pytest.raises(InputError, match="another build is using it"),
        work.StackWork(Heard()),
    ):
        pass
    assert [line.partition(" (log")[0] for line in heard] == ["another build is at work; waiting for its end"]


def test_complaints_of_cargo_are_told_in_a_line() -> None:
    told = "error[E0425]: cannot find type `u17`\n  --> src/lib.rs:8:36\n   |\nerror: could not compile `x`\n"
    assert tools.find_complaint(told) == "error[E0425]: cannot find type `u17` (src/lib.rs:8:36)"
    told = "error: failed to get `bytes` as a dependency\n\nCaused by:\n  download failed\n\nCaused by:\n  no route\n"
    assert tools.find_complaint(told) == "error: failed to get `bytes` as a dependency; download failed; Caused by:"
    assert tools.find_complaint("linker: killed\n") == "linker: killed"
    assert "package libclang-dev" in tools.find_complaint("error: failed\n  Unable to find libclang: none\n")


def test_the_project_has_all_sources() -> None:
    made = project.make_contents(project.BuildPlan("noq", None, None))
    assert sorted(["abi.rs", *(path.name for path in (ADAPTER / "src").iterdir())]) == sorted(
        name.removeprefix("src/") for name in made if name.startswith("src/")
    )
    assert 'package = "noq-proto", default-features = false, version = "1" }' in made["Cargo.toml"]
    assert "@" not in made["Cargo.toml"]
    assert len(project.list_features(project.BuildPlan("quinn", None, None), "0.11.19")) == 2
    assert project.list_features(project.BuildPlan("quinn", None, None), "0.12.0") == ["quinn"]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")
def test_a_tree_is_known_by_its_manifest(tmp_path: Path) -> None:
    crates = {
        "quinn-proto": "",
        "another": '[dependencies]\nq = { package = "quinn-proto", path = "../quinn-proto" }\n',
    }
    for name, more in crates.items():
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "lib.rs").touch()
        (tmp_path / name / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nversion.workspace = true\n{more}')
    (tmp_path / "Cargo.toml").write_text('[workspace]\nmembers = ["*"]\n[workspace.package]\nversion = "0.12.0"\n')
    proto = tmp_path / "quinn-proto"
    for folder in (tmp_path, proto):
        found = tree.read(folder, "quinn")
        assert (found.folder, found.version, found.has_controls) == (proto, "0.12.0", False)
        assert found.dependency == f'path = "{proto}"'
    another = tree.read(tmp_path / "another", "quinn")
    assert (another.package, another.dependency, another.has_controls) == ("another", f'path = "{proto}"', True)
    with pytest.raises(InputError, match=r"is a workspace; use the folder of one of its crates"):
        tree.read(tmp_path, "noq")
    with pytest.raises(InputError, match=r"version is 0.11.16; it must be left out: \S+quinn-proto is 0.12.0"):
        building.make_plan(building.StackRequest("quinn", "0.11.16", tmp_path))


def test_a_dependency_is_taken_over_as_it_is() -> None:
    source = "git+https://example.org/quinn?branch=mine#1234"
    assert tree._make_dependency({"source": source}) == 'git = "https://example.org/quinn", branch = "mine"'
    registry = {"source": "registry+https://example.org/index", "req": "^0.11.16"}
    assert tree._make_dependency(registry) == 'version = "^0.11.16"'


def test_a_tree_is_called_as_git_describes_it(tmp_path: Path) -> None:
    assert tree.describe_folder(tmp_path) == "local"
    if shutil.which("git") is None:
        pytest.skip("no git")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"], ["tag", "quinn-proto/1.2"]):
        subprocess.run([*git, *words], check=True)
    assert tree.describe_folder(tmp_path) == "quinn-proto-1.2"


def test_quiche_has_a_project_of_its_own(tmp_path: Path) -> None:
    made = project.make_contents(project.BuildPlan("quiche", "0.30.0", None))
    assert {path.name for path in (ADAPTER / "quiche").iterdir()} == {
        *(
            Path(name).name
            for name in made
            if name not in ("src/abi.rs", "src/interface.rs", "src/panics.rs", "Cargo.toml")
        ),
        "Cargo.toml.in",
    }
    assert 'quiche = { version = "=0.30.0" }' in made["Cargo.toml"]
    wrapped = re.findall(r"fn __wrap_(\w+)\(", made["src/system.rs"])
    assert sorted(re.findall(r'"(\w+)"', made["build.rs"])) == sorted(wrapped)
    names = re.findall(r'param\("(\w+)"', made["src/params.rs"])
    assert len(names) == int(re.findall(r"COUNT: usize = (\d+)", made["src/params.rs"])[0])
    for name in names:
        assert len(re.findall(rf'"{name}"', made["src/params.rs"])) == 2, name
    if shutil.which("cargo") is None:
        pytest.skip("Rust is not installed")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").touch()
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "mine"\nversion = "0.1.0"\n')
    with pytest.raises(InputError, match=r"is mine; use a tree of quiche"):
        tree.read(tmp_path, "quiche")


def test_every_parameter_is_set() -> None:
    text = (ADAPTER / "src" / "params.rs").read_text() + (ADAPTER / "src" / "flow.rs").read_text()
    names = re.findall(r'param\("(\w+)"', text)
    assert len(names) == int(re.findall(r"COUNT: usize = (\d+)", text)[0])
    for name in names:
        assert len(re.findall(rf'"{name}"', text)) >= 2, name


def test_the_version_of_the_interface_is_that_of_the_header() -> None:
    assert f"#define DUMBBELL_ABI {describe.ABI}u" in _native.plugin_header()
    assert f"ABI: u32 = {describe.ABI};" in _native.plugin_types()


# --- with cargo and a registry --------------------------------------------------------------------------------------

long = pytest.mark.long
patient = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of stacks for all tests that build."""
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place))
        yield place


def build_or_skip(wanted: building.StackRequest) -> Path:
    if shutil.which("cargo") is None:
        pytest.skip("Rust is not installed")
    try:
        return building.build(wanted, StepProgress())[0].library
    except Failed as error:
        if "no versions can be chosen" in error.found and "failed to" in error.found:
            pytest.skip("the registry of crates cannot be reached")
        raise


@pytest.fixture(scope="module")
def libraries(cache: Path) -> dict[str, Path]:
    assert built.find_home().is_relative_to(cache)
    wanted = (("quinn", "0.11.16"), ("quinn", "0.11.19"), ("noq", "1.4.0"))
    return {f"{stack}-{version}": build_or_skip(building.StackRequest(stack, version)) for stack, version in wanted}


@pytest.fixture(scope="module")
def bottleneck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("bottleneck"))


@long
@patient
def test_goodputs_are_those_of_the_stacks_alone(libraries: dict[str, Path], bottleneck: Path) -> None:
    """As they were measured by a program of its own around quinn-proto 0.11.19: 9.36 of 10, 94.6 of 100 Mbit/s."""
    for name, library in libraries.items():
        reno, cubic = (
            lines(bottleneck, library, control, mbit, 20, 30, *LARGE)[0]
            for control, mbit in (("newreno", 10), ("cubic", 100))
        )
        assert float(field(reno, "goodput")) == pytest.approx(9.36, abs=0.02 if "quinn" in name else 0.05), name
        assert float(field(cubic, "goodput")) == pytest.approx(94.6, abs=0.1), name


@long
@patient
def test_equal_seeds_give_equal_datagrams(libraries: dict[str, Path], bottleneck: Path) -> None:
    for name, library in libraries.items():
        for control in CONTROLS[name.partition("-")[0]]:
            others = [other for other in libraries.values() if other != library]
            control_of_others = f"{others[0]}" if control in ("cubic", "newreno") else f"{library}"
            together = lines(bottleneck, f"{library},{control_of_others},{library}", control, 50, 40, 10)
            alone = lines(bottleneck, library, control, 50, 40, 10)
            other = lines(bottleneck, library, control, 50, 40, 10, "seed=2")
            hashes = {field(line, "hash") for line in (together[0], together[2], alone[0])}
            assert len(hashes) == 1, (name, control)
            assert field(other[0], "hash") not in hashes


@long
@patient
def test_a_known_fault_of_the_newer_version_shows(libraries: dict[str, Path], bottleneck: Path) -> None:
    """quinn #2809: after the overshoot of slow start, with a large window, the server gives up."""
    words = ("cubic", 200, 100, 10, "stream_receive_window=16777216")
    assert float(field(lines(bottleneck, libraries["quinn-0.11.16"], *words)[0], "goodput")) > 170
    closed = lines(bottleneck, libraries["quinn-0.11.19"], *words)[1]
    assert closed.startswith("closed: aborted by peer: ")
    assert closed.endswith("too many gaps in stream buffer")


@long
@patient
def test_all_that_is_written_arrives(libraries: dict[str, Path], bottleneck: Path) -> None:
    for library in libraries.values():
        line = lines(bottleneck, library, "cubic", 50, 40, 60, "bytes=500000", "loss=30")[0]
        assert field(line, "received") == "500000"
        stopped = lines(bottleneck, library, "cubic", 50, 40, 20, "stop=5")[0]
        assert 5 <= float(field(stopped, "last at")) < 5.5
        marked = lines(bottleneck, library, "cubic", 50, 40, 20, "mark=1")[0]
        assert int(field(marked, "marked")) > 0
        assert int(field(marked, "ECT(0)")) == int(field(marked, "sent"))
        without = lines(bottleneck, library, "cubic", 50, 40, 20, "mark=1", "ecn=0")[0]
        assert (field(without, "marked"), field(without, "ECT(0)")) == ("0", "0")


@long
@patient
def test_a_library_exports_its_description_alone(libraries: dict[str, Path]) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm (binutils)")
    for name, library in libraries.items():
        told = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
        assert [line.split()[-1] for line in told.stdout.splitlines()] == ["dumbbell_describe"]
        one = built.find(name)
        assert list(one.controls) == CONTROLS[one.stack]
        assert one.read_content() == library.read_bytes()


def crate(place: Path, text: str) -> Path:
    (place / "src").mkdir(parents=True)
    (place / "src" / "lib.rs").write_text(text)
    dependency = 'quinn-proto = { version = "0.11.16", default-features = false }'
    (place / "Cargo.toml").write_text(
        f'[package]\nname = "my-control"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n{dependency}\n'
    )
    return place


@long
@patient
def test_controls_of_a_crate_stand_beside_those_of_the_stack(cache: Path, bottleneck: Path, tmp_path: Path) -> None:
    assert built.find_home().is_relative_to(cache)
    mine = crate(tmp_path / "mine", USER)
    library = build_or_skip(building.StackRequest("quinn", "0.11.16", mine))
    name = "quinn-0.11.16-my-control"
    assert list(built.find(name).controls) == [*CONTROLS["quinn"], "fixed", "broken"]
    line = lines(bottleneck, library, "fixed", 100, 20, 5)[0]
    assert float(field(line, "goodput")) == pytest.approx(100_000 * 8e-6 / 0.021, rel=0.05)  # a window an RTT
    asked = subprocess.run(
        [str(bottleneck), str(library), "broken", "100", "20", "5"], capture_output=True, text=True, check=False
    )
    assert asked.returncode < 0
    assert re.fullmatch(rf"{name} panicked: no window at all \(\S*mine/src/lib.rs:\d+\)\n", asked.stderr)
    (mine / "src" / "lib.rs").write_text(USER.replace("u16)", "u17)"))
    with pytest.raises(
        InputError, match=r"it does not compile: error\[E0\d+\]: .*lib.rs:\d+:\d+\).*\(log: .*; it needs"
    ):
        building.build(building.StackRequest("quinn", "0.11.16", mine), StepProgress())
    assert (tree.read(mine, "quinn").has_controls, tree.read(mine, "quinn").dependency) == (
        True,
        'version = "^0.11.16"',
    )
    with pytest.raises(InputError, match=r"is my-control, which does not depend on noq-proto"):
        tree.read(mine, "noq")


@long
@patient
def test_a_stack_writes_its_own_qlog_and_does_the_same(libraries: dict[str, Path], tmp_path: Path) -> None:
    """Its log agrees with ours, which asks it for what it believes."""
    for name, library in libraries.items():
        assert library.is_file()
        flow = {"stack": name, "base_rtt": "40ms"}
        cell = parse(
            {"duration": "8s", "bottleneck": {"rate": "10Mbit", "aqm": "codel"}, "flows": [flow]}, "a"
        ).make_cell(0)
        plain = writing.write(cell, tmp_path / f"{name}-plain")
        both = writing.write(cell, tmp_path / name, stacks=True)
        assert (both.hash, both.records) == (plain.hash, plain.records)
        own = tmp_path / name / f"flow-0-{name}.sqlog"
        assert own in both.files and not list((tmp_path / f"{name}-plain").glob(own.name))
        ours, theirs = (figure.read(path).frames for path in (tmp_path / name / "flow-0.sqlog", own))
        for what in ("cwnd", "smoothed RTT"):
            one, other = (frames[what].filter(pl.col("time_s") < 7.9).tail(1) for frames in (ours, theirs))
            assert one["value"][0] == pytest.approx(other["value"][0], rel=1e-3), (name, what)
        lost = ours["lost"]["value"].max()
        assert lost == theirs["lost"].filter(pl.col("time_s") <= 8)["value"].max(), name


@long
@patient
@pytest.mark.usefixtures("cache")
def test_quiche_runs_in_virtual_time(bottleneck: Path) -> None:
    """What it sends is encrypted with other keys each time, so that sizes and times are compared, and not bytes."""
    if shutil.which("cmake") is None or (find_library("clang") is None and "LIBCLANG_PATH" not in os.environ):
        pytest.skip("no cmake or no libclang")
    library = build_or_skip(building.StackRequest("quiche", "0.30.0"))
    for control in ("cubic", "reno", "bbr2_gcongestion"):
        together = lines(bottleneck, f"{library},{library}", control, 50, 40, 5)
        alone = lines(bottleneck, library, control, 50, 40, 5)
        counted = {tuple(field(line, name) for name in ("received", "sent", "acks")) for line in (*together, *alone)}
        assert len(counted) == 1, control
        assert float(field(alone[0], "goodput")) > 40
    line = lines(bottleneck, library, "cubic", 50, 40, 60, "bytes=500000", "loss=30")[0]
    assert field(line, "received") == "500000"
