"""Links that a hop names: from the experiment file to results, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import TRACE, Command, described, parsed
from dumbbell import _native, experiment
from dumbbell.errors import InputError
from dumbbell.experiment import json_schema
from dumbbell.experiment.registry import read_registry

BETWEEN = "use one of the two: each determines how packets leave the queue"


def over(link: Any, **keys: Any) -> experiment.Experiment:
    return parsed(bottleneck={"rate": "10Mbit", "aqm": "codel", "link": link} | keys)


def message(**changes: Any) -> str:
    with pytest.raises(InputError) as error:
        parsed(**changes)
    return str(error.value)


def test_a_link_is_a_name_or_a_table_and_canonical_with_all_its_parameters() -> None:
    link = over("wifi").make_cell(0).groups["bottleneck"]["link"]
    fading = {"fade_from": None, "fade_to": None, "fade_jitter": 12_000_000}
    assert link == {"name": "wifi", "jitter": 1_000_000, "frames": 64} | fading
    written = over({"name": "leo", "outage": "80ms", "low_rate": 0.5}).make_cell(0).groups["bottleneck"]["link"]
    assert written == {
        "name": "leo",
        "interval": 15 * 10**9,
        "outage": 80 * 10**6,
        "low_rate": 0.5,
        "delay_min": 3_700_000,
        "delay_max": 7_500_000,
        "terminal": None,
    }


def test_a_run_that_names_no_link_is_described_as_ever() -> None:
    plain = parsed(bottleneck={"rate": "10Mbit", "aqm": "codel"}).make_cell(0)
    assert "link" not in plain.groups["bottleneck"] and "link" not in json.loads(plain.config)["bottleneck"]
    assert over("none").make_cell(0).key == plain.key != over("serial").make_cell(0).key


def test_every_hop_may_name_its_link() -> None:
    net = parsed(
        bottleneck={"rate": "20Mbit", "aqm": "codel", "link": "wifi"},
        hop=[{"name": "second", "rate": "5Mbit", "aqm": "pie", "link": {"name": "onoff", "off": "50ms"}}],
        reverse={"rate": "5Mbit", "aqm": "fq_codel", "link": "docsis"},
        flows=[{"cc": "cubic", "route": ["bottleneck", "second"]}],
    )
    groups = net.make_cell(0).groups
    links = [groups[name]["link"]["name"] for name in ("bottleneck", "reverse")]
    assert [*links, groups["hop"][0]["link"]["off"]] == ["wifi", "docsis", 50_000_000]


def test_links_are_axes_and_conditions() -> None:
    names = ["none", "serial", {"name": "wifi", "jitter": "7ms"}]
    override: list[dict[str, Any]] = [{"when": {"bottleneck.link": "wifi"}, "set": {"duration": "1s"}}]
    cells = list(parsed(duration="2s", matrix={"bottleneck.link": names}, override=override).make_cells())
    assert [cell.matrix["bottleneck.link"] for cell in cells] == ["none", "serial", "wifi(jitter=7ms)"]
    assert [cell.duration // 10**9 for cell in cells] == [2, 2, 1]
    override = [
        {"when": {"bottleneck.link.name": ["leo", "wifi"], "bottleneck.link.frames": 8}, "set": {"duration": "1s"}}
    ]
    axes: dict[str, list[Any]] = {"bottleneck.link.name": ["docsis", "wifi"]}
    frames = parsed(
        matrix={"bottleneck.link": ["wifi"], "bottleneck.link.frames": [8, 64]}, override=override, duration="2s"
    )
    assert [cell.duration // 10**9 for cell in frames.make_cells()] == [1, 2]
    cells = list(parsed(bottleneck={"rate": "10Mbit", "aqm": "codel", "link": "wifi"}, matrix=axes).make_cells())
    assert [cell.groups["bottleneck"]["link"]["name"] for cell in cells] == ["docsis", "wifi"]


def test_a_setting_replaces_what_the_file_says_of_the_link() -> None:
    table = described(bottleneck={"aqm": "codel", "trace": TRACE})
    own = experiment.parse(table, "test.toml", ["bottleneck.link=leo"]).make_cell(0).groups["bottleneck"]
    assert own["trace"] is None and own["link"]["name"] == "leo" and own["rate"] == 10_000_000
    table = described(bottleneck={"rate": "5Mbit", "aqm": "codel", "link": "wifi"})
    own = experiment.parse(table, "test.toml", ["bottleneck.shaper=htb"]).make_cell(0).groups["bottleneck"]
    assert own["shaper"] == "htb" and "link" not in own
    own = experiment.parse(table, "test.toml", [f"bottleneck.trace={TRACE}"]).make_cell(0).groups["bottleneck"]
    assert own["trace"]["file"] == "cellular" and "link" not in own


@pytest.mark.parametrize(
    ("bottleneck", "expected"),
    [
        ({"link": "wify"}, 'bottleneck.link: unknown link "wify"; did you mean "wifi"? Choose from serial, htb'),
        ({"link": {"jitter": "1ms"}}, "bottleneck.link.name is missing"),
        ({"link": {"name": "wifi", "jiter": "1ms"}}, "unknown key bottleneck.link.jiter; did you mean bottleneck.link"),
        ({"link": {"name": "wifi", "frames": 0}}, "bottleneck.link.frames is 0; it must be an integer from 1 to 1024"),
        ({"link": {"name": "onoff", "on": "10us"}}, 'bottleneck.link.on is "10us"; it must be a time from 1ms to'),
        ({"link": {"name": "onoff", "times": "often"}}, 'bottleneck.link.times is "often"; it must be fixed or'),
        ({"link": {"name": "leo", "outage": "10s"}}, "bottleneck.link.outage is 10s; it must be at most half of"),
        ({"link": {"name": "leo", "delay_min": "9ms"}}, "bottleneck.link.delay_min is 9ms; it must be at most del"),
        ({"link": {"name": "cellular", "grant": "9ms"}}, "bottleneck.link.grant: it has no effect without request"),
        ({"link": "unshaped"}, "bottleneck.link is unshaped; it must be a link with a rate, or a queue that shapes"),
        ({"link": "trace"}, "bottleneck.link.file is missing; give the name of a file in mahimahi's format"),
        ({"link": {"name": "trace", "file": "no.trace"}}, "bottleneck.link.file: "),
        ({"link": "wifi", "shaper": "htb"}, f"bottleneck.shaper: shaper and link cannot be combined; {BETWEEN}"),
        ({"link": "wifi", "burst": "3kB"}, f"bottleneck.burst: burst and link cannot be combined; {BETWEEN}"),
        ({"link": "wifi", "trace": TRACE}, f"bottleneck.trace: trace and link cannot be combined; {BETWEEN}"),
        ({"link": 5}, "bottleneck.link is 5; it must be a name, or a table with a name"),
    ],
)  # fmt: skip
@pytest.mark.junk  # what values of a link contradict each other the schema does not know, nor files
def test_what_is_wrong_with_a_link_is_said_by_key(bottleneck: dict[str, Any], expected: str) -> None:
    text = message(bottleneck={"rate": "10Mbit", "aqm": "codel"} | bottleneck)
    assert f"test.toml: {expected}" in text and len(text.splitlines()) == 1


def test_the_engine_refuses_the_same() -> None:
    config = json.loads(over("wifi").make_cell(0).config)
    for change, expected in [
        ({"shaper": "htb"}, "bottleneck.link: found link and shaper, allowed: one of the two"),
        ({"burst": 3000}, "bottleneck.link: found link and burst, allowed: one of the two"),
        ({"link": {"name": "trace"}}, "bottleneck.link.file: found none, allowed: the file of a trace"),
        ({"link": {"name": "unshaped"}}, "bottleneck.link: found unshaped, allowed: a link with a rate"),
        ({"link": "wifi"}, "bottleneck.link: found"),
    ]:
        with pytest.raises(ValueError, match=f"^{expected}"):
            _native.check(json.dumps(config | {"bottleneck": config["bottleneck"] | change}))


def test_the_link_of_a_trace_is_that_trace() -> None:
    both: list[dict[str, Any]] = [{"trace": TRACE}, {"link": {"name": "trace", "file": TRACE}}]
    cells = [parsed(duration="2s", bottleneck={"aqm": "codel"} | one).make_cell(0) for one in both]
    assert cells[0].groups["bottleneck"]["rate"] == cells[1].groups["bottleneck"]["rate"] != 10_000_000
    hashes = [_native.run(cell.config, _native.Cancel()).hash for cell in cells]
    assert hashes[0] == hashes[1]
    text = message(bottleneck={"aqm": "codel", "rate": "1Mbit", "link": both[1]["link"]})
    assert "bottleneck.rate: rate and trace cannot be combined" in text


def test_a_trace_with_delays_makes_round_trips_longer(tmp_path: Path) -> None:
    (tmp_path / "even.trace").write_text("1\n")
    (tmp_path / "late.trace").write_text("1 30.5\n")
    rtts = []
    for name in ("even", "late"):
        table = described(
            duration="5s", bottleneck={"aqm": "codel", "trace": f"{name}.trace"}, flows=[{"cc": "reno", "size": "20kB"}]
        )
        (tmp_path / "test.toml").write_text("")
        plan_of_trace = experiment.parse(table, str(tmp_path / "test.toml"))
        results = dumbbell.run(plan_of_trace, output=tmp_path / f"{name}.duckdb")
        rtts.append(results.flows["rtt_min_ms"][0])
    assert rtts[1] - rtts[0] == pytest.approx(30.5, abs=1.1)


def test_every_link_makes_runs_that_differ_by_name(tmp_path: Path) -> None:
    names = [name for name in read_registry().link if name not in ("trace", "unshaped")]
    table = described(duration="5s", matrix={"bottleneck.link": names}, bottleneck={"rate": "10Mbit", "aqm": "codel"})
    results = dumbbell.run(table, output=tmp_path / "links.duckdb")
    assert [json.loads(matrix)["bottleneck.link"] for matrix in results.runs["matrix"]] == names
    assert len(set(results.runs["hash"])) == len(names)
    assert all(0.3 < used <= 1.001 for used in results.runs["utilisation"])


@pytest.mark.parametrize("name", ["wifi", "leo"])
def test_engines_without_links_refuse_them_by_name(name: str, tmp_path: Path, command: Command) -> None:
    (tmp_path / "test.toml").write_text(
        f'duration = "1s"\n[bottleneck]\nrate = "10Mbit"\naqm = "codel"\nlink = "{name}"\n[[flows]]\ncc = "cubic"\n'
    )
    for arguments in (["run", "test.toml", "--engine", "live"], ["shell", "test.toml", "--", "true"]):
        done = command(*arguments)
        assert done.returncode == 2 and "bottleneck.link" in done.stderr and name in done.stderr, done.stderr


def test_links_are_in_the_schema_listed_and_described(command: Command) -> None:
    text = str(json_schema.make_schema())
    assert all(f"link_{name}" in text for name in read_registry().link)
    for arguments, word in [
        (["describe", "wifi"], "jitter"),
        (["describe", "bottleneck"], "link = none"),
        (["describe", "link.pipeline"], "docsis-ns3"),
        (["list", "link"], "onoff"),
        (["list"], "link:"),
    ]:
        assert word in command(*arguments).stdout
