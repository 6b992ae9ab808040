"""A study: a folder with a page's template, the program that makes its tables and figures, and the evidence.

    studies/NAME/page.md      the template
    studies/NAME/study.py     what it is made of, below
    studies/NAME/evidence/    small tables, written from results by `Study.gather`
    studies/NAME/experiments/ experiment files of its own (optional)

`study.py` has

    PAGE                      where the page goes, from the root of the repository, or of a study of one's own from its
                              folder; its figures go with it
    RUNS                      `Sweep`s: which experiments it rests on, and the results file of each
    evidence(*results)        polars frames by name, from the `Results` of these files in their order (optional)
    facts(evidence)           what else the template may name, as a dict (optional)
    TABLES, FIGURES           functions of evidence by name: Markdown text; a `Picture`, saved as NAME.png
    PARTS                     templates by file: the part of it between `<!-- NAME -->` and `<!-- /NAME -->`, with the
                              name of the study (optional)
    NAMES                     patterns of names with digits that are no results (optional)

Other modules of the folder are imported as `from .other import name`.
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import polars as pl

from dumbbell.errors import UnknownName, Unreadable, WrongValue
from dumbbell.experiment import shipped
from dumbbell.figures import Picture, save
from dumbbell.pages import evidence as kept
from dumbbell.pages import prose
from dumbbell.pages.evidence import Evidence
from dumbbell.pages.sweeps import Sweep
from dumbbell.pages.sweeps import names as names_of
from dumbbell.pages.template import render
from dumbbell.pages.values import PageError
from dumbbell.results.results import Results

TEMPLATE, PROGRAM, EVIDENCE = "page.md", "study.py", "evidence"
FORMATS = (".png", ".pdf", ".svg")


@dataclass
class Study:
    """A study's folder and its program."""

    folder: Path
    program: ModuleType
    root: Path = field(default_factory=lambda: shipped.REPOSITORY)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.folder.name

    @property
    def page(self) -> Path:
        """Where its page is."""
        return self.root / str(self.program.PAGE)

    @property
    def figures(self) -> dict[str, Callable[[Evidence], Picture]]:
        """Its figures, by name."""
        return dict(getattr(self.program, "FIGURES", {}))

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """What it runs."""
        return tuple(getattr(self.program, "RUNS", ()))

    @property
    def results(self) -> list[str]:
        """The names of its results files."""
        return names_of(self.sweeps)

    def found(self, results: Sequence[str | Path]) -> Evidence:
        """Make the evidence from results files, or from those of its names in one folder."""
        if len(results) == 1 and Path(results[0]).is_dir():
            results = [Path(results[0]) / name for name in self.results]
        if len(results) != len(self.results):
            wanted = f"{len(self.results)}: {', '.join(self.results) or 'none'}"
            raise WrongValue(self.name, "RESULTS", f"{len(results)} files", wanted)
        opened = [Results(path) for path in results]
        return Evidence(self.program.evidence(*opened), kept.made(opened))

    def gather(self, results: Sequence[str | Path]) -> None:
        """Make the evidence from results files and keep it."""
        self.found(results).save(self.folder / EVIDENCE)

    def evidence(self) -> Evidence:
        """Return the evidence that is kept."""
        return Evidence.load(self.folder / EVIDENCE)

    def text(self, evidence: Evidence | None = None) -> str:
        """Return the page. Raises ContradictedError if a statement does not hold."""
        return self._rendered(TEMPLATE, self.evidence() if evidence is None else evidence)

    def texts(self) -> dict[Path, str]:
        """Return the page and every other file that has a part of this study, as they are to be."""
        found = self.evidence()
        texts = {self.page: self.text(found)}
        for name, template in getattr(self.program, "PARTS", {}).items():
            path = self.root / name
            part = re.compile(rf"(<!-- {self.name} -->\n).*?(<!-- /{self.name} -->)", re.DOTALL)
            before = path.read_text(encoding="utf-8")
            if not part.search(before):
                raise PageError(f"{path}: no <!-- {self.name} --> and <!-- /{self.name} -->")
            made = self._rendered(template, found)
            texts[path] = part.sub(lambda match, made=made: match[1] + made + match[2], before)  # type: ignore[misc]
        return texts

    def _rendered(self, template: str, found: Evidence) -> str:
        facts = self.program.facts(found) if hasattr(self.program, "facts") else {}
        tables = getattr(self.program, "TABLES", {})

        def table(name: str) -> str:
            if name not in tables:
                raise PageError(f"no table {name!r}, only {', '.join(tables)}")
            return str(tables[name](found))

        text = (self.folder / template).read_text(encoding="utf-8")
        given = {"table": table, "validation": validation, **facts}
        return render(text, found, given, str(self.folder / template))

    def draw(
        self,
        only: str | None = None,
        folder: Path | None = None,
        formats: Sequence[str] = (".png",),
        evidence: Evidence | None = None,
    ) -> list[Path]:
        """Draw its figures, or one, next to the page or into a folder; return their files."""
        if only is not None and only not in self.figures:
            raise UnknownName(self.name, "", only, list(self.figures) or "there are none", what="figure")
        place, found, made = folder or self.page.parent, evidence or self.evidence(), []
        for name, make in self.figures.items():
            if only in (None, name):
                picture = make(found)
                for ending in formats:
                    save(picture, str(place / f"{name}{ending}"))
                    made.append(place / f"{name}{ending}")
        return made

    def problems(self) -> list[prose.Problem]:
        """Return what the template says by hand."""
        names = getattr(self.program, "NAMES", ())
        texts = [(self.folder / one) for one in (TEMPLATE, *getattr(self.program, "PARTS", {}).values())]
        return [problem for path in texts for problem in prose.problems(path.read_text(encoding="utf-8"), names)]


