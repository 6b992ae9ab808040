"""The page of evaluations next to published results: its rows are those of the publications, and its sentences hold."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from dumbbell.pages import study

evaluations: Any = importlib.import_module(f"{study.find('validation').program.__package__}.evaluations")
PublishedRow, read_published = evaluations.PublishedRow, evaluations.read_published
PAGE = Path(__file__).parents[2] / "docs" / "validation-evaluations.md"


def read_rows() -> dict[tuple[str, str, str], list[str]]:
    """Return the rows of the tables of the page, by heading, cell and measure; a measure with two bars is numbered."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif heading and line.startswith("|") and not line.startswith(("| cell", "| ---")):
            cell, measure, *values = [one.strip() for one in line.strip("|").split("|")]
            rows[heading, cell, measure + values[0]] = values
    return rows


def test_each_published_number_is_on_the_page_with_its_distance() -> None:
    rows = list(read_rows().values())
    published = read_published()
    assert len(rows) == len(published) == 74
    for row, shown in zip(published, rows, strict=True):
        sign = {"value": "", "at most": "at most ", "above": "above ", "below": "below "}[row.kind]
        assert shown[0] == f"{sign}{row.published:g}"
        for value, distance in zip(shown[1::2], shown[2::2], strict=True):
            counted = float(value.split()[0])
            times = counted / row.published
            if "x" in distance:
                assert float(re.sub(r"[^\d.]", "", distance)) == pytest.approx(times, abs=0.051)
            else:
                found = re.search(r"([+-]\d+) %", distance)
                assert found and float(found[1]) == pytest.approx(100 * (times - 1), abs=0.6)


def test_the_summary_counts_the_rows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = iter(read_rows().values())
    published = read_published()
    for part, name in evaluations.PARTS.items():
        of_part = [(row, next(rows)) for row in published if row.part == part]
        near = sum(row.is_near([float(shown[1].split()[0])]) for row, shown in of_part)
        assert re.search(rf"\| {re.escape(name)} +\| +{near} of {len(of_part)} \|", text), name


def test_sentences_of_the_page_hold() -> None:
    rows = read_rows()

    def find(heading: str, cell: str, measure: str, column: int = 1) -> float:
        found = [
            shown
            for (of, at, what), shown in rows.items()
            if (heading in of, at == cell, measure in what) == (True,) * 3
        ]
        return float(found[0][column].split()[0])

    # all bars of LEDBAT++ are kept
    assert all("kept" in shown[2] for (heading, _, _), shown in rows.items() if heading.startswith("LEDBAT++"))
    # ns-3: the device's packets bring four queues nearer to the published delay, and no fifth
    nearer = set()
    for queue in ("drop tail", "RED", "ARED", "PIE", "CoDel"):
        published, plain, longer = (find("ns-3's AQM", queue, "mean time", column) for column in (0, 1, 3))
        assert abs(longer - published) > 0.1 * published
        if abs(longer - published) < abs(plain - published):
            nearer.add(queue)
        assert find("ns-3's AQM", queue, "goodput", 3) < find("ns-3's AQM", queue, "goodput", 1)
    assert nearer == {"drop tail", "RED", "PIE", "CoDel"}
    # those next to Reno are the largest
    distances = {
        cell: int(shown[2].split()[0]) for (heading, cell, _), shown in rows.items() if "scenario 6" in heading
    }
    assert min(distances, key=lambda cell: distances[cell]).startswith("Reno")
    # audio of C4 over a suspended link is what the suspension alone makes
    assert find("C4: delays", "suspension, audio", "mean", 0) == 0.1 * 100


def test_distances_are_those_of_means_and_of_the_worst_run() -> None:
    value = PublishedRow("x", "a", "m", "ms", "value", 2.0)
    assert value.compute_distance([1.0, 2.0]) == -0.25 and value.is_near([1.0, 2.0])
    limit = PublishedRow("x", "a", "m", "s", "at most", 2.0)
    assert limit.compute_distance([1.0, 3.0]) == 0.5 and not limit.is_near([1.0, 3.0])
    bar = PublishedRow("x", "a", "m", "", "above", 2.0)
    assert bar.is_near([2.1, 2.1]) and not bar.is_near([2.0])
    assert evaluations.format_distance(limit, [1.0, 3.0]) == "missed (+50 %)"
    assert evaluations.format_distance(value, [8.0]) == "x 4.0"


def test_scenario_6_is_that_of_the_study_of_classic_queues() -> None:
    program: Any = study.find("l4s-classic").program
    published = {(row.cell): row.published for row in read_published() if row.part == "s6"}
    for (second, ecn), pairs in program.PUBLISHED.items():
        for queue, (prague, other) in zip(program.QUEUES, pairs, strict=True):
            ratio = published[f"{second}, {'ECN' if ecn else 'no ECN'}, {queue}"]
            assert ratio == pytest.approx(prague / other, abs=0.65)  # the publication rounds its ratios


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_program_writes_the_page_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "PAGE", tmp_path / "page.md")
    evaluations.main()
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
