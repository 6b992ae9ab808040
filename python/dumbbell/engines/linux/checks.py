"""Checks of what Linux on a virtual clock needs of this machine, with how to get it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

from dumbbell.engines.linux import build_tools, kernels, sources, trial
from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.needs import Check
from dumbbell.errors import InputError, escape_line
from dumbbell.scratch import SHARED_MEMORY, Scratch
from dumbbell.words import format_count

CELL_BYTES = 400_000_000  # of shared memory for each run at a time: a guest's memory is a file there


def run_checks() -> Iterator[Check]:
    """Yield what Linux on a virtual clock needs, to run and to build kernels."""
    found = kernels.list_installed()
    yield _check_kernels()
    for kernel in found:
        yield _check_boot(kernel)
    yield _check_iproute()
    yield _check_shared_memory()
    yield _check_namespaces()
    yield _check_compiler()
    yield from _check_building(bool(found))


def _check_kernels() -> Check:
    names = [kernel.name for kernel in kernels.list_installed()]
    if kernels.DEFAULT in names:
        return Check("kernels", ", ".join(names))
    if names:
        use = f"--engine linux:{names[0]}, or for --engine linux: dumbbell linux build"
        return Check("kernels", f"{', '.join(names)}; none called {kernels.DEFAULT}", use, needed=False)
    return Check("kernels", f"none in {kernels.find_home()}", "dumbbell linux build")


def _check_boot(kernel: Kernel) -> Check:
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


def _check_iproute() -> Check:
    packages = "apt-get install iproute2"
    tc = _find_program("tc")
    if tc is None or _find_program("ip") is None:
        return Check("iproute2", "no tc" if tc is None else "no ip", packages)
    try:
        version = subprocess.run([tc, "-V"], capture_output=True, text=True, check=False).stdout.strip()
        shown = subprocess.run([tc, "-j", "qdisc", "show", "dev", "lo"], capture_output=True, text=True, check=False)
        json.loads(shown.stdout or "[]")
    except (OSError, ValueError):
        return Check("iproute2", "a tc without JSON", f"one of 2018 or later (4.16): {packages}")
    return Check("iproute2", version.removeprefix("tc utility, "))


def _find_program(name: str) -> str | None:
    """Return the path of a program, also of one that only root has in its PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _check_shared_memory() -> Check:
    what = str(SHARED_MEMORY)
    if not os.access(SHARED_MEMORY, os.W_OK):
        return Check(what, "not there, or not writable", f"mount -t tmpfs tmpfs {what}")
    status = os.statvfs(SHARED_MEMORY)
    if status.f_flag & os.ST_NOEXEC:
        return Check(what, "no programs may run there (noexec)", f"mount -o remount,exec {what}")
    free = status.f_bavail * status.f_frsize
    found = f"{free / 1e9:.1f} GB free: {format_count(free // CELL_BYTES, 'run')} at a time"
    larger = f"--shm-size=2g for a container, or: mount -o remount,size=2G {what}"
    return Check(what, found, "" if free >= CELL_BYTES else larger)


def _check_namespaces() -> Check:
    root = os.geteuid() == 0
    command = ["unshare", "-m", "true"] if root else ["unshare", "-r", "-m", "true"]
    found = "root" if root else "user namespaces"
    try:
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return Check("namespaces", "no unshare", "apt-get install util-linux")
    if tried.returncode == 0:
        return Check("namespaces", found)
    refused = escape_line(tried.stderr.strip().splitlines()[-1] if tried.stderr.strip() else "refused")
    container = "docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
    sysctl = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0 kernel.unprivileged_userns_clone=1"
    return Check("namespaces", refused, container if root else sysctl)


def _check_compiler() -> Check:
    if packages := build_tools.list_missing_packages({"gcc": "gcc"}):
        return Check("compiler", "no " + ", ".join(packages), build_tools.install_command(packages))
    version = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return Check("compiler", f"gcc {version}")


def _check_building(has_kernel: bool) -> Iterator[Check]:
    """Yield what `dumbbell linux build` needs; what has a kernel runs without."""
    packages = build_tools.list_missing_packages({**build_tools.BUILD_TOOLS, "gcc": "gcc"})
    found = f"no {', '.join(packages)}" if packages else ", ".join(build_tools.BUILD_TOOLS)
    yield Check("build tools", found, build_tools.install_command(packages) if packages else "", needed=not has_kernel)
    try:
        package = sources.find_package(sources.DEFAULT_VERSION, kernels.find_home() / ".sources")
        yield Check("kernel source", str(package) + ("" if package.size else ", unpacked"))
    except InputError as error:
        known = sources.list_available()
        remedy = f"dumbbell linux build --version {known[-1]}" if known else error.allowed
        yield Check("kernel source", f"no {error.found}", remedy, needed=not has_kernel)
    place = kernels.find_home()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    lacking = f"{sources.FREE_BYTES / 1e9:.0f} GB; DUMBBELL_LINUX=FOLDER for another disk"
    found = f"{free / 1e9:.0f} GB free in {place}"
    yield Check("disk", found, "" if free >= sources.FREE_BYTES else lacking, needed=not has_kernel)
