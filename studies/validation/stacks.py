"""A QUIC stack in virtual time and the same stack over real UDP.

python -m studies.validation.stacks    make agree-stacks: docs/validation-stacks.md
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import dumbbell
from dumbbell.study import align_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "validation-stacks.md"
STACK = "quinn-0.11.19"  # as in real/Cargo.toml
SECONDS = 15
BARS = (0.03, 0.06)  # of goodput and RTT
# Runs of a cell, each way: at least and at most; two are enough where the error of their mean goodput is below KNOWN
RUNS, KNOWN = (2, 8), 0.01
REFUSED = 5  # runs in a row that a machine may spoil
TEXT = """\
# A QUIC stack in virtual time and over real UDP

`make agree-stacks` writes this page, which compares {cells} cells with one flow of {seconds} s each. The stack is
{stack}. In virtual time it is a flow of the simulator ([how to](how-to/quic-stack.md)). Over real UDP it runs in the
program [studies/validation/real](../studies/validation/real/src/main.rs), with TLS, sockets and segmentation offload,
behind the same queue in real time (`dumbbell shell`). Windows and the size of a datagram are the same in both. Values
are means: virtual time, real UDP, and the error of virtual time. Each cell was run at least {least} times each way,
and up to {most} times until the standard error of both mean goodputs was below {known:.0f} %. A run over real UDP
counts only if its frames left in time and none was lost outside the queue, including the buffers of sockets: {refused}
runs were refused and repeated.

{table}
"""
FRAME = 1514
# more than any bandwidth-delay product here, as in real/src/main.rs
WINDOWS = dict.fromkeys(("stream_receive_window", "receive_window", "send_window"), "64MB")


@dataclass(frozen=True)
class Cell:
    """One flow over one bottleneck."""

    rate_mbit: int
    rtt_ms: int
    aqm: str
    control: str

    def make_queue(self) -> dict[str, Any]:
        """Return the queue; a plain one holds a bandwidth-delay product, but 20 packets at least."""
        bdp = round(self.rate_mbit * 1e6 * self.rtt_ms / 1e3 / 8 / FRAME)
        return {"name": self.aqm} | ({"limit": max(20, bdp)} if self.aqm == "pfifo" else {})

    def make_bottleneck(self) -> dict[str, Any]:
        """Return the bottleneck as an experiment has it."""
        return {"rate": f"{self.rate_mbit}Mbit", "aqm": self.make_queue()}

    def __str__(self) -> str:
        return f"{self.rate_mbit} Mbit/s, {self.rtt_ms} ms, {self.aqm}, {self.control}"


CELLS = [
    Cell(10, 20, "pfifo", "cubic"),
    Cell(10, 40, "codel", "cubic"),
    Cell(10, 20, "fq_codel", "newreno"),
    Cell(20, 10, "pfifo", "newreno"),
    Cell(20, 40, "pie", "cubic"),
    Cell(20, 80, "pfifo", "cubic"),
    Cell(50, 10, "codel", "newreno"),
    Cell(50, 20, "pfifo", "cubic"),
    Cell(50, 40, "fq_codel", "cubic"),
    Cell(50, 80, "pfifo", "newreno"),
    Cell(100, 10, "pfifo", "cubic"),
    Cell(100, 20, "codel", "cubic"),
    Cell(100, 20, "pfifo", "newreno"),
    Cell(100, 40, "pfifo", "cubic"),
    Cell(100, 40, "fq_codel", "newreno"),
]


@dataclass(frozen=True)
class Measured:
    """What was measured of a cell: goodput in Mbit/s, mean smoothed RTT in ms, packets taken for lost."""

    goodput: float
    rtt: float
    lost: float


def average(measured: list[Measured]) -> Measured:
    """Return means over runs."""
    return Measured(*(fmean(getattr(one, name) for one in measured) for name in ("goodput", "rtt", "lost")))


def simulate_cell(cell: Cell, seed: int) -> Measured:
    """Run a cell in virtual time."""
    flow = {"stack": {"name": STACK} | WINDOWS, "cc": cell.control, "base_rtt": f"{cell.rtt_ms}ms"}
    run = {"duration": f"{SECONDS}s", "seeds": [seed], "bottleneck": cell.make_bottleneck(), "flows": [flow]}
    row = dumbbell.run(run).flows.row(0, named=True)
    return Measured(row["goodput_mbit"], row["rtt_mean_ms"], row["retransmissions"])


class SpoiltError(Exception):
    """A run over real UDP that the machine disturbed."""


def measure_cell(cell: Cell, program: Path) -> Measured:
    """Run a cell with the real program over real UDP; raise SpoiltError if the machine disturbed it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "link.toml"
        queue = ", ".join(f"{key} = {json.dumps(value)}" for key, value in cell.make_queue().items())
        link = f'[bottleneck]\nrate = "{cell.rate_mbit}Mbit"\naqm = {{ {queue} }}\n'
        file.write_text(f'{link}[[flows]]\ncc = "cubic"\nbase_rtt = "{cell.rtt_ms}ms"\n', encoding="utf-8")
        client = [str(program), "client", "10.200.0.2:4433", cell.control, str(SECONDS)]
        server = ["--server", f"{program} server 4433"]
        shell = ["shell", str(file), "--alone", "-o", f"{folder}/r", *server, "--", *client]
        done = subprocess.run([sys.executable, "-m", "dumbbell", *shell], capture_output=True, text=True, check=True)
    if invalid := done.stderr.partition("INVALID: ")[2]:
        raise SpoiltError(invalid.strip())
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    if said["lost_by_sockets"]:
        raise SpoiltError(f"{said['lost_by_sockets']} datagrams were lost in buffers of sockets")
    # the server had these bytes half a base RTT before its answer came
    goodput = said["bytes"] * 8e-6 / (said["seconds"] - cell.rtt_ms / 2e3)
    return Measured(goodput, said["rtt_ms"], said["lost"])


