"""Writes docs/speed.md and its figures from benches/where.csv, ladder.csv, steps.csv and reasons.toml.

python -m benches.page
"""

import csv
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl

from benches import ladder, limits, steps, where
from benches.program import ROOT
from dumbbell import figures
from dumbbell.results.tables import align_table

PAGE = ROOT / "docs" / "speed.md"
REASONS = Path(__file__).with_name("reasons.toml")
CASES = {
    "a": "10 DCTCP, step, 1 Gbit/s, 5 ms",
    "b": "2 CUBIC, CoDel, 100 Mbit/s, 20 ms",
    "c": "10 DCTCP, step, 10 Gbit/s, 5 ms",
    "d": "1 Reno, CoDel, 10 Mbit/s, 80 ms",
    "e": "100 CUBIC, 100 DCTCP-SCE, Cake with SCE and one queue, 10 Gbit/s, 20 ms",
    "f": "10,000 CUBIC, FQ-CoDel, 100 Gbit/s, 20 ms",
    "g": "100 CUBIC, Cake, 1 Gbit/s, 20 ms",
    "h": "short flows at 72 % of the link, 2 CUBIC, CoDel, 1 Gbit/s, 20 ms",
    "i": "10 Prague, DualPI2, 1 Gbit/s, 5 ms",
    "j": "10 BBRv2, step, 10 Gbit/s, 5 ms",
}
MEANT = {
    "scheduling": "the event loop, its tree and timers, lines of acknowledgements, starts of flows",
    "link and queue": "queue discipline, link, stages of the path",
    "sender": "TCP's sending half: scoreboard, recovery, pacing, RTT",
    "receiver": "TCP's receiving half",
    "control": "congestion control",
    "measuring": "counters, histograms, tables",
    "other": "what is in none of these",
}


def read(file: Path) -> list[dict[str, str]]:
    """Return the rows of a file of figures."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def join_words(words: list[str]) -> str:
    """Join words: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def format_range(values: list[float], unit: str) -> str:
    """Return the range of values, rounded: `38 to 51 %`, or one figure if both ends are the same."""
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _describe_largest(shares: dict[str, dict[str, float]]) -> str:
    """Say which part has the largest share in which cases."""
    first: dict[str, list[str]] = defaultdict(list)
    for case, parts in shares.items():
        first[max(parts, key=lambda part: parts[part])].append(case)
    sentences = [
        f"{part} in {join_words(cases)} ({format_range([shares[case][part] for case in cases], '%')})"
        for part, cases in sorted(first.items(), key=lambda item: -len(item[1]))
    ]
    return f"The largest share of the instructions falls to: {'; '.join(sentences)}."


def _format_misses(rows: list[dict[str, str]]) -> str:
    most = max(rows, key=lambda row: float(row["last"]))
    few = [row["case"] for row in rows if float(row["last"]) < 0.1]
    costly = max(rows, key=lambda row: sum(float(row[part]) for part in where.NAMES))
    return (
        f"Case {costly['case']} takes the most instructions per packet, and case {most['case']} the most misses of the "
        f"last cache ({float(most['last']):.1f} per packet)."
        + (f" In {join_words(few)}, fewer than one packet in ten causes such a miss." if few else "")
    )


