"""The gallery: every experiment that comes with dumbbell, its question, command, size, page and figure."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dumbbell import experiment
from dumbbell.experiment import shipped
from dumbbell.experiment.file import Experiment
from dumbbell.experiment.plugins import built
from website import playground, speeds
from website.findings import find_study_page, list_studies
from website.links import FILES, NOTEBOOKS, list_sources, read_title
from website.markdown import DOCS, ROOT, format_table, join_paragraphs

# titles of folders that have experiments alone; a study's folder has the title of its page
TITLES = {
    "hops": "Parking lots, queues behind queues, congested feedback",
    "traces": "Links that follow a trace",
    "traffic": "Short flows and UDP",
}
_FIGURE = re.compile(r"^!\[[^\]]*\]\([^)]*/figures/(?P<name>[\w-]+)\.svg\)$", re.MULTILINE)
ELSEWHERE = "experiment-files.md"  # where to read on about an experiment that no page uses


@dataclass(frozen=True)
class Entry:
    """One experiment file; `page` and `figure` are places on the site, empty if there are none."""

    name: str
    title: str
    question: str
    page: str
    figure: str
    file: Path

    @property
    def folder(self) -> str:
        """Folder of the file, which is a page of the gallery."""
        return self.name.partition("/")[0]

    @property
    def anchor(self) -> str:
        """Anchor of the experiment on the page of its folder."""
        return self.name.partition("/")[2].replace("/", "-")


@cache
def read_contents(file: Path) -> dict[str, Any]:
    """Return an experiment file as a table."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def load_experiment(file: Path) -> Experiment:
    """Return an experiment file, read and checked."""
    return experiment.load(file)


def _read_question(file: Path) -> str:
    """Return the comment at the head of a file, as text."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return re.sub(r"\s+", " ", " ".join(lines))


def _find_figure(name: str) -> str:
    """Return the committed figure of an experiment, from the root of the site, or nothing.

    A study's program names it in `GALLERY`; otherwise it is called as the study and the experiment are.
    """
    folder, _, rest = name.partition("/")
    named = getattr(list_studies()[folder].program, "GALLERY", {}) if folder in list_studies() else {}
    path = Path("studies") / folder.replace("-", "_") / "figures" / f"{named.get(rest, f'{folder}-{rest}')}.svg"
    return f"{FILES}/{path.as_posix()}" if (ROOT / path).exists() else ""


@cache
def _list_drawn() -> dict[str, Entry]:
    """Return the experiment whose runs each committed figure of a study draws, by the name of the figure.

    A study's program names in `ALSO_DRAWN` the experiments of the figures that the gallery does not show.
    """
    entries = {entry.name: entry for entry in list_entries()}
    found = {Path(entry.figure).stem: entry for entry in reversed(entries.values()) if entry.figure}
    for name, one in list_studies().items():
        for figure, experiment_name in getattr(one.program, "ALSO_DRAWN", {}).items():
            found.setdefault(figure, entries[f"{name}/{experiment_name}"])
    return found


def link_figures(text: str, page: str) -> str:
    """Return a page with a link below each figure of a study: the first run of its experiment, in the playground."""

    def add_link(image: re.Match[str]) -> str:
        entry = _list_drawn().get(image["name"])
        if entry is None or built.list_named(entry.file.read_text(encoding="utf-8")):
            return image[0]
        link = playground.make_link(load_experiment(entry.file).make_cell(0), page)
        return f"{image[0]}\n\nThe first run of `{entry.name}`: {link}." if link else image[0]

    return _FIGURE.sub(add_link, text)


@cache
def _find_users() -> dict[Path, list[str]]:
    """Return the studies that run each experiment file."""
    files = shipped.list_experiments()
    found: dict[Path, list[str]] = {}
    for study in list_studies().values():
        for sweep in study.sweeps:
            for file in sweep.list_files(study.folder):
                found.setdefault(files.get(file, Path(file)).resolve(), []).append(study.name)
    return found


def _find_page(name: str, file: Path) -> str:
    """Return the page to read about an experiment.

    It is the page of the study in its folder if that study runs the experiment, else the first page of `docs` that
    names it, else the page of another study that runs it, else that of its folder's study.
    """
    folder, users = name.partition("/")[0], _find_users().get(file.resolve(), [])
    naming = re.compile(rf"{re.escape(name)}(?![\w/-])")
    pages = [place for place, text in _read_prose().items() if naming.search(text)]
    own = [folder] if folder in list_studies() else []
    ordered = [
        *(find_study_page(one) for one in own if one in users),
        *pages,
        *map(find_study_page, [*users, *own]),
        ELSEWHERE,
    ]
    return ordered[0]


@cache
def _read_prose() -> dict[str, str]:
    """Return the texts of hand-written pages, by their places on the site."""
    written = {place: file for place, file in list_sources().items() if file.is_relative_to(DOCS)}
    return {place: file.read_text(encoding="utf-8") for place, file in written.items() if place not in NOTEBOOKS}


@cache
def list_entries() -> list[Entry]:
    """Return every experiment, in the order of the names."""
    found = []
    for name, file in shipped.list_experiments().items():
        title = str(read_contents(file).get("title", name))
        found.append(Entry(name, title, _read_question(file), _find_page(name, file), _find_figure(name), file))
    return found


def list_folders() -> dict[str, list[Entry]]:
    """Return the experiments by folder."""
    found: dict[str, list[Entry]] = {}
    for entry in list_entries():
        found.setdefault(entry.folder, []).append(entry)
    return found


def make_folder_title(folder: str) -> str:
    """Return the title of the gallery's page of a folder."""
    return TITLES[folder] if folder in TITLES else read_title(find_study_page(folder))


