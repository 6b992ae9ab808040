"""Suites: a TOML file, checked, becomes an `EvaluationSuite`. docs/evaluate.md says what every key means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from dumbbell.errors import InputError, Missing, Nothing, Unfit, UnknownName, quote_value
from dumbbell.evaluate.criterion_bar import CriterionBar, parse_bar
from dumbbell.evaluate.judge_keys import JUDGES, PathGrid, TraceNeeds, read_grid, read_needs
from dumbbell.experiment import places
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
    word: str
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


@dataclass(frozen=True)
class HarmRule:
    """How harm is computed: a measure of the others, and whether more of it is better for them."""

    measure: str
    is_more_better: bool


@dataclass(frozen=True)
class Criterion:
    """One statement about the subject: a measure in the cells of a scene, and the bars that it is compared with."""

    id: str
    answers: tuple[str, ...]
    says: str
    scene: str
    measure: str
    passes: CriterionBar | None
    level: CriterionBar | None
    fails: CriterionBar | None
    no_data: str = ""
    """Why it does not apply to a subject of which the measure has no value."""
    note: str = ""
    merit: str = "subject"
    harm: HarmRule | None = None
    """Of what the others get less with the subject than alone, if that is to be computed."""
    source: str = ""
    """The documents that ask for it, where its section does not say so."""
    only: str = ""
    """The beginning of the names of the controls that it is about."""
    judge: str = ""
    """The judge that gives the grade in place of a measure and bars, such as `bbr.probe-rtt`."""
    needs: TraceNeeds = field(default_factory=TraceNeeds)
    origin: str = ""
    """Where its bars come from, if they are not the suite's."""

    @property
    def bars(self) -> list[CriterionBar]:
        """The bars that it has, from the best grade to the worst."""
        return [bar for _, bar in self.named_bars]

    @property
    def named_bars(self) -> list[tuple[str, CriterionBar]]:
        """The bars that it has with the grades that they give."""
        bars = (("passes", self.passes), ("no worse", self.level), ("fails", self.fails))
        return [(grade, bar) for grade, bar in bars if bar is not None]


@dataclass(frozen=True)
class Seeds:
    """How many runs a cell has: at first, with `--quick`, and at most where its grade is not sure."""

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
    yardsticks: tuple[str, ...]
    seeds: Seeds
    paragraphs: Mapping[str, Paragraph]
    words: Mapping[str, NamedNumber]
    scenes: Mapping[str, SuiteScene]
    measures: Mapping[str, CriterionMeasure]
    criteria: tuple[Criterion, ...]
    kinds: tuple[str, ...] = ()
    """All kinds of subjects; `of` is the first of them."""
    grid: PathGrid = field(default_factory=PathGrid)
    times: Mapping[str, str] = field(default_factory=dict)
    """What the times of set-ups mean that judges of traces are told, by name; `values` are other numbers."""
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


