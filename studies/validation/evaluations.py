"""Published results of evaluations next to those of the simulator, row by row, with the distance.

python -m studies.validation.evaluations    make agree-evaluations: docs/validation-evaluations.md
"""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

import dumbbell
from dumbbell.evaluate.suite_file import load_suite
from dumbbell.experiment.matrix import set_path
from dumbbell.experiment.toml_file import read_toml
from dumbbell.pages import study
from dumbbell.study import align_table, format_number

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "validation-evaluations.md"
PUBLISHED = HERE / "published_evaluations.csv"
NEAR = 0.25  # of a value: distances up to this one are counted as near
SEEDS_OF_C4 = 100  # whose worst run has to keep a limit
BINARY = 1.048576  # a Mbit/s of 1024 * 1024 bit/s
PARTS = {
    "s1": "L4S tests, scenario 1",
    "s6": "L4S tests, scenario 6",
    "media": "C4, delays of media",
    "c4": "C4, completion times",
    "ns3": "AQM suite of ns-3, section 5.2 of RFC 7928",
    "ledbat": "ns-3's tests of LEDBAT++",
}
Measured = dict[tuple[str, str], list[float]]
"""What the runs of each seed gave, by cell and measure."""


@dataclass(frozen=True)
class PublishedRow:
    """One number of a publication: a value, or a bar that its authors' implementation keeps."""

    part: str
    cell: str
    measure: str
    unit: str
    kind: str
    published: float

    def compute_distance(self, values: list[float]) -> float:
        """Return how far the mean is from the published value, or the worst seed from a limit, as a share of it."""
        return self.reduce(values) / self.published - 1

    def reduce(self, values: list[float]) -> float:
        """Return the mean of the seeds, of a limit on the worst run the largest."""
        return max(values) if self.kind == "at most" else fmean(values)

    def is_near(self, values: list[float]) -> bool:
        """Whether a value is within NEAR of the published one, or a bar is kept."""
        distance = self.compute_distance(values)
        if self.kind == "value":
            return abs(distance) <= NEAR
        return distance > 0 if self.kind == "above" else distance <= 0


