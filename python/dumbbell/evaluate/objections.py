"""The objections of a critical reader to an evaluation, with the answers of this run."""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dumbbell import _native
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.criterion_bar import CriterionBar
from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.plan import make_plan
from dumbbell.evaluate.suite_file import EvaluationSuite
from dumbbell.experiment import shipped
from dumbbell.experiment.registry import read_registry
from dumbbell.words import capitalise, format_count, format_measured, format_rate, join_words

OURS = "ours"
"""The beginning of the origin of a word that is not from a document."""
_MOST_NAMED = 6  # names in a sentence
COVERAGE = {2: 0.5, 3: 0.74, 5: 0.83, 10: 0.9}
"""The share of intervals that hold the mean, by number of seeds, if values are normal: 95 % would need more seeds."""
DEPLOYMENT = "5.3.2"
"""The section of RFC 9743 on incremental deployment."""
_RFC_9743 = "rfc9743"


@dataclass(frozen=True)
class Objection:
    """An objection, and what the run answers."""

    title: str
    answer: str


def list_objections(found: Evaluation) -> list[Objection]:
    """Return the nine objections, each with an answer that follows from this run."""
    pairs = (
        ("The document sets no threshold that can be passed.", _answer_thresholds(found)),
        ("The bars are your own.", _answer_bars(found)),
        ("A yardstick that does badly is a low bar.", _answer_yardsticks(found)),
        ("This is a simulator.", _answer_engine(found)),
        ("Which version is this?", _answer_versions(found)),
        ("So few paths are not the Internet.", _answer_range(found)),
        ("Worst cells and means hide the others.", _answer_cells(found)),
        ("Something is missing.", _answer_missing(found)),
        ("Some of this is the merit of the transport.", _answer_transport(found)),
    )
    return [Objection(title, " ".join(filter(None, parts))) for title, parts in pairs]


def is_of_document(bar: CriterionBar, suite: EvaluationSuite) -> bool:
    """Whether all amounts of a bar are numbers of documents: named, and of an origin that is not ours."""
    origins = [suite.words[name].origin for name in bar.names if name in suite.words]
    return bool(origins) and len(origins) == len(bar.names) and not bar.has_numbers and not any(map(_is_ours, origins))


def _is_ours(origin: str) -> bool:
    return origin.startswith(OURS) or origin.endswith(f"is {OURS}")


def _name_some(names: Iterable[str]) -> str:
    """Return names in a sentence, of many the first ones."""
    every = list(dict.fromkeys(names))
    if len(every) <= _MOST_NAMED + 1:
        return join_words(every)
    return f"{', '.join(every[:_MOST_NAMED])} and {len(every) - _MOST_NAMED} more"


def _count_criteria(names: Sequence[str]) -> str:
    """Return how many criteria there are, at the beginning of a sentence."""
    return capitalise(format_count(len(names), "criterion", "criteria"))


def _answer_thresholds(found: Evaluation) -> Iterator[str]:
    if found.is_judged:
        count = format_count(len(found.verdicts), "criterion", "criteria")
        yield f"Judges compare what they see with the behaviour that the document describes, in {count}."
        return

    def split_by_origin(name: str) -> tuple[list[str], list[str]]:
        """Return the criteria whose bar of this name is a number of a document, and those whose number is ours."""
        bars = {one.criterion.id: dict(one.criterion.named_bars).get(name) for one in found.verdicts}
        of_document = [one for one, bar in bars.items() if bar is not None and is_of_document(bar, found.suite)]
        return of_document, [one for one, bar in bars.items() if bar is not None and one not in of_document]

    of_document, ours = split_by_origin("passes")
    if not of_document and not ours:
        yield "So nothing passes here: a criterion only says whether the subject is worse than a yardstick."
        levels = {one.criterion.id: one.criterion.level for one in found.verdicts}
        alone = [one for one, bar in levels.items() if bar is not None and bar.names.isdisjoint(found.suite.yardsticks)]
        if alone:
            yield f"No yardstick, but a number that is ours, is the bar of {_name_some(alone)}."
    for names, origin in ((of_document, "of a document"), (ours, "that is ours")):
        if names:
            yield f"{_count_criteria(names)} can pass, by a number {origin}: {_name_some(names)}."
    failing, numbers = [one.criterion.id for one in found.verdicts if one.criterion.fails], split_by_origin("fails")[1]
    if failing:
        count, which = _count_criteria(failing), _name_some(failing)
        yield f"{count} can fail, since a document names the failure or warns of it: {which}."
    else:
        yield "Nothing can fail: no criterion names a failure of a document."
    if numbers:
        yield f"The number from which on it is a failure is ours in {_name_some(numbers)}."


