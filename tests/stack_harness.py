"""tests/stacks/bottleneck.rs, which runs a built stack over a bottleneck without the engine, and what it prints."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent / "stacks" / "bottleneck.rs"


def compiled(folder: Path) -> Path:
    """Return the program, compiled into a folder; skips the test without Rust."""
    if shutil.which("rustc") is None:
        pytest.skip("Rust is not installed")
    program = folder / "bottleneck"
    subprocess.run(["rustc", "-O", "--edition", "2021", str(_SOURCE), "-o", str(program)], check=True)
    return program


def lines(program: Path, *words: object) -> list[str]:
    """Return the lines that the harness prints."""
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def field(line: str, name: str) -> str:
    """Return what stands behind a name in a line."""
    found = re.search(rf"\b{re.escape(name)} (\S+?)(,|$| )", line)
    assert found is not None, line
    return found[1]
