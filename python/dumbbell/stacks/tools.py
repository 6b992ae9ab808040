"""Tools that building a stack needs: cargo with a rustc that is new enough, or cmake."""

import os
import re
import shutil
import subprocess
from ctypes.util import find_library
from pathlib import Path

from dumbbell.errors import Needs

RUSTUP = "https://rustup.rs, or the packages cargo and rustc of a recent distribution"
NO_LIBCLANG = "there is no libclang, which bindings to BoringSSL need (package libclang-dev, or LIBCLANG_PATH)"
CMAKE = "the package cmake, with make or ninja and compilers of C and C++"


def find_program(program: str) -> str | None:
    """Return the path of a program, if it is there."""
    return shutil.which(program)


def require_program(program: str) -> str:
    """Return the path of cargo, rustc or cmake; raises InputError if it is not there."""
    path = find_program(program)
    if path is None:
        raise Needs(program, CMAKE if program == "cmake" else RUSTUP, command="stack build")
    return path


def clean_environment(changing: str) -> dict[str, str]:
    """Return our environment without the variables that would change a build, which match `changing`."""
    return {name: value for name, value in os.environ.items() if not re.match(changing, name)} | {"LC_ALL": "C"}


def finds_libclang() -> bool:
    """Return whether libclang lies where it usually does; elsewhere a build may still find it."""
    usual = find_library("clang") is not None or any(Path("/usr/lib").glob("llvm*/lib/libclang*.so*"))
    return usual or "LIBCLANG_PATH" in os.environ


def read_rustc_version() -> str:
    """Return which compiler it is, on which builds depend; raises InputError if there is none."""
    answer = subprocess.run(
        [require_program("rustc"), "-vV"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if answer.returncode != 0:
        raise Needs(f"a rustc that works ({find_complaint(answer.stderr)})", RUSTUP, command="stack build")
    return answer.stdout.strip()


def find_complaint(output: str) -> str:
    """Return in a line what cargo complains of: its first errors with their places, or else its last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("Unable to find libclang" in line for line in lines):
        return NO_LIBCLANG
    complaints = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if re.match(r"error(\[E\d+\])?:", line) and not line.startswith("error: could not compile"):
            complaints.append(f"{line} ({following.removeprefix('--> ')})" if following.startswith("--> ") else line)
            if re.match(r"error: failed to", line) and "Caused by:" in lines:
                complaints += lines[lines.index("Caused by:") + 1 :][:4]
                break
    return "; ".join(complaints[:3] if complaints else lines[-3:])[:600]


def find_complaint_of_cmake(output: str) -> str:
    """Return in a line what cmake or a compiler complains of: the first errors, or else the last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    complaints = []
    for n, line in enumerate(lines):
        if re.match(r"CMake Error( at|:)", line):
            complaints.append(" ".join([line, *lines[n + 1 : n + 3]]))
        elif re.search(r"\b(fatal )?error: ", line) or "undefined reference to" in line:
            complaints.append(line)
    return "; ".join(complaints[:2] if complaints else lines[-3:])[:600]
