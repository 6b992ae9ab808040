"""Kinds of engines, and versions of engines.

A version begins with its kind, `linux-…`, `live-…`; the version of the simulator is a number. `import-…` are files of
other tools, which no engine of ours made.

Kernels have names, too, those that `dumbbell linux build` was given. A name may mean another kernel tomorrow;
a version, `linux-RELEASE+DIGEST.OURS`, is always the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dumbbell._native import engine_version


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine: all that is known of it without loading it."""

    name: str
    title: str
    carried_out: str
    """How its runs were carried out, after `This run was carried out`."""
    module: str = ""
    """Where its `engine(which)` is; empty if it runs nothing."""
    needs: str = ""
    """The module whose `checks()` yields what it needs of a machine."""
    which: str = ""
    """What may follow its name and a colon."""


KINDS = {
    one.name: one
    for one in (
        EngineKind("sim", "simulator", "in the simulator", "dumbbell.engines.sim", "dumbbell.engines.sim_needs"),
        EngineKind(
            *("linux", "Linux in virtual time", "on Linux"),
            *("dumbbell.engines.linux.engine", "dumbbell.engines.linux.checks", "NAME"),
        ),
        EngineKind(
            *("live", "Linux in real time", "in real time"),
            *("dumbbell.engines.live.engine", "dumbbell.engines.live.live_checks"),
        ),
        EngineKind("import", "other tools", "elsewhere and read from a file"),
    )
}
NOT_LINUX = "-"  # the kernel of a run that had none of ours
Names = Mapping[str, Sequence[str]]  # of kernels, by version


def find_kind(version: str) -> str:
    """Return the kind of engine that a version begins with; the simulator's version has none."""
    before, dash, _ = version.partition("-")
    return before if dash else "sim"


def find_title(version: str) -> str:
    """Return what the engine of a version is, in words; its kind if the engine is not known here."""
    return KINDS[name].title if (name := find_kind(version)) in KINDS else name


def describe_difference(kind_name: str, note: str) -> str:
    """Return a line that says what an engine of a kind does only nearly as the simulator."""
    return f"not quite the same {KINDS[kind_name].carried_out}: {note}"


def list_runners() -> list[EngineKind]:
    """Return the engines that carry runs out."""
    return [one for one in KINDS.values() if one.module]


def select_versions(versions: Iterable[str], wanted: str, names: Names | None = None) -> list[str]:
    """Return the versions that `wanted` names; the newest of `versions` is the last.

    That is itself, the newest of a kind, the newest of a kernel (`linux:NAME`, `linux:DIGEST`, `linux:NAME+DIGEST`) or,
    for `linux`, the newest of each name.
    """
    known, of = list(versions), names or {}
    if wanted in known:
        return [wanted]
    if wanted.startswith("linux:"):
        name, _, digest = wanted.removeprefix("linux:").partition("+")
        found = [v for v in known if name in of.get(v, ()) and get_digest(v).startswith(digest)]
        found = found or [v for v in known if find_kind(v) == "linux" and name and get_digest(v).startswith(name)]
        return found[-1:]
    of_kind = [version for version in known if wanted in KINDS and find_kind(version) == wanted]
    if wanted == "linux":
        newest = {tuple(of.get(version, ())): version for version in of_kind}
        return [version for version in of_kind if version in newest.values()]
    return [engine_version()] if engine_version() in of_kind else of_kind[-1:]


def choose_version(versions: Iterable[str], wanted: str, names: Names | None = None) -> str | None:
    """Return the one version that `wanted` names, the newest of several."""
    return next(reversed(select_versions(versions, wanted, names)), None)


def get_digest(version: str) -> str:
    """Return the beginning of the digest of a kernel, as `dumbbell linux list` prints it."""
    return version.partition("+")[2].partition(".")[0] if find_kind(version) == "linux" else ""


def name_kernels(versions: Iterable[str], names: Names) -> dict[str, str]:
    """Return what the kernel of each version is called: its name, with its digest where two of a name meet."""
    texts: dict[str, str] = {}
    known = list(dict.fromkeys(versions))
    plain = {version: " = ".join(names.get(version, ())) for version in known}
    for version in known:
        name = plain[version]
        alike = [other for other in known if plain[other] == name]
        if find_kind(version) != "linux":
            texts[version] = NOT_LINUX
        elif not name or len({get_digest(other) for other in alike}) < len(alike):
            texts[version] = version.removeprefix("linux-")
        else:
            texts[version] = name if len(alike) == 1 else f"{name}+{get_digest(version)}"
    return texts


def name_versions(versions: Iterable[str], names: Names) -> dict[str, str]:
    """Return what each version is called: `linux:NAME` if its kernel has a name, else the version itself."""
    kernels = name_kernels(versions, names)
    return {
        version: version if find_kind(version) != "linux" or version.endswith(f"-{kernel}") else f"linux:{kernel}"
        for version, kernel in kernels.items()
    }
