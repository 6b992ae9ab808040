"""Another queue or control in the middle of a run, next to `tc qdisc replace` and TCP_CONGESTION on Linux 6.12.

Flows of 20 ms share 10 Mbit/s. At 10 s the queue, or the control of the first flow, is replaced. A guest of the linux
engine runs a command at that time; what its kernel does is read from its samples of TCP_INFO and its captures.
"""

import dataclasses
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dumbbell
from dumbbell import _native
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux.mapping import map_cell
from dumbbell.engines.linux.plan import FIRST_PORT
from dumbbell.experiment.file import parse
from real_linux import require_engine

HELPER = Path(__file__).with_name("set_congestion_control.c")
FIFO_LIMIT = 200  # packets
FIFO = {"name": "pfifo", "limit": FIFO_LIMIT}
MS = 1_000_000
REPLACED_MS = 10_000
TIMES_MS = (20, 40, 100, 200, 500, 1000)  # after the replacement
# a sender's clock runs ahead by the half of its base RTT that lies ahead of the queue (engine.rs)
AHEAD_MS = 10
# guest.c: sample_record, packet_record
SAMPLE = np.dtype({"names": ["time", "flow", "cwnd", "ssthresh"], "formats": ["<i8", "<u4", "<u4", "<u4"],
                   "offsets": [0, 8, 24, 28], "itemsize": 64})  # fmt: skip
PACKET = np.dtype({"names": ["time", "flow", "seq", "len", "id", "back"],
                   "formats": ["<u8", "<u4", "<u4", "<u4", "<u2", "u1"],
                   "offsets": [0, 8, 12, 16, 24, 29], "itemsize": 32})  # fmt: skip


@dataclass(frozen=True)
class Replacement:
    """The queue and the controls ahead of the change, the key that changes, and its new value."""

    queue: Any
    controls: tuple[str, ...]
    key: str
    value: str

    def make_table(self, seed: int) -> dict[str, Any]:
        flow = {"base_rtt": "20ms", "start": {"uniform": ["0s", "1s"]}}
        return {
            "duration": "12s",
            "seeds": [seed],
            "bottleneck": {"rate": "10Mbit", "aqm": self.queue, "shaper": "htb"},
            "record": {"interval": "10ms"},
            "flows": [flow | {"cc": control} for control in self.controls],
        }


@dataclass(frozen=True)
class Aftermath:
    """The packets that the old queue took with it, the rate of the link in the next second, and windows.

    `windows` has the window and the threshold of each flow at each of `TIMES_MS`, segments.
    """

    dropped: int
    carried_mbit: float
    windows: tuple[tuple[tuple[int, int], ...], ...]


REPLACEMENTS = {
    "codel": Replacement(FIFO, ("cubic", "cubic"), "bottleneck.aqm", "codel"),
    "fq_codel": Replacement(FIFO, ("cubic", "cubic"), "bottleneck.aqm", "fq_codel"),
    "reno to cubic": Replacement(FIFO, ("reno",), "flows[0].cc", "cubic"),
    "cubic to bbr1": Replacement(FIFO, ("cubic",), "flows[0].cc", "bbr1"),
    "bbr1 to cubic": Replacement(FIFO, ("bbr1",), "flows[0].cc", "cubic"),
    "cubic to bbr1 over codel": Replacement("codel", ("cubic",), "flows[0].cc", "bbr1"),
}


def simulate(replacement: Replacement, seed: int) -> Aftermath:
    simulation = dumbbell.Simulation(replacement.make_table(seed), seed=seed)
    is_queue = replacement.key == "bottleneck.aqm"
    at_ms = REPLACED_MS + (0 if is_queue else AHEAD_MS)
    simulation.step(until=at_ms / 1e3)
    before = simulation.view().queues
    simulation.set(replacement.key, replacement.value)
    dropped = simulation.view().queues["drops_aqm"][0] - before["drops_aqm"][0]
    windows = []
    for time_ms in TIMES_MS:
        simulation.step(until=(REPLACED_MS + time_ms + AHEAD_MS) / 1e3)
        flows = simulation.view().flows
        windows.append(tuple(zip(flows["cwnd"], flows["ssthresh"], strict=True)))
    carried = simulation.view().queues["bytes"][0] - before["bytes"][0]
    lasted_ms = REPLACED_MS + TIMES_MS[-1] + AHEAD_MS - at_ms
    return Aftermath(dropped, carried * 8 / 1e3 / lasted_ms, tuple(windows))


@pytest.fixture(scope="module")
def engine() -> linux.LinuxEngine:
    return require_engine()


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("helper") / "set_congestion_control"
    subprocess.run(["cc", "-O2", "-Wall", "-o", program, HELPER], check=True)
    return program


