"""Runs that are derived from the pattern of another are those that a check as a whole makes; so are their errors."""

import contextlib
import copy
import pickle
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dumbbell.engines.linux import reach
from dumbbell.errors import InputError
from dumbbell.experiment import matrix, patterns, schema, shipped
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment, load, parse
from dumbbell.experiment.patterns import RunPatterns, WatchedTable
from dumbbell.experiment.registry import read_registry

KEYS = list(reach.list_keys())
# what some keys take and most refuse
ODD: list[Any] = [
    "none",
    None,
    True,
    0,
    -1,
    1,
    0.5,
    "1ms",
    "3s",
    "80%",
    "2bdp",
    "0s",
    "5Mbit",
    "3000B",
    "1bdp",
    "cubic",
    [],
    {},
]
FLOW = {"cc": "cubic", "base_rtt": "20ms"}
BASES: list[dict[str, Any]] = [
    {"duration": "2s", "bottleneck": {"rate": "10Mbit", "aqm": "codel"}, "flows": [FLOW]},
    {
        "duration": "4s",
        "bottleneck": {"rate": "10Mbit", "aqm": "pfifo", "buffer": "1.5bdp"},
        "reverse": {"rate": "1Mbit", "aqm": {"name": "cake", "bandwidth": "2Mbit"}, "shaper": "htb", "burst": "3000B"},
        "flows": [FLOW | {"app_rate": "80%", "count": 2}, {"cc": {"name": "constant", "window": "2bdp"}}],
        "udp": [
            {"rate": "20%", "start": "1s", "echo": True, "base_rtt": "10ms"},
            {"rate": "1Mbit", "on": "1s", "off": "1s"},
        ],
        "web": [{"cc": "reno", "arrivals": "5/s", "size": "30kB"}],
        "app": [{"kind": "pages", "cc": "bbr3"}],
        "hosts": {"profile": "linux-5.1", "ecn": True, "mss": "1000B"},
    },
    {
        "duration": "3s",
        "bottleneck": {"rate": "5Mbit", "aqm": "red", "rate_changes": {"every": "1s", "rates": ["5Mbit", "9Mbit"]}},
        "hop": [{"name": "second", "rate": "8Mbit", "aqm": "dualpi2", "delay": "1ms"}],
        "flows": [FLOW | {"route": ["bottleneck", "second"], "path": [{"name": "loss", "probability": 0.1}]}],
        "udp": [{"rate": "1Mbit"}],
        "web": [{"cc": {"name": "prague", "version": "0.6"}, "arrivals": "1/s", "size": "30kB"}],
    },
]


def describe(read: Callable[[], Experiment]) -> object:
    """Return all of the first run of an experiment, or what is wrong with it."""
    try:
        experiment = read()
        cell = experiment.make_cell(0)
        table = experiment.make_table((0,) * len(experiment.matrix.axes))
    except InputError as error:
        return [(str(one), one.file, one.key) for one in error.errors]
    return cell.groups, cell.given, cell.config, cell.key, cell.cell_key, cell.matrix, table


@contextlib.contextmanager
def checked_as_a_whole() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunPatterns, "make_run", lambda *_: None)
        yield


def describe_cells(read: Callable[[], list[Cell]]) -> object:
    """Return all of the runs of an experiment, or what is wrong with it."""
    try:
        cells = read()
    except InputError as error:
        return [(str(one), one.file, one.key) for one in error.errors]
    return [(one.config, one.groups, one.given, one.key, one.cell_key, one.matrix) for one in cells]


def hold(experiment: Experiment, table: dict[str, Any], settings: dict[str, Any], *, asks_engine: bool) -> None:
    """Compare settings on top of a checked experiment with the same ones read with its table."""
    found = describe(lambda: experiment.add_settings(settings, asks_engine=asks_engine))
    derived = describe_cells(lambda: experiment.make_cells_with(settings))
    with checked_as_a_whole():
        wanted = describe(lambda: parse(copy.deepcopy(table), "experiment", settings, asks_engine=asks_engine))
        cells = describe_cells(lambda: list(experiment.add_settings(settings, asks_engine=False).make_cells()))
    assert found == wanted, (table, settings)
    assert derived == cells, (table, settings)


def list_values(key: reach.KernelKey) -> list[Any]:
    return [*reach.choose_values(key.param), reach.read_default(key.param), *random.Random(key.name).sample(ODD, 6)]


def choose_algorithm(base: dict[str, Any], key: reach.KernelKey) -> dict[str, Any]:
    """Return a run that has the algorithm of a key."""
    table = copy.deepcopy(base)
    if key.owner in read_registry().aqm:
        table["bottleneck"]["aqm"] = key.owner
        table["bottleneck"].pop("buffer", None)
    if key.owner in read_registry().cc:
        table["flows"][0]["cc"] = key.owner
    return table


