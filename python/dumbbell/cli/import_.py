"""`dumbbell import`: what other tools measured, as results, and the experiment that simulates the same."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell.errors import Ambiguous, Conflict, InputError, Unwritable, WrongValue, combine_errors, escape_line
from dumbbell.experiment import units
from dumbbell.words import format_count
from dumbbell.writing import make_folder, write_text

if TYPE_CHECKING:
    from dumbbell.exchange.keep import Imported
    from dumbbell.exchange.measurement import ImportedFlow

_MOST_SAID, _MOST_VALUES = 6, 24  # flows and values that are printed of each file; its experiment has all of them
_WIDEST = 44  # of a value in the list
Option = typer.Option


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files of Flent, iperf3 --json, ss -ti with times, pcap, pcapng or qlog."
        ),
    ],
    output: Annotated[
        str, Option("-o", "--output", metavar="RESULTS", help="Results file. Files already in it are skipped.")
    ] = "results.duckdb",
    propose: Annotated[
        str | None,
        Option("--propose", metavar="FILE.toml|DIR", help="Write an experiment that simulates the same set-up."),
    ] = None,
    simulate: Annotated[
        bool,
        Option("--run", help="Write that experiment to --propose or here, and run it into the results file."),
    ] = False,
    experiment: Annotated[
        str | None,
        Option(
            "--as", metavar="FILE.toml", help="Treat the files as measurements of this experiment, which has one cell."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Replace a key of the proposal, or of --as.")
    ] = None,
    name: Annotated[
        str | None,
        Option("--name", metavar="NAME", help="Name of the experiment. Files with one set-up become its seeds."),
    ] = None,
    interval: Annotated[
        str | None,
        Option("--interval", metavar="TIME", help="Sampling interval of time series, or of rounds of ss."),
    ] = None,
) -> None:
    """The results can be compared with simulations of the same set-up, which --run makes at once."""
    from dumbbell.exchange import keep

    if experiment is not None and (propose is not None or simulate or name is not None):
        given = "--propose" if propose is not None else "--run" if simulate else "--name"
        raise Conflict(f"--as and {given}", "one of them", command="import")
    _check_output(output)
    own_name = name is None and propose is None and not simulate
    names = _name_files([Path(file) for file in dict.fromkeys(files)], output, propose)
    found = _read_files(names, experiment, settings, name, _parse_interval(interval), own_name=own_name)
    drafts = _propose_files(found, propose, simulate=simulate)
    for path in drafts:
        if path.exists() and not _is_ours(path):
            other = f"another --propose, or --as {path}, which imports {files[0]} as that experiment"
            raise Unwritable(
                "this file already exists, and was changed or written by another program", other, file=path
            )
    added = keep.keep(output, found)
    for path, text in drafts.items():
        write_text(path, text, "a place that can be written to")
    for one in found:
        _print_import(one)
    kept = f", {len(found) - len(added)} kept from before" if len(added) < len(found) else ""
    print(f"{format_count(len(added), 'file')} imported{kept}: {output}", file=sys.stderr)
    print("\n".join(map(str, drafts)), end="\n" * bool(drafts))
    if simulate:
        from dumbbell.cli.run import carry_out
        from dumbbell.experiment.file import load

        carry_out([load(str(path)) for path in drafts], output)
        _print_fits(found, output)
        print(f"what differs: dumbbell diff {output} --by engine_version", file=sys.stderr)


def _print_fits(found: list[Imported], output: str) -> None:
    """Print what was measured next to what was simulated, for each file."""
    from dumbbell.exchange import fit
    from dumbbell.results.results import StoredResults

    results = StoredResults(Path(output), engine="all")
    for one in found:
        if text := fit.compare_with_proposal(one, results):
            print(f"\n{text}\n", file=sys.stderr)


def _parse_interval(interval: str | None) -> float | None:
    if interval is None:
        return None
    try:
        length = units.parse("time", interval) / 1e9
    except InputError as error:
        raise error.move("--interval", "") from None
    if not 0.001 <= length <= 3600:
        raise WrongValue(f'"{interval}"', "a time from 1ms to 1h", key="--interval")
    return length


def _check_output(output: str) -> None:
    """Raise InputError for results that could not be kept, before files are read."""
    from dumbbell.results.store import Store

    path = Path(output)
    if path.exists():
        with Store.open(path, write=True):
            pass
    elif not path.absolute().parent.is_dir():
        raise Unwritable(f"there is no folder {path.parent}", "a file in a folder that exists", file=output)


def _name_files(paths: list[Path], output: str, propose: str | None) -> dict[Path, str]:
    """Return what each file is called: without its ending, unless another file is called so.

    Others are those of this command, those that the results have, and those of the proposals that are there.
    """
    from dumbbell.exchange import keep, setup

    plain = [make_stem(path) for path in paths]
    there = keep.list_imported_files(output)
    folder = Path(propose or ".")
    found = {}
    for path, own in zip(paths, plain, strict=True):
        others = there.get(own, set()) - {path.name}
        draft = folder / f"{own}.toml"
        if folder.suffix != ".toml" and draft.exists() and _is_ours(draft):
            others |= {setup.find_source_name(draft.read_text(encoding="utf-8"))} - {path.name, ""}
        found[path] = own if plain.count(own) == 1 and not others else escape_line(path.name)
    return found


def _read_files(
    files: dict[Path, str],
    experiment: str | None,
    settings: list[str] | None,
    name: str | None,
    interval_s: float | None,
    *,
    own_name: bool,
) -> list[Imported]:
    from dumbbell.exchange import formats, keep
    from dumbbell.experiment.file import load
    from dumbbell.experiment.settings import split_settings

    chosen = None
    if experiment is not None:
        whole = load(experiment, settings)
        if whole.matrix.size > 1:
            axes = [axis for axis in whole.matrix.axes if len(axis.values) > 1]
            settings_said = " ".join(f"--set {shlex.quote(axis.format_setting(0))}" for axis in axes)
            cells = f"it describes {whole.matrix.size} cells, and a file measures one"
            allowed = (
                f"one with {settings_said}, with the values of the file; import the files of each cell by themselves"
            )
            raise Ambiguous(cells, allowed, file=experiment, key="matrix")
        chosen = whole.make_cell(0)
    found, wrong = [], []
    for path, own in files.items():
        try:
            read = formats.read(path, interval_s)
            if chosen is None:
                found.append(
                    keep.propose_experiment(
                        path, read, name or own, own_name=own_name, settings=split_settings(settings)
                    )
                )
            else:
                found.append(keep.match_experiment(path, read, chosen))
        except InputError as error:
            wrong.append(error if error.file.startswith(str(path)) else error.move_into(str(path)))
    if wrong:
        raise combine_errors(wrong)
    return found


def make_stem(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    from dumbbell.exchange.formats import strip_endings

    return escape_line(strip_endings(path.name))


def _propose_files(found: list[Imported], propose: str | None, *, simulate: bool) -> dict[Path, str]:
    """Return the experiment files to write: one for each set-up."""
    if propose is None and not simulate:
        return {}
    where = Path(propose or ".")
    drafts: dict[Path, str] = {}
    single = where.suffix == ".toml"
    names = list(dict.fromkeys(one.name for one in found))
    if single and len(names) > 1:
        raise Conflict(f"--propose {propose} and {len(names)} set-ups", "a folder, or --name", command="import")
    folder = where.parent if single else where
    make_folder(folder, "a folder, which is made, or a file ending in .toml")
    for one in found:
        path = where if single else where / f"{one.name}.toml"
        drafts.setdefault(path, one.text)
    return drafts


def _is_ours(path: Path) -> bool:
    """Whether a file is a proposal that nobody changed."""
    from dumbbell.exchange import setup

    try:
        return setup.is_untouched(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _describe_flow(flow: ImportedFlow) -> str:
    words = [flow.name]
    if "goodput_mbit" in flow.figures:
        words.append(f"{flow.goodput_mbit:.3g} Mbit/s")
    if flow.base_rtt is not None:
        words.append(f"RTT of {flow.base_rtt.text} and more")
    return ", ".join(words)


def _print_import(one: Imported) -> None:
    flows = len(one.measured.flows)
    about = f"{one.measured.source.get('format')}, {format_count(flows, 'flow')}, {one.measured.duration_s:.3g} s"
    if taken := one.measured.source.get("taken"):
        about += f", taken {taken}"
    lines = [f"{one.path}: {about}"]
    lines += [f"  flow {number}: {_describe_flow(flow)}" for number, flow in enumerate(one.measured.flows[:_MOST_SAID])]
    if (more := flows - _MOST_SAID) > 0:
        lines.append(f"  and {format_count(more, 'flow')} more")
    lines += _list_provenance(one)
    if one.assumed:
        lines.append("  what you know better: --set KEY=VALUE")
    lines += [f"  {note}" for note in one.measured.notes]
    print("\n".join(map(escape_line, lines)), file=sys.stderr)


def _list_provenance(one: Imported) -> list[str]:
    """Return the proposed values, one line each, with where each is from: the file, derived, or ASSUMED."""
    said = one.facts[:_MOST_VALUES]
    texts = [f"{key} = {fact.text}" for key, fact in said]
    width = min(max(map(len, texts), default=0), _WIDEST)
    lines = [f"  {text:<{width}}  {fact.explanation}" for text, (_, fact) in zip(texts, said, strict=True)]
    if (more := len(one.facts) - len(said)) > 0:
        lines.append(f"  and {format_count(more, 'value')} more, as the file of --propose says")
    return lines