def run_on_linux(replacement: Replacement, seed: int, helper: Path, chosen: linux.LinuxEngine) -> Aftermath:
    cell = parse(replacement.make_table(seed)).make_cell(0)
    plan = map_cell(cell, chosen.kernel)
    command = (
        f"tc -n M qdisc replace dev m1 parent 1:1 {replacement.value}"
        if replacement.key == "bottleneck.aqm"
        else f"{helper} {FIRST_PORT} {replacement.value.removesuffix('1')}"
    )
    plan = dataclasses.replace(plan, plan=f"{plan.plan}at {REPLACED_MS * MS} {command}\n")
    with linux.Guests(chosen, 1) as guests, guests.run_guest(cell, plan, _native.Progress()) as folder:
        assert not (folder / "failed").exists(), (folder / "failed").read_text()
        started = int((folder / "done").read_text())
        samples = np.fromfile(folder / "samples", SAMPLE)
        arrived, sent = (np.fromfile(folder / name, PACKET) for name in ("arrived", "sent"))
    return measure_captures(samples, arrived, sent, started)


def measure_captures(samples: Any, arrived: Any, sent: Any, started: int) -> Aftermath:
    """Return what a replacement did; `started` is the clock of the captures at the start of the run, ns."""
    at = started + REPLACED_MS * MS

    def name_packets(packets: Any) -> list[tuple[int, ...]]:
        return list(map(tuple, packets[["flow", "seq", "id"]].tolist()))

    come, gone = (name_packets(packets[packets["time"] < at]) for packets in (arrived, sent))
    # behind the last packet that a FIFO sent
    queued = come[len(come) - come[::-1].index(gone[-1]) :]
    ever = set(name_packets(sent))
    second = (sent["time"] >= at) & (sent["time"] < at + TIMES_MS[-1] * MS)
    windows = []
    for time_ms in TIMES_MS:
        now = samples[samples["time"] == (REPLACED_MS + time_ms) * MS]
        windows.append(tuple((int(one["cwnd"]), int(one["ssthresh"])) for one in np.sort(now, order="flow")))
    carried = float(sent["len"][second].sum()) * 8 / 1e3 / TIMES_MS[-1]
    return Aftermath(len([one for one in queued if one not in ever]), carried, tuple(windows))


# windows and thresholds at `TIMES_MS` by the start, seeds 1 to 4, on Linux 6.12.117
UNLIMITED = 2**31 - 1
LINUX_CONTROLS = {
    "reno to cubic": {
        1: [(154, 108), (155, 108), (158, 108), (162, 108), (174, 108), (195, 108)],
        2: [(154, 108), (155, 108), (158, 108), (162, 108), (174, 108), (195, 108)],
        3: [(156, 108), (157, 108), (160, 108), (164, 108), (176, 108), (197, 108)],
        4: [(157, 108), (158, 108), (161, 108), (165, 108), (177, 108), (198, 108)],
    },
    "cubic to bbr1": {
        1: [(157, UNLIMITED), (157, UNLIMITED), (157, UNLIMITED), (157, UNLIMITED), (157, UNLIMITED), (44, 24)],
        2: [(159, UNLIMITED), (159, UNLIMITED), (159, UNLIMITED), (159, UNLIMITED), (159, UNLIMITED), (44, 24)],
        3: [(164, UNLIMITED), (164, UNLIMITED), (164, UNLIMITED), (164, UNLIMITED), (164, UNLIMITED), (44, 24)],
        4: [(168, UNLIMITED), (168, UNLIMITED), (168, UNLIMITED), (168, UNLIMITED), (168, UNLIMITED), (58, 24)],
    },
    "bbr1 to cubic": {
        1: [(44, 24), (44, 24), (47, 24), (51, 24), (63, 24), (84, 24)],
        2: [(44, 24), (44, 24), (47, 24), (51, 24), (63, 24), (84, 24)],
        3: [(46, 24), (46, 24), (49, 24), (53, 24), (65, 24), (86, 24)],
        4: [(44, 24), (44, 24), (47, 24), (51, 24), (63, 24), (84, 24)],
    },
}
STARTS = range(1, 21)
# of 20 starts on Linux: mean and bounds of the packets that are dropped, flows of 40 that wait for a timeout then, and
# the sum of both windows 0.1, 0.5 and 1 s later
LINUX_QUEUES: dict[str, tuple[float, float, float, float, float]] = {
    "codel": (170.3, 7, 100, 71, 24),
    "fq_codel": (170.3, 6, 97, 81, 34),
}


def compare_windows(found: Aftermath, wanted: list[tuple[int, int]]) -> None:
    windows = [one for (one,) in found.windows]
    assert [ssthresh for _, ssthresh in windows] == [ssthresh for _, ssthresh in wanted]
    assert [cwnd for cwnd, _ in windows] == pytest.approx([cwnd for cwnd, _ in wanted], abs=2)


@pytest.mark.parametrize("name", LINUX_CONTROLS)
def test_another_control_does_with_a_connection_what_it_does_on_linux(name: str) -> None:
    for seed, windows in LINUX_CONTROLS[name].items():
        found = simulate(REPLACEMENTS[name], seed)
        assert found.dropped == 0 and found.carried_mbit == pytest.approx(10, rel=0.003), seed
        compare_windows(found, windows)


