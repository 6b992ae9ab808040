"""`dumbbell linux build`: from a kernel's sources to a kernel that runs as a process, in steps that are done once.

A build's folder (.build/NAME) has `tree`, the patched sources, `objects`, what make made of them, and a stamp for each
finished step: what it was made from. An interrupted build goes on at the first step whose stamp is missing or differs.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.engines.linux import build_tools, changes, configuration, kernels, sources, trial
from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.work import KernelWork
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Conflict, Failed, InputError, Needs, escape_line
from dumbbell.processes import count_cores, lock_file
from dumbbell.writing import report_read_failures

# Files that make compiles for Linux 6.12 with our configuration, and the seconds of a core that it takes, as measured;
# for the bar and --dry-run only
OBJECTS, CORE_S = 735, 490
_COMPILED = re.compile(r"^\s+(CC|AS|HOSTCC)\s")
_ERROR = r"(?i)(: (fatal )?error: |undefined reference|\*\*\* )"
_NO_SPACE = "No space left on device"
# Part of what seeds random numbers in the guest (utsname, drivers/char/random.c): alike on all machines
_MAKE = (
    "ARCH=um",
    "LOCALVERSION=",
    "KBUILD_BUILD_USER=dumbbell",
    "KBUILD_BUILD_HOST=dumbbell",
    "KBUILD_BUILD_VERSION=1",
    "KBUILD_BUILD_TIMESTAMP=Thu Jan 1 00:00:00 UTC 1970",
)


@dataclass(frozen=True)
class KernelRequest:
    """The options of the user."""

    name: str = kernels.DEFAULT
    version: str | None = None
    tree: Path | None = None
    patches: tuple[Path, ...] = ()
    fragment: Path | None = None
    jobs: int | None = None


class Inputs:
    """All that a kernel is made from, with hashes. Raises InputError for what is not there."""

    def __init__(self, wanted: KernelRequest) -> None:
        kernels.find_folder(wanted.name)
        if wanted.tree is not None and wanted.version is not None:
            raise Conflict("--tree and --version", "one of them", command="linux build")
        self.name, self.wanted = wanted.name, wanted
        self.patches = [(patch, _read(patch, "--patch")) for patch in wanted.patches]
        self.fragment = _read(wanted.fragment, "--config").decode(errors="replace") if wanted.fragment else ""
        if wanted.fragment:
            configuration.parse(self.fragment, str(wanted.fragment))
        self.package: sources.Package | None = None
        self.files: list[str] = []
        self._content: str | None = None
        if wanted.tree is None:
            self.package = sources.find_package(wanted.version or sources.DEFAULT_VERSION, store())
            self.source: dict[str, Any] = self.package.describe()
            self.folder = self.package.folder
        else:
            self.folder = wanted.tree.absolute()
            sources.check_tree(self.folder)
            self.files = sources.list_sources(self.folder)
            self.source = {
                "tree": str(self.folder),
                "fingerprint": sources.compute_fingerprint(self.folder, self.files),
            }

    @property
    def origin(self) -> str:
        """Return where the sources come from, in one line."""
        return str(self.package) if self.package else str(self.folder)

    @property
    def recipe(self) -> dict[str, Any]:
        """Return what is done to the sources, with hashes of all of it."""
        return {
            "patches": [
                {"file": patch.name, "sha256": hashlib.sha256(text).hexdigest()} for patch, text in self.patches
            ],
            "changes": changes.compute_digest(),
            "config": configuration.compute_digest(self.fragment),
        }

    def match(self, described: dict[str, Any]) -> bool:
        """Return whether `described`, a kernel.json, is of just these inputs."""
        return (
            described.get("source") == self.source | self._list_contents(described)
            and described.get("recipe") == self.recipe
        )

    def _list_contents(self, described: dict[str, Any]) -> dict[str, str]:
        # a tree of the same names, sizes and times as then has the same contents
        source = described.get("source")
        return (
            {"sha256": source["sha256"]}
            if self.package is None and isinstance(source, dict) and "sha256" in source
            else {}
        )

    def identify(self, cache: Path) -> None:
        """Read the files of a tree, whose contents are part of the kernel's digest; `cache` remembers them."""
        if self.package is None:
            self.source["sha256"] = sources.compute_content_digest(self.folder, self.files, cache)

    @property
    def digest(self) -> str:
        """Return a hash of everything; the same wherever and whenever the same is built."""
        source = {"sha256": self.source["sha256"]} if self.package is None else self.source
        return _hash({"source": source, "recipe": self.recipe})