def make_where_section() -> str:
    """Return what a packet costs and where, case by case."""
    rows = read(where.FIGURES)
    shares: dict[str, dict[str, float]] = {}
    table = []
    shown = [part for part in where.NAMES if part != "other"]
    for row in rows:
        counts = {part: float(row[part]) for part in where.NAMES}
        total = sum(counts.values())
        shares[row["case"]] = {part: 100 * count / total for part, count in counts.items()}
    if max(parts["other"] for parts in shares.values()) >= 0.5:
        shown.append("other")
    for row in rows:
        total = sum(float(row[part]) for part in where.NAMES)
        # start and end of two runs differ by some misses, which may be more than a short case has
        first, last_cache = (max(float(row[name]), 0.0) or 0.0 for name in ("first", "last"))
        cells = [f"{total:.0f}", f"{first:.1f}", f"{last_cache:.2f}"]
        table.append([row["case"], *cells, *(f"{shares[row['case']][part]:.0f}" for part in shown)])
    header = ["case", "instructions", "L1 misses", "last-cache misses", *(f"{part}, %" for part in shown)]
    size, ways, _ = where.FIRST.split(",")
    last = where.LAST.split(",")[0]
    caches = (
        "Misses are counted by the processor."
        if all(row["caches"] == "counted" for row in rows)
        else f"The machine does not count misses, so cachegrind counts them with a model of caches: data, "
        f"{int(size) // 1024} KiB in {ways} ways, and a last one of {int(last) // 2**20} MiB."
    )
    what = align_table(["case", ""], [[case, text] for case, text in CASES.items()], words=(0, 1))
    return f"""\
## Where the time goes

The table lists the cost of a data packet from its sending to its acknowledgement, counted by callgrind in the release
build at {", ".join(dict.fromkeys(row["version"] for row in rows))}. {caches}

{align_table(header, table)}

{_describe_largest(shares)} {_format_misses(rows)}

{what}

Code that the compiler moved into another function counts for the place where it was written. Code of the libraries of
Rust and of the system counts for its caller. The parts are:

{chr(10).join(f"- *{part}*: {MEANT[part]}" for part in shown)}
"""


def format_rate(rate: int) -> str:
    """Write a rate: `10 Gbit/s`."""
    power = (len(str(rate)) - 1) // 3
    return f"{rate / 1000**power:g} {['bit', 'kbit', 'Mbit', 'Gbit', 'Tbit'][power]}/s"


def _format_table(rows: list[dict[str, str]], axis: str, value: Any) -> str:
    rungs = sorted({int(row[axis]) for row in rows})
    found = {(row["queue"], row["control"], int(row[axis])): value(row) for row in rows}
    header = ["queue", "control", *(format_rate(step) if axis == "rate" else f"{step:,}" for step in rungs)]
    lines = list(dict.fromkeys((row["queue"], row["control"]) for row in rows))
    return align_table(header, [[*line, *(found[*line, step] for step in rungs)] for line in lines], words=(0, 1))


def _find_reason(reasons: list[dict[str, Any]], row: dict[str, str]) -> str:
    """Return the first reason that fits a step to `row`."""
    found = {"ladder": row["ladder"], "to": int(row[row["ladder"]]), "queue": row["queue"], "control": row["control"]}

    def fits(wanted: Any, value: Any) -> bool:
        return wanted == "*" or value == wanted or (isinstance(wanted, list) and value in wanted)

    for reason in reasons:
        if all(fits(reason[key], value) for key, value in found.items()):
            return " ".join(reason["text"].split())
    return "Not explained yet."


def _step_counts(
    before: dict[str, str], after: dict[str, str], counts: dict[tuple[str, ...], dict[str, str]]
) -> list[str]:
    """Return what is counted at both ends of a step, each as `from → to`; `-` where nothing was counted."""
    ends = [counts.get(tuple(row[key] for key in steps.KEYS)) for row in (before, after)]

    def format_both(value: Any) -> str:
        known = [end for end in ends if end is not None]
        return " → ".join(value(end) for end in known) if len(known) == 2 else "-"

    def set_up(end: dict[str, str]) -> str:
        row = before if end is ends[0] else after
        return f"{float(end['set_up']) * int(row['flows']) / int(row['packets']):.0f}"

    def find_share(name: str) -> Any:
        return lambda end: f"{float(end[name]) / float(end['packets']):.2f}"

    return [
        format_both(lambda end: end["instructions"]),
        format_both(lambda end: end["first"]),
        format_both(lambda end: f"{float(end['last']):.1f}"),
        format_both(set_up),
        format_both(find_share("sent")),
        format_both(find_share("acks")),
        format_both(lambda end: f"{float(end['queue_mean']):,.0f}"),
    ]


