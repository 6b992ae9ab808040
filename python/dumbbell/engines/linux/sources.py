"""Where a kernel's sources come from: the distribution's package, or an unpacked tree of the user's.

Both are files that `mirror` repeats in a folder of our own, which is then patched. The source never changes.
"""

import contextlib
import filecmp
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.engines.linux.work import KernelWork
from dumbbell.errors import Failed, Needs, UnknownName, Unreadable, WrongValue, escape_line, quote_value

DEFAULT_VERSION = "6.12"
NEEDED = ("Makefile", "Kconfig", "arch/um/Kconfig", "net/sched/Kconfig", "net/ipv4/Kconfig")
_BUILT = re.compile(  # what a build inside a tree leaves there: the kernel's own .gitignore, in short
    r"(^|/)(\.[^/]*\.(cmd|d)|\.config(\.old)?|[^/]*\.(o|a|ko|order|mod|mod\.c)|vmlinux|modules\.builtin[^/]*|Module\.symvers)$"
    r"|(^|/)include/(config|generated)/|^(\.git|linux$)"
)
FREE_BYTES = 3_000_000_000  # an unpacked 6.12 has 1.7 GB, its package 0.15 GB, the objects 0.2 GB


@dataclass(frozen=True)
class Package:
    """A source package of a Debian-like distribution."""

    name: str
    version: str
    size: int | None
    """Bytes to download; None if it is unpacked already."""
    folder: Path
    """Where it is, or will be, unpacked."""

    def describe(self) -> dict[str, Any]:
        """Return what kernel.json says of it."""
        return {"package": self.name, "version": self.version}

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def find_package(version: str, sources: Path) -> Package:
    """Return the package of kernel `version`: "6.12", or "6.12=6.12.117-1" for one of several.

    One that is unpacked in `sources` comes first. Raises InputError if there is none.
    """
    series, _, exact = version.partition("=")
    if not re.fullmatch(r"[0-9][0-9A-Za-z.+-]*(=[0-9][0-9A-Za-z.+:~-]*)?", version):
        raise WrongValue(
            quote_value(version),
            "a version such as 6.12, or 6.12=PACKAGE_VERSION",
            command="linux build",
            option="--version",
        )
    name = f"linux-source-{series}"
    unpacked = [
        path.name.removeprefix(f"{name}_") for path in sources.glob(f"{name}_*") if path.suffix not in (".part", ".deb")
    ]
    if exact:
        unpacked = [one for one in unpacked if one == exact]
    if unpacked:
        newest = max(unpacked, key=lambda one: (sources / f"{name}_{one}").stat().st_mtime)
        return Package(name, newest, None, sources / f"{name}_{newest}")
    if shutil.which("apt-get") is None:
        raise Needs("apt-get", "give a kernel's sources by --tree PATH", command="linux build")
    asked = subprocess.run(
        ["apt-get", "download", "--print-uris", "-q", f"{name}={exact}" if exact else name],
        capture_output=True, text=True, check=False, env=_make_environment(), cwd="/",
    )  # fmt: skip
    match = re.search(r"^'[^']*' (\S+_(\S+)_\w+\.deb) (\d+)", asked.stdout, re.MULTILINE)
    if asked.returncode or not match:
        known = list_available()
        raise UnknownName(
            f"{name}{'=' * bool(exact)}{exact}",
            among=known or "run apt-get update first, which fetches the lists of packages",
            command="linux build",
            option="--version",
            what="package",
        )
    return Package(name, match[2].replace("%3a", ":"), int(match[3]), sources / f"{name}_{match[2]}")


def list_available() -> list[str]:
    """Return the kernel versions of which the distribution has a source package."""
    if shutil.which("apt-cache") is None:
        return []
    search = ["apt-cache", "search", "--names-only", r"^linux-source-[0-9.]+$"]
    found = subprocess.run(search, capture_output=True, text=True, check=False, env=_make_environment())
    names = [line.split()[0].removeprefix("linux-source-") for line in found.stdout.splitlines() if line.strip()]
    return sorted(names, key=lambda name: [int(part) for part in name.split(".") if part])


