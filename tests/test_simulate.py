"""Simulations in memory: what `dumbbell.run` gives, without a file."""

import gc
import itertools
import json
import multiprocessing
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dumbbell
from conftest import described
from dumbbell import Results, _native
from dumbbell.engines.base import Ended, Run
from dumbbell.engines.in_flight import LOOK_S, RunsInFlight
from dumbbell.engines.sim import Threads
from dumbbell.errors import InputError
from dumbbell.experiment import shipped
from dumbbell.experiment.cell import Cell, compute_digest, format_canonical
from dumbbell.experiment.toml_file import read_toml
from dumbbell.results.measured_run import MeasuredRun
from dumbbell.results.store import TABLES

ONE = described(duration="1s")
MATRIX = described(
    duration="1s",
    seeds=[3, 1],
    flows=[{"cc": "cubic", "start": {"uniform": ["0s", "500ms"]}}, {"cc": "reno"}],
    matrix={"bottleneck.rate": ["2Mbit", "10Mbit"], "flows[*].base_rtt": ["10ms", "40ms"]},
)
OF_ALL_KINDS = described(
    duration="3s",
    record={"series": True, "interval": "100ms", "trace": "100ms", "queue": ["dropping"]},
    reverse={"rate": "5Mbit", "aqm": "fq_codel"},
    hop=[{"name": "access", "rate": "8Mbit", "aqm": "pie"}],
    flows=[{"cc": "cubic", "base_rtt": "20ms", "route": ["access", "bottleneck"]}, {"cc": "bbr3", "base_rtt": "40ms"}],
    udp=[{"rate": "200kbit", "echo": True, "base_rtt": "20ms"}],
    web=[{"cc": "reno", "base_rtt": "20ms", "arrivals": "20/s", "size": {"pareto": 0.9, "min": "1kB", "max": "1MB"}}],
    app=[{"kind": "pages", "cc": "cubic", "base_rtt": "20ms"}, {"kind": "call", "base_rtt": "20ms"}],
)
SHIPPED = {
    "abe/short": "2s",
    "bbr/rtt": "2s",
    "home/two-way": "12s",
    "home/which-queue": "11s",
    "hops/satellite": "6s",
    "hops/two-bottlenecks": "2s",
    "sce/findings-trains": "1s",
    "scoreboard/pairs": "11s",
    "traces/two-flows": "2s",
    "traffic/c4-media": "2s",
    "traffic/udp": "2s",
    "traffic/web": "2s",
    "validation/apps": "5s",
}
"""Experiments with flows, short flows, UDP, applications, stages, links and several hops, and how long they are run."""


def check_same(one: Results, other: Results) -> None:
    """Check that two results hold the same runs with the same columns, types and values."""
    for table in TABLES:
        first, second = (each.frame(table).drop("wall_s", strict=False) for each in (one, other))
        assert_frame_equal(first, second)
    assert one.keys == other.keys


def read_shipped(name: str) -> dumbbell.Experiment:
    """Return one run of a shipped experiment: the first values of its axes."""
    table = read_toml(shipped.list_experiments()[name])
    first = {axis: values[:1] for axis, values in table.get("matrix", {}).items()}
    return dumbbell.load(name, first | {"duration": SHIPPED[name], "seeds": [1]})


SLOW = pytest.mark.slow
KINDS = [pytest.param(ONE, id="one"), pytest.param(MATRIX, id="matrix", marks=SLOW)]


@pytest.mark.parametrize("experiment", [*KINDS, pytest.param(OF_ALL_KINDS, id="all kinds", marks=SLOW)])
def test_results_in_memory_are_those_of_a_file(experiment: dict[str, Any]) -> None:
    made, stored = dumbbell.simulate(experiment), dumbbell.run(experiment)
    check_same(made, stored)
    assert_frame_equal(made.tidy(), stored.tidy())
    assert made.table("goodput").to_csv() == stored.table("goodput").to_csv()
    assert made.varying == stored.varying and made.configurations == stored.configurations
    counted = "SELECT key, count(*) FROM flows GROUP BY ALL ORDER BY ALL"
    assert_frame_equal(made.sql(counted), stored.sql(counted))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_measure_the_same_in_memory(name: str) -> None:
    experiment = read_shipped(name)
    made, stored = dumbbell.simulate(experiment), dumbbell.run(experiment)
    check_same(made, stored)
    assert_frame_equal(made.tidy("classes"), stored.tidy("classes"))