def _read(path: Path, option: str) -> bytes:
    with report_read_failures(path, "a file", command="linux build", option=option):
        return path.read_bytes()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def store() -> Path:
    """Return the folder of unpacked source packages, which all kernels share."""
    return kernels.find_home() / ".sources"


@contextlib.contextmanager
def lock_sources(told: StepProgress) -> Iterator[None]:
    """Hold the folder of source packages for us alone."""
    store().mkdir(parents=True, exist_ok=True)
    with store().with_name(".sources.lock").open("a+b") as held:
        try:
            lock_file(held.fileno(), 0)
        except TimeoutError:
            told.print_line("  waiting for another build that is fetching sources")
            lock_file(held.fileno(), float("inf"))
        yield


def place_of(name: str) -> Path:
    """Return the folder in which the kernel `name` is built."""
    return kernels.find_home() / ".build" / name


def find_built(inputs: Inputs) -> Kernel | None:
    """Return the kernel of just these inputs if it is built."""
    try:
        kernel = kernels.load(inputs.name)
    except InputError:
        return None
    return kernel if inputs.match(kernel.described) else None


def build(wanted: KernelRequest, told: StepProgress) -> Kernel:
    """Build the kernel that is wanted, or what is left to do of it, and return it.

    Raises InputError for bad input, a missing tool, and if a step fails.
    """
    inputs = Inputs(wanted)
    if kernel := find_built(inputs):
        return kernel
    if packages := build_tools.list_missing_packages(build_tools.BUILD_TOOLS):
        remedy = f"{build_tools.install_command(packages)} (or --install)"
        raise Needs(", ".join(packages), remedy, command="linux build")
    with KernelWork(place_of(inputs.name), told) as work:
        return find_built(inputs) or _Build(inputs, work).run()


def describe_plan(wanted: KernelRequest) -> list[str]:
    """Return what `build` would do, in lines."""
    inputs = Inputs(wanted)
    if kernel := find_built(inputs):
        return [f"{inputs.name}: nothing to do: Linux {kernel.release} is built from {inputs.origin}: {kernel.binary}"]
    jobs = wanted.jobs or count_cores()
    lines = [f"{inputs.name}: from {inputs.origin}"]
    if packages := build_tools.list_missing_packages(build_tools.BUILD_TOOLS):
        lines.append(f"  needs first: {build_tools.install_command(packages)} (or: --install)")
    if inputs.package and not inputs.package.folder.exists():
        lines.append(f"  download   {(inputs.package.size or 0) / 1e6:.0f} MB, and unpack them: {inputs.folder}")
    lines += [f"  patch      {patch}" for patch, _ in inputs.patches]
    minutes = max(1, round(CORE_S / jobs / 60))
    lines.append(f"  compile    about {OBJECTS} objects, about {minutes} min on {jobs} cores: {place_of(inputs.name)}")
    return [*lines, f"  install    {kernels.find_home() / inputs.name / 'linux'}"]


