"""One run with all its data: its stored tables, and its trace and finer time series, if it can be repeated."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import _native
from dumbbell.engines import find_engine
from dumbbell.engines.base import Ended, Engine, prepare_experiments
from dumbbell.engines.sim import Simulator
from dumbbell.errors import Failed, InputError, escape_line
from dumbbell.errors import parse_engine_error as said_by_engine
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import load
from dumbbell.experiment.plugins import trust as trusting
from dumbbell.explain import phrases
from dumbbell.results.labels import add_assumed_controls, group_labels
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.one_cell import choose_cell
from dumbbell.results.results import StoredResults
from dumbbell.results.store import TABLES, gather_tables
from dumbbell.results.versions import KINDS, find_kind
from dumbbell.waiting import restore_ctrl_c
from dumbbell.words import format_count, format_duration, join_words

STATES = ("dropping", "p")  # of queue disciplines, that are recorded
_ROWS = 400_000  # of finer time series, and of a trace without its changes of state
_EVERY_EVENT = 150_000  # packets up to which a trace has a row for each event
_MOST_ENDS = 4  # flows of a file whose addresses are printed
_MS, _SECOND = 1_000_000, 1_000_000_000
# what a repeated run has to measure as the stored one did
_SAME_RUN = ("packets", "drops_overflow", "drops_aqm", "ce_marks", "sce_marks", "retransmissions", "sojourn_max_ms")
_SAME_FLOW = ("goodput_mbit", "sent", "retransmissions", "timeouts", "drops", "ce_marks")


@dataclass
class Observed:
    """One run. `tables` are as they are kept; `fine` has those of the same run with more recorded."""

    experiment: str
    title: str
    matrix: dict[str, str]
    seed: int
    engine: str
    """Its version."""
    config: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    key: str = ""
    engine_text: str = ""
    fine: dict[str, pl.DataFrame] = field(default_factory=dict)
    fine_config: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What is missing, and what was done to know more: a sentence each."""

    @property
    def run(self) -> dict[str, Any]:
        """The row of table `runs`."""
        return self.tables["runs"].row(0, named=True)

    @property
    def flows(self) -> list[dict[str, Any]]:
        """The rows of table `flows`."""
        return self.tables["flows"].to_dicts()

    @property
    def kind(self) -> str:
        """The kind of engine: sim, linux or live."""
        return find_kind(self.engine)

    @property
    def duration_s(self) -> float:
        """Length of the run."""
        return float(self.config["duration"]) / _SECOND

    @property
    def measured_from_s(self) -> float:
        """When measurement starts."""
        return float(self.config["record"]["from"]) / _SECOND

    @cached_property
    def groups(self) -> list[tuple[str, dict[str, Any]]]:
        """Groups of alike flows and sources of UDP, in the order of the configuration, with what they are called."""
        groups = [*self.config["flows"], *self.config["udp"]]
        labels = group_labels(groups, alone=True)
        named = [phrases.format_label(label, _name_control(group)) for label, group in zip(labels, groups, strict=True)]
        return list(zip(named, groups, strict=True))

    @cached_property
    def members(self) -> list[tuple[str, dict[str, Any]]]:
        """What each flow of table `flows` is called, and its group."""
        found = []
        for name, group in self.groups:
            mark = "." if re.search(r"#\d+$", name) else " #"  # of groups that are numbered themselves
            several = group["count"] > 1
            found += [(f"{name}{mark}{n + 1}" if several else name, group) for n in range(group["count"])]
        return found

    def is_tcp(self, flow: int) -> bool:
        """Whether a flow is of `[[flows]]`, a stack's or TCP."""
        return flow < sum(int(group["count"]) for group in self.config["flows"])

    def find_table(self, name: str) -> pl.DataFrame:
        """Return the finest rows there are of a table."""
        found = self.fine.get(name)
        return found if found is not None and found.height else self.tables[name]

    @property
    def series_config(self) -> dict[str, Any]:
        """`record` of the run that `table` is of."""
        found: dict[str, Any] = (self.fine_config or self.config)["record"]
        return found

    @property
    def interval_s(self) -> float:
        """Interval of the time series in `table`."""
        return float(self.series_config["interval"]) / _SECOND

    @property
    def has_series(self) -> bool:
        """Whether there are time series."""
        return self.find_table("queue_series").height > 0

    @cached_property
    def hops(self) -> dict[str, pl.DataFrame]:
        """Time series of each hop, by its name; "" where there is one."""
        found = self.find_table("hop_series")
        if not found.height:
            return {"": self.find_table("queue_series")} if self.has_series else {}
        return {str(name): rows for (name,), rows in found.group_by("hop", maintain_order=True)}

    def find_hop(self, hop: str) -> dict[str, Any]:
        """Return the configuration of a hop."""
        found: dict[str, Any] = self.config["bottleneck"]
        if hop == "reverse":
            found = self.config["reverse"]
        for one in self.config.get("hop", []):
            found = one if one["name"] == hop else found
        return found


