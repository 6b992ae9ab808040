"""The program in the guest: C, compiled at first use and kept by the hash of its source."""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

from dumbbell.errors import InputError, one_line

SOURCE = Path(__file__).with_name("guest.c")
_COMPILER = ("cc", "-O2", "-Wall")


@cache
def digest() -> str:
    """Return a hash of the program's source."""
    return hashlib.blake2b(SOURCE.read_bytes(), digest_size=16).hexdigest()


def program(folder: Path) -> Path:
    """Return the compiled program, which is kept in `folder`; raises InputError if it cannot be compiled."""
    binary = folder / f"guest-{digest()}"
    if binary.exists():
        return binary
    draft = folder / f"{binary.name}.{os.getpid()}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([*_COMPILER, "-o", draft, SOURCE, "-lm"], check=True, capture_output=True, text=True)
        draft.replace(binary)
    except FileNotFoundError:
        raise InputError("cc", "", "no such program", "a C compiler: apt-get install gcc libc6-dev") from None
    except OSError as error:
        raise InputError(str(folder), "", error.strerror or str(error), "a folder to write to") from None
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr)
        raise InputError(
            "cc", "", one_line(first.strip()), "a C compiler and the headers of Linux: linux-libc-dev"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    return binary