@pytest.mark.parametrize("name", LINUX_QUEUES)
def test_another_queue_does_with_its_flows_what_it_does_on_linux(name: str) -> None:
    """In which order two flows come to a queue is chaotic, so that numbers of many starts are compared."""
    found = [simulate(REPLACEMENTS[name], seed) for seed in STARTS]
    dropped, waiting, *sums = summarize(found)
    wanted = LINUX_QUEUES[name]
    assert dropped == pytest.approx(wanted[0], abs=5) and all(one.dropped <= FIFO_LIMIT for one in found)
    assert np.mean([one.carried_mbit for one in found]) == pytest.approx(10, rel=0.005)
    # of 40 flows, with the standard deviation of a difference of two binomial numbers
    assert abs(waiting - wanted[1]) <= 2 * (2 * 40 * 0.2 * 0.8) ** 0.5
    assert sums == pytest.approx(wanted[2:], rel=0.2)


def summarize(found: list[Aftermath]) -> list[float]:
    """Return means: packets dropped, flows that still wait for a timeout 0.1 s later, sums of windows later on.

    A flow none of whose packets was on its way past the queue hears nothing any more, and its window stays.
    """
    early, late = TIMES_MS.index(20), TIMES_MS.index(100)
    pairs = [(one.windows[early][flow], one.windows[late][flow]) for one in found for flow in (0, 1)]
    waiting = sum(first == second and first[0] > 20 for first, second in pairs)
    sums = [
        np.mean([sum(cwnd for cwnd, _ in one.windows[TIMES_MS.index(at)]) for one in found]) for at in (100, 500, 1000)
    ]
    return [float(np.mean([one.dropped for one in found])), waiting, *map(float, sums)]


@pytest.mark.slow
def test_a_guest_replaces_queue_and_control(engine: linux.LinuxEngine, helper: Path) -> None:
    queue = run_on_linux(REPLACEMENTS["fq_codel"], 1, helper, engine)
    assert queue.dropped == pytest.approx(LINUX_QUEUES["fq_codel"][0], abs=15)
    name = "cubic to bbr1"
    compare_windows(run_on_linux(REPLACEMENTS[name], 1, helper, engine), LINUX_CONTROLS[name][1])


def test_bbr_over_a_short_queue_grows_one_round_trip_later_than_on_linux() -> None:
    """The kernel stamps segments of every control, the simulator those of controls with rate samples.

    On Linux the window is 32 to 38 segments 20 ms after the change, 48 to 54 after 40 ms and 54 to 56 after 100 ms.
    """
    for seed in range(1, 5):
        cwnd = [one[0][0] for one in simulate(REPLACEMENTS["cubic to bbr1 over codel"], seed).windows]
        assert 15 <= cwnd[0] <= 25 and 28 <= cwnd[1] <= 38 and 53 <= cwnd[2] <= 57, (seed, cwnd)


def test_cubic_that_takes_over_grows_by_a_twentieth_in_a_round_trip() -> None:
    """It has seen no loss. Linux `bictcp_update`: if (ca->last_max_cwnd == 0 && ca->cnt > 20) ca->cnt = 20.

    A second of 10 Mbit/s acknowledges 825.6 segments of 1514 B, and every twentieth adds one to the window: 41.
    Reno adds one for each window, 5 in this second.
    """
    growth: dict[str, int] = {}
    for control in ("cubic", "reno"):
        simulation = dumbbell.Simulation(REPLACEMENTS["reno to cubic"].make_table(1), seed=1)
        simulation.step(until="10s")
        before = simulation.set("flows[0].cc", control).view().flows
        simulation.step(for_="1s")
        after = simulation.view().flows
        acked = (after["payload_bytes"][0] - before["payload_bytes"][0]) / 1448
        assert acked == pytest.approx(825.6, abs=3)
        growth[control] = after["cwnd"][0] - before["cwnd"][0]
    assert growth["cubic"] == pytest.approx(825.6 / 20, abs=1)
    assert growth["reno"] == pytest.approx(825.6 / (153 + 5 / 2), abs=1)


def test_bbr_that_takes_over_a_full_queue_drains_after_four_round_trips() -> None:
    """A window of 100 segments at 10 Mbit/s has an RTT of 100 * 1.2112 ms, whatever it is paced with.

    The first round ends when a segment is acknowledged that left after the change (Linux `bbr_init`:
    next_rtt_delivered = tp->delivered) and gives the bandwidth; three more without growth end STARTUP
    (`bbr_full_bw_cnt`), and DRAIN sets the threshold to the BDP.
    """
    flow = {"cc": {"name": "constant", "window": 100}, "base_rtt": "20ms"}
    table = {
        "duration": "4s",
        "bottleneck": {"rate": "10Mbit", "aqm": "pfifo"},
        "hosts": {"delayed_ack": False},
        "flows": [flow],
    }
    simulation = dumbbell.Simulation(table)
    simulation.step(until="2s")
    simulation.set("flows[0].cc", "bbr1")
    assert simulation.view().controls["state"] == ["startup"] and simulation.view().flows["cwnd"] == [100]
    simulation.step(for_="0.484s")
    assert simulation.view().controls["state"] == ["startup"] and simulation.view().flows["cwnd"] == [100]
    simulation.step(for_="0.003s")
    assert simulation.view().controls["state"] == ["drain"]
