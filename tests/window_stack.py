"""The stack in C that `dumbbell plugin new stack` makes, built for tests: as it is, renamed, or with a fault."""

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

CRATE = Path(__file__).parent.parent / "crates" / "dumbbell-plugin"
SOURCE = (
    files("dumbbell.experiment.plugins")
    .joinpath("templates", "stack.c")
    .read_text(encoding="utf-8")
    .replace("@NAME@", "window")
)
# what is changed in the source, by what the stack then does
FAULTS = {
    "": ("", ""),
    "slow": ("DUMBBELL_INT, 10, 1, 1000", "DUMBBELL_INT, 2, 1, 1000"),
    "closes": (
        "(void)at; return NULL;",
        'return ((const state *)at)->acked > 2000 ? "out of paper" : NULL;',
    ),
    "crashes": ("self->srtt = self->srtt ?", "if (number > 2000) abort();\n  self->srtt = self->srtt ?"),
}


def require_compiler() -> None:
    """Skip the test without a C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")


def built(folder: Path, name: str = "window", fault: str = "") -> Path:
    """Build the example under a name; skips the test without a C compiler."""
    require_compiler()
    text = SOURCE
    before, after = FAULTS[fault]
    assert before in text and '1, "window"' in text
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text.replace(before, after, 1 if before else 0).replace('1, "window"', f'1, "{name}"'))
    line = ["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-I", str(CRATE / "include"), str(source), "-o", str(library)]
    subprocess.run(line, check=True)
    return library