@pytest.mark.slow
@pytest.mark.parametrize("owner", sorted({key.owner for key in KEYS}))
def test_every_value_of_every_key_makes_the_run_that_a_check_as_a_whole_makes(owner: str) -> None:
    for base in BASES if owner in read_registry().sections else BASES[:1]:
        for key in (key for key in KEYS if key.owner == owner):
            table = choose_algorithm(base, key)
            try:
                experiment = parse(copy.deepcopy(table))
            except InputError:
                continue
            for value in list_values(key):
                hold(experiment, table, {key.place + key.param.name: value}, asks_engine=False)


@pytest.mark.parametrize("seed", range(8))
def test_several_keys_make_the_run_that_a_check_as_a_whole_makes(seed: int) -> None:
    draw = random.Random(seed)
    table = copy.deepcopy(draw.choice(BASES))
    experiment = parse(copy.deepcopy(table))
    own = [key for key in KEYS if key.owner in (*read_registry().sections, "cubic", "codel", "red", "pfifo")]
    for _ in range(4):
        chosen = draw.sample(own, draw.randint(1, 4))
        for _ in range(6):
            settings = {key.place + key.param.name: draw.choice(list_values(key)) for key in chosen}
            if draw.random() < 0.3:
                settings |= {"flows[*].base_rtt": draw.choice(["10ms", "30ms", "none"])}
            hold(experiment, table, settings, asks_engine=draw.random() < 0.3)


