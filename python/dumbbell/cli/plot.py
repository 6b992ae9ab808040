"""`dumbbell plot`."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, InputError, WrongValue, quote_value
from dumbbell.experiment import units
from dumbbell.plotting.kinds import KINDS


def plot(
    results: options.File,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="Results to draw the differences to.")] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", help="Picture: .png, .pdf or .svg; .html is interactive.")
    ] = "plot.png",
    kind: Annotated[
        str | None,
        typer.Option(help=f"How to draw: {', '.join(KINDS)}."),
    ] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to draw: goodput, rtt, sojourn, ...")] = None,
    against: Annotated[str | None, typer.Option(metavar="KEY", help="Key along the horizontal axis.")] = None,
    by: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key that distinguishes lines or bars.")] = None,
    facet: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key that distinguishes panels.")] = None,
    reference: Annotated[str | None, typer.Option(help="Draw against this CSV of published results.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE", help="Draw the difference from the runs with this value.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="Part of time series to draw, such as 20s..21s.")
    ] = None,
    slider: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Key that a slider or a list chooses from, in .html.")
    ] = None,
    where: options.Where = None,
    mean_over: options.MeanOver = None,
    of: options.Of = None,
    engine: options.Engine = None,
    width: Annotated[
        str | None, typer.Option(metavar="WIDTH", help="3.5in, 9cm, 90mm; single or double, columns of a paper.")
    ] = None,
    height: Annotated[str | None, typer.Option(metavar="HEIGHT", help="Such as 2.5in; by default what suits.")] = None,
    font_size: Annotated[float | None, typer.Option(min=4, max=40, help="Of the text, in points.")] = None,
    log_x: Annotated[bool | None, typer.Option("--log-x/--linear-x", help="Scale of the horizontal axis.")] = None,
    log_y: Annotated[bool | None, typer.Option("--log-y/--linear-y", help="Scale of the vertical axis.")] = None,
    title: Annotated[str | None, typer.Option(help="Instead of the title of the experiment.")] = None,
    no_title: Annotated[bool, typer.Option("--no-title", help="No title: papers have it in the caption.")] = False,
) -> None:
    """Of what suits, a line says why, and which option draws another figure. A page, .html, needs no network.

    Experiments that vary different keys have a figure each, NAME-EXPERIMENT.png, unless keys say what to draw.
    """
    from dumbbell import figures, plotting

    if no_title and title is not None:
        raise Conflict("--title and --no-title", "one of them", command="plot")

    options.require_part(of)
    found = options.open_results(results, where, engine)
    draw = partial(
        plotting.plot,
        kind=kind,
        other=None if other is None else options.open_results(other, where, engine),
        value=value or [],
        against=against,
        by=by or [],
        facet=facet or [],
        reference=None if reference is None else options.find_reference(reference),
        baseline=baseline,
        time=None if time is None else units.parse_span(time, "--time"),
        slider=slider or [],
        mean_over=mean_over or [],
        of=of,
        log_x=log_x,
        log_y=log_y,
        title="" if no_title else title,
        width=_parse_inches("--width", width),
        height=_parse_inches("--height", height),
        font_size=font_size,
    )
    mixed = {} if other or against or by or facet or slider or mean_over or reference else found.unlike_experiments
    path, drawn, hints, errors = Path(output), [], [], []
    for name, own in {name: found.where(experiment=name) for name in mixed}.items() or [("", found)]:
        try:
            with figures.skip_arrangement():
                picture = draw(own)
            drawn.append(figures.write(picture, path.with_stem(f"{path.stem}-{name}") if name else path))
            hints += [text for text in (picture.why, picture.hint) if text and text not in hints]
        except InputError as error:
            errors.append(error.move_into(f"--where experiment={name}") if name else error)
    if drawn:
        print("\n".join([*map(str, drawn), *found.notes, *hints, *map(str, errors[1:])]), file=sys.stderr)
    if errors:
        raise errors[0]


_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(in|cm|mm)\s*")


def _parse_inches(option: str, text: str | None) -> float | None:
    """Return a length in inches."""
    from dumbbell.figures import style

    columns = {"single": style.SINGLE, "double": style.DOUBLE}
    if text is None or (option == "--width" and text in columns):
        return None if text is None else columns[text]
    match = _SIZE.fullmatch(text)
    inches = float(match[1]) * _INCHES[match[2]] if match else 0.0
    if not 1 <= inches <= 40:
        raise WrongValue(
            quote_value(text),
            "1in to 40in, such as 3.5in or 9cm" + ", or single, double" * (option == "--width"),
            key=option,
        )
    return inches
