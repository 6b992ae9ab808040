"""The documents say what is so: code runs, commands and links exist, figures are those of the results.

What a writer has to know. The blocks of a document in `RUN` are carried out in order, in one folder that has
`studies` in it:

- `toml` is read as an experiment. A whole one is run, shortened; a part of one is put into a small experiment. It is
  written to a file if its first line is `# NAME.toml` or the line before the block ends with `` `NAME.toml`: ``.
- `python` is executed; all blocks of a document share their names.
- Lines of `sh`, of blocks without a language and of indented blocks are run if they begin with `dumbbell` or
  `.venv/bin/dumbbell`. `make demo` runs what it does once everything is built. A line with a placeholder (`FILE`,
  `[-o …]`) is a synopsis: the command line must accept it, without brackets and with the first of `a|b`.
- `text` right after any of these is what it prints; a line `…` stands for any lines. A command whose output is shown
  may fail, any other may not.
- `<!-- slow -->` before a block: it is read, not run.

The blocks of all other documents are read, not run.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import command_lines
import dumbbell
import in_process
from dumbbell import experiment
from dumbbell.cli.command_table import COMMANDS, GROUPS, RETIRED_COMMANDS
from dumbbell.experiment.registry import read_registry
from dumbbell.searching.search_file import load_search
from every_case import every_case
from schema_corpus import validator
from website import commands

ROOT = Path(__file__).parent.parent
RUN = [
    (ROOT / "docs" / f"{name}.md").resolve()
    for name in (
        "../README",
        "cookbook",
        "teaching",
        "tutorial",
        "selecting",
        "experiment-files",
        "python",
        "concepts/cells",
        "how-to/compare",
        "how-to/coming-from",
        "how-to/import",
        "how-to/explain",
        "how-to/figures",
        "how-to/hunt",
        "how-to/learn",
        "how-to/search",
        "how-to/step",
        "how-to/own-agent",
        "how-to/own-plugin",
        "how-to/own-reward",
        "how-to/paper-figure",
        "how-to/report",
        "how-to/simulate",
        "how-to/trace",
        "how-to/uplink",
    )
]
READ = [
    path
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("**/*.md")),
        *sorted((ROOT / "studies").glob("*/README.md")),
    ]
    if path not in RUN and path.name != "lab-book.md"
]
SHELL = ("", "sh", "bash", "shell", "console")
DUMBBELL = re.compile(r"(?:\.venv/bin/)?dumbbell(?=\s)")
PLACEHOLDER = re.compile(r"(?:^|\s)\[[-\w]|…|\s[A-Z]{3,}\b(?!=)|=VALUE|HOST")
SECTIONS = (
    "bottleneck",
    "hop",
    "reverse",
    "hosts",
    "flows",
    "web",
    "udp",
    "record",
    "matrix",
    "override",
    "duration",
    "seeds",
    "title",
)


@dataclass(frozen=True)
class Block:
    """A block of code: `line` is that of its first line of code, `name` the file that it is, if it is one."""

    document: Path
    line: int
    language: str
    text: str
    name: str
    slow: bool
    follows: bool  # nothing but blank lines between this block and the one before

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Lines for a shell, joined where they go on, cut where several stand in one."""
        lines = self.text.replace("\\\n", " ").splitlines() if self.language in SHELL else []
        words = [re.sub(r"\s+# .*", "", line).strip().removeprefix("$ ") for line in lines]
        return [part for line in words for part in re.split(r"\s*&&\s*|\s*;\s+|\s{2,}(?=dumbbell\s)", line) if part]


def blocks(document: Path) -> list[Block]:
    """Return the blocks of code of a document, fenced and indented."""
    lines = document.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    before, adjacent, slow, at = "", False, False, 0
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"(```+)\s*(\w*)", line)
        indented = (
            re.match(r" {4}\S", line) and not re.match(r"[-*] |\||\d+[.)] ", before) and not lines[at - 1].strip()
        )
        if fence or indented:
            start = at = at + bool(fence)
            if fence:
                while at < len(lines) and not lines[at].startswith(fence[1]):
                    at += 1
                text, at = lines[start:at], at + 1
            else:
                while at < len(lines) and re.match(r" {4}|\s*$", lines[at]):
                    at += 1
                text = [one[4:] for one in lines[start:at]]
            first = re.match(r"# ([\w./-]+\.\w+)$", text[0]) if text else None
            named = first or re.search(r"`([\w./-]+\.\w+)`:$", before)
            name = named[1] if named else ""
            code = "\n".join(text).rstrip() + "\n"
            found.append(Block(document, start + 1, fence[2] if fence else "", code, name, slow, adjacent))
            before, adjacent, slow = "", True, False
            continue
        if line.strip():
            slow, adjacent = line.strip() == "<!-- slow -->", False
            before = before if slow else line.strip()
        at += 1
    return found


