"""tests/stacks/bottleneck.rs, which runs a built stack over a bottleneck without the engine, and what it prints."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dumbbell import _native

_SOURCE = Path(__file__).parent / "stacks" / "bottleneck.rs"
_INTERFACE = "../../python/dumbbell/stacks/adapter/src/interface.rs"


def compiled(folder: Path) -> Path:
    """Return the program, compiled into a folder; skips the test without Rust."""
    if shutil.which("rustc") is None:
        pytest.skip("Rust is not installed")
    program, source = folder / "bottleneck", folder / "bottleneck.rs"
    text = _SOURCE.read_text(encoding="utf-8")
    assert _INTERFACE in text
    # the types of dumbbell.h lie next to it, as in the project of a stack
    source.write_text(text.replace(_INTERFACE, "interface.rs"), encoding="utf-8")
    shutil.copy(_SOURCE.parent / _INTERFACE, folder / "interface.rs")
    (folder / "abi.rs").write_text(_native.plugin_types(), encoding="utf-8")
    subprocess.run(["rustc", "-O", "--edition", "2021", str(source), "-o", str(program)], check=True)
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
