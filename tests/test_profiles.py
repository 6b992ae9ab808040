"""Profiles of hosts, and switches of hosts that are declared in one place."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Command, parsed
from dumbbell import _native
from dumbbell.cli import describe, key_reference
from dumbbell.errors import InputError
from dumbbell.experiment import file, json_schema, patterns, schema
from dumbbell.experiment.registry import read_registry

CUBIC = [{"cc": "cubic"}]
DEFAULTS = {name: param.default for name, param in read_registry().sections["hosts"].items()}


def resolved(**changes: Any) -> dict[str, Any]:
    """Return the canonical configuration of a run, which the engine accepts."""
    text = parsed(**changes).make_cell(0).config
    _native.check(text)
    config: dict[str, Any] = json.loads(text)
    return config


@pytest.mark.parametrize("name", list(read_registry().profiles))
def test_a_profile_stands_resolved_in_the_configuration(name: str) -> None:
    profile = read_registry().profiles[name]
    hosts = resolved(hosts={"profile": name})["hosts"]
    assert hosts == DEFAULTS | profile.hosts | {"profile": name}
    assert set(profile.sources) == {*profile.hosts, *(f"{cc}.{key}" for cc, keys in profile.cc.items() for key in keys)}


def test_without_a_profile_hosts_are_the_newest_kernel() -> None:
    assert resolved()["hosts"] == resolved(hosts={"profile": "linux-6.12"})["hosts"] == DEFAULTS


def test_single_switches_override_a_profile() -> None:
    older = {"profile": "linux-5.1"}
    hosts = resolved(hosts=older | {"prr": "rfc6937bis", "ack_push": True})["hosts"]
    assert (hosts["prr"], hosts["ack_push"], hosts["push_bursts"], hosts["tso_rtt"]) == (
        *("rfc6937bis", True),
        *(False, False),
    )
    plan = parsed(
        hosts=older,
        matrix={"hosts.ack_push": [False, True], "hosts.profile": ["linux-5.1", "linux-6.1"]},
        override=[{"when": {"hosts.profile": "linux-6.1", "hosts.ack_push": True}, "set": {"hosts.prr": "rfc6937"}}],
    )
    found = [tuple(cell.groups["hosts"][key] for key in ("profile", "ack_push", "prr")) for cell in plan.make_cells()]
    assert found == [
        ("linux-5.1", False, "rfc6937"),
        ("linux-6.1", False, "rfc6937bis"),
        ("linux-5.1", True, "rfc6937"),
        ("linux-6.1", True, "rfc6937"),
    ]


def test_a_profile_sets_parameters_of_congestion_controls() -> None:
    own = {"name": "cubic", "hystart": "off"}
    sending = {"flows": [{"cc": "cubic"}, {"cc": own}, {"cc": "reno"}], "web": [{"cc": "cubic"}, {"cc": own}]}
    for profile, expected in (("linux-5.4", "5.5"), ("linux-5.10", "5.6"), ("freebsd-13", "off")):
        config = resolved(hosts={"profile": profile}, **sending)
        assert [flow["cc"].get("hystart") for flow in config["flows"]] == [expected, "off", None], profile
        assert [web["cc"]["hystart"] for web in config["web"]] == [expected, "off"], profile


def test_the_engine_applies_a_profile_as_an_experiment_file_does() -> None:
    """The engine is given no more than names; Python gives it every value."""

    def measured(config: str) -> str:
        return _native.run(config, _native.Cancel()).hash

    for profile in read_registry().profiles:
        for control in read_registry().cc:
            flow = {"cc": {"name": control}, "base_rtt": "30ms"}
            bottleneck = {"rate": "50Mbit", "aqm": {"name": "codel"}}
            resolved = parsed(
                duration="1s", bottleneck=bottleneck, hosts={"profile": profile}, flows=[flow], web=[{"cc": control}]
            )
            bare = {
                "duration": 10**9,
                "bottleneck": {"rate": 50_000_000, "aqm": {"name": "codel"}},
                "hosts": {"profile": profile},
                "flows": [{"cc": {"name": control}, "base_rtt": 30_000_000}],
                "web": [{"cc": {"name": control}}],
            }
            assert measured(resolved.make_cell(0).config) == measured(json.dumps(bare)), (profile, control)


def test_equal_hosts_have_equal_runs_however_they_are_named() -> None:
    named = resolved(hosts={"profile": "linux-6.1"})
    single = resolved(hosts=read_registry().profiles["linux-6.1"].hosts)
    assert named["hosts"].pop("profile") != single["hosts"].pop("profile")
    assert named == single


def test_unknown_profiles_are_one_line() -> None:
    with pytest.raises(InputError) as error:
        parsed(hosts={"profile": "linux-6.13"})
    assert error.value.known == tuple(read_registry().profiles)
    assert str(error.value).startswith('test.toml: hosts.profile is "linux-6.13"; did you mean "linux-6.')


def test_describe_lists_what_each_profile_sets_and_why(command: Command) -> None:
    said = command("describe", "hosts").stdout
    assert "\nlinux-6.12\n    the defaults\n" in said
    for name, profile in read_registry().profiles.items():
        part = said.partition(f"\n{name}\n")[2].partition("\n\n")[0]
        for key, source in profile.sources.items():
            assert f"    {key} = " in part and f"[{source}]" in part, (name, key)
    assert "\n    cubic.hystart = 5.5 [" in said and "\n    prr = rfc6937 [" in said


@pytest.fixture
def with_a_switch(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Let the engine describe one host switch more; return that description."""
    described = json.loads(_native.registry())
    switch = {
        **{"name": "quick_exit", "kind": "choice", "optional": False, "unit": "", "default": "slow", "min": None},
        **{"max": None, "choices": ["slow", "fast"], "doc": "How it leaves.", "source": "a test"},
    }
    described["sections"]["hosts"].append(switch)
    described["profiles"]["linux-5.4"]["hosts"]["quick_exit"] = "fast"
    described["profiles"]["linux-5.4"]["sources"]["quick_exit"] = "another test"
    monkeypatch.setattr(_native, "registry", lambda: json.dumps(described))
    monkeypatch.setattr(_native, "check", lambda _config: None)  # the engine itself does not have it
    caches = (read_registry, schema.run_model, schema.describe_section, key_reference.list_groups)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(schema, "_checked", {})  # sections that were checked before
    monkeypatch.setattr(file, "_patterns_of_tables", patterns.RunPatterns())  # and runs
    yield switch
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_a_new_switch_of_hosts_takes_one_declaration(
    with_a_switch: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    name = with_a_switch["name"]
    in_schema = json_schema.make_schema()["$defs"]["Hosts"]["properties"][name]
    assert in_schema["enum"] == ["slow", "fast"] and in_schema["default"] == "slow"
    assert in_schema["description"] == "How it leaves. Source: a test."
    describe.describe("hosts")
    said = capsys.readouterr().out
    assert "\nquick_exit = slow (choice, one of slow, fast)\n    How it leaves. [a test]\n" in said
    assert "    quick_exit = fast [another test]" in said
    for hosts, expected in (
        (None, "slow"),
        ({"profile": "linux-5.4"}, "fast"),
        ({"profile": "linux-5.4", name: "slow"}, "slow"),
    ):
        assert json.loads(parsed(hosts=hosts).make_cell(0).config)["hosts"][name] == expected
    with pytest.raises(InputError, match=r"hosts.quick_exit is .fats.; did you mean .fast.\? It must be slow or fast"):
        parsed(hosts={name: "fats"})