def as_experiment(block: Block) -> tuple[dict[str, Any], bool]:
    """Return a block of TOML as an experiment of two seconds after what begins last, and whether it is a whole one."""
    table = tomllib.loads(block.text)
    whole = "bottleneck" in table and bool({"flows", "web", "udp"} & set(table))
    if not whole:
        small = {"bottleneck": {"rate": "10Mbit", "aqm": "codel"}, "flows": [{"cc": "cubic", "base_rtt": "20ms"}]}
        table = small | table
    for override in table.get("override", []):
        override.get("set", {}).pop("duration", None)
    table["override"] = [one for one in table.get("override", []) if one.get("set")]
    begins = re.findall(r"\b(?:start|at) = [^}\n]*?(\d+)s\"", block.text)
    return table | {"duration": f"{2 + max(map(int, begins), default=0)}s", "seeds": [1]}, whole


def check_line(line: str, place: str) -> None:
    """Check that the commands, options and arguments of a line exist; a synopsis stands for a command with them all."""
    for words in command_lines.find_commands(line):
        assert not (error := command_lines.find_error(words)), f"{place}: {line}: {error}"


def check_make(line: str, place: str) -> None:
    """Check that a line's targets of make exist."""
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for word in line.split()[1:]:
        assert "=" in word or word in targets, f"{place}: make has no target {word}"


def run_line(line: str, folder: Path) -> tuple[int, str, str]:
    """Run a line of shell in a folder; return exit status, output, and output and errors together."""
    commands = folder / ".commands"
    commands.mkdir(exist_ok=True)
    command = commands / "dumbbell"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dumbbell "$@"\n')
    command.chmod(0o755)
    paths = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PATH": os.pathsep.join([str(commands), os.environ["PATH"]]),
    }
    variables = paths | {"COLUMNS": "200", "NO_COLOR": "1"}
    line = DUMBBELL.sub("dumbbell", line)
    if line.startswith("dumbbell ") and not re.search(r"[|&;<>()$`*?~#]", line):
        done = in_process.run(shlex.split(line)[1:], folder, variables)
    else:  # something for a shell
        words, env = ["sh", "-c", line], os.environ | variables
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=200, check=False, env=env)
    return done.returncode, done.stdout, done.stdout + done.stderr


def demo() -> list[str]:
    """Return the command lines of `make demo`."""
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    return [
        line.strip().lstrip("@").replace("$(BIN)/", "") for line in recipe.splitlines() if "$(BIN)/dumbbell" in line
    ]


def matches(shown: str, printed: str) -> bool:
    """Whether a shown text is what was printed; a line of `…` or `...` stands for any lines."""
    lines, rest = ([line.rstrip() for line in text.strip().splitlines()] for text in (shown, printed))
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() in ("…", "..."):
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return parts[0] == rest
    first, *middle, last = parts
    at, end = len(first), len(rest) - len(last)
    if rest[:at] != first or at > end or rest[end:] != last:
        return False
    for part in middle:
        found = next((i for i in range(at, end - len(part) + 1) if rest[i : i + len(part)] == part), None)
        if found is None:
            return False
        at = found + len(part)
    return True


