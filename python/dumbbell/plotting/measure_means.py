"""What is drawn of a measure: values or differences from a baseline, their means, and the words for them."""

from collections.abc import Sequence

import polars as pl

from dumbbell.errors import Nothing
from dumbbell.plotting.placing import choose_first_key
from dumbbell.plotting.request import PlotRequest
from dumbbell.results import aggregate, censored, parts, selecting
from dumbbell.results.aggregate import FEW, Means, Samples
from dumbbell.results.results import StoredResults


def collect_means(
    results: StoredResults,
    request: PlotRequest,
    value: str,
    *,
    ratio: bool = False,
    total: bool = False,
    numeric: bool | None = False,
) -> tuple[Samples, Means]:
    """Return values of a measure, or their differences from the baseline, and the means.

    The baseline itself, of which the difference is 0 and the ratio 1, is among them where its key is along an axis:
    horizontally or, if `numeric` is None, in both directions.
    """
    keys = request.keys
    base, texts = _find_baseline(results, request) if request.baseline else (None, [])
    if base and base not in keys:
        keys = [*keys, base]
    found = aggregate.collect_samples(
        results, value, keys, of=request.of, mean_over=request.mean_over, options=request.options, total=total
    )
    if base:
        texts = texts or selecting.select_texts(
            selecting.parse(request.baseline or "").text,
            next(axis for axis in found.axes if axis.name == base).texts,
            lambda _: [],
            key=base,
            option="--baseline",
        )
        compared = aggregate.subtract_baseline(found, base, texts, ratio=ratio)
        along = numeric is None or choose_first_key(results, compared.axes, request, numeric=numeric).name == base
        found = compared if along else aggregate.drop_texts(compared, base, texts)
    return found, censored.drop_partial(aggregate.average_samples(found))


def _find_baseline(results: StoredResults, request: PlotRequest) -> tuple[str, list[str]]:
    """Return the key of the baseline, as one of those asked for if it is the same, and the texts that are meant.

    There are no texts of a key of flows: the rows have them.
    """
    condition = selecting.parse(request.baseline or "", "--baseline")
    if condition.key in ("flow", "class", "kind") or (
        condition.key in ("cc", "base_rtt") and not results.is_of_runs(condition.key)
    ):
        named = condition.key == "flow" and not condition.text.replace(",", "").isdigit()
        return "which" if named and "flow" not in request.keys else condition.key, []
    base = results.find_key(condition.key, "--baseline")
    meant = selecting.select_dimension_texts(base, condition.text, results.configurations, "--baseline")
    for name in request.keys:
        if name in parts.KEYS and not results.is_of_runs(name):
            continue
        other = results.find_key(name, request.options[name])
        pairs = {(base.texts[cell], other.texts[cell]) for cell in base.texts}
        if len(pairs) == len(base.ordered) == len(other.ordered):
            return name, [there for own, there in pairs if own in meant]
    return condition.key, meant


def describe_means(found: Sequence[Means]) -> str | None:
    """Return what is drawn of one measure or several: of how many seeds, what the bands are, what is left out."""
    said = [note(one) for one in found]
    if len(found) > 1:
        said = [
            text if said.count(text) == len(said) else f"{y}: {text}"
            for y, text in zip((one.measure.label.partition(",")[0] for one in found), said, strict=True)
            if text
        ]
    return "; ".join(dict.fromkeys(text for text in said if text)) or None


def format_y_label(found: Means | Samples, request: PlotRequest, kind: str = "") -> str:
    """Return the name of a measure with its unit, and what it is compared with."""
    label = found.measure.label
    if request.baseline:
        label = f"{label}, {'ratio to' if kind == 'ratio' else 'difference from'} {request.baseline}"
    return label


def note(found: Means, what: str = "95 % interval") -> str | None:
    """Return what is drawn: of how many seeds, what the bands are, what is left out."""
    counts = found.frame.filter(pl.col("n") > 0)["n"]
    said = [text for text in (describe_counts(counts, what),) if text]
    if counts.max() == 1 and found.frame["runs"].max() != 1:
        said = ["one seed" if found.over else "all seeds gave the same run"]
    if found.over:
        said.append(f"mean over {', '.join(found.over)}")
    said += [text for text in (_describe_missing(found), *found.left_out) if text]
    return "; ".join(said) or None


def describe_counts(counts: pl.Series, what: str = "95 % interval") -> str:
    """Return of how many seeds means are, and what their bands are; `what` is empty where there are none."""
    most = max(counts.to_list(), default=0)
    if most < FEW:
        return "one run each" if most else ""
    if not what:
        return f"mean over {describe_seeds(counts)}"
    if most == FEW:
        return f"mean and range of {describe_seeds(counts)}"
    of_two = " (of 2: range)" if (counts == FEW).any() else ""
    return f"mean and {what}{of_two} over {describe_seeds(counts)}"


def require_values(results: StoredResults, rows: pl.DataFrame, values: Sequence[str]) -> None:
    """Refuse to draw what none of the runs has; raises InputError."""
    if rows.is_empty():
        found = f"the runs have no {' and '.join(values)}"
        raise Nothing(found, "runs that have it, or another measure", file=results.path, option="--value")


def _describe_missing(found: Means) -> str:
    """Return of what there is no value: of which parts, else of how many runs."""
    without = found.frame.filter(pl.col("none") > 0)
    if without.is_empty():
        return ""
    for axis in found.axes:
        lacking = [text for text in axis.texts if text in set(without[axis.name])]
        own = found.frame.filter(pl.col(axis.name).is_in(lacking))
        if len(lacking) < len(axis.texts) and (own["none"] == own["runs"]).all():
            return f"no value of {', '.join(lacking)}"
    if censored.is_censored(found.measure):
        return describe_late(int(found.frame["none"].sum()), int(found.frame["runs"].sum()))
    whose = "runs" if found.measure.of == "run" else f"runs and {found.measure.of}s"
    return f"no value in {int(without['none'].sum())} of {int(found.frame['runs'].sum())} {whose}"


def describe_late(late: int, runs: int, how: str = "") -> str:
    """Return in how many runs a censored time was not reached, and how they are drawn."""
    return f"not reached in {late} of {runs} runs{how}" if late else ""


def describe_seeds(counts: pl.Series) -> str:
    """Return how many seeds there are: `1 seed`, `2 to 3 seeds`."""
    return f"{aggregate.format_counts(counts)} seed{'' if counts.max() == 1 else 's'}"
