"""Simulations that go on step by step: the bits of a run, copies, changes, events, and agents of many flows."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dumbbell
from dumbbell import Agents, Simulation, _native
from dumbbell.errors import InputError
from dumbbell.experiment.plugins import trust

FLOWS = [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "bbr3", "base_rtt": "40ms"}]
EXPERIMENT: dict[str, Any] = {
    "duration": "2s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": FLOWS,
    "record": {"interval": "100ms"},
}
ALONE: dict[str, Any] = EXPERIMENT | {"flows": [{"cc": "external", "base_rtt": "20ms"}]}


def find_hash(results: dumbbell.Results) -> str:
    """Return the digest of the only run."""
    found: str = results.runs["hash"].item()
    return found


@pytest.fixture(scope="module")
def expected() -> str:
    return find_hash(dumbbell.run(EXPERIMENT))


def test_a_simulation_in_any_pieces_measures_what_a_run_measures(expected: str) -> None:
    simulation = Simulation(EXPERIMENT)
    assert (simulation.time, simulation.over) == (0, False)
    assert not simulation.step(until="123ms") and simulation.time == 0.123
    simulation.step(for_=0.0005)
    simulation.step(until=0.1)  # has passed
    assert simulation.time == 0.1235
    assert not simulation.step(for_="1s")
    results = simulation.finish()
    assert find_hash(results) == expected
    whole = Simulation(EXPERIMENT)
    assert whole.step(until="3s") and whole.over and find_hash(whole.finish()) == expected
    run = dumbbell.run(EXPERIMENT)
    assert results.flows.drop("hash", strict=False).equals(run.flows.drop("hash", strict=False))
    assert Simulation(EXPERIMENT, {"bottleneck.rate": "5Mbit"}, seed=4).view().flows["flow"] == [0, 1]


def test_copies_and_snapshots_go_on_to_the_same_bits(expected: str) -> None:
    simulation = Simulation(EXPERIMENT)
    simulation.step(until="700ms")
    snapshot, copy = simulation.snapshot(), simulation.fork()
    assert snapshot.time == 0.7
    simulation.set("bottleneck.rate", "2Mbit").step(for_="300ms")
    assert copy.view() != simulation.view()
    for _ in range(2):
        simulation.restore(snapshot)
        assert simulation.view() == copy.view()
        simulation.step(for_="200ms")
    assert find_hash(simulation.finish()) == find_hash(copy.finish()) == expected
    with pytest.raises(InputError, match="finished"):
        simulation.step(for_=1)
    with pytest.raises(InputError, match="another run"):
        Simulation(EXPERIMENT, seed=9).restore(snapshot)
    # the snapshot outlives what it is of
    assert find_hash(simulation.restore(snapshot).finish()) == expected


def test_a_change_is_that_of_a_file() -> None:
    changes = [{"at": "600.1ms", "rate": "3Mbit"}]
    file = EXPERIMENT | {"bottleneck": EXPERIMENT["bottleneck"] | {"rate_changes": changes}}
    simulation = Simulation(EXPERIMENT)
    simulation.step(until="600.1ms")
    assert find_hash(simulation.set("bottleneck.rate", "3Mbit").finish()) == find_hash(dumbbell.run(file))
    late = EXPERIMENT | {"flows": [FLOWS[0], FLOWS[1] | {"start": "1.9s"}]}
    started = EXPERIMENT | {"flows": [FLOWS[0], FLOWS[1] | {"start": "500.1ms", "stop": "1.5s"}]}
    simulation = Simulation(late)
    simulation.step(until="500.1ms")
    simulation.set("flows[1].start", "now").step(for_="200ms")
    assert find_hash(simulation.set("flows[1].stop", "1.5s").finish()) == find_hash(dumbbell.run(started))
    target = EXPERIMENT | {"bottleneck": {"rate": "10Mbit", "aqm": {"name": "codel", "target": "1ms"}}}
    simulation = Simulation(EXPERIMENT).set("bottleneck.aqm.target", "1ms")
    assert find_hash(simulation.finish()) == find_hash(dumbbell.run(target))


def test_a_queue_of_another_kind_drops_the_packets_of_the_old_one() -> None:
    full = {"bottleneck": {"rate": "10Mbit", "aqm": "pfifo"}, "flows": [{"cc": {"name": "constant", "window": 100}}]}
    simulation = Simulation({"duration": "3s"} | full, events=True)
    # 100 frames of 1514 B, of which 10 Mbit/s over the default base RTT of 20 ms hold 16.5
    list(simulation.events(until="1s"))
    queued = simulation.view().queues["backlog_packets"][0]
    assert 80 <= queued <= 85
    snapshot = simulation.snapshot()
    simulation.set("bottleneck.aqm", {"name": "fq_codel", "target": "2ms"})
    queues = simulation.view().queues
    assert (queues["backlog_packets"], queues["drops_aqm"], queues["drops_overflow"]) == ([0], [queued], [0])
    found = list(simulation.events(until="1s"))
    assert [(one.kind, one.reason) for one in found] == [("replaced", "in the queue")] * queued
    # from now on its parameters are those of the new one
    simulation.set("bottleneck.aqm.quantum", "3000B")
    with pytest.raises(InputError, match="did you mean target"):
        simulation.set("bottleneck.aqm.targte", "1ms")
    with pytest.raises(InputError, match="fq_codel cannot change while it runs"):
        simulation.set("bottleneck.aqm", {"name": "fq_codel", "flows": 10})
    simulation.set("bottleneck.aqm", {"name": "fq_codel", "limit": 50})
    simulation.finish()
    # the state before it has the old one
    simulation.restore(snapshot).set("bottleneck.aqm.limit", 10)
    assert simulation.view().queues["backlog_packets"] == [queued]
    before = EXPERIMENT | {"bottleneck": {"rate": "10Mbit", "aqm": "cake"}}
    assert find_hash(Simulation(before).set("bottleneck.aqm", "codel").finish()) == find_hash(dumbbell.run(EXPERIMENT))


def test_another_control_takes_over_a_connection() -> None:
    table = EXPERIMENT | {"flows": [FLOWS[0] | {"count": 2}, FLOWS[1]], "hosts": {"profile": "linux-5.1"}}
    simulation = Simulation(table)
    simulation.step(until="1s")
    before = simulation.view()
    simulation.set("flows[1].cc", "bbr1").set("flows[2].cc", {"name": "cubic", "fast_convergence": False})
    after = simulation.view()
    # bbr_init sets the threshold, and leaves the window
    assert (after.flows["cwnd"], after.flows["in_flight"]) == (before.flows["cwnd"], before.flows["in_flight"])
    assert [state != "" for state in after.controls["state"]] == [False, True, False]
    results = simulation.finish()
    assert results.flows["cc"].to_list() == ["cubic", "bbr1", "cubic"]


def test_a_view_has_flows_queues_and_controls_as_columns() -> None:
    simulation = Simulation(EXPERIMENT)
    simulation.step(until="1s")
    view = simulation.view()
    assert view.time == 1 and view.events > 1000
    assert view.flows["flow"] == [0, 1] and all(payload > 100_000 for payload in view.flows["payload_bytes"])
    assert view.queues["hop"] == ["bottleneck"] and view.queues["backlog_packets"][0] > 0
    assert set(view.queues) >= {"count", "dropping"}, "the state of CoDel"
    assert view.controls["state"][0] == "" and view.controls["state"][1].startswith("probe")
    frame = view.frame("controls")
    assert frame.height == 2 and frame.schema["bw_mbit"] == pl.Float64
    assert pa.table(view.frame("flows")).num_rows == 2


def test_events_are_those_of_the_run_as_it_goes(expected: str) -> None:
    simulation = Simulation(EXPERIMENT, events=True)
    found = list(simulation.events(until="1s"))
    assert simulation.time == 1
    assert [one.time for one in found] == sorted(one.time for one in found)
    count = {name: sum(one.event == name for one in found) for name in ("arrival", "drop", "departure")}
    queues = simulation.view().queues
    assert count["departure"] == queues["packets"][0]
    assert count["drop"] == queues["drops_aqm"][0] + queues["drops_overflow"][0] > 0
    assert {one.flow for one in found} == {0, 1} and {one.hop for one in found} == {"bottleneck"}
    # a copy has its own events, those that were not taken yet too
    simulation.step(for_="10ms")
    snapshot, copy = simulation.snapshot(), simulation.fork()
    rest = list(simulation.events(until="1.5s"))
    assert rest[0].time <= 1.01 and rest == list(copy.events(until="1.5s"))
    simulation.restore(snapshot).set("bottleneck.rate", "1Mbit")
    assert list(simulation.events(until="1.5s")) != rest
    assert find_hash(copy.finish()) == expected
    assert Agents([Simulation(ALONE, events=True)], every="10ms").step().shape == (1, len(Agents.columns))


LIBRARY = {"control": "flows[0].cc.plugin", "queue": "bottleneck.aqm.plugin"}


@pytest.mark.parametrize("kind", LIBRARY)
def test_libraries_in_c_are_copied_with_a_run(kind: str, tmp_path: Path) -> None:
    source = (Path(dumbbell.__file__).parent / "experiment" / "plugins" / "templates" / f"{kind}.c").read_text()
    (tmp_path / "own.c").write_text(source.replace("@NAME@", "own"))
    (tmp_path / "dumbbell.h").write_text(_native.plugin_header())
    library = tmp_path / "libown.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "own.c"], check=True)
    trust.trust(tmp_path)
    overrides = {LIBRARY[kind].removesuffix(".plugin"): {"plugin": str(library)}}
    expected = find_hash(dumbbell.simulate(EXPERIMENT, overrides))
    simulation = Simulation(EXPERIMENT, overrides)
    simulation.step(until="700ms")
    copy = simulation.fork()
    simulation.step(for_="500ms")
    other = copy.fork()
    assert [find_hash(one.finish()) for one in (copy, simulation)] == [expected] * 2
    # a registered algorithm may take its place, but not the other way round
    other.set("bottleneck.aqm", "pie").set("flows[0].cc", "reno").step(for_="100ms")
    with pytest.raises(InputError, match="a registered"):
        other.set(*overrides.popitem())
    other.finish()


WRONG = [
    (lambda one: one.step(), "until or for_ is missing"),
    (lambda one: one.step(until=1, for_=1), "until and for_ cannot be combined"),
    (lambda one: one.step(until="soon"), 'until is "soon"'),
    (lambda one: one.step(for_=-1), "for_ is -1"),
    (lambda one: one.step(for_=float("nan")), "for_ is nan"),
    (lambda one: one.step(until=True), "until is true"),
    (lambda one: one.set("bottleneck.rate", "5"), 'did you mean "5Mbit"'),
    (lambda one: one.set("bottleneck.aqm.targte", "5ms"), "did you mean target"),
    (lambda one: one.set("bottleneck.aqm", {"name": "pie", "target": "5"}), 'bottleneck.aqm.target is "5"'),
    (lambda one: one.set("flows[0].cc", {"name": "cubic", "beta": "x"}), 'cc.beta is "x"'),
    (lambda one: one.set("bottleneck.aqm.control_law", "rfc8289"), "codel cannot change while it runs"),
    (lambda one: one.set("bottleneck.delay", "5ms"), "cannot change while the run goes on"),
    (lambda one: one.set("hop[0].rate", "5Mbit"), "a hop that the run does not have"),
    (lambda one: one.set("flows[7].stop", "now"), "0 to 1"),
    (lambda one: one.set("flows[0].start", "now"), "has begun"),
    (lambda one: one.set("flows[0].cwnd", 10), "control cubic"),
    (lambda one: one.set("flows[0]..cwnd", 10), "bottleneck.rate"),
    (lambda one: one.set("bottleneck.aqm", "codell"), 'did you mean "codel"'),
    (lambda one: one.set("bottleneck.aqm", {"name": "pie", "target": "5"}), 'did you mean "5ms"'),
    (lambda one: one.set("flows[0].cc", "external"), "external in the place of cubic"),
    (lambda one: one.set("flows[0].cc", "prague"), "whose ends have not agreed to ECN"),
    (lambda one: one.set("flows[1].cc", "renno"), 'did you mean "reno"'),
    (lambda one: one.set("flows[7].cc", "reno"), "0 to 1"),
    (lambda one: one.restore(one), "what snapshot"),
    (lambda one: one.view().frame("hops"), "flows, queues, controls"),
    (lambda one: one.events(), "keeps no events"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_misuse_is_an_input_error_that_says_what_is_allowed(call: Any, said: str) -> None:
    simulation = Simulation(EXPERIMENT)
    simulation.step(until="100ms")
    before = simulation.view()
    with pytest.raises(InputError) as caught:
        call(simulation)
    assert said in str(caught.value)
    assert simulation.view() == before


def test_an_experiment_has_one_run() -> None:
    several = EXPERIMENT | {"matrix": {"bottleneck.rate": ["1Mbit", "2Mbit"]}, "seeds": [1, 2]}
    with pytest.raises(InputError, match=r"4 runs, which differ in bottleneck.rate, seeds"):
        Simulation(several)
    assert Simulation(several, {"bottleneck.rate": "2Mbit"}, seed=2).time == 0
    with pytest.raises(InputError, match="nowhere"):
        Simulation("nowhere.toml")
    with pytest.raises(InputError, match="one or more with cc"):
        Agents([Simulation(EXPERIMENT)], every="10ms")


PLUGIN = """
{imports}
class Grows:
    kind, name, title, source, by = "control", "grows", "A window that grows", "a test", "window"

    def __init__(self, params, seed, flow):
        self.counts = [0]
        {extra}

    def cong_avoid(self, conn, steer, acked):
        self.counts[0] += acked
        steer.cwnd = 2 + self.counts[0] // 50

    def ssthresh(self, conn, steer, by):
        return max(conn.in_flight // 2, 2)


plugin = Grows
"""


def make_plugin(folder: Path, imports: str = "", extra: str = "") -> dict[str, Any]:
    """Return an experiment with a control that is a class in Python."""
    trust.trust(folder)
    (folder / "grows.py").write_text(PLUGIN.format(imports=imports, extra=extra))
    flows = [FLOWS[0] | {"cc": {"plugin": str(folder / "grows.py")}}, FLOWS[0]]
    return EXPERIMENT | {"duration": "1s", "flows": flows}


def test_classes_in_python_are_copied_with_a_run_or_refused_by_name(tmp_path: Path) -> None:
    experiment = make_plugin(tmp_path)
    expected = find_hash(dumbbell.run(experiment))
    simulation = Simulation(experiment)
    simulation.step(until="300ms")
    copies = [simulation.fork() for _ in range(2)]
    copies[0].step(for_="400ms")
    assert [find_hash(one.finish()) for one in (*copies, simulation)] == [expected] * 3
    held = Simulation(make_plugin(tmp_path, "import threading", "self.lock = threading.Lock()"))
    held.step(until="300ms")
    with pytest.raises(
        InputError, match=r"flow 0: the congestion control grows cannot be copied: copy.deepcopy: TypeError"
    ):
        held.fork()
    assert not held.step(until="400ms"), "it goes on all the same"


def test_a_window_that_an_agent_holds_is_that_of_the_constant_control() -> None:
    agents = Agents([Simulation(ALONE)], every="10ms")
    assert agents.rows == [(0, 0)] and agents.due.tolist() == [1]
    action = np.array([[30, np.nan]])
    while not agents.over[0]:
        agents.step(action)
    seen = dict(zip(agents.columns, agents.observations[0], strict=True))
    assert seen["cwnd"] == seen["in_flight"] == seen["action_cwnd"] == 30 and np.isnan(seen["action_rate_mbit"])
    constant = dumbbell.run(EXPERIMENT | {"flows": [{"cc": {"name": "constant", "window": 30}, "base_rtt": "20ms"}]})
    found = agents.fork(0).finish()
    drop = ("key", "cc", "hash", "experiment")
    assert found.flows.drop(*drop, strict=False).equals(constant.flows.drop(*drop, strict=False))


def test_observations_of_a_known_window_are_computed_by_hand() -> None:
    # 10 segments of 1514 B at 10 Mbit/s over 20 ms: a round trip takes 21.2112 ms, in 12.112 ms of which the link sends
    agents = Agents([Simulation(ALONE | {"bottleneck": {"rate": "10Mbit", "aqm": "pfifo"}})], every="500ms")
    agents.step(np.array([[10, np.nan]]))
    seen = dict(zip(agents.columns, agents.step()[0], strict=True))
    assert seen["elapsed_ms"] == 500 and seen["loss"] == seen["ce"] == 0 and seen["pacing_rate_mbit"] == 0
    # 10 x 1448 B each turn
    assert abs(seen["goodput_mbit"] - 10 * 1448 * 8e-6 / 21.2112e-3) < 0.3
    assert seen["delivery_rate_mbit"] == pytest.approx(seen["goodput_mbit"], rel=0.05)
    assert seen["sending_rate_mbit"] == pytest.approx(seen["goodput_mbit"], rel=0.05)
    assert 21.2 < seen["rtt_min_ms"] <= seen["rtt_mean_ms"] <= 34 and seen["min_rtt_ms"] <= seen["rtt_min_ms"]
    assert seen["in_flight"] == seen["cwnd"] == 10
    agents.step(np.array([[np.nan, 4.0]]))
    seen = dict(zip(agents.columns, agents.observations[0], strict=True))
    assert (seen["cwnd"], seen["pacing_rate_mbit"], seen["action_rate_mbit"]) == (10, 4, 4)
    assert seen["sending_rate_mbit"] == pytest.approx(4, rel=0.02)


def test_many_simulations_are_what_each_is_alone_on_any_number_of_threads() -> None:
    two = ALONE | {"flows": [*ALONE["flows"], {"cc": "cubic", "base_rtt": "30ms"}, *ALONE["flows"]]}
    experiments = [ALONE, two, ALONE | {"bottleneck": {"rate": "3Mbit", "aqm": "pie"}}]
    actions = np.random.default_rng(1).uniform(2, 60, (40, 4, 2))
    actions[:, :, 1] = np.nan

    def act(chosen: list[int], rows: list[int], threads: int) -> list[np.ndarray]:
        agents = Agents([Simulation(experiments[one], seed=one) for one in chosen], every="1rtt", threads=threads)
        assert len(agents.rows) == len(rows)
        return [agents.step(actions[number, rows]).copy() for number in range(40)]

    together, apart = act([0, 1, 2], [0, 1, 2, 3], 2), act([0, 1, 2], [0, 1, 2, 3], 1)
    np.testing.assert_array_equal(together, apart)
    for chosen, rows in ((0, [0]), (1, [1, 2]), (2, [3])):
        np.testing.assert_array_equal(act([chosen], rows, 1), [seen[rows] for seen in together])


def test_additive_increase_after_each_ack_is_that_of_reno() -> None:
    experiment: dict[str, Any] = {
        "duration": "5s",
        "bottleneck": {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 10_000}},
        "hosts": {"initial_ssthresh": 20},
    }
    agents = Agents([Simulation(experiment | {"flows": ALONE["flows"]})], every="ack")
    rate, elapsed = (agents.columns.index(name) for name in ("delivery_rate_mbit", "elapsed_ms"))
    cwnd = 10.0
    while agents.times[0] < 4:
        seen = agents.step(np.array([[int(cwnd), np.nan]]))[0]
        acked = seen[rate] * 1e3 / 8 * seen[elapsed] / 1448
        # slow start to 20 segments, then one segment for each window (RFC 5681)
        cwnd += acked if cwnd < 20 else acked / cwnd
    reno = Simulation(experiment | {"flows": [{"cc": "reno", "base_rtt": "20ms"}]})
    reno.step(until=agents.times[0])
    assert cwnd > 50 and abs(reno.view().flows["cwnd"][0] - int(cwnd)) <= 1


def test_agents_are_replaced_and_refuse_what_cannot_be() -> None:
    start = Simulation(ALONE)
    agents = Agents([start, start], every="50ms", threads=2)
    actions = np.array([[20, np.nan], [40, np.nan]])
    first = [agents.step(actions).copy() for _ in range(5)]
    agents.replace(1, start)
    assert agents.times == [0.25, 0] and np.isnan(agents.observations[1]).all()
    agents.step(actions)
    np.testing.assert_array_equal(agents.observations[1], first[0][1])
    assert start.time == 0
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: agents.step(np.zeros((2, 2))), "cwnd"),
        (lambda: agents.step(np.zeros((1, 2))), "actions"),
        (lambda: agents.replace(2, start), "number is 2"),
        (lambda: agents.fork(-1), "number is -1"),
        (lambda: agents.replace(0, Simulation(EXPERIMENT)), "external"),
        (lambda: Agents([start], every="xrtt"), "every"),
        (lambda: Agents([start], every=0), "every"),
        (lambda: Agents([start], every="-1rtt"), "every"),
        (lambda: Agents([], every=1), "no simulation"),
        (lambda: Agents([start, ALONE], every=1), "simulations[1]"),  # type: ignore[list-item]
        (lambda: Agents([start], every=1, threads=0), "threads"),
    ]
    for call, said in wrong:
        with pytest.raises(InputError) as caught:
            call()
        assert said in str(caught.value)
    described = dumbbell.list_observations()
    assert [one["name"] for one in described] == list(agents.columns) and all(one["doc"] for one in described)


def test_only_an_agent_of_l4s_is_marked_in_the_low_latency_queue() -> None:
    found = {}
    for l4s in (True, False):
        agent = {"cc": {"name": "external", "l4s": l4s, "window": 60}, "base_rtt": "20ms", "ecn": True}
        cubic = {"cc": "cubic", "base_rtt": "20ms", "ecn": False}
        queue = {"rate": "20Mbit", "aqm": "dualpi2"}
        made = dumbbell.simulate({"duration": "5s", "bottleneck": queue, "flows": [agent, cubic]})
        found[l4s] = made.flows.row(0, named=True)
    # a step at 1 ms in queue L; a ramp around 15 ms in queue C
    assert found[True]["ce_marks"] > 0.5 * found[True]["packets"] and found[False]["ce_marks"] < 1000
