"""The modules of the Python package import each other in one direction only."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "dumbbell"
MOST_LINES = 600
LONG = {
    "experiment/schema.py": "one model of all tables of a file",
    "figures/canvas.py": "one layout algorithm",
}
# a room may import those before it
ROOMS = [
    *("words", "errors", "lazy", "keywords", "scratch", "writing", "waiting", "processes", "programs", "file_kinds"),
    *("experiment", "results", "engines", "stacks", "tc"),
    *(
        "figures",
        "published",
        "qlog",
        "evaluate",
        "exchange",
        "packets",
        "explain",
        "watch",
        "searching",
        "plotting",
    ),
    *(
        "play",
        "report",
        "line",
        "shell",
        "notebook",
        "simulating",
        "simulation",
        "gym",
        "api",
        "pages",
        "study",
        "cli",
        "__main__",
    ),
]


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if not any(path.is_relative_to(PACKAGE / name) for name in ("studies", "pages/example")):
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a module imports, wherever in its text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports have whole names"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name and name != "dumbbell":
                yield name


IMPORTS = {name: set(imported(path)) - {name} for name, path in MODULES.items()}
for name, path in MODULES.items():
    if path.name == "__init__.py":  # speaks for its own modules
        IMPORTS[name] = {other for other in IMPORTS[name] if not other.startswith(f"{name}.")}


def test_no_module_is_imported_by_what_it_imports() -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join([*way[way.index(name) :], name])
        if name not in done:
            for other in sorted(IMPORTS[name]):
                visit(other, (*way, name))
            done.add(name)

    for name in sorted(IMPORTS):
        visit(name, ())
    assert len(done) > 100


def test_a_room_imports_the_rooms_before_it() -> None:
    rooms = {name.split(".")[1] for name in MODULES if name != "dumbbell"}
    assert rooms == set(ROOMS)
    against = {
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if name != "dumbbell" and ROOMS.index(other.split(".")[1]) > ROOMS.index(name.split(".")[1])
    }
    assert not against


def test_a_long_module_has_a_reason() -> None:
    long = {
        str(path.relative_to(PACKAGE))
        for path in MODULES.values()
        if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES
    }
    assert long == set(LONG)


def test_every_room_stands_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Rooms of the Python package")[1].split("\n## ")[0]
    missing = [room for room in ROOMS if f"`{room}/`" not in table and f"`{room}.py`" not in table]
    assert missing == ["__main__"]
