"""Where the time of a packet goes: instructions and cache misses of each case, by part of the engine.

python -m benches.where    counts, and writes benches/where.csv, limits.csv and docs/speed.md; make bench ends with it

Inlined code counts where it was written: of each address, addr2line says the chain of functions that were inlined
there, and the innermost that is written in this repository has it. Code of Rust's libraries, and the small helpers in
HELPERS, thus belong to whoever uses them. A function that has no such place at all (the allocator, copies of memory,
sorting) is divided among its callers, by what their calls cost.
"""

import csv
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from benches import callgrind, program

FIGURES = Path(__file__).with_name("where.csv")
# (simulated milliseconds of a run, and of a longer one): what is counted lies between the two
CASES = {
    "a": (250, 750),
    "b": (3000, 8000),
    "c": (100, 150),
    "d": (30_000, 80_000),
    "e": (100, 130),
    "f": (70, 90),
    "g": (300, 700),
    "h": (200, 600),
    "i": (250, 750),
    "j": (100, 150),
}
# of the simulated caches: bytes, ways, bytes of a line
FIRST, LAST = "32768,8,64", "8388608,16,64"
CACHES = ("--cache-sim=yes", f"--I1={FIRST}", f"--D1={FIRST}", f"--LL={LAST}")

# Files by the beginning of their place; the longest that fits counts.
PARTS = {
    "crates/dumbbell-sim/src": "scheduling",
    "crates/dumbbell-bottleneck/src": "link and queue",
    "crates/dumbbell-core/src/aqm": "link and queue",
    "crates/dumbbell-core/src/link": "link and queue",
    "crates/dumbbell-core/src/path": "link and queue",
    "crates/dumbbell-core/src/packet": "link and queue",
    "crates/dumbbell-core/src/tcp": "sender",
    "crates/dumbbell-core/src/rtt": "sender",
    "crates/dumbbell-core/src/tcp/receiver": "receiver",
    "crates/dumbbell-core/src/tcp/window": "receiver",
    "crates/dumbbell-core/src/cc": "control",
    "crates/dumbbell-core/src/reply": "receiver",
    "crates/dumbbell-core/src/record": "measuring",
    "crates/dumbbell-core/src/histogram": "measuring",
    "crates/dumbbell-core/src/log.rs": "measuring",
    "crates/dumbbell-core/src/observe.rs": "measuring",
    "crates/dumbbell-measure/src": "measuring",
    "crates/dumbbell-config/src": "scheduling",
    "crates/dumbbell-core/src/fork": "scheduling",
    "crates/dumbbell-core/src/protocol": "scheduling",
    "crates/dumbbell-core/src/traffic": "scheduling",
    "crates/dumbbell-core/src/app": "scheduling",
    "crates/dumbbell-core/src/stream_transport.rs": "scheduling",
    "crates/dumbbell-core/src/media": "scheduling",
    "crates/dumbbell-core/src/bufferbloat": "measuring",
    "crates/dumbbell-core/src/responsiveness": "measuring",
}
HELPERS = re.compile(r"^crates/dumbbell-core/src/(units|buffers|real|rng|slots|prefetch|hint|param|ring|as_dyn)\b")
NAMES = ("scheduling", "link and queue", "sender", "receiver", "control", "measuring", "other")
HERE = re.compile(r"(?:^|/)(crates/dumbbell-[a-z]+/.+)$")


def find_part(file: str) -> str | None:
    """Return the part of the engine that a file belongs to; `None` if it is not of this repository, or a helper."""
    found = HERE.search(file)
    if found is None or HELPERS.match(found[1]):
        return None
    fitting = [start for start in PARTS if found[1].startswith(start)]
    return PARTS[max(fitting, key=len)] if fitting else "other"


def find_parts(binary: Path, addresses: list[int]) -> dict[int, str | None]:
    """Return the part of the engine that each address of a program belongs to."""
    command = ["addr2line", "-a", "-i", "-e", str(binary)]
    asked = "".join(f"{address:#x}\n" for address in addresses)
    said = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    found: dict[int, str | None] = {}
    address = 0
    for line in said.splitlines():
        if line.startswith("0x"):
            address = int(line, 16)
            found[address] = None
        elif found[address] is None:  # the innermost comes first
            found[address] = find_part(line.rpartition(":")[0])
    return found


Function = tuple[str, str]  # its object and name


@dataclass
class Shares:
    """What one run cost: packets, and the counts of each event by part of the engine."""

    packets: int
    events: tuple[str, ...]
    parts: dict[str, list[float]]

    def add(self, part: str, counts: tuple[float, ...]) -> None:
        """Add counts to a part."""
        for index, count in enumerate(counts):
            self.parts[part][index] += count


