"""Suites: a TOML file, checked, becomes an `EvaluationSuite`. docs/evaluate.md says what every key means."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from dumbbell.errors import InputError, Missing, Nothing, Unfit, UnknownName, quote_value
from dumbbell.evaluate.criterion_bar import CriterionBar, parse_bar
from dumbbell.experiment import places, units
from dumbbell.experiment.toml_checks import check_keys, check_kind, check_name, is_number, make_error
from dumbbell.experiment.toml_file import read_toml

_T = TypeVar("_T")
SUITES = Path(__file__).resolve().parents[1] / "suites"
FILE = "suite.toml"
KINDS = {
    "cc": "a congestion control",
    "aqm": "a queue discipline",
    "media": "a congestion control of media",
    "stack": "a QUIC stack",
    "trace": "a log of another implementation",
}
SUBJECT_KEYS = {"cc": "cc", "aqm": "aqm", "media": "control"}
"""The key of a scene's tables that gets a subject of a kind."""
_FILE_KEYS = (
    *("title", "of", "source", "first", "yardsticks", "seeds", "subject"),
    *("paragraphs", "words", "scene", "measure", "criterion", "grid", "times", "values"),
)
_CRITERION_KEYS = (
    *("id", "answers", "says", "source", "only", "scene", "measure", "passes", "level", "fails"),
    *("no_data", "note", "merit", "harm"),
)
_OF_SCENE = ("answers", "source", "only")  # keys of criteria that a scene may have for all of its criteria
_JUDGED_KEYS = ("id", "answers", "says", "judge", "trace", "note")
_SENTENCES = ("setup", "real")  # keys of `trace` that are texts, not lists of names
_BARS = ("passes", "level", "fails")
JUDGES = ("bbr",)
"""Packages next to this module with judges: the part of a judge's name before the dot."""
FUNCTION_OPTIONS = {"longest_below": ("role", "below"), "longest_gap": ("role", "outages", "over")}
"""Functions that measure runs where SQL is too clumsy, with their keys."""
MERITS = {
    "subject": "what is judged is what the subject does",
    "transport": "what is judged is mostly what the TCP around the congestion control does",
}


@dataclass(frozen=True)
class Paragraph:
    """A part of the document that the suite answers: its title, and how strongly it asks.

    One that no run can answer says why: `author` is what its author has to write, `lacks` what cannot be run.
    """

    id: str
    title: str
    word: str = ""
    author: str = ""
    lacks: str = ""
    counted: bool = True
    """Whether its statements about results count in the summary."""


@dataclass(frozen=True)
class NamedNumber:
    """A number with a name, and the document that it comes from."""

    value: float
    origin: str


@dataclass(frozen=True)
class SuiteScene:
    """An experiment file, and the tables in it that get the subject."""

    name: str
    file: Path
    subject: tuple[str, ...]
    quick: Mapping[str, tuple[int, ...]]
    """Positions of axes of the matrix that `--quick` keeps."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the file that have other values in this scene."""


@dataclass(frozen=True)
class CriterionMeasure:
    """A measure of every run: SQL over the tables of results, or a function of `measures.FUNCTIONS`."""

    name: str
    title: str
    unit: str
    sql: str = ""
    function: str = ""
    options: Mapping[str, Any] | None = None
    quantile: float | None = None
    """Which quantile of the values of all seeds together is taken, where a run has many; else the mean of the runs."""

    @property
    def label(self) -> str:
        """The title with the unit; the title of a ratio names both of its numbers."""
        return f"{self.title}, {self.unit}" if self.unit not in ("", "ratio") else self.title


@dataclass(frozen=True)
class HarmRule:
    """How harm is computed: a measure of the others, and whether more of it is better for them."""

    measure: str
    is_more_better: bool


@dataclass(frozen=True)
class TraceNeeds:
    """The fields that the trace of another implementation must have for a judge.

    `setup` is what has to be done to the flow, and `real` how a real stack gets there. `columns` is what the trace
    needs in addition to states, `flags` what is compared if it has it. `times` and `values` are what the judge must be
    told of the set-up by name, `optional` what else it may be told.
    """

    setup: str = ""
    real: str = ""
    columns: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathGrid:
    """Rates of links in bit/s and base RTTs in ns at which judges judge; `quick` has those that --quick keeps."""

    rates: tuple[int, ...] = ()
    rtts: tuple[int, ...] = ()
    quick: PathGrid | None = None


