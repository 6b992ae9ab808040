"""The modules of each crate use each other in one direction only."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_rust_names import ROOT, is_test, without_tests

CRATES = sorted(path.parent for path in ROOT.glob("crates/*/src"))
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"')
USE = re.compile(r"\buse ((?:crate|self|super)::[^;]+);")
PATH = re.compile(r"(?<!::)\b((?:crate|super)(?:::\w+)+)")


def expand(tree: str) -> Iterator[str]:
    """Yield the paths in a tree of uses: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield head.split(" as ")[0].strip()
        return
    depth = start = 0
    inner = f"{rest[: rest.rindex('}')]},"
    for place, letter in enumerate(inner):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            yield from (head + path for path in expand(inner[start:place].strip()))
            start = place + 1


def modules(crate: Path) -> dict[tuple[str, ...], Path]:
    """Return the files of a crate by the names of their modules; the root is `()`."""
    files = {}
    for path in sorted((crate / "src").rglob("*.rs")):
        name = path.relative_to(crate / "src").with_suffix("").parts
        if not is_test(path):
            files[name[:-1] if name[-1] in ("mod", "lib", "main") else name] = path
    return files


def imports(crate: Path) -> dict[str, set[str]]:
    """Return what each module uses of its crate, without those below it, for which it speaks as a registry does."""
    files = modules(crate)
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        text = COMMENT_OR_TEXT.sub("", without_tests(path.read_text(encoding="utf-8")))
        paths = [one for tree in USE.findall(text) for one in expand(tree)] + PATH.findall(USE.sub("", text))
        others = set()
        for one in paths:
            first, *rest = one.split("::")
            base = () if first == "crate" else name if first == "self" else name[:-1]
            while rest and rest[0] == "super":
                base, rest = base[:-1], rest[1:]
            target = (*base, *rest)
            while target not in files:
                target = target[:-1]
            if target[: len(name)] != name:
                others.add("::".join(target))
        found["::".join(name)] = others
    return found


def cycles(uses: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of modules each of which reaches all others of its group."""
    reached: dict[str, set[str]] = {}
    for name in uses:
        seen: set[str] = set()
        ahead = [name]
        while ahead:
            for other in uses[ahead.pop()] - seen:
                seen.add(other)
                ahead.append(other)
        reached[name] = seen
    return {
        frozenset(other for other in seen if name in reached[other]) for name, seen in reached.items() if name in seen
    }


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_module_is_used_by_what_it_uses(crate: Path) -> None:
    assert not cycles(imports(crate))


def test_uses_are_read() -> None:
    assert list(expand("a::{self, b::{c as d, e}, f}")) == ["a::self", "a::b::c", "a::b::e", "a::f"]
    uses = imports(ROOT / "crates" / "dumbbell-core")
    assert (
        "units" in uses["packet"] and "tcp::sender" in uses["observe"] and uses["log"] == {"", "packet", "tcp", "units"}
    )
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