def validation(*names: str) -> str:
    """Return how many cells of these rows of docs/validation.md agree, and the worst that does not, as a list."""
    found = Evidence.load(place() / "validation" / EVIDENCE)
    lines = []
    for name in names:
        row = next(iter(found.rows("rows")(name=name)))
        line = f"- {row['what']} ({row['reference']}): {row['agree']} of {row['cells']} cells agree"
        outside = found["outside"].filter(pl.col("name") == name).head(1).to_dicts()
        lines.append(line + "".join(f"; the worst, {one['cell']}: {one['off']}" for one in outside) + ".")
    return "\n".join(lines)


def place() -> Path:
    """Return the folder of the studies that come with dumbbell."""
    return shipped.folder("studies")


def names() -> list[str]:
    """Return the names of the studies that come with dumbbell."""
    return sorted(path.parent.name for path in place().glob(f"*/{PROGRAM}"))


def find(name: str) -> Study:
    """Return a study by its name, or one's own by its folder, which has a slash (`./mine`); its program is run."""
    here = [place() / name.replace("-", "_")]  # Python has no packages with a hyphen
    if is_own := len(Path(name).parts) > 1 or name.startswith("./"):
        here = [Path(name)]
    folder = next((one for one in here if (one / PROGRAM).is_file()), None)
    if folder is None:
        also = (
            f"./{name}, whose program runs then"
            if (Path(name) / PROGRAM).is_file()
            else f"a folder with {PROGRAM}, such as ./mine"
        )
        raise UnknownName("study", "", name, names(), what="study", also=also)
    program = folder / PROGRAM
    module_name = f"dumbbell_study_{re.sub(r'[^a-zA-Z0-9]', '_', folder.resolve().name)}"
    for loaded in [one for one in sys.modules if one.partition(".")[0] == module_name]:
        del sys.modules[loaded]  # another folder of this name
    spec = importlib.util.spec_from_file_location(
        module_name, program, submodule_search_locations=[str(folder.resolve())]
    )
    if spec is None or spec.loader is None:
        raise Unreadable(str(program), "", "this is not Python", "a program")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # `from .other import` looks there
    spec.loader.exec_module(module)
    return Study(folder, module, folder) if is_own else Study(folder, module)
