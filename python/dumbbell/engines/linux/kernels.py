"""The kernels that are there: where they lie, what each was made from, and what it has."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import (
    InputError,
    UnknownName,
    Unreadable,
    Unwritable,
    WrongValue,
    escape_line,
    find_nearest,
    quote_value,
)
from dumbbell.scratch import find_kernels_folder
from dumbbell.writing import make_folder

DEFAULT = "default"


@dataclass(frozen=True)
class Kernel:
    """A kernel that runs as a process (User-Mode Linux), with its clock under our control."""

    name: str
    binary: Path
    release: str
    digest: str
    """SHA-256 over everything that it was made from: sources, patches, configuration, our own changes."""
    described: dict[str, Any]
    """All that kernel.json says: source, patches, compiler, time of the build and so on."""
    congestion_controls: tuple[str, ...]
    """Names as `setsockopt(TCP_CONGESTION)` takes them."""
    qdiscs: tuple[str, ...]
    """Names as tc(8) takes them."""

    @property
    def config(self) -> Path:
        """Return the file with the kernel's final configuration."""
        return self.binary.with_name("config")


def find_home() -> Path:
    """Return the folder of all kernels."""
    return find_kernels_folder()


def make_runs_folder() -> Path:
    """Return the folder of what runs need while they last; raises InputError if it cannot be made."""
    place = find_home() / "runs"
    make_folder(place, "a folder to write to")
    return place


def check_name(name: str) -> str:
    """Return `name` if a kernel may be called so; raises InputError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name):
        raise WrongValue(
            quote_value(name), "letters, digits and . _ + - (a letter or digit first)", command="linux", key="name"
        )
    return name


def find_folder(name: str) -> Path:
    """Return the folder of the kernel `name`, whether it is there or not.

    Raises InputError if no kernel may be called so, or if something else is there.
    """
    place = find_home() / check_name(name)
    if place.exists() and not any((place / file).exists() for file in ("kernel.json", "linux", "config")):
        raise Unwritable(f"{place} is not a kernel", "another name", command="linux", key="name")
    return place


def load(name: str | None = None) -> Kernel:
    """Return the kernel called `name` ("default" without one); raises InputError if it is not built or damaged."""
    name = check_name(name or DEFAULT)
    place = find_home() / name
    if not (place / "kernel.json").exists():
        remedy = "dumbbell linux build" + ("" if name == DEFAULT else f" --name {name}")
        others = [kernel.name for kernel in list_installed()]
        known = f"choose from {', '.join(others)}, or build it with {remedy}" if others else f"build it with {remedy}"
        raise UnknownName(name, among=known, command="linux", nearest=find_nearest(name, others), what="kernel")
    return _read(place)


def list_installed() -> list[Kernel]:
    """Return all kernels that are built and whole, by name."""
    found = []
    for description in sorted(find_home().glob("*/kernel.json")):
        try:
            found.append(_read(description.parent))
        except InputError:
            continue
    return found


def _read(place: Path) -> Kernel:
    name, binary = place.name, place / "linux"
    remedy = f"a whole kernel: dumbbell linux remove {name}, then dumbbell linux build --name {name}"
    try:
        described = json.loads((place / "kernel.json").read_text(encoding="utf-8"))
        kernel = Kernel(
            name=name,
            binary=binary,
            release=str(described["release"]),
            digest=str(described["digest"]),
            described=described,
            congestion_controls=tuple(described["congestion_controls"]),
            qdiscs=tuple(described["qdiscs"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"it cannot be read ({escape_line(str(error))})", remedy, file=place / "kernel.json") from None
    if not os.access(binary, os.X_OK):
        raise Unreadable("the kernel is missing", remedy, file=binary)
    return kernel