def _answer_bars(found: Evaluation) -> Iterator[str]:
    if found.is_judged:
        yield "There are none: judges compare with the document."
        return
    bars = [bar for one in found.verdicts for bar in one.criterion.bars]
    of_document = sum(is_of_document(bar, found.suite) for bar in bars)
    yield f"{len(bars) - of_document} of {format_count(len(bars), 'bar')} are ours, in a margin or in a number."
    yield "The report has each of them, with the origin of its words."
    replaced: dict[str, list[str]] = {}
    for one in found.verdicts:
        if one.criterion.origin:
            replaced.setdefault(one.criterion.origin, []).append(one.criterion.id)
    for origin, names in replaced.items():
        yield f"The bars of {_name_some(names)} are not the suite's, but those of {origin}."
    if not replaced:
        yield "--bars FILE judges the same runs by other bars."


def _answer_yardsticks(found: Evaluation) -> Iterator[str]:
    yardsticks = found.suite.yardsticks
    if not yardsticks or found.is_judged:
        yield "Nothing is compared with a yardstick."
        return
    uses = {name: sum(name in bar.names for one in found.verdicts for bar in one.criterion.bars) for name in yardsticks}
    first = max(yardsticks, key=lambda name: uses[name])
    if found.subject.value in yardsticks:
        yield f"{found.subject.name} is a yardstick itself: {_describe_own_bars(found, str(found.subject.value))}."
    for other in yardsticks:
        cells, changed = _count_changed(found, first, other)
        if cells and other != first:
            names = f": {_name_some(changed)}" if changed else ""
            sides = f"{len(changed)} of {format_count(cells, 'grade')} of cells change between good and bad{names}"
            yield f"With the yardstick {other} in the place of {first} in the bars, {sides}."
    if len(yardsticks) == 1:
        yield f"{first} is the only yardstick; --against NAME puts another subject next to this one."
    if low := [one.criterion.id for one in found.verdicts if _is_bar_low(found, one)]:
        yield f"A yardstick itself misses the number in the bar, which then follows its value: {_name_some(low)}."
    if noted := [one.criterion.id for one in found.verdicts if one.criterion.note and one.grade in grades.GOOD]:
        yield f"The grade is good, and a note limits what it says: {_name_some(noted)}."


def _is_bar_low(found: Evaluation, one: Verdict) -> bool:
    """Whether a bar is a number or, if that is easier, a yardstick's value, and the yardstick misses the number."""
    if (bar := one.criterion.level) is None or bar.names.isdisjoint(found.suite.words):
        return False
    number = found.suite.numbers | dict.fromkeys(found.suite.yardsticks, 0.0 if bar.is_upper else math.inf)
    values = [value for cell in one.cells.values() for name, value in cell.others.items() if name in bar.names]
    return not all(bar.is_met(value, number) for value in values)


def _describe_own_bars(found: Evaluation, name: str) -> str:
    """Return what bars that are relative to the subject can say of it."""
    own = [one for one in found.verdicts if any(name in bar.names for bar in one.criterion.bars)]
    if worse := [one.criterion.id for one in own if grades.is_bad(one.grade)]:
        return f"bars that ask for more than it has itself make it worse in {_name_some(worse)}"
    those = ", which it cannot miss" if own else ""
    return f"the bars of {len(own)} of {len(found.verdicts)} criteria are relative to itself{those}"


def _count_changed(found: Evaluation, first: str, other: str) -> tuple[int, list[str]]:
    """Return how many cells have bars with the yardstick `first`, and the criteria of those that `other` changes."""
    cells, changed = 0, []
    for one in found.verdicts:
        bars = [bar for bar in (one.criterion.passes, one.criterion.level) if bar is not None]
        for cell in one.cells.values() if any(first in bar.names for bar in bars) else ():
            if math.isnan(cell.value) or not {first, other} <= cell.others.keys():
                continue
            cells += 1
            names = {**found.suite.numbers, **cell.others}
            with_other = names | {first: cell.others[other]}
            if len({any(bar.is_met(cell.value, of) for bar in bars) for of in (names, with_other)}) > 1:
                changed.append(one.criterion.id)
    return cells, changed


@dataclass(frozen=True)
class _RunParts:
    """The parts of a cell: congestion controls, queues, and everything else."""

    controls: frozenset[str]
    queues: frozenset[str]
    more: frozenset[str]
    rates: tuple[float, ...]
    rtts: tuple[float, ...]
    flows: int