class Reader:
    """Carries out the blocks of one document in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        (folder / "studies").symlink_to(ROOT / "studies")

    def carry_out(self, block: Block, shown: Block | None) -> None:
        """Run a block and compare what it prints with the block that shows it."""
        printed: list[tuple[str, str]] = []
        if block.language == "toml":
            self.toml(block)
        elif block.language == "python" and not block.slow:
            printed.append(self.python(block))
        else:
            printed += self.shell(block, may_fail=shown is not None)
        if shown and printed and not block.slow:
            outputs = ["".join(part) for part in zip(*printed, strict=True)]
            assert any(matches(shown.text, output) for output in outputs), f"{shown.place}: printed was\n{outputs[-1]}"

    def toml(self, block: Block) -> None:
        if "budget" in tomllib.loads(block.text):  # a search
            (self.folder / block.name).write_text(block.text, encoding="utf-8")
            load_search(self.folder / block.name)
            return
        if not set(tomllib.loads(block.text)) <= set(SECTIONS):
            return  # not an experiment
        if block.name:
            (self.folder / block.name).write_text(block.text, encoding="utf-8")
            experiment.load(self.folder / block.name)
        table, whole = as_experiment(block)
        parsed = experiment.parse(table, block.place)
        if whole and not block.slow:
            dumbbell.run(parsed)

    def python(self, block: Block) -> tuple[str, str]:
        if block.name:
            (self.folder / block.name).write_text(block.text, encoding="utf-8")
        code = compile("\n" * (block.line - 1) + block.text, str(block.document), "exec")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, self.names)
        return output.getvalue(), output.getvalue()

    def shell(self, block: Block, may_fail: bool) -> Iterator[tuple[str, str]]:
        for line in block.commands:
            if line.startswith("make "):
                check_make(line, block.place)
            lines = demo() if line == "make demo" else [line] if DUMBBELL.match(line) else []
            for one in lines:
                if block.slow or PLACEHOLDER.search(one):
                    check_line(one, block.place)
                    continue
                status, output, everything = run_line(one, self.folder)
                assert status == 0 or may_fail, f"{block.place}: {one}\n{everything}"
                yield output, everything


@pytest.mark.slow
@pytest.mark.spread
@pytest.mark.timeout(300)  # 25 s on two idle cores
@pytest.mark.parametrize("document", RUN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    reader, found = Reader(tmp_path), blocks(document)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "text":
            reader.carry_out(block, after if after and after.language == "text" and after.follows else None)
    for shown in re.findall(r"!\[[^]]*\]\(([\w/.-]+\.svg)\)", document.read_text(encoding="utf-8")):
        committed = document.parent / shown
        if "assets" not in committed.parts:
            assert committed.read_bytes() == (tmp_path / committed.name).read_bytes(), (
                f"{document.name} draws another {shown}"
            )


def test_numbers_of_the_readme_are_those_of_the_pages_that_it_links_to() -> None:
    def list_numbers(text: str) -> set[str]:
        return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\])", re.sub(r"\]\([^)]*\)", "]", text)))

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    claims = [line for line in readme.splitlines() if line.startswith(("| ", "- **Fast")) and "](" in line]
    assert len(claims) >= 7
    known = read_registry()
    assert f"{len(known.aqm)} queue disciplines" in readme and f"{len(known.cc)} congestion controls" in readme
    for line in claims:
        linked = [(ROOT / path).read_text(encoding="utf-8") for path in re.findall(r"\]\(([\w/.-]+\.md)\)", line)]
        missing = list_numbers(line.rpartition("](")[2] if line.startswith("| ") else line) - list_numbers(
            " ".join(linked)
        )
        assert not missing, f"{line}\nno linked page has {', '.join(sorted(missing))}"


@every_case("document", READ)
def test_a_document_names_what_exists(document: Path) -> None:
    for block in blocks(document):
        if block.language == "toml" and set(tomllib.loads(block.text)) <= set(SECTIONS):
            table = as_experiment(block)[0]
            if "'stack'" in str(table):  # which stacks are built is not the document's affair
                assert validator().is_valid(table), block.place
            else:
                experiment.parse(table, block.place)
        elif block.language == "python":
            compile(block.text, block.place, "exec")
        for line in block.commands:
            if DUMBBELL.match(line):
                check_line(line, block.place)
                for path in re.findall(r"(?:experiments|references)/[\w/.-]+\.(?:toml|csv)", line):
                    assert (ROOT / path).exists(), f"{block.place}: no file {path}"
            elif line.startswith("make "):
                check_make(line, block.place)


@every_case("document", [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))])
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_page_of_commands_lists_every_command() -> None:
    page = commands.make_page()
    listed = re.findall(r"^### dumbbell (.+)$", page, re.MULTILINE)
    assert listed == [name for name in COMMANDS if not command_lines.command_names(name.split()[0]) or " " in name]
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(GROUPS)


def list_texts() -> list[Path]:
    """Return the files of the repository that people write and that may name commands."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("no git checkout")
    left_out = re.compile(r"lab-book|CHANGELOG|/evidence/|figures/vega|command_table|test_commands|test_docs")
    endings = ("", ".md", ".py", ".rs", ".toml", ".yml", ".js", ".ts", ".c", ".h", ".ipynb", ".html")
    return [ROOT / one for one in listed if not left_out.search(one) and Path(one).suffix in endings]


