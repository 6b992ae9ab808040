"""From runs to a page: what is in it, how large it may be, and where it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from dumbbell import play
from dumbbell.figures import html
from dumbbell.figures.palette import list_named_places
from dumbbell.report import findings, references, repeat, report_tables, shares, text, verdict
from dumbbell.report.report_tables import ReportTable
from dumbbell.report.series import RUNS_OF_A_CHUNK, Chunk, ReportSeries
from dumbbell.report.sources import FILE, ReportRuns, open_files
from dumbbell.results.aggregate import LEVEL
from dumbbell.results.columns import TABLES
from dumbbell.results.results import StoredResults
from dumbbell.results.student import compute_t_quantile
from dumbbell.results.versions import find_kind
from dumbbell.scratch import replace_whole
from dumbbell.writing import refuse_file_name, report_write_failures

BYTES_OF_1000_RUNS = 3_000_000  # a page may have so many, or as many as its share if it has more runs
_FEWEST_POINTS = 10
_DATA = "data"  # the folder next to a page in a folder
_SCRIPTS = ("model.js", "figures.js", "panel.js", "tables.js", "report.js")
_PAGE = "index.html"
_PLAYGROUND = "playground.html"  # the page of dumbbell play next to a report
_SEED = re.compile(r'"seed":[0-9]+,?')
# the figures of a report, as far as the runs have these measures
_FIGURES = (
    *("apps.delay_p99_ms", "apps.mos", "apps.load_p95_s"),
    *("slowdowns.slowdown_mean", "runs.utilisation", "runs.sojourn_mean_ms", "runs.jain", "flows.goodput_mbit"),
    *(
        "flows.rtt_mean_ms",
        "runs.mark_share",
        "runs.drop_share",
        "hops.sojourn_mean_ms",
        "hops.utilisation",
        "hops.drop_share",
    ),
)
_MOST_FIGURES = 6


def write(
    sources: Sequence[str | Path | StoredResults] | str | Path | StoredResults,
    output: str | Path = "report.html",
    *,
    where: Sequence[str] = (),
    engine: str | None = None,
    suites: Sequence[str] = (),
    references: Sequence[str] = (),
    run_program: bool = False,
    title: str | None = None,
    answer: Sequence[str] = (),
    playground: bool = False,
) -> Path:
    """Write a report of results and return the path of its page.

    `sources` are results files, or results that are open; of a file the newest version of each kind of engine counts,
    unless `engine` names one. `output` is a file that ends in .html, or a folder, in which the page is `index.html` and
    next to it are its time series in full and every table as CSV and Parquet. `suites`, of statements, and `references`
    are files, or names of those that come with dumbbell, which are taken in anyway if they are about these runs.
    `run_program` runs the program next to a suite. `answer` are sentences for the head of the page, the most important
    one first. `playground` writes the page of `dumbbell play` next to it as `playground.html`, to which runs of the
    simulator then lead.

    Raises InputError if there are no runs, or the page cannot be written.
    """
    path = Path(output)
    is_file = path.suffix.lower() in (".html", ".htm")
    if not is_file:
        refuse_file_name(path, "a page that ends in .html, or a folder")
    listed = [sources] if isinstance(sources, str | Path | StoredResults) else list(sources)
    runs = ReportRuns(open_files(listed, where, engine))
    play_page = play.make_page() if playground else None
    made = _Report(runs, suites, references, run_program=run_program, title=title, answer=answer, leads_on=playground)
    with report_write_failures(output, "a file in a folder that can be written to"):
        page = made.write_file(path) if is_file else made.write_folder(path)
        if play_page is not None:
            page.with_name(_PLAYGROUND).write_text(play_page, encoding="utf-8")
        return page


class _Report:
    """Everything that a page is made from."""

    def __init__(
        self,
        runs: ReportRuns,
        suites: Sequence[str],
        wanted: Sequence[str],
        *,
        run_program: bool,
        title: str | None,
        answer: Sequence[str],
        leads_on: bool,
    ) -> None:
        self._runs, self._leads_on = runs, leads_on
        self._models: dict[str | None, str] = {}
        self._sides = findings.list_sides(runs)
        self._tables = report_tables.make_tables(runs)
        self._compared, refused = findings.compare_sides(self._sides)
        judged = findings.judge_suites(runs, self._sides, suites, run_program=run_program)
        self._published = references.list_published(self._sides, wanted)
        names = [side.name for side in self._sides]
        self._title = title or _make_title(runs)
        verdicts, narrowed = verdict.make_verdicts(self._sides)
        self._sections = {}
        if answer:
            self._sections["answer"] = ("Answer", text.make_section("answer", answer))
        if verdicts:
            self._sections["verdict"] = ("Verdict", text.make_section("verdicts", verdicts, narrowed))
        self._sections |= {
            "run": ("What was run", text.make_setup_section(runs, self._sides)),
            "findings": (
                "Findings",
                text.make_section(
                    "findings",
                    judged,
                    self._compared,
                    refused,
                    findings.rank_keys(self._sides),
                    names,
                    shares.compute_shares(self._sides),
                    shares.describe_run(self._sides),
                ),
            ),
        }

    # to files

    def write_file(self, path: Path) -> Path:
        """Write the page as one file."""
        series = ReportSeries(self._runs)
        extra = self._make_run_writer()
        rest = len(self._make_page("", [], None, points=None).encode())
        allowed = BYTES_OF_1000_RUNS * max(1.0, len(self._runs) / 1000) - rest
        most, share = None, 1.0
        chunks = _list_texts(series, most, extra)
        while (size := sum(map(len, chunks))) > allowed and (most is None or most > _FEWEST_POINTS):
            share *= 0.93 * max(0.05, allowed / size)
            most = max(_FEWEST_POINTS, min(series.find_most(share), most - 1 if most else series.find_most(1.0)))
            chunks = _list_texts(series, most, extra)
        elements = [
            f'<script type="text/plain" id="chunk-{number}">{chunk}</script>' for number, chunk in enumerate(chunks)
        ]
        content = self._make_page("", elements, None, points=most)
        with replace_whole(path) as draft:
            draft.write_text(content, encoding="utf-8")
        return path

    def write_folder(self, folder: Path) -> Path:
        """Write the page, its time series and every table into a folder."""
        data = folder / _DATA
        data.mkdir(parents=True, exist_ok=True)
        for number, chunk in enumerate(_list_texts(ReportSeries(self._runs), None, self._make_run_writer())):
            (data / f"runs-{number}.js").write_text(f'dumbbellChunk({number},"{chunk}");\n', encoding="utf-8")
        files = []
        for number, source in enumerate(self._runs.sources, 1):
            for name in TABLES:
                frame = source.results.frame(name)
                if frame.is_empty():
                    continue
                stem = name if len(self._runs.sources) == 1 else f"{number}-{name}"
                frame.write_csv(data / f"{stem}.csv")
                frame.write_parquet(data / f"{stem}.parquet")
                files += [f"{_DATA}/{stem}.csv", f"{_DATA}/{stem}.parquet"]
        page = folder / _PAGE
        page.write_text(self._make_page("\n".join(files), [], _DATA, points=None), encoding="utf-8")
        return page

    # the page

    def _make_page(self, files: str, elements: Sequence[str], beside: str | None, *, points: int | None) -> str:
        rounded = "Values in this page have six significant digits, time series four."
        if points is not None:
            rounded += f" To keep the page small, lines over time have at most {points} points: -o FOLDER has all."
        sections = dict(self._sections)
        sections["figures-section"] = ("Figures", self._make_figures())
        if self._compared:
            sections["sides-section"] = ("Side by side", '<h2>Side by side</h2><div id="sides"></div>')
        if self._published:
            sections["published-section"] = ("Published numbers", text.make_section("published", self._published))
        sections["means-section"] = ("Table", '<h2>Table</h2><div id="means"></div>')
        sections["data"] = ("Data", text.make_data_section(self._runs, files.split(), rounded))
        links = "".join(f'<a href="#{name}">{escape(label)}</a>' for name, (label, _) in sections.items())
        body = f'<nav class="parts" aria-label="Parts of this page">{links}</nav>'
        body += "".join(f'<section id="{name}">{part}</section>' for name, (_, part) in sections.items())
        body += '<aside id="panel" hidden aria-label="Runs behind a cell"></aside>'
        if beside not in self._models:
            self._models[beside] = html.pack_bytes(html.to_json(self._make_model(beside)).encode())
        model = self._models[beside]
        return html.make_page(
            self._title,
            body,
            elements=[f'<script type="text/plain" id="model">{model}</script>', *elements],
            scripts=[(Path(__file__).parent / "web" / name).read_text(encoding="utf-8") for name in _SCRIPTS],
            style=(Path(__file__).parent / "web" / "report.css").read_text(encoding="utf-8"),
            loads_scripts=beside is not None,
        )

    def _make_figures(self) -> str:
        alone = '<div id="alone"></div>' if self._is_alone else ""
        filters = '<div id="filters" role="group" aria-label="Filters"></div>'
        return f'<h2>Figures</h2>{filters}{alone}<div id="figures"></div>'

    @property
    def _is_alone(self) -> bool:
        """Whether all runs are of one cell, by one engine or several, whose time series are the figure."""
        sides = {FILE, "engine_version", "kernel"}
        return {key.name for key in self._runs.keys} <= sides and len(self._runs) <= RUNS_OF_A_CHUNK

    def _make_model(self, beside: str | None) -> dict[str, Any]:
        frame = self._runs.frame
        hashes = {text: number for number, text in enumerate(frame["hash"].unique(maintain_order=True).to_list())}
        side_of = {run: number for number, side in enumerate(self._sides) for run in side.number_of.values()}
        most = int(frame.group_by("source", "cell_name").len()["len"].max() or 1)  # type: ignore[arg-type]
        return {
            "keys": [asdict(key) for key in self._runs.keys],
            "places": list_named_places(),
            "key": frame["key"].to_list(),
            "seed": frame["seed"].to_list(),
            "hash": [hashes[text] for text in frame["hash"].to_list()],
            "wall": report_tables.round_values(frame["wall_s"]),
            "late": self._runs.late,
            "side": [side_of[run] for run in frame["run"].to_list()],
            "sides": [{"name": side.name, "engine": side.results.engines[0]} for side in self._sides],
            "experiments": {"names": self._runs.experiments, "unlike": _list_unlike(self._runs)},
            "student": [compute_t_quantile(freedom, LEVEL) for freedom in range(1, max(2, most + 1))],
            "tables": [report_tables.to_data(table) for table in self._tables],
            "figures": _plan_figures(self._runs, self._tables, alone=self._is_alone),
            "alone": list(range(len(self._runs))) if self._is_alone else None,
            "compared": [{"a": one.a, "b": one.b, "cells": one.cells, "lines": one.lines} for one in self._compared],
            "published": [{"name": one.name, "side": one.side, "pairs": one.pairs} for one in self._published],
            "chunks": {"runs": RUNS_OF_A_CHUNK, "beside": beside},
            "playground": _PLAYGROUND if self._leads_on else None,
        }

    def _make_run_writer(self) -> Callable[[Chunk], Chunk]:
        """Return what adds to a chunk the commands and configurations of its runs."""
        commands = repeat.list_commands(self._runs)
        versions = self._runs.frame["engine_version"].to_list()
        configs = [_SEED.sub("", config) for config in self._runs.frame["config"].to_list()]

        def add_runs(chunk: Chunk) -> Chunk:
            first = chunk.number * RUNS_OF_A_CHUNK
            own = configs[first : first + RUNS_OF_A_CHUNK]
            known = list(dict.fromkeys(own))
            places = {config: number for number, config in enumerate(known)}
            plays = [self._leads_on and _can_play(*one) for one in zip(own, versions[first:], strict=False)]
            head = chunk.head | {
                "commands": commands[first : first + RUNS_OF_A_CHUNK],
                "configs": known,
                "config": [places[config] for config in own],
                "plays": plays,
            }
            return Chunk(chunk.number, head, chunk.body)

        return add_runs


def _can_play(config: str, version: str) -> bool:
    """Return whether the playground shows a run: one of the simulator, over the hops that it has."""
    if find_kind(version) != "sim":
        return False
    known = json.loads(config)
    return not any(known.get(key) for key in play.NOT_SHOWN)


def _list_texts(series: ReportSeries, most: int | None, extra: Callable[[Chunk], Chunk]) -> list[str]:
    return [extra(chunk).to_text() for chunk in series.make_chunks(most)]


def _make_title(runs: ReportRuns) -> str:
    titles = [title for title in runs.frame["title"].unique(maintain_order=True).to_list() if title]
    if len(titles) == 1:
        return str(titles[0])
    names = runs.experiments
    ahead = {title.partition(": ")[0] for title in titles if ": " in title}
    if len(ahead) == 1 and len(names) <= 3 and all(": " in title for title in titles):
        return f"{ahead.pop()}: {', '.join(names)}"
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} experiments"


def _list_unlike(runs: ReportRuns) -> list[str]:
    """Return the experiments, if they do not all vary the same keys: figures then are of one at first."""
    codes = {key.name: key.codes for key in runs.keys}
    names = runs.frame["experiment"].to_list()
    if "experiment" not in codes:
        return []
    varied = set()
    for experiment in runs.experiments:
        own = [run for run, name in enumerate(names) if name == experiment]
        varied.add(
            tuple(
                name
                for name, of_run in codes.items()
                if name not in ("experiment", "engine_version", FILE) and len({of_run[run] for run in own}) > 1
            )
        )
    return runs.experiments if len(varied) > 1 else []


def _plan_figures(runs: ReportRuns, tables: Sequence[ReportTable], *, alone: bool) -> list[dict[str, str]]:
    """Return the figures that a page begins with: measures that are not the same everywhere."""
    if alone and len(runs) == 1:
        return []
    known = {f"{table.name}.{name}": table.frame[name] for table in tables for name in table.measures}
    found = [{"measure": name} for name in _FIGURES if name in known and known[name].drop_nulls().n_unique() > 1]
    found = found[:_MOST_FIGURES] or [{"measure": name} for name in list(known)[:1]]
    words = [key for key in runs.keys if key.numbers is None and key.name != "experiment"]
    if words and {"runs.utilisation", "runs.sojourn_mean_ms"} <= known.keys() and len(runs) > 3:
        found.insert(
            min(2, len(found)), {"measure": "runs.sojourn_mean_ms", "kind": "points", "second": "runs.utilisation"}
        )
    return found
