"""Stages on the paths of packets and acknowledgements, from experiment file to results."""

from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import Command, described, parsed
from dumbbell.errors import InputError
from dumbbell.experiment import json_schema


def test_stages_are_names_or_tables_and_canonical_with_all_their_parameters() -> None:
    flows = [{"cc": "reno", "path": ["jitter", {"name": "loss", "probability": 0.01}], "ack_path": ["batch"]}]
    bottleneck = {"aqm": "pfifo", "path": [{"name": "policer", "rate": "5Mbit"}], "behind": ["batch"]}
    groups = parsed(flows=flows, bottleneck=bottleneck).make_cell(0).groups
    assert groups["flows"][0]["path"] == [
        {"name": "jitter", "max": 1_000_000, "distribution": "uniform"},
        {"name": "loss", "probability": 0.01, "from": 0, "to": None},
    ]
    assert [stage["name"] for stage in groups["flows"][0]["ack_path"]] == ["batch"]
    assert groups["bottleneck"]["path"] == [{"name": "policer", "rate": 5_000_000, "burst": 15_140}]
    assert [stage["name"] for stage in groups["bottleneck"]["behind"]] == ["batch"]


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"path": ["los"]}, 'flows[0].path[0]: unknown stage "los"; did you mean "loss"? Choose from loss, burst_loss'),
        (
            {"path": [{"name": "loss", "probability": 2.0}]},
            "flows[0].path[0].probability is 2.0; it must be a number",
        ),
        ({"path": [{"name": "loss", "chance": 1}]}, "unknown key flows[0].path[0].chance; choose from name, prob"),
        ({"path": "loss"}, 'flows[0].path is "loss"; it must be a list'),
        ({"ack_path": [{"probability": 0.1}]}, "flows[0].ack_path[0].name is missing"),
    ],
)
def test_errors_name_the_stage(flow: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(flows=[{"cc": "reno"} | flow])
    assert f"test.toml: {message}" in str(error.value)


def test_paths_are_axes_of_the_matrix_with_readable_labels() -> None:
    axis: dict[str, list[Any]] = {"flows[*].path": [[], ["loss"], [{"name": "loss", "probability": 0.02}, "jitter"]]}
    labels = [cell.matrix["flows[*].path"] for cell in parsed(matrix=axis).make_cells()]
    assert labels == ["none", "loss", "loss(probability=0.02) + jitter"]
    one = parsed(flows=[{"cc": "reno", "path": ["loss"]}], matrix={"flows[0].path[0].probability": [0.0, 0.1]})
    assert [cell.groups["flows"][0]["path"][0]["probability"] for cell in one.make_cells()] == [0.0, 0.1]


def test_a_policer_bounds_what_passes(tmp_path: Path) -> None:
    path = [{"name": "policer", "rate": "5Mbit"}]
    table = described(bottleneck={"rate": "10Mbit", "aqm": "pfifo", "path": path}, flows=[{"cc": "reno"}])
    results = dumbbell.run(table, output=tmp_path / "paths.duckdb")
    assert 2 < results.flows["goodput_mbit"][0] < 5


@pytest.mark.parametrize(("place", "share"), [("path", 1.0), ("behind", 1.0), ("behind", 0.5)])
def test_a_router_that_clears_codepoints_turns_marks_into_drops_or_takes_them_away(place: str, share: float) -> None:
    bottleneck = {"rate": "10Mbit", "aqm": "fq_codel", place: [{"name": "bleach", "probability": share}]}
    flow = dumbbell.run(
        described(duration="10s", bottleneck=bottleneck, hosts={"ecn": True}, flows=[{"cc": "cubic"}])
    ).flows.row(0, named=True)
    if place == "path":
        assert flow["ce_marks"] == 0 < flow["drops"]
    elif share == 1.0:  # the sender never hears of them
        assert flow["ce_received"] == 0 == flow["drops"] and flow["ce_marks"] > 100
    else:
        assert 0.3 * flow["ce_marks"] < flow["ce_received"] < 0.7 * flow["ce_marks"]


@pytest.mark.junk
def test_acknowledgements_have_no_codepoint_to_be_cleared() -> None:
    with pytest.raises(InputError, match=r"flows\[0\]\.ack_path.*bleach"):
        dumbbell.run(described(flows=[{"cc": "reno", "ack_path": ["bleach"]}]))


def test_stages_are_in_the_schema_listed_and_described(command: Command) -> None:
    text = str(json_schema.make_schema())
    assert "stage_burst_loss" in text and "right ahead of the queue" in text
    for arguments, word in [
        (["describe", "loss"], "probability"),
        (["describe", "flows"], "ack_path"),
        (["list", "stage"], "policer"),
    ]:
        assert word in command(*arguments).stdout