@pytest.mark.slow
def test_results_of_one_run_tell_of_it() -> None:
    results = dumbbell.simulate(ONE)
    stored = dumbbell.run(ONE)
    assert results.summary == stored.summary
    assert results.summary["utilisation"] == results.runs["utilisation"][0]
    assert results.summary["aqm_counters"] == {}
    assert results.digest == stored.digest == results.runs["hash"][0]
    assert str(results.explain()) == str(stored.explain())
    assert results.run().series("goodput").height == 1
    assert results.run().key == results.keys[0]
    assert repr(results).startswith("Results(experiment)")
    several = dumbbell.simulate(ONE, {"seeds": [1, 2]})
    for ask in (lambda: several.summary, lambda: several.digest, several.explain):
        with pytest.raises(InputError, match="these are 2 runs; choose one by conditions on seed"):
            ask()
    assert several.where(seed=2).summary == dumbbell.simulate(ONE, seed=2).summary


@pytest.mark.slow
def test_conditions_select_runs_in_memory_and_their_parts() -> None:
    results, stored = dumbbell.simulate(MATRIX), dumbbell.run(MATRIX)
    for conditions in (["bottleneck.rate=2Mbit"], ["seed=3"], ["flow=reno", "bottleneck.rate=10000kbit"]):
        check_same(results.where(*conditions), stored.where(*conditions))
    check_same(results.with_keys(stored.keys[2:0:-1]), stored.with_keys(stored.keys[2:0:-1]))
    assert results.diff(by="flows[*].base_rtt=10ms,40ms").frame.height > 0
    with pytest.raises(InputError, match=r"^experiment: unknown table bogus"):
        results.frame("bogus")
    with pytest.raises(InputError, match=r"^where: bottleneck\.rate: unknown value 7Mbit"):
        results.where("bottleneck.rate=7Mbit")


@pytest.mark.slow
def test_results_in_memory_travel_with_their_data() -> None:
    results = dumbbell.simulate(MATRIX)
    whole, part = (pickle.dumps(one) for one in (results, results.where(seed=3)))
    wanted, hashes = results.runs, results.where(seed=3).runs["hash"]
    del results
    gc.collect()
    assert_frame_equal(pickle.loads(whole).runs, wanted)
    assert pickle.loads(part).runs["hash"].to_list() == hashes.to_list()


def simulate_rate(rate: int) -> Results:
    return dumbbell.simulate(ONE, {"bottleneck.rate": f"{rate}Mbit"})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_return_results(method: str) -> None:
    here = [simulate_rate(rate).digest for rate in (2, 5)]
    dumbbell.simulate(ONE).tidy()
    with multiprocessing.get_context(method).Pool(1) as pool:
        there = pool.map(simulate_rate, (2, 5))
    assert [one.digest for one in there] == here
    assert there[1].tidy().height == 2


@pytest.mark.slow
def test_results_in_memory_are_kept_in_a_file(tmp_path: Path) -> None:
    results, path = dumbbell.simulate(MATRIX), tmp_path / "kept.duckdb"
    assert results.where("bottleneck.rate=2Mbit").save(path) == path
    assert len(dumbbell.open(path)) == 4
    results.save(str(path))
    results.save(path)
    check_same(dumbbell.open(path).with_keys(results.keys), results.with_keys(results.keys))
    with pytest.raises(InputError, match=r"kept\.duckdb: save: these results are in a file already"):
        dumbbell.open(path).save(tmp_path / "other.duckdb")
    with pytest.raises(InputError, match="save keeps whole runs"):
        results.where("flow=reno").save(path)
    (tmp_path / "text.duckdb").write_text("text")
    with pytest.raises(InputError, match=r"a text file|another kind of file"):
        results.save(tmp_path / "text.duckdb")


# experiments that are checked, and overrides


def test_overrides_of_a_checked_experiment_make_the_runs_that_they_make_of_its_table() -> None:
    experiment = dumbbell.parse(ONE)
    for settings in (
        {"flows[0].cc.beta": 600},
        {"flows[*].base_rtt": "40ms", "bottleneck.aqm.target": "10ms"},
        {"bottleneck.aqm": "pie"},
        {"duration": "500ms", "seeds": [4]},
        {"hosts.profile": "linux-5.1"},
    ):
        by_table = dumbbell.simulate(ONE, settings)
        assert dumbbell.simulate(experiment, settings).keys == by_table.keys
        listed = [f"{key}={value}" for key, value in settings.items()]
        assert dumbbell.simulate(experiment, listed).digest == by_table.digest
    assert dumbbell.simulate(experiment).digest == dumbbell.simulate(ONE).digest, "it has not changed itself"
    once = experiment.add_settings({"bottleneck.rate": "5Mbit", "flows[0].cc": "bbr3"})
    twice = once.add_settings({"bottleneck.rate": "6Mbit"})
    wanted = dumbbell.simulate(ONE, {"bottleneck.rate": "6Mbit", "flows[0].cc": "bbr3"}).keys
    assert dumbbell.simulate(twice).keys == wanted
    seeded = twice.add_settings({"seeds": [7, 8]}).add_settings({"duration": "2s"})
    again = {"bottleneck.rate": "6Mbit", "flows[0].cc": "bbr3", "seeds": [7, 8], "duration": "2s"}
    assert dumbbell.simulate(seeded).keys == dumbbell.simulate(ONE, again).keys


