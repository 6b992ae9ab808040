"""The programs in the guest: C, compiled at first use and kept by the hash of their source; applications in Rust.

The applications are those of the simulator, from the same library, which Python loads in the guest: so no compiler of
Rust is needed.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from dumbbell import _native
from dumbbell.engines.linux import kernels
from dumbbell.errors import Failed, Needs, Unwritable, escape_line
from dumbbell.processes import end_with_parent, group_command
from dumbbell.scratch import Scratch
from dumbbell.writing import get_reason

SOURCE = Path(__file__).with_name("guest.c")
TRACER = Path(__file__).with_name("trace.c")  # of runs whose packets are wanted
APPS = Path(__file__).with_name("apps.py")  # of runs with applications
_COMPILER = ("cc", "-O2", "-Wall")


@cache
def compute_digest(source: Path = SOURCE) -> str:
    """Return a hash of a program's source."""
    return hashlib.blake2b(source.read_bytes(), digest_size=16).hexdigest()


_TOKEN = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|/\*.*?\*/|(\w+|[^\w\s])""", re.DOTALL)


@cache
def compute_code_digest() -> str:
    """Return a hash of the program's code: part of the engine's version."""
    return digest_code(SOURCE.read_text(encoding="utf-8"))


def digest_code(text: str) -> str:
    """Return a hash of C without comments and white space."""
    tokens = (literal or token for literal, token in _TOKEN.findall(text))
    return hashlib.blake2b("\n".join(filter(None, tokens)).encode(), digest_size=16).hexdigest()


def name_apps(plan: str) -> str:
    """Return a plan whose line `apps` has the command of the program of applications instead of its version."""
    # nothing of the environment, and no random hashes, so that the kernel draws the same random numbers everywhere
    words = ["env", "-i", "PYTHONHASHSEED=0", sys.executable, "-sSP", str(APPS), str(_native.__file__)]
    return re.sub(r"(?m)^apps .*$", lambda _: f"apps {shlex.join(words)}", plan)


def compile_program(source: Path = SOURCE) -> Path:
    """Return a compiled program, which is kept next to the kernels; raises InputError if it cannot be compiled."""
    folder = kernels.find_home() / "programs"
    binary = folder / f"{source.stem}-{compute_digest(source)}"
    if binary.exists():
        return binary
    if shutil.which(_COMPILER[0]) is None:
        raise Needs("a C compiler, cc", "apt-get install gcc libc6-dev", key="--engine linux")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Scratch(kernels.make_runs_folder()) as scratch:
            draft = scratch / binary.name
            subprocess.run(
                group_command([*_COMPILER, "-o", str(draft), str(source), "-lm"]),
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "TMPDIR": str(scratch)},
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
            draft.replace(binary)
    except OSError as error:
        raise Unwritable(get_reason(error), "a folder to write to", file=folder) from None
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr)
        raise Failed(
            escape_line(first.strip()), "a C compiler and the headers of Linux: linux-libc-dev", file="cc"
        ) from None
    return binary
