"""Experiments that come with dumbbell are run by name."""

from pathlib import Path

import pytest

from conftest import SMALL, Command
from dumbbell import experiment
from dumbbell.errors import InputError
from dumbbell.experiment import shipped

NAME = "sce/one-flow-reno-cubic"


@pytest.mark.slow
def test_a_shipped_experiment_is_run_by_name(command: Command, tmp_path: Path) -> None:
    for name in (NAME, f"{NAME}.toml"):
        done = command("run", name, "--dry-run")
        assert (done.returncode, done.stdout.partition(";")[0]) == (0, "128 runs"), done.stderr
        assert experiment.load(name).name == "one-flow-reno-cubic"
    (tmp_path / "sce").mkdir()
    (tmp_path / f"{NAME}.toml").write_text(SMALL)
    assert command("run", f"{NAME}.toml", "--dry-run").stdout.startswith("8 runs;"), "a file that is there wins"


def test_the_package_carries_them_or_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped.place() == Path(__file__).parents[1] / "studies"
    folder = tmp_path / "studies" / "my_own"
    (folder / "experiments").mkdir(parents=True)
    (folder / "references").mkdir()
    (folder / "experiments" / "a.toml").write_text(SMALL)
    (folder / "references" / "b.csv").write_text("")
    (folder / "suite.toml").write_text("")
    monkeypatch.setattr(shipped, "PACKAGE", tmp_path)
    assert shipped.list_experiments() == {"my-own/a": folder / "experiments" / "a.toml"}
    assert shipped.list_references() == {"b": folder / "references" / "b.csv"}
    assert shipped.list_suites() == {"my-own": folder / "suite.toml"}
    assert len(experiment.load("my-own/a")) == 8


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("csaqm/equal-1g", "coexistence/equal-1g"),
        ("l4s/questions-rtt.toml", "dualpi2/questions-rtt"),
        ("experiments/linux/bbr-traces.toml", "bbr-traces/bbr-traces"),
        ("engines/agree", "validation/agree"),
        ("linux/coexistence-rtts", "coexistence/coexistence-rtts"),  # by its letters coexistence/rtts-1g is nearer
    ],
)
def test_a_former_name_gets_the_new_one(former: str, name: str) -> None:
    with pytest.raises(InputError) as error:
        experiment.load(former)
    assert error.value.nearest == name and len(str(error.value).splitlines()) == 1


def test_the_list_has_names_that_run_takes_and_titles(command: Command) -> None:
    lines = command("list", "experiments").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(shipped.list_experiments())
    for line in lines:
        name, _, title = line.strip().partition(" ")
        assert title.strip() == experiment.read_title(shipped.list_experiments()[name])


def test_a_misspelt_name_gets_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        experiment.load("sce/one-flow-reno-cubci")
    assert error.value.nearest == NAME
