"""Users of applications on the simulator and on Linux, cell by cell.

python -m studies.validation.apps_page agree-apps.duckdb    make agree-apps: docs/validation-apps.md
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from dumbbell.results.store import Store
from dumbbell.results.student import compute_t_quantile
from dumbbell.results.versions import choose_version
from dumbbell.study import align_table

from .bars import Errors, is_within
from .short_flows import find_percentile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation-apps.md"
ROW = "short-flows"  # whose bars are those of load times and delays: 5 % for means and 15 % for P95
SETTINGS = ("pages", "call", "video", "nada")
MORE = ("request", "fresh", "onoff", "dash", "game")
DATAGRAMS = ("call", "video", "nada", "game")
TEXT = """\
# Applications in the simulator and on Linux

`make agree-apps` writes this page. It compares {first} cells of
[studies/validation/experiments/apps.toml](../studies/validation/experiments/apps.toml): one user who loads web pages,
one call, or one video, with groups of frames of constant size and no congestion control (`video`), or with the
statistical encoder of RFC 8593 and NADA (`nada`), next to 1, 4 or 16 CUBIC flows. The same file runs on the simulator
and on the kernel itself, in virtual time ([Run on real Linux in virtual time](linux.md)). Users are the same state
machines on both, with the same random draws; on Linux they write into sockets of the kernel.

For applications over TCP, the tables compare the load times of {starts} starts: of pages, responses, bursts and
segments; for calls, games and videos, the one-way delay of packets from the server to the client, as means over starts.
The bars are those of short flows: 5 % for means and 15 % for P95. `n` is the number of loads in the simulator and on
Linux. `±` is half of the 95 % interval of the difference of the means, over starts. A cell marked `chance` is outside a
bar, and the interval of its mean contains 0.
{left_out}

