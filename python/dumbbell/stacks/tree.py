"""Sources in place of a released version: a tree of the stack, or a crate with congestion controls for it."""

import json
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dumbbell.errors import Failed, Unfit, Unreadable, escape_line
from dumbbell.stacks import tools

CRATES = {"quinn": "quinn-proto", "noq": "noq-proto", "quiche": "quiche"}  # with the state machine


@dataclass(frozen=True)
class Tree:
    """A crate of the user: its folder, name and version.

    `dependency` is the entry of Cargo.toml for the crate with the state machine, without the name. `has_controls` says
    that the crate has congestion controls, and is not the stack.
    """

    folder: Path
    package: str
    version: str
    dependency: str
    has_controls: bool


def read(folder: Path, stack: str) -> Tree:
    """Return what lies in the folder; raises InputError if it is neither the stack nor a crate that depends on it."""
    crate = CRATES[stack]
    allowed = f"a tree of {stack}, or a crate that depends on {crate}"
    if not folder.is_dir():
        raise Unfit(f"{escape_line(str(folder))} is not a folder", allowed, command="stack build", option="--path")
    place = next((one for one in (folder / crate, folder) if (one / "Cargo.toml").is_file()), None)
    if place is None:
        found = f"{escape_line(str(folder))} has neither Cargo.toml nor {crate}/Cargo.toml"
        raise Unfit(found, allowed, command="stack build", option="--path")
    place = place.resolve()
    package = _read_package(place)
    name, version = str(package["name"]), str(package["version"])
    if name == crate:
        return Tree(place, name, version, f"path = {json.dumps(str(place))}", has_controls=False)
    if stack == "quiche":  # its controls are chosen by an enum of its own
        raise Unfit(f"{escape_line(str(place))} is {name}", "a tree of quiche", command="stack build", option="--path")
    uses = [one for one in package["dependencies"] if one["name"] == crate and one.get("kind") is None]
    if not uses:
        found = f"{escape_line(str(place))} is {name}, which does not depend on {crate}"
        raise Unfit(found, allowed, command="stack build", option="--path")
    return Tree(place, name, version, _make_dependency(uses[0]), has_controls=True)


def _read_package(place: Path) -> dict[str, Any]:
    """Return what cargo says of the crate in a folder."""
    manifest = place / "Cargo.toml"
    try:
        tomllib.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unreadable(escape_line(str(error)), "a manifest of cargo", file=manifest) from None
    words = ["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path", str(manifest)]
    command = [tools.require_program("cargo"), *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if answer.returncode != 0:
        text = escape_line(tools.find_complaint(answer.stderr))
        raise Failed(
            f"cargo cannot read {manifest}: {text}",
            "a manifest that cargo reads",
            command="stack build",
            option="--path",
        )
    packages: list[dict[str, Any]] = json.loads(answer.stdout)["packages"]
    for package in packages:
        if Path(package["manifest_path"]).resolve() == manifest.resolve():
            return package
    raise Unfit(
        f"{escape_line(str(manifest))} is a workspace",
        "the folder of one of its crates",
        command="stack build",
        option="--path",
    )


def _make_dependency(use: dict[str, Any]) -> str:
    """Return the dependency of a user's crate on the stack, to be ours as well: one version serves both."""
    if path := use.get("path"):
        return f"path = {json.dumps(str(path))}"
    source = str(use.get("source") or "")
    if source.startswith("git+"):
        place = urlsplit(source.removeprefix("git+"))
        text = [f"git = {json.dumps(place._replace(query='', fragment='').geturl())}"]
        text += [f"{key} = {json.dumps(values[0])}" for key, values in parse_qs(place.query).items()]
        return ", ".join(text)
    return f"version = {json.dumps(str(use['req']))}"


def describe_folder(folder: Path) -> str:
    """Return what git calls the state of a folder, `local` if it does not know it."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--tags"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    except OSError:
        return "local"
    text = answer.stdout.strip() if answer.returncode == 0 else ""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:48].strip(".-_") or "local"
