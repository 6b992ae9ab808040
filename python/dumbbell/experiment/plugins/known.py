"""Plugins by the hash of their content: what they declare, and a copy of each that nobody changes under a sweep."""

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import Unreadable, Unsupported, escape_line, quote_value
from dumbbell.experiment.plugins import process, trust
from dumbbell.experiment.registry import Algorithm, read_algorithm
from dumbbell.scratch import create_whole, find_cache_folder
from dumbbell.writing import get_reason

ALLOWED = "the file of a plugin: a shared library, or a program in Python"
MAX_BYTES = 64 * 2**20
_DIGEST = re.compile(r"[0-9a-f]{32}(\.py|\.so)")

_lock = threading.Lock()
_known: dict[str, "Known"] = {}  # by the name of the copy


@dataclass(frozen=True)
class Known:
    """A plugin that was loaded once, in another process, to see what it declares."""

    digest: str
    """Hash of its content, with the ending that says what it is: its name in a run's configuration."""
    kind: str
    """`aqm`, `cc`, `stack`, or `media`: a congestion control of video."""
    algorithm: Algorithm
    has_streams: bool = False
    """Of a stack: whether it can carry applications."""


def _read_content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{get_reason(error)} ({escape_line(str(path))})", ALLOWED, key=".plugin") from None
    if not content or len(content) > MAX_BYTES:
        found = "there is nothing in it" if not content else f"it has more than {MAX_BYTES >> 20} MiB"
        raise Unreadable(f"{found} ({escape_line(str(path))})", ALLOWED, key=".plugin")
    return content


def keep(content: bytes, ending: str) -> str:
    """Keep a copy of a plugin's content and return its name; nothing else ever has this name. Raises InputError."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest() + ending
    path = find_cache_folder("plugins") / digest
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.unlink(missing_ok=True)
            create_whole(path, content)
    except FileExistsError:
        pass  # another process was faster
    except OSError as error:
        found = f"no copy of it can be kept: {get_reason(error)} ({path.parent})"
        raise Unreadable(found, "a folder for caches that can be written, XDG_CACHE_HOME", key=".plugin") from None
    return digest


def is_digest(name: str) -> bool:
    """Whether this is what a run's configuration calls a plugin."""
    return _DIGEST.fullmatch(name) is not None


def find_copy(digest: str) -> Path:
    """Return the copy of a plugin."""
    return find_cache_folder("plugins") / digest


def read(name: Any, folder: Path) -> Known:
    """Return the plugin that an experiment in `folder` names; InputError, said of the key `plugin`, if it is none."""
    if not isinstance(name, str) or not name:
        raise Unreadable(f"it is {quote_value(name)}", ALLOWED, key=".plugin")
    path = folder / Path(name).expanduser()
    content = _read_content(path)
    trust.check(path)
    return learn(content, ".py" if path.suffix == ".py" else ".so", path)


def learn(content: bytes, ending: str, path: Path) -> Known:
    """Return what the plugin with this content declares; `path` is where it was found. Raises InputError."""
    digest = keep(content, ending)
    with _lock:
        if digest not in _known:
            try:
                said = process.ask_child("describe", find_copy(digest))
            except RuntimeError as error:
                found = escape_line(str(error)).replace(str(find_copy(digest)), path.name).replace(digest, path.name)
                raise Unreadable(
                    f"{escape_line(path.name)}: {found}", "a plugin that can be loaded", key=".plugin"
                ) from None
            _known[digest] = _read(digest, said)
            with contextlib.suppress(OSError):  # readers of results need what it declares later
                create_whole(find_copy(f"{digest}.json"), said)
        return _known[digest]


def _read(digest: str, said: bytes) -> Known:
    described = json.loads(said)
    has_streams = bool(described.pop("streams", False))
    return Known(digest, described.pop("kind"), read_algorithm(described), has_streams)


def get_known(digest: str) -> Known:
    """Return a plugin that this process has learnt of."""
    with _lock:
        return _known[digest]


def find_algorithm(config: Mapping[str, Any], registered: Mapping[str, Algorithm]) -> Algorithm | None:
    """Return what is known of the algorithm of a configuration; None of a plugin that no process here has loaded."""
    digest = config.get("plugin")
    if digest is None:
        return registered.get(config["name"])
    with _lock:
        if digest not in _known and _DIGEST.fullmatch(digest):
            with contextlib.suppress(OSError, ValueError, KeyError):
                _known[digest] = _read(digest, find_copy(f"{digest}.json").read_bytes())
        return _known[digest].algorithm if digest in _known else None


def _list_tables(groups: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    hops = [("bottleneck", groups["bottleneck"]), ("reverse", groups.get("reverse"))]
    hops += [(f"hop[{n}]", one) for n, one in enumerate(groups.get("hop", []))]
    for place, hop in hops:
        if hop is not None:
            yield f"{place}.aqm", hop, "aqm"
    for name in ("flows", "web", "app"):
        for n, one in enumerate(groups.get(name, [])):
            if one.get("cc") is not None:
                yield f"{name}[{n}].cc", one, "cc"
    for n, one in enumerate(groups.get("app", [])):
        if isinstance(one["kind"].get("control"), dict):
            yield f"app[{n}].kind.control", one["kind"], "control"


def find_plugins(groups: Mapping[str, Any]) -> dict[str, str]:
    """Return the plugins of a run: the key of each and its name in the configuration."""
    found = ((place, owner[kind].get("plugin")) for place, owner, kind in _list_tables(groups))
    return {place: digest for place, digest in found if digest is not None}


def name_algorithm(config: Mapping[str, Any]) -> str:
    """Return the name of an algorithm; of a plugin with the first digits of its hash, `mine@4c21a0`: builds differ."""
    name, digest = str(config["name"]), config.get("plugin")
    return name if digest is None else f"{name}@{digest[:6]}"


def list_copies(groups: Mapping[str, Any]) -> dict[str, str]:
    """Return the plugins of a run: the name of each in its configuration, and where its copy lies."""
    return {digest: str(find_copy(digest)) for digest in find_plugins(groups).values() if _DIGEST.fullmatch(digest)}


def replace_plugins(groups: dict[str, Any]) -> dict[str, Any]:
    """Return a run with registered algorithms in place of its plugins: all else of it can be checked without them."""
    if not find_plugins(groups):
        return groups
    standing: dict[str, Any] = {"aqm": {"name": "pfifo"}, "cc": {"name": "reno"}, "control": "nada"}
    copies = groups | {
        name: [dict(one) for one in groups[name]] for name in ("flows", "web", "app", "hop") if name in groups
    }
    copies |= {name: dict(groups[name]) for name in ("bottleneck", "reverse") if groups.get(name)}
    for user in copies.get("app", []):
        user["kind"] = dict(user["kind"])
    for _, owner, kind in _list_tables(copies):
        if "plugin" in owner[kind]:
            owner[kind] = standing[kind]
            if kind == "aqm":  # the state that a plugin tells is not known without it
                copies["record"] = groups["record"] | {"queue": []}
    return copies


def refuse(groups: Mapping[str, Any], file: str, where: str) -> None:
    """Raise InputError for a run with a plugin, which `where` cannot load."""
    for place in find_plugins(groups):
        raise Unsupported("plugins", "--engine sim", file=file, key=f"{place}.plugin", where=where)
