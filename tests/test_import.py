"""`dumbbell import`: iperf3, ss and qlog as results, the experiment that is proposed, and junk."""

import dataclasses
import gzip
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import captures
import dumbbell
from conftest import Command, described, examples
from dumbbell.errors import InputError
from dumbbell.exchange import formats, imported_tables, keep, measurement, setup
from dumbbell.exchange.measurement import ImportedFlow, Measurement, SetupFact
from dumbbell.experiment.file import parse
from dumbbell.published import engines
from dumbbell.results.labels import add_assumed_controls
from dumbbell.results.store import TABLES, Store
from test_captures import bulk
from test_junk import is_clear

SAMPLES = Path(__file__).parent / "imports"


def read(tmp_path: Path, content: str | bytes, name: str = "one.txt", interval_s: float | None = None) -> Measurement:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return formats.read(path, interval_s)


def imported(path: Path, output: Path, name: str = "it") -> dumbbell.Results:
    keep.keep(output, [keep.propose_experiment(path, formats.read(path), name)])
    return dumbbell.open(output)


# what a file says


def test_iperf3_is_read_as_it_says_itself() -> None:
    found = formats.read(SAMPLES / "upload.json")
    said = json.loads((SAMPLES / "upload.json").read_text())["end"]["streams"]
    for flow, stream in zip(found.flows, said, strict=True):
        assert flow.figures["goodput_mbit"] == pytest.approx(stream["receiver"]["bits_per_second"] / 1e6)
        assert flow.figures["retransmissions"] == stream["sender"]["retransmits"]
        assert flow.figures["cwnd_max"] == stream["sender"]["max_snd_cwnd"] // 1448
        assert flow.figures["rtt_max_ms"] == stream["sender"]["max_rtt"] / 1e3
        assert flow.cc is not None and (flow.cc.text, flow.cc.known) == ("cubic", True)
        assert flow.series["time_s"].to_list() == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
        assert "rtt_min_ms" not in flow.figures  # it tells smoothed RTTs alone
    assert found.source["started"] == "2026-11-25T23:17:23+00:00"


def test_iperf3_as_a_stream_of_events_says_the_same(tmp_path: Path) -> None:
    whole = json.loads((SAMPLES / "upload.json").read_text())
    events = [{"event": "start", "data": whole["start"]}]
    events += [{"event": "interval", "data": one} for one in whole["intervals"]]
    events += [{"event": "end", "data": whole["end"]}]
    found = read(tmp_path, "\n".join(map(json.dumps, events)) + "\n", "stream.json")
    for one, other in zip(found.flows, formats.read(SAMPLES / "upload.json").flows, strict=True):
        assert one.figures == other.figures and one.series.equals(other.series)


def test_iperf3_of_udp_counts_what_arrived(tmp_path: Path) -> None:
    streams = [
        {"socket": 5, "start": n, "end": n + 1, "seconds": 1, "bytes": 125_000, "packets": 100, "sender": True}
        for n in range(4)
    ]
    document = {
        "start": {"test_start": {"protocol": "UDP", "blksize": 1250, "target_bitrate": 1_000_000}},
        "intervals": [{"streams": [one]} for one in streams],
        "end": {
            "streams": [
                {
                    "udp": {
                        "socket": 5,
                        "bytes": 500_000,
                        "packets": 400,
                        "lost_packets": 100,
                        "jitter_ms": 0.25,
                        "sender": True,
                    }
                }
            ]
        },
    }
    (flow,) = read(tmp_path, json.dumps(document), "udp.json").flows
    assert flow.kind == "udp" and flow.figures["goodput_mbit"] == pytest.approx(0.75)
    assert flow.figures["jitter_ms"] == 0.25
    assert flow.rate is not None and flow.rate.text == "1.03Mbit"  # 1292 bytes in frames
    assert flow.size is not None and flow.size.text == "1292B"


def test_a_log_of_ss_is_read_round_by_round() -> None:
    found = formats.read(SAMPLES / "upload.ss.txt")
    assert [flow.ends for flow in found.flows] == [
        ("10.200.0.1:49520", "10.200.0.2:5201"),
        ("10.200.0.1:49532", "10.200.0.2:5201"),
    ]
    near = [flow for flow in formats.read(SAMPLES / "near.pcap.gz").flows if flow.kind == "flows"]
    for flow, captured in zip(found.flows, near, strict=True):  # the same connections, by tcpdump
        assert flow.figures["rtt_min_ms"] == pytest.approx(captured.figures["rtt_min_ms"], abs=0.1)
        assert flow.figures["goodput_mbit"] == pytest.approx(captured.figures["goodput_mbit"], rel=0.06)
        assert flow.cc is not None and flow.cc.text == "cubic"
    means = [sum(flow.figures["rtt_mean_ms"] for flow in of) for of in (found.flows, near)]
    assert means[0] == pytest.approx(means[1], rel=0.05)