@dataclass(frozen=True)
class Criterion:
    """One statement about the subject: a measure in the cells of a scene, and the bars that it is compared with."""

    id: str
    answers: tuple[str, ...]
    says: str
    scene: str = ""
    measure: str = ""
    passes: CriterionBar | None = None
    level: CriterionBar | None = None
    fails: CriterionBar | None = None
    no_data: str = ""
    """The reason why the criterion does not apply to a subject for which the measure has no value."""
    note: str = ""
    merit: str = "subject"
    harm: HarmRule | None = None
    """The rule for the harm to others, if harm is to be computed."""
    source: str = ""
    """The documents that ask for this criterion, where its section does not name them."""
    only: str = ""
    """The beginning of the names of the controls that the criterion is about."""
    judge: str = ""
    """The judge that gives the grade in place of a measure and bars, such as `bbr.probe-rtt`."""
    needs: TraceNeeds = field(default_factory=TraceNeeds)
    origin: str = ""
    """The origin of the bars, if they are not the suite's."""

    @property
    def bars(self) -> list[CriterionBar]:
        """The bars of the criterion, from the best grade to the worst."""
        return [bar for _, bar in self.named_bars]

    @property
    def named_bars(self) -> list[tuple[str, CriterionBar]]:
        """The bars of the criterion with the grades that they give."""
        bars = (("passes", self.passes), ("no worse", self.level), ("fails", self.fails))
        return [(grade, bar) for grade, bar in bars if bar is not None]

    def describe_bars(self) -> str:
        """Return the bars in one line: `passes if <= 0.02; fails if > 0.05`."""
        return "; ".join(f"{grade} if {bar.text}" for grade, bar in self.named_bars)


@dataclass(frozen=True)
class Seeds:
    """The number of runs of a cell: with `--quick`, at first, and at most while its grade is not sure."""

    quick: int = 5
    first: int = 10
    most: int = 40
    after: int = 0
    """The seed after which they begin."""


@dataclass(frozen=True)
class EvaluationSuite:
    """A checked suite."""

    name: str
    file: Path
    title: str
    of: str
    source: str
    first: str
    """The sentence that a report begins with: what it is, and what it is not."""
    paragraphs: Mapping[str, Paragraph]
    words: Mapping[str, NamedNumber]
    criteria: tuple[Criterion, ...]
    yardsticks: tuple[str, ...] = ()
    seeds: Seeds = field(default_factory=Seeds)
    scenes: Mapping[str, SuiteScene] = field(default_factory=dict)
    measures: Mapping[str, CriterionMeasure] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    """All kinds of subjects; `of` is the first of them."""
    grid: PathGrid = field(default_factory=PathGrid)
    times: Mapping[str, str] = field(default_factory=dict)
    """The meaning of the times of a set-up that judges of traces are told, by name; `values` has other numbers."""
    values: Mapping[str, str] = field(default_factory=dict)

    def select(self, names: Sequence[str]) -> Self:
        """Return the suite with these criteria, sections or scenes alone, all if there are none. Raises InputError."""
        if not names:
            return self
        scenes = {one.scene for one in self.criteria if one.scene}
        known = [*dict.fromkeys([*(one.id for one in self.criteria), *self.paragraphs, *sorted(scenes)])]
        for name in names:
            if name not in known:
                raise UnknownName(quote_value(name), among=known, option="--only", what="criterion or paragraph")
        kept = tuple(one for one in self.criteria if not {one.id, one.scene, *one.answers}.isdisjoint(names))
        if not kept:
            raise Nothing("no criterion answers it", "a criterion or another paragraph", option="--only")
        answered = {paragraph for one in kept for paragraph in one.answers}
        paragraphs = {name: one for name, one in self.paragraphs.items() if name in answered or name in names}
        return replace(self, criteria=kept, paragraphs=paragraphs)

    @property
    def numbers(self) -> dict[str, float]:
        """The values of the words."""
        return {name: word.value for name, word in self.words.items()}

    @property
    def used_scenes(self) -> list[SuiteScene]:
        """The scenes of the criteria, in the order of the file."""
        used = {one.scene for one in self.criteria}
        return [scene for name, scene in self.scenes.items() if name in used]


def list_suites() -> dict[str, Path]:
    """Return the suites that come with dumbbell, by their names."""
    return {path.parent.name: path for path in sorted(SUITES.glob(f"*/{FILE}"))}


