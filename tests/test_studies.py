"""What a study runs, and studies of one's own."""

from pathlib import Path

import pytest

from conftest import Command
from dumbbell.errors import InputError, UnknownName
from dumbbell.experiment import shipped
from dumbbell.pages import new, study
from dumbbell.pages.sweeps import Sweep


@pytest.mark.slow
@pytest.mark.parametrize("name", study.list_studies())
def test_what_a_study_runs_is_there(name: str) -> None:
    found = study.find(name)
    for one in found.sweeps:
        for quick in (False, True):
            try:
                experiments = one.load_experiments(found.folder, quick=quick)
            except InputError as error:
                if all("dumbbell stack build" in line for line in str(error).splitlines()):
                    pytest.skip("its stacks are not built (dumbbell stack build)")
                raise
            assert experiments and all(len(each) for each in experiments)
        assert all(len(each.seeds) == 1 for each in experiments)
    made = {experiment for experiment in found.read_evidence().made if experiment in _stems(found)}
    assert made or not found.sweeps, "its evidence is of its own experiments"


def _stems(found: study.Study) -> set[str]:
    return {Path(file).stem for one in found.sweeps for file in one.list_files(found.folder)}


def test_own_experiments_come_before_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "shares.toml").write_text("")
    assert Sweep("x.duckdb", ("shares", "sce/one-flow-r*")).list_files(tmp_path) == [
        str(tmp_path / "experiments" / "shares.toml"),
        *[name for name in shipped.list_experiments() if name.startswith("sce/one-flow-r")],
    ]
    with pytest.raises(UnknownName, match=r"unknown experiment .*share.*; did you mean .*shares"):
        Sweep("x.duckdb", ("share",)).list_files(tmp_path)


def test_what_needs_a_stack_that_is_not_built_is_left_out(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    new.make(folder)
    text = (folder / "experiments" / "shares.toml").read_text(encoding="utf-8")
    stack = '[[flows]]\nstack = "quinn-0.11.19"\nbase_rtt = "20ms"\n'
    (folder / "experiments" / "quic.toml").write_text(text.replace("[matrix]", f"{stack}\n[matrix]"), encoding="utf-8")
    program = folder / "study.py"
    with_stack = 'RUNS = (Sweep("quic.duckdb", ("quic",)), '
    program.write_text(program.read_text(encoding="utf-8").replace("RUNS = (", with_stack, 1), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = command("study", "run", "./mine", "--dry-run")
    assert done.returncode == 1 and "runs;" in done.stdout
    wanted = "quic.duckdb: left out, because quinn-0.11.19 is not built: dumbbell stack build quinn --version 0.11.19"
    assert done.stderr.strip() == wanted


@pytest.mark.slow
def test_a_study_of_ones_own(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = command("study", "new", "mine").stdout.split()
    assert {"mine/study.py", "mine/page.md", "mine/suite.toml", "mine/experiments/shares.toml"} == set(made)
    assert command("study", "run", "./mine", "-o", "mine", "--quick", "--dry-run").stdout.startswith("12 runs;")
    command("study", "run", "./mine", "-o", "mine", "--quick")
    written = command("study", "page", "./mine", "mine").stderr.split()
    assert written == ["mine/README.md", "mine/figures/shares.svg"]
    page = (tmp_path / "mine" / "README.md").read_text()
    assert page.startswith("# CUBIC against Reno\n\n12 runs by ") and "**A fair queue shares fairly:**" in page
    assert command("study", "check", "./mine").returncode == 0
    assert (
        command("study", "figure", "./mine", "shares", "-o", "drawn", "--from", "mine").stdout == "drawn/shares.svg\n"
    )
    for files in ("mine/results.duckdb", "mine"):
        done = command("evaluate", "results", files, "--suite", "./mine")
        assert done.returncode == 0 and "2 of 2 judged statements hold" in done.stdout, done.stderr
    suite = (tmp_path / "mine" / "suite.toml").read_text()
    (tmp_path / "mine" / "suite.toml").write_text(suite.replace(">= 0.45 and <= 0.55", ">= 0.6"))
    assert command("evaluate", "results", "mine", "--suite", "./mine").returncode == 1
    # a page whose statement the results contradict is not written
    (tmp_path / "mine" / "study.py").write_text(
        (tmp_path / "mine" / "study.py").read_text().replace('"low": 0.45, "high": 0.55', '"low": 0.6, "high": 0.7')
    )
    refused = command("study", "page", "./mine")
    assert refused.returncode == 1 and "the results contradict '**A fair queue shares fairly:**" in refused.stderr


def test_a_folder_here_is_no_study_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new.make(Path("abe"))
    assert study.find("abe").folder != Path("abe")  # that of dumbbell; no program here runs unasked
    Path("abe").rename("mine")
    with pytest.raises(UnknownName, match=r"unknown study mine; .*\./mine, whose program then runs"):
        study.find("mine")
    assert study.find("./mine").page == Path("mine/README.md")


FAILING = {"def (": "SyntaxError: ", "import nowhere_module": "ModuleNotFoundError: ", "1 / 0": "ZeroDivisionError: "}


@pytest.mark.parametrize("program", FAILING)
def test_a_program_that_fails_is_one_line_that_names_it(command: Command, tmp_path: Path, program: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.py").write_text(program)
    done = command("study", "run", "./mine")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    line = "" if program == "def (" else ":1"
    assert f"mine/study.py{line}: this program fails: {FAILING[program]}" in done.stderr


def test_what_fails_in_a_program_later_is_told_with_its_line(command: Command, tmp_path: Path) -> None:
    command("study", "new", "mine")
    program = tmp_path / "mine" / "study.py"
    text = program.read_text()
    before, found, after = text.partition("def make_evidence(")
    head, body = after.split("\n", 1)
    program.write_text(f"{before}{found}{head}\n    1 / 0\n{body}")
    line = before.count("\n") + 2
    command("study", "run", "./mine", "-o", "mine", "--quick")
    done = command("study", "page", "./mine", "mine")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"mine/study.py:{line}: this program fails: ZeroDivisionError: division by zero" in done.stderr


def test_a_page_is_written_elsewhere_if_it_is_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("study", "page", "abe", "-o", "elsewhere", "--no-figures")
    assert done.returncode == 0 and done.stderr == "elsewhere/README.md\n", done.stderr
    assert (tmp_path / "elsewhere" / "README.md").read_text() == study.find("abe").page.read_text()
    monkeypatch.setattr(shipped, "PACKAGE", shipped.place().parent)
    refused = command("study", "page", "abe", "--no-figures")
    assert (
        refused.returncode == 2
        and "this folder belongs to the installed package; choose another folder" in refused.stderr
    )
    assert command("study", "check", "abe", "-o", "x").returncode == 2


def test_a_former_place_of_a_reference_gets_its_name(command: Command, small: Path) -> None:
    assert command("run", small, "-o", "r.duckdb").returncode == 0
    done = command("validate", "r.duckdb", "references/sce.csv")
    assert done.returncode == 2 and "references/sce.csv: there is no such file; did you mean sce?" in done.stderr