class _Build:
    def __init__(self, inputs: Inputs, work: KernelWork) -> None:
        self.inputs, self.work, self.told = inputs, work, work.told
        self.tree, self.objects = work.place / "tree", work.place / "objects"
        self.began = time.monotonic()

    def run(self) -> Kernel:
        inputs, work = self.inputs, self.work
        self.told.print_line(f"{inputs.name}: from {inputs.origin}; log: {work.log}")
        with contextlib.suppress(InputError):
            old = kernels.load(inputs.name).described
            self.told.print_line(
                f"{inputs.name}: replaces the kernel made from {describe_origin(old)} on {old.get('built', 'some day')}"
            )
        try:
            self._prepare_sources()
            if kernel := self._find_touched():
                return kernel
            made = self._patch_tree()
            self._write_configuration()
            seconds, objects = self._compile_kernel()
            return self._install(made, seconds, objects)
        except KeyboardInterrupt:
            self.told.print_line(f"{inputs.name}: interrupted; the same command resumes here")
            raise

    def _read_stamp(self, step: str, digest: str) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError):
            stamp: dict[str, Any] = json.loads((self.work.place / f"{step}.json").read_text(encoding="utf-8"))
            return stamp if stamp.get("digest") == digest else None
        return None

    def _stamp(self, step: str, digest: str, **more: Any) -> dict[str, Any]:
        stamp = {"digest": digest, **more}
        _write(self.work.place / f"{step}.json", json.dumps(stamp))
        return stamp

    def _prepare_sources(self) -> None:
        package = self.inputs.package
        if package is None:
            with self.told.step("read") as result:
                self.inputs.identify(self.work.place / "hashes")
                result.append(f"{len(self.inputs.files)} files of {self.inputs.folder}")
            return
        with lock_sources(self.told):
            if package.folder.exists():
                return
            sources.check_room(store())
            with self.told.step("download") as result:
                archive = sources.download(package, self.work)
                result.append(f"{archive.stat().st_size / 1e6:.0f} MB")
            with self.told.step("unpack"):
                sources.unpack(package, archive, self.work)

    def _find_touched(self) -> Kernel | None:
        """Return the kernel that is there if it is of the same contents, whose place or times alone have changed."""
        place = kernels.find_folder(self.inputs.name)
        with contextlib.suppress(InputError):
            if (kernel := kernels.load(self.inputs.name)).digest == self.inputs.digest:
                _write(
                    place / "kernel.json",
                    json.dumps({**kernel.described, "source": self.inputs.source}, indent=1) + "\n",
                )
                return kernels.load(self.inputs.name)
        return None

    def _patch_tree(self) -> dict[str, bool]:
        """Make our tree of the sources, with our changes and the user's patches; return which changes could be made."""
        inputs = self.inputs
        digest = inputs.digest if inputs.package is None else _hash([inputs.source, inputs.recipe])
        stamp = self._read_stamp("tree", digest)
        if stamp is None:
            (self.work.place / "tree.json").unlink(missing_ok=True)
            self._forget_other_sources()
            with self.told.step("copy") as result:
                files = inputs.files or sources.list_sources(inputs.folder)
                sources.mirror(
                    inputs.folder, files, self.tree, link=inputs.package is not None,
                    tick=lambda count: self.told.advance(count, len(files), "files"),
                )  # fmt: skip
                result.append(f"{len(files)} files")
            for patch, _ in inputs.patches:
                with self.told.step("patch") as result:
                    result += [patch.name, *self._apply(patch)]
            stamp = self._stamp("tree", digest, made=changes.apply(self.tree))
        if not stamp["made"]["seed"]:
            self.told.print_line(
                f"{inputs.name}: this tree's random numbers cannot be seeded: runs that draw some will differ"
            )
        return dict(stamp["made"])

    def _forget_other_sources(self) -> None:
        """Start again if the folder has objects of other sources; of the same tree, make knows what to do again."""
        origin = self.work.place / "origin"
        if not origin.exists() or origin.read_text(encoding="utf-8") != self.inputs.origin:
            for folder in (self.tree, self.objects):
                shutil.rmtree(folder, ignore_errors=True)
            _write(origin, self.inputs.origin)

    def _apply(self, patch: Path) -> list[str]:
        """Apply `patch`; return what the user should know of it."""
        lines: list[str] = []
        command = ["patch", "-p1", "-N", "--no-backup-if-mismatch", "-r", "-", "-i", str(patch.absolute())]
        if self.work.run(command, folder=self.tree, line=lines.append):
            allowed = f"a patch for Linux {sources.release_of(self.tree)} (log: {self.work.log})"
            where, why = _find_rejected(lines)
            raise Failed(why, allowed, file=patch, key=where)
        loose = sum(" with fuzz " in line for line in lines)
        return [f"{loose} hunks with fuzz: see the log"] if loose else []

    def _write_configuration(self) -> None:
        fragment = self.inputs.fragment
        config = configuration.make_configuration(self.tree, fragment)
        digest = _hash([self.inputs.digest, config])
        if self._read_stamp("config", digest) and (self.objects / ".config").exists():
            return
        with self.told.step("configure") as result:
            self.objects.mkdir(exist_ok=True)
            asked = self.work.place / "config"
            _write(asked, config)
            self._make("allnoconfig", f"KCONFIG_ALLCONFIG={asked}")
            final = (self.objects / ".config").read_text(encoding="utf-8")
            where = str(self.inputs.wanted.fragment)
            configuration.check_taken(final, fragment, where)
            controls, qdiscs = configuration.list_algorithms(self.tree, final)
            result.append(f"{len(controls)} congestion controls, {len(qdiscs)} queue disciplines")
        self._stamp("config", digest)

    def _compile_kernel(self) -> tuple[float, int]:
        """Compile; return the seconds that it took, over all interrupted tries, and the number of objects."""
        spent, count = self.work.place / "spent", 0
        before = float(spent.read_text(encoding="utf-8")) if spent.exists() else 0.0
        kconfig = self.objects / "scripts" / "kconfig"  # whose objects come of the step before
        done = sum(kconfig not in file.parents for file in self.objects.rglob("*.o"))
        began = time.monotonic()

        def note_line(text: str) -> None:
            nonlocal count
            if _COMPILED.match(text):
                count += 1

        def note_time() -> None:
            self.told.advance(done + count, OBJECTS, "objects")

        with self.told.step("compile") as result:
            try:
                self._make("linux", line=note_line, tick=note_time)
            finally:
                _write(spent, str(before + time.monotonic() - began))
            result.append(f"{count} objects" + (f", {done} were there" if done else ""))
        spent.unlink()
        return before + time.monotonic() - began, done + count

    def _make(
        self, *goals: str, line: Callable[[str], None] | None = None, tick: Callable[[], None] | None = None
    ) -> None:
        jobs = self.inputs.wanted.jobs or count_cores()
        command = ["make", f"-j{jobs}", "-C", str(self.tree), f"O={self.objects}", *_MAKE, *goals]
        start = self.work.log.stat().st_size
        if self.work.run(command, line=line, tick=tick):
            found = self.work.find_complaint(_ERROR, start)
            if self.work.find_complaint(_NO_SPACE, start).find(_NO_SPACE) >= 0:
                found = _NO_SPACE.lower()
            raise Failed(
                found, f"sources that compile (log: {self.work.log})", command="linux build", key=self.inputs.name
            )

    def _install(self, made: dict[str, bool], seconds: float, objects: int) -> Kernel:
        inputs, binary = self.inputs, self.objects / "linux"
        with self.told.step("try") as result:
            said = [trial.boot(binary, self.work.place / "trial", seed) for seed in (1, 1, 2)]
            repeats = made["seed"] and said[0]["random"] == said[1]["random"] != said[2]["random"]
            result.append(
                f"boots in {said[0]['seconds']} s, " + ("the seed repeats" if repeats else "the seed does not repeat")
            )
        final = (self.objects / ".config").read_text(encoding="utf-8")
        controls, qdiscs = configuration.list_algorithms(self.tree, final)
        described = {
            "name": inputs.name,
            "release": said[0]["release"],
            "digest": inputs.digest,
            "source": inputs.source,
            "recipe": inputs.recipe,
            "seeded": repeats,
            "ticks_1ms": "CONFIG_HZ=1000" in final,
            "compiler": configuration.read_value(final, "CC_VERSION_TEXT"),
            "seconds": round(seconds),
            "objects": objects,
            "bytes": _measure_size(self.work.place) + binary.stat().st_size,
            "built": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "congestion_controls": controls,
            "bbr": configuration.read_bbr_version(self.tree),
            "qdiscs": qdiscs,
        }
        new, old = self.work.place / "new", self.work.place / "old"
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)
        new.mkdir()
        shutil.copy2(binary, new / "linux")
        _write(new / "config", final)
        _write(new / "kernel.json", json.dumps(described, indent=1) + "\n")
        target = kernels.find_folder(inputs.name)
        with contextlib.suppress(FileNotFoundError):
            target.rename(old)
        new.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        self.told.print_line(f"{inputs.name}: done after {time.monotonic() - self.began:.0f} s")
        return kernels.load(inputs.name)


