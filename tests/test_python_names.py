"""Names in Python: a function is a verb and its object, and no two classes or rooms' files share a name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "dumbbell"
VERBS = frozenset(
    (  # noqa: SIM905  a list of words
        "add advance align allow answer append apply arrange ask assert assign assume attach attempt average "
        "batch begin bin blank boot bound break build call capitalise capture carry change check choose classify "
        "clean clear clip close collect combine commit compare compile complete compose compress compute conceal "
        "confirm connect consume continue convert copy count create cut decide decode decompress decorate define "
        "delete derive describe detach digest discard distinguish divide do download draw drop emphasise "
        "encode end enter "
        "escape estimate evaluate examine exceed exclude excuse expand expect explain export extend fail feed "
        "fetch fill filter find finish fit flatten follow forget format forward freeze gate gather generate get "
        "give go greet group guess handle hang hash hide hold identify ignore import infer insert inspect "
        "install interpolate interrupt join judge keep kill label learn leave lengthen limit link list load "
        "locate lock look lose make map mark match measure merge mirror model mount move name narrow normalise "
        "note number observe open order override pack pad pair parse patch peek peel pick ping pivot place plan plot "
        "predict prepare press print probe propose protect pull put quote raise rank reach read rebuild record "
        "recover reduce refer refine refuse register reject release remove rename render repair repeat replace "
        "replay report request require reset resolve restart restore resume retry reverse round run salvage "
        "sample save scale scan schedule search select send separate serve set settle share shift shorten show "
        "shrink sign silence simplify simulate skip smooth snap sort speak spell split spread stack stamp start "
        "step stop store stress strip style submit substitute subtract suggest sum summarise swap sweep switch take "
        "test thin tidy time toggle trace train translate trim trust try turn unescape unfold unite unlock unpack "
        "unwrap update use validate verify view visit wait walk warn watch weigh widen wrap write yield zip"
    ).split()
)
ASKS = re.compile(r"(is|are|has|have|can|may|must|was|does|did|needs)_\w+|\w+s(_\w+)?")  # returns a bool
CONVERTS = re.compile(r"(to|from)_\w+")
# words that a name never is by itself
BANNED = re.compile(
    r"above|after|ahead|alike|all|also|any|as|asked|at|before|begun|beside|between|beyond|both|by|chosen|count|done|drawn"
    r"|each|found|given|held|here|in|inside|kept|known|left|listed|made|meant|measured|met|named|number|of|on|only|other"
    r"|over|own|placed|said|seconds|seen|shown|some|spelt|taken|text|tell|told|twice|unlike|wanted|what|when|where|which"
    r"|whole|why|with|within|without|written"
)
# what other programs and readers call by these names
PROTOCOLS = {
    "python/dumbbell/notebook.py": {  # the public API, which reads like that of data frames and like SQL
        *("diff", "engine", "frame", "measures", "packets", "series", "sql", "table", "where", "with_keys"),
    },
    # the public API of simulations, with the same words in Rust and JavaScript
    "python/dumbbell/simulation.py": {"events", "fork", "frame", "snapshot"},
    "python/dumbbell/gym": {"fork", "observation_space", "action_space"},  # the last two of PettingZoo
    "studies/learning/train.py": {"env_method", "env_is_wrapped"},  # of stable-baselines3
    "python/dumbbell/results": {"engine", "frame", "measures", "parts", "sql", "where", "with_keys"},  # behind it
    "python/dumbbell/words.py": {"count"},  # `3 runs`
    "python/dumbbell/pages": {"count", "number", "both"},  # words of templates
    "python/dumbbell/pages/example/study.py": {"runs"},
    "studies/coexistence/terms.py": {"runs", "classes"},
    "python/dumbbell/experiment/patterns.py": {"items", "values", "setdefault", "pop"},  # of dict
    "python/dumbbell/figures/canvas.py": {"savefig"},  # of matplotlib
    "python/dumbbell/play/server.py": {"log_message"},  # of http.server
    "website/hooks.py": {"on_config", "on_files", "on_page_markdown", "on_post_build", "on_post_page"},  # of MkDocs
}
KINDS_OF_FIGURES = {
    *("bands", "bars", "box", "ccdf", "cdf", "differences"),
    *("ellipses", "felt", "forest", "front", "heat", "lines"),
    *("nested", "dots", "ratio", "series", "shares", "stacked_series"),
}
DRAWING = ("python/dumbbell/figures", "python/dumbbell/plotting", "python/dumbbell/notebook.py")
# a file's name that several folders share for one thing: kinds of figures, and the files of a study
SHARED_FILES = {"__init__", "study", "paper", "test", "over_time", "runs"}


@dataclass(frozen=True)
class Function:
    place: str
    name: str
    line: int
    decorators: tuple[str, ...]
    returns: str

    @property
    def is_named_elsewhere(self) -> bool:
        """Return whether a decorator makes it an attribute, a fixture, or a command that is named like it."""
        return any(re.search(r"property|\.setter|fixture|\.command\b|\.callback\b", one) for one in self.decorators)

    @property
    def fault(self) -> str:
        """Return what is wrong with its name, or nothing."""
        plain = self.name.strip("_")
        if self.is_named_elsewhere or self.name.startswith(("__", "_repr_")):  # the latter of IPython
            return ""
        if any(plain in names for place, names in PROTOCOLS.items() if self.place.startswith(place)):
            return ""
        if plain in KINDS_OF_FIGURES and self.place.startswith(DRAWING):
            return ""
        if BANNED.fullmatch(plain):
            return "names neither what it does nor what it returns"
        first = plain.split("_")[0]
        if first in VERBS or CONVERTS.fullmatch(plain) or plain == "main" or plain.startswith("test_"):
            return ""
        if ASKS.fullmatch(plain) and self.returns in ("bool", "pl.Expr"):
            return ""
        return "does not begin with a verb"


def list_files(*folders: str) -> list[Path]:
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "studies")  # a link
    ]


def find_functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(
                path.relative_to(ROOT).as_posix(),
                node.name,
                node.lineno,
                tuple(map(ast.unparse, node.decorator_list)),
                ast.unparse(node.returns) if node.returns else "",
            )


def list_commands() -> set[str]:
    """Return the functions that are commands: the table of commands finds them by the name of the command."""
    return {path.stem.rstrip("_") for path in (PACKAGE / "cli").glob("*.py")}


def test_a_function_is_named_by_a_verb_and_its_object() -> None:
    commands = list_commands()
    functions = [
        one for path in list_files("python/dumbbell", "studies", "website", "benches") for one in find_functions(path)
    ]
    wrong = [
        f"{one.place}:{one.line}: {one.name}: {one.fault}"
        for one in functions
        if one.fault and not (one.place == f"python/dumbbell/cli/{one.name.rstrip('_')}.py" and one.name in commands)
    ]
    assert len(functions) > 3000
    assert not wrong, "\n".join(wrong)


def test_no_two_classes_of_the_package_share_a_name() -> None:
    places = defaultdict(list)
    for path in list_files("python/dumbbell"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path.relative_to(PACKAGE).as_posix())
    assert places["Experiment"] == ["experiment/file.py"]
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_at_most_two_files_share_a_base_name() -> None:
    places = defaultdict(list)
    for path in list_files("python/dumbbell", "studies", "website", "benches"):
        places[path.stem].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 2 and name not in SHARED_FILES} == {}


def test_the_words_of_the_code_are_in_the_code() -> None:
    """Each name on the page is declared in the file next to it."""
    rows = re.findall(
        r"^\| `?(\w+)`? \| .* \| `([\w./-]+)` \|$", (ROOT / "docs" / "code-glossary.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 55
    wrong = []
    for word, place in rows:
        text = (ROOT / place).read_text(encoding="utf-8") if (ROOT / place).exists() else ""
        if not text or (not word.islower() and not re.search(rf"\b(class|struct|enum|trait) {word}\b", text)):
            wrong.append(f"{word}: {place}")
    assert not wrong


def test_what_names_are_refused() -> None:
    def find_fault(name: str, returns: str = "str") -> str:
        return Function("python/dumbbell/x.py", name, 1, (), returns).fault

    for name in ("said", "of", "told", "held", "table_text", "_text", "with_facets", "row"):
        assert find_fault(name)
    for name in ("format_number", "_select_texts", "to_json", "main"):
        assert not find_fault(name)
    assert find_fault("matches_words") and not find_fault("matches_words", "bool")