def _list_parts(found: Evaluation) -> list[_RunParts]:
    """Return the parts of each cell with the subject or a yardstick in it, without seeds."""
    return [_describe_parts(next(one.make_cells()).groups) for one in found.plan.experiments]


def _describe_parts(groups: Mapping[str, Any]) -> _RunParts:
    senders = [one for name in ("flows", "web", "app") for one in groups.get(name) or []]
    hops = [groups["bottleneck"], *(groups.get("hop") or [])]
    hops += [groups["reverse"]] if groups.get("reverse") else []
    parts = {
        **{name: groups.get(name) for name in ("udp", "app", "web")},
        "stages": any(one.get("path") or one.get("ack_path") or one.get("behind") for one in senders + hops),
        "links": any(one.get("link") or one.get("trace") for one in hops),
        "stacks": any(one.get("stack") for one in senders),
    }
    return _RunParts(
        frozenset(_name_part(one["cc"]) for one in senders if one.get("cc")),
        frozenset(_name_part(one["aqm"]) for one in hops),
        frozenset(name for name, is_there in parts.items() if is_there),
        tuple(one["rate"] / 1e6 for one in hops),
        tuple(one["base_rtt"] / 1e6 for one in senders if "base_rtt" in one),
        sum(int(one.get("count", 1)) for one in groups.get("flows") or []),
    )


def _name_part(value: Mapping[str, Any]) -> str:
    return str(value.get("name") or "a plugin")


@cache
def _list_compared() -> frozenset[tuple[str, str]]:
    """Return the pairs of queue and congestion control of which there are measurements of real Linux."""
    pairs = set()
    for path in shipped.list_references().values():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row.get("kernel") and row.get("bottleneck.aqm") and row.get("flows.cc"):
                    pairs.add((row["bottleneck.aqm"].split()[0], row["flows.cc"]))
    return frozenset(pairs)


def _answer_engine(found: Evaluation) -> Iterator[str]:
    if found.plan.engine is not None:
        yield "It is not: the runs are those of a real kernel in virtual time."
        return
    if not found.runs:
        yield "Nothing was run: the trace was recorded elsewhere."
        return
    yield f"It is one: engine {_native.engine_version()} of dumbbell."
    parts = _list_parts(found)
    if not parts:
        yield "The judges prepare paths with one flow."
        return
    compared = _list_compared()
    plain = sum(not one.more and compared >= set(itertools.product(one.queues, one.controls)) for one in parts)
    count = f"It runs {len(parts)} experiments, each a cell with the subject or a yardstick: {plain} of them"
    pairs = "in pairs that were compared with real Linux on other paths (dumbbell validate)"
    yield f"{count} have queues and congestion controls alone, {pairs}."
    never = {name for one in parts for name in one.queues | one.controls} - {name for pair in compared for name in pair}
    if never:
        yield f"Not compared with Linux there: {_name_some(sorted(never))}."
    more = Counter(name for one in parts for name in one.more)
    if more:
        yield f"Experiments with more: {join_words(f'{_MORE[name]} {count}' for name, count in sorted(more.items()))}."
    yield "A simulation shows mechanisms and safety, not a deployment."
    if found.suite.of in ("cc", "aqm"):
        yield "--engine linux runs the cells that a kernel can run."


_MORE = {
    "app": "applications",
    "links": "links other than a serial one",
    "stacks": "stacks in virtual time",
    "stages": "stages of a path",
    "udp": "streams of UDP",
    "web": "short flows",
}


def _answer_versions(found: Evaluation) -> Iterator[str]:
    registry = read_registry()
    known = {**registry.aqm, **registry.cc}
    names = {found.subject.name: found.subject.value} | {name: name for name in found.suite.yardsticks}
    for name, value in names.items():
        inner = value.get("name") if isinstance(value, dict) else value
        if isinstance(value, dict) and "plugin" in value:
            yield f"{name} is a plugin, {value['plugin']}."
        elif inner in known:
            yield f"{name}: {known[inner].source}."
        elif found.suite.of == "media":
            own = registry.app["video"].params["control"]
            yield f"{name}: {own.source}." if inner != own.default else f"{name}: a video without a congestion control."
        else:
            yield f"dumbbell knows no version of {name}."


