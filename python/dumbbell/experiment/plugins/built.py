"""The stacks that are built: where they lie, and what each was made from."""

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, UnknownName, Unreadable, WrongValue, escape_line, find_nearest, quote_value
from dumbbell.scratch import find_cache_folder
from dumbbell.writing import get_reason

STACKS = ("quinn", "noq", "quiche", "picoquic")
LIBRARY, DESCRIPTION = "stack.so", "stack.json"
LOGGING = "stack-qlog.so"  # the same stack, which can also write its own qlog
_NAMED = re.compile(r'\bstack = (?:\{ *name = )?"([^"/]+)"')  # in the text of an experiment file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class Built:
    """A stack that is built: a shared library, a plugin."""

    name: str
    """What it is called in experiments and tables, such as `quinn-0.11.16`."""
    stack: str
    """One of `STACKS`."""
    version: str
    """Of the crate with the state machine, or of the project."""
    origin: str
    """The registry's crate or the user's folder that it was made from."""
    library: Path
    controls: tuple[str, ...]
    """Its congestion controls, the default first."""
    described: dict[str, Any]
    """All that stack.json says: digest of the sources, rustc, time of the build and so on."""

    @property
    def logging(self) -> Path | None:
        """The library that can write the stack's own qlog, if there is one."""
        path = self.library.with_name(LOGGING)
        return path if path.is_file() else None

    @property
    def is_release(self) -> bool:
        """Whether it is a released version under its own name."""
        return bool(self.described.get("release")) and self.name == f"{self.stack}-{self.version}"

    def read_content(self) -> bytes:
        """Return the library as it was built; raises InputError if it has changed since."""
        try:
            content = self.library.read_bytes()
        except OSError as error:
            raise _make_damage_error(self.library, get_reason(error)) from None
        if hashlib.sha256(content).hexdigest() != self.described.get("sha256"):
            raise _make_damage_error(self.library, "it is not what was built")
        return content


def _make_damage_error(file: Path, how: str) -> InputError:
    name = file.parent.name
    remedy = f"a whole stack: dumbbell stack remove {name}, and build it again"
    return Unreadable(f"it is damaged ({escape_line(how)})", remedy, file=file)


def find_home() -> Path:
    """Return the folder of all stacks: dumbbell/stacks in the user's cache."""
    return find_cache_folder("stacks")


def check_name(name: str) -> str:
    """Return `name` if a stack may be called so; raises InputError."""
    if not _NAME.fullmatch(name) or name in STACKS:
        stacks = f"{', '.join(STACKS[:-1])} or {STACKS[-1]}"
        allowed = f"letters, digits and . _ - (a letter or digit first), and not {stacks} alone"
        raise WrongValue(quote_value(name), allowed, command="stack build", option="--name")
    return name


def list_named(text: str) -> list[str]:
    """Return the stacks that the text of an experiment file names: where they are not built, it cannot be read."""
    return sorted(set(_NAMED.findall(text)))


def list_missing(text: str) -> list[str]:
    """Return the stacks that the text of an experiment file names and that are not built."""
    known = {name for one in list_installed() for name in (one.name, one.stack)}
    return [name for name in list_named(text) if name not in known]


def list_installed() -> list[Built]:
    """Return all stacks that are built and whole, by stack and version."""
    found = []
    for description in find_home().glob(f"*/{DESCRIPTION}"):
        try:
            found.append(_read(description.parent))
        except InputError:
            continue
    return sorted(found, key=lambda one: (STACKS.index(one.stack), order(one.version), one.name))


def find_logging_library(library: Path) -> Path:
    """Return the library that does what `library` does and can write the stack's own qlog, or `library` itself."""
    content = library.read_bytes()
    found = (one.logging for one in list_installed() if one.library.read_bytes() == content)
    return next((path for path in found if path is not None), library)


def order(version: str) -> tuple[int, ...]:
    """Return what sorts versions."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _read(place: Path) -> Built:
    try:
        described = json.loads((place / DESCRIPTION).read_text(encoding="utf-8"))
        built = Built(
            name=place.name,
            stack=str(described["stack"]),
            version=str(described["version"]),
            origin=str(described["origin"]),
            library=place / LIBRARY,
            controls=tuple(map(str, described["controls"])),
            described=described,
        )
        if built.stack not in STACKS:
            raise ValueError(f"no stack {built.stack}")
        size = built.library.stat().st_size
        if size != described["bytes"]:
            raise ValueError(f"{LIBRARY} has {size} bytes")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _make_damage_error(place / DESCRIPTION, str(error)) from None
    return built


def make_build_command(name: str) -> str:
    """Return the command that builds what is asked for by this name, as far as the name tells."""
    stack, _, version = name.partition("-")
    if stack not in STACKS:
        return "dumbbell stack build quinn"
    if stack == "picoquic":
        return f"dumbbell stack build {stack} --path DIR"
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", version):
        return f"dumbbell stack build {stack} --version {version}"
    return f"dumbbell stack build {stack}" + (f" --path DIR --name {name}" if version else "")


def find(name: str) -> Built:
    """Return a stack that is built by its name, or the newest of one of `STACKS`; raises InputError if there is none.

    The newest is the released one with the highest version, or else the one that was built last.
    """
    everything = list_installed()
    if name in STACKS:
        of_stack = [one for one in everything if one.stack == name]
        if releases := [one for one in of_stack if one.is_release]:
            return releases[-1]
        if of_stack:
            return max(of_stack, key=lambda one: str(one.described.get("when", "")))
    for one in everything:
        if one.name == name:
            return one
    if _NAME.fullmatch(name) and (find_home() / name / DESCRIPTION).exists():
        return _read(find_home() / name)
    names = [one.name for one in everything]
    known = f"choose from {', '.join(names)}, or" if names else "no stack is built;"
    raise UnknownName(
        name, among=f"{known} build it with {make_build_command(name)}", nearest=find_nearest(name, names), what="stack"
    )


def find_library(name: str) -> Path:
    """Return the library of a stack that is built: by name, or the newest of one of `STACKS`. Raises InputError."""
    return find(name).library


def remove(name: str) -> None:
    """Remove a stack that is built, damaged or not. Raises InputError if there is none of this name."""
    place = find_home() / name
    if not _NAME.fullmatch(name) or not (place / DESCRIPTION).exists():
        names = [one.name for one in list_installed()]
        raise UnknownName(name, among=names or "no stack is built", command="stack remove", what="stack")
    shutil.rmtree(place, ignore_errors=True)
