"""The hunts of this study: networks in which a congestion control behaves badly, made small.

python -m studies.hunting.networks [FOLDER] [--only CRITERION-CONTROL ...]

Carries out each search in studies/hunting/searches for each control, or continues it, with a results file for each in
FOLDER, and makes the worst candidate small. Writes searches/hunts.csv, with the networks, and the experiments
found.toml, stacks.toml, both.toml, bbr3.toml and l4s.toml, each of which has a second file for networks with a queue
for acknowledgements. `dumbbell study run hunting` runs these networks with seeds and starts that no hunt has seen.
With --only, nothing is written.
"""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.experiment import parse, units
from dumbbell.experiment.settings import format_toml
from dumbbell.experiment.toml_file import read_toml
from dumbbell.searching.candidate import FAILED, MEASURED, REFUSED
from dumbbell.searching.hunt import KeptFind, find_median, shrink_worst
from dumbbell.searching.search_file import SearchPlan, load_search, parse_search
from dumbbell.searching.search_run import SearchState, carry_out_search

HERE = Path(__file__).parent
CONTROLS = ("reno", "cubic", "bbr1", "bbr2", "bbr3", "bbr-draft", "dctcp", "prague", "ledbat", "ledbat-pp")
STACKS = {
    f"{stack}-{control}": (stack, control)
    for stack, controls in (
        ("quinn-0.11.19", ("bbr", "cubic")),
        ("noq-1.4.0", ("bbr3", "cubic")),
        ("picoquic-1.1.52.0", ("bbr", "cubic", "c4")),
    )
    for control in controls
}
"""Controls of QUIC stacks, by the names that results have for them: a stack and its control."""
STACK_BUDGET = 300  # candidates: a run with a stack takes ten times as long
STACK_CRITERIA = ("equal", "harm", "queue", "loss", "short")
CRITERIA = ("start", "use", "use-ecn", "use-sce", "equal", "harm", "queue", "loss", "short")
NEEDED = {"use-ecn": ("dctcp", "prague"), "use-sce": ("reno-sce", "cubic-sce", "dctcp-sce")}
"""Criteria for the controls alone that need their marks."""
SUBJECTS = {"equal": 2}
"""How many tables of flows get the control, where it is not the first alone."""
OF_TCP = ("kernel", "pacing", "offload")
"""Parameters of searches that set the hosts' TCP."""
ON_LINUX = {**dict.fromkeys(("reno", "cubic", "bbr1", "dctcp"), "both"), "bbr3": "bbr3", "prague": "l4s"}
"""The experiments of controls that a kernel has: Debian's, one with the patch of BBRv3, and that of L4S."""
SEEDS = {
    "found": [101, 102, 103, 104, 105],
    "stacks": [101, 102, 103, 104, 105],
    "both": [101, 102],
    "bbr3": [101, 102],
    "l4s": [101, 102],
}
QUESTIONS = {
    "found": "How bad is it in the networks that the hunts found?",
    "stacks": "How bad is it in the networks that the hunts found for QUIC stacks?",
    "both": "Is Linux as bad in these networks?",
    "bbr3": "Is Linux with BBRv3 as bad in these networks?",
    "l4s": "Is the Linux of L4S as bad in these networks?",
}
BOTH = " | "  # between the names of networks that are one cell
LATE_NS = 100_000_000  # by which starts are drawn later, so that a find is no accident of its phases
_KEYS = ("duration", "record.from", "bottleneck", "flows", "udp", "hosts")


@dataclass(frozen=True)
class HuntRecord:
    """A hunt: how many candidates it measured, the values of these, and the network that it found, if it found one."""

    criterion: str
    control: str
    measured: int
    refused: int
    failed: int
    median: float
    worst: float
    value: float | None = None
    limit: float | None = None
    tried: int | None = None
    candidate: int | None = None
    table: dict[str, Any] | None = None


def list_hunts() -> list[tuple[str, str]]:
    """Return criteria and controls that are hunted."""
    every = [(criterion, control) for criterion in CRITERIA for control in NEEDED.get(criterion, CONTROLS)]
    return [*every, *((criterion, control) for control in STACKS for criterion in STACK_CRITERIA)]


def load_hunt(criterion: str, control: str) -> SearchPlan:
    """Return the search of a criterion for a control. Raises InputError if it is that of a stack that is not built."""
    file = HERE / "searches" / f"{criterion}.toml"
    subjects = [f"flows[{number}]" for number in range(SUBJECTS.get(criterion, 1))]
    if control not in STACKS:
        return load_search(file, [f"{one}.cc={control}" for one in subjects])
    stack, name = STACKS[control]
    table = read_toml(file)
    parameters = {key: one for key, one in table["parameters"].items() if key not in OF_TCP}
    if "ecn" in parameters and len(subjects) == len(table["experiment"]["flows"]):  # no TCP, which hosts.ecn is for
        parameters["ecn"] = parameters["ecn"] | {"key": [f"{one}.ecn" for one in subjects]}
    given = [f"{one}.{key}={value}" for one in subjects for key, value in (("stack", stack), ("cc", name))]
    return parse_search(table | {"parameters": parameters, "budget": STACK_BUDGET}, str(file), given)


