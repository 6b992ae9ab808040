"""Builds picoquic: a cmake project around a tree of the user's, compiled to a shared library in the user's cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dumbbell import _native
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Unfit, Unreadable, WrongValue, escape_line
from dumbbell.experiment.plugins import built
from dumbbell.experiment.plugins.built import Built
from dumbbell.stacks import tools, tree
from dumbbell.stacks.work import StackWork, Step, keep
from dumbbell.words import format_count

STACK = "picoquic"
# variables that would change a build
_CHANGING = r"(((C|CXX|CPP|LD)FLAGS|CMAKE_(BUILD_TYPE|TOOLCHAIN_FILE|GENERATOR.*)|MAKEFLAGS|DESTDIR)$)"
_KIND = "a tree of picoquic, with CMakeLists.txt and the folder picoquic"
# where picotls may lie: next to the tree or in it, or where cmake has fetched it for an earlier build of the tree
_PICOTLS = ("../picotls", "picotls", "_deps/picotls-src", "build/_deps/picotls-src")
_NEEDED_OF_PICOTLS = ("include/picotls.h", "deps/cifra/src/sha256.c", "deps/micro-ecc/uECC.c")


@dataclass(frozen=True)
class Sources:
    """A tree of picoquic, with the version that its project states; cmake has to fetch picotls if there is no tree."""

    folder: Path
    version: str
    picotls: Path | None


def read(folder: Path | None, version: str | None) -> Sources:
    """Return what lies in the folder; raises InputError if it has none of picoquic."""
    if folder is None:
        raise Unfit("picoquic is built from a tree of your own", "--path DIR", command="stack build")
    if version is not None:
        raise WrongValue(
            version, "left out: the tree says which version it is", command="stack build", option="--version"
        )
    if not (folder / "picoquic" / "picoquic.h").is_file() or not (folder / "CMakeLists.txt").is_file():
        raise Unfit(f"{escape_line(str(folder))} has no picoquic in it", _KIND, command="stack build", option="--path")
    folder = folder.resolve()
    manifest = folder / "CMakeLists.txt"
    try:
        text = manifest.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Unreadable(escape_line(str(error)), "a project of cmake", file=manifest) from None
    found = re.search(r"\bproject\s*\(\s*picoquic\s[^)]*?\bVERSION\s+([0-9]+(?:\.[0-9]+)*)", text, re.IGNORECASE)
    if found is None:
        raise Unreadable("it has no project(picoquic VERSION …)", "that of picoquic", file=manifest)
    places = [folder / place for place in _PICOTLS]
    picotls = next((one for one in places if all((one / name).is_file() for name in _NEEDED_OF_PICOTLS)), None)
    return Sources(folder, found[1], picotls.resolve() if picotls is not None else None)


def build(version: str | None, path: Path | None, name: str | None, progress: StepProgress) -> tuple[Built, bool]:
    """Build the stack of a tree; return it, and True: each build looks at the tree again. Raises InputError."""
    if name is not None:
        built.check_name(name)
    sources = read(path, version)
    tools.require_program("cmake")
    name = name or f"{STACK}-{sources.version}"
    with StackWork(progress) as work:
        progress.print_line(f"{name}:")
        content = _compile_library(work, sources, name).read_bytes()
    described = {
        "stack": STACK,
        "version": sources.version,
        "release": False,
        "origin": str(sources.folder),
        "state": tree.describe_folder(sources.folder),
        "picotls": tree.describe_folder(sources.picotls) if sources.picotls is not None else "as the tree fetches it",
    }
    return keep(name, content, described), True


def _compile_library(work: StackWork, sources: Sources, name: str) -> Path:
    """Let cmake make the library; return its path. Raises InputError."""
    generator = ["-G", "Ninja"] if tools.find_program("ninja") else []
    # of one tree and generator, what is compiled already stays; cmake refuses another
    key = hashlib.sha256(f"{sources.folder}\0{sources.picotls}\0{generator}".encode()).hexdigest()[:12]
    project, output = work.place / STACK, work.place / f"{STACK}-{key}"
    _write(project)
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "TREE": str(sources.folder),
        "PICOTLS": str(sources.picotls or ""),
        "INTERFACE": str(project),
        "STACK_NAME": name,
        "STACK_TITLE": f"QUIC: picoquic {sources.version} from a tree of one's own",
    }
    words = [f"-D{key}={value}" for key, value in settings.items()]
    configure = [tools.require_program("cmake"), *generator, "-S", str(project), "-B", str(output), *words]
    make = [
        tools.require_program("cmake"),
        "--build",
        str(output),
        "--target",
        "stack",
        "--parallel",
        str(os.cpu_count() or 1),
    ]
    environment = tools.clean_environment(_CHANGING)
    with work.progress.step("cmake") as result:
        fetches = "" if sources.picotls else f"; for picotls: next to {sources.folder} or from where cmake fetches it"
        needed = f"cmake 3.14, compilers of C and C++, make or ninja{fetches}"
        failure = "it cannot be configured"
        work.run(Step(configure, project, environment, failure, needed, tools.find_complaint_of_cmake))
        result.append(f"picoquic {sources.version}")
    with work.progress.step("compile") as result:
        failure, needed = "it does not compile", "sources that compile"
        step = Step(make, project, environment, failure, needed, tools.find_complaint_of_cmake)
        count = work.run(step, ".*Building C", "files")
        result.append(format_count(count, "file") if count else "nothing new")
    return output / "libstack.so"


def _write(project: Path) -> None:
    """Write dumbbell's part, leaving files that are the same as they are: they need not be compiled again."""
    made = {one.name: one.read_bytes() for one in files("dumbbell.stacks").joinpath("adapter", STACK).iterdir()}
    made["dumbbell.h"] = _native.plugin_header().encode()
    project.mkdir(parents=True, exist_ok=True)
    for file in project.iterdir():
        if file.name not in made:
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    for name, content in made.items():
        file = project / name
        if not file.is_file() or file.read_bytes() != content:
            file.write_bytes(content)
