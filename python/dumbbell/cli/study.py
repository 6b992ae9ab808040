"""`dumbbell study`: pages of findings and their figures."""

import difflib
import sys
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.errors import Conflict, UnknownName
from dumbbell.pages.values import PageError

study = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Pages of findings: make them from results.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study of dumbbell study list, or its folder.")]


@study.command("list")
def list_() -> None:
    """List the studies that come with dumbbell, with their figures."""
    from dumbbell.pages import study as studies

    for name in studies.names():
        found = studies.find(name)
        print(f"{name}: {found.program.PAGE}; figures: {', '.join(found.figures) or 'none'}")


@study.command()
def page(
    name: Name,
    results: Annotated[
        list[str] | None, typer.Argument(metavar="[RESULTS]...", help="Results to make its evidence from, anew.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; leave with 1 if the page is not what its evidence gives.")
    ] = False,
    figures: Annotated[bool, typer.Option(help="Draw the figures, too.")] = True,
) -> None:
    """Write a page from its evidence, or from results.

    A statement that the results contradict is named, and no page is written.
    """
    from dumbbell.pages import study as studies

    found = studies.find(name)
    if check and results:
        raise Conflict("study page", "", "--check and RESULTS", "one of them")
    if results:
        found.gather(results)
    try:
        texts, by_hand = found.texts(), found.problems()
    except PageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    for problem in by_hand:
        print(f"{found.folder / studies.TEMPLATE}:{problem}: typed by hand", file=sys.stderr)
    if check:
        changed = [path for path, text in texts.items() if _difference(path, text)]
        if changed or by_hand:
            raise typer.Exit(1)
        return
    if by_hand:
        raise typer.Exit(1)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    print("\n".join(map(str, [*texts, *(found.draw() if figures else [])])), file=sys.stderr)


def _difference(path: Path, text: str) -> bool:
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
) -> None:
    """Draw a study's figures from its evidence: no run is needed."""
    from dumbbell.pages import study as studies

    endings = [f".{one.strip().removeprefix('.')}" for one in formats.split(",")]
    for ending in endings:
        if ending not in studies.FORMATS:
            raise UnknownName(
                "study figure", "--format", ending[1:], [one[1:] for one in studies.FORMATS], what="format"
            )
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        drawn = studies.find(name).draw(which, folder, endings)
    except PageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    print("\n".join(map(str, drawn)))
