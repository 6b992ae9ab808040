"""Builds a stack: a cargo project around its state machine, compiled to a shared library in the user's cache."""

from __future__ import annotations

import contextlib
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Failed, OutOfRange, Unfit, UnknownName, WrongValue, quote_value
from dumbbell.experiment.plugins import built
from dumbbell.experiment.plugins.built import Built
from dumbbell.processes import lock_file
from dumbbell.stacks import picoquic, project, tools, tree
from dumbbell.stacks.project import BuildPlan
from dumbbell.stacks.work import WORK, StackWork, Step, keep

# variables that would change a build, and those that keep cargo's output plain
_CHANGING = r"(RUSTFLAGS|CARGO_(ENCODED_RUSTFLAGS|BUILD_|PROFILE_|TARGET_)|DUMBBELL_STACK_)"
_QUIET = {"CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"}
_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class StackRequest:
    """The options of the user; `logs` asks for the library that writes the stack's own qlog, too, if there is one."""

    stack: str
    version: str | None = None
    path: Path | None = None
    name: str | None = None
    logs: bool = True


def make_plan(request: StackRequest) -> BuildPlan:
    """Return what is to be built; raises InputError if that cannot be."""
    if request.stack not in built.STACKS:
        raise UnknownName(request.stack, among=built.STACKS, command="stack build", what="stack")
    if request.name is not None:
        built.check_name(request.name)
    found = tree.read(request.path, request.stack) if request.path is not None else None
    if request.version is not None:
        _check_version(request.stack, request.version)
        if found is not None and not found.has_controls:
            raise WrongValue(
                request.version,
                f"left out: {found.folder} is {found.version}",
                command="stack build",
                option="--version",
            )
    return BuildPlan(request.stack, request.version, found)


def _check_version(stack: str, version: str) -> None:
    if not _VERSION.fullmatch(version):
        raise WrongValue(
            quote_value(version),
            f"a released version such as {project.OLDEST[stack]}",
            command="stack build",
            option="--version",
        )
    oldest, series = project.OLDEST[stack], project.SERIES[stack]
    if built.order(version) < built.order(oldest) or not f"{version}.".startswith(f"{series}."):
        raise OutOfRange(version, f"{oldest} or a later one of {series}", command="stack build", option="--version")


def build(request: StackRequest, progress: StepProgress) -> tuple[Built, bool]:
    """Build a stack; return it, and whether there was anything to do. Raises InputError.

    A released version is built once for the sources of the adapter and the compiler that it depends on.
    """
    if not request.logs and request.stack not in project.LOGGING:
        having = " or ".join(project.LOGGING)
        raise Unfit(
            f"there is no library of {request.stack} for its own qlog",
            having,
            command="stack build",
            option="--no-qlog",
        )
    if request.stack == picoquic.STACK:
        return picoquic.build(request.version, request.path, request.name, progress)
    tools.require_program("cargo")
    if request.stack == "quiche":
        tools.require_program("cmake")  # for BoringSSL
        if not tools.finds_libclang():
            progress.print_line(f"{tools.NO_LIBCLANG}, unless the build finds it elsewhere")
    what, rustc = make_plan(request), tools.read_rustc_version()
    if what.version is not None and what.tree is None:
        name = request.name or f"{what.stack}-{what.version}"
        if there := _find_built(name, project.compute_digest(what, rustc), request):
            return there, False
    with _CargoWork(progress) as work:
        work.write(project.make_contents(what))
        version = work.resolve_version(tree.CRATES[what.stack])
        name = request.name or _name(what, version)
        if what.tree is None:
            what = BuildPlan(what.stack, version, None)
            if there := _find_built(name, project.compute_digest(what, rustc), request):
                return there, False
        progress.print_line(f"{name}:")
        features, variables = project.list_features(what, version), project.make_environment(what, name, version)
        content = work.compile_library("cargo", features, variables).read_bytes()
        logging = None
        if what.stack in project.LOGGING and request.logs:
            logging = work.compile_library("with its own qlog", [*features, project.LOG], variables).read_bytes()
    described = {
        "stack": what.stack,
        "version": version,
        "release": what.tree is None,
        "origin": f"{tree.CRATES[what.stack]} {version}" if what.tree is None else str(what.tree.folder),
        "digest": project.compute_digest(what, rustc),
        "rustc": rustc.splitlines()[0],
    }
    return keep(name, content, described, logging), True


def remove_compiled() -> None:
    """Remove what cargo has compiled if no stack is left and nobody builds one."""
    place = built.find_home() / WORK
    if built.list_installed() or not place.exists():
        return
    with (place / "lock").open("a+b") as lock, contextlib.suppress(TimeoutError):
        lock_file(lock.fileno(), 0)
        shutil.rmtree(place, ignore_errors=True)


def _find_built(name: str, digest: str, request: StackRequest) -> Built | None:
    """Return the stack of this name if it is built from the same sources, by the same compiler, as wanted."""
    one = next(
        (one for one in built.list_installed() if one.name == name and one.described.get("digest") == digest), None
    )
    lacks_logs = one is not None and request.logs and one.stack in project.LOGGING and one.logging is None
    return None if lacks_logs else one


def _name(what: BuildPlan, version: str) -> str:
    if what.tree is None:
        return f"{what.stack}-{version}"
    if what.tree.has_controls:
        return f"{what.stack}-{version}-{what.tree.package}"
    return f"{what.stack}-{tree.describe_folder(what.tree.folder)}"


class _CargoWork(StackWork):
    """The folder that stacks are built in, with a project of cargo."""

    @property
    def _project(self) -> Path:
        return self.place / "project"

    def write(self, contents: dict[str, str]) -> None:
        """Make the project again; what cargo has compiled before stays."""
        shutil.rmtree(self._project, ignore_errors=True)
        for path, text in contents.items():
            (self._project / path).parent.mkdir(parents=True, exist_ok=True)
            (self._project / path).write_text(text, encoding="utf-8")

    def resolve_version(self, crate: str) -> str:
        """Let cargo choose versions, and return that of a crate. Raises InputError."""
        with self.progress.step("versions") as result:
            needed = "versions that there are, and a registry that can be reached"
            self._run_cargo("no versions can be chosen", needed, ["generate-lockfile"])
            packages = tomllib.loads((self._project / "Cargo.lock").read_text(encoding="utf-8"))["package"]
            versions = [str(one["version"]) for one in packages if one["name"] == crate]
            result.append(f"{crate} {' and '.join(versions)}")
        if len(versions) != 1:
            found = f"{crate} {' and '.join(versions)} would be built together"
            raise Failed(found, f"a crate that depends on the same {crate}", command="stack build")
        return versions[0]

    def compile_library(self, step: str, features: list[str], variables: dict[str, str]) -> Path:
        """Compile the library and return its path. Raises InputError."""
        with self.progress.step(step) as result:
            command = ["build", "--release", "--locked", "--features", ",".join(features)]
            count = self._run_cargo("it does not compile", "sources that compile", command, variables)
            result.append(f"{count} crates")
        return self.place / "target" / "release" / "libstack.so"

    def _run_cargo(self, what: str, needed: str, words: list[str], variables: dict[str, str] | None = None) -> int:
        """Let cargo work; return how many crates it compiled. Raises InputError, as `run` does."""
        environment = tools.clean_environment(_CHANGING) | _QUIET | (variables or {})
        environment["CARGO_TARGET_DIR"] = str(self.place / "target")
        step = Step(
            [tools.require_program("cargo"), *words], self._project, environment, what, needed, tools.find_complaint
        )
        return self.run(step, r"\s*Compiling", "crates")
