"""`dumbbell describe --schema`: what it accepts and refuses. conftest.py checks it with every table of the tests."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import TRACE, Command, described, examples
from dumbbell import experiment
from dumbbell.errors import InputError
from dumbbell.experiment import json_schema, shipped, spelling, units
from dumbbell.experiment.plugins import built
from dumbbell.experiment.registry import Param, read_registry
from schema_corpus import EXCEPTIONS, excused, held_against_parse, validator

FLOW = {"cc": "reno", "base_rtt": "20ms"}
SHIPPED = sorted(shipped.list_experiments().values())


@pytest.mark.slow
def test_it_is_a_json_schema_and_knows_every_algorithm(command: Command) -> None:
    printed = json.loads(command("describe", "--schema").stdout)
    assert printed == json.loads(json.dumps(json_schema.make_schema()))
    jsonschema.Draft202012Validator.check_schema(printed)
    known = read_registry()
    for kind, algorithms in known.kinds.items():
        for algorithm in algorithms.values():
            name = f"{kind}_{algorithm.name}".replace("-", "_")
            assert printed["$defs"][name]["properties"].keys() == {"name", *algorithm.params}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_experiment_is_accepted(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    assert [error.message for error in validator().iter_errors(table)] == []
    if stacks := built.list_named(path.read_text(encoding="utf-8")):
        missing = next((one for one in stacks if one not in {stack.name for stack in built.list_installed()}), None)
        if missing is not None:  # then that, and nothing else, is wrong with it
            with pytest.raises(InputError, match=f"{re.escape(missing)}"):
                experiment.load(path)
            return
    experiment.load(path)


REFUSED: dict[str, dict[str, Any]] = {
    "unknown top key": {"duraton": "2s"},
    "unknown key of a flow": {"flows": [FLOW | {"base-rtt": "1ms"}]},
    "unknown parameter": {"bottleneck": {"aqm": {"name": "codel", "traget": "1ms"}}},
    "nothing that sends": {"flows": []},
    "no queue discipline": {"bottleneck": {"rate": "1Mbit"}},
    "no bottleneck": {"bottleneck": None},
    "no congestion control": {"flows": [{"base_rtt": "1ms"}]},
    "equal seeds": {"seeds": [1, 1]},
    "negative seeds": {"seeds": [-1]},
    "no seeds": {"seeds": []},
    "a unit of something else": {"duration": "5Mbit"},
    "no unit": {"duration": 20},
    "half a nanosecond": {"duration": "0.5ns"},
    "longer than a day": {"duration": "24.1h"},
    "a run of no time": {"duration": 0},
    "below the least rate": {"bottleneck": {"rate": "0.9kbit", "aqm": "codel"}},
    "above the largest rate": {"bottleneck": {"rate": "10.000001Tbit", "aqm": "codel"}},
    "a probability above 1": {"flows": [FLOW | {"loss": 1.5}]},
    "one end of two": {"flows": [FLOW | {"start": {"uniform": ["1s"]}}]},
    "too many arrivals": {"web": [{"cc": "reno", "arrivals": "1000001/s"}]},
    "a matrix of nothing": {"matrix": {}},
    "a value and no list": {"matrix": {"bottleneck.rate": "1Mbit"}},
    "an empty list": {"matrix": {"bottleneck.rate": []}},
    "a time as a rate of the matrix": {"matrix": {"bottleneck.rate": ["1Mbit", "5s"]}},
    "an unknown algorithm of the matrix": {"matrix": {"flows[*].cc": ["cubci"]}},
    "an unknown parameter of the matrix": {"matrix": {"bottleneck.aqm": [{"name": "codel", "traget": "1ms"}]}},
    "an unknown key of the matrix": {"matrix": {"bottleneck.rtae": ["1Mbit"]}},
    "a key of the plan in the matrix": {"matrix": {"seeds": [[1], [2]]}},
    "too few values in step": {"matrix": {"flows[0].cc, flows[1].cc": [["reno"]]}},
    "no list in step": {"matrix": {"flows[0].cc, flows[1].cc": ["reno"]}},
    "an unknown key in step": {"matrix": {"flows[0].cc, flows[1].c": [["reno", "reno"]]}},
    "when without set": {"override": [{"when": {"duration": "2s"}}]},
    "an empty condition": {"override": [{"when": {}, "set": {"duration": "1s"}}]},
    "a condition of another type": {"override": [{"when": {"bottleneck.rate": "1s"}, "set": {"duration": "1s"}}]},
    "keys of the matrix without quotes": {"matrix": {"bottleneck": {"rate": ["1Mbit"]}}},
    "keys of a condition without quotes": {
        "override": [{"when": {"bottleneck": {"rate": "1Mbit"}}, "set": {"duration": "1s"}}]
    },
    "keys of an override without quotes": {
        "override": [{"when": {"duration": "2s"}, "set": {"hosts": {"ecn": False}}}]
    },
    "a stage of data for acknowledgements": {"flows": [FLOW | {"ack_path": ["gro"]}]},
    "a table of such a stage": {"flows": [FLOW | {"ack_path": [{"name": "bleach"}]}]},
    "an empty file": dict.fromkeys(described()),
    "an unknown condition": {"override": [{"when": {"bottleneck.rtae": "1Mbit"}, "set": {"duration": "1s"}}]},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_run_refuses_is_refused(name: str) -> None:
    table = described(**REFUSED[name])
    assert not validator().is_valid(table)
    with pytest.raises(InputError):
        experiment.parse(table, "test.toml")


ACCEPTED: dict[str, dict[str, Any]] = {
    "the matrix gives what the file does not": {
        "bottleneck": None,
        "flows": [{}],
        "matrix": {"bottleneck.aqm": ["codel", {"name": "red"}], "flows[0].cc": ["reno"], "hosts.mss": ["1000B"]},
    },
    "everything in step": {"matrix": {"flows[0].cc , flows[1].cc": [["reno", {"name": "cubic"}]]}},
    "parameters of what the matrix sets": {
        "matrix": {"bottleneck.aqm": ["codel", "fq_codel"], "bottleneck.aqm.target": ["1ms", "0.5ms", 0]}
    },
    "whole lists": {"flows": None, "matrix": {"flows": [[FLOW], [FLOW, FLOW | {"start": {"uniform": ["0s", "1s"]}}]]}},
    "stages": {"matrix": {"flows[*].path": [[], ["loss"], [{"name": "policer", "rate": "5Mbit"}]]}},
    "spellings": {
        "duration": " 0.5 min ",
        "bottleneck": {"rate": "10mbit/s", "aqm": "codel"},
        "udp": [{"size": "1KB"}],
    },
    "none": {"flows": [FLOW | {"stop": "none", "size": "1.5kB"}], "web": [{"cc": "reno", "size": "2KiB"}]},
    "names or a list of them": {
        "override": [{"when": {"bottleneck.aqm": ["codel", "red"], "flows[0].start": "0s"}, "set": {"duration": "1s"}}]
    },
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_run_accepts_is_accepted(name: str) -> None:
    table = described(**ACCEPTED[name])
    assert [error.message for error in validator().iter_errors(table)] == []
    experiment.parse(table, "test.toml")


EXCUSED: dict[str, dict[str, Any]] = {
    "nan and inf are no JSON": {"flows": [FLOW | {"loss": float("nan")}]},
    "how many there are in all": {"flows": [FLOW | {"count": 600_000}] * 2},
    "an index depends on the length of a list": {"matrix": {"flows[5].cc": ["reno"]}},
    "a file of sizes has to be read": {"web": [{"cc": "reno", "size": {"csv": "missing.csv"}}]},
    "a trace of a link has to be read": {"bottleneck": {"aqm": "codel", "trace": "missing.trace"}},
    "a trace replaces other keys": {"bottleneck": {"aqm": "codel", "rate": "1Mbit", "trace": TRACE}},
    "a datagram fits into a full frame": {"udp": [{"size": "2kB"}]},
    "the same name twice": {"matrix": {"setting, bottleneck.aqm": [["one", "codel"], ["one", "pie"]]}},
    "the same run twice": {"matrix": {"bottleneck.rate": ["1Mbit", "1000kbit"]}},
    "times after the end of the run": {"flows": [FLOW, FLOW | {"start": "2s"}]},
    "keys that others leave without effect": {"bottleneck": {"aqm": {"name": "red", "harddrop": True}}},
    "an override that no run meets": {"override": [{"when": {"duration": "3s"}, "set": {"hosts.ecn": False}}]},
    "an override of what the matrix sets": {
        "matrix": {"bottleneck.rate": ["1Mbit"]},
        "override": [{"when": {"duration": "2s"}, "set": {"bottleneck.rate": "2Mbit"}}],
    },
    "a buffer replaces a limit": {"bottleneck": {"aqm": {"name": "pfifo", "limit": 9}, "buffer": "1bdp"}},
    "what is relative makes a number that is too large or too small": {"udp": [{"rate": "0.001%"}]},
    "products need a base RTT": {
        "bottleneck": {"aqm": "pfifo", "buffer": "1bdp"},
        "flows": [FLOW | {"base_rtt": 0}],
    },
    "a cycle of rates changes within the run": {
        "bottleneck": {"aqm": "pfifo", "rate_changes": {"every": "1s", "rates": ["1Mbit"], "until": "1s"}}
    },
    "keys that need others": {"udp": [{"on": "1s"}]},
    "a segment fits into those of the hosts": {"flows": [FLOW | {"mss": "1449B"}]},
    "two values contradict each other": {"flows": [FLOW | {"start": {"uniform": ["2s", "1s"]}}]},
    "a range has a value": {
        "app": [
            {
                "kind": {
                    "name": "video",
                    "source": "statistical",
                    "control": "nada",
                    "least": "1.4Mbit",
                    "most": "1Mbit",
                },
                "base_rtt": "20ms",
            }
        ]
    },
    "parameters of an application contradict each other": {
        "app": [{"kind": {"name": "onoff", "smallest": "50kB", "largest": "30kB"}, "cc": "cubic", "base_rtt": "20ms"}]
    },
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_one(name: str) -> None:
    table = described(**EXCUSED[name])
    assert validator().is_valid(table)
    with pytest.raises(InputError) as error:
        experiment.parse(table, "test.toml")
    assert excused(error.value) == name


# accepted all the same, and so far by no other test: nothing in the line of the error tells them from others
UNSEEN: dict[str, dict[str, Any]] = {
    "a whole number written as 1.0": {"flows": [FLOW | {"dscp": 1.0}]},
    "types of values in step": {"matrix": {"flows[0].cc, flows[1].base_rtt": [["reno", "5Mbit"]]}},
    "a parameter of another algorithm": {"matrix": {"bottleneck.aqm.target": ["5ms"], "bottleneck.aqm": ["pfifo"]}},
    "parameters that contradict each other": {"bottleneck": {"aqm": {"name": "red", "min": "9kB", "max": "8kB"}}},
    "ends of sizes that the matrix sets": {"web": [{"cc": "reno"}], "matrix": {"web[0].size.min": ["2MB"]}},
}


@pytest.mark.junk
@pytest.mark.parametrize("name", UNSEEN)
def test_what_the_schema_does_not_see(name: str) -> None:
    table = described(**UNSEEN[name])
    assert [error.message for error in validator().iter_errors(table)] == []
    with pytest.raises(InputError):
        experiment.parse(table, "test.toml")


def test_a_difference_fails_the_test_that_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schema_corpus.validator", lambda: jsonschema.Draft202012Validator({"required": ["nothing"]}))
    with held_against_parse(), pytest.raises(pytest.fail.Exception, match="refuses what is accepted"):
        experiment.parse(described(), "test.toml")
    monkeypatch.setattr("schema_corpus.validator", lambda: jsonschema.Draft202012Validator({}))
    with held_against_parse(), pytest.raises(AssertionError, match="accepts what is refused"):
        experiment.parse(described(duration="x"), "test.toml")


def limited() -> list[Param]:
    known = read_registry()
    algorithms = known.algorithms.values()
    params = [param for algorithm in algorithms for param in algorithm.params.values()]
    params += [param for section in known.sections.values() for param in section.values()]
    quantities = {(p.kind, p.min, p.max): p for p in params if spelling.find_unit_kind(p) and not p.optional}
    return list(quantities.values())


@pytest.mark.slow
@settings(max_examples=examples(1500), deadline=None)
@given(st.data())
def test_a_quantity_is_within_its_limits_if_the_pattern_says_so(data: st.DataObject) -> None:
    param = data.draw(st.sampled_from(limited()))
    kind = spelling.find_unit_kind(param)
    assert kind
    unit, size = data.draw(st.sampled_from(sorted(units.UNITS[kind].items())))
    near = [
        bound + step for bound in (param.min, param.max) if bound is not None for step in (-1, 0, 1) if bound + step > 0
    ]
    exact = st.sampled_from(near or [1]).map(lambda value: f"{value / size:.9f}".rstrip("0").rstrip("."))
    number = data.draw(
        exact | st.decimals(0, 10**6, places=3).map(lambda d: f"{d:f}") | st.integers(0, 10**15).map(str)
    )
    text = f"{data.draw(st.sampled_from(['', '0', ' ']))}{number}{unit}"
    definitions = json_schema._Definitions()
    described = definitions.define_value(param) | {"$defs": definitions.found}
    try:
        spelling.parse_value(param, text)
        accepted = True
    except InputError as error:
        accepted = False
        # a part of a KiB that is no whole number of bytes is all that the pattern does not see
        if "a multiple of" in str(error) and "iB" in unit:
            return
    assert jsonschema.Draft202012Validator(described).is_valid(text) == accepted, (param, text)
