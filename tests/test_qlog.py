"""qlog of `dumbbell trace`: it follows its drafts, agrees with the results of the run, and can be read again."""

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import TWO_FLOWS, Command
from dumbbell.errors import InputError
from dumbbell.evaluate.bbr import qlog_trace as traces
from dumbbell.experiment.file import parse
from dumbbell.qlog import figure, write
from dumbbell.results.one_cell import choose_cell

Events = list[dict[str, Any]]


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    (tmp_path / "two.toml").write_text(TWO_FLOWS)
    return "two.toml"


def records(path: Path) -> Events:
    """Return the records of a JSON text sequence, RFC 7464."""
    text = path.read_text()
    assert text.startswith("\x1e") and text.endswith("\n")
    return [json.loads(one) for one in text[1:].removesuffix("\n").split("\n\x1e")]


def named(events: Events, name: str) -> Events:
    return [one["data"] for one in events if one.get("name") == name]


# The schema: of draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13 what is used here. A key
# with ? is optional. The drafts let events have fields of ours ($$quic-…-extension), and frames.


def is_whole(bits: int) -> Any:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << bits


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def one_of(*words: str) -> Any:
    return lambda value: value in words


def list_of(check: Any) -> Any:
    return lambda value: isinstance(value, list) and bool(value) and all(map(check, value))


