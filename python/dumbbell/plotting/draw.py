"""From results to a figure: what suits their shape, or what is asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from dumbbell import figures
from dumbbell.errors import Conflict, InputError, TooMany, Unfit, spell_option
from dumbbell.figures import Picture
from dumbbell.keywords import list_keywords
from dumbbell.plotting.choice import list_choices
from dumbbell.plotting.differences import draw_differences_of_two
from dumbbell.plotting.headline import describe_picture
from dumbbell.plotting.kinds import Kind, find_kind, list_kinds
from dumbbell.plotting.reference import draw_with_reference
from dumbbell.plotting.request import PlotOptions, PlotRequest
from dumbbell.results import aggregate
from dumbbell.results.results import StoredResults
from dumbbell.words import join_words


@list_keywords(PlotOptions)
def plot(
    results: StoredResults,
    kind: str | None = None,
    *,
    other: StoredResults | str | Path | None = None,
    **options: Unpack[PlotOptions],
) -> Picture:
    """Return a figure of results: what suits their shape, or what is asked for. `Results.plot` describes the options.

    `kind` is one of `KINDS`. A page of the figure (`figures.write` to a file .html) and a notebook show one value at a
    time of the keys in `slider`. Raises InputError if there is no such key or measure, or too much for one figure.
    """
    with figures.set_sizes(options.get("width"), options.get("height"), options.get("font_size")):
        request = PlotRequest.from_options(options)
        picture = _draw_kind(results, kind, request, options.get("reference"), other)
        _check_axes(picture, request.log_x, options.get("log_y"))
        picture.sliders = request.slider
        subject, note = options.get("title"), picture.around.title or ""
        if subject == "":
            return picture.set_title(None)
        if subject is None:
            named, chosen, shown = _name_subject(results), _describe_selection(results, note), describe_picture(picture)
            subject = named or shown
            note = "; ".join(filter(None, [chosen, shown if named else "", note]))
        return picture.set_title(f"{subject}\n{note}" if note else subject or None)


def _name_subject(results: StoredResults) -> str:
    """Return what the figure is of: the title of its experiment, if it has one."""
    titles = results.runs["title"].drop_nulls().unique().to_list()
    return titles[0] if len(titles) == 1 else ""


def _describe_selection(results: StoredResults, note: str) -> str:
    """Return which of the runs were chosen; of a seed only if the note does not say it."""
    return ", ".join(str(one) for one in results.conditions if one.key != "seed" or "seed" not in note)


def _check_axes(picture: Picture, log_x: bool | None, log_y: bool | None) -> None:
    """Refuse what was asked of axes if they do not have it."""
    for wanted, option, name in ((log_x, "x", "xaxis"), (log_y, "y", "yaxis")):
        logs = {getattr(axes, name).get_scale() == "log" for axes in picture.panels.values()}
        if wanted is not None and logs != {wanted}:
            found = "the axis has no numbers to scale" if wanted else "the axis is logarithmic for this kind"
            raise Unfit(
                found,
                f"an axis of numbers, or another {spell_option('kind')}",
                option=f"--{'log' if wanted else 'linear'}-{option}",
            )


def _draw_kind(
    results: StoredResults,
    kind: str | None,
    request: PlotRequest,
    reference: str | Path | None,
    other: StoredResults | str | Path | None = None,
) -> Picture:
    """Draw a figure without its subject."""
    one = None if kind is None else find_kind(kind)
    if reference is not None:
        return draw_with_reference(results, reference, kind, request)
    if other is not None:
        return _draw_two(results, other if isinstance(other, StoredResults) else StoredResults(other), kind, request)
    if one is None:
        return _draw_suitable(results, request)
    _check_keys(results, request, one)
    _check_options(request, one)
    picture = one.draw(results, request)
    if not one.says_rest:
        line = aggregate.name_further_keys(results, request.keys, request.mean_over)
        line = line[:1].lower() + line[1:]
        picture.around.title = "; ".join(filter(None, [picture.around.title, line])) or None
    return picture


def _check_options(request: PlotRequest, kind: Kind) -> None:
    """Refuse options that this kind of figure does not take, and name the kinds that do."""
    if kind.values == "one" and len(request.value) > 1:
        several = _list_kinds(lambda one: one.values == "several", "and")
        raise TooMany(
            f"{len(request.value)} measures",
            "one",
            f"kind {kind.name} shows one, {several} show several",
            option="--value",
        )
    if request.time is not None and not kind.time:
        takers = _list_kinds(lambda one: one.time, "or")
        raise Unfit(f"kind {kind.name} does not take a time", f"kind {takers}", option="--time")
    if request.baseline is not None and not kind.baseline:
        takers = _list_kinds(lambda one: one.baseline, "or")
        raise Unfit(f"kind {kind.name} does not take a baseline", f"kind {takers}", option="--baseline")
    shows = kind.shows(request)
    if request.of is not None and shows:
        raise Conflict(
            f"{request.of} and kind {kind.name}", f"{spell_option('value')}, which names what is drawn", option="--of"
        )
    if request.mean_over and shows:
        found = f"{', '.join(request.mean_over)} and kind {kind.name}, which shows {shows},"
        raise Conflict(found, f"{spell_option('where')} for some of the runs", option="--mean-over")


def _list_kinds(takes: Callable[[Kind], bool], word: str) -> str:
    return join_words((one.name for one in list_kinds() if takes(one)), word)


def _draw_two(results: StoredResults, other: StoredResults, kind: str | None, request: PlotRequest) -> Picture:
    """Draw the differences between two results files."""
    if kind not in (None, "differences"):
        raise Conflict(f"{kind} and two results", "kind differences, or one of the two", option="--kind")
    given = {
        "--baseline": request.baseline,
        "--of": request.of,
        "--mean-over": request.mean_over,
        "--time": request.time,
    }
    for option, value in {**given, **{option: name for name, option in request.options.items()}}.items():
        if value:
            found = f"{spell_option(option)} and two results, whose cells are the panels,"
            raise Conflict(found, f"{spell_option('value')} and {spell_option('where')}")
    picture = draw_differences_of_two(results, other, request)
    if kind is None:
        picture.why = (
            "kind differences: two results, what changes in the cells that both have; another: one of them alone"
        )
    return picture


def _draw_suitable(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw the first of the figures that suit the shape of the results and can be drawn."""
    failed: InputError | None = None
    for choice in list_choices(results, request):
        try:
            own = results.where(choice.where) if choice.where else results
            picture = _draw_kind(own, choice.kind, choice.complete_request(request), None)
        except InputError as error:
            failed = error
        else:
            picture.why = choice.line
            return picture
    assert failed is not None
    raise failed