def read_published() -> list[PublishedRow]:
    """Return the published numbers, in the order of the file."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [PublishedRow(**row | {"published": float(row["published"])}) for row in csv.DictReader(file)]  # type: ignore[arg-type]


def _list_runs(results: Any) -> dict[str, dict[str, Any]]:
    """Return the values of the matrix of each run, by its key."""
    return {key: json.loads(text) for key, text in results.runs.select("key", "matrix").iter_rows()}


def _collect(pairs: Iterable[tuple[str, str, float]]) -> Measured:
    measured: Measured = {}
    for cell, measure, value in pairs:
        measured.setdefault((cell, measure), []).append(value)
    return measured


def measure_rtt_fairness(version: str) -> Measured:
    """Return the goodput of CUBIC over that of Prague, with a version of DualPI2."""
    results = dumbbell.run(dumbbell.load("validation/l4s-rtt-fairness"), progress=False)
    runs = _list_runs(results)
    flows = results.flows.pivot("flow", index="key", values="goodput_mbit")
    return _collect(
        (str(runs[row["key"]]["flows[*].base_rtt"]).replace("ms", " ms"), "CUBIC over Prague", row["0"] / row["1"])
        for row in flows.iter_rows(named=True)
        if runs[row["key"]]["bottleneck.aqm.version"] == version
    )


def measure_classic_queues(version: str) -> Measured:
    """Return the ratios of the study of classic queues, with a version of Prague: its stored evidence."""
    rows = study.find("l4s-classic").read_evidence()["published"].filter(pl.col("version") == version)
    return _collect(
        (
            f"{row['second']}, {'ECN' if row['ecn'] else 'no ECN'}, {row['queue']}",
            "Prague over the other",
            row["ratio"],
        )
        for row in rows.iter_rows(named=True)
    )


def measure_media() -> Measured:
    """Return mean and largest queueing delay of audio and videos, audio behind the frames of its instant."""
    pairs = []
    for name in ("traffic/c4-media", "validation/c4-media-links"):
        results = dumbbell.run(dumbbell.load(name), progress=False)
        runs = _list_runs(results)
        for row in results.frame("apps").filter(pl.col("direction") == "down").iter_rows(named=True):
            if runs[row["key"]].get("app[0].start") == "0s":
                continue
            stream = ("audio", "video, low", "video, mid")[row["app"]]
            kind = "delay" if stream == "audio" else "frame_delay"
            cell = f"{runs[row['key']]['setting']}, {stream}"
            for measure, column in (("mean", f"{kind}_mean_ms"), ("largest", f"{kind}_max_ms")):
                pairs.append((cell, measure, row[column] - row["base_rtt_ms"] / 2))
    return _collect(pairs)


def measure_completion() -> Measured:
    """Return completion times since the start of the trial, of two controls in two scenes of the suite of C4."""
    pairs = []
    for case, scene, buffer in (("low and up", "low-and-up", ""), ("bad Wi-Fi", "bad-wifi", "80ms")):
        for name, control in (("CUBIC", "cubic"), ("BBR", "bbr3")):
            values = complete_transfers(scene, control, buffer)
            pairs += [(f"{name}, {case}", "worst completion", value) for value in values]
    return _collect(pairs)


def complete_transfers(scene: str, control: str, buffer: str = "") -> list[float]:
    """Return the completion times of 100 transfers in a scene of the suite of C4, perhaps with another buffer."""
    table = read_toml(load_suite("c4").scenes[scene].file, "a scene") | {"seeds": list(range(1, SEEDS_OF_C4 + 1))}
    set_path(table, ("flows", 0, "cc"), control)
    if buffer:
        set_path(table, ("bottleneck", "buffer"), buffer)
    return [float(value) for value in dumbbell.run(table, progress=False).flows["completion_s"]]


def measure_ns3(base_rtt: str) -> Measured:
    """Return delays and goodput of one flow over four queues, on a path with this RTT."""
    results = dumbbell.run(dumbbell.load("validation/ns3-aqm"), progress=False)
    rows = [json.loads(row["matrix"]) | row for row in results.runs.iter_rows(named=True)]
    chosen = [row for row in rows if row["flows[0].base_rtt"] == base_rtt]
    return _collect(
        (row["setting"], measure, value)
        for row in chosen
        for measure, value in (
            ("mean time in queue", row["sojourn_mean_ms"]),
            ("goodput", row["goodput_total_mbit"] / BINARY),
        )
    )


def measure_ledbat() -> Measured:
    """Return what ns-3's tests of LEDBAT++ measure, in their windows."""
    results = dumbbell.run(dumbbell.load("validation/ledbat-pp"), progress=False)
    queues = results.frame("queue_series").filter(pl.col("packets") > 0)
    series, pairs = results.frame("series"), []

    def average_flows(key: str, since: float, until: float) -> list[float]:
        within = (pl.col("key") == key) & pl.col("time_s").is_between(since, until, closed="right")
        means = series.filter(within).group_by("flow").agg(pl.col("goodput_mbit").mean()).sort("flow")
        return [float(value) for value in means["goodput_mbit"]]

    def average_queue(key: str, since: float, until: float) -> float:
        within = queues.filter((pl.col("key") == key) & pl.col("time_s").is_between(since, until, closed="right"))
        return float((within["sojourn_mean_ms"] * within["packets"]).sum()) / float(within["packets"].sum())

    for key, labels in _list_runs(results).items():
        cell = labels["setting"]
        if cell == "alone":
            pairs += [
                (cell, "mean time in queue", average_queue(key, 25, 39)),
                (cell, "goodput", average_flows(key, 25, 39)[0]),
            ]
            slowdown = (pl.col("key") == key) & pl.col("time_s").is_between(19, 22)
            shortest = results.frame("queue_series").filter(slowdown)["backlog_packets"].min()
            pairs.append((cell, "shortest queue in a slowdown", float(shortest or 0)))  # type: ignore[arg-type]
        elif cell == "a short queue":
            pairs += [
                (cell, "mean time in queue", average_queue(key, 15, 29)),
                (cell, "goodput", average_flows(key, 15, 29)[0]),
            ]
        elif cell == "next to CUBIC":
            both = average_flows(key, 25, 34)
            pairs += [
                (cell, "share from 25 to 34 s", both[0] / sum(both)),
                (cell, "goodput after CUBIC", average_flows(key, 45, 59)[0]),
            ]
        else:
            four = average_flows(key, 70, 99)
            jain = sum(four) ** 2 / (len(four) * sum(value * value for value in four))
            pairs += [(cell, "Jain's index", jain), (cell, "least share", min(four) / sum(four))]
    return _collect(pairs)


