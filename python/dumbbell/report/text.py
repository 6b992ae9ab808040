"""The parts of a report that are there before any script has run: what was run, findings, places for the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any

from dumbbell.report import setting
from dumbbell.report.findings import JudgedClaims, Ranking, ReportSide, SideComparison, drop_unit
from dumbbell.report.references import Published
from dumbbell.report.shares import SideShares
from dumbbell.report.sources import ReportRuns, ReportSource
from dumbbell.report.verdict import QueueVerdict
from dumbbell.results.versions import find_kind, find_title
from dumbbell.words import capitalise, format_work_time

_MOST_TEXTS, _LONGEST = 12, 300


def _make_row(name: str, value: str) -> str:
    return f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>'


def _format_version(version: str, names: dict[str, str]) -> str:
    name = names.get(version, version)
    return version if name == version or find_kind(version) != "linux" else f"{name}: {version}"


def _join_names(texts: Sequence[str]) -> str:
    comma = "; " if any(", " in text for text in texts) else ", "
    if len(texts) <= _MOST_TEXTS and len(", ".join(texts)) <= _LONGEST:
        return escape(comma.join(texts))
    first = [texts[0]]
    while len(first) < min(_MOST_TEXTS, len(texts)) - 1 and len(", ".join([*first, texts[len(first)]])) <= _LONGEST / 2:
        first.append(texts[len(first)])
    return escape(f"{comma.join(first)}{comma}… {texts[-1]} ({len(texts)} values)")


def make_setup_section(runs: ReportRuns, sides: Sequence[ReportSide]) -> str:
    """Return the section that says what was run: files, experiments, engines, seeds, time, keys, settings."""
    frame = runs.frame
    rows = [_make_row("results", "<br>".join(_describe_file(one) for one in runs.sources))]
    titles = dict(frame.select("experiment", "title").unique(maintain_order=True).rows())
    experiments = "<br>".join(
        f"<b>{escape(name)}</b>{': ' + escape(title) if title else ''}" for name, title in titles.items()
    )
    rows.append(_make_row("experiments" if len(titles) > 1 else "experiment", experiments))
    cells = sum(len(side.cells) for side in sides)
    seeds = sorted(frame["seed"].unique().to_list())
    said = ", ".join(map(str, seeds)) if len(seeds) <= _MOST_TEXTS else f"{len(seeds)}, from {seeds[0]} to {seeds[-1]}"
    rows.append(_make_row("runs", f"{frame.height} of {cells} cells; {'seeds' if len(seeds) > 1 else 'seed'} {said}"))
    versions = frame["engine_version"].unique(maintain_order=True).to_list()
    engines = {version: name for one in runs.sources for version, name in one.engines.items()}
    rows.append(
        _make_row(
            "engines" if len(versions) > 1 else "engine",
            "<br>".join(f"{escape(_format_version(one, engines))}, {find_title(one)}" for one in versions),
        )
    )
    times = sorted({config["duration"] / 1e9 for one in runs.sources for config in one.results.configurations.values()})
    lasting = " to ".join(dict.fromkeys(map(format_work_time, (times[0], times[-1]))))
    wall = float(frame["wall_s"].fill_nan(None).sum() or 0.0)
    rows.append(_make_row("time", f"{lasting} in each run; {format_work_time(wall)} of computation in all"))
    keys = [_make_row(key.name, _join_names(key.texts)) for key in runs.keys if key.name != "experiment"]
    configs = [config for one in runs.sources for config in one.results.configurations.values()]
    settings = [_make_row(name, escape(words)) for name, words in setting.describe_sections(configs)]
    notes = [
        f"{one.name}: {note}" if len(runs.sources) > 1 else note for one in runs.sources for note in one.results.notes
    ]
    notes = [*runs.differ_as_well, *notes]
    if late := runs.late:
        were = "were" if len(late) > 1 else "was"
        notes.append(f"{len(late)} of the runs in real time {were} too late, and should not count")
    said = "".join(f'<p class="note">{escape(capitalise(note))}.</p>' for note in notes)
    tables = "".join(
        f'<div class="scroll"><table class="plain">{"".join(one)}</table></div>' for one in (rows, [*keys, *settings])
    )
    return f'<h2>What was run</h2><div class="two">{tables}</div>{said}'


def _describe_file(source: ReportSource) -> str:
    path = source.results.path
    written = datetime.fromtimestamp(path.stat().st_mtime).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"<code>{escape(str(path))}</code>, written {written}"


# the verdict


def make_verdicts_section(found: Sequence[QueueVerdict], narrowed: str) -> str:
    """Return the section of verdicts: for each combination of other keys sentences and a table, the best row first."""
    parts = [_format_verdict(one) for one in found]
    if narrowed:
        parts.append(f'<p class="note">{escape(capitalise(narrowed))}.</p>')
    return f'<h2>Which queue, and what does it cost?</h2><div class="findings">{"".join(parts)}</div>'


def _format_verdict(one: QueueVerdict) -> str:
    heading = f"<h3>{escape(one.title)}</h3>" if one.title else ""
    first, *rest = one.says
    says = f"<p><b>{escape(first)}</b> {escape(' '.join(rest))}</p>"
    head = "".join(f'<th scope="col"{" class=number" * (i > 0)}>{escape(text)}</th>' for i, text in enumerate(one.head))
    body = []
    for row, best in zip(one.rows, one.best, strict=True):
        cells = [
            f'<td class="number">{f"<b>{escape(text)}</b>" if is_best else escape(text)}</td>'
            for text, is_best in zip(row[1:], best[1:], strict=True)
        ]
        body.append(f'<tr><th scope="row">{escape(row[0])}</th>{"".join(cells)}</tr>')
    table = f'<div class="scroll"><table class="felt"><tr>{head}</tr>{"".join(body)}</table></div>'
    return f'{heading}{says}{table}<p class="note">{escape(one.caption)} The best of each column is bold.</p>'


# findings


def make_findings_section(
    judged: Sequence[JudgedClaims],
    compared: Sequence[SideComparison],
    refused: Sequence[str],
    ranked: Sequence[Ranking],
    names: Sequence[str],
    shared: Sequence[SideShares],
    one_run: Sequence[str],
) -> str:
    """Return the section of findings: verdicts, what one run came to, who gets more, what differs."""
    parts = [_format_claims(one) for one in judged]
    if one_run:
        parts.append(f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in one_run)}</ul>")
    parts += [_format_shares(one) for one in shared]
    for one in compared:
        parts.append(_format_sides(one, names))
    parts += [f'<p class="note">Not compared: {escape(text)}.</p>' for text in refused]
    if ranked:
        heading = "<h3>What differs most</h3>" if parts or len(ranked) > 1 else ""
        note = (
            '<p class="note">Means over cells that differ in no key but those named, with 95 % intervals, as '
            "<code>dumbbell diff --by</code> has them: what is felt first, then the most significant and largest.</p>"
        )
        parts.append(heading + note + "".join(_format_ranking(one, first=i == 0) for i, one in enumerate(ranked)))
    if not parts:
        parts = ['<p class="empty">Nothing to compare: these runs differ in no key, and no claims are about them.</p>']
    return f'<h2>Findings</h2><div class="findings">{"".join(parts)}</div>'


def _format_claims(one: JudgedClaims) -> str:
    if one.refused:
        return f'<p class="note">Claims of {escape(one.study)} are not judged: {escape(one.refused)}.</p>'
    rows: dict[bool, list[str]] = {True: [], False: []}
    for verdict in one.verdicts:
        kind_of = verdict["verdict"].split()[0]
        said = (f"{verdict['selects']}; {verdict['predicate']}", verdict["remarks"])
        rows[kind_of != "no"].append(
            f'<tr><td class="verdict {"none" if kind_of == "no" else kind_of}">{escape(verdict["verdict"])}</td>'
            f'<td>{escape(verdict["says"])}<br><span class="note">{escape(". ".join(filter(None, said)))}</span></td>'
            f'<td class="number">{escape(verdict["value"])}</td></tr>'
        )
    head = '<tr><th scope="col">verdict</th><th scope="col">claim</th><th scope="col">value</th></tr>'
    tables = {
        decided: f'<div class="scroll"><table>{head}{"".join(of)}</table></div>' for decided, of in rows.items() if of
    }
    summary = "".join(f"<p>{escape(line)}.</p>" for line in one.summary.splitlines())
    parts = [f"<h3>{escape(one.title)}</h3>{summary}"]
    if True in tables:
        summary = f"<summary>Claims that these runs decide: {len(rows[True])}</summary>"
        parts.append(f"<details open>{summary}{tables[True]}</details>")
    if False in tables:
        parts.append(f"<details><summary>Claims without data: {len(rows[False])}</summary>{tables[False]}</details>")
    return "".join(parts)


def _format_shares(one: SideShares) -> str:
    heading = f"How the flows share{': ' if one.title else ''}{escape(one.title)}"
    heads = ["flow", "goodput of a flow in common time, Mbit/s", "share of all, mean"]
    heads += ["least", "most"] if len(one.rows[0]) > 4 else []
    heads.append("cells where it gets most" + ", significantly" * one.sure)
    head = "".join(f'<th scope="col"{" class=number" * (0 < i < 3)}>{text}</th>' for i, text in enumerate(heads))
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td{' class=number' * (i < 2)}>{escape(text)}</td>" for i, text in enumerate(row[1:]))
        + "</tr>"
        for row in one.rows
    )
    return f'<h3>{heading}</h3><p>{escape(one.says)}</p><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _format_sides(one: SideComparison, names: Sequence[str]) -> str:
    lines = "".join(f'<p class="note">{escape(line)}</p>' for line in one.lines)
    heading = f"<h3>{escape(names[one.a])} (A) and {escape(names[one.b])} (B)</h3><p>{escape(one.verdict)}</p>"
    if not one.rows:
        return heading + lines
    return (
        f"{heading}{_format_differences(one.rows)}<details><summary>How they were compared</summary>{lines}</details>"
    )


def _format_ranking(one: Ranking, *, first: bool) -> str:
    if not one.rows:
        told = "no difference is significant"
    else:
        measures = itertools.groupby(one.rows, key=lambda row: row["measure"])
        told = "; ".join(_format_changes(list(rows)) for _, rows in itertools.islice(measures, 3))
    lines = "".join(f'<p class="note">{escape(line)}</p>' for line in one.lines)
    body = _format_differences(one.rows) if one.rows else ""
    body += "".join(f"<p>{escape(capitalise(text))}.</p>" for text in one.beyond)
    opened = " open" if first and one.rows else ""
    return f"<details{opened}><summary><b>{escape(one.title)}</b>: {told}</summary>{body}{lines}</details>"


def _format_changes(rows: Sequence[dict[str, Any]]) -> str:
    """Return one measure and how it changes, of every flow of which that is significant."""
    changes = [
        f'{_format_flow(row)} <span class="big">{escape(_format_change(row))}</span>' for row in rows if row["sure"]
    ]
    return escape(drop_unit(rows[0]["label"])) + ",".join(changes)


def _format_change(row: dict[str, Any]) -> str:
    return f"{row['a']} to {row['b']}" if row["change"] == "-" else row["change"]


def _format_flow(row: dict[str, Any]) -> str:
    part = row["of"].partition(" ")[2]
    return f" of {escape(part)}" if part else ""


def _format_differences(rows: Iterable[dict[str, Any]]) -> str:
    heads = ("measure", "of", "A", "B", "change", "95 % interval", "cells that change so")
    head = "".join(
        f'<th scope="col"{"" if i < 2 else " class=number"}>{escape(text)}</th>' for i, text in enumerate(heads)
    )
    body = []
    for row in rows:
        show = (
            f'<button type="button" class="link" data-show="{escape(row["measure"])}">{escape(row["label"])}</button>'
        )
        sure = "" if row["sure"] else ' <span class="note">(not significant)</span>'
        numbers = "".join(
            f'<td class="number">{escape(row[key])}</td>' for key in ("a", "b", "change", "interval", "cells")
        )
        body.append(f'<tr><th scope="row">{show}</th><td>{escape(row["of"])}{sure}</td>{numbers}</tr>')
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def make_published_section(found: Sequence[Published]) -> str:
    """Return the section of published numbers: scores, and a place for the cells of each reference."""
    parts = []
    for number, one in enumerate(found):
        head, *rows = one.scores
        heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
        body = "".join(
            f"<tr>{''.join(f'<td{number_class(cell)}>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        parts.append(
            f"<h3>{escape(one.name)}</h3><p>{escape(one.note)}</p>"
            f'<div class="scroll"><table><tr>{heads}</tr>{body}</table></div>'
            f'<div id="published-{number}" class="published"></div>'
        )
    return f"<h2>Published numbers</h2>{''.join(parts)}"


def number_class(text: str) -> str:
    """Return the class of a cell with this text, if it is a number."""
    try:
        float(text)
    except ValueError:
        return ""
    return " class=number"


def make_data_section(runs: ReportRuns, files: Sequence[str], rounded: str) -> str:
    """Return the section of data: files next to the page, or the commands that write them."""
    if files:
        items = "".join(f'<li><a href="{escape(name)}">{escape(name.rpartition("/")[2])}</a></li>' for name in files)
        what = f"<p>Every table of these runs, in full:</p><ul>{items}</ul>"
    else:
        commands = "\n".join(
            f"dumbbell export {escape(str(one.results.path))} --format parquet -o tables"
            + (f"-{i}" if len(runs.sources) > 1 else "")
            for i, one in enumerate(runs.sources, 1)
        )
        what = (
            "<p>Every table of the results as Parquet, or as CSV with <code>--format csv</code>:</p>"
            f"<pre>{commands}</pre>"
            "<p><code>dumbbell report … -o FOLDER</code> puts both next to the page.</p>"
        )
    own = '<p>The values in this page, one row for each run or part of one:</p><div id="saves" class="controls"></div>'
    return f'<h2>Data</h2>{what}{own}<p class="note">{escape(rounded)}</p>'