def _check_keys(results: StoredResults, request: PlotRequest, kind: Kind) -> None:
    """Refuse keys that this kind of figure has no place for, and a choice that would have to be guessed."""
    for name in request.keys:
        if request.keys.count(name) > 1:
            raise Conflict(
                f"{name} twice among {spell_option('against')}, {spell_option('by')}, {spell_option('facet')} "
                f"and {spell_option('slider')}",
                "each key in one place",
                option="--by",
            )
    if request.against is not None and not kind.against:
        raise Conflict(
            f"{request.against} and kind {kind.name}",
            f"{spell_option('by')} or {spell_option('facet')}, or kind lines or bars",
            option="--against",
        )
    if request.keys and not kind.keys:
        raise Conflict(
            f"{', '.join(request.keys)} and kind {kind.name}",
            f"{spell_option('baseline')} KEY=VALUE",
            option=request.options[request.keys[0]],
        )
    experiments = results.unlike_experiments
    if experiments and not (request.keys or request.mean_over) and not kind.experiments:
        found = "; ".join(f"{name} ({', '.join(keys) or 'one cell'})" for name, keys in experiments.items())
        allowed = (
            f"{spell_option('where')} experiment=NAME for a figure of one, or {spell_option('against')}, "
            f"{spell_option('by')}, {spell_option('facet')}"
        )
        raise Unfit(f"the experiments vary different keys: {found}", allowed, file=results.path)