def format_row(row: PublishedRow, sets: Mapping[str, Measured]) -> list[str]:
    """Return a row of a table: published, then value and distance of each set-up."""
    sign = {"value": "", "at most": "at most ", "above": "above ", "below": "below "}[row.kind]
    cells = [row.cell, f"{row.measure}, {row.unit}" if row.unit not in ("", "ratio", "share") else row.measure]
    cells.append(f"{sign}{row.published:g}")
    for measured in sets.values():
        values = measured[row.cell, row.measure]
        low, high = format_number(min(values)), format_number(max(values))
        spread = f" ({low} to {high})" if low != high else ""
        cells.append(f"{format_number(row.reduce(values))}{spread}")
        cells.append(format_distance(row, values))
    return cells


def format_distance(row: PublishedRow, values: list[float]) -> str:
    """Return the distance of a value, or whether a bar is kept and by how much."""
    distance = row.compute_distance(values)
    shown = f"{round(100 * distance) + 0:+d} %" if distance < 1 else f"x {1 + distance:.1f}"
    if row.kind == "value":
        return shown
    return f"{'kept' if row.is_near(values) else 'missed'} ({shown})"


def format_table(rows: Iterable[PublishedRow], sets: Mapping[str, Measured]) -> str:
    """Return the table of a part; `sets` are what was measured, by the heading of its set-up."""
    header = ["cell", "measure", "published", *(text for name in sets for text in (name, "distance"))]
    return align_table(header, [format_row(row, sets) for row in rows], words=(0, 1))


def count_seeds(measured: Measured) -> str:
    """Return how many seeds the values of a part have."""
    counts = {len(values) for values in measured.values()}
    return f"{min(counts)} to {max(counts)}" if len(counts) > 1 else f"{counts.pop()}"


def format_page(parts: Mapping[str, Mapping[str, Measured]], more: Mapping[str, float]) -> str:
    """Return the page; of a part with several set-ups the first is counted. `more` has numbers of the text."""
    published = read_published()
    summary, values = [], {name: format_number(value) for name, value in more.items()}
    prague = parts["s6"]["Prague 0.5"]
    factors = [row.published / fmean(prague[row.cell, row.measure]) for row in published if row.part == "s6"]
    values |= {"s6_least": f"{min(factors):.1f}", "s6_most": f"{max(factors):.1f}"}
    for part, sets in parts.items():
        rows = [row for row in published if row.part == part]
        first = next(iter(sets.values()))
        near = sum(row.is_near(first[row.cell, row.measure]) for row in rows)
        what = (
            "bars kept" if rows[0].kind != "value" else f"within {NEAR:.0%} of the published value".replace("%", " %")
        )
        summary.append([PARTS[part], f"{near} of {len(rows)}", what, count_seeds(first)])
        values[f"{part}_table"] = format_table(rows, sets)
    head = align_table(["publication", "rows", "are", "seeds"], summary, words=(0, 2))
    return TEXT.format(summary=head, **values)


def main() -> None:
    """Run everything, and write the page."""
    parts: dict[str, dict[str, Measured]] = {
        "s1": {"DualPI2 of 2020": measure_rtt_fairness("linux-5.10"), "of today": measure_rtt_fairness("linux-6.17")},
        "s6": {
            "Prague 0.5": measure_classic_queues("Prague 0.5"),
            "Prague 0.7": measure_classic_queues("Prague 0.7"),
        },
        "media": {"over UDP": measure_media()},
        "c4": {"over TCP": measure_completion()},
        "ns3": {"100 ms": measure_ns3("100ms"), "and 100 packets more": measure_ns3("711.2ms")},
        "ledbat": {"dumbbell": measure_ledbat()},
    }
    more = {
        "low_and_up_of_bbr1": max(complete_transfers("low-and-up", "bbr1")),
        "bad_wifi_with_250_ms": max(complete_transfers("bad-wifi", "cubic", "250ms")),
    }
    PAGE.write_text(format_page(parts, more), encoding="utf-8")


