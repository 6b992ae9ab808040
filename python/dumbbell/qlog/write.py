"""Writes a run as qlog: a file for the sender of each flow, and one for the network.

Files are JSON text sequences (RFC 7464) as in draft-ietf-quic-qlog-main-schema-14 with the events of
draft-ietf-quic-qlog-quic-events-13, or as in qlog 0.3 (draft-ietf-quic-qlog-main-schema-03), which qvis reads. What
events of our own have is in `docs/how-to/qlog.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell import _native
from dumbbell.errors import Conflict, Failed, Nothing, OutOfRange, Unfit
from dumbbell.experiment import plugins, units
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import label
from dumbbell.experiment.plugins import built, process
from dumbbell.scratch import keep_whole
from dumbbell.waiting import run_engine
from dumbbell.writing import report_write_failures

ENDING = ".sqlog"
NETWORK = f"network{ENDING}"
# a folder in which stacks write their own qlog, and by how much the clocks of their senders run ahead, ns, flow by flow
STACK_QLOG, STACK_QLOG_AHEAD = "DUMBBELL_STACK_QLOG", "DUMBBELL_STACK_QLOG_AHEAD"
OF_STACKS = f"flow-*-*{ENDING}"
QUIC = "urn:ietf:params:qlog:events:quic-13"
OWN = "urn:x-dumbbell:qlog:events:dumbbell-1"


@dataclass(frozen=True)
class WrittenQlog:
    """The files that were written: in order, how many records they have, and the hash of what the run measured."""

    files: list[Path]
    records: int
    hash: str


def write(
    cell: Cell, output: Path, flows: Sequence[int] = (), *, old: bool = False, stacks: bool = False
) -> WrittenQlog:
    """Run a cell and write it.

    `output` is a folder, or, of one flow, a file that ends in .sqlog: then there is no file of the network. `flows` are
    numbers as in table `flows`; all of `[[flows]]` by default. `old` writes qlog 0.3. `stacks` lets QUIC stacks write
    their own qlog into the same folder. Raises InputError.
    """
    listed = _describe_flows(cell)
    if not listed:
        raise Nothing("found no flow with a sender", "one or more [[flows]]", file=cell.experiment, key="flows")
    for number in flows:
        if not 0 <= number < len(listed):
            raise OutOfRange(str(number), f"from 0 to {len(listed) - 1}", command="trace", option="--flow")
    wanted = list(dict.fromkeys(flows)) or list(range(len(listed)))
    alone = output.suffix == ENDING
    if alone and len(wanted) > 1:
        raise Conflict(f"{len(wanted)} flows and one file", "--flow, or a folder for --output", command="trace")
    if alone and stacks:
        raise Conflict("--stacks and a file", "a folder for --output", command="trace")
    digests = [one["cc"]["plugin"] for one in cell.groups["flows"] if "plugin" in one["cc"]]
    if stacks and not any(plugins.get_known(digest).kind == "stack" for digest in digests):
        raise Unfit(
            "no flow of this run has a stack",
            "a run with a stack, or omit --stacks",
            command="trace",
            option="--stacks",
        )
    folder = output.parent if alone else output
    with report_write_failures(output, "a folder or file to write to", command="trace", option="--output"):
        folder.mkdir(parents=True, exist_ok=True)
        paths = {n: output if alone else folder / f"flow-{n}{ENDING}" for n in wanted}
        senders = {
            n: (path, _make_header(cell, f"flow {n}", listed[n], "client", old=old)) for n, path in paths.items()
        }
        network = None if alone else (folder / NETWORK, _make_header(cell, "network", "queues", "network", old=old))
        with keep_whole([*paths.values(), *([network[0]] if network else [])]):
            records, digest = _run(cell, senders, network, old=old, own=folder if stacks else None)
    files = [*paths.values(), *([folder / NETWORK] if network else [])]
    if stacks:
        files += sorted(one for one in folder.glob(OF_STACKS))
    return WrittenQlog(files, records, digest)


def _describe_flows(cell: Cell) -> list[str]:
    """Return what to say of each flow of `[[flows]]`: its control and its base RTT."""
    texts = []
    for one in cell.groups["flows"]:
        control = label({key: value for key, value in one["cc"].items() if key in ("name", "control")})
        texts += [f"{control}, base RTT {units.show('time', one['base_rtt'])}"] * one["count"]
    return texts


def _make_header(cell: Cell, name: str, what: str, vantage_point: str, *, old: bool) -> str:
    """Return the first record of a file."""
    keys = "".join(f", {key}={value}" for key, value in cell.matrix.items())
    title = f"{cell.experiment}: {name}"
    description = f"{what}{keys}, seed={cell.seed}"
    trace: dict[str, Any] = {"title": title, "description": description}
    # a vantage point in the network sees packets go to the server
    flow = {"flow": "client"} if vantage_point == "network" else {}
    trace["vantage_point"] = {"type": vantage_point, "name": name, **flow}
    head: dict[str, Any]
    if old:
        trace["common_fields"] = {"time_format": "relative", "reference_time": 0}
        head = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ"}
    else:
        clock = {"clock_type": "monotonic", "epoch": "unknown"}
        trace["common_fields"] = {"time_format": "relative_to_epoch", "reference_time": clock}
        trace["event_schemas"] = [OWN] if vantage_point == "network" else [QUIC, OWN]
        head = {
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
        }
    return json.dumps(head | {"title": title, "description": description, "trace": trace})


_File = tuple[Path, str]


def _run(
    cell: Cell, senders: dict[int, _File], network: _File | None, *, old: bool, own: Path | None
) -> tuple[int, str]:
    """Run and write; return how many records there are, and the hash of what was measured. Raises InputError.

    Plugins run in a process of its own, where they crash alone.
    """
    loaded = plugins.list_copies(cell.groups)
    if not loaded:
        result, records = run_engine("trace", _native.run_qlog, cell.config, senders, network, old_names=old)
        return records, result.hash
    environment = {name: value for name, value in os.environ.items() if name != STACK_QLOG}
    if own is not None:
        loaded = {digest: str(built.find_logging_library(Path(path))) for digest, path in loaded.items()}
        for stale in own.glob(OF_STACKS):
            stale.unlink()
        lags = " ".join(map(str, _measure_clock_lags(cell)))
        environment |= {STACK_QLOG: str(own.absolute()), STACK_QLOG_AHEAD: lags}
    job = {
        "config": cell.config,
        "plugins": loaded,
        "senders": {number: [str(path.absolute()), header] for number, (path, header) in senders.items()},
        "network": [str(network[0].absolute()), network[1]] if network else None,
        "old_names": old,
    }
    try:
        answer = process.carry_out("qlog", job, environment=environment)
    except RuntimeError as error:
        raise Failed(str(error), "plugins that work", command="trace") from None
    return answer["count"], answer["hash"]


def _measure_clock_lags(cell: Cell) -> list[int]:
    """Return by how much the clock of the engine is behind each sender's: half of the base RTT."""
    found: list[int] = []
    for one in cell.groups["flows"]:
        found += [0 if one.get("direction") == "up" else one["base_rtt"] // 2] * one["count"]
    return found
