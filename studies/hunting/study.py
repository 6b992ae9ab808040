"""Hunts: the worst small networks found for each congestion control, a known bug found again, and runs on Linux."""

import json
import tomllib
from functools import partial
from typing import Any

import polars as pl

from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    describe_runs,
    figures,
    list_durations,
    order_names,
    shipped,
)

from . import networks

QUESTION = "In which small networks do congestion controls behave worst, and does Linux do the same there?"
RUNS = (
    Sweep("found.duckdb", ("found", "found-reverse")),
    Sweep("stacks.duckdb", ("stacks*",)),
    Sweep("both.duckdb", ("both", "both-reverse")),
    Sweep("hystart.duckdb", ("hystart",)),
    Sweep("stretch.duckdb", ("stretch",)),
    Sweep("policer.duckdb", ("policer",)),
    Sweep("send-buffer.duckdb", ("send-buffer",)),
    Sweep("small-buffer.duckdb", ("small-buffer",)),
    Sweep("small-buffer-linux.duckdb", ("small-buffer",), engine="linux"),
    Sweep("prague.duckdb", ("prague",)),
    Sweep("prague-linux.duckdb", ("prague",), engine="linux:l4s"),
    Sweep("marks.duckdb", ("marks",)),
    Sweep("marks-linux.duckdb", ("marks",), ('flows[0].cc=["bbr3"]',), engine="linux:bbr3"),
    Sweep("send-buffer-linux.duckdb", ("send-buffer",), engine="linux"),
    Sweep("policer-linux.duckdb", ("policer",), ('flows[0].cc=["bbr1", "cubic"]',), engine="linux"),
    Sweep("both-linux.duckdb", ("both", "both-reverse"), engine="linux"),
    Sweep("bbr3.duckdb", ("bbr3*",)),
    Sweep("bbr3-linux.duckdb", ("bbr3*",), engine="linux:bbr3"),
    Sweep("l4s.duckdb", ("l4s*",)),
    Sweep("l4s-linux.duckdb", ("l4s*",), engine="linux:l4s"),
    Sweep("late.duckdb", ("late",)),
    Sweep("late-linux.duckdb", ("late",), ('flows[1].cc=["bbr3", "cubic"]',), engine="linux:bbr3"),
    Sweep("rounds.duckdb", ("rounds",)),
    Sweep("stall.duckdb", ("stall",)),
    Sweep("stall-linux.duckdb", ("stall",), engine="linux:l4s"),
)
CONTROLS = {
    "reno": "Reno",
    "cubic": "CUBIC",
    "bbr1": "BBRv1",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "bbr-draft": "the draft's BBR",
    "dctcp": "DCTCP",
    "prague": "Prague",
    "ledbat": "LEDBAT",
    "ledbat-pp": "LEDBAT++",
    "reno-sce": "Reno-SCE",
    "cubic-sce": "Cubic-SCE",
    "dctcp-sce": "DCTCP-SCE",
    "quinn-0.11.19-bbr": "quinn's BBR",
    "quinn-0.11.19-cubic": "quinn's CUBIC",
    "noq-1.4.0-bbr3": "noq's BBRv3",
    "noq-1.4.0-cubic": "noq's CUBIC",
    "picoquic-1.1.52.0-bbr": "picoquic's BBRv3",
    "picoquic-1.1.52.0-cubic": "picoquic's CUBIC",
    "picoquic-1.1.52.0-c4": "picoquic's C4",
}
# settings of hunts and rules of kernels, which no run of the page decides
NAMES = (
    *(
        r"at least 90 % of the way",
        r"within 2 ms",
        r"Since 5\.6",
        r"in 5\.6",
        r"until 4\.0",
        r"from 12 s on",
        r"a fifth of",
    ),
    *(r"one second and of four", r"for 48 round trips", r"Two equal flows", r"two equal flows", r"three starts"),
    *(r"at 200 Mbit/s", r"at 20 Mbit/s", r"at 200 ms", r"flows at four", r"up to 100 ms later", r"four kernels"),
    *(r"at 50 Mbit/s and 200 ms", r"five starts", r"half of the (?:link|RTT)", r"twice the window", r"two intervals"),
    *(r"four round trips", r"Half of the link", r"one second", r"median candidate to the worst", r"[Tt]he worst"),
    *(
        r"the smaller share",
        r"the first 50",
        r"two BBRv2 flows",
        r"one Prague flow",
        r"packets of one flow",
        r"line 3\d\d",
        r"by one segment per",
        r"rises by 100 ms",
        r"for ten seconds",
        r"the first mark",
        r"half of alpha",
        r"begins at 0",
        r"at 6 s",
        r"from 8 s on",
        r"at most 5 ms",
        r"RTT of 5 ms",
        r"two flows over PIE",
        r"three controls of SCE",
        r"the worst networks",
        r"Each worst network",
        r"ede656e84658",
        r"one seed",
        r"at most 10 %",
        r"one start",
    ),
    *(
        r"50 Mbit/s and 200 ms",
        r"base RTT of 6 ms",
        r"with 20 ms",
        r"for four seconds",
        r"two seconds after UDP",
        r"10 Gbit/s",
        r"30 % of the packets arrive 20 ms late",
    ),
    *(r"two BBRv3 flows of 200 ms", r"after 5 s", r"from 20 s on", r"two such windows", r"gain of 2"),
    *(r"512/256", r"have 2\.89", r"739/256", r"0\.1 Mbit/s", r"in 25 ms", r"half of 25 ms"),
    *(
        r"target of 100 ms",
        r"a third later one",
        r"four flows of quinn",
        r"200 packets of 1200 bytes",
        r"quinn-proto 0\.11\.19",
    ),
)
CRITERIA = ("start", "use", "use-ecn", "use-sce", "equal", "harm", "queue", "loss", "short")
MEASURES = {
    "start": "utilisation",
    "use": "utilisation",
    "use-ecn": "utilisation",
    "use-sce": "utilisation",
    "equal": "smaller goodput over an equal part",
    "harm": "share next to CUBIC",
    "queue": "median time in queue, ms",
    "loss": "share of dropped packets",
    "short": "completion beyond slow start, s",
}
KINDS_OF_LINK = {"link": "serial link", "htb": "HTB"}
INSTEAD = "CUBIC instead"


