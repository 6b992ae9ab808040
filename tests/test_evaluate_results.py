"""`dumbbell evaluate results`: what it writes, its options, and the statements that come along."""

import csv
import io
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from a_paper import KEYS, K, frame, read
from conftest import Command, described
from dumbbell import cli, experiment
from dumbbell.errors import InputError
from dumbbell.evaluate import statement_report
from dumbbell.evaluate.statement_file import (
    ALONG,
    QUANTIFIERS,
    STATEMENT_KEYS,
    StatementSuite,
    load_statements,
    normalise_value,
    parse_statements,
)
from dumbbell.evaluate.statement_report import make_statement_page
from dumbbell.evaluate.statement_verdict import StatementVerdict, judge_statements
from dumbbell.experiment import shipped
from studies.coexistence import terms as coexistence

ROOT = Path(__file__).parents[1]


# output


def of_two_sections() -> tuple[StatementSuite, list[StatementVerdict]]:
    suite = read(
        {"id": "yes", "figure": [1, 2], "passes": ">= 0.5", "note": "As it stands."},
        {"id": "no", "where": {"n": "2"}, "reason": "It is otherwise.", "linux": {"fails": True, "says": "so too"}},
        {"id": "open", "where": {"k": 2, "aqm": "X"}},
        {"id": "bar", "answers": ["own"], "cells": "some"},
    )

    def use(cell: dict[str, Any], _: int) -> float | None:
        return None if (cell["k"], cell["aqm"]) == (2, "X") else K[cell["k"]]

    use_of = {"use": use, "fair": lambda *_: 1.0}
    classes = frame([*KEYS, "cls"], {"share": use, "use": use}, [1])
    return suite, judge_statements(suite, {"runs": frame(KEYS, use_of, [1]), "classes": classes})


def test_the_text_has_verdicts_remarks_and_the_count() -> None:
    suite, verdicts = of_two_sections()
    assert [one.grade for one in verdicts] == ["no data", "fails", "no data", "holds"]
    text = statement_report.format_statements(suite, verdicts)
    assert "| fails   | no        |" in text and "5 of 11 cells (0.21..0.72)" in text
    assert "Not so: aqm STEP, k 0.1; aqm STEP, k 0.2; aqm PI2, k 0.1; aqm PI2, k 0.2; 2 more." in text
    assert "It is otherwise." in text and "Linux: so too" in text
    assert "2 of 2 cells have no run: n 2; n 10." in text.replace(
        "2 of 2 cells have no run", "2 of 2 cells have no run"
    )
    assert text.splitlines()[-2:] == [
        "0 of 1 judged statements hold (0 %); 1 more fail on real Linux too (100 % hold or fail on both); "
        "2 without data",
        "Acceptance (not counted): 1 of 1 judged statements hold (100 %); 0 without data",
    ]


def test_markdown_csv_and_json_have_all_of_it() -> None:
    suite, verdicts = of_two_sections()
    page = statement_report.format_statement_page(suite, verdicts)
    assert "## V. Analysis" in page and "`no`: Not so:" in page and "literally" in page
    rows = [statement_report.make_row(one) for one in verdicts]
    assert (rows[1]["held"], rows[1]["cells"], rows[1]["unknown"], rows[1]["share"]) == (5, 12, 1, 5 / 11)
    found = json.loads(statement_report.make_json(suite, verdicts))
    assert [one["id"] for one in found["criteria"]] == ["yes", "no", "open", "bar"]
    assert found["criteria"][0]["figures"] == [1, 2] and found["criteria"][2]["value"] is None
    assert found["words"]["good"] == {"value": 0.9, "origin": "it is so"}


def test_only_takes_statements_and_sections() -> None:
    suite, _ = of_two_sections()
    assert [one.id for one in suite.select(["no", "own"]).criteria] == ["no", "bar"]
    assert len(suite.select([]).criteria) == 4
    with pytest.raises(InputError, match=r'only: unknown criterion or paragraph "opne"; did you mean "open"'):
        suite.select(["opne"])


@pytest.fixture
def paper(tmp_path: Path) -> tuple[str, str]:
    """A results file, and a suite of statements on tables of a program that is made up here."""
    results = tmp_path / "results.duckdb"
    dumbbell.run(described(duration="1s"), output=results)
    (tmp_path / "frames.py").write_text(
        "from a_paper import KEYS, K, by, frame\n"
        "runs = lambda _: frame(KEYS, {'use': by('k', K), 'fair': by('k', K)}, [1])\n"
        "classes = lambda _: frame([*KEYS, 'cls'], {'share': by('k', K), 'use': by('k', K)}, [1])\n"
    )
    (file := tmp_path / "suite.toml").write_text(EXAMPLE)
    return str(results), str(file)