Acknowledgements of requests travel with the responses in the simulator because of this comparison: as packets of their
own, which waited behind the response, they made pages over Cake 9 % slower next to 16 flows and pages over pfifo 10 %
faster next to 4, and 26 cells agreed ([lab book](lab-book.md#applications-next-to-linux-612117)).

## Pages, calls and videos

{verdict}

{table}

### Frames of videos

The delay of a frame ends with its last packet, and only frames count that came as a whole. With NADA it contains the
wait at the sender, whose rate follows the delays and losses that the receiver reports. The bars are the same; rates and
shares of frames that were late or lost have none.

{frame_verdict}

{video_table}
{more_section}
First {versions[0]}, second {versions[1]}; the error is that of the first.
"""

MORE_TEXT = """
## More applications

[apps-more.toml](../studies/validation/experiments/apps-more.toml) has other applications next to four CUBIC flows:
requests over one connection (`request`) or over a new one each (`fresh`), bursts of 30 files over new connections
(`onoff`), segments of a video (`dash`), and a game.

{verdict}

{table}
"""


@dataclass
class Side:
    """Measurements of one engine in a cell, by seed."""

    means: dict[int, float] = field(default_factory=dict)
    p95s: dict[int, float] = field(default_factory=dict)
    times: dict[int, list[float]] = field(default_factory=dict)
    # of the frames of a video
    frame_means: dict[int, float] = field(default_factory=dict)
    frame_p95s: dict[int, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    bad_frames: dict[int, float] = field(default_factory=dict)

    @property
    def all_values(self) -> tuple[dict[int, Any], ...]:
        """All measurements, by seed."""
        return self.means, self.p95s, self.times, self.frame_means, self.frame_p95s, self.rates, self.bad_frames

    @property
    def mean(self) -> float:
        """The mean of all loads, or over starts."""
        return (
            fmean(time for of_seed in self.times.values() for time in of_seed)
            if self.times
            else fmean(self.means.values())
        )

    @property
    def p95(self) -> float:
        """The 95th percentile of all loads, or its mean over starts."""
        if self.times:
            return find_percentile([time for of_seed in self.times.values() for time in of_seed], 0.95)
        return fmean(self.p95s.values())


@dataclass
class Judged:
    """One cell on both engines: the simulator, and Linux."""

    cell: tuple[str, ...]
    sides: tuple[Side, Side]
    left_out: tuple[int, ...] = (0, 0)

    def keep_common_starts(self) -> None:
        """Leave out the starts that only one engine has."""
        common = self.sides[0].means.keys() & self.sides[1].means.keys()
        for side in self.sides:
            for values in side.all_values:
                for seed in values.keys() - common:
                    del values[seed]

    @property
    def errors(self) -> Errors:
        """Errors of the mean and the 95th percentile."""
        ours, linux = self.sides
        return {"mean": [ours.mean / linux.mean - 1], "P95": [ours.p95 / linux.p95 - 1]}

    @property
    def half_interval(self) -> float:
        """Half of the 95 % interval of the difference of the means over starts, over the mean of Linux."""
        ours, linux = (side.means for side in self.sides)
        differences = [ours[seed] - linux[seed] for seed in ours.keys() & linux.keys()]
        if len(differences) < 2:
            return math.inf
        quantile = compute_t_quantile(len(differences) - 1, 0.95)
        return quantile * stdev(differences) / math.sqrt(len(differences)) / fmean(linux.values())

    @property
    def off(self) -> list[str]:
        """The measures outside their bars."""
        return [measure for measure, found in self.errors.items() if not is_within(ROW, {measure: found})]

    @property
    def verdict(self) -> str:
        """Whether the cell agrees, or what does not."""
        if not self.off:
            return "yes"
        ours, linux = (fmean(side.means.values()) for side in self.sides)
        chance = abs(ours / linux - 1) <= self.half_interval
        return f"{', '.join(self.off)}{' (chance)' * chance}"


_QUERY = """
    SELECT r.matrix, r.seed, a.name, a.load_mean_s, a.delay_mean_ms, a.delay_p95_ms, a.frame_delay_mean_ms,
        a.frame_delay_p95_ms, a.encoder_mbit, a.late_share, l.times
    FROM runs r JOIN apps a USING (key) LEFT JOIN (
        SELECT key, list(load_s ORDER BY start_s) AS times FROM app_loads GROUP BY key
    ) l USING (key)
    WHERE r.engine_version = ? AND a.direction = 'down' ORDER BY r.rowid
"""


def read_side(store: Store, version: str) -> dict[tuple[str, ...], Side]:
    """Return what an engine measured, by cell."""
    cells: dict[tuple[str, ...], Side] = {}
    for row in store.read(_QUERY.replace("?", f"'{version}'")).iter_rows(named=True):
        matrix: dict[str, Any] = json.loads(row["matrix"])
        # the setting names what `app` has
        cell = tuple(str(value) for key, value in matrix.items() if key != "app")
        side = cells.setdefault(cell, Side())
        seed = row["seed"]
        if row["name"] in ("call", "game", "video"):
            side.means[seed], side.p95s[seed] = row["delay_mean_ms"] / 1e3, row["delay_p95_ms"] / 1e3
        if row["name"] == "video":
            side.frame_means[seed], side.frame_p95s[seed] = (
                row["frame_delay_mean_ms"] / 1e3,
                row["frame_delay_p95_ms"] / 1e3,
            )
            side.rates[seed], side.bad_frames[seed] = row["encoder_mbit"], row["late_share"]
        elif row["times"]:
            side.means[seed], side.times[seed] = row["load_mean_s"], row["times"]
    return cells


def leave_out_collisions(side: Side) -> int:
    """Leave out the starts in which datagrams share their flow queue with a flow; return how many there are.

    Those are the ones whose mean delay is more than 1.25 times the median of all starts.
    """
    shared = [seed for seed, mean in side.means.items() if mean > 1.25 * median(side.means.values())]
    for seed in shared:
        for values in side.all_values:
            values.pop(seed, None)
    return len(shared)


def judge(results: str) -> tuple[list[Judged], list[str]]:
    """Return every cell that both engines ran, and their versions.

    Starts of calls and videos over flow queues that collide are left out.
    """
    with Store.open(results) as store:
        # the newest last
        query = "SELECT engine_version FROM runs GROUP BY 1 ORDER BY max(rowid)"
        versions = store.read(query)["engine_version"].to_list()
        names = store.read_kernel_names()
        chosen = [choose_version(versions, engine, names) or "" for engine in ("sim", "linux")]
        ours, linux = (read_side(store, version) for version in chosen)
    # a cell that one engine has not finished is none
    judged = [
        Judged(cell, (side, linux[cell])) for cell, side in ours.items() if len(linux.get(cell, Side()).means) > 2
    ]
    for one in judged:
        if one.cell[0] in DATAGRAMS and one.cell[1] == "fq_codel":
            one.left_out = tuple(leave_out_collisions(side) for side in one.sides)
        one.keep_common_starts()
    queues = list(dict.fromkeys(one.cell[1] for one in judged))
    judged.sort(key=lambda one: ((*SETTINGS, *MORE).index(one.cell[0]), queues.index(one.cell[1]), int(one.cell[2])))
    return judged, chosen


def format_row(one: Judged) -> list[str]:
    """Return the row of a cell, times in ms."""
    ours, linux = one.sides
    (mean,), (p95,) = one.errors.values()
    counts = [sum(map(len, side.times.values())) for side in one.sides]
    show: Callable[[float], str] = lambda seconds: f"{1e3 * seconds:.4g}"  # noqa: E731
    return [
        ", ".join(one.cell),
        f"{show(ours.mean)} / {show(linux.mean)} / {100 * mean:+.1f} %",
        f"{100 * one.half_interval:.1f} %",
        f"{show(ours.p95)} / {show(linux.p95)} / {100 * p95:+.1f} %",
        f"{counts[0]} / {counts[1]}" if counts[0] else "",
        one.verdict,
    ]


def judge_frames(one: Judged) -> Judged:
    """Return a cell with a video by the delays of its frames."""
    ours, linux = (Side(means=side.frame_means, p95s=side.frame_p95s) for side in one.sides)
    return Judged(one.cell, (ours, linux))


def format_video_row(one: Judged) -> list[str]:
    """Return the row of a cell with a video, by the delays of its frames."""
    cell, mean, half, p95, _, agrees = format_row(judge_frames(one))
    rates = [fmean(side.rates.values()) for side in one.sides]
    bad = [100 * fmean(side.bad_frames.values()) for side in one.sides]
    error = f"{100 * (rates[0] / rates[1] - 1):+.1f} %"
    return [cell, mean, half, p95, f"{rates[0]:.3f} / {rates[1]:.3f} / {error}", f"{bad[0]:.3g} / {bad[1]:.3g}", agrees]


def format_verdict(judged: Sequence[Judged]) -> str:
    """Return how many cells agree, in a sentence."""
    agree = sum(not one.off for one in judged)
    of_chance = sum(one.verdict.endswith("(chance)") for one in judged)
    more = f" Of the others, {of_chance} may be outside by chance." if agree < len(judged) else ""
    return f"**{agree} of {len(judged)} cells agree.**{more}"


def format_table(judged: Sequence[Judged]) -> str:
    """Return the table of some cells."""
    header = ["cell", "mean, ms", "±", "P95, ms", "n", "agrees"]
    return align_table(header, [format_row(one) for one in judged], words=(0, 5))


def main(results: str) -> None:
    """Write the page."""
    judged, versions = judge(results)
    first = [one for one in judged if one.cell[0] in SETTINGS]
    more = [one for one in judged if one.cell[0] in MORE]
    videos = [one for one in first if one.sides[0].rates]
    ours, linux = (sum(one.left_out[side] for one in judged) for side in (0, 1))
    left_out = (
        "Starts in which datagrams over FQ-CoDel share their flow queue with a flow are left out: "
        f"{ours} of the simulator and {linux} of Linux."
    )
    text = TEXT.format(
        left_out=left_out,
        first=len(first),
        starts=max(len(one.sides[0].means) for one in judged),
        verdict=format_verdict(first),
        table=format_table(first),
        frame_verdict=format_verdict([judge_frames(one) for one in videos]),
        video_table=align_table(
            ["cell", "mean, ms", "±", "P95, ms", "rate, Mbit/s", "late or lost, %", "agrees"],
            [format_video_row(one) for one in videos],
            words=(0, 6),
        ),
        more_section=MORE_TEXT.format(verdict=format_verdict(more), table=format_table(more)) if more else "",
        versions=versions,
    )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
