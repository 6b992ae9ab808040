"""`dumbbell study`: the experiments behind a page of findings, its page, tables and figures, and the paper it tests."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dumbbell.cli import results_files as options
from dumbbell.cli.commands import CommandGroup
from dumbbell.cli.status import DIFFERENT, FAILED
from dumbbell.errors import Conflict, UnknownName, Unwritable, WrongValue
from dumbbell.experiment import shipped
from dumbbell.writing import make_folder, refuse_file_name

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from dumbbell.pages.study import Study

study = typer.Typer(cls=CommandGroup, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study of dumbbell study list, or your own: ./FOLDER.")]
Jobs = Annotated[int | None, typer.Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")]
Reference = Annotated[
    str | None, typer.Option(metavar="CSV", help="Published numbers to show, for dualpi2-versions and sce.")
]
_ALLOWED = ", ".join(shipped.list_papers())


@study.command("list")
def list_() -> None:
    from dumbbell.pages import study as studies

    for name in studies.list_studies():
        found = studies.find(name)
        print(f"{name}: {found.question}\n    {found.page}\n    figures: {', '.join(found.figures) or 'none'}")


@study.command()
def run(
    name: Name,
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results files.")] = ".",
    quick: Annotated[
        bool, typer.Option("--quick", help="Run one seed, and what else the study shortens, for a first look.")
    ] = False,
    jobs: Jobs = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print how many runs there are and how long they take.")
    ] = False,
) -> None:
    """Runs already in the results files are skipped, and experiments with a QUIC stack that is not built.

    Exit status: 0 everything ran, 1 a run failed or was skipped for a stack, 2 bad input.
    """
    from dumbbell import engines
    from dumbbell.cli import run as running
    from dumbbell.experiment.plugins.built import make_build_command
    from dumbbell.pages import study as studies

    found = studies.find(name)
    folder = Path(output)
    if not dry_run:
        make_folder(folder, "a folder to write to", command="study run", option="--output")
    is_complete = True
    for one in found.sweeps:
        if missing := one.list_missing_stacks(found.folder):
            is_complete = False
            how = "; ".join(map(make_build_command, missing))
            print(f"{one.results}: left out, because {', '.join(missing)} is not built: {how}", file=sys.stderr)
            continue
        experiments, engine = one.load_experiments(found.folder, quick=quick), engines.find_engine(one.engine)
        running.carry_out(experiments, str(folder / one.results), jobs=jobs, engine=engine, dry_run=dry_run)
    if not is_complete:
        raise typer.Exit(FAILED)


@study.command()
def new(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder that does not exist yet.")],
) -> None:
    """The folder has an experiment, statements, a program and the template of a page."""
    from dumbbell.pages import new as making

    print("\n".join(map(str, making.make(Path(folder)))))


@study.command()
def page(
    name: Name,
    results: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RESULTS]...", help="Results files, or their folder, to make new evidence from."),
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures as well.")] = True,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for page and figures. By default, the study's."),
    ] = None,
) -> None:
    """If the results contradict a statement, the command names it and writes no page."""
    from dumbbell.pages import study as studies

    found = studies.find(name, None if output is None else Path(output))
    if shipped.is_installed() and found.place.resolve().is_relative_to(shipped.place()):
        raise Unwritable(
            "this folder belongs to the installed package", "another folder: --output DIR", file=found.place
        )
    if output is not None:
        refuse_file_name(output, "the name of a folder", command="study page")
    make_folder(found.place)
    if results:
        found.gather(results)
    texts, has_problems = _render(found)
    if has_problems:
        raise typer.Exit(FAILED)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    print("\n".join(map(str, [*texts, *(found.draw() if figures else [])])), file=sys.stderr)


@study.command()
def check(name: Name) -> None:
    """Nothing is written. Sampled runs are repeated, to see whether this engine still gives the evidence.

    Exit status: 0 the page is up to date, 1 it differs or results do, 2 bad input.
    """
    from dumbbell.pages import study as studies

    found = studies.find(name)
    texts, has_problems = _render(found)
    changed = [path for path, text in texts.items() if _print_difference(path, text)]
    outdated = found.list_changes()
    for line in outdated:
        print(f"{found.name}: {line}; dumbbell study run {name} and study page {name} renew it", file=sys.stderr)
    if changed or has_problems or outdated:
        raise typer.Exit(DIFFERENT)


def _render(found: Study) -> tuple[dict[Path, str], bool]:
    """Return the texts of a study's files, and whether its template has numbers by hand, which are printed."""
    from dumbbell.pages import study as studies
    from dumbbell.pages.values import PageError

    try:
        texts, problems = found.render_files(), found.list_problems()
    except PageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(FAILED) from None
    for problem in problems:
        print(f"{found.folder / studies.TEMPLATE}:{problem}", file=sys.stderr)
    return texts, bool(problems)


