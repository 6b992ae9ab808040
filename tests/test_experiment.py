import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import SMALL, Command, described, parsed
from dumbbell import _native, experiment
from dumbbell.errors import InputError
from dumbbell.experiment import other_names
from dumbbell.experiment.registry import read_registry

FLOW = {"cc": "reno", "base_rtt": "20ms"}
NOTHING = "nothing sends; give at least one [[flows]], [[web]], [[udp]] or [[app]]"


def line(**changes: Any) -> str:
    with pytest.raises(InputError) as error:
        parsed(**changes)
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"duration": 20}, 'duration is 20; did you mean "20s"? It must be a time such as "20ms", "1.5s" or "100us"'),
        ({"duration": 0}, "duration is 0; it must be a time from 1ns to 86400s"),
        ({"duration": "25h"}, 'duration is "25h"; it must be a time from 1ns to 86400s'),
        ({"flows": []}, f"flows: {NOTHING}"),
        ({"flows": None}, f"flows: {NOTHING}"),
        ({"flows": 3}, "flows is 3; it must be a list"),
        ({"flows": FLOW}, "flows: [flows] is one table; use [[flows]], with two brackets: there may be several"),
        ({"flows": ["reno"]}, 'flows[0] is "reno"; it must be a table'),
        (
            {"flows": [FLOW | {"count": 10**9}]},
            "flows[0].count is 1000000000; it must be an integer from 1 to 1000000",
        ),
        ({"flows": [FLOW, FLOW | {"count": 0}]}, "flows[1].count is 0; it must be an integer from 1 to 1000000"),
        (
            {"flows": [FLOW | {"count": 600_000}], "udp": [{"count": 400_001}]},
            "flows: 1000001 flows and sources of UDP are too many; at most 1000000 are allowed",
        ),
        (
            {"flows": [FLOW | {"base_rtt": "1h"}]},
            'flows[0].base_rtt is "1h"; it must be a time from 0ns to 60s',
        ),
        ({"flows": [FLOW | {"loss": 1.5}]}, "flows[0].loss is 1.5; it must be a number from 0.0 to 1.0"),
        ({"flows": [FLOW | {"loss": float("nan")}]}, "flows[0].loss is nan; it must be a number from 0.0 to 1.0"),
        (
            {"flows": [FLOW | {"dscp": True}]},
            'flows[0].dscp is true; it must be an integer from 0 to 63, or a name such as "EF"',
        ),
        (
            {"flows": [FLOW | {"start": {"uniform": ["2s", "1s"]}}]},
            'flows[0].start is {uniform = ["2s", "1s"]}; it must be an earliest time that is not after the latest',
        ),
        (
            {"bottleneck": {"rate": "-5Mbit", "aqm": "codel"}},
            'bottleneck.rate is "-5Mbit"; it must be a rate such as "10Mbit", "500kbit" or "1Gbit"',
        ),
        (
            {"bottleneck": {"rate": "999bit", "aqm": "codel"}},
            'bottleneck.rate is "999bit"; it must be a rate from 1kbit to 10Tbit',
        ),
        (
            {"bottleneck": {"rate_changes": [{"at": "5s", "rate": "x"}], "aqm": "codel"}},
            'bottleneck.rate_changes[0].rate is "x"; it must be a rate such as "10Mbit", "500kbit" or "1Gbit"',
        ),
        (
            {"bottleneck": {"rate": "50MB", "aqm": "codel"}},
            'bottleneck.rate is "50MB", a size; did you mean "50Mbit", or "400Mbit" for 50MB/s? '
            'It must be a rate such as "10Mbit", "500kbit" or "1Gbit"',
        ),
        ({"seeds": []}, "seeds is []; it must be a list of different integers of 0 or more, such as [1, 2, 3]"),
        (
            {"seeds": [1, 1]},
            "seeds is [1, 1]; it must be a list of different integers of 0 or more, such as [1, 2, 3]",
        ),
        ({"matrix": {}}, "matrix: it has no key; give one key or more, each with its values"),
        ({"matrix": 3}, "matrix is 3; it must be a table"),
        ({"matrix": {"duration": "3s"}}, 'matrix.duration is "3s"; it must be a list'),
        ({"matrix": {"duration": []}}, 'matrix."duration": the list is empty; give at least one value'),
        (
            {"matrix": {"flows[5].cc": ["reno"]}},
            "unknown key flows[5]; the last of flows is flows[1]",
        ),
        (
            {"matrix": {"base_rtt": ["1ms"]}},
            'matrix."base_rtt"[0]: unknown key base_rtt; did you mean flows[*].base_rtt?',
        ),
        ({"matrix": {"rtt": ["1ms"]}}, 'matrix."rtt"[0]: unknown key rtt; did you mean flows[*].base_rtt?'),
        (
            {"matrix": {"flows.base_rtt": ["1ms"]}},
            'matrix."flows.base_rtt"[0]: unknown key flows.base_rtt; did you mean flows[*].base_rtt?',
        ),
        (
            {"matrix": {"flows.cc.beta": [0.5]}},
            'matrix."flows.cc.beta"[0]: unknown key flows.cc.beta; did you mean flows[*].cc.beta?',
        ),
        (
            {"matrix": {"flows[0].rtt": ["1ms"]}},
            'matrix."flows[0].rtt"[0]: unknown key flows[0].rtt; did you mean flows[0].base_rtt?',
        ),
        (
            {"matrix": {"flows[": ["reno"]}},
            'matrix."flows[" is "flows["; it must be a key such as "bottleneck.rate" or "flows[*].base_rtt"',
        ),
        (
            {"matrix": {"duration": ["1s", "2x"]}},
            'matrix."duration"[1]: duration is "2x"; it must be a time such as "20ms", "1.5s" or "100us"',
        ),
        (
            {"matrix": {"flows[0].cc, flows[1].cc": [["reno"]]}},
            'matrix."flows[0].cc, flows[1].cc"[0] is ["reno"]; it must be a list of 2 values, one for each key',
        ),
        (
            {"override": [{"when": {"bottleneck.rate": ["fast"]}, "set": {"duration": "1s"}}]},
            'override[0].when."bottleneck.rate" is "fast"; it must be a rate such as "10Mbit", "500kbit" or "1Gbit"',
        ),
        (
            {"override": [{"when": {"bottleneck.rtae": "1Mbit"}, "set": {"duration": "1s"}}]},
            'unknown key override[0].when."bottleneck.rtae"; did you mean bottleneck.rate?',
        ),
        (
            {"override": [{"when": {}, "set": {"duration": "1s"}}]},
            "override[0].when: it has no key; give one key or more",
        ),
        ({"title": 3}, "title is 3; it must be a string"),
    ],
)
def test_one_sentence_says_file_key_and_what_is_right(changes: dict[str, Any], expected: str) -> None:
    assert line(**changes) == f"test.toml: {expected}"