TEXT = """\
# Evaluations next to published results

`make agree-evaluations` writes this page. It compares results that others published of the scenarios behind `dumbbell
evaluate` with runs of the same scenarios: the L4S tests, the tests of C4, ns-3's AQM evaluation suite, and its tests
of LEDBAT++. A row has the published number, the mean of the seeds here with the least and the greatest of them, and
the distance of the mean from the published number. Nothing was fitted to these numbers.

{summary}

These are not compared:

- the other 94 cells of scenario 1 of the L4S tests;
- the tables of SCReAM over DualPI2 (EricssonResearch/scream, test-record.md): dumbbell has no SCReAM;
- FRED, NLRED and COBALT in ns-3's suite: dumbbell has no such variants of RED, and COBALT only in Cake;
- C4's own control, which dumbbell does not have, and its careful resume: Linux's receive window begins with 64 kB, so
  that a large initial window has no effect;
- C4's media over a fading Wi-Fi: for two seconds the link carries less than the streams send, so that the priorities
  and the cancelled groups of the sender decide the delays.

## L4S tests, scenario 1: CUBIC next to Prague over DualPI2

- *Published*: [heistp/l4s-tests](https://github.com/heistp/l4s-tests) at e21cd91, one run per cell on L4STeam/linux
  b256daed (August 2020).
- *Same*: 10 Mbit/s, RTTs, htb, the 60 s that end 2 s before 180 s, Prague 0.5, DualPI2 of that time.
- *Different*: the hosts are network namespaces with netem there; starts are drawn from a second here.

{s1_table}

With today's DualPI2 the ratios are others. A packet takes 1.2 ms at 10 Mbit/s, longer than the step of 1 ms. A queue
of one packet was exempt from the step in 2020; today it is not, so that every packet of Prague is marked.

## L4S tests, scenario 6: Prague in a queue of RFC 3168

- *Published*: the same repository, one run per cell.
- *Same*: 50 Mbit/s, 20 ms, queues, the 40 s that end at 58 s, Prague 0.5.
- *Different*: the published rates are means of TCP_INFO's delivery rate, read each 50 ms. The two of a cell add up to
  the payload of the link (47.6 to 47.7 Mbit/s), so their ratio is that of the goodputs. The kernel there was a 5.4,
  whose RED adapts, as it was set to, and whose PIE estimates the departure rate. All flows use Accurate ECN. The runs
  of [the study of Prague in a queue of RFC 3168](../studies/l4s_classic/README.md) have none of these three.

{s6_table}

The published ratios are {s6_least} to {s6_most} times those of Prague 0.5 here, those next to Reno most. Why one flow
takes so much is known: both see the same share of marks. Prague is in equilibrium at two marks a round trip, a
classic control at one mark in several round trips. It is not known why the ratios next to Reno are larger in the
laboratory. None of these explains it: versions of Prague, bursts of hosts, blocking writes, Accurate ECN, an adaptive
RED, which changes a ratio by -4 to +12 % (eight cells, each the mean of eight seeds), and a PIE that estimates the
departure rate (-6 to +10 %).

The set-up of network namespaces does not explain it either, nor does Prague's own code. A kernel of 2026 with Prague
0.7 (Linux 6.18, User-Mode Linux) ran one start of some cells:

- *Behind a router* (`dumbbell run --engine linux`), over fq_codel with one queue: Prague has 17.0 times the goodput of
  Reno with ECN, 15.6 times that of Reno without ECN, and 18.2 times that of CUBIC. The means of Prague 0.7 above are
  17.1, 16.3 and 18.3.
- *In the published set-up*, a bridge with htb on both sides and netem behind both ingresses, with bursts of hosts cut
  as they leave: Prague has 14.9 times the goodput of Reno with ECN over fq_codel. The simulator has 14.6 to 15.7 (0.7,
  six seeds), the publication 42.
- *The same with bursts that stay together*: Linux has 12.1 next to Reno with ECN over fq_codel, and 15.4 next to CUBIC;
  the simulator has 10.9 to 12.8, and 13.6 to 15.9. Next to Reno over PIE, Linux has 8.8 with ECN and 11.0 without, less
  than the simulator's 9.7 to 14.7 and 14.7 to 17.1, and further from the publication.

So the larger ratios of the publication come from its kernel, of August 2020, or from its host. Reno had 0.78 Mbit/s
over PIE there, which is 2.4 segments a round trip. The share of marks at which Prague is in equilibrium allows a window
of 10. So Reno's window hardly grew there. CUBIC, whose window grows with time, had 6 segments.

## C4: delays of audio and video

- *Published*: [papers/media_tests.md](https://github.com/private-octopus/c4/blob/main/papers/media_tests.md) at
  e3377b6, CUBIC: the delay of a frame above propagation.
- *Same*: frames, rates, propagation.
- *Different*: one QUIC connection with priorities there, flows of UDP here. Audio comes behind the frames of the same
  instant. Of links with random waits there are 10 seeds, the others have nothing that is random.

{media_table}

- *10 Mbit/s*: the link explains the delays. *100 Mbit/s*: two I frames take 8.7 ms, so that no queue delays audio by
  14 ms. C4's sender wakes for frames alone, up to 13.3 ms after the time of an audio packet ([media next to published
  numbers](validation-media.md)).
- *Suspension*: the link is off for 0.2 of 2 s, which alone makes a mean of 10 ms and at most 200 ms: C4's delays of
  audio. What gathers meanwhile, 0.2 s of 3.6 Mbit/s, then takes 38 ms of the link. Audio waits behind it here, and
  passes it at C4's sender by its priority.
- *Bad Wi-Fi*: the jitter of C4's draft cannot give these delays. It makes one wait in 15 longer by 7.5 ms times a
  Poisson number of mean 12, which is 90 ms; 250 packets of audio make some 17 such waits, and the largest published
  delay is 42 ms. Here each aggregate draws a wait, and what gathers meanwhile waits as well.

## C4: completion times

- *Published*: sim_specs at e3377b6: targets that the worst of 100 runs of picoquic's CUBIC and BBR keeps.
- *Same*: rates, delays, buffers, sizes, 100 seeds.
- *Different*: Linux's TCP with its CUBIC and BBRv3 instead of QUIC; a Wi-Fi in whose queue packets wait, instead of a
  jitter behind the queue.

{c4_table}

- *Low and up*: BBRv3 probes for more bandwidth every 2 to 3 s and takes the doubled rate that much later. BBRv1,
  which probes every eight round trips, takes {low_and_up_of_bbr1} s at most.
- *Bad Wi-Fi*: while the station waits for the medium, the queue of 80 ms fills and drops, where C4's simulator holds
  packets behind a queue that goes on. With 250 ms of queue, CUBIC takes {bad_wifi_with_250_ms} s at most.

## ns-3's AQM evaluation suite: one aggressive flow

- *Published*: centres of the ellipses in
  [rahulkumdas/Upgrade-AQM-Evaluation-Suite-of-ns-3](https://github.com/rahulkumdas/Upgrade-AQM-Evaluation-Suite-of-ns-3),
  aqm-eval-output/AggressiveTransportSender.
- *Same*: 1 Mbit/s, 100 ms, segments of 698 B, 45 packets, thresholds and weight of RED, target and interval of PIE,
  initial window of 3, 300 s; goodput in units of 1024 * 1024 bit/s, as ns-3's scripts compute it.
- *Different*: the sender is BIC without selective acknowledgements there, and CUBIC here; ns-3's RED is gentle, that
  of Linux is not.

{ns3_table}

The distances are large. The code of the suite shows reasons:

- ns-3 keeps up to 100 packets in the device behind the queue discipline. The queue discipline does not see them, and
  their time is not counted. For the last two columns the path is longer by the 611 ms that these packets take, so
  that a flow has to have 100 packets more in flight: the delays of drop tail, CoDel, PIE and RED come nearer to the
  published ones, and none of them reaches it. Goodput falls there, because no device keeps the link busy while the
  window is small.
- Without selective acknowledgements BIC repairs one loss a round trip, which is 0.7 s with the device, so that its
  window stays small for long after each overflow. dumbbell's TCP always has selective acknowledgements; this was not
  measured.
- The published values are means over intervals of 100 ms, goodput as the mean of rates between packets, not bytes
  over time.

## LEDBAT++ in ns-3's tests

- *Published*: bars of the system tests of ns-3 (2026), which its LEDBAT++ keeps.
- *Same*: 20 Mbit/s, 20 ms, 1000 or 20 packets, times of flows and windows.
- *Different*: Linux's TCP. The first slowdown is at 1.2 s, at 0.8 s in ns-3; the one around 20 s is in the window
  from 19 to 22 s.

{ledbat_table}
"""


if __name__ == "__main__":
    main()
