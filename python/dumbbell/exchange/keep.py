"""Imported runs in a results file, with keys and configurations like those of engines."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import InputError, Unfit, join_names
from dumbbell.exchange import imported_tables, setup
from dumbbell.exchange.measurement import Measurement, SetupFact
from dumbbell.experiment import matrix
from dumbbell.experiment.cell import Cell
from dumbbell.results import dimensions
from dumbbell.results.store import Store
from dumbbell.words import format_count

_NAMED = 8  # keys that a note names


@dataclass
class Imported:
    """A file that was read: what it measured, the experiment that it is taken for, and its name."""

    path: Path
    name: str
    measured: Measurement
    cell: Cell
    text: str = ""
    """The proposed experiment file; empty where the user named one."""
    known: list[str] = field(default_factory=list)
    facts: list[tuple[str, SetupFact]] = field(default_factory=list)
    """Keys of the proposed file, each with where its value is from."""
    assumed: list[str] = field(default_factory=list)


def propose_experiment(
    path: Path, found: Measurement, name: str, *, own_name: bool = True, settings: Sequence[tuple[str, Any]] = ()
) -> Imported:
    """Return a file with the experiment that its own words make, and `settings`; raises InputError.

    With `own_name`, a file that dumbbell exported keeps the name of its experiment.
    """
    flows = list(found.flows)
    try:
        made = setup.propose_file(found, path.name, name, settings)
    except InputError as error:
        raise error.move_into(str(path)) from None
    cell = dataclasses.replace(made.cell, experiment=name)
    if found.exact:
        found.flows = flows  # as they are in its configuration
        name = found.exact["name"] if own_name and found.exact["name"] else name
        cell = dataclasses.replace(cell, experiment=name, title=found.exact["title"])
        if unlike := _list_unlike_keys(made.cell, found.exact["config"]):
            found.notes.append(f"the proposed experiment differs from that of the run in {unlike}")
    return Imported(path, name, found, cell, made.text, made.known, made.facts, made.assumed)


def match_experiment(path: Path, found: Measurement, cell: Cell) -> Imported:
    """Return a file that measured a cell of an experiment; raises InputError if its flows are others."""
    if found.exact:  # whose flows have their order
        if unlike := _list_unlike_keys(cell, found.exact["config"]):
            found.notes.append(f"dumbbell wrote this file from a run that differs from {cell.experiment} in {unlike}")
        found.exact["config"] = cell.groups
    else:
        setup.match_flows(found, cell.groups)
    counted = setup.describe_traffic(cell)
    flows = sum(flow.kind == "flows" for flow in found.flows)
    there = {"flows": flows, "udp": len(found.flows) - flows}
    for kind in ("udp", "flows"):
        if there[kind] != counted[kind]:
            what, of = {"flows": ("flow", "TCP or QUIC"), "udp": ("source", "UDP, pings included")}[kind]
            says = f"the file has {format_count(there[kind], what)} of {of}, and {cell.experiment} has {counted[kind]}"
            raise Unfit(says, "an experiment with the same flows", file=path)
    return Imported(path, cell.experiment, found, cell, known=setup.list_paths(cell.given))


def _list_unlike_keys(cell: Cell, config: dict[str, Any]) -> str:
    """Return the keys by which a cell is not the configuration of a run; empty if it is."""
    ours, theirs = (dimensions.drop_seed(one) for one in (json.loads(cell.config), config))
    found = [matrix.format_path(path) for path in dimensions.find_unlike_paths((), [ours, theirs])]
    return join_names(found, _NAMED) if found else ""


def _make_cell(one: Imported, seed: int, content: str = "") -> Cell:
    """Return the run that a file is: its configuration, with a seed and a key of its own."""
    exact = one.measured.exact
    groups = (exact["config"] if exact else one.cell.groups) | {"seed": seed}
    return dataclasses.replace(
        one.cell,
        seed=seed,
        groups=groups,
        engine=imported_tables.VERSION,
        matrix={},
        plan_of=lambda _: f"{content} {one.name} {seed}",
    )


def make_rows(one: Imported, seed: int, number: int) -> dict[str, pl.DataFrame]:
    """Return the rows of an imported run in all tables, with its key."""
    content = hashlib.blake2b(one.path.read_bytes(), digest_size=16).hexdigest()
    cell = _make_cell(one, seed, content)
    made = imported_tables.make_tables(one.measured, cell.groups)
    source = {"file": one.path.name, "digest": content} | one.measured.source | {"notes": one.measured.notes}
    if source.get("format") == "Flent":
        source["series"] = [flow.name for flow in one.measured.flows]
    described: dict[str, Any] = {
        "key": cell.key,
        "experiment": cell.experiment,
        "title": cell.title,
        "seed": seed,
        "number": number,
        "matrix": "{}",
        "config": cell.config,
        "engine_version": imported_tables.VERSION,
        "kernel": None,
        "given": json.dumps(sorted(one.known)),
        "cell": cell.cell_key,
        "wall_s": 0.0,
        "hash": imported_tables.compute_digest(made),
        "imported": json.dumps(source, ensure_ascii=False),
    }
    kinds = dict.fromkeys(("seed", "number"), pl.Int64) | {"wall_s": pl.Float64}
    columns = [pl.lit(value, dtype=kinds.get(name, pl.String)).alias(name) for name, value in described.items()]
    made["runs"] = made["runs"].select(*columns, pl.all())
    return {name: table if name == "runs" else table.select(columns[0], pl.all()) for name, table in made.items()}


def keep(output: str | Path, imported: Sequence[Imported]) -> list[str]:
    """Add files to a results file, all of them or none, and return the keys of their runs. Raises InputError.

    A file that is there already is not added again. Files of one experiment and one set-up are its repetitions: their
    seeds count from 1.
    """
    keys: list[str] = []
    with Store.open(output, write=True) as store:
        taken = _find_imported_runs(store)
        parts: dict[str, list[pl.DataFrame]] = {}
        number = sum(map(len, taken.values()))
        for one in imported:
            place = (one.name, _make_cell(one, 1).cell_key)
            seeds = taken.setdefault(place, {})
            content = hashlib.blake2b(one.path.read_bytes(), digest_size=16).hexdigest()
            if content in seeds.values():
                continue
            wanted = one.measured.exact["seed"] if one.measured.exact else 1
            seed = next(seed for seed in range(wanted, wanted + len(seeds) + 1) if seed not in seeds)
            seeds[seed] = content
            made = make_rows(one, seed, number)
            number += 1
            keys.append(made["runs"]["key"][0])
            for name, table in made.items():
                parts.setdefault(name, []).append(table)
        if keys:
            store.write({name: pl.concat(of_table) for name, of_table in parts.items()})
    return keys


def list_imported_files(output: str | Path) -> dict[str, set[str]]:
    """Return the names of the files that results have imported, by experiment."""
    if not Path(output).exists():
        return {}
    with Store.open(output) as store:
        if "imported" not in store.list_columns("runs"):
            return {}
        query = f"SELECT experiment, imported FROM runs WHERE engine_version = '{imported_tables.VERSION}'"
        found: dict[str, set[str]] = {}
        for experiment, source in store.read(query).iter_rows():
            found.setdefault(experiment, set()).add(str(json.loads(source or "{}").get("file", "")))
        return found


def _find_imported_runs(store: Store) -> dict[tuple[str, str], dict[int, str]]:
    """Return the imported runs of a file: by experiment and cell, their seeds with the digests of their files."""
    taken: dict[tuple[str, str], dict[int, str]] = {}
    if "imported" not in store.list_columns("runs"):
        return taken
    query = f"SELECT experiment, cell, seed, imported FROM runs WHERE engine_version = '{imported_tables.VERSION}'"
    for experiment, cell, seed, source in store.read(query).iter_rows():
        taken.setdefault((experiment, cell), {})[seed] = str(json.loads(source or "{}").get("digest"))
    return taken