def _print_difference(path: Path, text: str) -> bool:
    """Print how a file differs from what it is to be, and return whether it does."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    changes = difflib.unified_diff(before.splitlines(), text.splitlines(), str(path), "from its evidence", n=0)
    for line in changes:
        print(line.rstrip("\n"))
    return before != text


@study.command()
def tables(
    name: Name,
    results: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RESULTS]...", help="Results files, several only for sce; or the folder of study run."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="For sce: print these tables, such as 12,22-36.")
    ] = None,
    reference: Reference = None,
    where: options.Where = None,
    engine: options.Engine = None,
    form: Annotated[
        Literal["markdown", "csv"], typer.Option("--format", help="csv, for sce: one row per published number.")
    ] = "markdown",
) -> None:
    """Without RESULTS, the tables come from the study's evidence. abe, coexistence, dualpi2-versions and sce are
    papers: with results files, they print all tables of the paper.
    """
    from dumbbell.pages import study as studies

    if not _is_for_paper(name, results or []):
        given = {"--only": only, "--reference": reference, "--where": where, "--engine": engine}
        _refuse_without_paper(name, given | {"--format csv": form == "csv"})
        found = studies.find(name)
        print(found.format_tables(found.make_evidence(results) if results else found.read_evidence()))
        return
    module, of_paper = _open_paper(name, results or [], "study tables", where, engine, reference, only)
    if form == "csv" and not hasattr(module, "list_rows"):
        raise Conflict(f"--format csv and {name}", "--format csv with sce", command="study tables")
    if form == "csv":
        options.print_csv(module.list_rows(of_paper))
    else:
        print(module.format_tables(of_paper))


@study.command()
def figure(
    name: Name,
    which: Annotated[str | None, typer.Argument(metavar="[FIGURE]", help="One figure. By default, all.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Folder for the figures.")] = ".",
    form: Annotated[
        str, typer.Option("--format", metavar="svg|pdf|png", help="Format of the figures, or several with commas.")
    ] = "svg",
    results: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="RESULTS", help="Results files, several only for sce; or the folder of them."),
    ] = None,
    reference: Reference = None,
    where: options.Where = None,
    engine: options.Engine = None,
) -> None:
    """Without --from, the figures come from the study's evidence. abe, coexistence, dualpi2-versions and sce are
    papers: with results files, they draw all figures of the paper.
    """
    from dumbbell.pages import study as studies
    from dumbbell.pages.values import PageError

    endings = [f".{one.strip().removeprefix('.')}" for one in form.split(",")]
    for ending in endings:
        if ending not in studies.FORMATS:
            known = [one[1:] for one in studies.FORMATS]
            raise UnknownName(ending[1:], among=known, command="study figure", option="--format", what="format")
    folder = Path(output)
    refuse_file_name(folder, "the name of a folder", command="study figure")
    if _is_for_paper(name, results or []):
        module, of_paper = _open_paper(name, results or [], "study figure", where, engine, reference)
        print("\n".join(map(str, module.draw(of_paper, folder, which, endings))))
        return
    _refuse_without_paper(name, {"--reference": reference, "--where": where, "--engine": engine})
    found = studies.find(name)
    make_folder(folder)
    try:
        drawn = found.draw(which, folder, endings, found.make_evidence(results) if results else None)
    except PageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(FAILED) from None
    print("\n".join(map(str, drawn)))


def _is_for_paper(name: str, results: list[str]) -> bool:
    """Whether results files are those of a paper; a folder has the results of its study."""
    return name in shipped.list_papers() and bool(results) and not any(Path(one).is_dir() for one in results)


def _refuse_without_paper(name: str, given: dict[str, object]) -> None:
    """Raise Conflict if an option is given that only papers have."""
    for option in filter(given.get, given):
        raise Conflict(f"{option} and the evidence of {name}", f"{option} with results files of {_ALLOWED}")


def _open_paper(
    name: str,
    results: list[str],
    command: str,
    where: list[str] | None,
    engine: str | None,
    reference: str | None,
    only: str | None = None,
) -> tuple[ModuleType, Any]:
    """Return the program of a paper, and its runs among results. Raises InputError."""
    from dumbbell import programs

    module = programs.load(shipped.list_papers()[name])
    is_by_number = hasattr(module, "select_tables")
    if reference is not None and not getattr(module, "TAKES_REFERENCE", False):
        raise Conflict(f"--reference and {name}", "--reference with dualpi2-versions or sce", command=command)
    if only is not None and not is_by_number:
        raise Conflict(f"--only and {name}", "--only with sce", command=command)
    if len(results) > 1 and not is_by_number:
        raise WrongValue(f"{len(results)} files", f"one of {name}", command=command, key="RESULTS")
    chosen = [
        options.open_whole_runs(file, where, engine, "a paper's tables are made of whole runs") for file in results
    ]
    if is_by_number:
        return module, module.Results(chosen, reference, only)
    return module, module.Results(chosen[0]) if reference is None else module.Results(chosen[0], reference)
