"""`evaluate --against` and `--bars`: what changed from another evaluation, and bars of one's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Command
from dumbbell.errors import InputError
from dumbbell.evaluate.comparison import CellChange, find_direction, widen_interval
from dumbbell.evaluate.suite_file import load_suite, replace_bars
from test_evaluate import SCENE, SUITE

LINE = ("evaluate", "cc", "bbr1", "--suite", "small", "--quick", "--only", "loss")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite of one scene, evaluated once with BBRv1 as `first`."""
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "small").mkdir()
    (folder / "short.toml").write_text(SCENE.replace("8s", "4s").replace('"0.25bdp", "8bdp"', '"0.25bdp"'))
    (folder / "suite.toml").write_text(SUITE.replace("[1]", "[0]"))
    return folder


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((1, 0.9, 1.1), (1.3, 1.2, 1.4), 1),
        ((1, 0.9, 1.1), (0.7, 0.6, 0.8), -1),
        ((1, 0.9, 1.1), (1.15, 1.05, 1.25), 0),  # the intervals overlap
        ((1, 1, 1), (1.04, 1.04, 1.04), 0),  # no more than 5 %
        ((1, 1, 1), (1.06, 1.06, 1.06), 1),
        ((0, 0, 0), (0.1, 0.1, 0.1), 1),
        ((float("nan"),) * 3, (1, 1, 1), 0),
    ],
)
def test_a_figure_changes_if_its_intervals_are_apart(before: Any, now: Any, expected: int) -> None:
    assert find_direction(before, now, is_less_better=True) == expected
    assert find_direction(before, now, is_less_better=False) == -expected


@pytest.mark.parametrize("seeds", [2, 3, 5, 10, 20])
def test_equal_subjects_seldom_have_a_figure_that_changed(seeds: int) -> None:
    random = np.random.default_rng(1)

    def measure() -> tuple[float, float, float]:
        values = random.normal(1.0, 0.3, seeds)
        means = values[random.integers(seeds, size=(400, seeds))].mean(axis=1)
        return values.mean(), np.quantile(means, 0.025), np.quantile(means, 0.975)

    pairs = [(measure(), measure()) for _ in range(400)]
    changed = sum(find_direction(*pair, is_less_better=True) != 0 for pair in pairs)
    wide = [(widen_interval(one, seeds), widen_interval(other, seeds)) for one, other in pairs]
    assert sum(find_direction(*pair, is_less_better=True) != 0 for pair in wide) <= 0.03 * len(pairs)
    if seeds == 2:
        assert changed > 0.25 * len(pairs)  # as they are, two intervals of two values each are apart in a third


@pytest.mark.parametrize(
    ("grades", "figure", "expected"),
    [
        (("no worse", "worse"), 0, 1),
        (("worse", "fails"), 0, 1),
        (("worse", "worse"), 1, 1),
        (("fails", "worse"), 0, -1),
        (("fails", "worse"), 1, 1),  # a figure that got worse is not made up for
        (("passes", "no worse"), 0, 0),
        (("no worse", "cannot tell"), 0, 0),
        (("worse", "does not apply"), 0, 0),
        (("worse", "cannot tell"), 0, 0),  # nobody can tell whether it is better
        (("worse", "cannot tell"), -1, -1),
        (("passes", "passes"), -1, -1),
    ],
)
def test_grades_and_figures_both_count(grades: tuple[str, str], figure: int, expected: int) -> None:
    assert CellChange("c", "", "", grades, ("", ""), figure, "").direction == expected


@pytest.mark.usefixtures("small")
def test_an_earlier_evaluation_is_a_baseline(command: Command) -> None:
    first = command(*LINE, "--format", "json")
    assert first.returncode == 1  # BBRv1 fails, and that is no change
    Path("first.json").write_text(first.stdout)
    same = command(*LINE, "--against", "first.json")
    assert same.returncode == 0, same.stderr
    assert "Against first.json: 0 worse, 0 better, 1 the same." in same.stdout
    told = json.loads(Path("first.json").read_text())
    cell = told["criteria"][0]["cells"][0]
    cell["grade"] = "no worse"
    Path("better.json").write_text(json.dumps(told))
    worse = command(*LINE, "--against", "better.json")
    assert worse.returncode == 1 and "Against better.json: 1 worse, 0 better, 0 the same." in worse.stdout
    assert "To repeat what got worse:\nloss: dumbbell run small/short.toml" in worse.stdout
    page = Path("evaluation.html").read_text(encoding="utf-8")
    assert "<h2>Against better.json</h2>" in page


@pytest.mark.usefixtures("small")
def test_another_subject_is_evaluated_as_well(command: Command) -> None:
    done = command(*LINE, "--against", "cubic")
    assert done.returncode == 1 and "Against cubic: 1 worse, 0 better, 0 the same." in done.stdout
    done = command("evaluate", "cc", "cubic", *LINE[3:], "--against", "bbr1")
    assert done.returncode == 0 and "1 better" in done.stdout


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--against", "none.json"), "none.json"),
        (("--against", "qubic"), "--against"),
        (("--against", "bad.json"), "bad.json"),
        (("--against", "bad.json", "--baseline", "bad.json"), "--against and --baseline cannot be combined"),
        (("--bars", "none.toml"), "none.toml"),
        (("--list", "--bars", "none.toml"), "--list and --bars cannot be combined"),
    ],
)
def test_errors_of_the_command_say_what_is_wrong(words: tuple[str, ...], said: str, command: Command) -> None:
    Path("bad.json").write_text("[]")
    done = command(*LINE, *words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_bars_of_ones_own_replace_those_of_the_suite(small: Path, command: Command) -> None:
    bars = small.parent / "bars.toml"
    bars.write_text('[loss]\npasses = "<= 0.5"\nlevel = false\nfails = "> 0.9"\norigin = "our network"\n')
    done = command(*LINE, "--bars", "bars.toml")
    assert done.returncode == 0, done.stdout
    assert "- loss: It loses little. Passes if <= 0.5; fails if > 0.9 (bars.toml: our network)." in done.stdout
    page = (small.parent / "evaluation.html").read_text(encoding="utf-8")
    assert "The bars are those of bars.toml: our network." in page
    (found, other) = replace_bars(load_suite("small"), bars).criteria
    assert found.level is None and other.origin == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[los]\norigin = ""\n', "unknown criterion los; did you mean loss"),
        ('[loss]\npasses = "<= 1"\n', "loss.origin is missing"),
        ('[loss]\npasses = "<= much"\norigin = ""\n', "loss.passes"),
        ('[loss]\npasses = false\nlevel = false\norigin = ""\n', "a bar: passes, level, or both"),
        ('[loss]\nbar = 1\norigin = ""\n', "unknown key loss.bar"),
    ],
)
def test_errors_of_bars_name_the_key(small: Path, text: str, said: str) -> None:
    (path := small.parent / "bars.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        replace_bars(load_suite("small"), path)