def _name_control(group: dict[str, Any]) -> str:
    """Return the name of a group's congestion control, or of its stack; or udp, or ping."""
    if "cc" not in group:
        return "ping" if group.get("echo") else "udp"
    return str(group["cc"]["name"])


def refine_recording(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of the same run with its trace and finer time series, of bounded size."""
    flows = max(1, sum(one["count"] for one in (*config["flows"], *config["udp"])))
    hops = 1 + len(config.get("hop", [])) + ("reverse" in config)
    duration = int(config["duration"])

    def find_interval(rows: int) -> int:
        """Return an interval in whole ms for what has so many rows at each point of time."""
        return max(1, math.ceil(duration * rows / _ROWS / _MS)) * _MS

    record = dict(config["record"]) | {"series": True, "interval": find_interval(flows + hops + len(STATES))}
    packets = Cell("", "", {}, 0, config).packets
    record["trace"] = 0 if packets < _EVERY_EVENT and flows <= 8 else find_interval(flows)
    record["queue"] = list(STATES)
    return config | {"record": record}


def repeat(observed: Observed) -> None:
    """Run the same configuration again with more recorded; say in `notes` what came of it.

    It is for runs of the simulator: what it records changes nothing else.
    """
    if observed.kind != "sim":
        text = KINDS[observed.kind].carried_out
        observed.notes.append(
            f"This run was carried out {text}, so it has no trace. The estimates of senders, the causes of "
            "their reductions and times between the points of the series are not known."
        )
        if observed.kind == "import":
            observed.notes += _list_notes_of_file(observed)
        return
    config = refine_recording(observed.config)
    cell = Cell(observed.experiment, observed.title, observed.matrix, observed.seed, config)
    try:
        measured = carry_out_run(cell, Simulator())
    except InputError as error:
        observed.notes.append(f"The run could not be repeated with a trace: {escape_line(str(error))}.")
        return
    found = make_frames(cell, measured)
    different = _list_differing_columns(observed.tables, found)
    if different:
        why = "" if observed.engine == _native.engine_version() else ", because this dumbbell has another engine"
        observed.notes.append(
            f"The run was repeated with a trace and did not measure the same ({', '.join(different)}){why}: this "
            "explanation uses only its tables."
        )
        return
    observed.fine, observed.fine_config = found, config
    if observed.key:
        every = format_duration(config["record"]["interval"] / _SECOND)
        observed.notes.append(
            f"The run was repeated in virtual time with its trace and with time series every {every}; it measured the "
            "same."
        )


def _list_notes_of_file(observed: Observed) -> list[str]:
    """Return who the flows of an imported run were, and which controls its file does not say."""
    notes = []
    names = [name for name, _ in observed.members]
    ends = [(row.get("source"), row.get("destination")) for row in observed.flows]
    known = [f"{name} is {a} to {b}" for name, (a, b) in zip(names, ends, strict=True) if a and b]
    if known:
        more = f", and {format_count(len(known) - _MOST_ENDS, 'flow')} more" if len(known) > _MOST_ENDS else ""
        notes.append(f"{', '.join(known[:_MOST_ENDS])}{more}.")
    assumed = add_assumed_controls(observed.config, observed.run.get("given"))
    if assumed:
        controls = join_words(list(dict.fromkeys(phrases.format_label(group["cc"]["name"]) for group in assumed)))
        whose = "its flows run" if len(assumed) == len(observed.config["flows"]) else "some of its flows run"
        notes.append(f"The file does not say which control {whose}: {controls} is assumed.")
    return notes


def _list_differing_columns(kept: dict[str, pl.DataFrame], again: dict[str, pl.DataFrame]) -> list[str]:
    """Return the columns of runs and flows in which a repeated run differs."""
    found = []
    for table, columns in (("runs", _SAME_RUN), ("flows", _SAME_FLOW)):
        for name in columns:
            before, after = (one[table][name].cast(pl.Float64) for one in (kept, again))
            if not before.equals(after, null_equal=True):
                found.append(f"{table}.{name}")
    return found


def carry_out_run(cell: Cell, engine: Engine) -> MeasuredRun:
    """Carry out one run; Ctrl-C ends it. Raises InputError."""
    with engine.open_workers(1) as workers:
        restore_ctrl_c()
        pending = workers.begin([(cell, _native.Progress())])
        try:
            ended = pending.result()[0]
        except KeyboardInterrupt:
            workers.stop()
            raise
    return take_measured(cell, ended)


def take_measured(cell: Cell, ended: Ended) -> MeasuredRun:
    """Return what a run measured; raises InputError if it failed."""
    if isinstance(ended, MeasuredRun):
        return ended
    if isinstance(ended, InputError | KeyboardInterrupt):
        raise ended
    if isinstance(ended, ValueError):
        raise said_by_engine(cell.experiment, ended) from None
    raise Failed(escape_line(str(ended)) or type(ended).__name__, "a run that can be carried out", file=cell.experiment)


def make_frames(cell: Cell, measured: MeasuredRun) -> dict[str, pl.DataFrame]:
    """Return the tables of one run, as the store would keep them, without its key."""
    found = {name: pl.DataFrame(rows) for name, rows in gather_tables([Finished(cell, measured)]).items()}
    return {name: found.get(name, pl.DataFrame()) for name in TABLES}


def observe_cell(cell: Cell, measured: MeasuredRun) -> Observed:
    """Return a run that was just carried out."""
    return Observed(
        cell.experiment,
        cell.title,
        cell.matrix,
        cell.seed,
        cell.engine,
        cell.groups,
        make_frames(cell, measured),
        engine_text=cell.engine,
    )


def observe_results(results: StoredResults) -> Observed:
    """Return the first of these runs as it is kept."""
    only = results.with_keys(results.keys[:1])
    found = {name: only.frame(name) for name in TABLES}
    row = found["runs"].row(0, named=True)
    return Observed(
        row["experiment"],
        row["title"],
        json.loads(row["matrix"]),
        row["seed"],
        row["engine_version"],
        json.loads(row["config"]),
        found,
        key=row["key"],
        engine_text=only.name_engines()[row["engine_version"]],
    )


def select_cell(
    file: str,
    settings: Sequence[str] | None,
    cell: int | None,
    where: Sequence[str],
    *,
    engine: str | None,
    trust: bool,
    command: str,
) -> tuple[Cell, Engine]:
    """Return the one run of an experiment file that is meant, and what carries it out. Raises InputError."""
    by = find_engine(engine or "sim")
    if trust:
        trusting.trust(Path(file).absolute().parent)
    experiment = load(file, settings)
    by.prepare([experiment])
    return choose_cell(prepare_experiments([experiment], by)[0], cell, where, command), by