def test_overrides_of_a_checked_experiment_replace_axes() -> None:
    experiment = dumbbell.parse(MATRIX)
    settings = {"bottleneck.rate": ["5Mbit"], "seeds": [1]}
    first = experiment.add_settings(settings)
    assert dumbbell.simulate(first).keys == dumbbell.simulate(MATRIX, settings).keys
    further = first.add_settings({"flows[0].cc": "bbr3"})
    assert dumbbell.simulate(further).keys == dumbbell.simulate(MATRIX, settings | {"flows[0].cc": "bbr3"}).keys
    assert dumbbell.simulate(experiment, {"matrix": {"bottleneck.rate": ["1Mbit"]}, "flows[*].base_rtt": "1ms"}).keys


WRONG: list[dict[str, Any]] = [
    {"bottleneck.rte": "5Mbit"},
    {"bottleneck.rate": "5MB"},
    {"flows[0].cc.beta": 5000},
    {"flows[0].cc.beta": 0},
    {"flows[2].cc": "reno"},
    {"flows[0].cc": "cubik", "bottleneck.aqm": "codle"},
    {"flows[0].start": "5s"},
    {"flows[0].route": ["nowhere"]},
    {"bottleneck.aqm": {"name": "red", "harddrop": True}},
    {"hosts.sack": "maybe"},
    {"record.queue": ["p"]},
    {"bottleneck.burst": "3000B", "bottleneck.aqm": "cake"},
    {"bottleneck.aqm.limit": -1},
    {"seeds": ["one"]},
    {"seeds": []},
    {"matrix": {"bottleneck.rate": ["1Mbit", "1000kbit"]}},
    {"title": 5},
    {"not a key": 5},
    {"duration": "0s"},
    {"bottleneck.rate": object},
    {5: "5Mbit"},  # type: ignore[dict-item]
]


@pytest.mark.parametrize("settings", WRONG, ids=range(len(WRONG)))
def test_a_bad_override_is_told_as_by_run(settings: dict[str, Any]) -> None:
    told = []
    for call in (
        lambda: dumbbell.run(ONE, settings),
        lambda: dumbbell.simulate(ONE, settings),
        lambda: dumbbell.simulate(dumbbell.parse(ONE), settings),
        lambda: dumbbell.parse(ONE).add_settings(settings),
    ):
        with pytest.raises(InputError) as caught:
            call()
        told.append(str(caught.value))
    assert len(set(told)) == 1, told


def test_a_bad_override_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        'duration = "1s"\nbottleneck = { rate = "10Mbit", aqm = "codel" }\n[[flows]]\ncc = "cubic"\nstart = "500ms"\n'
    )
    told = []
    for call in (dumbbell.run, dumbbell.simulate, lambda file, one: dumbbell.load(file).add_settings(one)):
        with pytest.raises(InputError, match=r"small\.toml:5:9: flows\[0\]\.start") as caught:
            call(path, {"duration": "200ms"})
        told.append(str(caught.value))
    assert len(set(told)) == 1


def test_what_the_engine_refuses_is_told_as_by_run() -> None:
    """The engine is not asked before it simulates; what it says then is said of the key."""
    settings = {"flows[0].route": ["nowhere"], "duration": "1s"}
    with pytest.raises(InputError, match=r'^experiment: flows\[0\]\.route is "nowhere"'):
        dumbbell.run(ONE, settings)
    with pytest.raises(InputError, match=r'^experiment: item 1: flows\[0\]\.route is "nowhere"'):
        list(dumbbell.simulate_many([ONE, (ONE, settings)]))