def name_suite(suite: EvaluationSuite) -> str:
    """Return what `--suite` calls a suite: its name if it comes with dumbbell, or else its folder."""
    return suite.name if list_suites().get(suite.name) == suite.file else str(suite.file.parent)


def load_suite(name: str) -> EvaluationSuite:
    """Return a suite that comes with dumbbell, or that of a folder. Raises InputError."""
    return read_suite_file(find_suite_file(name, list_suites()), lambda *given: SuiteReader(*given).read_suite())


def find_suite_file(name: str, known: Mapping[str, Path]) -> Path:
    """Return the file of a `known` suite, or that of a folder. Raises InputError."""
    folder = Path(name)
    if name in known and not folder.is_dir():
        return known[name]
    if not folder.is_dir():
        raise UnknownName(quote_value(name), among=[*known, "a folder with suite.toml"], option="--suite", what="suite")
    if not (folder / FILE).is_file():
        raise Missing(f"a suite's {FILE}", file=folder, option="--suite")
    return folder / FILE


def read_suite_file(path: Path, read: Callable[[dict[str, Any], Path], _T], what: str = "a suite (TOML)") -> _T:
    """Return what `read` makes of the file of a suite, or of `what` else. Raises InputError."""
    table = read_toml(path, what)
    with places.ErrorPlacer(path):
        try:
            return read(table, path)
        except InputError as error:
            raise error.move_into(str(path)) from None


def replace_bars(suite: EvaluationSuite, path: Path) -> EvaluationSuite:
    """Return a suite with the bars of a file: those that it names replace the suite's. Raises InputError.

    A table has the name of a criterion, `passes`, `level` and `fails` as in a suite, or false where the criterion is to
    have no such bar, and `origin`, which reports print.
    """
    known = {one.id: one for one in suite.criteria}

    def replace_each(table: dict[str, Any], path: Path) -> None:
        for key, value in table.items():
            if key not in known:
                raise UnknownName(key, among=list(known), key=key, what="criterion")
            one = check_keys(key, value, (*_BARS, "origin"), ("origin",))
            origin = check_kind(f"{key}.origin", one["origin"], str, "text")
            bars: dict[str, Any] = dict.fromkeys(name for name in _BARS if name in one)
            kept = {name: bar for name, bar in one.items() if bar is not False}
            bars |= _read_bars(key, kept, {*suite.words, *suite.yardsticks})
            known[key] = replace(known[key], origin=f"{path.name}: {origin}", **bars)
            _require_bar(key, known[key])

    read_suite_file(path, replace_each, "bars by criterion (TOML)")
    return replace(suite, criteria=tuple(known.values()))