ROUND = """\
ESTAB 0 1448 10.0.0.1:40000 10.0.0.2:5201
\t cubic wscale:7,7 rto:240 rtt:{rtt}/4 mss:1448 cwnd:{cwnd} ssthresh:20 bytes_sent:9 bytes_acked:{acked} unacked:7 \
send 13.3Mbps pacing_rate 16.5Mbps delivery_rate 9.5Mbps retrans:0/{again} minrtt:20.5
"""
TIMES = ["1700000000.5", "1700000001500", "1700000002500000000", "2023-11-14T22:13:23.5+00:00", "[1700000004.5]"]


def rounds(*times: str, inline: bool = False) -> str:
    text = ""
    for number, time in enumerate(times):
        said = ROUND.format(rtt=30 + number, cwnd=10 + number, acked=1_000_000 * number, again=2 * number)
        text += "".join(f"{time} {line}\n" for line in said.splitlines()) if inline else f"{time}\n{said}"
    return text


@pytest.mark.parametrize("inline", [False, True])
def test_times_of_ss_may_be_written_in_several_ways(tmp_path: Path, inline: bool) -> None:
    (flow,) = read(tmp_path, rounds(*TIMES, inline=inline)).flows
    assert flow.series["time_s"].to_list() == pytest.approx([1, 2, 3, 4], abs=1e-5)
    assert flow.series["goodput_mbit"].to_list() == pytest.approx([8.0] * 4, rel=1e-4)
    assert flow.series["cwnd"].to_list() == [11, 12, 13, 14] and flow.series["srtt_ms"].to_list() == [31, 32, 33, 34]
    assert flow.series["ssthresh"].to_list() == [20] * 4 and flow.series["in_flight"].to_list() == [7] * 4
    assert flow.series["retransmissions"].to_list() == [2] * 4
    assert (flow.figures["rtt_min_ms"], flow.figures["retransmissions"]) == (20.5, 8)


def test_ss_without_times_needs_an_interval(tmp_path: Path) -> None:
    text = rounds("", "", "")
    with pytest.raises(InputError, match=r"one\.txt:\d+: the time of each round is missing; .*--interval"):
        read(tmp_path, text)
    (flow,) = read(tmp_path, text, interval_s=0.5).flows
    assert flow.series["time_s"].to_list() == [0.5, 1.0]


def test_times_of_ss_that_go_back_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is before the last one"):
        read(tmp_path, rounds("1700000005", "1700000001"))


@pytest.mark.slow
def test_qlog_that_dumbbell_writes_says_what_the_run_measured(tmp_path: Path, command: Command) -> None:
    table = described(duration="5s", flows=[{"cc": "cubic", "base_rtt": "20ms"}], seeds=[1])
    (tmp_path / "one.toml").write_text(
        'duration = "5s"\n[bottleneck]\nrate = "10Mbit"\naqm = "codel"\n[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
    )
    assert command("trace", "one.toml", "-o", "q").returncode == 0
    (flow,) = formats.read(tmp_path / "q" / "flow-0.sqlog").flows
    (wanted,) = dumbbell.run(table).flows.to_dicts()
    for key, rel in (
        ("goodput_mbit", 0.01),
        ("rtt_mean_ms", 0.01),
        ("rtt_min_ms", 1e-3),
        ("rtt_p50_ms", 0.05),
        ("cwnd_mean", 0.05),
    ):
        assert flow.figures[key] == pytest.approx(wanted[key], rel=rel), key
    assert flow.figures["sent"] == wanted["sent"] and flow.figures["retransmissions"] == wanted["retransmissions"]
    assert flow.cc is not None and flow.cc.text == "cubic"


