"""Harm: what others lose because the subject is there."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from conftest import Command
from dumbbell.errors import InputError
from dumbbell.evaluate.harm import compute_harm, estimate_harm
from dumbbell.evaluate.suite_file import HarmRule, load_suite
from dumbbell.words import format_measured

SCENE = """\
title = "Next to Reno over a fair queue"
duration = "6s"
[bottleneck]
rate = "10Mbit"
aqm = "fq_codel"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
[[flows]]
cc = "reno"
base_rtt = "20ms"
[record]
from = "1s"
"""
SUITE = """\
title = "Harm"
of = "cc"
yardsticks = ["cubic"]
seeds = { quick = 2, first = 2, most = 2 }
[paragraphs]
"1" = { title = "Harm" }
[scene.fair]
subject = ["flows[0]"]
[measure.theirs]
title = "goodput of the other"
unit = "Mbit/s"
sql = "SELECT key, goodput_mbit AS value FROM flows JOIN roles USING (key, flow) WHERE role = 'other'"
[[criterion]]
id = "share"
answers = ["1"]
says = "It leaves the other as much as CUBIC does."
scene = "fair"
measure = "theirs"
level = ">= 0.9 * cubic"
harm = true
"""


def test_harm_by_hand() -> None:
    """Of 10 Mbit/s alone 4 are left: (10 - 4) / 10; of 20 ms alone there are 50: (50 - 20) / 50."""
    assert compute_harm(np.array(10), np.array(4), is_more_better=True) == pytest.approx(0.6)
    assert compute_harm(np.array(20), np.array(50), is_more_better=False) == pytest.approx(0.6)
    assert compute_harm(np.array(10), np.array(12), is_more_better=True) == pytest.approx(-0.2)
    assert compute_harm(np.array(0), np.array(0.02), is_more_better=False) == 1
    assert math.isnan(compute_harm(np.array(0), np.array(0), is_more_better=False))


def test_harm_is_of_means_over_paired_seeds() -> None:
    """Means 8 and 5: (8 - 5) / 8; resampled it is that of 6 and 4, 1 / 3, of 10 and 6, 0.4, or of both."""
    found = estimate_harm([6, 10], [4, 6], HarmRule("m", is_more_better=True), np.random.default_rng(1))
    assert found.value == pytest.approx(0.375) and (found.alone, found.beside) == (8, 5)
    assert [found.low, found.high] == pytest.approx([1 / 3, 0.4])


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "ours").mkdir()
    (folder / "fair.toml").write_text(SCENE)
    (folder / "suite.toml").write_text(SUITE)
    return folder / "suite.toml"


@pytest.mark.usefixtures("suite")
def test_half_of_a_fair_queue_is_a_harm_of_one_half(command: Command) -> None:
    done = command("evaluate", "cc", "reno", "--suite", "ours", "--format", "json")
    (cell,) = json.loads(done.stdout)["criteria"][0]["cells"]
    mine = cell["harm"]["subject"]
    assert mine["value"] == pytest.approx(0.5, abs=0.03) and mine["low"] <= mine["value"] <= mine["high"]
    assert 8.5 < mine["alone"] < 9.6 and mine["beside"] == pytest.approx(cell["value"])
    assert cell["harm"]["cubic"]["value"] == pytest.approx(0.5, abs=0.03)
    text = command("evaluate", "cc", "reno", "--suite", "ours").stdout
    assert f"- share, goodput of the other: it {format_measured(mine['value'], 2)}" in text
    page = Path("evaluation.html").read_text(encoding="utf-8")
    assert '<th scope="col" class="number">harm</th>' in page


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ('"yes"', "criterion[0].harm"),
        ('{ measure = "mine", better = "more" }', "criterion[0].harm.measure"),
        ('{ measure = "theirs", better = "most" }', "criterion[0].harm.better"),
        ('{ measure = "theirs" }', "criterion[0].harm.better"),
    ],
)
def test_errors_of_harm_name_the_key(harm: str, said: str, suite: Path) -> None:
    suite.write_text(SUITE.replace("harm = true", f"harm = {harm}"))
    with pytest.raises(InputError) as caught:
        load_suite("ours")
    assert said in str(caught.value)


def test_a_queue_has_no_harm(suite: Path) -> None:
    suite.write_text(SUITE.replace('of = "cc"', 'of = "aqm"'))
    with pytest.raises(InputError, match="a queue has no scene without it"):
        load_suite("ours")
