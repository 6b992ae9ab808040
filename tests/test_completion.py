import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command
from dumbbell.cli import completion, doctor, results_files
from dumbbell.cli.commands import TOP_LEVEL, carry_out
from dumbbell.cli.status import LineError
from dumbbell.engines.needs import Check
from dumbbell.errors import InputError, UnknownName
from dumbbell.plotting.kinds import find_kind
from dumbbell.results import versions

HEAVY = {"matplotlib", "polars", "pyarrow", "scipy", "duckdb", "numpy", "jinja2", "rich"}


@pytest.fixture(scope="module")
def known() -> dict[str, completion.Command]:
    return completion.list_commands()


def completed(script: str, line: str, folder: Path) -> list[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    ask = f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; _dumbbell"
    code = f'{script}\n{ask}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "some", "none"),
    [
        ("dumbbell ", {"run", "table", "--version", "completion"}, {"build", "--rows"}),
        ("dumbbell ta", {"table"}, {"run"}),
        ("dumbbell run sce/one-f", {"sce/one-flow", "sce/one-flow-reno-cubic"}, {"sce/two-flow", "--jobs"}),
        ("dumbbell watch sce/one-f", {"sce/one-flow"}, {"--speed"}),
        ("dumbbell explain r.duckdb --where good", {"goodput_mbit"}, {"sce/one-flow"}),
        ("dumbbell run a.toml --", {"--jobs", "--engine", "--help"}, {"--rows", "sce/one-flow"}),
        ("dumbbell run --engine ", {"sim", "live", "linux"}, {"--jobs", "sce/one-flow"}),
        ("dumbbell table r.duckdb --value good", {"goodput_mbit"}, {"rtt_mean_ms"}),
        ("dumbbell plot r.duckdb --kind c", {"cdf", "ccdf"}, {"bars"}),
        ("dumbbell linux ", {"build", "list", "remove"}, {"run"}),
        ("dumbbell linux build --", {"--tree", "--patch"}, {"--sources"}),
        ("dumbbell describe cu", {"cubic"}, {"reno"}),
        ("dumbbell nothing --", set(), {"--help"}),
    ],
)
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(
    line: str, some: set[str], none: set[str], known: dict[str, completion.Command], tmp_path: Path
) -> None:
    found = set(completed(completion._write_bash(known), line, tmp_path))
    assert some <= found and not none & found
    assert all(word.startswith(line.split(" ")[-1]) for word in found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_that_its_shell_reads(shell: str, command: Command, tmp_path: Path) -> None:
    done = command("completion", shell)
    assert done.returncode == 0 and "sce/one-flow" in done.stdout and "goodput_mbit" in done.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    script = tmp_path / "script"
    script.write_text(done.stdout)
    subprocess.run([shell, "-n", script], check=True)


def test_every_command_and_every_option_is_known(known: dict[str, completion.Command], command: Command) -> None:
    for name, one in known.items():
        shown = command(*name.split(), "--help").stdout
        assert all(word in shown for word in one.words), name
    assert set(known[""].words) >= {"run", "list", "table", "--version"}


def modules_after(code: str) -> set[str]:
    """Return the packages that a new Python has imported after some code."""
    code = f"import sys\n{code}\nprint('\\n' + __import__('json').dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return set(found)


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["--version"], {"typer", "pydantic"}),
        (["--help"], {"pydantic", *(f"dumbbell.cli.{name}" for name in TOP_LEVEL)}),
        (["no-such-command"], {"pydantic", *(f"dumbbell.cli.{name}" for name in TOP_LEVEL)}),
        (["completion", "bash"], set()),
    ],
    ids=["version", "help", "unknown", "completion"],
)
def test_what_a_start_imports(words: list[str], more: set[str]) -> None:
    code = f"sys.argv[1:] = {words}\nfrom dumbbell.cli import main\ntry: main()\nexcept SystemExit: pass"
    imported = modules_after(code)
    assert imported & (HEAVY | more) == set()
    assert "dumbbell.cli.program" in imported


def test_what_the_package_imports() -> None:
    imported = modules_after("import dumbbell")
    assert imported & {*HEAVY, "pydantic", "typer"} == set()
    assert {name for name in imported if name.startswith("dumbbell.")} == {"dumbbell.errors", "dumbbell.lazy"}


# words after a name that let the command fail, or end, once it knows the name
AFTER = {
    **{name: ["--set", "nothing=1"] for name in ("run", "explain", "watch", "trace")},
    "shell": ["--set", "nothing=1", "--", "true"],
    "study tables": ["--only", "1"],
    "study check": ["--nothing"],
    "study run": ["--output", "/dev/null/folder"],
    "study page": ["--output", "/dev/null/folder"],
    "study figure": ["no-such-figure"],
}


@pytest.mark.slow
def test_every_name_that_is_offered_is_accepted(
    known: dict[str, completion.Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "look", lambda _engine: iter([Check("nothing", "is looked at")]))
    offered = [(name, word) for name, one in known.items() for word in one.names]
    assert {name for name, _ in offered} == {*AFTER, "list", "describe", "doctor", "completion"}
    for name, word in offered:
        try:
            assert carry_out([*name.split(), word, *AFTER.get(name, [])]) in (None, 0)
        except (InputError, LineError, OSError) as error:
            assert name in AFTER, f"dumbbell {name} {word}: {error}"
            assert not isinstance(error, UnknownName) or word != error.found, f"dumbbell {name} {word}: {error}"
            assert not isinstance(error, OSError) or name in ("study run", "study page")


def test_every_value_that_is_offered_is_accepted(known: dict[str, completion.Command]) -> None:
    accept: dict[str, Callable[[str], object]] = {
        "--kind": find_kind,
        "--of": results_files.require_part,
        "--engine": lambda name: name == "all" or _named_engine(name),
    }
    offered = {option for one in known.values() for option in one.values}
    assert offered == {*accept, *completion._COLUMNS, "--format", "--fail"}  # typer itself checks these two
    for name, one in known.items():
        for option in accept.keys() & one.values:
            for word in one.values[option]:
                assert accept[option](word) is not False, f"dumbbell {name} {option} {word}"
    for name in ("run", "trace"):
        assert {*known[name].values["--engine"]} <= {one.name for one in versions.list_runners()}


def _named_engine(name: str) -> bool:
    return versions.find_kind(f"{name}-1") == name or name == "sim"


def test_other_shells_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown shell tcsh; .*hoose from bash, zsh, fish"):
        completion.completion("tcsh")