def test_qlog_of_another_stack(tmp_path: Path) -> None:
    """Contained JSON as of qlog 0.3: five packets of 1200 bytes, acknowledged after 25 ms; one is lost."""
    events: list[dict[str, Any]] = []
    for number in range(5):
        header = {"packet_type": "1RTT", "packet_number": number}
        frames = [{"frame_type": "stream", "stream_id": 0, "length": 1100}]
        events.append(
            {
                "time": number * 10.0,
                "name": "transport:packet_sent",
                "data": {"header": header, "raw": {"length": 1200}, "frames": frames},
            }
        )
    for number in (0, 1, 3, 4):
        ranges = [[0, min(number, 1)], [3, number]] if number > 1 else [[0, number]]
        frames = [{"frame_type": "ack", "acked_ranges": ranges}]
        data = {"header": {"packet_type": "1RTT", "packet_number": number}, "raw": {"length": 40}, "frames": frames}
        events.append({"time": number * 10.0 + 25, "name": "transport:packet_received", "data": data})
    metrics = {"congestion_window": 12000, "smoothed_rtt": 26.0, "min_rtt": 25.0, "latest_rtt": 25.0}
    events.append({"time": 60.0, "name": "recovery:metrics_updated", "data": metrics})
    lost = {"header": {"packet_type": "1RTT", "packet_number": 2}}
    events.append({"time": 66.0, "name": "recovery:packet_lost", "data": lost})
    trace = {"vantage_point": {"type": "client"}, "events": sorted(events, key=lambda one: one["time"])}
    (flow,) = read(tmp_path, json.dumps({"qlog_version": "0.3", "traces": [trace]}), "x.qlog").flows
    assert flow.figures["sent"] == 5 and flow.figures["retransmissions"] == 1
    assert flow.figures["goodput_mbit"] == pytest.approx(4 * 1100 * 8e-6 / 0.066)
    assert flow.figures["rtt_min_ms"] == 25.0 and flow.figures["cwnd_mean"] == 10.0


# what becomes of it


@pytest.mark.parametrize("name", ["near.pcap.gz", "far.pcap.gz", "upload.json", "upload.ss.txt"])
def test_an_imported_file_is_like_a_run(name: str, tmp_path: Path) -> None:
    found = imported(SAMPLES / name, tmp_path / "r.duckdb")
    row = found.runs.to_dicts()[0]
    assert row["engine_version"] == imported_tables.VERSION and row["seed"] == 1
    assert json.loads(row["imported"])["file"] == name
    config = json.loads(row["config"])
    assert sum(one["count"] for one in (*config["flows"], *config["udp"])) == found.flows.height
    # what no file knows has no value
    unknown = ("sojourn_mean_ms", "drops", "capacity_mbit", "utilisation", "aqm_counters")
    assert all(row[key] is None for key in unknown)
    assert found.flows["sojourn_mean_ms"].null_count() == found.flows.height
    assert found.measures("flows") and found.tidy().height == found.flows.height
    assert found.notes[0] == f"no run is of engine sim; shown are runs of {imported_tables.VERSION}"
    assert found.where("flow=0").table("goodput").cells[0][0] == "it"  # no key tells it from others: its experiment


def test_columns_have_the_types_that_engines_give_them(tmp_path: Path) -> None:
    ours = imported(SAMPLES / "near.pcap.gz", tmp_path / "r.duckdb")
    assert ours
    dumbbell.run(described(), output=tmp_path / "sim.duckdb")
    with Store.open(tmp_path / "r.duckdb") as one, Store.open(tmp_path / "sim.duckdb") as other:
        for table in TABLES:
            wanted, found = other.list_types(table), one.list_types(table)
            common = [column for column in wanted if column in found and column not in ("kernel",)]
            assert len(common) > 2 and {c: found[c] for c in common} == {c: wanted[c] for c in common}, table
            assert set(wanted) <= set(found) | {"wall_s"}, table


def together(
    rates: list[list[float]], starts: list[float], interval_s: float = 0.2, ends: list[float] | None = None
) -> dict[str, Any]:
    """Return table runs of flows with these goodputs in each interval, and their shares as `shares`."""
    times = [interval_s * (place + 1) for place in range(len(rates[0]))]
    flows = [
        ImportedFlow(
            str(number),
            start_s=start,
            end_s=ends[number] if ends else times[-1],
            is_over=ends is not None and ends[number] < times[-1],
            figures={"goodput_mbit": 2.0},
            series=pl.DataFrame({"time_s": times, "goodput_mbit": own}),
        )
        for number, (own, start) in enumerate(zip(rates, starts, strict=True))
    ]
    found = Measurement(flows, times[-1], interval_s)
    config = {"flows": [{"count": len(flows), "cc": {"name": "cubic"}, "base_rtt": 60_000_000}], "udp": []}
    made = imported_tables.make_tables(found, config | {"record": {"interval": 10**9}})
    return made["runs"].row(0, named=True) | {"shares": made["flows"]["share"].to_list()}