FORMER = re.compile(rf"(?<![\w./-])dumbbell ({'|'.join(one for one in RETIRED_COMMANDS if ' ' not in one)})\b")
CODE_SPAN = re.compile(r"(?<!`)`((?:[\w./]*/)?dumbbell [^`]+)`(?!`)")
MENTION = re.compile(r"(?<![\w./-])dumbbell ([a-z]+)(?: ([a-z]+))?((?: +[^ \n`\"',;)]+)*)")


def test_no_file_names_a_former_command() -> None:
    found = [f"{path.relative_to(ROOT)}: {name}" for path in list_texts() for name in FORMER.findall(_read(path))]
    assert not found


def test_commands_within_sentences_exist() -> None:
    """Commands in backticks parse; whatever follows the name of a command elsewhere has no unknown option."""
    for path in list_texts():
        text, place = _read(path), str(path.relative_to(ROOT))
        if path.suffix == ".md":
            for span in CODE_SPAN.findall(text):
                if span.split()[1] in command_lines.command_names() and not re.search(r"\s…|\$\{|\{\{", span):
                    check_mention(re.sub(r"\s+", " ", span), place)
        for first, second, rest in MENTION.findall(text):
            command = command_lines.program().commands.get(first)
            command = getattr(command, "commands", {}).get(second, command)
            if command is None or hasattr(command, "commands"):
                continue
            known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", rest.split(" -- ")[0]):
                assert option in known, f"{place}: dumbbell {first} {second} has no {option}"


def check_mention(span: str, place: str) -> None:
    """Check a command in a sentence, which may leave out its arguments but names nothing that does not exist."""
    for words in command_lines.find_commands(span):
        error = command_lines.find_error(words)
        assert re.match("$|Missing (argument|command)|Option .* requires an", error), f"{place}: {span}: {error}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_blocks_are_found_as_a_writer_means_them(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(
        "Write `a.toml`:\n\n```toml\nseeds = [1]\n```\n\n- a list\n\n    not a block\n\n2 runs follow:\n\n"
        "    dumbbell run a.toml    # quick\n    dumbbell list; dumbbell describe cake\n\n```text\nout\n…\n```\n\n"
        "<!-- slow -->\n```python\n# b.py\nx = 1\n```\n"
    )
    toml, shell, text, python = blocks(document)
    assert (toml.language, toml.name, toml.line, toml.slow) == ("toml", "a.toml", 4, False)
    assert shell.commands == ["dumbbell run a.toml", "dumbbell list", "dumbbell describe cake"]
    assert text.follows and not shell.follows
    assert python.slow and python.name == "b.py" and not python.follows


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb", "a \nb\n", True),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("…\nd", "a\nd\n", True),
        ("a\n…", "a\nb\n", True),
        ("a\nb", "a\nc\n", False),
        ("a\n…\nb", "a\nc\n", False),
        ("a\n…\nc\n…\ne", "a\nb\nc\nd\ne\n", True),
        ("a\n…\nd\n…\nb\n…", "a\nb\nd\n", False),
        ("a\n…\na", "a\n", False),
    ],
)
def test_shown_text_is_compared(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) == same


@pytest.mark.parametrize(
    ("line", "synopsis"),
    [
        ("dumbbell run FILE… [-o results.duckdb]", True),
        ("dumbbell list [aqm|cc]", True),
        ("dumbbell export RESULTS --format csv|parquet", True),
        ("dumbbell table r.duckdb --where KEY=VALUE", True),
        ("dumbbell run a.toml --set 'flows[0].cc=reno'", False),
        ("dumbbell table r.duckdb --rows flows[0].base_rtt --where bottleneck.rate=10Mbit", False),
    ],
)
def test_a_line_with_placeholders_is_a_synopsis(line: str, synopsis: bool) -> None:
    assert bool(PLACEHOLDER.search(line)) == synopsis