def test_what_others_call_it_names_the_key() -> None:
    flow = {"cc": "cubic", "base_rtt": "1ms"}
    assert line(flows=[flow | {"rtt": "1ms"}]).endswith("unknown key flows[0].rtt; did you mean flows[0].base_rtt?")
    assert line(flows=[flow | {"control": "reno"}]).endswith("did you mean flows[0].cc?")
    assert line(bottleneck={"qdisc": "codel"}).endswith("did you mean bottleneck.aqm?")
    assert line(bottleneck={"aqm": "codel", "bandwidth": "1Mbit"}).endswith("did you mean bottleneck.rate?")
    assert line(link={"rate": "1Mbit"}).endswith("did you mean bottleneck?")
    assert line(seed=3).endswith("did you mean seeds?")


@pytest.mark.parametrize(
    ("changes", "meant"),
    [
        ({"duration": 30}, '"30s"'),
        ({"duration": "0.5"}, '"0.5s"'),
        ({"flows": [FLOW | {"start": 1}]}, '"1s"'),
        ({"flows": [FLOW | {"stop": 0.5}]}, '"0.5s"'),
        ({"flows": [FLOW | {"base_rtt": 20}]}, '"20ms"'),
        ({"flows": [FLOW | {"jitter": 2}]}, '"2ms"'),
        ({"flows": [FLOW | {"cc": {"name": "bbr3", "min_rtt_window": 5}}]}, '"5s"'),
        ({"bottleneck": {"aqm": {"name": "pie", "target": 15}}}, '"15ms"'),
        ({"flows": [FLOW | {"ack_path": [{"name": "gro", "interval": 20}]}]}, '"20us"'),
    ],
)
def test_a_time_without_unit_gets_that_of_its_key(changes: dict[str, Any], meant: str) -> None:
    assert f"; did you mean {meant}? It must be a time" in line(**changes)


