"""The how-tos "your own congestion control" and "your own queue discipline", step by step as they are printed.

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
COPIED = ("Cargo.toml", "Cargo.lock", "crates", "benches", "experiments", "references", "python", "pyproject.toml")
FILE = re.compile(r"`(crates/[\w/.-]+\.rs)`:\n\n```rust\n(.*?)```", re.DOTALL)
LINE = re.compile(r"The line goes into `(\w+!)`[^`]*`([\w/.]+)`:\n\n```rust\n(.*?)```", re.DOTALL)
INDENTED = re.compile(r"^ {4}(dumbbell .+)$", re.MULTILINE)


def followed(page: str, folder: Path) -> list[list[str]]:
    """Carry out what a page says about files, in a copy of the repository; returns its dumbbell commands."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    (file,) = FILE.findall(text)
    ((macro, module, line),) = LINE.findall(text)
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "target", "*.duckdb")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    (folder / file[0]).write_text(file[1], encoding="utf-8")
    registry = folder / "crates" / "dumbbell-core" / "src" / module
    before, _, after = registry.read_text(encoding="utf-8").rpartition(f"\n{macro} {{\n")
    assert before, f"{module} has no {macro}"
    registry.write_text(f"{before}\n{macro} {{\n{line}{after}", encoding="utf-8")
    return [shlex.split(command) for command in INDENTED.findall(text)]


def built(folder: Path, *, tests: str) -> dict[str, str]:
    """Build the copy without optimisation and run the property tests of its registry; returns its environment."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "PYTHONPATH": str(folder / "python")}
    cargo = ["cargo", "test", "--quiet", "-p", "dumbbell-core", "--test", tests]
    subprocess.run(cargo, cwd=folder, env=environment, check=True, capture_output=True)
    cargo = ["cargo", "rustc", "--quiet", "-p", "dumbbell-py", "--lib", "--crate-type", "cdylib"]
    said = subprocess.run(cargo, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert said.returncode == 0 and "warning" not in said.stderr, said.stderr
    (library,) = (TARGET / "debug").glob("lib*native*.so")
    shutil.copy(library, folder / "python" / "dumbbell" / "_native.abi3.so")
    return environment


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")
@pytest.mark.parametrize(
    ("page", "tests", "name"),
    [("own-control.md", "cc_properties", "aimd"), ("own-aqm.md", "aqm_properties", "every")],
)
def test_an_algorithm_of_ones_own(page: str, tests: str, name: str, tmp_path: Path) -> None:
    commands = followed(page, tmp_path)
    assert len(commands) >= 2
    environment = built(tmp_path, tests=tests)
    for command in commands:
        line = [sys.executable, "-m", *command]
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
        if command[1] == "describe":
            assert done.stdout.startswith(f"{name}: ")
