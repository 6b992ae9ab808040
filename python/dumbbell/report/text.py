"""The parts of a report that are there before any script has run; `web/sections.html` is how they look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from dumbbell.report import setting
from dumbbell.report.findings import ReportSide
from dumbbell.report.sources import ReportRuns, ReportSource
from dumbbell.results.versions import find_kind, find_title
from dumbbell.words import capitalise, format_work_time

_MOST_TEXTS, _LONGEST = 12, 300
_BREAK = Markup("<br>")


@cache
def _load_sections() -> Any:
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, comment_start_string="{##", comment_end_string="##}"
    )
    environment.filters["is_number"] = is_number
    file = Path(__file__).parent / "web" / "sections.html"
    return environment.from_string(file.read_text(encoding="utf-8")).module


def make_section(name: str, *values: Any) -> str:
    """Return a section as HTML: the macro of this name, of these values."""
    return str(getattr(_load_sections(), name)(*values))


def is_number(text: str) -> bool:
    """Return whether the text of a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _format_version(version: str, names: dict[str, str]) -> str:
    name = names.get(version, version)
    return version if name == version or find_kind(version) != "linux" else f"{name}: {version}"


def _join_values(texts: Sequence[str]) -> str:
    """Return the values of a key, the first and the last of many."""
    comma = "; " if any(", " in text for text in texts) else ", "
    if len(texts) <= _MOST_TEXTS and len(", ".join(texts)) <= _LONGEST:
        return comma.join(texts)
    first = [texts[0]]
    while len(first) < min(_MOST_TEXTS, len(texts)) - 1 and len(", ".join([*first, texts[len(first)]])) <= _LONGEST / 2:
        first.append(texts[len(first)])
    return f"{comma.join(first)}{comma}… {texts[-1]} ({len(texts)} values)"


def make_setup_section(runs: ReportRuns, sides: Sequence[ReportSide]) -> str:
    """Return the section that says what was run: files, experiments, engines, seeds, time, keys, settings."""
    frame = runs.frame
    titles = dict(frame.select("experiment", "title").unique(maintain_order=True).rows())
    experiments = [Markup("<b>{}</b>{}").format(name, f": {title}" if title else "") for name, title in titles.items()]
    cells = sum(len(side.cells) for side in sides)
    seeds = sorted(frame["seed"].unique().to_list())
    listed = (
        ", ".join(map(str, seeds)) if len(seeds) <= _MOST_TEXTS else f"{len(seeds)}, from {seeds[0]} to {seeds[-1]}"
    )
    versions = frame["engine_version"].unique(maintain_order=True).to_list()
    engines = {version: name for one in runs.sources for version, name in one.engines.items()}
    configs = [config for one in runs.sources for config in one.results.configurations.values()]
    times = sorted({config["duration"] / 1e9 for config in configs})
    lasting = " to ".join(dict.fromkeys(map(format_work_time, (times[0], times[-1]))))
    wall = float(frame["wall_s"].fill_nan(None).sum() or 0.0)
    rows = [
        ("results", _BREAK.join(_describe_file(one) for one in runs.sources)),
        ("experiments" if len(titles) > 1 else "experiment", _BREAK.join(experiments)),
        ("runs", f"{frame.height} of {cells} cells; {'seeds' if len(seeds) > 1 else 'seed'} {listed}"),
        (
            "engines" if len(versions) > 1 else "engine",
            _BREAK.join(f"{_format_version(one, engines)}, {find_title(one)}" for one in versions),
        ),
        ("time", f"{lasting} in each run; {format_work_time(wall)} of computation in all"),
    ]
    keys = [(key.name, _join_values(key.texts)) for key in runs.keys if key.name != "experiment"]
    notes = [
        f"{one.name}: {note}" if len(runs.sources) > 1 else note for one in runs.sources for note in one.results.notes
    ]
    notes = [*runs.differ_as_well, *notes]
    if late := runs.late:
        were = "were" if len(late) > 1 else "was"
        notes.append(f"{len(late)} of the runs in real time {were} too late, and should not count")
    tables = (rows, [*keys, *setting.describe_sections(configs)])
    return make_section("setup", tables, [f"{capitalise(note)}." for note in notes])


def _describe_file(source: ReportSource) -> Markup:
    path = source.results.path
    written = datetime.fromtimestamp(path.stat().st_mtime).astimezone().strftime("%Y-%m-%d %H:%M")
    return Markup("<code>{}</code>, written {}").format(path, written)


def make_data_section(runs: ReportRuns, files: Sequence[str], rounded: str) -> str:
    """Return the section of data: files next to the page, or the commands that write them."""
    commands = [
        f"dumbbell export {one.results.path} --format parquet -o tables{f'-{i}' * (len(runs.sources) > 1)}"
        for i, one in enumerate(runs.sources, 1)
    ]
    return make_section("data", files, commands, rounded)
