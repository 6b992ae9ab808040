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
from website import schematic, speeds
from website.links import FILES, title
from website.markdown import ROOT, paragraphs, table

FOLDERS = {
    "abe": "Alternative Backoff with ECN (RFC 8511)",
    "bbr": "BBR against others",
    "bbr-traces": "States of BBR on Linux and in the simulator",
    "coexistence": "BBRv2 and DCTCP over STEP, PI2, CSAQM and tail drop",
    "dualpi2": "L4S: questions about DualPI2 and Prague",
    "dualpi2-versions": "L4S: versions of DualPI2, as in its authors' reports",
    "home": "Uploads, downloads and both at home",
    "hops": "Parking lots, queues behind queues, congested feedback",
    "l4s-classic": "L4S: Prague in a queue of RFC 3168",
    "sce": "Some Congestion Experienced",
    "scoreboard": "Every control, every queue",
    "stacks": "QUIC stacks next to Linux",
    "traces": "Links that follow a trace",
    "traffic": "Short flows and UDP",
    "validation": "Cells that were measured on Linux; the same cells on several engines",
}
# pages that use an experiment, where that is not the page of its study: the first start of a name that fits
PAGES = {
    "dualpi2/mixed-rtt-aqm": "how-to/paper-figure.md",
    "dualpi2/one-flow-aqm": "how-to/paper-figure.md",
    "dualpi2/overload-aqm": "how-to/paper-figure.md",
    "dualpi2-versions/versions-diff": "findings/dualpi2-versions.md",
    "dualpi2-versions/": "how-to/paper-figure.md",
    "hops/two-bottlenecks": "validation-hops.md",
    "hops/": "experiment-files.md",
    "sce/findings-": "findings/sce.md",
    "sce/one-flow-reno-cubic": "how-to/compare.md",
    "sce/": "validation.md",
    "validation/agree": "validation-engines.md",
    "validation/live": "validation-live.md",
    "validation/": "validation.md",
    "traces/": "traces.md",
    "traffic/": "experiment-files.md",
}
# figures whose names do not follow from that of the experiment
FIGURES = {
    "abe/coexistence": "abe-ratio",
    "abe/short": "abe-completion",
    "abe/slow-start": "abe-slow-start",
    "bbr/as-linux-ecn": "bbr-ecn-limit",
    "bbr/share-by-buffer": "bbr-share",
    "bbr/ware-many": "bbr-ware",
    "bbr-traces/bbr-traces": "bbr-trace-bbr3-pfifo-10",
    "coexistence/coexistence": "coexistence-linux",
    "coexistence/equal-1g": "coexistence-08",
    "coexistence/rtts-1g": "coexistence-14",
    "coexistence/rtts-mixed-1g": "coexistence-16",
    "dualpi2-versions/versions-diff": "dualpi2-versions-wrr",
    "dualpi2/questions-fq": "l4s-fq-delay",
    "dualpi2/questions-protection": "l4s-protection-delay",
    "home/rrul": "home-pings",
    "home/two-way": "two-way-queues",
    "l4s-classic/classic-map": "l4s-classic-rate",
    "l4s-classic/classic-published": "l4s-classic-ratios",
}
FIGURE_PREFIXES = {"dualpi2": "l4s"}


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
def contents(file: Path) -> dict[str, Any]:
    """Return an experiment file as a table."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def loaded(file: Path) -> Experiment:
    """Return an experiment file, read and checked."""
    return experiment.load(file)


def _question(file: Path) -> str:
    """Return the comment at the head of a file, as text."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return re.sub(r"\s+", " ", " ".join(lines))


def _figure(name: str) -> str:
    """Return the committed figure of an experiment, from the root of the repository."""
    folder, _, rest = name.partition("/")
    rest = re.sub(r"^(questions|findings|classic)-", "", rest)
    figure = FIGURES.get(name, f"{FIGURE_PREFIXES.get(folder, folder)}-{rest}")
    path = Path("studies") / folder.replace("-", "_") / "figures" / f"{figure}.png"
    return f"{FILES}/{path.as_posix()}" if (ROOT / path).exists() else ""


