"""New plugins: a folder with one that works, to be changed."""

import re
from importlib.resources import files
from pathlib import Path

from dumbbell import _native
from dumbbell.errors import UnknownName, Unwritable, WrongValue, quote_value
from dumbbell.experiment.registry import read_registry
from dumbbell.writing import report_write_failures

KINDS = ("queue", "control", "media")  # in each language
STACK = "stack"
LANGUAGES = ("c", "rust", "python")
OF_STACKS = ("c", "rust")  # each packet of a stack is bytes, for which Python is too slow
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}", re.ASCII)

_CARGO = """\
[package]
name = "@NAME@"
version = "0.1.0"
edition = "2021"

[lib]
name = "@IDENT@"
crate-type = ["cdylib"]

[profile.release]
panic = "abort"

[workspace]
"""
_TRY = """\
# dumbbell run --trust try.toml
title = "@NAME@ against others"
duration = "30s"
seeds = [1, 2]

[bottleneck]
rate = "20Mbit"
aqm = "codel"

[[flows]]
cc = "cubic"
base_rtt = "40ms"
@FLOW@start = { uniform = ["0s", "1s"] }

[matrix]
"""
_VIDEO = """\
# dumbbell run --trust try.toml
title = "@NAME@ against NADA"
duration = "60s"
seeds = [1, 2]

[bottleneck]
rate = "2Mbit"
aqm = "codel"

[[app]]
kind = { name = "video", source = "statistical", control = { plugin = "@FILE@" } }
base_rtt = "40ms"

[record]
from = "20s"

[matrix]
"""
_TWO = "count = 2\n"
_STACK = """\
start = { uniform = ["0s", "1s"] }

[[flows]]
stack = "@FILE@"
base_rtt = "40ms"
"""
_AXES = {
    "queue": '"bottleneck.aqm" = ["codel", { plugin = "@FILE@" }, { plugin = "@FILE@", threshold = "60kB" }]\n',
    "control": '"flows[*].cc" = ["reno", { plugin = "@FILE@" }, { plugin = "@FILE@", decrease = 0.7 }]\n',
    "media": '"app[0].kind.control" = ["nada", { plugin = "@FILE@" }, { plugin = "@FILE@", target = "100ms" }]\n',
    STACK: '"bottleneck.aqm" = ["pfifo", "codel"]\n',
}


def _read_template(name: str) -> str:
    return files("dumbbell.experiment.plugins").joinpath("templates", name).read_text(encoding="utf-8")


def _read_interface() -> str:
    """Return the part for stacks of the interface in Rust, which the stacks that are built here have, too."""
    return files("dumbbell.stacks").joinpath("adapter", "src", "interface.rs").read_text(encoding="utf-8")


def make_contents(kind: str, name: str, language: str) -> tuple[dict[str, str], str, str]:
    """Return the files of a new plugin by path, its own file, and the command that builds it, if one does."""
    if kind not in (*KINDS, STACK):
        raise UnknownName(quote_value(kind), among=(*KINDS, STACK), command="plugin new", what="kind")
    languages = OF_STACKS if kind == STACK else LANGUAGES
    if language not in languages:
        raise UnknownName(
            quote_value(language), among=languages, command="plugin new", option="--language", what="language"
        )
    taken = {**read_registry().aqm, **read_registry().cc}
    if not _NAME.fullmatch(name) or name in taken:
        allowed = "small letters, digits and -, a letter first, and no name of dumbbell list"
        raise WrongValue(quote_value(name), allowed, command="plugin new", key="NAME")
    ident = name.replace("-", "_")
    if language == "c":
        file, build = f"lib{ident}.so", f"cc -std=c11 -O2 -Wall -shared -fPIC {ident}.c -o lib{ident}.so"
        made = {f"{ident}.c": _read_template(f"{kind}.c"), "dumbbell.h": _native.plugin_header()}
    elif language == "rust":
        file, build = f"target/release/lib{ident}.so", "cargo build --release"
        made = {
            "src/lib.rs": _read_template(f"{kind}.rs"),
            "src/dumbbell.rs": _read_interface() if kind == STACK else _read_template("dumbbell.rs"),
            "src/abi.rs": _native.plugin_types(),
            "Cargo.toml": _CARGO,
        }
    else:
        file, build = f"{ident}.py", ""
        made = {file: _read_template(f"{kind}.py.txt")}
    tried = _VIDEO if kind == "media" else _TRY.replace("@FLOW@", _STACK if kind == STACK else _TWO)
    made["try.toml"] = tried + _AXES[kind]
    words = {"@NAME@": name, "@IDENT@": ident, "@FILE@": f"./{file}"}
    for path, text in made.items():
        for word, other in words.items():
            text = text.replace(word, other)
        made[path] = text
    return made, file, build


def make(kind: str, name: str, language: str, folder: Path) -> tuple[str, str]:
    """Write a new plugin to a folder; return its own file and the command that builds it. Raises InputError."""
    made, file, build = make_contents(kind, name, language)
    if there := [path for path in made if (folder / path).exists()]:
        raise Unwritable("this file already exists", "another folder, or remove it", file=folder / there[0])
    with report_write_failures(folder):
        for path, text in made.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    return file, build