def _find_rejected(lines: list[str]) -> tuple[str, str]:
    """Return which file of a patch does not apply, and why, from what patch(1) says."""
    file = ""
    for text in lines:
        if match := re.match(r"(?:patching|checking) file '?([^']*)'?$", text):
            file = match[1]
        elif match := re.match(r"Hunk #(\d+) (?:FAILED|ignored) at (\d+)", text):
            return file, f"hunk {match[1]} does not apply at line {match[2]}"
        elif "Reversed (or previously applied)" in text:
            return file, "it is applied already, or reversed"
        elif "can't find file to patch" in text:
            return "", f"{escape_line(text)}: no such file in this kernel"
        elif "malformed patch" in text or "Only garbage" in text:
            return "", escape_line(text.removeprefix("patch: **** ").strip())
    return file, escape_line(next((text for text in reversed(lines) if text.strip()), "a failure"))


def describe_origin(described: dict[str, Any]) -> str:
    """Return in words what a kernel of this kernel.json was made from."""
    source = described.get("source") or {}
    base = source.get("tree") or f"{source.get('package')} {source.get('version')}"
    patches = [str(patch["file"]) for patch in (described.get("recipe") or {}).get("patches", [])]
    return " + ".join([str(base), *patches])


def _write(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _measure_size(place: Path) -> int:
    """Return the bytes below `place` that no other kernel shares."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            status = os.lstat(f"{folder}/{name}")
            total += status.st_blocks * 512 if status.st_nlink == 1 else 0
    return total
