"""The cargo project that a stack is built from: the sources of `adapter`, and manifests around them."""

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.resources import files

from dumbbell import _native
from dumbbell.stacks.tree import CRATES, Tree

LOG = "log"  # the feature of a library that can write the stack's own qlog, and is slower for it when it does not
LOGGING = ("quinn", "noq")  # the stacks that have it
FEATURES_BEFORE_0_12 = "ids_by_reference"  # quinn-proto 0.12 takes connection IDs by value, as noq-proto does
SERIES = {"quinn": "0.11", "noq": "1", "quiche": "0.30"}  # whose newest version is built if none is asked for
OLDEST = {"quinn": "0.11.14", "noq": "1.4.0", "quiche": "0.30.0"}
_SOURCES = ("lib", "interface", "controls", "crypto", "end", "flow", "panics", "params", "qlog", "streams")
_OF_QUICHE = ("lib", "flow", "params", "system")
_SHARED = ("interface", "panics")
_REPOSITORY = {
    "quinn": "https://github.com/quinn-rs/quinn",
    "noq": "https://github.com/n0-computer/noq",
    "quiche": "https://github.com/cloudflare/quiche",
}

_PACKAGE = """\
[package]
name = "@NAME@"
version = "@VERSION@"
edition = "2021"
license = "MIT OR Apache-2.0"
publish = false

[lib]
path = "lib.rs"
"""
_GETRANDOM = """
[features]
std = []
wasm_js = []
sys_rng = [@SYS_RNG@]

[dependencies]
virtual-random = { path = "../virtual" }
"""
_RAND_CORE = 'rand_core = { version = "0.10", default-features = false, optional = true }\n'


@dataclass(frozen=True)
class BuildPlan:
    """The plan of a build: `version` is that of the crate with the state machine, None the newest of the series."""

    stack: str
    version: str | None
    tree: Tree | None

    @property
    def requirement(self) -> str:
        """The entry of Cargo.toml for the crate with the state machine."""
        if self.version is not None:
            return f'version = "={self.version}"'
        return self.tree.dependency if self.tree is not None else f'version = "{SERIES[self.stack]}"'


def _read_source(*path: str) -> str:
    return files("dumbbell.stacks").joinpath("adapter", *path).read_text(encoding="utf-8")


def _make_manifest(name: str, version: str) -> str:
    return _PACKAGE.replace("@NAME@", name).replace("@VERSION@", version)


def make_contents(plan: BuildPlan) -> dict[str, str]:
    """Return the files of the project by their paths."""
    if plan.stack == "quiche":
        return _make_contents_for_quiche(plan)
    lines = [f'proto = {{ package = "{plan.stack}-proto", default-features = false, {plan.requirement} }}']
    if plan.tree is not None and plan.tree.has_controls:
        package, folder = json.dumps(plan.tree.package), json.dumps(str(plan.tree.folder))
        lines.append(f"user = {{ package = {package}, path = {folder} }}")
    made = {f"src/{name}.rs": _read_source("src", f"{name}.rs") for name in _SOURCES}
    made["src/abi.rs"] = _native.plugin_types()
    made["Cargo.toml"] = _read_source("Cargo.toml.in").replace("@DEPENDENCIES@", "\n".join([*lines, ""]))
    made["random/virtual/lib.rs"] = _read_source("random", "virtual", "lib.rs")
    made["random/virtual/Cargo.toml"] = _make_manifest("virtual-random", "0.1.0")
    for series in ("0.3", "0.4"):
        has_core = series == "0.4"
        made[f"random/getrandom-{series}/lib.rs"] = _read_source("random", "getrandom", "lib.rs")
        made[f"random/getrandom-{series}/Cargo.toml"] = (
            _make_manifest("getrandom", f"{series}.99")
            + _GETRANDOM.replace("@SYS_RNG@", '"dep:rand_core"' if has_core else "")
            + _RAND_CORE * has_core
        )
    return made


def _make_contents_for_quiche(plan: BuildPlan) -> dict[str, str]:
    made = {f"src/{name}.rs": _read_source("quiche", f"{name}.rs") for name in _OF_QUICHE}
    made |= {f"src/{name}.rs": _read_source("src", f"{name}.rs") for name in _SHARED}
    made["src/abi.rs"] = _native.plugin_types()
    made["build.rs"] = _read_source("quiche", "build.rs")
    dependency = f"quiche = {{ {plan.requirement} }}\n"
    made["Cargo.toml"] = _read_source("quiche", "Cargo.toml.in").replace("@DEPENDENCIES@", dependency)
    return made


def compute_digest(plan: BuildPlan, rustc: str) -> str:
    """Return a hash over all that a build of a released version depends on, apart from the registry."""
    hashed = hashlib.sha256()
    for part in (rustc, *(text for item in sorted(make_contents(plan).items()) for text in item)):
        hashed.update(f"{len(part)} ".encode() + part.encode())
    return hashed.hexdigest()


def list_features(plan: BuildPlan, version: str) -> list[str]:
    """Return the features of the project for a version of the crate with the state machine."""
    chosen = [plan.stack]
    if plan.stack == "quinn" and tuple(map(int, re.findall(r"\d+", version)[:2])) < (0, 12):
        chosen.append(FEATURES_BEFORE_0_12)
    if plan.tree is not None and plan.tree.has_controls:
        chosen.append("user")
    return chosen


def make_environment(plan: BuildPlan, name: str, version: str) -> dict[str, str]:
    """Return the environment that tells the library what it is."""
    title = f"QUIC: {CRATES[plan.stack]} {version}"
    source = _REPOSITORY[plan.stack]
    if plan.tree is not None and plan.tree.has_controls:
        title += f" with the controls of {plan.tree.package}"
    elif plan.tree is not None:
        title += " from a tree of one's own"
    return {"DUMBBELL_STACK_NAME": name, "DUMBBELL_STACK_TITLE": title, "DUMBBELL_STACK_SOURCE": source}
