"""The how-tos "your own congestion control", "your own queue discipline" and "your own link", step by step as printed.

Their files and lines go into a copy of the repository, which is built; then the commands of the page run there.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "target" / "how-to"
COPIED = ("Cargo.toml", "Cargo.lock", "crates", "benches", "studies", "python", "pyproject.toml")
FILE = re.compile(r"`(crates/[\w/.-]+\.rs)`:\n\n```rust\n(.*?)```", re.DOTALL)
LINE = re.compile(r"The line goes into (?:the list )?`(\w+!)`[^`]*`([\w/.]+)`:\n\n```rust\n(.*?)```", re.DOTALL)
INDENTED = re.compile(r"^ {4}(dumbbell .+)$", re.MULTILINE)


def copied(folder: Path) -> None:
    """Copy what a build needs."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "target", "*.duckdb")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored, symlinks=True)
        else:
            shutil.copy(source, folder / name)


def followed(page: str, folder: Path) -> list[list[str]]:
    """Carry out in a copy of the repository what a page says about files; returns its dumbbell commands."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    (file,) = FILE.findall(text)
    ((macro, module, line),) = LINE.findall(text)
    (folder / file[0]).write_text(file[1], encoding="utf-8")
    registry = folder / "crates" / "dumbbell-core" / "src" / module
    source = registry.read_text(encoding="utf-8")
    *_, opened = re.finditer(rf"\n *{macro} {{\n", source)
    registry.write_text(source[: opened.end()] + line + source[opened.end() :], encoding="utf-8")
    return [shlex.split(command) for command in INDENTED.findall(text)]


def built(folder: Path) -> dict[str, str]:
    """Build the copy without optimisation, after the property tests of its algorithms; returns its environment."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "PYTHONPATH": str(folder / "python")}
    tested = ["--lib", "--test", "aqm_properties", "--test", "link_properties", "--", "properties", "aqm", "link"]
    for arguments in (
        ["test", "-p", "dumbbell-core", *tested],
        ["rustc", "-p", "dumbbell-py", "--lib", "--crate-type", "cdylib"],
    ):
        line = ["cargo", *arguments[:1], "--quiet", *arguments[1:]]
        done = subprocess.run(line, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0 and "warning" not in done.stderr, done.stdout + done.stderr
    (library,) = (TARGET / "debug").glob("lib*native*.so")
    shutil.copy(library, folder / "python" / "dumbbell" / "_native.abi3.so")
    return environment


@pytest.mark.parametrize("name", ["own-endpoint.md", "own-media-control.md"])
def test_the_endpoint_of_ones_own_is_the_example_that_cargo_test_runs(name: str) -> None:
    page = (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")
    ((file, code),) = FILE.findall(page)
    assert (ROOT / file).read_text(encoding="utf-8") == code
    assert f'#[path = "../examples/{Path(file).name}"]' in (
        ROOT / "crates" / "dumbbell-sim" / "tests" / "own.rs"
    ).read_text(encoding="utf-8")


def test_the_first_test_with_a_net_is_the_example_that_cargo_test_runs() -> None:
    page = (ROOT / "docs" / "how-to" / "own-test.md").read_text(encoding="utf-8")
    ((file, code),) = FILE.findall(page)
    assert (ROOT / file).read_text(encoding="utf-8") == code
    tests = (ROOT / "crates" / "dumbbell-net" / "tests" / "examples.rs").read_text(encoding="utf-8")
    assert f'#[path = "../examples/{Path(file).name}"]' in tests


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")
def test_algorithms_of_ones_own(tmp_path: Path) -> None:
    copied(tmp_path)
    pages = {"aimd": followed("own-control.md", tmp_path), "every": followed("own-aqm.md", tmp_path)}
    pages["seesaw"] = followed("own-link.md", tmp_path)
    environment = built(tmp_path)
    for name, commands in pages.items():
        assert [command[1] for command in commands[:2]] == ["describe", "run"]
        for command in commands:
            line = [sys.executable, "-m", *command]
            done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
            if command[1] == "describe":
                assert done.stdout.startswith(f"{name}: ")