def test_shares_converge_as_engines_have_it() -> None:
    # the second flow comes to the queue half a base RTT after 1.03 s, so that the first whole interval begins at 1.2 s.
    # 3 s of (9, 1), then fair: of a window of 5 intervals 4 must be fair, 29 and 21: 50 ** 2 / (2 * (841 + 441)) is
    # 0.975; with 3 of them, 33 and 17, it is 0.907
    rates = [[9.0] * 21 + [5.0] * 30, [1.0] * 21 + [5.0] * 30]
    row = together(rates, [0.0, 1.03])
    last = 1.03 + 0.03
    assert row["convergence_s"] == pytest.approx(0.2 * 20 - last)
    assert row["common_s"] == pytest.approx(10.2 - last)
    # all since 1.2 s: 15 intervals of (9, 1), n of (5, 5): (135 + 5n, 15 + 5n) are 5 to 3.1 from n = 36 on
    assert row["convergence_cumulative_s"] is None
    # fair for a second is a coincidence
    assert (
        together([[9.0] * 21 + [5.0] * 5 + [1.0] * 25, [1.0] * 21 + [5.0] * 5 + [9.0] * 25], [0.0, 0.0])[
            "convergence_s"
        ]
        is None
    )
    # alone there are no shares, and intervals of 2 s do not tell
    assert together([[5.0] * 50], [0.0])["convergence_s"] is None
    assert together([[5.0] * 10, [5.0] * 10], [0.0, 0.0], interval_s=2.0)["convergence_s"] is None
    assert together([[5.0] * 10, [5.0] * 10], [0.0, 0.0], interval_s=1.0)["convergence_s"] == pytest.approx(0.97)


def test_shares_of_an_import_are_over_the_common_time() -> None:
    # the first had 2 s alone
    row = together([[9.0] * 10 + [6.0] * 10, [0.0] * 10 + [2.0] * 10], [0.0, 1.97])
    assert row["shares"] == pytest.approx([0.75, 0.25])
    assert row["jain"] == pytest.approx(64 / (2 * 40))
    # and it ended before the second began
    apart = together([[9.0] * 5 + [0.0] * 15, [0.0] * 10 + [2.0] * 10], [0.0, 2.0], ends=[1.0, 4.0])
    assert apart["shares"] == [None, None] and apart["jain"] is None and apart["common_s"] is None


def test_bins_of_histograms_are_those_of_the_engines(tmp_path: Path) -> None:
    found = imported(SAMPLES / "near.pcap.gz", tmp_path / "r.duckdb")
    column = dumbbell.results.columns.COLUMNS["flows"]["rtt_p50_ms"]
    assert found.rtt["samples"].sum() > 200
    for start in found.rtt["from_ms"].to_list():
        width = column.find_resolution(start * (1 + 1e-12))
        assert width is not None and start / width == pytest.approx(round(start / width), abs=1e-6)


def test_a_proposed_experiment_says_what_is_known_and_what_is_not() -> None:
    flow = ImportedFlow(
        "x",
        cc=SetupFact("reno", "it says so"),
        base_rtt=SetupFact("20ms", "minrtt"),
        end_s=9.9,
        figures={"goodput_mbit": 9.0, "rtt_p99_ms": 45.0},
    )
    other = dataclasses.replace(flow, name="y")
    found = Measurement([flow, other], 10.0, 0.1, title='A "test"', source={"format": "none"})
    made = setup.propose_file(found, "file.x", "file")
    table = tomllib.loads(made.text)
    assert table["flows"] == [{"cc": "reno", "base_rtt": "20ms", "count": 2}]
    assert table["title"] == 'A "test"' and table["duration"] == "10s" and table["record"] == {"interval": "0.1s"}
    # 18 Mbit/s of payload in frames; 25 ms of it are the buffer
    assert table["bottleneck"]["rate"] == "18.83Mbit"  # not below 18 * 1514 / 1448 = 18.8204
    assert table["bottleneck"]["aqm"] == {"name": "pfifo", "limit": round(0.025 * 18.83e6 / 8 / 1514)}
    assert made.known == ["duration", "flows[0].cc", "flows[0].base_rtt"]
    assert {text.partition(" = ")[0] for text in made.assumed} == {"bottleneck.rate", "bottleneck.aqm", "hosts.ecn"}
    assert table["hosts"] == {"ecn": False}  # as Linux has it by default
    found.queue = pl.DataFrame({"time_s": [1.0, 2.0], "ce_marks": [0, 3]})
    marked = setup.propose_file(found, "file.x", "file")
    assert tomllib.loads(marked.text)["hosts"] == {"ecn": True} and "hosts.ecn" in marked.known
    assert all("ASSUMED" in line for line in made.text.splitlines() if line.startswith(("rate", "aqm")))
    assert parse(table, "file").make_cell(0).cell_key == made.cell.cell_key


def test_controls_have_the_names_that_they_have_here() -> None:
    assert setup.match_control("bbr", "ss").text == "bbr1" and setup.match_control("BBR", "x").known
    unknown = setup.match_control("westwood", "sysctl")
    assert (unknown.text, unknown.known) == ("cubic", False) and "westwood" in unknown.source


