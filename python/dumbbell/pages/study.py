"""A study: a folder with a page's template, the program that makes its tables and figures, and the evidence.

    page.md       the template
    study.py      what it is made of, below
    evidence/     small tables, written from results by `Study.gather`
    README.md     the page
    figures/      its figures
    experiments/  experiment files of its own (optional)
    references/   published numbers that it needs, as CSV (optional)
    suite.toml    a paper's statements, for `dumbbell evaluate results` (optional)
    paper.py      all tables and figures of a paper, for `dumbbell study tables` and `study figure` (optional)

`study.py` has

    QUESTION                  what the study asks, one sentence for lists of studies
    GALLERY                   which figure shows an experiment in the gallery, by the experiment's name: NAME of a
                              figure (optional; otherwise STUDY-EXPERIMENT, if there is such a figure)
    RUNS                      `Sweep`s: which experiments it rests on, and the results file of each
    evidence(*results)        polars frames by name, from the `Results` of these files in their order (optional); a
                              function instead of a frame is called when a figure or the page asks for that table
    facts(evidence)           what else the template may name, as a dict (optional)
    TABLES, FIGURES           functions of evidence by name: Markdown text; a `Picture`, saved as NAME.svg
    PARTS                     templates by file, from the study's folder: what is in that file between `<!-- NAME -->`
                              and `<!-- /NAME -->`, with the name of the study (optional)
    NAMES                     patterns of names with digits that are no results (optional)

Other modules of the folder are imported as `from .other import name`.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import polars as pl

from dumbbell import Results, programs
from dumbbell.errors import Nothing, UnknownName, Unreadable, WrongValue
from dumbbell.experiment import shipped
from dumbbell.experiment.shipped import PROGRAM as PROGRAM
from dumbbell.figures import Picture, save_all
from dumbbell.pages import evidence as kept
from dumbbell.pages import prose
from dumbbell.pages.evidence import Evidence
from dumbbell.pages.samples import find_changes
from dumbbell.pages.sweeps import Sweep
from dumbbell.pages.template import render
from dumbbell.pages.values import PageError
from dumbbell.published.variants import require_alike
from dumbbell.words import format_count

TEMPLATE, EVIDENCE, PAGE, PICTURES = "page.md", "evidence", "README.md", "figures"
FORMATS = (".svg", ".pdf", ".png")


@dataclass
class Study:
    """A study's folder and its program."""

    folder: Path
    program: ModuleType
    output: Path | None = None
    """Where page, evidence and figures are written, if not to its folder."""

    @property
    def place(self) -> Path:
        """Where page, evidence and figures are written."""
        return self.output or self.folder

    def _report_program_errors(self) -> AbstractContextManager[None]:
        """Report exceptions of a user's study as errors of its program."""
        is_own = not self.folder.resolve().is_relative_to(shipped.place())
        return programs.report_faults(self.folder / PROGRAM, PageError) if is_own else nullcontext()

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.folder.resolve().name.replace("_", "-")

    @property
    def question(self) -> str:
        """The question, in one sentence."""
        return str(getattr(self.program, "QUESTION", ""))

    @property
    def page(self) -> Path:
        """Where its page is."""
        return self.place / PAGE

    @property
    def figures(self) -> dict[str, Callable[[Evidence], Picture]]:
        """Return the figures by name."""
        return dict(getattr(self.program, "FIGURES", {}))

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Return the sweeps."""
        return tuple(getattr(self.program, "RUNS", ()))

    @property
    def results(self) -> list[str]:
        """The names of its results files."""
        return list(dict.fromkeys(one.results for one in self.sweeps))

    def make_evidence(self, results: Sequence[str | Path]) -> Evidence:
        """Make the evidence from results files, or from those of its names in one folder.

        A file that is not there is an error only for the tables that need it.
        """
        if len(results) == 1 and Path(results[0]).is_dir():
            results = [Path(results[0]) / name for name in self.results]
        if len(results) != len(self.results):
            wanted = f"{len(self.results)}: {', '.join(self.results) or 'none'}"
            raise WrongValue(format_count(len(results), "file"), wanted, file=self.name, key="RESULTS")
        opened = [_open(Path(path)) for path in results]
        present = [one for one in opened if isinstance(one, Results)]
        if not present:
            raise Unreadable("there is no such file", "results of dumbbell study run", file=results[0])
        for one in present:
            require_alike(one.runs.select("experiment", "matrix", "config", "engine_version"))
        with self._report_program_errors():
            return Evidence(kept.Tables(self.program.make_evidence(*opened)), kept.describe_runs(present))

    def gather(self, results: Sequence[str | Path]) -> None:
        """Make the evidence from results files and keep it."""
        self.make_evidence(results).save(self.place / EVIDENCE)

    def read_evidence(self) -> Evidence:
        """Return the evidence that is kept."""
        made = self.place / EVIDENCE
        return Evidence.load(made if made.is_dir() else self.folder / EVIDENCE)

    def render_page(self, evidence: Evidence | None = None) -> str:
        """Return the page. Raises ContradictedError if a statement does not hold."""
        return self._render(TEMPLATE, self.read_evidence() if evidence is None else evidence)

    def render_files(self) -> dict[Path, str]:
        """Return the page and every other file that has a part of this study, as they are to be."""
        found = self.read_evidence()
        texts = {self.page: self.render_page(found)}
        for name, template in getattr(self.program, "PARTS", {}).items():
            if self.output is not None:
                continue  # a part of a file of the folder
            path = self.folder / name
            part = re.compile(rf"(<!-- {self.name} -->\n).*?(<!-- /{self.name} -->)", re.DOTALL)
            before = path.read_text(encoding="utf-8")
            if not part.search(before):
                raise PageError(f"{path}: no <!-- {self.name} --> and <!-- /{self.name} -->")
            made = self._render(template, found)
            texts[path] = part.sub(lambda match, made=made: match[1] + made + match[2], before)  # type: ignore[misc]
        return texts

    def _render(self, template: str, found: Evidence) -> str:
        with self._report_program_errors():
            facts = self.program.make_facts(found) if hasattr(self.program, "make_facts") else {}
        tables = getattr(self.program, "TABLES", {})

        def find_table(name: str) -> str:
            if name not in tables:
                raise PageError(f"no table {name!r}, only {', '.join(tables)}")
            with self._report_program_errors():
                return str(tables[name](found))

        text = (self.folder / template).read_text(encoding="utf-8")
        given = {"table": find_table, "validation": summarise_validation, **facts}
        return render(text, found, given, str(self.folder / template))

    def format_tables(self, evidence: Evidence) -> str:
        """Return its tables as Markdown, each under its name."""
        with self._report_program_errors():
            made = {name: str(make(evidence)) for name, make in getattr(self.program, "TABLES", {}).items()}
        if not made:
            raise Nothing("found no tables", "a study whose page has tables", file=self.name)
        return "\n\n".join(f"## {name}\n\n{text}" for name, text in made.items())

    def draw(
        self,
        only: str | None = None,
        folder: Path | None = None,
        formats: Sequence[str] = (".svg",),
        evidence: Evidence | None = None,
    ) -> list[Path]:
        """Draw its figures, or one, into its folder of figures or another; return their files."""
        if only is not None and only not in self.figures:
            raise UnknownName(only, among=list(self.figures) or "there are none", file=self.name, what="figure")
        found = evidence or self.read_evidence()

        def make_picture(draw: Callable[[Evidence], Picture]) -> Picture:
            with self._report_program_errors():
                return draw(found)

        made = {name: partial(make_picture, draw) for name, draw in self.figures.items()}
        return save_all(made, folder or self.place / PICTURES, only, formats) if made else []

    def list_changes(self) -> list[str]:
        """Return which sampled runs of the evidence have other results with the engine of this checkout."""
        return find_changes(self.sweeps, self.folder, self.read_evidence().made)

    def list_problems(self) -> list[prose.Problem]:
        """Return what the template says by hand."""
        names = getattr(self.program, "NAMES", ())
        texts = [(self.folder / one) for one in (TEMPLATE, *getattr(self.program, "PARTS", {}).values())]
        return [problem for path in texts for problem in prose.find_problems(path.read_text(encoding="utf-8"), names)]


class _Absent:
    """Stands for a results file that is not there: to ask it for anything is an error."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, _: str) -> NoReturn:
        raise Unreadable("there is no such file", "results of dumbbell study run", file=self._path)