@dataclass
class Runs:
    """What the runs of a cell gave, and why others do not count."""

    simulated: list[Measured]
    real: list[Measured]
    refused: list[str]

    def are_enough(self) -> bool:
        """Return whether both mean goodputs are known well enough, or no more runs are allowed."""
        least, most = RUNS
        if not least <= len(self.real) < most:
            return len(self.real) == most
        both = ([one.goodput for one in of] for of in (self.simulated, self.real))
        return all(bool(stdev(of) < KNOWN * fmean(of) * len(of) ** 0.5) for of in both)


def run_cell(cell: Cell, program: Path) -> Runs:
    """Run a cell both ways until there are enough runs."""
    done = Runs([], [], [])
    spoilt = 0
    while not done.are_enough():
        try:
            done.real.append(measure_cell(cell, program))
        except SpoiltError as why:
            done.refused.append(str(why))
            spoilt += 1
            if spoilt == REFUSED:
                raise SystemExit(f"{cell}: {REFUSED} runs in a row were spoilt, the last: {why}") from None
            continue
        spoilt = 0
        done.simulated.append(simulate_cell(cell, len(done.real)))
    return done


def build_program() -> Path:
    """Build the real program."""
    target = ROOT / "target" / "stacks-real"
    done = os.environ | {"CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=HERE / "real", env=done, check=True)
    return target / "release" / "real"


def make_page(found: dict[Cell, Runs]) -> str:
    """Return the page: what was found in each cell, in virtual time and over real UDP."""
    rows, goodputs, rtts = [], [], []
    for cell, done in found.items():
        ours, theirs = average(done.simulated), average(done.real)
        goodputs.append(ours.goodput / theirs.goodput - 1)
        rtts.append(ours.rtt / theirs.rtt - 1)
        rows.append(
            [
                str(cell),
                str(len(done.real)),
                f"{ours.goodput:.2f} / {theirs.goodput:.2f} / {100 * goodputs[-1]:+.1f} %",
                f"{ours.rtt:.1f} / {theirs.rtt:.1f} / {100 * rtts[-1]:+.1f} %",
                f"{ours.lost:.0f} / {theirs.lost:.0f}",
            ]
        )
    table = align_table(["cell", "runs", "goodput, Mbit/s", "mean RTT, ms", "taken for lost"], rows, words=(0,))
    within = [sum(abs(one) <= bar for one in of) for of, bar in zip((goodputs, rtts), BARS, strict=True)]
    worst = [max(map(abs, of)) for of in (goodputs, rtts)]
    bars = [f"{100 * bar:.0f} % in {count} of {len(rows)} cells" for bar, count in zip(BARS, within, strict=True)]
    counts = {"cells": len(rows), "least": RUNS[0], "most": RUNS[1], "known": 100 * KNOWN}
    refused = sum(len(done.refused) for done in found.values())
    text = TEXT.format(seconds=SECONDS, stack=STACK, refused=refused, table=table, **counts)
    found_out = f"Goodput is within {bars[0]}, mean smoothed RTT within {bars[1]}."
    return f"{text}\n{found_out} The largest errors are {100 * worst[0]:.1f} % and {100 * worst[1]:.1f} %.\n"


def main() -> None:
    """Run every cell both ways and write the page."""
    program = build_program()
    found = {}
    for number, cell in enumerate(CELLS, 1):
        done = found[cell] = run_cell(cell, program)
        ours, theirs = average(done.simulated), average(done.real)
        errors = f"{100 * (ours.goodput / theirs.goodput - 1):+.1f} %, {100 * (ours.rtt / theirs.rtt - 1):+.1f} %"
        again = f", {len(done.refused)} refused: {done.refused[-1]}" if done.refused else ""
        print(f"{number}/{len(CELLS)} {cell}: goodput and RTT {errors}, {len(done.real)} runs{again}", flush=True)
    PAGE.write_text(make_page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