def test_a_seed_is_one_of_overrides() -> None:
    assert dumbbell.simulate(MATRIX, seed=5).seeds == [5]
    assert dumbbell.simulate(dumbbell.parse(MATRIX), seed=5).keys == dumbbell.simulate(MATRIX, {"seeds": [5]}).keys
    with pytest.raises(InputError, match='two values of "seeds"'):
        dumbbell.simulate(ONE, {"seeds": [5]}, seed=5)
    with pytest.raises(InputError, match=r'seeds\[0\] is "five"|seeds is'):
        dumbbell.simulate(ONE, seed="five")  # type: ignore[arg-type]


# many


def test_many_experiments_come_in_order() -> None:
    experiment = dumbbell.parse(ONE)
    rates = [f"{rate}Mbit" for rate in (10, 2, 5, 1)]
    found = list(dumbbell.simulate_many((experiment, {"bottleneck.rate": rate}) for rate in rates))
    assert [one.item for one in found] == [0, 1, 2, 3]
    assert [one.digest for one in found] == [dumbbell.simulate(ONE, {"bottleneck.rate": rate}).digest for rate in rates]
    mixed = list(dumbbell.simulate_many([ONE, MATRIX, experiment], ordered=False, jobs=1))
    assert sorted((one.item, len(one)) for one in mixed) == [(0, 1), (1, 8), (2, 1)]
    assert list(dumbbell.simulate_many([])) == []


def count_up(taken: list[int]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for seed in itertools.count(1):
        taken.append(seed)
        yield ONE, {"seeds": [seed]}


def list_run_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("run")]


def test_a_generator_without_an_end_is_taken_from_as_results_are() -> None:
    taken: list[int] = []
    results = dumbbell.simulate_many(count_up(taken), ahead=5)
    assert not taken, "nothing is done before the first results are asked for"
    seeds = [next(results).seeds for _ in range(12)]
    assert seeds == [[seed] for seed in range(1, 13)]
    assert len(taken) <= 12 + 5
    results.close()  # type: ignore[attr-defined]
    assert not list_run_threads()


@pytest.mark.timed
def test_results_that_nobody_takes_any_more_leave_no_thread() -> None:
    for one in dumbbell.simulate_many(count_up([]), jobs=2):
        assert len(list_run_threads()) == 2
        if one.item == 3:
            break
    gc.collect()
    assert not list_run_threads()
    long = (dumbbell.parse(described(duration="20000s")), ONE)
    begun = time.monotonic()
    for _ in dumbbell.simulate_many(long, ordered=False, jobs=2):
        break
    gc.collect()
    assert not list_run_threads() and time.monotonic() - begun < 20


def test_an_experiment_that_cannot_be_read_is_named() -> None:
    wrong: list[Any] = [ONE, (ONE, {"flows[0].cc": "cubik"}), ONE]
    results = dumbbell.simulate_many(wrong)
    assert next(results).item == 0
    with pytest.raises(InputError, match=r'item 1: flows\[0\]\.cc.*did you mean "cubic"'):
        next(results)
    assert list(results) == []
    wrong.append(7)
    found = list(dumbbell.simulate_many(wrong, return_exceptions=True))
    assert [type(one).__name__ for one in found] == ["Results", "UnknownName", "Results", "WrongValue"]
    assert str(found[3]).startswith("item 3: file is 7")


def test_a_run_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Threads.carry_out

    def fail(self: Threads, runs: Any) -> list[Any]:
        return [
            RuntimeError("invariant broken") if run[0].seed == 2 else ended
            for run, ended in zip(runs, real(self, runs), strict=True)
        ]

    monkeypatch.setattr(Threads, "carry_out", fail)
    with pytest.raises(RuntimeError, match=r"^experiment, bottleneck\.rate 2Mbit, .*seed 2: invariant broken"):
        dumbbell.simulate(MATRIX, {"seeds": [1, 2]})
    found = list(dumbbell.simulate_many([ONE, (MATRIX, {"seeds": [2]}), ONE], return_exceptions=True))
    assert [type(one).__name__ for one in found] == ["Results", "RuntimeError", "Results"]
    assert str(found[1]).startswith("item 1: experiment, bottleneck.rate 2Mbit")


