"""The answer for a line: which queue belongs into the router, what that gives, what it costs, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dumbbell.errors import Nothing
from dumbbell.line.home import FOLLOWS, QUEUES, UNSHAPED, AccessLine, RouterSetting, list_settings
from dumbbell.report.verdict import RankedSettings, compute_scores, format_short, is_worse, rank_settings
from dumbbell.results import felt
from dumbbell.results.felt import Felt, SettingComparison
from dumbbell.results.results import StoredResults
from dumbbell.results.tables import align_table
from dumbbell.words import capitalise, format_count, format_rate, join_words

WITHOUT = "without a shaper"
_TIMES = {"99 of 100 times": " at P99", "19 of 20 times": " at P95"}
_EQUAL = 0.005  # of a rate: a smaller difference is none
WORTHWHILE = 1.1  # times longer delays, in the geometric mean, from which on a change is worth it: ours


@dataclass(frozen=True)
class LineAnswer:
    """The setting to choose, sentences that say so, and a table of all settings by what people feel."""

    setting: RouterSetting
    sentences: list[str]
    table: str
    before: dict[str, float]
    """Means of the measures without a shaper, by label."""
    after: dict[str, float]
    """Means of the measures with the setting, by label."""


def answer_line(line: AccessLine, results: StoredResults) -> LineAnswer:
    """Return the answer that the runs of a line give."""
    compared = felt.compare_settings(results)
    if not compared:
        raise Nothing("no run measures what people feel", "results of dumbbell line", file=results.path)
    one = compared[0]
    settings = {setting.name: setting for setting in list_settings(line)}
    ranked = rank_settings(one)
    chosen = choose_setting(one, ranked)
    sentences = [
        _describe_choice(line, settings[chosen]),
        line.link.note,
        _describe_gain(one, chosen),
        _describe_price(one, chosen),
        _describe_certainty(one, ranked, chosen),
        f"Assumed: {'; '.join(line.assumptions)}.",
    ]
    values = [
        {
            column.label: mean
            for column in one.columns
            if column.role != "use" and (mean := one.compute_mean(name, column.label)) is not None
        }
        for name in (UNSHAPED, chosen)
    ]
    return LineAnswer(settings[chosen], [text for text in sentences if text], _make_table(one, ranked, chosen), *values)


def choose_setting(one: SettingComparison, ranked: RankedSettings) -> str:
    """Return the setting that costs least, of those whose delays are about those of the best.

    That is no shaper if its delays are: it needs no work. A setting whose delays are significantly longer, or longer
    by a factor that is worth a change, is not chosen: few seeds may not distinguish it. The cost is the share of
    goodput that is lost against the setting with most, added over directions.
    """
    if _is_nearly_best(one, ranked, UNSHAPED):
        return UNSHAPED
    near = [name for name in _list_good(ranked) if _is_nearly_best(one, ranked, name)] or ranked.order[:1]
    return min(near, key=lambda name: (round(_compute_lost_share(one, name), 3), near.index(name)))


def _list_good(ranked: RankedSettings) -> list[str]:
    """Return the best setting, and those that were tested and are not worse."""
    first, *others = ranked.order
    return [first, *(name for name in others if ranked.worse.get(name) is False and not is_worse(ranked, name))]


def _is_nearly_best(one: SettingComparison, ranked: RankedSettings, name: str) -> bool:
    """Return whether a setting loses no more of what waits than the best, and its delays are not worth a change."""
    if len(ranked.losing.get(name, [])) > len(ranked.losing[ranked.order[0]]):
        return False
    scores = dict(compute_scores(one).group_by("setting").agg(pl.col("score").mean()).iter_rows())
    known = name in scores and ranked.order[0] in scores
    return known and scores[name] - scores[ranked.order[0]] < math.log(WORTHWHILE)


def _list_rates(one: SettingComparison) -> list[Felt]:
    return [column for column in one.columns if column.role == "rate"]


def _compute_lost_share(one: SettingComparison, name: str) -> float:
    lost = 0.0
    for column in _list_rates(one):
        known = [mean for other in one.settings if (mean := one.compute_mean(other, column.label)) is not None]
        own = one.compute_mean(name, column.label)
        if own is not None and known and max(known) > 0:
            lost += 1 - own / max(known)
    return lost


def _describe_choice(line: AccessLine, setting: RouterSetting) -> str:
    if setting.name == UNSHAPED:
        return "Leave the router as it is: no setting that was tried is clearly better."
    if not setting.queue:
        return f"Use {setting.name}: no shaper in the router is clearly better."
    if setting.follows:
        ways = []
        for name, rate in (("down", line.down), ("up", line.up)):
            least, base, most = (format_rate(rate * share / 100e6) for share in FOLLOWS)
            ways.append(f"{least} to {most} {name} with a base rate of {base}")
        return f"Put Cake into the router, and let cake-autorate set its rate: {' and '.join(ways)}."
    down, up = (format_rate(rate * setting.margin / 100e6) for rate in (line.down, line.up))
    share = f"{setting.margin} % of the line: {down} down, {up} up"
    note = " The rate of this line varies, so that no fixed shaper fits at all times." if line.link.varies else ""
    return f"Put {QUEUES[setting.queue]} into the router and shape to {share}.{note}"


def _describe_gain(one: SettingComparison, chosen: str) -> str:
    if chosen == UNSHAPED:
        return ""
    said = [
        f"{sentence} {'; '.join(parts)}."
        for sentence, suffix in _TIMES.items()
        if (parts := [_describe_column(one, chosen, column) for column in one.columns if _is_of(column, suffix)])
    ]
    scores = [_describe_column(one, chosen, column) for column in one.columns if column.role == "score"]
    lost = [
        _describe_column(one, chosen, column)
        for column in one.columns
        if column.role == "loss" and (one.compute_mean(UNSHAPED, column.label) or 0) > 0
    ]
    return " ".join([*said, *(f"{capitalise(join_words(parts))}." for parts in (scores, lost) if parts)])


def _is_of(column: Felt, suffix: str) -> bool:
    return column.role == "delay" and column.word.endswith(suffix)


def _describe_column(one: SettingComparison, chosen: str, column: Felt) -> str:
    """Return a mean in words, with that without a shaper; a percentile is the most that it is so many times."""
    most = "at most " if column.role == "delay" else ""
    word = column.word
    for suffix in _TIMES.values():
        word = word.removesuffix(suffix)
    return (
        f"{word.format(f'{most}{_format_mean(one, chosen, column)}')} ({_format_mean(one, UNSHAPED, column)} {WITHOUT})"
    )


def _format_mean(one: SettingComparison, name: str, column: Felt) -> str:
    value = one.compute_mean(name, column.label)
    return "-" if value is None else format_short(value) + column.unit


def _describe_price(one: SettingComparison, chosen: str) -> str:
    if chosen == UNSHAPED:
        return ""
    said = []
    for column in _list_rates(one):
        before, after = (one.compute_mean(name, column.label) for name in (UNSHAPED, chosen))
        if before is None or after is None:
            continue
        name = column.label.partition(",")[0]
        if abs(before - after) < _EQUAL * before:
            said.append(f"{name} {format_short(after)} Mbit/s, as much as {WITHOUT}")
            continue
        word = "less" if after < before else "more"
        said.append(f"{name} {format_short(after)} Mbit/s, {format_short(abs(before - after))} {word} than {WITHOUT}")
    return f"What it costs: {'; '.join(said)}." if said else ""


def _describe_certainty(one: SettingComparison, ranked: RankedSettings, chosen: str) -> str:
    others = [name for name in _list_good(ranked) if name != chosen]
    n = format_count(one.seeds, "seed")
    if one.seeds < 2:
        return "How sure that is cannot be said from one seed."
    if not others:
        return (
            f"All other settings have significantly longer waits, or lose what waits ({n}, false discovery rate 5 %)."
        )
    names = f"{join_words(others)} {'is' if len(others) == 1 else 'are'}"
    costs = {name: round(_compute_lost_share(one, name), 3) for name in [chosen, *others]}
    why = "this one costs least" if costs[chosen] == min(costs.values()) else "this one has delays like the best"
    return f"By what people feel, {names} not distinguished from the best in {n}; {why}."


def _make_table(one: SettingComparison, ranked: RankedSettings, chosen: str) -> str:
    columns = [column for column in one.columns if column.role != "use"]
    rows = [
        [("* " if name == chosen else "") + name, *(_format_bare(one, name, column) for column in columns)]
        for name in ranked.order
    ]
    return align_table(["setting", *(column.label for column in columns)], rows)


def _format_bare(one: SettingComparison, name: str, column: Felt) -> str:
    value = one.compute_mean(name, column.label)
    return "-" if value is None else format_short(value)


def format_answer(answer: LineAnswer, places: Sequence[str] = ()) -> str:
    """Return an answer as text: its sentences, the table, and where the rest is."""
    note = "Rates are goodput: headers, and acknowledgements of the other direction, take the rest of the line."
    return "\n".join([*answer.sentences, "", answer.table, "", note, *([""] * bool(places)), *places])
