"""The table of commands: help on one screen, an example of every command that works, and former names."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import command_lines
import in_process
from conftest import Command
from dumbbell.cli.command_table import COMMANDS, EXAMPLE, GROUPS, RETIRED_COMMANDS, RETIRED_OPTIONS
from dumbbell.cli.commands import TOP_LEVEL, carry_out
from dumbbell.cli.status import LineError
from website import man

CHEAP = [name for name, entry in COMMANDS.items() if entry.is_cheap]
FILES = Path(__file__).parent / "imports"


def walk(command: object, words: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """Yield every command by its words."""
    for name, inner in getattr(command, "commands", {}).items():
        yield " ".join((*words, name)), inner
        yield from walk(inner, (*words, name))


def test_the_table_has_every_command() -> None:
    assert {name for name, _ in walk(command_lines.program())} == set(COMMANDS)
    assert set(TOP_LEVEL) == {name for name in COMMANDS if " " not in name}
    # the help of dumbbell, which has a line for each, fits one screen
    assert len(TOP_LEVEL) == len(set(TOP_LEVEL)) <= 25 and len(GROUPS) == 5
    assert not set(RETIRED_COMMANDS) & set(COMMANDS)


def test_help_fits_one_screen(command: Command) -> None:
    lines = command("--help").stdout.splitlines()
    assert len(lines) <= 48 and max(map(len, lines)) <= 80
    shown = [line.split()[0] for line in lines if re.match(r"  [a-z]+  ", line)]
    assert shown == list(TOP_LEVEL)
    assert lines[-3:] == [f"  {line}" for line in EXAMPLE.splitlines()]
    assert not any("..." in line for line in lines[1:])
    assert command().stdout.splitlines() == lines


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_sentence_and_ends_with_an_example(name: str, command: Command) -> None:
    entry = COMMANDS[name]
    shown = command(*name.split(), "--help").stdout
    assert shown.splitlines()[2].strip() == entry.summary
    assert entry.summary[0].isupper() and entry.summary.endswith(".") and len(entry.summary) <= 66
    assert shown.endswith(f"\nExample:\n  {entry.example}\n")
    assert "..." not in shown.partition("Commands:")[2]
    assert f"dumbbell {name}" in entry.example or " " not in name
    types = re.findall(r"^  (?:-\w, )?--[\w-]+ (<\S+|[a-z]+(?= ))", shown, re.MULTILINE)
    assert not [one for one in types if "|" not in one], "a value without a name such as FILE"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that examples name."""
    made = tmp_path_factory.mktemp("examples")
    shutil.copy(FILES / "upload.json", made)
    for words in ("run sce/one-flow-reno-cubic -o demo.duckdb", "plugin new control fast --language python"):
        assert in_process.run(words.split(), made).returncode == 0
    return made


@pytest.mark.parametrize("name", CHEAP)
def test_an_example_works(name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shutil.copytree(folder, tmp_path / "here")
    if name == "plugin new":
        shutil.rmtree(tmp_path / "here" / "fast")
    for words in command_lines.find_commands(COMMANDS[name].example):
        done = in_process.run(words, tmp_path / "here")
        assert done.returncode == (name == "diff"), done.stderr  # the status 1 of diff says that something differs
        assert done.stdout or done.stderr


def test_the_example_of_dumbbell_works(tmp_path: Path) -> None:
    for line in EXAMPLE.splitlines():
        done = in_process.run(shlex.split(line)[1:], tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(CHEAP)))
def test_an_expensive_example_parses(name: str) -> None:
    (words,) = command_lines.find_commands(COMMANDS[name].example)
    command_lines.parse(words)


@pytest.mark.parametrize("former", RETIRED_COMMANDS)
def test_a_former_command_names_the_new_one_in_one_line(former: str, command: Command) -> None:
    done = command(*former.split(), "some.duckdb")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"dumbbell: {former} is now dumbbell {RETIRED_COMMANDS[former]}")
    for words in command_lines.find_commands(f"dumbbell {RETIRED_COMMANDS[former]}"):
        assert words[0] in TOP_LEVEL


@pytest.mark.parametrize(
    "words",
    ["table r --csv", "evaluate cc --json", "study page sce --check", "export r --flent", "table r --latex"],
)
def test_a_former_option_names_the_new_one_in_one_line(words: str) -> None:
    option = words.split()[-1]
    with pytest.raises(LineError, match=f"^{option} is now {RETIRED_OPTIONS[option]}$"), _silence():
        carry_out(words.split())


def test_an_option_that_a_command_never_had_is_unknown() -> None:
    with pytest.raises(LineError, match="No such option: --csv"), _silence():
        carry_out(["run", "a.toml", "--csv"])


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("dumbbell run a.toml -o r.duckdb && .venv/bin/dumbbell list | head", ["run a.toml -o r.duckdb", "list"]),
        ('eval "$(dumbbell completion bash)"', ["completion bash"]),
        ("$(BIN)/dumbbell run validation/agree", ["run validation/agree"]),
        ("dumbbell table r.duckdb --where 'a[0].b=c'  # a comment", ["table r.duckdb --where a[0].b=c"]),
        ("make demo", []),
    ],
)
def test_calls_are_found_in_a_line(line: str, calls: list[str]) -> None:
    assert [" ".join(words) for words in command_lines.find_commands(line)] == calls


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "Missing argument"),
        ("tabel r.duckdb", "No such command"),
        ("table r.duckdb --row x", "No such option"),
        ("study paper", "No such command"),
        ("claims r.duckdb", "claims is now evaluate results"),
        ("table r.duckdb --format pdf", "Invalid value"),
        ("trace FILE --cell many", "Invalid value"),
    ],
)
def test_a_wrong_line_is_refused(words: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        command_lines.parse(words.split())


@pytest.mark.parametrize(
    "line",
    [
        "run FILE… [-o results.duckdb] [--jobs N | --cluster tcp://HOST:8786]",
        "list [aqm|cc]",
        "export RESULTS --format csv|parquet",
        "trace FILE [--where KEY=VALUE | --cell N] [--flow N] -o DIR",
    ],
)
def test_a_synopsis_is_parsed(line: str) -> None:
    command_lines.parse(command_lines.expand(line.split()))


def test_every_command_has_a_manual_page() -> None:
    pages = man.make_pages()
    leaves = {name for name in COMMANDS if " " in name or not command_lines.command_names(name)}
    assert set(pages) == {"dumbbell.1", *(f"dumbbell-{name.replace(' ', '-')}.1" for name in leaves)}
    for name in leaves:
        page, page_name = pages[f"dumbbell-{name.replace(' ', '-')}.1"], f"dumbbell-{name.replace(' ', '-')}"
        assert page.endswith(f".SH EXAMPLE\n.nf\n{man.escape(COMMANDS[name].example)}\n.fi\n")
        assert man.escape(page_name) in pages["dumbbell.1"]
    if groff := shutil.which("groff"):
        line = [groff, "-man", "-Tutf8", "-Kutf8", "-ww"]
        done = subprocess.run(line, input="".join(pages.values()), capture_output=True, text=True, check=True)
        assert not done.stderr and "--engine ENGINE" in re.sub("\x1b\\[[0-9]*m|.\b", "", done.stdout)