def make_steps_section(rows: list[dict[str, str]]) -> str:
    """Return the steps of the ladders: a table of what is counted at their ends, and their reasons."""
    found = steps.find_steps(rows)
    if not found:
        return f"No two neighbours differ by over {steps.STEP} times."
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8")).get("reason", [])
    counts = steps.read()
    texts = [_find_reason(reasons, after) for _, after, _ in found]
    numbers = {text: str(number) for number, text in enumerate(dict.fromkeys(texts), 1)}
    table = []
    for (before, after, ratio), text in zip(found, texts, strict=True):
        axis = after["ladder"]
        ends = [format_rate(int(row[axis])) if axis == "rate" else f"{int(row[axis]):,}" for row in (before, after)]
        cells = [after["queue"], after["control"], " → ".join(ends), f"{ratio:.1f}"]
        table.append([*cells, *_step_counts(before, after, counts), numbers[text]])
    header = ["queue", "control", "flows or rate", "times the time", "instructions", "L1 misses", "last-cache misses"]
    header += ["of set-up", "sent", "ACKs", "queue", "why"]
    said = "\n".join(f"{number}. {text}" for text, number in numbers.items())
    return f"""\
The table lists each pair of neighbours whose times differ by more than a factor of {steps.STEP}, with cachegrind's
counts per packet at both ends, for the caches above: instructions and misses without set-up, instructions of set-up
(a run reads, builds and reports every flow), packets that senders sent, and ACKs. Queue is the mean length of the
queue in packets. `make steps` counts all this.

{align_table(header, table, words=(0, 1, 2))}

Why:

{said}"""


def _draw_figure(rows: list[dict[str, str]], axis: str, label: str, ends: tuple[str, str], setting: str) -> str:
    """Draw the time per packet over `axis`, in the order of the table; the title has the ranges at both `ends`."""
    names = {name: pl.Enum(list(dict.fromkeys(row[name] for row in rows))) for name in ("queue", "control")}
    frame = pl.DataFrame(
        {
            **{name: pl.Series([row[name] for row in rows], dtype=kind) for name, kind in names.items()},
            axis: [int(row[axis]) / (1e6 if axis == "rate" else 1) for row in rows],
            "time": [steps.measure_nanoseconds(row) for row in rows],
        }
    )
    at = [frame.filter(pl.col(axis) == end)["time"] for end in (frame[axis].min(), frame[axis].max())]
    ranges = [format_range(times.to_list(), f"ns {words}") for times, words in zip(at, ends, strict=True)]
    picture = figures.lines(
        frame,
        axis,
        "time",
        by="control",
        facet="queue",
        columns=4,
        log_x=True,
        log_y=True,
        x_names={value: _RATES.get(value, "") for value in frame[axis].to_list()} if axis == "rate" else None,
        x_label=label,
        y_label="CPU time per packet, ns",
        title=f"CPU time per packet: {ranges[0]}, {ranges[1]}\n{setting}; a panel for each queue",
    )
    file = PAGE.with_name(f"speed-{axis}.svg")
    figures.save(picture, file)
    return file.name


_RATES = {1.0: "1M", 1e3: "1G", 1e6: "1T"}  # Mbit/s, in bit/s as at an axis; between them ticks have no name


