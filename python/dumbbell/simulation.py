"""`dumbbell.Simulation` and `dumbbell.Agents`: runs that go on step by step, are changed, copied and controlled."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import polars as pl

from dumbbell import _native
from dumbbell.errors import (
    Ambiguous,
    Conflict,
    Failed,
    InputError,
    Missing,
    OutOfRange,
    Unfit,
    WrongValue,
    check_count,
    parse_engine_error,
    quote_value,
)
from dumbbell.experiment import matrix as keys
from dumbbell.experiment import plugins, units
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.experiment.given import Given, read_given
from dumbbell.experiment.override import find_param
from dumbbell.experiment.plugins.plugin_child import load_plugin
from dumbbell.experiment.registry import Param, read_registry
from dumbbell.experiment.settings import Settings, split_settings
from dumbbell.experiment.spelling import parse_value
from dumbbell.processes import count_cores
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.simulating import collect_results

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dumbbell.notebook import Results

Columns = dict[str, list[Any]]
Time = str | float


@dataclass(frozen=True)
class View:
    """A simulation at one instant: `time` in seconds, and tables as columns by name.

    `flows` has a row for each flow that is there, `queues` one for each hop, with the state of its queue discipline,
    and `controls` one for each congestion control of TCP, with its model of the path if it has one.
    """

    time: float
    events: int
    flows: Columns
    queues: Columns
    controls: Columns

    def frame(self, part: Literal["flows", "queues", "controls"]) -> pl.DataFrame:
        """Return a part as a frame of polars; its `to_arrow()` is a table of Arrow."""
        if part not in ("flows", "queues", "controls"):
            raise WrongValue(quote_value(part), ("flows", "queues", "controls"), command="view", key="part")
        return pl.DataFrame(getattr(self, part), strict=False)


@dataclass(frozen=True)
class PacketEvent:
    """An event of a packet at a hop: arrival, enqueue, mark, drop, dequeue or departure; `time` in seconds.

    `kind` and `reason` say which mark or drop it was and why. `number` is that of the segment or datagram.
    """

    time: float
    hop: str
    event: str
    kind: str
    reason: str
    flow: int
    number: int
    length: int
    is_ack: bool


class Snapshot:
    """The state of a simulation at one instant, to which `Simulation.restore` returns."""

    def __init__(self, native: _native.Simulation, cell: Cell) -> None:
        """Hold a copy of the simulation of a run, which nobody steps."""
        self._native, self._cell = native, cell

    @property
    def time(self) -> float:
        """How far the simulation had come, s."""
        return self._native.time / 1e9


def _parse_time(value: Time, name: str) -> int:
    """Return a time in ns: text with a unit, or seconds."""
    if isinstance(value, str):
        try:
            return units.parse("time", value)
        except InputError as error:
            raise error.move("", name) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise WrongValue(quote_value(value), 'a time such as "10ms", or seconds', command="Simulation", key=name)
    if value < 0 or value > 1e9:
        raise OutOfRange(quote_value(value), "0 to 1e9 seconds", command="Simulation", key=name)
    return round(value * 1e9)


def _read_run(experiment: Given, overrides: Settings, seed: int | None) -> tuple[Experiment, Cell]:
    """Return an experiment and its only run; InputError if it has several."""
    settings = list(split_settings(overrides))
    if seed is not None:
        settings.append(("seeds", [seed]))
    checked = read_given(experiment, settings)
    if len(checked) == 1:
        return checked, checked.make_cell(0)
    axes = [axis.text for axis in checked.matrix.axes if len(axis.values) > 1]
    if len(checked.seeds) > 1:
        axes.append("seeds")
    raise Ambiguous(
        f"{len(checked)} runs, which differ in {', '.join(axes)}",
        "an experiment with one run: one value of each of these keys",
        file=checked.name,
    )


class Simulation:
    """A run of an experiment that goes on step by step; it can be looked at, changed and copied at any time.

    Stepped in any pieces and then finished, it measures what `dumbbell.run` measures, to the same bits.
    """

    def __init__(
        self, experiment: Given, overrides: Settings = (), *, seed: int | None = None, events: bool = False
    ) -> None:
        """Build the simulation of an experiment, which has one run: what `dumbbell.simulate` takes.

        Plugins are loaded into this process. `events` keeps the events of packets for `events()`. Raises InputError.
        """
        self._experiment, self._cell = _read_run(experiment, overrides, seed)
        self._wall_s = 0.0
        self._has_events = events
        try:
            loaded = {name: load_plugin(path) for name, path in plugins.list_copies(self._cell.groups).items()}
            self._native = _native.Simulation(self._cell.config, plugins=loaded, events=events)
        except ValueError as error:
            raise self._explain(error) from None
        except (RuntimeError, TypeError, SyntaxError, OSError) as error:
            raise Failed(str(error), "plugins that work", command="Simulation") from None

    def _explain(self, error: ValueError) -> InputError:
        if hasattr(error, "allowed"):
            return parse_engine_error(self._cell.experiment, error)
        return Unfit("the simulation is finished", "a copy that was made before", command="Simulation")

    @property
    def time(self) -> float:
        """How far the simulation has come, s."""
        return self._time_ns / 1e9

    @property
    def _time_ns(self) -> int:
        try:
            return self._native.time
        except ValueError as error:
            raise self._explain(error) from None

    @property
    def over(self) -> bool:
        """Whether the run is over: all of its duration has been simulated."""
        try:
            return self._native.over
        except ValueError as error:
            raise self._explain(error) from None

    def step(self, *, until: Time | None = None, for_: Time | None = None) -> bool:
        """Let everything happen up to a time, that instant included; return whether the run is over.

        `until` is a time of the run, `for_` a time from now on: text such as "10ms", or seconds. A time that has passed
        changes nothing. Raises InputError for others, RuntimeError if a plugin does what it must not.
        """
        if until is None and for_ is None:
            raise Missing('a time such as "10ms", or seconds', command="step", key="until or for_")
        if until is not None and for_ is not None:
            raise Conflict("until and for_", "one of them", command="step")
        now = self._time_ns
        target = _parse_time(until, "until") if until is not None else now + _parse_time(for_ or 0, "for_")
        started = time.perf_counter()
        over = self._native.step(max(now, target))
        self._wall_s += time.perf_counter() - started
        return over

    def view(self) -> View:
        """Return flows, queues and congestion controls as they are now."""
        try:
            found = json.loads(self._native.view())
        except ValueError as error:
            raise self._explain(error) from None
        return View(found["time"] / 1e9, found["events"], found["flows"], found["queues"], found["controls"])

    def set(self, key: str, value: Any) -> Self:
        """Change what a key stands for, from now on; return the simulation.

        Keys and values are those of experiment files; flows are numbered as in the results. `bottleneck.rate`,
        `hop[0].rate` and `reverse.rate` are rates of links, `bottleneck.aqm.target` is a parameter of a queue
        discipline, which keeps its packets, and `bottleneck.aqm` another one, as `tc qdisc replace` puts it there: the
        packets are dropped. `flows[0].cc` is another congestion control of a connection, as the socket option
        TCP_CONGESTION sets it. `bottleneck.path[0].probability` is that of a stage of loss, `flows[0].base_rtt` a base
        RTT, `flows[0].start` and `flows[0].stop` a time or "now"; `flows[0].cwnd` (segments) and
        `flows[0].pacing_rate` steer a flow with the control external. Raises InputError if that cannot be.
        """
        try:
            canonical = self._parse_set(key, value)
            self._native.set(key, json.dumps(canonical))
        except InputError as error:
            place = error.key if error.key.startswith(f"{key}.") else key
            raise error.move(self._cell.experiment, place) from None
        except ValueError as error:
            raise self._explain(error) from None
        return self

    def _parse_set(self, key: str, value: Any) -> Any:
        """Return a value of a key in canonical form."""
        path = keys.parse_path(key)
        last = path[-1]
        if last == "aqm":
            return self._parse_algorithm(key, key, value)
        if last == "cc" and path[0] == "flows":
            # flows are numbered by their count; which entry it is does not matter for a control
            return self._parse_algorithm(key, "flows[0].cc", value)
        if last in ("start", "stop") and path[0] == "flows":
            return None if value == "now" else _parse_time(value, key)
        if path[0] == "flows" and last in ("cwnd", "pacing_rate"):
            own = read_registry().cc["external"].params["window" if last == "cwnd" else "rate"]
            return parse_value(own, value)
        param = self._find_param(path)
        return value if param is None else parse_value(param, value)

    def _parse_algorithm(self, key: str, place: str, value: Any) -> Any:
        """Return what the value of a key sets of a queue or control, in canonical form, as at a place of the file."""
        path = keys.parse_path(place)
        try:
            changed = self._experiment.add_settings([(place, value)], asks_engine=False).make_cell(0)
        except InputError as error:
            raise error.move("", key + error.key.removeprefix(place)) from None
        name = next(iter(keys.get_path(changed.groups, (*path, "name"))))
        given = next(iter(keys.get_path(changed.given, path)))
        canonical = next(iter(keys.get_path(changed.groups, path)))
        return {own: canonical[own] for own in given if own in canonical} | {"name": name}

    def _find_aqm(self, place: keys.Path) -> str | None:
        """Return the name of the queue discipline of a hop as it is now."""
        hop = place[0] if place[0] != "hop" else next(iter(keys.get_path(self._cell.groups, (*place, "name"))), None)
        try:
            return dict(self._native.queues()).get(str(hop))
        except ValueError as error:
            raise self._explain(error) from None

    def _find_param(self, path: keys.Path) -> Param | None:
        if "path" in path or "behind" in path or "ack_path" in path:
            return read_registry().stage["loss"].params.get(str(path[-1]))
        if len(path) > 1 and path[-2] == "aqm":
            algorithm = read_registry().aqm.get(str(self._find_aqm(path[:-2])))
            return None if algorithm is None else algorithm.params.get(str(path[-1]))
        return find_param(path)

    def snapshot(self) -> Snapshot:
        """Return the present state, to which `restore` returns; raises InputError if a part cannot be copied."""
        return Snapshot(self._copy(), self._cell)

    def restore(self, snapshot: Snapshot) -> Self:
        """Return to the state of a snapshot of this simulation or of a copy; return the simulation.

        A snapshot can be restored any number of times.
        """
        if not isinstance(snapshot, Snapshot):
            raise WrongValue(quote_value(snapshot), "what snapshot() returned", command="restore")
        if snapshot._cell.config != self._cell.config:
            raise Unfit("the snapshot is that of another run", "restore one of this simulation", command="restore")
        self._native = snapshot._native.fork()
        return self

    def fork(self) -> Simulation:
        """Return a copy, which goes on as this simulation does; raises InputError if a part cannot be copied."""
        other = object.__new__(Simulation)
        other.__dict__.update(self.__dict__ | {"_native": self._copy()})
        return other

    def _copy(self) -> _native.Simulation:
        try:
            return self._native.fork()
        except TypeError as error:
            raise Unfit(str(error), command="Simulation") from None
        except ValueError as error:
            raise self._explain(error) from None

    def events(self, *, until: Time | None = None, step: Time = "10ms") -> Iterator[PacketEvent]:
        """Step the simulation and yield the events of packets at its hops, in order, to its end or to `until`.

        Needs `Simulation(…, events=True)`. It advances by `step` each time that its events are used up.
        """
        if not self._has_events:
            raise Unfit("the simulation keeps no events", "build it with events=True", command="events")
        end = None if until is None else _parse_time(until, "until")
        pace = _parse_time(step, "step")
        if pace == 0:
            raise OutOfRange(quote_value(step), "more than 0", command="events", key="step")
        return self._yield_events(end, pace)

    def _yield_events(self, end: int | None, pace: int) -> Iterator[PacketEvent]:
        while True:
            for at, hop, event, kind, reason, flow, number, length, is_ack in self._native.take_events():
                yield PacketEvent(at / 1e9, hop, event, kind, reason, flow, number, length, is_ack)
            now = self._time_ns
            if self.over or (end is not None and now >= end):
                return
            self._native.step(now + pace if end is None else min(end, now + pace))

    def finish(self) -> Results:
        """Go on to the end and return what the run measured, in memory as `dumbbell.simulate` does.

        The simulation cannot be used afterwards; a copy can. A run that was changed has the configuration of its
        experiment, without the changes. Raises RuntimeError if a plugin does what it must not.
        """
        started = time.perf_counter()
        try:
            result = self._native.finish()
        except ValueError as error:
            raise self._explain(error) from None
        run = MeasuredRun(self._wall_s + time.perf_counter() - started, result)
        return collect_results([Finished(self._cell, run)])


@cache
def _read_columns() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_native.agent_columns())
    return found


def list_observations() -> list[dict[str, str]]:
    """Return the columns of observations in order: name, unit and meaning."""
    return list(_read_columns()["observations"])


class Agents:
    """Agents of the flows with `cc = "external"` in many simulations, which act and observe in arrays.

    Row by row, `observations` has the columns `Agents.columns`, and an action is the window in segments and the pacing
    rate of the payload in Mbit/s; NaN leaves what is set. Simulations go on on threads, without a call of Python for
    each packet.
    """

    columns: tuple[str, ...] = tuple(one["name"] for one in _read_columns()["observations"])
    """Names of the columns of observations; `list_observations` describes them."""
    actions: tuple[str, ...] = tuple(_read_columns()["actions"])
    """Names of the columns of actions."""

    def __init__(self, simulations: Sequence[Simulation], *, every: Time, threads: int | None = None) -> None:
        """Take copies of the simulations, which stay as they are.

        `every` says how often an agent acts: "ack" for each acknowledgement, a time such as "10ms" or in seconds, or a
        multiple of the flow's smoothed RTT such as "1rtt" or "0.5rtt". Raises InputError.
        """
        self._wall_s = 0.0
        if not isinstance(simulations, Sequence):
            found = f"{quote_value(simulations)} ({type(simulations).__name__})"
            raise WrongValue(found, "a list of Simulation", command="Agents", key="simulations")
        if not simulations:
            raise WrongValue("no simulation", "one or more", command="Agents", key="simulations")
        if threads is not None:
            check_count(threads, "a number of threads, 1 or more", command="Agents", key="threads")
        for number, one in enumerate(simulations):
            if not isinstance(one, Simulation):
                raise WrongValue(quote_value(one), "a Simulation", command="Agents", key=f"simulations[{number}]")
        self._experiments = [one._experiment for one in simulations]
        self._cells = [one._cell for one in simulations]
        count = min(threads or count_cores(), len(simulations))
        try:
            natives = [one._native for one in simulations]
            self._native = _native.Agents(natives, **_parse_every(every), threads=count)
        except TypeError as error:
            raise Unfit(str(error), command="Agents") from None
        except ValueError as error:
            raise parse_engine_error(self._cells[0].experiment, error) from None
        self.rows: list[tuple[int, int]] = self._native.rows
        """Simulation and flow of each row."""
        self.observations: NDArray[np.float64] = np.full((len(self.rows), len(self.columns)), np.nan)
        self.due: NDArray[np.uint8] = np.ones(len(self.rows), np.uint8)
        """Whether the agent of each row acts in the next step."""
        self._keep = np.full((len(self.rows), len(self.actions)), np.nan)

    def step(self, actions: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Let the agents that are due act, step each simulation until one of its agents is due again or it is over.

        Return `observations`, in which the rows of the agents that are due are new. Raises InputError for an action
        that cannot be, RuntimeError if a simulation fails.
        """
        asked = self._keep if actions is None else np.ascontiguousarray(actions, np.float64)
        if asked.shape != self._keep.shape:
            raise WrongValue(
                f"actions of shape {asked.shape}",
                f"one row for each agent, {self._keep.shape}",
                command="Agents",
                key="actions",
            )
        try:
            self._native.step(asked, self.observations, self.due)
        except ValueError as error:
            raise parse_engine_error("Agents", error) from None
        return self.observations

    @property
    def over(self) -> list[bool]:
        """Whether each simulation is over."""
        return self._native.over

    @property
    def times(self) -> list[float]:
        """How far each simulation has come, s."""
        return [at / 1e9 for at in self._native.times]

    def replace(self, number: int, simulation: Simulation) -> None:
        """Replace a simulation by a copy of another one with as many agents, which act from now on."""
        most = len(self._cells) - 1
        check_count(number, f"0 to {most}", least=0, most=most, command="replace", key="number")
        try:
            self._native.replace(number, simulation._native)
        except ValueError as error:
            raise parse_engine_error(simulation._cell.experiment, error) from None
        self._experiments[number], self._cells[number] = simulation._experiment, simulation._cell
        for row, (of, _) in enumerate(self.rows):
            if of == number:
                self.due[row] = 1
                self.observations[row] = np.nan

    def fork(self, number: int) -> Simulation:
        """Return a copy of a simulation, to look at, to go on with or to finish."""
        most = len(self._cells) - 1
        check_count(number, f"0 to {most}", least=0, most=most, command="fork", key="number")
        other = object.__new__(Simulation)
        native = self._native.fork(number)
        own = {"_experiment": self._experiments[number], "_cell": self._cells[number], "_native": native}
        other.__dict__.update(own | {"_wall_s": 0.0, "_has_events": False})
        return other


def _parse_every(every: Time) -> dict[str, Any]:
    """Return how often agents act, as the engine takes it."""
    if every == "ack":
        return {}
    if isinstance(every, str) and every.endswith("rtt"):
        try:
            return {"rtts": float(every.removesuffix("rtt"))}
        except ValueError:
            raise WrongValue(
                quote_value(every), '"ack", a time such as "10ms", or "1rtt"', command="Agents", key="every"
            ) from None
    return {"time": _parse_time(every, "every")}