def table(fields: dict[str, Any], *, is_open: bool = False) -> Any:
    def check(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        known = {name.removeprefix("?"): test for name, test in fields.items()}
        needed = {name for name in fields if not name.startswith("?")}
        right = all(known[name](one) for name, one in value.items() if name in known)
        return right and needed <= value.keys() and (is_open or value.keys() <= known.keys())

    return check


RAW = table({"?length": is_whole(64), "?payload_length": is_whole(64)})
ECN = one_of("Not-ECT", "ECT(1)", "ECT(0)", "CE")
PACKET_HEADER = table(
    {"packet_type": one_of("initial", "handshake", "0RTT", "1RTT"), "?packet_number": is_whole(64)},
)
ACK_FRAME = table({"frame_type": one_of("ack"), "?acked_ranges": list_of(list_of(is_whole(64)))})
METRICS = {"min_rtt": is_real, "smoothed_rtt": is_real, "congestion_window": is_whole(64)}
METRICS |= dict.fromkeys(("bytes_in_flight", "ssthresh", "pacing_rate"), is_whole(64))
PACKET = {"header": PACKET_HEADER, "?frames": list_of(ACK_FRAME), "?raw": RAW}
DATAGRAMS = {"?count": is_whole(16), "?raw": list_of(RAW), "?ecn": list_of(ECN), "?datagram_ids": list_of(is_whole(32))}
DATA = {
    "quic:packet_sent": table(PACKET, is_open=True),
    "quic:packet_received": table(PACKET, is_open=True),
    "quic:packet_lost": table({"?header": PACKET_HEADER}, is_open=True),
    "quic:recovery_metrics_updated": table({f"?{name}": test for name, test in METRICS.items()}, is_open=True),
    "quic:congestion_state_updated": table({"?old": is_text, "new": is_text, "?trigger": is_text}, is_open=True),
    "quic:udp_datagrams_sent": table(DATAGRAMS),
    "quic:udp_datagrams_received": table(DATAGRAMS),
}
TRACE = table(
    {
        "?title": is_text,
        "?description": is_text,
        "?common_fields": table(
            {
                "time_format": one_of("relative_to_epoch"),
                "reference_time": table({"clock_type": one_of("system", "monotonic"), "epoch": is_text}),
            }
        ),
        "?vantage_point": table(
            {"?name": is_text, "type": one_of("client", "server", "network"), "?flow": one_of("client", "server")}
        ),
        "event_schemas": list_of(is_text),
    }
)
FILE = table(
    {
        "file_schema": one_of("urn:ietf:params:qlog:file:sequential"),
        "serialization_format": one_of("application/qlog+json-seq"),
        "?title": is_text,
        "?description": is_text,
        "trace": TRACE,
    }
)
EVENT = table({"time": is_real, "name": is_text, "data": lambda value: isinstance(value, dict)})


@pytest.mark.slow
def test_files_are_as_the_drafts_have_them(command: Command, experiment: str, tmp_path: Path) -> None:
    done = command("trace", experiment, "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["out/flow-0.sqlog", "out/flow-1.sqlog", "out/network.sqlog"]
    seen = set()
    for name in done.stdout.split():
        header, *events = records(tmp_path / name)
        assert FILE(header)
        # main-schema, LogFile: these are in the first 256 bytes
        assert '"serialization_format"' in (tmp_path / name).read_text()[:256]
        spaces = {uri.rpartition(":")[2].rpartition("-")[0] for uri in header["trace"]["event_schemas"]}
        for event in events:
            assert EVENT(event)
            space, _, _ = event["name"].partition(":")
            assert space in spaces
            assert space == "dumbbell" or DATA[event["name"]](event["data"]), event
            seen.add(event["name"])
    assert {name for name in DATA if "datagram" not in name} <= seen


@pytest.mark.parametrize("marks", [False, True])
def test_what_is_written_is_what_the_run_measured(*, marks: bool, tmp_path: Path) -> None:
    settings = {"bottleneck.aqm": {"name": "codel", "ecn": marks}, "hosts.ecn": True}
    checked = parse(tomllib.loads(TWO_FLOWS), "two.toml", settings)
    found = write.write(checked.make_cell(0), tmp_path / "out")
    results = dumbbell.run(checked)
    assert results.runs["hash"].to_list() == [found.hash]
    header, *network = records(tmp_path / "out" / "network.sqlog")
    assert header["trace"]["vantage_point"]["type"] == "network"
    total, marked = 1 + len(network), 0
    duration_ms = json.loads(results.runs["config"][0])["duration"] / 1e6
    for flow in results.flows.iter_rows(named=True):
        events = records(tmp_path / "out" / f"flow-{flow['flow']}.sqlog")
        total += len(events)
        sent = [one for one in named(events, "quic:packet_sent") if "segment" in one]
        assert len(sent) == flow["sent"]
        assert sum("retransmission" in one for one in sent) == flow["retransmissions"]
        # a queue counts until the run is over there, and the log goes on as long as senders do
        mine = [one for one in network if one["data"]["flow"] == flow["flow"] and one["time"] <= duration_ms]
        why = Counter(one["data"]["reason"] for one in mine if one["name"] == "dumbbell:packet_dropped")
        assert (why["overflow"], why["aqm"]) == (flow["drops_overflow"], flow["drops_aqm"])
        count = sum(one["old_ecn"] != "CE" for one in named(mine, "dumbbell:packet_marked"))
        assert count == flow["ce_marks"]
        marked += count
        metrics = named(events, "quic:recovery_metrics_updated")
        least = min(one["min_rtt"] for one in metrics if "min_rtt" in one)
        assert least == pytest.approx(flow["rtt_min_ms"], rel=0.01)
    assert (marked > 0) == marks
    assert found.records == total - len(found.files)  # without headers


def test_the_same_run_gives_the_same_bytes(experiment: str, tmp_path: Path) -> None:
    cell = parse(tomllib.loads(TWO_FLOWS), experiment).make_cell(0)
    first, second = (write.write(cell, tmp_path / name) for name in ("a", "b"))
    assert first.hash == second.hash
    for one, other in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_qvis_finds_what_it_looks_for(command: Command, experiment: str, tmp_path: Path) -> None:
    """Its loaders (visualizations/src/components/filemanager, src/data/QlogLoaderV2.ts) ask for these."""
    assert command("trace", experiment, "--qvis", "-o", "one.sqlog", "--flow", "0").returncode == 0
    header, *events = records(tmp_path / "one.sqlog")
    assert (header["qlog_version"], header["qlog_format"]) == ("0.3", "JSON-SEQ")
    assert header["trace"]["common_fields"] == {"time_format": "relative", "reference_time": 0}
    names = {one["name"] for one in events}
    # what its congestion graph draws
    assert {"transport:packet_sent", "transport:packet_received", "recovery:packet_lost"} <= names
    assert "recovery:metrics_updated" in names
    sent = {one["header"]["packet_number"] for one in named(events, "transport:packet_sent") if "segment" in one}
    acked = set()
    for one in named(events, "transport:packet_received"):
        if one["header"]["packet_type"] == "1RTT":
            for span in one["frames"][0].get("acked_ranges", []):
                acked |= set(range(span[0], span[-1] + 1))
    assert acked <= sent and len(acked) > 0.9 * len(sent)
    assert not (tmp_path / "network.sqlog").exists()


def test_judges_of_traces_read_it(command: Command, experiment: str, tmp_path: Path) -> None:
    command("trace", experiment, "-o", "out")
    log = traces.read(tmp_path / "out" / "flow-1.sqlog")
    assert log.notes == []
    assert [one.state for one in log.trace.phases[:2]] == ["startup", "drain"]
    assert log.trace["cwnd"][0] == 10
    assert float(log.trace["max_bw_mbit"].max()) < 20


def test_cells_are_chosen_by_number_or_values() -> None:
    given = tomllib.loads(TWO_FLOWS) | {"seeds": [1, 2]}
    given["matrix"] = {"bottleneck.rate": ["20Mbit", "40Mbit"], "bottleneck.aqm": ["codel", "pfifo"]}
    several = parse(given, "m.toml")
    assert choose_cell(several, 4, []).matrix == {"bottleneck.rate": "20Mbit", "bottleneck.aqm": "pfifo"}
    found = choose_cell(several, None, ["bottleneck.rate=40Mbit", "bottleneck.aqm=pfifo"])
    assert (found.matrix, found.seed) == ({"bottleneck.rate": "40Mbit", "bottleneck.aqm": "pfifo"}, 1)
    # as tables call them: the last word of a key, another unit, a seed
    same = choose_cell(several, None, ["rate=40000kbit", "aqm=pfifo", "seed=2"])
    assert (same.matrix, same.seed) == (found.matrix, 2)
    # a run that has such a flow; what no run has together
    of_flows = parse(given | {"matrix": {"flows[1].base_rtt": ["20ms", "30ms"]}}, "m.toml")
    assert choose_cell(of_flows, None, ["base_rtt=30ms"]).matrix == {"flows[1].base_rtt": "30ms"}
    with pytest.raises(InputError, match=r"no run has cc=cubic and base_rtt=20ms and flows\[1\].base_rtt=30ms;"):
        choose_cell(of_flows, None, ["cc=cubic", "base_rtt=20ms", "flows[1].base_rtt=30ms"])
    for number, where, said in (
        (9, [], r"cell is 9; it must be from 1 to 8"),
        (1, ["bottleneck.rate=40Mbit"], r"--cell and --where"),
        (
            None,
            [],
            r"it describes 4 runs; choose one with .*: --cell 1 \(bottleneck.rate=20Mbit, bottleneck.aqm=codel\), ",
        ),
        (
            None,
            ["aqm=pfifo"],
            r"2 runs.*--cell 3 \(bottleneck.rate=20Mbit\), --cell 7 \(bottleneck.rate=40Mbit\)",
        ),
        (None, ["bottleneck.rate=1Mbit"], r"unknown value 1Mbit; did you mean .*? Choose from 20Mbit, 40Mbit"),
        (None, ["bottleneck.delay=1ms"], r"unknown key bottleneck.delay; did you mean .* seed, cc, cc.name, base_rtt"),
        (None, ["flow=0"], r"flow selects a part of a run.* --flow N keeps one flow"),
        (None, ["seed=3"], r"unknown value 3; choose from 1, 2"),
        (None, ["cc=vegas"], r"unknown value vegas; choose from "),
    ):
        with pytest.raises(InputError, match=said):
            choose_cell(several, number, where)


def test_bad_input_is_said(command: Command, experiment: str) -> None:
    for words, said in (
        (["--flow", "2"], "--flow is 2; it must be from 0 to 1"),
        (["-o", "one.sqlog"], "2 flows and one file"),
        (["-o", "one.sqlog", "--flow", "0", "--stacks"], "--stacks and a file"),
        (["-o", f"{experiment}/out"], "not a directory"),
    ):
        done = command("trace", experiment, *words)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert said in done.stderr


def test_a_run_with_a_plugin_is_written_in_a_process_of_its_own(command: Command, tmp_path: Path) -> None:
    made = command("plugin", "new", "control", "mine", "--language", "python")
    assert made.returncode == 0, made.stderr
    file = next(tmp_path.rglob("*.py"))
    text = TWO_FLOWS.replace('"cubic"', f'{{ plugin = "{file.relative_to(tmp_path)}" }}')
    (tmp_path / "p.toml").write_text(text.replace('"5s"', '"1s"'))
    done = command("trace", "p.toml", "--trust", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert len(named(records(tmp_path / "out" / "flow-0.sqlog"), "quic:packet_sent")) > 100


@pytest.mark.slow
def test_files_are_drawn_alone_and_together(command: Command, experiment: str, tmp_path: Path) -> None:
    command("trace", experiment, "-o", "out")
    one = tmp_path / "out" / "flow-0.sqlog"
    found = figure.read(one).frames
    events = records(one)
    assert found["lost"]["value"].max() == len(named(events, "quic:packet_lost"))
    windows = [
        data["congestion_window"]
        for data in named(events, "quic:recovery_metrics_updated")
        if "congestion_window" in data
    ]
    assert found["cwnd"]["value"].max() == pytest.approx(max(windows) / 1e3)
    # a value holds to the end of the file
    assert found["minimum RTT"]["time_s"].max() == found["in flight"]["time_s"].max()
    assert len(figure.draw(figure.read_all([one])).panels) == 3
    assert len(figure.draw(figure.read_all([one, one.with_name("flow-1.sqlog")]), (1.0, 2.0)).panels) == 4
    done = command("plot", "out/flow-0.sqlog", "out/flow-1.sqlog", "--time", "1s..3s", "-o", "both.png")
    assert done.returncode == 0 and (tmp_path / "both.png").stat().st_size > 1000
    assert "given twice" in command("plot", "out/flow-0.sqlog", "out/flow-0.sqlog").stderr
    assert "no window" in command("plot", "out/network.sqlog").stderr


def test_losses_are_counted_where_packets_are_not_named(tmp_path: Path) -> None:
    text = '{"time": 1, "name": "recovery:metrics_updated", "data": {"cwnd": 2000, "lost": 3}}\n'
    (tmp_path / "a.qlog").write_text(f"{text}{text.replace('3', '5').replace('1,', '9,')}")
    found = figure.read(tmp_path / "a.qlog").frames
    expected = pl.DataFrame({"time_s": [0.001, 0.009], "value": [3.0, 5.0]})
    assert found["lost"].equals(expected)
    assert found["cwnd"]["value"].to_list() == [2.0, 2.0]


def test_round_trips_in_seconds_are_known_by_the_first(tmp_path: Path) -> None:
    event = '{"time": %d, "name": "recovery:metrics_updated", "data": {"smoothed_rtt": %s}}\n'
    for first, expected, notes in (("0.333", [333.0, 40.0], 1), ("0.5", [0.5, 0.04], 0)):
        (tmp_path / "a.qlog").write_text(event % (0, first) + event % (1, "0.04"))
        found = figure.read(tmp_path / "a.qlog")
        assert found.frames["smoothed RTT"]["value"].to_list() == pytest.approx(expected)
        assert len(found.notes) == notes


def test_the_handshake_belongs_to_its_connection(tmp_path: Path) -> None:
    """A client of quinn is called after the server's ID, which changes in the handshake."""
    event = '{"time": %d, "name": "recovery:metrics_updated", "data": {"cwnd": %d}, "group_id": "%s"}\n'
    lines = [event % (0, 1000, "a"), event % (1, 2000, "b"), event % (2, 3000, "b")]
    (tmp_path / "a.qlog").write_text("".join(lines))
    found = figure.read(tmp_path / "a.qlog")
    assert (found.frames["cwnd"]["value"].to_list(), found.notes) == ([1.0, 2.0, 3.0], [])
    (tmp_path / "a.qlog").write_text("".join([*lines, event % (3, 4000, "a")]))
    found = figure.read(tmp_path / "a.qlog")
    assert found.notes == ["2 connections: the one with most events is drawn"]
