"""The end of `dumbbell evaluate`: report, page, what is expected, files for continuous integration, exit status."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dumbbell.cli.evaluate_options import GateOptions
from dumbbell.words import format_count
from dumbbell.writing import write_text

if TYPE_CHECKING:
    from dumbbell.evaluate.evaluation import Evaluation
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.evaluate.suite_file import EvaluationSuite
    from dumbbell.experiment.cell import Cell


class EvaluationGate:
    """The results that an evaluation should have: a file of known failures or an earlier report, read first."""

    def __init__(
        self, suite: EvaluationSuite, subject: Candidate, names: Sequence[str] | None, options: GateOptions
    ) -> None:
        from dumbbell.evaluate.comparison import read_report
        from dumbbell.evaluate.gate import read_expected

        self._options, known, baseline = options, options.known, options.baseline
        self._expected = read_expected(Path(known), suite, subject, options.fail, names) if known else None
        self._before = (Path(baseline).name, read_report(Path(baseline), suite.name)) if baseline else None

    def finish(
        self,
        found: Evaluation,
        output: str,
        command: str,
        *,
        other: Evaluation | None = None,
        compared: str | None = None,
    ) -> None:
        """Print the report, write page and files, and end with the status of the evaluation.

        `output` is the name of the page and of the results, and `command` is named by errors. With `other` only that
        counts in which the evaluation is worse than this one. `compared` is what the earlier report is called where
        the changes since then are to be shown.
        """
        from dumbbell.evaluate import gate as gates
        from dumbbell.evaluate import verdict_report
        from dumbbell.evaluate.comparison import compare_reports, format_comparison

        options, before = self._options, self._before
        if other is not None:
            before = other.subject.name, json.loads(verdict_report.to_json(other))
        gate = gates.make_gate(found, options.fail, self._expected, before)
        changes = None
        if compared is not None and before is not None:
            changes = compare_reports(json.loads(verdict_report.to_json(found)), before[1], compared)
        write_page(output, verdict_report.make_page(found, format_command_line(), changes), command)
        others: dict[str, Any] = {}
        lines: list[str] = []
        if self._expected is not None or before is not None:
            others["gate"] = gate.to_json()
            if changes is not None:
                others["against"] = [asdict(one) | {"change": one.word} for one in changes.list_changed()]
            name = options.known or options.baseline or (other.subject.name if other is not None else "")
            shown = gate.to_lines() or [f"nothing differs from {name}"]
            lines = ["", *(shown if changes is None else [format_comparison(changes, found.subject.name)])]
        if options.form == "json":
            print(verdict_report.to_json(found, **others))
        else:
            report_lines = [verdict_report.format_report(found, markdown=options.form == "markdown"), *lines]
            print("\n".join(report_lines).rstrip("\n"))
        print(f"The page: {output}.html", file=sys.stderr)
        if options.keep is not None:
            _keep(found, options.keep, f"{output}.duckdb")
        if options.junit is not None:
            text = gates.format_junit(gate)
            write_text(Path(options.junit), text, "a file to write to", command=command, option="--junit")
        if options.github:
            print("\n".join(gates.list_annotations(gate)))
        if gate.status:
            raise typer.Exit(gate.status)


def format_command_line() -> str:
    """Return the line that was typed."""
    return shlex.join(["dumbbell", *sys.argv[1:]])


def write_page(output: str, text: str, command: str) -> None:
    """Write the page of an output, NAME.html. Raises InputError."""
    write_text(Path(f"{output}.html"), text, "a name in a folder that exists", command=command)


def _keep(found: Evaluation, folder: str, results: str) -> None:
    from dumbbell.evaluate.kept_cells import keep_cells

    made = keep_cells(found, Path(folder), Path(results), list_writers(), lambda text: print(text, file=sys.stderr))
    print(f"{folder}: {format_count(len(made), 'bad cell')}", file=sys.stderr)


def list_writers() -> dict[str, Callable[[Cell, Path], object]]:
    """Return what is kept of a run in addition to its experiment file, by the names of files and folders."""
    from dumbbell.packets import recording as packets
    from dumbbell.packets import wanted
    from dumbbell.qlog import write as qlog

    return {
        "qlog": qlog.write,
        "run.pcapng": lambda cell, path: packets.write(cell, path, wanted.check_selection(cell)),
    }


def list_criteria(suite: EvaluationSuite, *, markdown: bool) -> str:
    """Return the criteria of a suite with the sections that they answer; in Markdown a table with bars and sources."""
    from dumbbell.results.tables import align_table

    if not markdown:
        return "\n".join(f"{one.id}: {one.says} ({', '.join(one.answers)})" for one in suite.criteria)
    rows = [
        [", ".join(one.answers), f"`{one.id}`", one.says, one.describe_bars() or f"judge {one.judge}", one.source]
        for one in suite.criteria
    ]
    return align_table(["section", "criterion", "asks", "bars", "source"], rows, words=(0, 1, 2, 3, 4))
