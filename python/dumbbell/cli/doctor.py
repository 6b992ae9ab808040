"""`dumbbell doctor`: what each engine needs, whether this machine has it, and how to get it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell.engines.needs import Check
from dumbbell.errors import InputError, UnknownName, one_line
from dumbbell.scratch import Scratch
from dumbbell.words import count

if TYPE_CHECKING:
    from dumbbell.engines.linux.kernels import Kernel

WORKS, BROKEN = 0, 1
CELL_BYTES = 400_000_000  # of shared memory for each run at a time: a guest's memory is a file there
_SHARED_MEMORY = Path("/dev/shm")
_TINY = {
    "duration": "1s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}],
}


def sim() -> Iterator[Check]:
    """Yield what the simulator needs: its extension, which simulates a second, and cores."""
    from dumbbell.engines.linux import needs

    try:
        from dumbbell import _native, experiment

        cell = next(iter(experiment.parse(_TINY, "doctor").cells()))
        began = time.perf_counter()
        _native.run(cell.config, _native.Cancel(), _native.Progress())
        took = time.perf_counter() - began
        yield Check("simulator", f"{_native.engine_version()}; 1 s of one flow takes {took * 1e3:.1f} ms")
    except (ImportError, RuntimeError, ValueError) as error:
        yield Check("simulator", one_line(str(error)), "pip install --force-reinstall dumbbell")
    yield Check("cores", f"{needs.cores()}: as many runs at a time")
    yield _stacks()


def linux() -> Iterator[Check]:
    """Yield what Linux on a virtual clock needs, to run and to build kernels."""
    from dumbbell.engines.linux import kernels

    found = kernels.installed()
    yield _kernels()
    for kernel in found:
        yield _boots(kernel)
    yield _iproute()
    yield _shared_memory()
    yield _namespaces()
    yield _compiler()
    yield from _building(bool(found))


def live() -> Iterator[Check]:
    """Yield what runs in real time need, and how well this machine keeps time now."""
    from dumbbell.engines.live import needs

    yield from needs.checks()


ENGINES: dict[str, Callable[[], Iterator[Check]]] = {"sim": sim, "linux": linux, "live": live}


def _stacks() -> Check:
    """Return which QUIC stacks are built, and whether others can be; runs without them need none."""
    from dumbbell.experiment.plugins import built
    from dumbbell.stacks import needs

    names = [one.name for one in built.installed()]
    missing = {"cargo": needs.RUSTUP, "cmake": f"for picoquic: {needs.CMAKE}"}
    missing = {program: how for program, how in missing.items() if needs.found(program) is None}
    found = "; ".join([", ".join(names) or "none built", *(f"no {program}" for program in missing)])
    if names and not missing:
        return Check("stacks", found)
    how = f"to build one: {'; '.join(missing.values())}" if missing else "dumbbell stack build quinn"
    return Check("stacks", found, how, needed=False)


def _kernels() -> Check:
    from dumbbell.engines.linux import kernels

    names = [kernel.name for kernel in kernels.installed()]
    if kernels.DEFAULT in names:
        return Check("kernels", ", ".join(names))
    if names:
        use = f"--engine linux:{names[0]}, or for --engine linux: dumbbell linux build"
        return Check("kernels", f"{', '.join(names)}; none called {kernels.DEFAULT}", use, needed=False)
    return Check("kernels", f"none in {kernels.home()}", "dumbbell linux build")


def _boots(kernel: Kernel) -> Check:
    from dumbbell.engines.linux import trial

    what = f"kernel {kernel.name}"
    with Scratch() as place:
        try:
            said = trial.boot(kernel.binary, place, seed=1)
        except InputError as error:
            return Check(what, error.found, error.allowed)
        except OSError as error:
            return Check(what, error.strerror or str(error), f"dumbbell linux remove {kernel.name}, and build it again")
    seeded = "" if kernel.described.get("seeded") else "; its random numbers cannot be seeded"
    return Check(what, f"Linux {said['release']} boots in {said['seconds']} s{seeded}")


def _iproute() -> Check:
    packages = "apt-get install iproute2"
    tc = _program("tc")
    if tc is None or _program("ip") is None:
        return Check("iproute2", "no tc" if tc is None else "no ip", packages)
    try:
        version = subprocess.run([tc, "-V"], capture_output=True, text=True, check=False).stdout.strip()
        shown = subprocess.run([tc, "-j", "qdisc", "show", "dev", "lo"], capture_output=True, text=True, check=False)
        json.loads(shown.stdout or "[]")
    except (OSError, ValueError):
        return Check("iproute2", "a tc without JSON", f"one of 2018 or later (4.16): {packages}")
    return Check("iproute2", version.removeprefix("tc utility, "))


def _program(name: str) -> str | None:
    """Return the path of a program, also of one that only root has in its PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _shared_memory() -> Check:
    what = str(_SHARED_MEMORY)
    if not os.access(_SHARED_MEMORY, os.W_OK):
        return Check(what, "not there, or not writable", f"mount -t tmpfs tmpfs {what}")
    status = os.statvfs(_SHARED_MEMORY)
    if status.f_flag & os.ST_NOEXEC:
        return Check(what, "no programs may run there (noexec)", f"mount -o remount,exec {what}")
    free = status.f_bavail * status.f_frsize
    found = f"{free / 1e9:.1f} GB free: {count(free // CELL_BYTES, 'run')} at a time"
    larger = f"--shm-size=2g for a container, or: mount -o remount,size=2G {what}"
    return Check(what, found, "" if free >= CELL_BYTES else larger)