def _format_entry_count(number: float) -> str:
    """Return a number of packets in two digits, in millions from a million on."""
    digits = float(f"{number:.2g}")
    return f"{digits / 1e6:,g} million" if number >= 1e6 else f"{digits:,.0f}"


def _format_time(seconds: float) -> str:
    """Return a duration as a reader plans with it: `5 s`, `40 s`, `3 min`, `2 h`."""
    if seconds < 60:
        return "a few seconds" if seconds < 10 else f"{round(seconds, -1):g} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.0f} h"


def describe_size(entry: Entry) -> str:
    """Return how many runs an experiment has, about how many packets pass its bottleneck, and how long that takes.

    The packets are those of up to 20 runs, times the number of runs: what `dumbbell run --dry-run` begins with. Of an
    experiment with QUIC stacks, which may not be built here, it says which.
    """
    if stacks := built.list_named(entry.file.read_text(encoding="utf-8")):
        return f"needs {', '.join(stacks)} ([how to build them](../how-to/quic-stack.md))"
    runs = len(load_experiment(entry.file))
    sample = [cell.packets for cell in load_experiment(entry.file).sample_cells(20)]
    packets = sum(sample) * runs / len(sample)
    time = _format_time(speeds.estimate_seconds(entry.name, packets, max(sample)))
    counted = "1 run" if runs == 1 else f"{runs:,} runs"
    return f"{counted}, about {_format_entry_count(packets)} packets, {time} on {speeds.CORES} cores"


def _make_entry(entry: Entry, sized: bool) -> Iterator[str]:
    yield f"## {entry.title} {{ #{entry.anchor} }}"
    if entry.figure:
        picture = f"![{entry.title}](../{entry.figure}){{ .thumbnail loading=lazy }}"
        yield f"[{picture}](../{entry.figure})"
    yield entry.question.replace("<", "&lt;")
    yield f"    dumbbell run {entry.name}"
    told = [describe_size(entry)] if sized else []
    told += [f"[`{entry.name}.toml`](../{FILES}/{entry.file.relative_to(ROOT).as_posix()})"]
    if sized and not built.list_named(entry.file.read_text(encoding="utf-8")):
        told += filter(None, [playground.make_link(load_experiment(entry.file).make_cell(0))])
    told += [f"used by [{read_title(entry.page)}](../{entry.page})"] * bool(entry.page)
    yield "; ".join(told) + "."


def make_page(folder: str, *, sized: bool = True) -> str:
    """Return the page of a folder; `sized` says how large every experiment is, which takes seconds to find out."""
    parts = [f"# {make_folder_title(folder)}"]
    for entry in list_folders()[folder]:
        parts += _make_entry(entry, sized)
    return join_paragraphs(parts)


def make_index() -> str:
    """Return the table of all folders, and of all experiments."""
    rows = [
        [f"[{make_folder_title(folder)}]({folder}.md)", str(len(found))] for folder, found in list_folders().items()
    ]
    parts = [format_table(["folder", "experiments"], rows)]
    for folder, found in list_folders().items():
        lines = [f"- [`{one.name}`]({folder}.md#{one.anchor}): {one.title}" for one in found]
        parts += [f"## {make_folder_title(folder)}", "\n".join(lines)]
    return join_paragraphs(parts)