def carry_out_hunt(criterion: str, control: str, folder: Path) -> HuntRecord:
    """Carry out a hunt, or return what it found before."""
    path = folder / f"{criterion}-{control}.json"
    if path.exists():
        return HuntRecord(**json.loads(path.read_text()))
    state = carry_out_search(load_hunt(criterion, control), path.with_suffix(".duckdb"), jobs=1)
    record = _record_hunt(criterion, control, state, shrink_worst(state))
    path.write_text(json.dumps(asdict(record)))
    return record


def _record_hunt(criterion: str, control: str, state: SearchState, finds: list[KeptFind]) -> HuntRecord:
    states = [one.state for one in state.candidates]
    worst = min(one.merge_seeds(state.plan.objectives, state.plan.seeds.first)[0] for one in state.measured)
    sign = state.plan.objectives[0].sign_value
    record = HuntRecord(
        criterion,
        control,
        measured=states.count(MEASURED),
        refused=states.count(REFUSED),
        failed=states.count(FAILED),
        median=sign(find_median(state, 0)),
        worst=sign(worst),
    )
    for find in finds:  # one at most: the searches keep one
        own: dict[str, Any] = {"value": find.value, "limit": find.limit, "tried": find.tried, "table": find.table}
        record = replace(record, candidate=find.candidate.number, **own)
    return record


def make_cell(table: dict[str, Any], *, control: str = "", subjects: int = 1) -> dict[str, Any]:
    """Return the keys of an experiment that make a network, with drawn starts, and with another control if asked."""
    flows = copy.deepcopy(table["flows"])
    for number, flow in enumerate(flows):
        start = units.parse("time", flow.get("start", 0))
        flow["start"] = {"uniform": [units.show("time", start), units.show("time", start + LATE_NS)]}
        if control and number < subjects:
            flow.pop("stack", None)
            flow["cc"] = control
    kept = {"duration": table["duration"], "record.from": table.get("record", {}).get("from", "0s"), "flows": flows}
    given = {key: table[key] for key in ("bottleneck", "reverse") if key in table}
    return kept | given | {"udp": table.get("udp", []), "hosts": table.get("hosts", {})}


def write_experiments(name: str, question: str, cells: dict[str, dict[str, Any]]) -> None:
    """Write the experiments of cells with and without a queue for acknowledgements, which no matrix can leave out."""
    for reverse in (False, True):
        alike: dict[str, list[str]] = {}
        for setting, cell in cells.items():
            if ("reverse" in cell) is reverse:
                alike.setdefault(format_toml(cell), []).append(setting)
        chosen = {BOTH.join(settings): cells[settings[0]] for settings in alike.values()}
        path = HERE / "experiments" / f"{name}{'-reverse' if reverse else ''}.toml"
        path.unlink(missing_ok=True)
        if not chosen:
            continue
        keys = (*_KEYS, "reverse") if reverse else _KEYS
        first = next(iter(chosen.values()))
        lines = [
            f"# {question}{' Acknowledgements pass a queue.' if reverse else ''} studies.hunting.networks wrote this.",
            f'title = "Networks that hunts found{", with a queue for acknowledgements" if reverse else ""}"',
            f"seeds = {SEEDS[name]}",
            'duration = "20s"',
            "record = { series = false }",
            *(f"{key} = {format_toml(first[key])}" for key in ("bottleneck", "flows", *(("reverse",) * reverse))),
            "",
            "[matrix]",
            f'"setting, {", ".join(keys)}" = [',
            *(f"    {format_toml([setting, *(cell[key] for key in keys)])}," for setting, cell in chosen.items()),
            "]",
        ]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        parse(read_toml(path), str(path))


def write_finds(records: list[HuntRecord]) -> None:
    """Write what the hunts found."""
    rows = [asdict(one) | {"table": one.table and format_toml(one.table)} for one in records]
    numbers = pl.col("median", "worst", "value", "limit").round_sig_figs(6)
    pl.DataFrame(rows).with_columns(numbers).write_csv(HERE / "searches" / "hunts.csv")
    cells: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in SEEDS}
    for one in records:
        if one.table is None:
            continue
        subjects = SUBJECTS.get(one.criterion, 1)
        setting = f"{one.criterion}, {one.control}"
        cells["stacks" if one.control in STACKS else "found"][setting] = make_cell(one.table)
        if one.control != "cubic":
            cells["found"][f"{setting}, CUBIC instead"] = make_cell(one.table, control="cubic", subjects=subjects)
        if one.control in ON_LINUX and one.criterion != "short" and "profile" not in one.table.get("hosts", {}):
            cells[ON_LINUX[one.control]][setting] = make_cell(one.table)
    for name, question in QUESTIONS.items():
        write_experiments(name, question, cells[name])


def main() -> None:
    """Hunt, and write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("hunts"), help="where results of hunts are kept")
    parser.add_argument("--only", nargs="+", default=[], metavar="HUNT", help="hunts such as use-cubic")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    records = []
    for criterion, control in list_hunts():
        if options.only and f"{criterion}-{control}" not in options.only:
            continue
        one = carry_out_hunt(criterion, control, options.folder)
        print(f"{criterion}-{control}: median {one.median:.4g}, worst {one.worst:.4g}, small {one.value}")
        network = "nothing found" if one.table is None else f"{one.tried} tried: {format_toml(one.table)}"
        print(f"  {one.measured} measured, {one.failed} failed, {network}", flush=True)
        records.append(one)
    if not options.only:
        write_finds(records)


if __name__ == "__main__":
    main()