def _answer_range(found: Evaluation) -> Iterator[str]:
    parts = _list_parts(found)
    if parts:
        spread = [_describe_range("rate", [rate for one in parts for rate in one.rates], format_rate)]
        if rtts := [rtt for one in parts for rtt in one.rtts]:
            spread.append(_describe_range("base RTT", rtts, format_measured, " ms"))
        spread.append(f"at most {format_count(max(one.flows for one in parts), 'bulk flow')}")
        yield f"The paths have {join_words(spread)}."
    seeds = [cell.seeds for cell in found.cells if cell.seeds]
    if parts and seeds:
        most = format_count(max(seeds), "seed")
        yield f"Each cell that has data has {f'{min(seeds)} to ' if min(seeds) < max(seeds) else ''}{most}."
        if max(seeds) > 1:
            shares = join_words(f"{100 * share:.0f} % with {number}" for number, share in COVERAGE.items())
            yield f"Intervals resample the seeds: of normal values, they hold the mean in {shares} seeds, not in 95 %."
    places = {cell.place for cell in found.cells}
    if parts and found.quick:
        whole = make_plan(found.suite, [found.subject], 1)
        yield f"These are the {len(places)} cells of --quick; without it there are {len(whole.labels)}."
    elif not parts and not found.runs:
        yield "The trace is of one path, with the rate and the RTT of --rate and --rtt or of its header."
    elif not parts:
        cells = format_count(len(places), "cell")
        yield f"The judges saw {cells}, each a criterion on a path; --rate and --rtt choose other paths."


def _describe_range(what: str, numbers: Sequence[float], show: Callable[[float], str], unit: str = "") -> str:
    """Return the least and the greatest of numbers in words."""
    least, most = show(min(numbers)), show(max(numbers))
    return f"{what}s from {least} to {most}{unit}" if least != most else f"one {what}, {most}{unit}"


def _answer_cells(found: Evaluation) -> Iterator[str]:
    mixed = [one for one in found.verdicts if len(one.counts) > 1]
    yield "The grade of a criterion is that of its worst cell. No mean is taken over cells, and each of them is listed."
    names = f": {_name_some(one.criterion.id for one in mixed)}" if mixed else ""
    yield f"Cells have different grades in {len(mixed)} of {len(found.verdicts)} criteria{names}."
    open_cells = sum(cell.grade == grades.CANNOT_TELL for cell in found.cells)
    if open_cells:
        yield f"{capitalise(format_count(open_cells, 'grade'))} of cells cannot be decided with these seeds."
    for one in found.verdicts:
        if found.suite.name == _RFC_9743 and DEPLOYMENT in one.criterion.answers:
            cells = (f"{of.name or 'the only cell'}: {format_measured(of.value)}" for of in one.cells.values())
            yield f"{one.criterion.id}, all of it: {'; '.join(cells)}."


def _answer_missing(found: Evaluation) -> Iterator[str]:
    unanswered = list(found.list_unanswered())
    judged = [one for one in found.verdicts if one.grade != grades.NOT_APPLICABLE]
    answered = {name for one in judged for name in one.criterion.answers}
    yield f"{len(answered)} of {len(found.suite.paragraphs)} sections have a criterion that applies, if only to a part."
    for grade in ("not covered", "for the author"):
        names = [name for name, of, _ in unanswered if of == grade]
        if names:
            yield f"{capitalise(grade)}: {join_words(names)}, with the reasons above."
    none = [one.criterion.id for one in found.verdicts if one.grade == grades.NOT_APPLICABLE]
    if none:
        yield f"Criteria that do not apply to this subject: {_name_some(none)}."
    if found.failed:
        yield f"{capitalise(format_count(len(found.failed), 'run'))} failed, and are listed."


_SENDERS = {
    "stack": "The subject is the whole transport.",
    "aqm": "All queues have the same senders, dumbbell's TCP; what another TCP makes of the queue is not shown.",
    "media": "All controls have the same encoder and the same reports; what others make of the control is not shown.",
}


def _answer_transport(found: Evaluation) -> Iterator[str]:
    theirs = [one for one in found.verdicts if one.criterion.merit == "transport"]
    if found.suite.of in _SENDERS:
        yield _SENDERS[found.suite.of]
    elif not found.is_judged:
        yield "All controls have the same TCP, dumbbell's, with the loss recovery and the timeouts of Linux."
    elif not found.runs:
        yield "The transport is that of the trace, and its loss recovery and timers shape what the judges see."
    else:
        yield "The judges run the control in dumbbell's TCP, with the loss recovery and the timeouts of Linux."
    for one in theirs:
        yield f"{one.criterion.id} mostly judges the transport; its grade: {one.grade}."
    if not theirs:
        yield "No criterion here is mostly about it." if found.suite.of != "stack" else ""
