import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Command
from dumbbell.cli import completion
from dumbbell.errors import InputError


@pytest.fixture(scope="module")
def known() -> dict[str, completion.Command]:
    return completion.known()


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
    found = set(completed(completion._bash(known), line, tmp_path))
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


def test_other_shells_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown shell tcsh; .*nown are bash, zsh, fish"):
        completion.completion("tcsh")