def _open(path: Path) -> Results | _Absent:
    return Results(path) if path.exists() else _Absent(path)


def summarise_validation(*names: str) -> str:
    """Return how many cells of these rows of the validation agree, and the worst that does not, as a list."""
    found = Evidence.load(shipped.place() / "validation" / EVIDENCE)
    lines = []
    for name in names:
        row = next(iter(found.select_table("rows")(name=name)))
        uniform = "" if row["uniform"] is None else f", {row['uniform']} within the uniform one"
        counts = f"{row['agree']} of {row['cells']} cells agree within their own tolerance{uniform}"
        line = f"- {row['what']} ({row['reference']}): {counts}"
        outside = found["outside"].filter(pl.col("name") == name).head(1).to_dicts()
        lines.append(line + "".join(f"; the worst cell is {one['cell']}: {one['off']}" for one in outside) + ".")
    return "\n".join(lines)


def list_studies() -> list[str]:
    """Return the names of the studies that come with dumbbell."""
    return [*shipped.list_studies()]


def find_folder(name: str) -> Path:
    """Return the folder of a study: by its name, or one's own as a path with a slash (`./mine`). Raises InputError."""
    is_own = len(Path(name).parts) > 1 or name.startswith("./")
    found = Path(name) if is_own else shipped.place() / name.replace("-", "_")
    if (found / PROGRAM).is_file():
        return found
    also = (
        f"or give ./{name}, whose program then runs"
        if (Path(name) / PROGRAM).is_file()
        else f"or give a folder with {PROGRAM}, such as ./mine"
    )
    raise UnknownName(name, among=list_studies(), command="study", what="study", also=also)


def find(name: str, output: Path | None = None) -> Study:
    """Return a study by its name, or one's own by its folder, which has a slash (`./mine`); its program is run.

    What it writes is written to `output`, or else to its folder.
    """
    found = find_folder(name)
    return Study(found, programs.load(found / PROGRAM), output)