def test_most_keys_are_free_where_nothing_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above compare derived runs; a run with an error, or whose value a check read, is checked as a whole."""
    base = BASES[0]
    wholes: list[dict[str, Any]] = []
    real = schema.settle

    def settle(run: dict[str, Any], given: dict[str, Any]) -> None:
        wholes.append(run)
        real(run, given)

    monkeypatch.setattr(schema, "settle", settle)
    for settings in (
        {"flows[0].cc.beta": 600},
        {"bottleneck.rate": "12Mbit"},
        {"flows[*].base_rtt": "30ms", "duration": "3s"},
        {"bottleneck.aqm.target": "4ms", "hosts.ecn": True},
    ):
        experiment = parse(copy.deepcopy(base)).add_settings(settings)
        wholes.clear()
        for number in range(1, 4):
            other = {key: f"{20 + number}ms" if isinstance(value, str) else value for key, value in settings.items()}
            other |= {key: f"{5 + number}Mbit" for key in settings if key == "bottleneck.rate"}
            other |= {key: f"{2 + number}s" for key in settings if key == "duration"}
            experiment.add_settings(other)
        assert not wholes, settings
    # a value that a check reads, or that makes a check necessary
    rated = parse(copy.deepcopy(base) | {"bottleneck": base["bottleneck"] | {"buffer": "1bdp"}})
    for rate in ("5Mbit", "6Mbit"):
        wholes.clear()
        limit = rated.add_settings({"bottleneck.rate": rate}).make_cell(0).groups["bottleneck"]["aqm"]["limit"]
        assert wholes and limit == round(20e-3 * float(rate[0]) * 1e6 / 8 / 1514)


def test_a_run_with_another_free_value_needs_neither_tables_nor_an_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = parse(copy.deepcopy(BASES[0]))
    for beta in (600, 601):
        experiment.make_cells_with({"flows[0].cc.beta": beta})
    (wanted,) = experiment.add_settings({"flows[0].cc.beta": 602}).make_cells()
    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "add_settings", None)
        patch.setattr(patterns, "_replace_value", None)
        (cell,) = experiment.make_cells_with(["flows[0].cc.beta=602"])
        assert cell.config == wanted.config and cell.cell_key == wanted.cell_key and not cell.has_plugin_text
    again = pickle.loads(pickle.dumps(cell))
    assert cell == wanted == again and again.config == wanted.config
    assert cell.given["flows"][0]["cc"] == {"beta": 602, "name": "cubic"} == again.given["flows"][0]["cc"]
    other, plain = cell.set_seed(7), wanted.set_seed(7)
    assert (other, other.config, other.key) == (plain, plain.config, plain.key) and other.config != cell.config
    with pytest.raises(AttributeError, match="Cell has no attribute tables"):
        cell.tables  # type: ignore[attr-defined]  # noqa: B018
    # other keys, a value that is refused, and several seeds are checked as a whole
    assert experiment.make_cells_with({"flows[0].cc.beta": 603, "duration": "3s"})[0].duration == 3_000_000_000
    with pytest.raises(InputError, match=r"flows\[0\]\.cc\.beta"):
        experiment.make_cells_with({"flows[0].cc.beta": "many"})
    assert len(experiment.add_settings({"seeds": [4, 5]}).make_cells_with({"flows[0].cc.beta": 602})) == 2


MATRIX = {
    "title": "cells of three axes",
    "seeds": [1, 2],
    "duration": "2s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [FLOW, FLOW],
    "matrix": {
        "bottleneck.aqm": ["codel", "pie", {"name": "codel", "target": "10ms"}],
        "bottleneck.rate": ["1Mbit", "20Mbit", "3Mbit"],
        "flows[*].base_rtt": ["2ms", "40ms"],
        "setting, flows[0].cc, flows[1].cc.beta": [["a", "reno", 700], ["b", "cubic", 600]],
    },
}


def test_cells_of_a_matrix_are_those_that_a_check_as_a_whole_makes() -> None:
    def list_cells(experiment: Experiment) -> list[object]:
        return [
            (cell.groups, cell.given, cell.config, cell.key, cell.cell_key, cell.matrix, cell.seed)
            for cell in experiment.make_cells()
        ]

    found = list_cells(parse(copy.deepcopy(MATRIX)))
    with checked_as_a_whole():
        assert found == list_cells(parse(copy.deepcopy(MATRIX)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in sorted(shipped.list_experiments()) if not one.startswith("stacks/")])
def test_cells_of_shipped_experiments_are_those_that_a_check_as_a_whole_makes(name: str) -> None:
    experiment = load(name, asks_engine=False)
    cells = [(cell.config, cell.given, cell.key) for cell in experiment.sample_cells(50)]
    with checked_as_a_whole():
        plain = load(name, asks_engine=False)
        assert cells == [(cell.config, cell.given, cell.key) for cell in plain.sample_cells(50)]


@pytest.mark.parametrize("seed", range(4))
def test_tables_with_other_values_make_the_runs_that_checks_as_a_whole_make(seed: int) -> None:
    draw = random.Random(seed)
    base = BASES[seed % len(BASES)]
    places = [path for path, value in patterns.list_leaves(base) if not isinstance(value, list)]
    values = ["1s", "40ms", "8Mbit", "20%", "2bdp", "reno", "pie", "none", "second", 2, 0.3, True, False, -1]
    for _ in range(40):
        table = copy.deepcopy(base)
        for path in draw.sample(places, draw.choice([1, 1, 2, 4])):
            (holder,) = matrix.get_path(table, path[:-1])
            holder[path[-1]] = draw.choice([*values, holder[path[-1]]])
        found = describe(partial(parse, copy.deepcopy(table), settings=["seeds=[3]"]))
        with checked_as_a_whole():
            assert found == describe(partial(parse, copy.deepcopy(table), settings=["seeds=[3]"])), table


def test_files_of_tables_are_read_for_each_table(tmp_path: Path) -> None:
    table = {"duration": "2s", "bottleneck": {"aqm": "codel", "trace": "link.trace"}, "flows": [FLOW]}
    found = []
    for times in ("1 2 3", "1 2 3", "2 4 9"):
        (tmp_path / "link.trace").write_text(times.replace(" ", "\n") + "\n")
        found.append(parse(copy.deepcopy(table), str(tmp_path / "run.toml"), asks_engine=False).make_cell(0).config)
    assert found[0] == found[1] != found[2]


READS: list[Callable[[Any], object]] = [
    lambda one: one["a"],
    lambda one: one.get("a"),
    lambda one: one.pop("a"),
    lambda one: one.update({"a": 1}),
    lambda one: one.__setitem__("a", 1),
    lambda one: one.__delitem__("a"),
    lambda one: one.__ior__({"a": 1}),
    lambda one: one.setdefault("a", 3),
    lambda one: one | {"b": 1},
    lambda one: {"b": 1} | one,
    lambda one: {**one},
    lambda one: dict(one),
    lambda one: one.copy(),
    lambda one: copy.copy(one),
    lambda one: list(one.items()),
    lambda one: list(one.values()),
    lambda one: {"a": 1} == one,  # noqa: SIM300  the table is asked although it is on the right
    lambda one: one == {"a": 1},
    lambda one: {"a": 1}.items() <= one.items(),
    lambda one: {}.update(one),
]


@pytest.mark.parametrize("read", READS, ids=range(len(READS)))
def test_a_watched_table_notes_every_way_to_a_value(read: Callable[[Any], object]) -> None:
    table = WatchedTable({"a": 1})
    assert list(table) == ["a"] and "a" in table and len(table) == 1 and table.keys() == {"a"}
    assert not table.touched, "keys are not values"
    read(table)
    assert table.touched == {"a"}


def test_a_run_is_watched_and_copied_whole() -> None:
    run = {"a": [{"b": {"c": 1}}, {"b": None}], "d": [1, 2], "e": {}}
    watched = patterns.watch(run)
    watched["a"][0]["b"]["c"] = 2
    assert watched["a"][0]["b"].touched == {"c"} and watched["a"][0].touched == {"b"}
    copied = patterns.copy_watched(watched)
    assert copied == {"a": [{"b": {"c": 2}}, {"b": None}], "d": [1, 2], "e": {}}
    assert type(copied["a"][0]["b"]) is dict and copied["d"] is run["d"]


def test_an_override_that_no_run_meets_is_told_whatever_was_read_before() -> None:
    override = [{"when": {"bottleneck.rate": "99Mbit"}, "set": {"flows[0].cc": "reno"}}]
    for table in (BASES[0], BASES[0], BASES[0] | {"duration": "3s"}):
        parse(copy.deepcopy(table))
        with pytest.raises(InputError, match="no run meets this condition"):
            parse(copy.deepcopy(table) | {"override": override})