@pytest.mark.parametrize(
    ("key", "name", "meant"),
    [
        ("cc", "bbr", "bbr1"),
        ("cc", "BBR", "bbr1"),
        ("cc", "NewReno", "reno"),
        ("aqm", "droptail", "pfifo"),
        ("aqm", "drop-tail", "pfifo"),
        ("aqm", "Tail drop", "pfifo"),
        ("aqm", "taildrop", "pfifo"),
        ("aqm", "fifo", "pfifo"),
    ],
)
def test_what_others_call_an_algorithm(key: str, name: str, meant: str) -> None:
    text = line(bottleneck={"aqm": name}) if key == "aqm" else line(flows=[FLOW | {"cc": name}])
    assert f'unknown {key} "{name}"; did you mean "{meant}"? Choose from ' in text
    assert text.endswith("; mainline Linux's bbr is BBRv1, here bbr1") == (meant == "bbr1")


@pytest.mark.parametrize(
    ("aqm", "words"),
    [
        ("tbf", 'shaper = "htb"'),
        ("sfq", "is not modelled"),
        ("pfifo_fast", "three bands"),
        ({"name": "cake", "nat": True}, "src_host and dst_host"),
        ({"name": "cake", "autorate-ingress": True}, "is not modelled"),
        ({"name": "cake", "split_gso": True}, "hosts.offload"),
        ({"name": "codel", "noecn": True}, "ecn = false"),
    ],
)
def test_words_of_tc_say_what_there_is_instead(aqm: Any, words: str) -> None:
    text = line(bottleneck={"aqm": aqm})
    assert words in text and "did you mean" not in text


def test_what_stands_for_a_word_of_tc_is_accepted() -> None:
    """No word is a name of ours, and each value that is advised to Cake is read."""
    advised = 0
    for word, text in other_names._TC.items():
        assert word not in read_registry().aqm and word.replace("-", "_") not in read_registry().aqm["cake"].params
        if found := re.fullmatch(r'it is (\w+) = ("[^"]+"|\w+)', text):
            key, value = found[1], json.loads(found[2])
            parsed(bottleneck={"rate": "10Mbit", "aqm": {"name": "codel" if key == "ecn" else "cake", key: value}})
            advised += 1
    assert advised > 20


def test_codepoints_have_their_names() -> None:
    """RFC 4594, figure 3, lists them with their bits."""
    known = {"CS0": 0, "CS1": 0b001000, "AF11": 0b001010, "AF33": 0b011110, "AF41": 0b100010, "EF": 0b101110}
    for name, number in {**known, "CS6": 0b110000, "VA": 0b101100, "LE": 1}.items():
        by_name, by_number = (parsed(flows=[FLOW | {"dscp": one}]).make_cell(0).config for one in (name, number))
        assert by_name == by_number
    for wrong in ("AF14", 64):
        must = 'it must be an integer from 0 to 63, or a name such as "EF"'
        assert line(flows=[FLOW | {"dscp": wrong}]).endswith(must)


def test_misspellings_name_the_nearest() -> None:
    assert line(duraton="2s").endswith("unknown key duraton; did you mean duration?")
    assert 'bottleneck.aqm: unknown aqm "codle"; did you mean "codel"? Choose from codel, ' in line(
        bottleneck={"aqm": "codle"}
    )
    assert line(bottleneck={"aqm": {"name": "codel", "traget": "1ms"}}).endswith(
        "unknown key bottleneck.aqm.traget; did you mean bottleneck.aqm.target?"
    )
    assert line(bottleneck={"aqm": "codel", "targte": "1ms"}) == (
        "test.toml: unknown key bottleneck.targte; did you mean bottleneck.aqm.target?"
    )
    assert line(hosts={"ecm": True}) == "test.toml: unknown key hosts.ecm; did you mean hosts.ecn?"
    assert 'flows[0].cc: unknown cc "cubci"; did you mean "cubic"? Choose from cubic, ' in line(flows=[{"cc": "cubci"}])
    assert line(flows=[{"cc": "cubic", "base-rtt": "1ms"}]).endswith("did you mean flows[0].base_rtt?")
    assert line(hosts={"ofload": "tso"}).endswith("did you mean hosts.offload?")


