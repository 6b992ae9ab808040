"""`dumbbell plot`."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import qlog_plot
from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, InputError, TooMany, WrongValue, quote_value
from dumbbell.experiment import units
from dumbbell.plotting.kinds import KINDS


def plot(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Results file, or two to draw their differences; or qlog files, ours or others'."
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Picture: .png, .pdf, .svg, or interactive .html.")
    ] = "plot.png",
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help=f"Kind of figure: {', '.join(KINDS)}."),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE", help="Measure, such as goodput, rtt or sojourn. May be repeated."),
    ] = None,
    against: Annotated[str | None, typer.Option(metavar="KEY", help="Key along the horizontal axis.")] = None,
    by: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key whose values are lines or bars.")] = None,
    facet: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key whose values are panels.")] = None,
    reference: Annotated[
        str | None,
        typer.Option(metavar="CSV", help="Draw errors against published results: a file, or a name such as sce."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE", help="Draw differences from the runs with this value.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="FROM..TO", help="Part of the time, such as 20s..21s.")] = None,
    slider: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Key that a slider or a list selects in .html.")
    ] = None,
    where: options.Where = None,
    mean_over: options.MeanOver = None,
    of: options.Of = None,
    engine: options.Engine = None,
    width: Annotated[
        str | None,
        typer.Option(metavar="WIDTH", help="Such as 3.5in, 9cm or 90mm; or single or double, for columns of a paper."),
    ] = None,
    height: Annotated[str | None, typer.Option(metavar="HEIGHT", help="Such as 2.5in. By default, what suits.")] = None,
    font_size: Annotated[float | None, typer.Option(min=4, max=40, metavar="POINTS", help="Size of the text.")] = None,
    log_x: Annotated[bool | None, typer.Option("--log-x/--linear-x", help="Scale of the horizontal axis.")] = None,
    log_y: Annotated[bool | None, typer.Option("--log-y/--linear-y", help="Scale of the vertical axis.")] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title, instead of that of the experiment.")] = None,
    no_title: Annotated[bool, typer.Option("--no-title", help="Draw no title, as papers do.")] = False,
) -> None:
    """The command picks a suitable figure, and prints why and how to get another. Experiments that vary different keys
    get a figure each, NAME-EXPERIMENT.png, unless options name keys. A .html page needs no network.

    qlog files are drawn over time: window, bytes in flight, RTT and losses. --time, --title and -o apply to them.
    """
    from dumbbell import figures, plotting

    if no_title and title is not None:
        raise Conflict("--title and --no-title", "one of them", command="plot")

    if qlog_plot.is_qlog(files[0]):
        of_results: dict[str, object] = {
            "--kind": kind, "--value": value, "--against": against, "--by": by, "--facet": facet,
            "--reference": reference, "--baseline": baseline, "--slider": slider, "--where": where,
            "--mean-over": mean_over, "--of": of, "--engine": engine, "--width": width, "--height": height,
            "--font-size": font_size, "--log-x": log_x, "--log-y": log_y, "--no-title": no_title,
        }  # fmt: skip
        for name, given in of_results.items():
            if given is not None and given is not False:
                raise Conflict(f"{name} and a qlog file", f"{name} with a results file", command="plot")
        qlog_plot.draw(files, output, time, title)
        return
    if len(files) > 2:
        raise TooMany(
            f"{len(files)} results files", "at most two", "two for their differences", command="plot", key="FILE"
        )
    results, other = files[0], next(iter(files[1:]), None)
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