def measure_shares(binary: Path, case: str, millis: int) -> Shares:
    """Run a case and divide what it cost among the parts."""
    profile = callgrind.run(binary, ["--only", case, str(millis)], "--dump-instr=yes", "--dump-line=no", *CACHES)
    own = str(binary)
    parts = find_parts(binary, sorted({cost.place for cost in profile.costs if cost.object == own}))

    def find_cost_part(cost: callgrind.Cost) -> str | None:
        return parts.get(cost.place) if cost.object == own else None

    loose: dict[Function, list[float]] = {}  # what a function without a place of its own costs
    callers: dict[Function, dict[str | Function, float]] = defaultdict(lambda: defaultdict(float))
    found = Shares(int(profile.printed), profile.events, defaultdict(lambda: [0.0] * len(profile.events)))
    for cost in profile.costs:
        where, function = find_cost_part(cost), (cost.object, cost.function)
        if cost.called is not None:
            if cost.called != function:
                callers[cost.called][where or function] += cost.counts[0]
        elif where is not None:
            found.add(where, cost.counts)
        else:
            sums = loose.setdefault(function, [0.0] * len(profile.events))
            for index, count in enumerate(cost.counts):
                sums[index] += count
    # up the calls until a part has it; what has no caller, or calls itself in circles, is `other`
    for _ in range(50):
        if not loose:
            break
        risen: dict[Function, list[float]] = {}
        for function, counts in loose.items():
            above = callers.get(function, {})
            total = sum(above.values())
            if not total:
                found.add("other", tuple(counts))
                continue
            for caller, weight in above.items():
                part_counts = tuple(count * weight / total for count in counts)
                if isinstance(caller, str):
                    found.add(caller, part_counts)
                else:
                    sums = risen.setdefault(caller, [0.0] * len(counts))
                    for index, share in enumerate(part_counts):
                        sums[index] += share
        loose = risen
    for counts in loose.values():
        found.add("other", tuple(counts))
    return found


def count_hardware(binary: Path, case: str, millis: int) -> tuple[float, float, float] | None:
    """Return instructions and misses in the first and last cache by the processor's own counters, if they count."""
    if shutil.which("perf") is None:
        return None
    events = "instructions:u,L1-dcache-load-misses:u,LLC-load-misses:u"
    command = ["perf", "stat", "-x", ",", "-e", events, str(binary), "--only", case, str(millis)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    counts = [line.split(",")[0] for line in said.splitlines() if ":u" in line]
    if len(counts) != 3 or not all(count.isdigit() for count in counts):
        return None
    first, second, third = map(float, counts)
    return first, second, third


def count_costs() -> None:
    """Count all cases and write the figures."""
    binary = program.build_program("release")
    rows = []
    for case, (short, long) in CASES.items():
        before, after = measure_shares(binary, case, short), measure_shares(binary, case, long)
        packets = after.packets - before.packets

        def divide_by_packets(
            part: str, event: str, before: Shares = before, after: Shares = after, packets: int = packets
        ) -> float:
            index = after.events.index(event)
            return (after.parts[part][index] - before.parts[part][index]) / packets

        row: dict[str, str | float] = {"case": case}
        row |= {part: f"{divide_by_packets(part, 'Ir'):.1f}" for part in NAMES}
        for name, events in {"first": ("D1mr", "D1mw"), "last": ("DLmr", "DLmw")}.items():
            row[name] = f"{sum(divide_by_packets(part, event) for part in NAMES for event in events):.3f}"
        counted = [count_hardware(binary, case, millis) for millis in (short, long)]
        row["caches"] = "simulated"
        if counted[0] is not None and counted[1] is not None:
            _, first, last = ((later - sooner) / packets for sooner, later in zip(counted[0], counted[1], strict=True))
            row |= {"first": f"{first:.3f}", "last": f"{last:.3f}", "caches": "counted"}
        row["version"] = read_version()
        rows.append(row)
        print(" ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_version() -> str:
    """Return the commit that is counted."""
    command = ["git", "describe", "--always"]
    done = subprocess.run(command, cwd=program.ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    """Count, and write the page."""
    from benches import limits, page

    limits.count_misses()
    if callgrind.works() and shutil.which("addr2line"):
        count_costs()
    else:
        print("docs/speed.md keeps what it says of instructions: valgrind or addr2line is not there", file=sys.stderr)
    page.write()


if __name__ == "__main__":
    main()