def _page(name: str) -> str:
    """Return the page that uses an experiment."""
    own = f"findings/{name.partition('/')[0]}.md"
    return next((page for start, page in PAGES.items() if name.startswith(start)), own)


@cache
def entries() -> list[Entry]:
    """Return every experiment, in the order of the names."""
    found = []
    for name, file in shipped.experiments().items():
        title = str(contents(file).get("title", name))
        found.append(Entry(name, title, _question(file), _page(name), _figure(name), file))
    return found


def folders() -> dict[str, list[Entry]]:
    """Return the experiments by folder."""
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        found.setdefault(entry.folder, []).append(entry)
    return found


def _count(number: float) -> str:
    """Return a number of packets in two digits, in millions from a million on."""
    digits = float(f"{number:.2g}")
    return f"{digits / 1e6:,g} million" if number >= 1e6 else f"{digits:,.0f}"


def _time(seconds: float) -> str:
    """Return a duration as a reader plans with it: `5 s`, `40 s`, `3 min`, `2 h`."""
    if seconds < 60:
        return "a few seconds" if seconds < 10 else f"{round(seconds, -1):g} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.0f} h"


def size(entry: Entry) -> str:
    """Return how many runs an experiment has, about how many packets pass its bottleneck, and how long that takes.

    The packets are those of up to 20 runs, times the number of runs: what `dumbbell run --dry-run` begins with. Of an
    experiment with QUIC stacks, which may not be built here, it says which.
    """
    if stacks := built.named_in(entry.file.read_text(encoding="utf-8")):
        return f"needs {', '.join(stacks)} ([how to build them](../how-to/quic-stack.md))"
    runs = len(loaded(entry.file))
    sample = [cell.packets for cell in loaded(entry.file).sample(20)]
    packets = sum(sample) * runs / len(sample)
    time = _time(speeds.seconds(entry.name, packets, max(sample)))
    counted = "1 run" if runs == 1 else f"{runs:,} runs"
    return f"{counted}, about {_count(packets)} packets, {time} on {speeds.CORES} cores"


def _entry(entry: Entry, sized: bool) -> Iterator[str]:
    yield f"## {entry.title} {{ #{entry.anchor} }}"
    if entry.figure:
        picture = f"![{entry.title}](../{entry.figure}){{ .thumbnail loading=lazy }}"
        yield f"[{picture}](../{entry.figure})"
    else:
        yield f'<div class="thumbnail setup">{schematic.draw(contents(entry.file))}</div>'
    yield entry.question.replace("<", "&lt;")
    yield f"    dumbbell run {entry.name}"
    told = [size(entry)] if sized else []
    told += [f"[`{entry.name}.toml`](../{FILES}/{entry.file.relative_to(ROOT).as_posix()})"]
    told += [f"used by [{title(entry.page)}](../{entry.page})"] * bool(entry.page)
    yield "; ".join(told) + "."


def page(folder: str, *, sized: bool = True) -> str:
    """Return the page of a folder; `sized` says how large every experiment is, which takes seconds to find out."""
    parts = [f"# {FOLDERS[folder]}"]
    for entry in folders()[folder]:
        parts += _entry(entry, sized)
    return paragraphs(parts)


def index() -> str:
    """Return the table of all folders, and of all experiments."""
    rows = [[f"[{FOLDERS[folder]}]({folder}.md)", str(len(found))] for folder, found in folders().items()]
    parts = [table(["folder", "experiments"], rows)]
    for folder, found in folders().items():
        lines = [f"- [`{one.name}`]({folder}.md#{one.anchor}): {one.title}" for one in found]
        parts += [f"## {FOLDERS[folder]}", "\n".join(lines)]
    return paragraphs(parts)