def test_a_panic_of_one_run_is_an_error_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(_: str) -> _native.Result:
        raise BaseException("a panic")  # noqa: TRY002  PanicException is of this kind

    monkeypatch.setattr(_native, "run", panic)
    with pytest.raises(RuntimeError, match=r"^experiment, seed 1: a panic"):
        dumbbell.simulate(ONE)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(InputError, match="simulate: jobs is 0"):
        dumbbell.simulate(ONE, jobs=0)
    with pytest.raises(InputError, match="simulate_many: ahead is 0"):
        dumbbell.simulate_many([], ahead=0)
    with pytest.raises(InputError, match="simulate_many: jobs and cluster"):
        dumbbell.simulate_many([], jobs=1, cluster="tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("experiments", "message"),
    [
        (5, "simulate_many: experiments is of type int; it must be a list, or a generator, of experiments"),
        (ONE, "simulate_many: experiments is of type dict"),
        ([5], "item 0: file is 5; it must be a file name or a path"),
        ([ONE, (ONE, 7)], 'item 1: overrides is 7; it must be a table, or a list such as ["bottleneck.rate=40Mbit"]'),
        ([(ONE, [7])], 'overrides[0] is 7 (int); it must be "KEY=VALUE", or a tuple of a key and its value'),
        ([(ONE, {}, 7)], "item 0: experiment is a tuple of 3; it must be a tuple of an experiment and its overrides"),
    ],
)
def test_what_is_no_experiment_is_refused(experiments: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        list(dumbbell.simulate_many(experiments))


def test_the_text_of_a_run_is_that_of_json_whatever_was_read_before() -> None:
    """Texts of tables are kept by their contents: equal numbers of other types are other contents."""
    tables = [{"b": 1, "a": [True, 1.0]}, {"b": 1, "a": [1, 1.0]}, {"b": 1, "a": [1.0, 1]}, {"a": [True, 1.0], "b": 1}]
    texts = [format_canonical({"group": one}) for one in tables * 2]
    assert (
        texts[:4] == texts[4:] == [json.dumps({"group": one}, sort_keys=True, separators=(",", ":")) for one in tables]
    )
    for seeded in ({"seed": 3, "flows": [], "web": [{"z": None}]}, {"seed": 3, "zeta": 1}, {"alpha": 1, "seed": 3}):
        cell = Cell("", "", {}, 3, seeded)
        assert cell.config == json.dumps(seeded, sort_keys=True, separators=(",", ":"))
        rest = {key: value for key, value in seeded.items() if key != "seed"}
        assert cell.cell_key == compute_digest(json.dumps(rest, sort_keys=True, separators=(",", ":")))


class Busy(Threads):
    """Workers that finish what they were given when a test says so."""

    def __init__(self) -> None:
        super().__init__(jobs=2)
        self.begun: list[tuple[Future[list[Ended]], int]] = []

    def begin(self, runs: Sequence[Run]) -> Future[list[Ended]]:
        self.begun.append((Future(), len(runs)))
        return self.begun[-1][0]

    def finish(self, wall_s: float) -> None:
        for future, count in self.begun:
            future.set_result([MeasuredRun(wall_s, _native.run(dumbbell.parse(ONE).make_cell(0).config))] * count)
        self.begun.clear()


def test_finished_runs_wait_for_a_quarter_of_the_work_in_flight_at_most() -> None:
    cells = itertools.repeat(dumbbell.parse(ONE).make_cell(0))
    workers = Busy()
    flight = RunsInFlight(workers)
    flight.begin(cells)
    assert flight.pause_s == 0, "nobody knows yet how long they take"
    workers.finish(0.004)
    flight.take()
    assert flight.count == 0 == flight.pause_s
    flight.begin(cells)  # 250 of 4 ms are a second of work for a core, a 32nd of that is begun at once
    assert flight.count == 7 and flight.pause_s == pytest.approx(7 * 0.004 / 2 / 4)
    for _ in range(15):
        flight.begin(cells)
    assert flight.pause_s == LOOK_S == 0.05


LONG = """\
import sys, dumbbell, polars
table = {"duration": "20000s", "bottleneck": {"rate": "1Gbit", "aqm": "codel"}, "flows": [{"cc": "cubic"}]}
print("begun", flush=True)
try:
    if sys.argv[1] == "one":
        dumbbell.simulate(table)
    else:
        list(dumbbell.simulate_many([(table, {"seeds": [seed]}) for seed in (1, 2, 3)]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.timed
@pytest.mark.parametrize("which", ["one", "many"])
def test_ctrl_c_ends_simulations_at_once(which: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, which],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored below a shell's &
    )
    with process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(20) == 0 and time.monotonic() - begun < 10


def test_cells_that_are_kept_are_not_changed_by_other_seeds() -> None:
    experiment = dumbbell.parse(ONE)
    cells: list[Cell] = [next(experiment.add_settings({"seeds": [seed]}).make_cells()) for seed in (1, 2, 1)]
    assert cells[0].key == cells[2].key != cells[1].key
    assert cells[0].groups["seed"] == 1 and '"seed":2' in cells[1].config
    assert pl.DataFrame({"key": [one.cell_key for one in cells]})["key"].n_unique() == 1
