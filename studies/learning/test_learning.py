"""The trained agents act as their evidence says, and a training goes on as it is described."""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dumbbell.experiment import shipped
from studies.learning import held_out, policy, train

NETWORKS = 4
PATHS = policy.list_policies("seed")


def run_few(act: held_out.Act) -> pl.DataFrame:
    return pl.concat([held_out.run_agent(*one, act) for one in held_out.draw_networks()[:NETWORKS]])


@pytest.mark.slow
def test_trained_agents_get_what_the_evidence_says_and_more_than_before_their_training() -> None:
    scores = pl.read_csv(policy.AGENTS / "scores.csv").filter(pl.col("network") < NETWORKS)
    assert len(PATHS) >= 3
    for seed, path in PATHS.items():
        now = run_few(policy.read_policy(path).choose_action)
        kept = scores.filter(kind="trained", seed=seed).sort("network")
        assert now["score"].to_list() == pytest.approx(kept["score"].to_list(), rel=0.05, abs=0.05)
        before = scores.filter(kind="untrained", seed=seed)
        assert now["score"].sum() > before["score"].sum()


def test_the_score_is_auroras_reward() -> None:
    # 200 segments/s, 120 ms, 5 % of loss: (2000 - 120 - 100) / 1000
    assert held_out.compute_score(200 * 1448 * 8e-6, 120, 0.05) == pytest.approx(1.78)
    network = {"packets_per_second": 200, "loss": 0.01, "rtt_ms": 100}
    assert held_out.compute_bound(network) == pytest.approx((10 * 198 - 100 - 20) / 1000)


def test_the_rule_holds_the_rtt_near_its_minimum() -> None:
    observation = np.array([0.0, 1.0, 1.0, 0.0, 1.15, 1.0])
    assert held_out.follow_rule(observation) == pytest.approx([-0.1])
    assert held_out.follow_rule(np.ones(3)) == pytest.approx([0.05])


def test_a_policy_is_two_layers_of_normalised_observations(tmp_path: Path) -> None:
    ones = np.ones(1)
    made = policy.Policy(2 * ones, 4 * ones, ((np.array([[0.5]]), ones), (np.array([[2.0]]), -ones)))
    # (10 - 2) / 4 = 2; tanh(0.5 * 2 + 1) = tanh(2); 2 * tanh(2) - 1
    assert made.choose_action(np.array([10.0])) == pytest.approx([2 * math.tanh(2) - 1])
    # a normalised observation is 10 at most, an action 1
    far = policy.Policy(0 * ones, ones, ((np.array([[1.0]]), 0 * ones), (np.array([[5.0]]), 0 * ones)))
    assert far.choose_action(np.array([[1e9], [-1e9]])).tolist() == [[1], [-1]]
    made.save(tmp_path / "a.json")
    assert policy.read_policy(tmp_path / "a.json").choose_action(np.array([10.0])) == pytest.approx(
        made.choose_action(np.array([10.0])), rel=1e-5
    )


def test_the_experiment_has_the_held_out_networks() -> None:
    text = (shipped.list_studies()["learning"] / "experiments" / "heldout.toml").read_text(encoding="utf-8")
    for number, (network, table) in enumerate(held_out.draw_networks()):
        assert f'["{number}, CUBIC", "{table["bottleneck"]["rate"]}", {network["queue_packets"]}, ' in text
    assert text.count('"bbr3"]') == held_out.COUNT


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_training_exports_what_the_model_does() -> None:
    pytest.importorskip("stable_baselines3", reason="a training needs stable-baselines3 and torch, which are large")
    untrained, trained, curve = train.train_agent(seed=3, rounds=2)
    assert curve["steps"].to_list() == [6400, 12800] and curve["reward"].is_finite().all()
    assert [weights.shape for weights, _ in trained.layers] == [(32, 30), (16, 32), (1, 16)]
    assert not np.array_equal(untrained.layers[0][0], trained.layers[0][0])
    # what was trained first is what is in the evidence
    kept = pl.read_csv(policy.AGENTS / "curve.csv").filter(seed=3)["reward"][:2]
    assert curve["reward"].to_list() == pytest.approx(kept.to_list(), abs=0.3)