@pytest.mark.parametrize(
    ("value", "text"),
    [(10e6, "10Mbit"), (1.5e9, "1.5Gbit"), (123456, "123kbit"), (999_999, "1Mbit"), (5, "5bit"), (1e12, "1000Gbit")],
)
def test_rates_are_written_as_files_have_them(value: float, text: str) -> None:
    assert setup.spell_rate(value) == text


def test_uploads_alone_pass_the_bottleneck() -> None:
    flow = ImportedFlow("u", direction="up", end_s=5, figures={"goodput_mbit": 1.0})
    found = Measurement(
        [flow], 5.0, 0.2, setup={"reverse.rate": SetupFact("2Mbit", "tc"), "bottleneck.rate": SetupFact("9Mbit", "tc")}
    )
    table = tomllib.loads(setup.propose_file(found, "f").text)
    assert table["bottleneck"]["rate"] == "2Mbit" and "reverse" not in table and "direction" not in table["flows"][0]


def test_rates_are_put_on_intervals_by_the_time_they_took() -> None:
    import numpy as np

    ends, spans, values = np.array([0.3, 0.9]), np.array([0.3, 0.6]), np.array([10.0, 1.0])
    found = measurement.compute_rates(ends, spans, values, np.array([0.2, 0.4, 0.6, 0.8, 1.0, 1.2]))
    assert found[:4] == pytest.approx([10, 5.5, 1, 1]) and found[4] == pytest.approx(0.5) and math.isnan(found[5])


# the command


@pytest.mark.slow
def test_from_a_capture_to_a_comparison_in_two_commands(tmp_path: Path, command: Command) -> None:
    (tmp_path / "far.pcap.gz").write_bytes((SAMPLES / "far.pcap.gz").read_bytes())
    first = command("import", "far.pcap.gz", "--run", "-o", "r.duckdb")
    assert first.returncode == 0 and first.stdout == "far.toml\n"
    assert (
        "1 run done" in first.stderr
        and "1 file imported:" in first.stderr
        and 'bottleneck.aqm = { name = "codel", ecn = true }' in first.stderr
    )
    second = command("table", "r.duckdb", "--engine", "all", "--value", "goodput")
    rows = [line for line in second.stdout.splitlines() if line.startswith(("| import-", "| 0."))]
    assert len(rows) == 2 and not any("0 of" in row for row in rows)
    third = command("diff", "r.duckdb", "--by", "engine_version")
    assert third.returncode in (0, 1) and "1 cell in both" in third.stdout
    for arguments in (
        ("plot", "--engine", "all"),
        ("plot", "--engine", "all", "--kind", "series"),
        ("plot", "--engine", "import"),
    ):
        assert command(arguments[0], "r.duckdb", *arguments[1:], "-o", "p.png").returncode == 0, arguments
    again = command("import", "far.pcap.gz", "-o", "r.duckdb")
    assert "0 files imported, 1 kept from before" in again.stderr


def test_keys_that_the_user_knows_better_are_set(tmp_path: Path, command: Command) -> None:
    (tmp_path / "far.pcap.gz").write_bytes((SAMPLES / "far.pcap.gz").read_bytes())
    settings = ("flows[*].cc=reno", "flows[0].ecn=false", "seeds=[7]", "hosts.mss=1000B", "bottleneck.rate=3Mbit")
    known = [word for setting in settings for word in ("--set", setting)]
    made = command("import", "far.pcap.gz", "--run", "-o", "r.duckdb", *known)
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "far.toml").read_text()
    table = tomllib.loads(text)
    assert {one["cc"] for one in table["flows"]} == {"reno"} and table["flows"][0]["ecn"] is False
    assert table["seeds"] == [7] and table["hosts"] == {"ecn": True, "mss": "1000B"}
    assert table["bottleneck"]["rate"] == "3Mbit" and "ASSUMED" not in text.split("rate =")[1].splitlines()[0]
    # the same again is no other file; another one is not written over it
    again = command("import", "far.pcap.gz", "--run", "-o", "r.duckdb", *known)
    assert again.returncode == 0 and "0 runs done, 1 kept from before" in again.stderr
    # a proposal is written again unless somebody changed it
    other = command("import", "far.pcap.gz", "--run", "-o", "r.duckdb", "--set", "bottleneck.aqm.limit=30")
    assert other.returncode == 0, other.stderr
    text = (tmp_path / "far.toml").read_text()
    assert tomllib.loads(text)["bottleneck"]["aqm"] == {"name": "codel", "ecn": True, "limit": 30}
    (tmp_path / "far.toml").write_text(text.replace("limit = 30", "limit = 40"))
    changed = command("import", "far.pcap.gz", "--run", "-o", "r.duckdb")
    assert changed.returncode == 2 and "this file already exists, and was changed" in changed.stderr