def _make_environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def download(package: Package, work: KernelWork) -> Path:
    """Download `package` and return its file; what an interrupted download left is used."""
    place = package.folder.with_name(f"{package.folder.name}.deb")
    place.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        place.chmod(0o755)

    def print_progress() -> None:
        work.told.advance(
            sum(file.stat().st_size for file in _list_files(place)) / 1e6, (package.size or 0) / 1e6, "MB"
        )

    status = work.run(
        ["apt-get", "download", "-q", f"{package.name}={package.version}"], folder=place, tick=print_progress
    )
    files = list(place.glob("*.deb"))
    if status or not files:
        allowed = "a connection to the distribution's servers, and newer lists: apt-get update"
        raise Failed(
            work.find_complaint(r"^E: "),
            f"{allowed} (log: {work.log})",
            command="linux build",
            key=f"download of {package}",
        )
    return files[0]


def _list_files(place: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from (path for path in place.rglob("*") if path.is_file())


def unpack(package: Package, archive: Path, work: KernelWork) -> None:
    """Unpack `archive` into the package's folder, which is there when it is whole."""
    part = package.folder.with_name(f"{package.folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    listing = subprocess.run(
        ["sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar tv', archive], capture_output=True, text=True, check=False
    )
    # a file; Ubuntu has a link to it as well
    match = re.search(r"^-.* (\S*/usr/src/\S*linux-source-\S*\.tar\.\w+)$", listing.stdout, re.MULTILINE)
    inner = match[1] if match else None
    if inner is None:
        raise Unreadable("there is no linux-source-*.tar.* in it", "a source package of the kernel", file=archive)
    kind = {"xz": "J", "bz2": "j", "gz": "z", "zst": "-zstd"}.get(inner.rpartition(".")[2], "J")
    option = f"-{kind}xf" if len(kind) == 1 else f"-{kind} -xf"
    pipe = f'set -o pipefail; dpkg-deb --fsys-tarfile "$0" | tar xO "$1" | tar {option} - -C "$2" --strip-components=1'
    status = work.run(["bash", "-c", pipe, str(archive), inner, str(part)])
    if status:
        shutil.rmtree(part, ignore_errors=True)
        allowed = f"a whole archive and room on the disk (log: {work.log})"
        raise Failed(
            work.find_complaint(r"^(tar|xz|dpkg-deb): "), allowed, command="linux build", key=f"unpacking {archive}"
        )
    part.rename(package.folder)
    shutil.rmtree(archive.parent, ignore_errors=True)


def check_tree(folder: Path) -> None:
    """Raise InputError if `folder` is not an unpacked kernel tree."""
    for file in NEEDED:
        if not (folder / file).is_file():
            allowed = "the top folder of an unpacked kernel tree"
            raise Unreadable(f"{folder} has no {file}", allowed, command="linux build", option="--tree")


def release_of(folder: Path) -> str:
    """Return the version that a tree's Makefile states, such as 6.12.117."""
    text = (folder / "Makefile").read_text(encoding="utf-8", errors="replace")[:4000]
    parts = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(\S*)", text, re.MULTILINE))
    numbers = [str(parts.get(name) or 0) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(numbers) + str(parts.get("EXTRAVERSION", ""))


def list_sources(folder: Path) -> list[str]:
    """Return the source files below `folder`, sorted: those git would keep, or all but what a build makes."""
    if (folder / ".git").exists():
        kept = subprocess.run(
            ["git", "-C", folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=False,
        )  # fmt: skip
        if kept.returncode == 0:
            names = {os.fsdecode(name) for name in kept.stdout.split(b"\0") if name}
            # not what has been deleted, nor submodules
            return sorted(name for name in names if (folder / name).is_symlink() or (folder / name).is_file())
    return sorted(name for name in _walk(str(folder), "") if not _BUILT.search(name))


def _walk(folder: str, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name


def compute_fingerprint(folder: Path, files: Iterable[str]) -> str:
    """Return a hash of names, sizes and times: two that are alike need no second look at the contents."""
    digest = hashlib.sha256()
    for name in files:
        status = os.lstat(f"{folder}/{name}")
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def compute_content_digest(folder: Path, files: Iterable[str], cache: Path) -> str:
    """Return a hash of names and contents, which is the same wherever and whenever the tree was unpacked.

    `cache` is a file that remembers the hashes of files: after an edit, only what has another size or time is read.
    """
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    digest, seen = hashlib.sha256(), {}
    for name in files:
        path = f"{folder}/{name}"
        status = os.lstat(path)
        before = known.get(name)
        if before is None or before[:2] != [status.st_size, status.st_mtime_ns]:
            if stat.S_ISLNK(status.st_mode):
                content = os.fsencode(os.readlink(path))  # noqa: PTH115  a hundred thousand files, here and below
            else:
                with open(path, "rb") as file:  # noqa: PTH123
                    content = file.read()
            before = [status.st_size, status.st_mtime_ns, hashlib.sha256(content).hexdigest()]
        seen[name] = before
        digest.update(f"{name}\0{stat.S_IFMT(status.st_mode)}\0{before[2]}\0".encode(errors="surrogateescape"))
    cache.write_text(json.dumps(seen), encoding="utf-8")
    return digest.hexdigest()


def mirror(source: Path, files: list[str], target: Path, *, link: bool, tick: Callable[[int], None]) -> None:
    """Make `target` hold just `files` as `source` has them.

    What is the same there already stays. What changes gets the time of now, so that make sees it, however old it is.
    With `link`, a new `target` is of hard links, so that a program that changes a file of it must replace it.
    """
    fresh = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    wanted, made = set(files), {""}
    for name in list(_walk(str(target), "")):
        if name not in wanted:
            os.unlink(f"{target}/{name}")  # noqa: PTH108  a hundred thousand files, here and below
    for count, name in enumerate(files):
        if count % 1000 == 0:
            tick(count)
        old, new = f"{source}/{name}", f"{target}/{name}"
        if (folder := name.rpartition("/")[0]) not in made:
            os.makedirs(f"{target}/{folder}", exist_ok=True)  # noqa: PTH103
            made.add(folder)
        if not fresh and os.path.lexists(new):
            if _are_alike(old, new):
                continue
            os.unlink(new)  # noqa: PTH108
        if fresh and link:
            with contextlib.suppress(OSError):  # another file system, or too many links
                os.link(old, new, follow_symlinks=False)
                continue
        (shutil.copy2 if fresh else shutil.copy)(old, new, follow_symlinks=False)


def _are_alike(one: str, other: str) -> bool:
    """Return whether two files are the same; a look at the contents if their times differ."""
    first, second = os.lstat(one), os.lstat(other)
    if (first.st_ino, first.st_dev) == (second.st_ino, second.st_dev):
        return True
    if first.st_mode != second.st_mode or first.st_size != second.st_size:
        return False
    if stat.S_ISLNK(first.st_mode):
        return os.readlink(one) == os.readlink(other)  # noqa: PTH115
    return first.st_mtime_ns == second.st_mtime_ns or filecmp.cmp(one, other, shallow=False)


def check_room(place: Path) -> None:
    """Raise InputError if the disk of `place` has no room for a build."""
    free = shutil.disk_usage(place).free
    if free < FREE_BYTES:
        allowed = f"{FREE_BYTES / 1e9:.0f} GB there, or another folder in $DUMBBELL_LINUX"
        raise Failed(f"{free / 1e9:.1f} GB are free", allowed, command="linux build", key=escape_line(str(place)))