def name_control(name: str) -> str:
    """Return a control in words."""
    return CONTROLS.get(name, name)


# evidence


def read_hunts() -> pl.DataFrame:
    """Return the hunts: how many candidates, their values, and the networks that they found."""
    return pl.read_csv(shipped.list_studies()["hunting"] / "searches" / "hunts.csv")


def is_beyond(value: str, bar: str) -> pl.Expr:
    """Return whether a value of a hunt is worse than another one: in the direction from its median to its worst."""
    toward = (pl.col("worst") - pl.col("median")).sign()
    return ((pl.col(value) - pl.col(bar)) * toward > 0).fill_null(value=False)


def collect_values(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of a network that was found: criterion, control, whether CUBIC stands in, seed, value."""
    keys = {"rate": "bottleneck.rate", "duration": "duration"}
    runs = (
        results.tidy("runs", keys)
        .join(
            results.runs.select(
                "key", setting=pl.Series([json.loads(one).get("setting", "") for one in results.runs["matrix"]])
            ),
            on="key",
        )
        .filter(pl.col("setting") != "")
    )
    flows = results.frame("flows").filter(pl.col("cc") != "udp")
    of_runs = {key[0]: part.sort("flow") for key, part in flows.group_by("key")}
    rows = []
    for run in runs.iter_rows(named=True):
        for setting in run["setting"].split(networks.BOTH):
            words = setting.split(", ")
            value = measure_run(words[0], run, of_runs[run["key"]])
            rows.append((run["experiment"], words[0], words[1], INSTEAD in words, engine, run["seed"], value))
    names = ("experiment", "criterion", "control", "instead", "engine", "seed", "value")
    return pl.DataFrame(rows, schema=names, orient="row").sort(*names[:-1])


def measure_run(criterion: str, run: dict[str, Any], flows: pl.DataFrame) -> float:
    """Return the value of a run by a criterion, as the search file of the criterion measures it."""
    goodput = flows["goodput_mbit"].to_list()
    match criterion:
        case "start" | "use" | "use-ecn" | "use-sce":
            return float(run["utilisation"])
        case "equal":
            return float(min(goodput) / (sum(goodput) / len(goodput)))
        case "harm":
            own = sum(goodput[:-1]) / (len(goodput) - 1)
            return float(own / (own + goodput[-1]))
        case "queue":
            return float(run["sojourn_p50_ms"])
        case "loss":
            return float(run["drop_share"])
    flow = flows.row(0, named=True)
    segments = flow["sent"] - flow["retransmissions"]
    rounds = 2 + (segments // 10 + 1).bit_length() - 1
    ideal = flow["base_rtt_ms"] / 1e3 * rounds + segments * 0.012112 / run["rate"]
    done = flow["completion_s"]
    return float((run["duration"] if done is None or done != done else done) - ideal)


def collect_starts(results: Results) -> pl.DataFrame:
    """Return one row per run of one CUBIC flow: kernel, pacing, utilisation, and when and why slow start ended."""
    rows = results.tidy("runs", {"kernel": "hosts.profile", "pacing": "hosts.pacing"})
    ends = results.frame("flows").select("key", end="slow_start_exit_s", cause="slow_start_exit")
    return (
        rows.join(ends, on="key")
        .select("kernel", "pacing", "seed", "end", "cause", use="utilisation")
        .sort("kernel", "pacing", "seed")
    )


def collect_memory(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of a flow that its send buffer may limit: buffer in MiB, utilisation, retransmissions."""
    rows = results.tidy("runs", {"buffer": "hosts.send_buffer", "cc": "flows[0].cc.name"})
    buffer, control = pl.col("buffer") / 2**20, pl.col("cc").replace(CONTROLS)
    found = rows.select(control, buffer, "seed", "retransmissions", use="utilisation", engine=pl.lit(engine))
    return found.sort("cc", "buffer", "seed")


def collect_room(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run over a buffer of a few packets: its packets, the kind of link, share of drops."""
    rows = results.tidy("runs", {"limit": "bottleneck.aqm.limit", "shaper": "bottleneck.shaper"})
    found = rows.select("shaper", pl.col("limit").cast(pl.Int64), "seed", drops="drop_share", engine=pl.lit(engine))
    return found.sort("shaper", "limit", "seed")


def collect_marks(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of two flows with and without ECN: control, median time in queue in ms, shares."""
    rows = results.tidy("runs", {"cc": "flows[0].cc.name", "ecn": "hosts.ecn"})
    found = rows.select(
        pl.col("cc").replace(CONTROLS),
        "ecn",
        "seed",
        *("mark_share", "drop_share"),
        queue="sojourn_p50_ms",
        use="utilisation",
        engine=pl.lit(engine),
    )
    return found.sort("cc", "ecn", "seed")


def collect_prague(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of one Prague flow: whether ACKs are delayed, median time in queue in ms, utilisation."""
    rows = results.tidy("runs", {"delayed": "hosts.delayed_ack"})
    return rows.select("delayed", "seed", queue="sojourn_p50_ms", use="utilisation", engine=pl.lit(engine)).sort(
        "delayed", "seed"
    )


def collect_late(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of a flow that starts into a queue: control, gain of STARTUP, share, end of slow start.

    The share is that of the goodput of both flows; the slow start ends so many s after the start.
    """
    gains = ("startup_cwnd_gain", "default_cwnd_gain", "startup_gain")  # BBRv2 and BBRv3, the draft, BBRv1
    rows = results.tidy("runs", {"cc": "flows[1].cc.name", **{one: f"flows[1].cc.{one}" for one in gains}})
    flows = results.frame("flows").filter(pl.col("cc") != "udp").sort("flow")
    of_runs = flows.group_by("key").agg(
        share=pl.col("goodput_mbit").last() / pl.col("goodput_mbit").sum(), end=pl.col("slow_start_exit_s").last()
    )
    gain = pl.coalesce(gains)
    both = rows.join(of_runs, on="key").with_columns(pl.col("cc").replace(CONTROLS), gain=gain, engine=pl.lit(engine))
    found = both.select("cc", "gain", "seed", "share", "end", "engine", queue="sojourn_p50_ms")
    return found.sort("cc", "gain", "seed")


def collect_rounds(results: Results) -> pl.DataFrame:
    """Return one row per round of the second flow's STARTUP: gain of its window, window, RTT, estimates.

    The values are those at the end of the round: the window in segments, the smoothed and the smallest RTT in ms, the
    largest delivery rate in Mbit/s.
    """
    rows = results.tidy("runs", {"gain": "flows[1].cc.startup_cwnd_gain"}).select("key", "gain")
    trace = results.frame("trace").filter(flow=1, state="startup").join(rows, on="key").sort("time_s")
    ends = trace.filter(pl.col("round") > 0).group_by("gain", "round").last()
    found = ends.select("gain", "round", "cwnd", rtt="srtt_ms", least="min_rtt_ms", rate="max_bw_mbit")
    return found.sort("gain", "round")


def collect_stall(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of Prague after a burst of UDP: whether ACKs are delayed, base RTT in ms, use, marks."""
    rows = results.tidy("runs", {"delayed": "hosts.delayed_ack", "rtt": "flows[0].base_rtt"})
    found = rows.select("delayed", "rtt", "seed", use="utilisation", marks="ce_marks", engine=pl.lit(engine))
    return found.sort("delayed", "rtt", "seed")


def collect_bursts(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run with a burst of UDP: control, end of the burst in s, and utilisation after it."""
    rows = results.tidy("runs", {"cc": "flows[0].cc.name", "stop": "udp[0].stop"})
    chosen = rows.filter(pl.col("experiment").str.starts_with("policer"))
    return chosen.select(pl.col("cc").replace(CONTROLS), "stop", "seed", use="utilisation", engine=pl.lit(engine)).sort(
        "cc", "stop", "seed"
    )


def collect_goodput(results: Results, engine: str) -> pl.DataFrame:
    """Return the goodput of BBRv1 over time, s, as means over seeds, with the burst that ends at 10 s."""
    rows = results.tidy("runs", {"cc": "flows[0].cc.name", "stop": "udp[0].stop"})
    chosen = rows.filter(pl.col("experiment").str.starts_with("policer"), cc="bbr1").select("key", "stop", "seed")
    series = results.frame("series").filter(flow=0).join(chosen, on="key")
    means = series.group_by("stop", "time_s").agg(
        goodput=pl.col("goodput_mbit").mean(), seeds=pl.col("seed").n_unique()
    )
    return means.select("stop", "time_s", "goodput", "seeds", engine=pl.lit(engine)).sort("stop", "time_s")


def collect_acks(results: Results) -> pl.DataFrame:
    """Return one row per run of one flow whose acknowledgements pass a thin queue: kernel, control, utilisation."""
    rows = results.tidy("runs", {"kernel": "hosts.profile", "cc": "flows[0].cc.name"})
    return rows.select("kernel", pl.col("cc").replace(CONTROLS), "seed", use="utilisation").sort("kernel", "cc", "seed")


def make_evidence(
    found: Results,
    stacks: Results,
    both: Results,
    starts: Results,
    acks: Results,
    bursts: Results,
    memory: Results,
    room: Results,
    room_linux: Results,
    prague: Results,
    prague_linux: Results,
    marks: Results,
    marks_linux: Results,
    memory_linux: Results,
    bursts_linux: Results,
    linux: Results,
    both_bbr3: Results,
    linux_bbr3: Results,
    both_l4s: Results,
    linux_l4s: Results,
    late: Results,
    late_linux: Results,
    rounds: Results,
    stall: Results,
    stall_linux: Results,
) -> dict[str, Any]:
    """Return what the page rests on."""
    return {
        "hunts": read_hunts(),
        "values": pl.concat(
            [
                *(collect_values(one, "simulator") for one in (found, stacks, both, both_bbr3, both_l4s)),
                *(collect_values(one, "Linux") for one in (linux, linux_bbr3, linux_l4s)),
            ]
        ),
        "starts": collect_starts(starts),
        "acks": collect_acks(acks),
        "memory": pl.concat([collect_memory(memory, "simulator"), collect_memory(memory_linux, "Linux")]),
        "room": pl.concat([collect_room(room, "simulator"), collect_room(room_linux, "Linux")]),
        "prague": pl.concat([collect_prague(prague, "simulator"), collect_prague(prague_linux, "Linux")]),
        "marks": pl.concat([collect_marks(marks, "simulator"), collect_marks(marks_linux, "Linux")]),
        "late": pl.concat([collect_late(late, "simulator"), collect_late(late_linux, "Linux")]),
        "rounds": collect_rounds(rounds),
        "stall": pl.concat([collect_stall(stall, "simulator"), collect_stall(stall_linux, "Linux")]),
        "bursts": pl.concat([collect_bursts(bursts, "simulator"), collect_bursts(bursts_linux, "Linux")]),
        "goodput": pl.concat([collect_goodput(bursts, "simulator"), collect_goodput(bursts_linux, "Linux")]),
    }


# facts


def summarise_hunts(found: Evidence) -> pl.DataFrame:
    """Return one row per hunt: its values, and means and ranges of its network with other seeds.

    `is_found` says whether the worst candidate is worse than the median candidate with more seeds, too. `is_bad` says
    whether the mean is as bad as the limit of the hunt, `instead` is the mean of CUBIC in its place.
    """
    values = found["values"].filter(pl.col("experiment").str.contains("^(found|stacks)"))
    by = ["criterion", "control"]
    own = (
        values.filter(~pl.col("instead"))
        .group_by(by)
        .agg(again=pl.col("value").mean(), low=pl.col("value").min(), high=pl.col("value").max())
    )
    cubic = values.filter("instead").group_by(by).agg(instead=pl.col("value").mean())
    both = found["hunts"].join(own, on=by, how="left").join(cubic, on=by, how="left")
    order = order_names("criterion", CRITERIA), order_names("control", CONTROLS)
    return both.with_columns(is_found=is_beyond("limit", "median"), is_bad=~is_beyond("limit", "again")).sort(*order)


def compare_engines(found: Evidence) -> pl.DataFrame:
    """Return one row per network that ran on both engines: means and ranges over seeds, and their difference.

    `apart` says that the ranges do not overlap.
    """
    values = found["values"].filter(pl.col("experiment").str.contains("^(both|bbr3|l4s)"))
    by = ["criterion", "control"]
    value = pl.col("value")
    means = values.group_by(*by, "engine").agg(mean=value.mean(), low=value.min(), high=value.max(), n=pl.len())
    sim, linux = (means.filter(engine=name).drop("engine") for name in ("simulator", "Linux"))
    both = sim.join(linux, on=by, suffix="_linux")
    apart = (pl.col("low") > pl.col("high_linux")) | (pl.col("low_linux") > pl.col("high"))
    order = order_names("criterion", CRITERIA), order_names("control", CONTROLS)
    return both.with_columns(ratio=pl.col("mean_linux") / pl.col("mean"), apart=apart).sort(*order)


def average_bursts(found: Evidence) -> pl.DataFrame:
    """Return means, smallest and largest utilisation after a burst, by engine, control and end of the burst."""
    use = pl.col("use")
    return (
        found["bursts"]
        .group_by("engine", "cc", "stop")
        .agg(mean=use.mean(), low=use.min(), high=use.max(), n=pl.len())
        .sort("engine", "cc", "stop")
    )


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for in addition to the tables."""
    hunts = summarise_hunts(found)
    is_stack = pl.col("control").is_in([CONTROLS[one] for one in networks.STACKS])
    named = hunts.with_columns(pl.col("control").replace(CONTROLS))
    return {
        "n_controls": hunts["control"].n_unique(),
        "n_stacks": len(set(hunts["control"]) & set(networks.STACKS)),
        "n_criteria": hunts["criterion"].n_unique(),
        "own": Rows("own", named.filter(~is_stack)),
        "of_stacks": Rows("of_stacks", named.filter(is_stack)),
        "found": Rows("found", named.filter("is_found")),
        "nothing": Rows("nothing", named.filter(~pl.col("is_found"))),
        "engines": Rows("engines", compare_engines(found)),
        "bursts": Rows("bursts", average_bursts(found)),
        "starts": Rows("starts", found["starts"]),
        "acks": Rows("acks", found["acks"]),
        "memory": Rows("memory", found["memory"]),
        "room": Rows("room", found["room"]),
        "marks": Rows("marks", found["marks"]),
        "prague": Rows("prague", found["prague"]),
        "late": Rows("late", found["late"]),
        "stall": Rows("stall", found["stall"]),
        "rounds": Rows("rounds", found["rounds"]),
    }


# tables


def describe_network(text: str) -> str:
    """Return a network in few words, from the table that makes it."""
    table = tomllib.loads(f"value = {text}")["value"]
    parts = [_describe_hop(table["bottleneck"])]
    for flow in table["flows"]:
        words = [f"{flow['count']} flows" if flow.get("count", 1) > 1 else "", flow["base_rtt"]]
        words += [f"from {flow['start']}" if "start" in flow else "", flow.get("size", "")]
        words += ["ECN"] if flow.get("ecn") else []
        stages = [_describe_stage(one) for key in ("path", "ack_path") for one in flow.get(key, [])]
        cc = flow["cc"] if isinstance(flow["cc"], str) else flow["cc"]["name"]
        cc = f"{flow['stack']}-{cc}" if "stack" in flow else cc
        parts.append(" ".join([name_control(cc), *filter(None, words), *stages]))
    if "reverse" in table:
        parts.append(f"acknowledgements over {_describe_hop(table['reverse'])}")
    for udp in table.get("udp", []):
        times = [f"{word} {udp[key]}" for key, word in (("start", "from"), ("stop", "to")) if key in udp]
        parts.append(" ".join([f"UDP of {udp['rate']}", *times]))
    hosts = table.get("hosts", {})
    parts += [
        "ECN" if key == "ecn" else f"{value} {key}" if key != "profile" else str(value)
        for key, value in hosts.items()
        if value is not False
    ]
    return "; ".join(parts)


def _describe_hop(hop: dict[str, Any]) -> str:
    aqm = hop["aqm"] if isinstance(hop["aqm"], str) else " ".join(map(str, hop["aqm"].values()))
    later = [f"{one['rate']} from {one['at']}" for one in hop.get("rate_changes", [])]
    return " ".join([hop.get("rate", "10Mbit"), aqm, hop.get("buffer", ""), *later]).replace("  ", " ").strip()


def _describe_stage(stage: Any) -> str:
    if isinstance(stage, str):
        return f"{stage} of 1ms" if stage == "jitter" else stage
    return " ".join(str(value) for value in stage.values())


def format_budgets(found: Evidence) -> str:
    """Return how many candidates each hunt measured: a row per control, a column per criterion."""
    measured = {(row["criterion"], row["control"]): row["measured"] for row in found["hunts"].iter_rows(named=True)}
    controls = [one for one in CONTROLS if any(control == one for _, control in measured)]
    rows = [[name_control(one), *(str(measured.get((kind, one), "-")) for kind in CRITERIA)] for one in controls]
    return align_table(["control", *CRITERIA], rows, words=(0,))


def format_finds(found: Evidence, criterion: str) -> str:
    """Return the networks that the hunts of a criterion found."""
    rows = [
        [
            name_control(row["control"]),
            describe_network(row["table"]),
            f"{row['median']:.3g}",
            f"{row['value']:.3g}",
            f"{row['again']:.3g} ({row['low']:.3g} to {row['high']:.3g})",
            "-" if row["instead"] is None else f"{row['instead']:.3g}",
        ]
        if row["is_found"]
        else [name_control(row["control"]), "nothing found", f"{row['median']:.3g}", "-", "-", "-"]
        for row in summarise_hunts(found).filter(criterion=criterion).iter_rows(named=True)
    ]
    _, comma, unit = MEASURES[criterion].rpartition(", ")
    header = ["first candidates, median", "small network, seeds of the hunt", "other seeds and starts (range)"]
    values = [f"{one}{comma}{unit if comma else ''}" for one in (*header, "CUBIC instead")]
    return align_table(["control", "small network", *values], rows, words=(0, 1, 4))


def format_engines(found: Evidence) -> str:
    """Return the networks that ran on both engines."""
    rows = [
        [
            MEASURES[row["criterion"]],
            name_control(row["control"]),
            f"{row['mean']:.3g} ({row['low']:.3g} to {row['high']:.3g})",
            f"{row['mean_linux']:.3g} ({row['low_linux']:.3g} to {row['high_linux']:.3g})",
            str(row["n_linux"]),
            "yes" if row["apart"] else "",
        ]
        for row in compare_engines(found).iter_rows(named=True)
    ]
    return align_table(
        ["measure", "control", "simulator", "Linux", "starts on Linux", "ranges apart"], rows, words=(0, 1, 2, 3, 5)
    )


def format_bursts(found: Evidence) -> str:
    """Return utilisation after a burst of UDP on both engines."""
    rows = [
        [row["cc"], f"{row['stop']:g}", row["engine"], f"{row['mean']:.3f}", f"{row['low']:.3f}", f"{row['high']:.3f}"]
        for row in average_bursts(found).sort("cc", "stop", "engine").iter_rows(named=True)
    ]
    header = ["control", "end of the burst, s", "engine", "utilisation, mean", "smallest", "largest"]
    return align_table(header, rows, words=(0, 2))


def format_starts(found: Evidence) -> str:
    """Return the ends of slow start and utilisation, by kernel and pacing."""
    means = (
        found["starts"]
        .group_by("kernel", "pacing", "cause", maintain_order=True)
        .agg(pl.col("end").mean(), low=pl.col("use").min(), high=pl.col("use").max(), n=pl.len())
    )
    rows = [
        [
            row["kernel"],
            "fq" if row["pacing"] == "fq" else "none",
            row["cause"],
            f"{row['end']:.2f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            str(row["n"]),
        ]
        for row in means.iter_rows(named=True)
    ]
    header = ["kernel", "pacing", "cause", "end of slow start, s", "utilisation", "runs"]
    return align_table(header, rows, words=(0, 1, 2, 4))


def format_memory(found: Evidence) -> str:
    """Return utilisation and retransmissions by send buffer on both engines."""
    means = (
        found["memory"]
        .group_by("cc", "buffer", "engine", maintain_order=True)
        .agg(pl.col("retransmissions").mean(), low=pl.col("use").min(), high=pl.col("use").max())
    )
    rows = [
        [
            row["cc"],
            f"{row['buffer']:g}",
            row["engine"],
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['retransmissions']:.0f}",
        ]
        for row in means.sort("cc", "buffer", "engine").iter_rows(named=True)
    ]
    header = ["control", "send buffer, MiB", "engine", "utilisation", "retransmissions, mean"]
    return align_table(header, rows, words=(0, 2, 3))


def format_room(found: Evidence) -> str:
    """Return the share of drops over a buffer of a few packets, by kind of link, on both engines."""
    drops = pl.col("drops")
    means = found["room"].group_by("shaper", "limit", "engine").agg(drops.mean(), low=drops.min(), high=drops.max())
    cells = {(row["shaper"], row["limit"], row["engine"]): row for row in means.iter_rows(named=True)}
    rows = [
        [
            KINDS_OF_LINK[shaper],
            str(limit),
            *(
                f"{100 * one['drops']:.2f} ({100 * one['low']:.2f} to {100 * one['high']:.2f})"
                for one in (cells[shaper, limit, engine] for engine in ("simulator", "Linux"))
            ),
        ]
        for shaper, limit in sorted({key[:2] for key in cells}, key=lambda one: (one[0] == "htb", one[1]))
    ]
    header = ["link", "buffer, packets", "drops in the simulator, % (range)", "drops on Linux, % (range)"]
    return align_table(header, rows, words=(0, 2, 3))


def format_marks(found: Evidence) -> str:
    """Return times in queue with and without ECN on both engines."""
    queue = pl.col("queue")
    by = ["cc", "ecn", "engine"]
    means = found["marks"].group_by(by).agg(queue.mean(), pl.col("use").mean(), low=queue.min(), high=queue.max())
    rows = [
        [
            row["cc"],
            "yes" if row["ecn"] else "no",
            row["engine"],
            f"{row['queue']:.3g} ({row['low']:.3g} to {row['high']:.3g})",
            f"{row['use']:.3f}",
        ]
        for row in means.sort("cc", pl.col("ecn").not_(), "engine", descending=[False, False, True]).iter_rows(
            named=True
        )
    ]
    header = ["control", "ECN", "engine", "median time in queue, ms (range)", "utilisation"]
    return align_table(header, rows, words=(0, 1, 2, 3))


def format_prague(found: Evidence) -> str:
    """Return the median time in queue of each start on both engines, with and without delayed acknowledgements."""
    rows = []
    for delayed in (True, False):
        for engine in ("simulator", "Linux"):
            own = found["prague"].filter(engine=engine, delayed=delayed).sort("seed")
            rows.append(["yes" if delayed else "no", engine, *(f"{one:.3g}" for one in own["queue"])])
    starts = [f"start {one}" for one in found["prague"]["seed"].unique().sort()]
    return align_table(["delayed ACKs", "engine", *starts], rows, words=(0, 1))


def format_late(found: Evidence) -> str:
    """Return the share of a flow that starts into a queue, by its control and its window in STARTUP."""
    share, end = pl.col("share"), pl.col("end")
    means = (
        found["late"]
        .group_by("cc", "gain", "engine", maintain_order=True)
        .agg(share.mean(), end.mean(), low=share.min(), high=share.max())
        .sort("cc", "gain", pl.col("engine") != "simulator")
    )
    rows = [
        [
            row["cc"],
            "-" if row["gain"] is None else f"{row['gain']:.3g}",
            row["engine"],
            f"{row['share']:.3f} ({row['low']:.3f} to {row['high']:.3f})",
            "-" if row["end"] is None else f"{row['end']:.1f}",
        ]
        for row in means.iter_rows(named=True)
    ]
    header = ["control", "window in STARTUP, BDP", "engine", "share of both flows' goodput (range)"]
    return align_table([*header, "end of slow start, s after the start"], rows, words=(0, 2, 3))


def format_rounds(found: Evidence) -> str:
    """Return window, RTT and rate at the end of each round of a STARTUP, with two gains of the window."""
    cells = {(row["gain"], row["round"]): row for row in found["rounds"].iter_rows(named=True)}
    gains = sorted({gain for gain, _ in cells})
    rows = []
    for number in sorted({number for _, number in cells}):
        own = [cells.get((gain, number)) for gain in gains]
        values = [(f"{one['rtt']:.0f}", str(one["cwnd"]), f"{one['rate']:.2f}") if one else ("-",) * 3 for one in own]
        rows.append([str(number), *(value for three in values for value in three)])
    names = ("RTT, ms", "window, segments", "largest rate, Mbit/s")
    return align_table(["round", *(f"gain {gain:.3g}: {name}" for gain in gains for name in names)], rows, words=())


def format_stall(found: Evidence) -> str:
    """Return how much of the link Prague uses after a burst of UDP, and how many packets are marked."""
    use = pl.col("use")
    means = (
        found["stall"]
        .group_by("rtt", "delayed", "engine")
        .agg(use.mean(), pl.col("marks").mean(), low=use.min(), high=use.max())
        .sort("rtt", pl.col("delayed").not_(), pl.col("engine") != "simulator")
    )
    rows = [
        [
            f"{row['rtt']:g}",
            "yes" if row["delayed"] else "no",
            row["engine"],
            f"{row['use']:.3f} ({row['low']:.3f} to {row['high']:.3f})",
            f"{row['marks']:.0f}",
        ]
        for row in means.iter_rows(named=True)
    ]
    header = ["base RTT, ms", "delayed ACKs", "engine", "utilisation (range)", "marked packets, mean"]
    return align_table(header, rows, words=(1, 2, 3))


def draw_bursts(found: Evidence) -> Picture:
    """Draw the goodput of BBRv1 over time on both engines, with a short and a long burst."""
    rows = found["goodput"].with_columns(
        burst=pl.format("UDP from 6 s to {} s", pl.col("stop").cast(pl.Int64)),
    )
    return figures.lines(
        rows,
        "time_s",
        "goodput",
        by="burst",
        facet="engine",
        x_label="time, s",
        y_label="goodput of BBRv1, Mbit/s",
        title="BBRv1 keeps the rate that a burst of UDP left it\n"
        + describe_runs(rows["seeds"], spread="", seconds=list_durations(found, "policer")),
    )


TABLES = {
    "budgets": format_budgets,
    **{f"found-{one}": partial(format_finds, criterion=one) for one in CRITERIA},
    "engines": format_engines,
    "bursts": format_bursts,
    "starts": format_starts,
    "memory": format_memory,
    "room": format_room,
    "marks": format_marks,
    "prague": format_prague,
    "late": format_late,
    "rounds": format_rounds,
    "stall": format_stall,
}
FIGURES = {"hunting-policer": draw_bursts}