EXAMPLE = """\
title = "Made up"
of = "results"
program = "frames.py"
table = { runs = { measures = ["use"] } }
paragraphs = { V = { title = "V" } }

[[cells]]
aqm = ["STEP", "PI2"]
mix = "a"
variant = ""
n = ["2", "10"]
k = [0.1, 0.2, 1, 2]

[[criterion]]
id = "holds"
answers = ["V"]
says = "It is so."
measure = "use"
passes = ">= 0.5"
cells = "every"

[[criterion]]
id = "fails"
answers = ["V"]
says = "It is not."
measure = "use"
passes = ">= 0.6"
cells = "every"
"""


def test_the_command(
    paper: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dumbbell", *judged, *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        output = capsys.readouterr()
        return int(left.value.code or 0), output.out, output.err

    judged = ["evaluate", "results", paper[0], "--suite", paper[1], "--run-program"]
    status, out, _ = run()
    assert status == 1 and "1 of 2 judged statements hold (50 %); 0 without data" in out
    assert run("--only", "holds")[0] == 0 and run("--only", "fails")[0] == 1
    status, out, _ = run("--format", "csv")
    assert [row["verdict"] for row in csv.DictReader(io.StringIO(out))] == ["holds", "fails"]
    assert json.loads(run("--format", "json")[1])["criteria"][1]["held"] == 12
    assert run("--format", "markdown")[1].startswith("# ")
    assert run("--format", "html")[0] == 2
    status, _, err = run("--only", "hods")
    assert (status, err.count("\n")) == (2, 1) and 'did you mean "holds"?' in err
    # a page in addition, by either name
    for name in ("statements", "statements.html"):
        page = Path(paper[0]).with_name("statements.html")
        page.unlink(missing_ok=True)
        status, out, err = run("-o", str(page.with_name(name)))
        assert status == 1 and "1 of 2 judged statements hold" in out and err == f"The page: {page}\n"
        text = page.read_text(encoding="utf-8")
        assert "<h1>Made up</h1>" in text and f"--run-program -o {page.with_name(name)}</code>" in text
        # two tables of 16 cells each, and a square for each of them
        assert text.count("<td>aqm ") == 32 and text.count('<span class="holds" title=') == 16 + 12
        assert "does not meet it: 4, meets the bar: 12" in text and "http" not in text
    assert run("-o", "nowhere/page")[0] == 2


def test_a_page_has_all_sections_words_and_remarks() -> None:
    suite, verdicts = of_two_sections()
    page = make_statement_page([(suite, verdicts)], "dumbbell evaluate results x.duckdb", ["left out: much"])
    assert "<h2>V. Analysis</h2>" in page and "<h2>Acceptance</h2>" in page and "<li>left out: much</li>" in page
    assert "<code>good</code> = 0.9: it is so." in page and "more than 0.5 of the cells" in page
    assert "It is otherwise. Linux: so too" in page and "1 more fail on real Linux too" in page
    assert '<span class="grade fails">fails</span> no: ' in page and "<td>1 and 2</td>" in page
    both = make_statement_page([(suite, verdicts), (suite, verdicts[:1])], "again")
    assert both.count(f"<h2>{suite.title}</h2>") == 2


def test_a_file_that_is_not_there_gets_the_nearest_name(command: Command) -> None:
    done = command("evaluate", "results", "no.duckdb", "--suite", "coexistance")
    assert done.returncode == 2 and 'unknown suite "coexistance"; did you mean "coexistence"?' in done.stderr


def test_statements_are_judged_on_what_has_run(command: Command, tmp_path: Path) -> None:
    """Two DCTCP flows over STEP at K = 0.17, 1 Gbit/s and 5 ms: 106250 bytes. The use is that of the runs' table."""
    step = {"name": "red", "min": "106250B", "max": "106250B", "wlog": 0, "ecn": True, "limit": "62500000B"}
    link = {"rate": "1Gbit", "aqm": step}
    results = dumbbell.run(
        described(bottleneck=link, flows=[{"cc": "dctcp", "base_rtt": "5ms", "count": 2}]),
        output=tmp_path / "step.duckdb",
    )
    done = command(
        "evaluate",
        "results",
        "step.duckdb",
        "--suite",
        "coexistence",
        "--only",
        "dctcp-step-recommended,dctcp-fair",
        "--format",
        "json",
    )
    first, second = json.loads(done.stdout)["criteria"]
    assert (first["id"], first["cells"], first["seeds"]) == ("dctcp-fair", 84, 1)
    assert (first["verdict"], first["unknown"], len(first["missing"])) == ("no data", 83, 83)
    use = results.runs["utilisation"][0]
    assert (second["value"], second["verdict"]) == (use, "holds" if use < 0.6 else "fails")


@pytest.mark.slow
def test_conditions_choose_the_runs_of_statements(command: Command, tmp_path: Path) -> None:
    steps = [{"name": "red", "min": f"{size}B", "max": f"{size}B", "wlog": 0, "ecn": True} for size in (31250, 106250)]
    link = {"rate": "1Gbit", "aqm": steps[0] | {"limit": "62500000B"}}
    matrix = {"bottleneck.aqm": [step | {"limit": "62500000B"} for step in steps]}
    flow = {"cc": "dctcp", "base_rtt": "5ms", "count": 2}
    dumbbell.run(described(bottleneck=link, flows=[flow], matrix=matrix), output=tmp_path / "steps.duckdb")

    def missing(*conditions: str) -> int:
        done = command(
            "evaluate",
            "results",
            "steps.duckdb",
            "--suite",
            "coexistence",
            "--only",
            "dctcp-fair",
            "--format",
            "json",
            *conditions,
        )
        assert done.returncode == 3, done.stderr  # without data nothing is judged
        return int(json.loads(done.stdout)["criteria"][0]["unknown"])

    assert missing() == 82 and missing("--where", "bottleneck.aqm.min=106250B") == 83
    part = command("evaluate", "results", "steps.duckdb", "--suite", "coexistence", "--where", "flow=0")
    assert (part.returncode, len(part.stderr.splitlines())) == (
        2,
        1,
    ) and "but statements are judged on" in part.stderr


def test_results_of_something_else_are_refused(command: Command, tmp_path: Path) -> None:
    dumbbell.run(described(), output=tmp_path / "other.duckdb")
    done = command("evaluate", "results", "other.duckdb", "--suite", "coexistence")
    assert done.returncode == 2 and "other.duckdb: no run of DCTCP" in done.stderr


# the language's page, and the statements that come along


def test_the_page_has_every_kind_and_key_and_its_example_is_read() -> None:
    page = (ROOT / "docs" / "statements.md").read_text()
    for name in [*ALONG, *QUANTIFIERS, *STATEMENT_KEYS]:
        assert f"`{name}`" in page, name
    example = page.partition("```toml\n")[2].partition("```")[0]
    (statement,) = parse_statements(tomllib.loads(example), "statements.md").criteria
    assert (len(statement.cells), statement.text) == (2, "jain >= 0.95 [most]")


PAPER = load_statements("coexistence")
PLACE = [column for column in PAPER.columns if column != "cls"]  # what tells runs apart


def test_a_suite_is_no_experiment() -> None:
    assert shipped.list_suites()["coexistence"].name == "suite.toml"
    assert not any(name.endswith("suite") for name in shipped.list_experiments())


def test_the_papers_statements_are_of_its_sections_and_figures() -> None:
    counted = [one for one in PAPER.criteria if PAPER.paragraphs[one.answers[0]].counted]
    assert len(counted) >= 45
    assert {one.answers[0] for one in counted} == {"III", "V", "V-A", "V-B", "V-C", "VI", "VII"}
    assert {figure for one in counted for figure in one.figures} == set(range(1, 19))
    assert all(one.says.endswith(".") and one.says.count(". ") == 0 for one in PAPER.criteria)


@pytest.mark.slow
def test_the_papers_statements_are_of_cells_that_the_experiments_have() -> None:
    has_run = set()
    for name in (one for one in shipped.list_experiments() if one.startswith("coexistence/")):
        places = [coexistence.describe(json.loads(cell.config)) for cell in experiment.load(name).make_cells()]
        has_run |= {tuple(sorted((key, normalise_value(one[key])) for key in PLACE)) for one in places if one}
    for statement in PAPER.criteria:
        cells = {tuple(sorted(pair for pair in cell if pair[0] in PLACE)) for cell in statement.cells.values()}
        assert cells <= has_run, (statement.id, sorted(cells - has_run)[:2])


def test_the_papers_statements_are_judged_wherever_the_matrix_has_run() -> None:
    """Where every cell has one value, no statement lacks data, but those whose condition no cell meets."""
    verdicts = judge_statements(PAPER, {name: everywhere(name) for name in PAPER.tables})
    open_ = {one.statement.id for one in verdicts if one.grade == "no data"}
    assert open_ == {one.statement.id for one in verdicts if one.why == "no cell is as `given` asks"}
    assert open_ <= {one.id for one in PAPER.criteria if one.given}
    assert {one.grade for one in verdicts} >= {"holds", "fails"}


def everywhere(name: str) -> pl.DataFrame:
    blocks = tomllib.loads(Path(PAPER.file).read_text())["cells"]
    keys = [column for column in PAPER.columns if column != "cls" or name == "classes"]
    return frame(keys, {one: lambda *_: 0.9 for one in PAPER.tables[name].measures}, [1], blocks)
