"""Tools that building and running kernels needs, and how to install them."""

import os
import shutil
import subprocess
from collections.abc import Iterable

from dumbbell.errors import Failed, Needs

# program: Debian's package that has it; asked for as Documentation/process/changes.rst of the kernel lists them
BUILD_TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "xz": "xz-utils",
    "tar": "tar",
}
_HEADERS = "#include <stdio.h>\n#include <sys/epoll.h>\n"


def list_missing_packages(tools: dict[str, str]) -> list[str]:
    """Return the packages of those `tools` that are not there; libc6-dev if there is a compiler without headers."""
    packages = [package for program, package in tools.items() if shutil.which(program) is None]
    if "gcc" in tools and "gcc" not in packages and not _has_headers():
        packages.append("libc6-dev")
    return packages


def _has_headers() -> bool:
    compile_ = ["gcc", "-E", "-x", "c", "-o", os.devnull, "-"]
    return subprocess.run(compile_, input=_HEADERS.encode(), capture_output=True, check=False).returncode == 0


def install_command(packages: Iterable[str]) -> str:
    """Return the command that installs `packages`."""
    as_root = "" if os.geteuid() == 0 else "sudo "
    return f"{as_root}apt-get install {' '.join(packages)}"


def install(packages: list[str]) -> None:
    """Install `packages`; raises InputError without root, and if apt-get fails."""
    command = install_command(packages)
    if os.geteuid() != 0:
        raise Needs("root", f"first {command}", key="linux build --install")
    for arguments in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        done = subprocess.run(
            ["apt-get", "-o", "DPkg::Lock::Timeout=60", *arguments],
            capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode and arguments[0] == "install":  # old lists may do
            errors = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("E:")]
            raise Failed(
                (errors or ["it failed"])[0],
                f"what works by hand: {command}",
                command="linux build",
                option="--install",
            )