def read_suite_file(path: Path, read: Callable[[dict[str, Any], Path], _T]) -> _T:
    """Return what `read` makes of the file of a suite. Raises InputError."""
    table = read_toml(path, "a suite (TOML)")
    with places.place_errors(path):
        try:
            return read(table, path)
        except InputError as error:
            raise error.move_into(str(path)) from None


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
        texts = {key: self._read_text(key, top.get(key, "")) for key in ("title", "source", "first")}
        kinds = self._read_texts("of", top["of"]) if isinstance(top["of"], list) else (top["of"],)
        for one in kinds:
            check_name("of", one, list(KINDS))
        yardsticks = self._read_texts("yardsticks", top.get("yardsticks", []))
        words = self._read_named("words", self._read_word)
        paragraphs = self._read_named("paragraphs", self._read_paragraph)
        scenes = self._read_named("scene", self._read_scene)
        measures = self._read_named("measure", self._read_measure)
        names = {*words, *yardsticks}
        if len(names) != len(words) + len(yardsticks):
            raise Unfit("a word has the name of a yardstick", "another name for the word", key="words")
        criteria: dict[str, Criterion] = {}
        for key, one in self._list_criteria():
            found = self._read_criterion(key, one, names, paragraphs, scenes, measures)
            if found.id in criteria:
                raise Unfit("two criteria have this name", "another name for one of them", key=f"{key}.id")
            criteria[found.id] = found
        if not criteria:
            raise Missing("[[criterion]], or criteria of a scene", key="criterion")
        name = self.path.parent.name
        seeds = self._read_seeds(top.get("seeds", {}))
        return EvaluationSuite(
            name=name,
            file=self.path,
            of=kinds[0],
            yardsticks=yardsticks,
            seeds=seeds,
            paragraphs=paragraphs,
            words=words,
            scenes=scenes,
            measures=measures,
            criteria=tuple(criteria.values()),
            kinds=kinds,
            grid=read_grid("grid", top["grid"]) if "grid" in top else PathGrid(),
            times=self._read_named("times", lambda _name, key, text: self._read_text(key, text)),
            values=self._read_named("values", lambda _name, key, text: self._read_text(key, text)),
            **texts,
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

    def _read_answers(self, key: str, value: Any, paragraphs: Mapping[str, Paragraph]) -> tuple[str, ...]:
        found = self._read_texts(key, value)
        return tuple(check_name(f"{key}[{number}]", one, list(paragraphs)) for number, one in enumerate(found))

    def _read_named(self, key: str, read: Callable[[str, str, Any], _T]) -> dict[str, _T]:
        found: dict[str, Any] = check_kind(key, self.table.get(key, {}), dict, "a table of tables")
        return {name: read(name, f"{key}.{name}", one) for name, one in found.items()}

    def _read_seeds(self, value: Any) -> Seeds:
        names = ("quick", "first", "most")
        table = check_keys("seeds", value, names)
        for name, number in table.items():
            if not isinstance(number, int) or isinstance(number, bool) or not 2 <= number <= 1000:
                raise make_error(f"seeds.{name}", number, "a whole number from 2 to 1000")
        found = Seeds(**table)
        if found.most < found.first:
            raise Unfit("most is less than first", "as many as first, or more", key="seeds.most")
        return found

    def _read_word(self, _name: str, key: str, value: Any) -> NamedNumber:
        table = check_keys(key, value, ("value", "origin"), ("value", "origin"))
        if not is_number(table["value"]):
            raise make_error(f"{key}.value", table["value"], "a number")
        return NamedNumber(float(table["value"]), self._read_text(f"{key}.origin", table["origin"]))

    def _read_paragraph(self, name: str, key: str, value: Any) -> Paragraph:
        table = check_keys(key, value, ("title", "word", "author", "lacks"), ("title",))
        names = ("title", "word", "author", "lacks")
        title, word, author, lacks = (self._read_text(f"{key}.{one}", table.get(one, "")) for one in names)
        return Paragraph(name, title, word, author, lacks)

    def _read_scene(self, name: str, key: str, value: Any) -> SuiteScene:
        known = ("file", "set", "subject", "quick", "criteria", *_OF_SCENE)
        table = check_keys(key, value, known, () if "subject" in self.table else ("subject",))
        file = self.path.parent / self._read_text(f"{key}.file", table.get("file", f"{name}.toml"))
        settings = check_kind(f"{key}.set", table.get("set", {}), dict, "keys of the file with their values")
        subject = table.get("subject", self.table.get("subject"))
        quick = {
            axis: tuple(check_kind(f"{key}.quick.{axis}", positions, list, "positions of the axis, from 0"))
            for axis, positions in check_kind(
                f"{key}.quick", table.get("quick", {}), dict, "axes of the matrix"
            ).items()
        }
        return SuiteScene(name, file, self._read_texts(f"{key}.subject", subject), quick, settings)

    def _read_harm(
        self, key: str, criterion: Mapping[str, Any], bar: CriterionBar | None, measures: Mapping[str, CriterionMeasure]
    ) -> HarmRule | None:
        found = criterion.get("harm", False)
        if found is False:
            return None
        if self.table["of"] == "aqm":
            raise Unfit("a queue has no scene without it", "harm by congestion controls", key=key)
        if found is True and bar is not None:
            return HarmRule(criterion["measure"], not bar.is_upper)
        if not isinstance(found, dict):
            raise make_error(key, found, 'true, or a table such as { measure = "goodput", better = "more" }')
        check_keys(key, found, ("measure", "better"), ("measure", "better"))
        measure = check_name(f"{key}.measure", found["measure"], list(measures))
        return HarmRule(measure, check_name(f"{key}.better", found["better"], ["more", "less"]) == "more")

    def _read_measure(self, name: str, key: str, value: Any) -> CriterionMeasure:
        table = check_kind(key, value, dict, "a table with title, and sql or function")
        if ("sql" in table) == ("function" in table):
            raise Unfit("a measure is either SQL or a function", "sql or function", key=key)
        unit, title = (self._read_text(f"{key}.{one}", table.get(one, "")) for one in ("unit", "title"))
        if "sql" in table:
            check_keys(key, table, ("title", "unit", "sql", "quantile"), ("title",))
            sql = self._read_text(f"{key}.sql", table["sql"])
            return CriterionMeasure(name, title, unit, sql=sql, quantile=self._read_quantile(key, table))
        function = check_name(f"{key}.function", table["function"], list(FUNCTION_OPTIONS))
        options = FUNCTION_OPTIONS[function]
        check_keys(key, table, ("title", "unit", "function", "quantile", *options), ("title", *options))
        chosen = {one: table[one] for one in options}
        quantile = self._read_quantile(key, table)
        return CriterionMeasure(name, title, unit, function=function, options=chosen, quantile=quantile)

    def _read_quantile(self, key: str, table: Mapping[str, Any]) -> float | None:
        quantile = table.get("quantile")
        if quantile is not None and (not is_number(quantile) or not 0 < quantile < 1):
            raise make_error(f"{key}.quantile", quantile, "a number between 0 and 1")
        return quantile

    def _read_criterion(
        self,
        key: str,
        value: Any,
        names: set[str],
        paragraphs: Mapping[str, Paragraph],
        scenes: Mapping[str, SuiteScene],
        measures: Mapping[str, CriterionMeasure],
    ) -> Criterion:
        if isinstance(value, dict) and "judge" in value:
            return self._read_judged(key, value, paragraphs)
        table = check_keys(key, value, _CRITERION_KEYS, ("id", "answers", "says", "scene", "measure"))
        bars: dict[str, CriterionBar | None] = {
            one: parse_bar(table[one], names, f"{key}.{one}") if one in table else None
            for one in ("passes", "level", "fails")
        }
        if bars["passes"] is None and bars["level"] is None:
            raise Missing("a bar: passes, level, or both", key=key)
        return Criterion(
            id=self._read_text(f"{key}.id", table["id"]),
            answers=self._read_answers(f"{key}.answers", table["answers"], paragraphs),
            says=self._read_text(f"{key}.says", table["says"]),
            scene=check_name(f"{key}.scene", table["scene"], list(scenes)),
            measure=check_name(f"{key}.measure", table["measure"], list(measures)),
            passes=bars["passes"],
            level=bars["level"],
            fails=bars["fails"],
            no_data=self._read_text(f"{key}.no_data", table.get("no_data", "")),
            note=self._read_text(f"{key}.note", table.get("note", "")),
            merit=check_name(f"{key}.merit", table.get("merit", "subject"), list(MERITS)),
            harm=self._read_harm(f"{key}.harm", table, bars["passes"] or bars["level"], measures),
            source=self._read_text(f"{key}.source", table.get("source", "")),
            only=self._read_text(f"{key}.only", table.get("only", "")),
        )

    def _read_judged(self, key: str, value: Any, paragraphs: Mapping[str, Paragraph]) -> Criterion:
        table = check_keys(key, value, _JUDGED_KEYS, ("id", "answers", "says", "judge"))
        if "grid" not in self.table:
            raise Missing("rates and rtts of the paths at which judges judge", key="grid")
        judge = self._read_text(f"{key}.judge", table["judge"])
        check_name(f"{key}.judge", judge.partition(".")[0], JUDGES)
        return Criterion(
            id=self._read_text(f"{key}.id", table["id"]),
            answers=self._read_answers(f"{key}.answers", table["answers"], paragraphs),
            says=self._read_text(f"{key}.says", table["says"]),
            scene="",
            measure="",
            passes=None,
            level=None,
            fails=None,
            note=self._read_text(f"{key}.note", table.get("note", "")),
            judge=judge,
            needs=read_needs(f"{key}.trace", table.get("trace", {})),
        )