@pytest.mark.parametrize(
    "content",
    [
        b"duration = ",
        b"\xff\xfe",
        b"a = " + b"[" * 10_000,
        b"x = " + b"9" * 5000,
        b'a."\\u2028" = 1',
        b"a.\x85 = 1",
        b"",
        b"\0",
    ],
)
def test_files_that_are_no_experiment(content: bytes, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    done = command("run", path)
    assert done.returncode == 2
    assert done.stderr and all(line.startswith(f"{path}:") for line in done.stderr.splitlines())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.toml"]


def test_files_that_cannot_be_read(tmp_path: Path, command: Command) -> None:
    for name in (tmp_path, tmp_path / "missing.toml", "a\nb.toml", "/dev/zero"):
        done = command("run", name)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def test_resolved_runs_have_every_key_and_canonical_units() -> None:
    config = json.loads(parsed(hosts={"ecn": False}).make_cell(0).config)
    assert config["duration"] == 2 * 10**9 and config["seed"] == 1
    assert config["bottleneck"]["rate"] == 10**7
    assert config["bottleneck"]["aqm"]["name"] == "codel" and config["bottleneck"]["aqm"]["target"] == 5_000_000
    assert config["hosts"]["ecn"] is False and "mss" in config["hosts"]
    assert [flow["cc"]["name"] for flow in config["flows"]] == ["cubic", "reno"]
    assert config["flows"][0]["start"] == {"min": 0, "max": 0} and config["flows"][0]["count"] == 1


def test_equal_runs_have_equal_keys_however_they_are_written() -> None:
    first = parsed(duration="2s", bottleneck={"rate": "10Mbit", "aqm": "codel"}).make_cell(0)
    second = parsed(
        duration="2000ms", bottleneck={"rate": "10000kbit/s", "aqm": {"name": "codel", "target": "5ms"}}
    ).make_cell(0)
    assert first.key == second.key
    assert first.key != parsed(duration="3s").make_cell(0).key
    assert first.key != parsed(seeds=[2]).make_cell(0).key


def test_count_makes_identical_flows() -> None:
    cell = parsed(flows=[{"cc": "reno", "count": 3}, {"cc": "cubic"}]).make_cell(0)
    assert [(flow["cc"]["name"], flow["count"]) for flow in cell.groups["flows"]] == [("reno", 3), ("cubic", 1)]
    assert cell.flow_count == 4
    written_out = parsed(flows=[{"cc": "reno"}] * 3 + [{"cc": "cubic"}]).make_cell(0)
    counted, each = (_native.run(c.config, _native.Cancel()) for c in (cell, written_out))
    assert counted.hash == each.hash


def test_matrix_is_every_combination_in_order() -> None:
    cells = list(
        experiment.parse(
            described(
                seeds=[5, 6], matrix={"bottleneck.rate": ["1Mbit", "2Mbit"], "flows[*].base_rtt": ["0ms", "9ms"]}
            ),
            "f",
        ).make_cells()
    )
    assert [(c.matrix["bottleneck.rate"], c.matrix["flows[*].base_rtt"], c.seed) for c in cells] == list(
        itertools.product(["1Mbit", "2Mbit"], ["0ms", "9ms"], [5, 6])
    )
    assert [flow["base_rtt"] for flow in cells[-1].groups["flows"]] == [9_000_000, 9_000_000]


def test_cells_can_be_asked_for_by_number() -> None:
    plan = parsed(seeds=[1, 2], matrix={"bottleneck.rate": ["1Mbit", "2Mbit", "3Mbit"], "duration": ["1s", "2s"]})
    assert [plan.make_cell(i).key for i in range(len(plan))] == [cell.key for cell in plan.make_cells()]
    assert len({cell.key for cell in plan.make_cells()}) == 12


def test_axes_take_whole_tables_indexes_and_keys_in_step() -> None:
    plan = parsed(
        matrix={
            "bottleneck.aqm.target": ["1ms", "2ms"],
            "bottleneck.aqm": ["codel", {"name": "codel", "ecn": True}],
            "flows[0].cc, flows[1].cc": [["reno", "reno"], ["cubic", {"name": "cubic", "hystart": "off"}]],
        }
    )
    cells = list(plan.make_cells())
    assert len(cells) == 8
    assert {(c.groups["bottleneck"]["aqm"]["target"], c.groups["bottleneck"]["aqm"]["ecn"]) for c in cells} == {
        (t, e) for t in (1_000_000, 2_000_000) for e in (False, True)
    }
    assert {tuple(f["cc"]["name"] for f in c.groups["flows"]) for c in cells} == {("reno", "reno"), ("cubic", "cubic")}
    assert cells[1].matrix["flows[1].cc"] == "cubic(hystart=off)"


def test_overrides_change_some_cells() -> None:
    plan = parsed(
        matrix={"flows[*].base_rtt": ["10ms", "80ms", "160ms"], "bottleneck.aqm": ["codel", "pfifo"]},
        override=[
            {"when": {"flows[*].base_rtt": ["0.08s", "160ms"]}, "set": {"duration": "9s"}},
            {"when": {"flows[*].base_rtt": "160ms", "bottleneck.aqm": "pfifo"}, "set": {"bottleneck.aqm.limit": 7}},
        ],
    )
    found = [(c.duration // 10**9, c.groups["bottleneck"]["aqm"].get("limit")) for c in plan.make_cells()]
    codel, pfifo = found[0][1], found[1][1]
    assert found == [(2, codel), (2, pfifo), (9, codel), (9, pfifo), (9, codel), (9, 7)]


def test_settings_come_last() -> None:
    text = described(
        matrix={"bottleneck.rate": ["1Mbit", "2Mbit"]},
        override=[{"when": {"bottleneck.rate": "1Mbit"}, "set": {"duration": "9s"}}],
    )
    plan = experiment.parse(text, "f", ["duration=4s", "hosts.ecn=false", "seeds=[7]", "bottleneck.rate=1Mbit"])
    assert [(c.duration, c.groups["hosts"]["ecn"], c.seed) for c in plan.make_cells()] == [(4 * 10**9, False, 7)]


@pytest.mark.slow
def test_millions_of_runs_are_never_held(tmp_path: Path, command: Command) -> None:
    values = [f"{i}us" for i in range(1, 201)]
    started = time.process_time()
    plan = parsed(matrix={f"flows[{i}].{key}": values for i in (0, 1) for key in ("base_rtt", "jitter")})
    assert len(plan) == 200**4
    assert len(list(itertools.islice(plan.make_cells(), 3))) == 3
    assert plan.make_cell(200**4 - 1).groups["flows"][1]["jitter"] == 200_000
    assert time.process_time() - started < 20
    path = tmp_path / "large.toml"
    axes = "\n".join(f'"flows[{i}].{key}" = {json.dumps(values)}' for i in (0, 1) for key in ("base_rtt", "jitter"))
    path.write_text(SMALL.partition("[matrix]")[0] + "[matrix]\n" + axes)
    done = command("run", path, "--dry-run")
    assert done.returncode == 0 and done.stdout.startswith("3 200 000 000 runs")


def test_a_wrong_seed_is_named_and_not_the_axis_that_is_set_as_well() -> None:
    table = {
        "duration": "1s",
        "bottleneck": {"rate": "10Mbit"},
        "flows": [{"cc": "reno", "base_rtt": "20ms"}],
        "matrix": {"bottleneck.rate, flows[0].base_rtt": [["10Mbit", "20ms"], ["20Mbit", "40ms"]]},
    }
    settings = [("seeds", 5), ("bottleneck.rate, flows[0].base_rtt", [["10Mbit", "20ms"]])]
    with pytest.raises(InputError, match="seeds is 5; it must be a list"):
        experiment.parse(table, "x.toml", settings)