def test_flows_of_an_experiment_are_found_among_those_of_a_file(tmp_path: Path) -> None:
    def flow(name: str, rtt: str, cc: str | None = None, **more: Any) -> ImportedFlow:
        return ImportedFlow(name, cc=cc and SetupFact(cc, "said"), base_rtt=SetupFact(rtt, "seen"), end_s=9, **more)  # type: ignore[arg-type]

    ping, reno = flow("ping", "20ms", kind="ping"), flow("reno", "20ms", "reno")
    found = Measurement([flow("far", "81ms"), ping, reno, flow("late", "20ms", start_s=5)], 10.0, 0.2)
    experiment = parse(
        tomllib.loads(
            'duration = "10s"\n[bottleneck]\nrate = "9Mbit"\naqm = "codel"\n'
            '[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\nstart = "5s"\n[[flows]]\ncc = "reno"\nbase_rtt = "20ms"\n'
            '[[flows]]\ncc = "bbr3"\nbase_rtt = "80ms"\n[[udp]]\nrate = "8kbit"\necho = true\nbase_rtt = "20ms"\n'
        )
    )
    keep.match_experiment(tmp_path / "x", found, experiment.make_cell(0))
    assert [one.name for one in found.flows] == ["late", "reno", "far", "ping"]


def test_an_explanation_says_whose_flows_they_are_and_what_is_assumed(tmp_path: Path, command: Command) -> None:
    found = imported(SAMPLES / "near.pcap.gz", tmp_path / "r.duckdb")
    ends = found.flows.filter(pl.col("source").str.contains(":"))["source", "destination"].rows()
    text = command("explain", "r.duckdb").stdout
    assert len(ends) == 2 and all(f"{source} to {target}" in text for source, target in ends)
    assert "The file does not say which control its flows run: CUBIC is assumed." in text
    imported(SAMPLES / "upload.ss.txt", tmp_path / "s.duckdb")
    assert "is assumed" not in command("explain", "s.duckdb").stdout
    # so do tables and differences, whose rows have the name of the control
    said = f"cubic of engine {imported_tables.VERSION} is assumed: the file does not name the control"
    assert command("table", "r.duckdb").stdout.splitlines().count(said) == 1
    assert said not in command("table", "s.duckdb").stdout
    lines = command("diff", "r.duckdb", "s.duckdb", "--engine", "all").stdout.splitlines()
    assert f"A: {said}." in lines and f"B: {said}." not in lines
    config = {"flows": [{"cc": {"name": "bbr3"}}, {"cc": {"name": "reno"}}]}
    assert add_assumed_controls(config, '["flows[0].cc.name"]') == [config["flows"][1]]


def test_a_file_under_another_name_is_another_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.pcap").write_bytes(captures.pcap(bulk()))
        imported(tmp_path / f"{name}.pcap", tmp_path / "r.duckdb", name)
    assert len(dumbbell.open(tmp_path / "r.duckdb")) == 2


def test_shares_of_single_flows_are_compared_where_the_sum_is_the_same(tmp_path: Path, command: Command) -> None:
    (tmp_path / "far.pcap.gz").write_bytes((SAMPLES / "far.pcap.gz").read_bytes())
    assert command("import", "far.pcap.gz", "--run", "-o", "r.duckdb").returncode == 0
    compared = command("validate", "r.duckdb", "--engines", "--engine", "import").stdout
    shares = dumbbell.open(tmp_path / "r.duckdb", engine="all").flows.filter(pl.col("flow") == 0)["share"]
    assert f"the share differs by at most {abs(shares[0] - shares[1]):.2g}: flow " in compared
    pairs = [
        engines.EnginePair(name, ("reno",), 1.0, (), (), (1, 1), shares)
        for name, shares in (("one", ((0.6, 0.3, 0.1), (0.5, 0.2, 0.3))), ("two", ((1.0,), (1.0,))))
    ]
    assert "at most 0.2: flow 2 of one" in engines.describe_sharing(engines.EngineComparison(("a", "b"), pairs, 0))
    assert not engines.describe_sharing(engines.EngineComparison(("a", "b"), pairs[1:], 0))