def _read_bars(key: str, table: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the bars of a table by their keys."""
    return {one: parse_bar(table[one], names, f"{key}.{one}") for one in _BARS if one in table}


def _require_bar(key: str, criterion: Criterion) -> None:
    if criterion.passes is None and criterion.level is None:
        raise Missing("a bar: passes, level, or both", key=key)


class SuiteReader:
    """Reads a suite with a subject; other kinds of suites read other keys."""

    keys: tuple[str, ...] = _FILE_KEYS
    required: tuple[str, ...] = ("title", "of")

    def __init__(self, table: dict[str, Any], path: Path) -> None:
        self.table = check_keys("", table, self.keys, self.required)
        self.path = path

    def read_suite(self) -> EvaluationSuite:
        """Return the checked suite. Raises InputError."""
        top = self.table
        kinds = self._read_texts("of", top["of"]) if isinstance(top["of"], list) else (top["of"],)
        for one in kinds:
            check_name("of", one, list(KINDS))
        yardsticks = self._read_texts("yardsticks", top.get("yardsticks", []))
        words = self._read_named("words", self._read_word)
        # what comes first is needed to check what comes later
        self.paragraphs = self._read_named("paragraphs", self._read_paragraph)
        self.scenes = self._read_named("scene", self._read_scene)
        self.measures = self._read_named("measure", self._read_measure)
        self.names = {*words, *yardsticks}
        if len(self.names) != len(words) + len(yardsticks):
            raise Unfit("a word has the name of a yardstick", "another name for the word", key="words")
        criteria: dict[str, Criterion] = {}
        for key, one in self._list_criteria():
            found = self._read_criterion(key, one)
            if found.id in criteria:
                raise Unfit("two criteria have this name", "another name for one of them", key=f"{key}.id")
            criteria[found.id] = found
        if not criteria:
            raise Missing("[[criterion]], or criteria of a scene", key="criterion")
        return EvaluationSuite(
            name=self.path.parent.name,
            file=self.path,
            of=kinds[0],
            yardsticks=yardsticks,
            seeds=self._read_seeds(top.get("seeds", {})),
            paragraphs=self.paragraphs,
            words=words,
            scenes=self.scenes,
            measures=self.measures,
            criteria=tuple(criteria.values()),
            kinds=kinds,
            grid=self._read_grid("grid", top["grid"]) if "grid" in top else PathGrid(),
            times=self._read_named("times", lambda _name, key, text: self._read_text(key, text)),
            values=self._read_named("values", lambda _name, key, text: self._read_text(key, text)),
            **self._read_all("", top, "title", "source", "first"),
        )

    def _list_criteria(self) -> Iterator[tuple[str, Any]]:
        """Yield the tables of criteria with their places in the file: those of scenes, then the others."""
        for name, scene in self.table.get("scene", {}).items():
            key = f"scene.{name}.criteria"
            common = {"scene": name} | {one: scene[one] for one in _OF_SCENE if one in scene}
            for number, one in enumerate(check_kind(key, scene.get("criteria", []), list, "tables, one per criterion")):
                check_keys(f"{key}[{number}]", one, [one for one in _CRITERION_KEYS if one != "scene"])
                yield f"{key}[{number}]", common | one
        others = check_kind("criterion", self.table.get("criterion", []), list, "tables, one per criterion")
        yield from ((f"criterion[{number}]", one) for number, one in enumerate(others))

    def _read_text(self, key: str, value: Any) -> str:
        return str(check_kind(key, value, str, "text"))

    def _read_texts(self, key: str, value: Any) -> tuple[str, ...]:
        return tuple(self._read_text(f"{key}[{n}]", one) for n, one in enumerate(check_kind(key, value, list, "texts")))

    def _read_all(self, key: str, table: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Return texts of a table by their keys, empty ones for those that are not there."""
        dot = f"{key}." if key else ""
        return {name: self._read_text(f"{dot}{name}", table.get(name, "")) for name in names}

    def _read_answers(self, key: str, value: Any) -> tuple[str, ...]:
        found = self._read_texts(key, value)
        return tuple(check_name(f"{key}[{number}]", one, list(self.paragraphs)) for number, one in enumerate(found))

    def _read_named(self, key: str, read: Callable[[str, str, Any], _T]) -> dict[str, _T]:
        found: dict[str, Any] = check_kind(key, self.table.get(key, {}), dict, "a table of tables")
        return {name: read(name, f"{key}.{name}", one) for name, one in found.items()}

    def _read_seeds(self, value: Any) -> Seeds:
        table = check_keys("seeds", value, ("quick", "first", "most"))
        for name, number in table.items():
            if not isinstance(number, int) or isinstance(number, bool) or not 2 <= number <= 1000:
                raise make_error(f"seeds.{name}", number, "a whole number from 2 to 1000")
        found = Seeds(**table)
        if found.most < found.first:
            raise Unfit("most is less than first", "as many as first, or more", key="seeds.most")
        return found

    def _read_grid(self, key: str, value: Any) -> PathGrid:
        kinds = {"rates": "rate", "rtts": "time"}
        table = dict(check_keys(key, value, (*kinds, "quick"), tuple(kinds)))
        quick = table.pop("quick", None)
        found = {
            name: tuple(int(units.parse(kinds[name], one)) for one in self._read_texts(f"{key}.{name}", texts))
            for name, texts in table.items()
        }
        return PathGrid(**found, quick=None if quick is None else self._read_grid(f"{key}.quick", quick))

    def _read_word(self, _name: str, key: str, value: Any) -> NamedNumber:
        table = check_keys(key, value, ("value", "origin"), ("value", "origin"))
        if not is_number(table["value"]) or not math.isfinite(table["value"]):
            raise make_error(f"{key}.value", table["value"], "a finite number")
        return NamedNumber(float(table["value"]), self._read_text(f"{key}.origin", table["origin"]))

    def _read_paragraph(self, name: str, key: str, value: Any) -> Paragraph:
        names = ("title", "word", "author", "lacks")
        return Paragraph(name, **self._read_all(key, check_keys(key, value, names, ("title",)), *names))

    def _read_scene(self, name: str, key: str, value: Any) -> SuiteScene:
        known = ("file", "set", "subject", "quick", "criteria", *_OF_SCENE)
        table = check_keys(key, value, known, () if "subject" in self.table else ("subject",))
        file = self.path.parent / self._read_text(f"{key}.file", table.get("file", f"{name}.toml"))
        settings = check_kind(f"{key}.set", table.get("set", {}), dict, "keys of the file with their values")
        subject = table.get("subject", self.table.get("subject"))
        axes = check_kind(f"{key}.quick", table.get("quick", {}), dict, "axes of the matrix")
        quick = {
            axis: tuple(check_kind(f"{key}.quick.{axis}", positions, list, "positions of the axis, from 0"))
            for axis, positions in axes.items()
        }
        return SuiteScene(name, file, self._read_texts(f"{key}.subject", subject), quick, settings)

    def _read_harm(self, key: str, criterion: Mapping[str, Any], bar: CriterionBar) -> HarmRule | None:
        found = criterion.get("harm", False)
        if found is False:
            return None
        if self.table["of"] == "aqm":
            raise Unfit("a queue has no scene without it", "harm by congestion controls", key=key)
        if found is True:
            return HarmRule(criterion["measure"], not bar.is_upper)
        if not isinstance(found, dict):
            raise make_error(key, found, 'true, or a table such as { measure = "goodput", better = "more" }')
        check_keys(key, found, ("measure", "better"), ("measure", "better"))
        measure = check_name(f"{key}.measure", found["measure"], list(self.measures))
        return HarmRule(measure, check_name(f"{key}.better", found["better"], ["more", "less"]) == "more")

    def _read_measure(self, name: str, key: str, value: Any) -> CriterionMeasure:
        table = check_kind(key, value, dict, "a table with title, and sql or function")
        if ("sql" in table) == ("function" in table):
            raise Unfit("a measure is either SQL or a function", "sql or function", key=key)
        options: tuple[str, ...] = ()
        if "function" in table:
            options = FUNCTION_OPTIONS[check_name(f"{key}.function", table["function"], list(FUNCTION_OPTIONS))]
        source = "function" if "function" in table else "sql"
        check_keys(key, table, ("title", "unit", source, "quantile", *options), ("title", *options))
        quantile = table.get("quantile")
        if quantile is not None and (not is_number(quantile) or not 0 < quantile <= 1):
            raise make_error(f"{key}.quantile", quantile, "a number above 0, at most 1")
        texts = self._read_all(key, table, "title", "unit", source)
        return CriterionMeasure(name, **texts, options={one: table[one] for one in options}, quantile=quantile)

    def _read_criterion(self, key: str, value: Any) -> Criterion:
        is_judged = isinstance(value, dict) and "judge" in value
        known = _JUDGED_KEYS if is_judged else _CRITERION_KEYS
        own = ("judge",) if is_judged else ("scene", "measure")
        table = check_keys(key, value, known, ("id", "answers", "says", *own))
        answers = self._read_answers(f"{key}.answers", table["answers"])
        texts = self._read_all(key, table, "id", "says", "no_data", "note", "source", "only", "judge")
        if is_judged:
            if "grid" not in self.table:
                raise Missing("rates and rtts of the paths at which judges judge", key="grid")
            check_name(f"{key}.judge", texts["judge"].partition(".")[0], JUDGES)
            return Criterion(answers=answers, needs=self._read_needs(f"{key}.trace", table.get("trace", {})), **texts)
        found = Criterion(
            answers=answers,
            scene=check_name(f"{key}.scene", table["scene"], list(self.scenes)),
            measure=check_name(f"{key}.measure", table["measure"], list(self.measures)),
            merit=check_name(f"{key}.merit", table.get("merit", "subject"), list(MERITS)),
            **_read_bars(key, table, self.names),
            **texts,
        )
        _require_bar(key, found)
        return replace(found, harm=self._read_harm(f"{key}.harm", table, found.bars[0]))

    def _read_needs(self, key: str, value: Any) -> TraceNeeds:
        table = check_keys(key, value, [one.name for one in fields(TraceNeeds)])
        found = self._read_all(key, table, *_SENTENCES)
        found |= {name: self._read_texts(f"{key}.{name}", one) for name, one in table.items() if name not in found}
        return TraceNeeds(**found)