def _namespaces() -> Check:
    root = os.geteuid() == 0
    command = ["unshare", "-m", "true"] if root else ["unshare", "-r", "-m", "true"]
    found = "root" if root else "user namespaces"
    try:
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return Check("namespaces", "no unshare", "apt-get install util-linux")
    if tried.returncode == 0:
        return Check("namespaces", found)
    refused = one_line(tried.stderr.strip().splitlines()[-1] if tried.stderr.strip() else "refused")
    container = "docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
    sysctl = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0 kernel.unprivileged_userns_clone=1"
    return Check("namespaces", refused, container if root else sysctl)


def _compiler() -> Check:
    from dumbbell.engines.linux import needs

    if packages := needs.missing_packages({"gcc": "gcc"}):
        return Check("compiler", "no " + ", ".join(packages), needs.install_command(packages))
    version = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return Check("compiler", f"gcc {version}")


def _building(has_kernel: bool) -> Iterator[Check]:
    """Yield what `dumbbell linux build` needs; what has a kernel runs without."""
    from dumbbell.engines.linux import kernels, needs, sources

    packages = needs.missing_packages({**needs.BUILD_TOOLS, "gcc": "gcc"})
    found = f"no {', '.join(packages)}" if packages else ", ".join(needs.BUILD_TOOLS)
    yield Check("build tools", found, needs.install_command(packages) if packages else "", needed=not has_kernel)
    try:
        package = sources.package(sources.DEFAULT_VERSION, kernels.home() / ".sources")
        yield Check("kernel source", str(package) + ("" if package.size else ", unpacked"))
    except InputError as error:
        known = sources.available()
        remedy = f"dumbbell linux build --version {known[-1]}" if known else error.allowed
        yield Check("kernel source", f"no {error.found}", remedy, needed=not has_kernel)
    place = kernels.home()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    lacking = f"{sources.FREE_BYTES / 1e9:.0f} GB; DUMBBELL_LINUX=FOLDER for another disk"
    found = f"{free / 1e9:.0f} GB free in {place}"
    yield Check("disk", found, "" if free >= sources.FREE_BYTES else lacking, needed=not has_kernel)


def table(checks: dict[str, list[Check]]) -> str:
    """Return the checks of each engine as a table, with whether it works in the first line of each."""
    lines = []
    rows = [check for of_engine in checks.values() for check in of_engine]
    what = max(len(check.what) for check in rows)
    for engine, of_engine in checks.items():
        missing = [check.what for check in of_engine if check.state == "missing"]
        lines.append(f"{engine}: " + (f"does not work yet: {', '.join(missing)}" if missing else "works"))
        for check in of_engine:
            lines.append(f"  {check.state:8}  {check.what:{what}}  {check.found}")
            if check.remedy:
                lines.append(f"  {'':8}  {'':{what}}  -> {check.remedy}")
    return "\n".join(lines)


def doctor(
    engine: Annotated[str, typer.Argument(metavar="[ENGINE]", help="sim, linux or live; all by default.")] = "",
) -> None:
    """The status is 0 if the simulator works, or the engine that is named; else 1."""
    if engine and engine not in ENGINES:
        raise UnknownName(engine, among=list(ENGINES), command="doctor", what="engine")
    checks = {name: list(look()) for name, look in ENGINES.items() if engine in ("", name)}
    print(table(checks))
    if any(check.state == "missing" for check in checks[engine or "sim"]):
        raise typer.Exit(BROKEN)
