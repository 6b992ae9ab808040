"""`dumbbell study`: what is run for a page of findings, the page, and its figures."""

import difflib
import sys
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli.commands import CommandGroup
from dumbbell.errors import Conflict, UnknownName, Unwritable

study = typer.Typer(cls=CommandGroup, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study of dumbbell study list, or your own: ./FOLDER.")]


@study.command("list")
def list_() -> None:
    """List the studies that come with dumbbell, with their questions and figures."""
    from dumbbell.pages import study as studies

    for name in studies.list_studies():
        found = studies.find(name)
        print(f"{name}: {found.question}\n    {found.page}\n    figures: {', '.join(found.figures) or 'none'}")


@study.command()
def run(
    name: Name,
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results files.")] = ".",
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed and what else the study shortens: a look, not evidence.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time; all cores by default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many runs there are, and how long.")] = False,
) -> None:
    """Run a study's experiments; what its results files have already is not run again."""
    from dumbbell import engines
    from dumbbell.cli import run as running
    from dumbbell.pages import study as studies

    found = studies.find(name)
    folder = Path(output)
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    for one in found.sweeps:
        experiments, engine = one.load_experiments(found.folder, quick=quick), engines.find_engine(one.engine)
        running.carry_out(experiments, str(folder / one.results), jobs=jobs, engine=engine, dry_run=dry_run)


@study.command()
def new(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder that is not there yet.")],
) -> None:
    """Make a study of your own: an experiment, claims, a program and the template of a page, ready to be changed."""
    from dumbbell.pages import new as making

    print("\n".join(map(str, making.make(Path(folder)))))


@study.command()
def page(
    name: Name,
    results: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RESULTS]...", help="Results, or their folder: makes the evidence from them again."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; exit with 1 if the page is not what its evidence gives, or if sampled runs of the"
            " evidence have other results with this engine.",
        ),
    ] = False,
    figures: Annotated[bool, typer.Option(help="Draw the figures, too.")] = True,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for all of it; the study's own by default."),
    ] = None,
) -> None:
    """Write a page from its evidence, or from results.

    A statement that the results contradict is named, and no page is written.
    """
    from dumbbell.experiment import shipped
    from dumbbell.pages import study as studies
    from dumbbell.pages.values import PageError

    found = studies.find(name, None if output is None else Path(output))
    if check and (results or output):
        raise Conflict(f"--check and {'RESULTS' if results else '--output'}", "one of them", command="study page")
    if shipped.is_installed() and not check and found.place.resolve().is_relative_to(shipped.place()):
        raise Unwritable("this is the installed package", "another folder: --output DIR", file=found.place)
    found.place.mkdir(parents=True, exist_ok=True)
    if results:
        found.gather(results)
    try:
        texts, by_hand = found.render_files(), found.list_problems()
    except PageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    for problem in by_hand:
        print(f"{found.folder / studies.TEMPLATE}:{problem}", file=sys.stderr)
    if check:
        changed = [path for path, text in texts.items() if _print_difference(path, text)]
        outdated = found.list_changes()
        for line in outdated:
            print(f"{found.name}: {line}; dumbbell study run {name} and study page {name} renew it", file=sys.stderr)
        if changed or by_hand or outdated:
            raise typer.Exit(1)
        return
    if by_hand:
        raise typer.Exit(1)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    print("\n".join(map(str, [*texts, *(found.draw() if figures else [])])), file=sys.stderr)


def _print_difference(path: Path, text: str) -> bool:
    """Print how a file differs from what it is to be, and return whether it does."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    changes = difflib.unified_diff(before.splitlines(), text.splitlines(), str(path), "from its evidence", n=0)
    for line in changes:
        print(line.rstrip("\n"))
    return before != text


@study.command()
def figure(
    name: Name,
    which: Annotated[str | None, typer.Argument(metavar="[FIGURE]", help="One figure; all without it.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Folder for the figures.")] = ".",
    formats: Annotated[
        str, typer.Option("--format", metavar="FORMATS", help="png, pdf, svg, or several with commas.")
    ] = "png",
    results: Annotated[
        str | None, typer.Option("--from", metavar="DIR", help="Folder of results of study run, instead of evidence.")
    ] = None,
) -> None:
    """Draw a study's figures, from its evidence (no run is needed) or from results."""
    from dumbbell.pages import study as studies
    from dumbbell.pages.values import PageError

    endings = [f".{one.strip().removeprefix('.')}" for one in formats.split(",")]
    for ending in endings:
        if ending not in studies.FORMATS:
            raise UnknownName(
                ending[1:],
                among=[one[1:] for one in studies.FORMATS],
                command="study figure",
                option="--format",
                what="format",
            )
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = studies.find(name)
        drawn = found.draw(which, folder, endings, None if results is None else found.make_evidence([results]))
    except PageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    print("\n".join(map(str, drawn)))