def test_repetitions_are_seeds_of_one_experiment(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / f"run{number}.ss.txt"
        path.write_text(rounds(*(f"{1700000000 + number + step}" for step in range(4))))
        paths.append(path)
    keep.keep(tmp_path / "r.duckdb", [keep.propose_experiment(path, formats.read(path), "test") for path in paths[:2]])
    keep.keep(tmp_path / "r.duckdb", [keep.propose_experiment(path, formats.read(path), "test") for path in paths[1:]])
    found = dumbbell.open(tmp_path / "r.duckdb")
    assert (len(found), found.seeds, len(found.configurations)) == (3, [1, 2, 3], 1)


def test_a_section_that_only_some_set_ups_have_distinguishes_them(tmp_path: Path) -> None:
    back = bulk(rounds=12, hosts=("10.0.0.2", "10.0.0.1"), ports=(40002, 5201))
    both = sorted([*bulk(rounds=30), *back], key=lambda one: one.time)
    for name, frames in (("one", bulk(rounds=30)), ("both", both)):
        (tmp_path / f"{name}.pcap").write_bytes(captures.pcap(frames))
        imported(tmp_path / f"{name}.pcap", tmp_path / "r.duckdb", "same")
    found = dumbbell.open(tmp_path / "r.duckdb")
    texts = {text for one in found._runs.dimensions for text in one.texts.values()}
    assert len(found.configurations) == 2 and texts
    assert found.where(direction="up").flows.height == 1


def test_a_file_may_be_the_measurement_of_an_experiment(tmp_path: Path, command: Command) -> None:
    (tmp_path / "up.ss.txt").write_text(rounds(*(f"{1700000000 + step}" for step in range(4))))
    experiment = (
        'duration = "3s"\n[bottleneck]\nrate = "10Mbit"\naqm = "codel"\n[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
    )
    (tmp_path / "lab.toml").write_text(experiment)
    assert command("import", "up.ss.txt", "--as", "lab.toml", "-o", "r.duckdb").returncode == 0
    assert command("run", "lab.toml", "-o", "r.duckdb").returncode == 0
    found = dumbbell.open(tmp_path / "r.duckdb", engine="all")
    assert found.runs["cell"].n_unique() == 1 and len(found) == 2
    assert found.runs.filter(pl.col("engine_version") == imported_tables.VERSION)["experiment"].to_list() == ["lab"]
    compared = command("validate", "r.duckdb", "--engines", "--engine", "import")
    assert compared.returncode == 0 and "the only cell" in compared.stdout and "nan" not in compared.stdout
    two = command("import", "up.ss.txt", "--as", "lab.toml", "--set", "flows[0].count=2", "-o", "s.duckdb")
    assert two.returncode == 2 and "the file has 1 flow of TCP or QUIC, and lab has 2" in two.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.pcap"], "none.pcap: no such file or directory"),
        (["."], "this is a directory"),
        (["empty.json"], "empty.json: the file is empty"),
        (["text.txt"], 'text.txt: it begins with "hello"'),
        (["other.json"], "this is JSON of something else"),
        (["bad.json"], "this is JSON that is cut off or damaged"),
        (["failed.json"], "the test failed: unable to connect"),
        (["up.ss.txt", "--interval", "5"], "--interval"),
        (["up.ss.txt", "--interval", "2h"], "it must be a time from 1ms to 1h"),
        (["up.ss.txt", "--as", "x.toml", "--run"], "--as and --run"),
        (["up.ss.txt", "--set", "a=1"], "unknown key a"),
        (["up.ss.txt", "--set", "flows[7].cc=reno"], "--set is flows[7].cc; it must be a key of the proposed file"),
        (["up.ss.txt", "--propose", "up.ss.txt/x.toml"], "choose a folder, which is made, or a file ending in .toml"),
        (
            ["up.ss.txt", "--as", "two.toml"],
            """one with --set 'reverse.aqm, bottleneck.aqm=[["codel", "pie"]]', with""",
        ),
        (["up.ss.txt", "--propose", "there.toml"], "this file already exists"),
        (["up.ss.txt", "-o", "none/r.duckdb"], "there is no folder none"),
        (["up.ss.txt", "-o", "text.txt"], "text.txt"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(arguments: list[str], words: str, tmp_path: Path, command: Command) -> None:
    for name, text in {
        "empty.json": "", "text.txt": "hello", "other.json": '{"a": 1}', "bad.json": '{"a": ', "there.toml": "",
        "failed.json": '{"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}',
        "up.ss.txt": rounds("1700000000", "1700000001"),
        "two.toml": '[bottleneck]\nrate = "10Mbit"\n[reverse]\nrate = "10Mbit"\n'
            '[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
            '[matrix]\n"reverse.aqm, bottleneck.aqm" = [["codel", "pie"], ["pie", "codel"]]\n',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    done = command("import", *arguments)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "results.duckdb").exists() and not done.stdout


# junk

NUMBERS = st.integers(-(2**70), 2**70) | st.floats() | st.none() | st.booleans()
WORDS = st.sampled_from(
    ["rtt", "val", "t", "TCP upload", "Ping (ms) ICMP", "streams", "socket", "1Mbit", "", "\n", "tcp_cwnd"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    NUMBERS | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def read_or_told(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    try:
        found = formats.read(path)
        one = keep.propose_experiment(path, found, "junk")
    except InputError as error:
        assert is_clear(error) and name in str(error), str(error)
        return
    assert keep.make_rows(one, 1, 0)["runs"].height == 1


def fuzz(number: int) -> settings:
    checks = [HealthCheck.function_scoped_fixture]
    return settings(max_examples=examples(number), deadline=None, suppress_health_check=checks)


def altered(base: Any, path: list[int], value: Any) -> Any:
    """Return a JSON value with one part replaced, found by a walk along `path`."""
    if not path or not isinstance(base, dict | list) or not base:
        return value
    if isinstance(base, dict):
        key = sorted(base, key=str)[path[0] % len(base)]
        return {**base, key: altered(base[key], path[1:], value)}
    place = path[0] % len(base)
    return [*base[:place], altered(base[place], path[1:], value), *base[place + 1 :]]


def flent(**changes: Any) -> dict[str, Any]:
    meta = {
        "NAME": "tcp_nup",
        "T0": "2020-01-01T00:00:00.0Z",
        "STEP_SIZE": 0.2,
        "SERIES_META": {"TCP upload::1": {"UNITS": "Mbits/s"}},
    }
    raw = [{"t": 1577836800.2 + n / 5, "val": 1.0 + n, "dur": 0.2, "tcp_rtt": 30.0, "tcp_cwnd": 9} for n in range(4)]
    series = {"TCP upload::1": [1.0, 2.0, 3.0, None], "Ping (ms) ICMP": [20.0, None, 30.0, 25.0]}
    whole = {
        "version": 4,
        "x_values": [0.2, 0.4, 0.6, 0.8],
        "results": series,
        "raw_values": {"TCP upload::1": raw},
        "metadata": meta,
    }
    return whole | changes


@pytest.mark.slow
@fuzz(150)
@given(path=st.lists(st.integers(0, 5), max_size=5), value=JSON)
def test_a_file_of_flent_with_anything_in_it_is_read_or_told(path: list[int], value: Any, tmp_path: Path) -> None:
    read_or_told(tmp_path, json.dumps(altered(flent(), path, value)).encode(errors="surrogatepass"), "junk.flent")


@pytest.mark.slow
@fuzz(150)
@given(path=st.lists(st.integers(0, 8), max_size=6), value=JSON)
def test_a_file_of_iperf3_with_anything_in_it_is_read_or_told(path: list[int], value: Any, tmp_path: Path) -> None:
    base = json.loads((SAMPLES / "upload.json").read_text())
    base["intervals"] = base["intervals"][:2]
    read_or_told(tmp_path, json.dumps(altered(base, path, value)).encode(errors="surrogatepass"), "junk.json")


@pytest.mark.slow
@fuzz(150)
@given(
    place=st.integers(0, 10**6),
    junk=st.binary(max_size=6),
    kind=st.sampled_from(["pcap", "pcapng", "ss", "qlog", "gz"]),
)
def test_any_file_with_some_bytes_replaced_is_read_or_told(place: int, junk: bytes, kind: str, tmp_path: Path) -> None:
    frames = bulk(rounds=4, lost=(5,))
    base = {
        "pcap": captures.pcap(frames),
        "pcapng": captures.pcapng(frames),
        "ss": rounds(*TIMES).encode(),
        "qlog": b'\x1e{"file_schema":"x","trace":{}}\n\x1e{"time":1.5,"name":"quic:recovery_metrics_updated",'
        b'"data":{"smoothed_rtt":20.5}}\n',
        "gz": gzip.compress(json.dumps(flent()).encode(), mtime=0),
    }[kind]
    place %= len(base)
    read_or_told(tmp_path, base[:place] + junk + base[place + len(junk) :], f"junk.{kind}")


HEADS = [b"", b"\xd4\xc3\xb2\xa1", b"\n\r\r\n", b"\x1f\x8b", b"\x1e", b"{", b"ESTAB 0 0 "]


@fuzz(100)
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode), head=st.sampled_from(HEADS))
def test_any_bytes_are_read_or_told(content: bytes, head: bytes, tmp_path: Path) -> None:
    read_or_told(tmp_path, head + content, "junk.bin")