def make_ladder_section() -> str:
    """Return the ladder: tables, figures, steps."""
    rows = read(ladder.FIGURES)
    flows, rates = ([row for row in rows if row["ladder"] == name] for name in ("flows", "rate"))
    times = [steps.measure_nanoseconds(row) for row in rows]

    def format_memory(row: dict[str, str]) -> str:
        kilobytes = float(row["memory"]) / int(row["flows"]) / 1000
        return f"{float(f'{kilobytes:.2g}'):,g}"

    fixed, alone = format_rate(ladder.AT_RATE), ladder.AT_FLOWS
    rtt = f"base RTT {ladder.BASE_RTT // ladder.MS} ms"
    most = max(int(row["flows"]) for row in flows)
    words = ("with one flow", f"with {most:,}")
    over_flows = _draw_figure(flows, "flows", "flows", words, f"{fixed}, {rtt}")
    slow, fast = (format_rate(choose(int(row["rate"]) for row in rates)) for choose in (min, max))
    words = (f"at {slow}", f"at {fast}")
    over_rates = _draw_figure(rates, "rate", "rate, bit/s", words, f"{alone} flows, {rtt}")
    return f"""\
## From one flow to 100,000, from 1 Mbit/s to 1 Tbit/s

These figures show the CPU time per data packet, including the set-up of the run, at {ladder.BASE_RTT // ladder.MS} ms
of base RTT. A run carries about {ladder.PACKETS:,} packets, or lasts {ladder.ROUND_TRIPS} round trips if they carry
more. Over all cells the time is {format_range(times, "ns")}.

![Time per packet over the number of flows]({over_flows})

Flows at {fixed}, ns per packet:

{_format_table(flows, "flows", lambda row: f"{steps.measure_nanoseconds(row):.0f}")}

![Time per packet over the rate of the bottleneck]({over_rates})

Rates with {alone} flows, ns per packet:

{_format_table(rates, "rate", lambda row: f"{steps.measure_nanoseconds(row):.0f}")}

{make_steps_section(rows)}

The table lists the peak memory of a run at {fixed}, divided by the number of flows, in kB. It includes packets in
flight and memory that a run takes only once, which few flows share.

{_format_table(flows, "flows", format_memory)}
"""


def make_limits_section() -> str:
    """Return the limits of packets per second."""
    times = {row["case"]: row for row in read(limits.FIGURES)}
    header = ["case", "M packets/s", "ns", "instructions per ns", "bytes", "misses one by one, ns"]
    table, sentences = [], []
    for row in read(where.FIGURES):
        measured = times[row["case"]]
        time, (near, last_cache, memory) = (
            float(measured["ns"]),
            (float(measured[name]) for name in ("near", "last", "memory")),
        )
        first, last = (max(0.0, float(row[name])) for name in ("first", "last"))
        instructions = sum(float(row[part]) for part in where.NAMES)
        waiting = limits.estimate_waits(first, last, near, memory)
        table.append(
            [
                row["case"],
                f"{1000 / time:.1f}",
                f"{time:.0f}",
                f"{instructions / time:.1f}",
                f"{64 * first:.0f}",
                f"{waiting:.0f}",
            ]
        )
        if row["case"] in limits.AIMS:
            sentences.append(limits.describe_limit(row["case"], limits.AIMS[row["case"]], instructions, time, waiting))
    latency = f"{near:.0f} ns in 256 KiB, {last_cache:.0f} ns in 4 MiB and {memory:.0f} ns in 256 MiB"
    return f"""\
## Limits of the memory

The table lists time and packets per second of CPU on the machine of these figures, for the fastest of {limits.TURNS}
runs. On this machine, a load that needs the value of the previous load takes {latency}; sequential reads reach
{float(measured["bandwidth"]):.0f} GB/s. *Bytes* counts the cache lines that a packet loads into the first cache.
*Misses one by one* is the minimum time of these misses if each waits for the previous one: that of 256 KiB for most,
and that of 256 MiB for misses of the last cache. Prefetched lines do not wait.

{align_table(header, table)}

{chr(10).join(f"- {sentence}" for sentence in sentences)}
"""


def make_text() -> str:
    """Return the page."""
    sections = [
        make_where_section() if where.FIGURES.exists() else "",
        make_limits_section() if limits.FIGURES.exists() else "",
        make_ladder_section() if ladder.FIGURES.exists() else "",
    ]
    return "\n".join(
        [
            "# Speed\n",
            "All figures are from one core of one machine. `make bench` renews the first part, "
            "`make ladder` the second.",
            "A [separate page](peers.md) shows other simulators on the same dumbbells.\n",
            *filter(None, sections),
        ]
    )


def write() -> None:
    """Write the page and its figures."""
    PAGE.write_text(make_text(), encoding="utf-8")
    print(f"the page is in {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    write()
