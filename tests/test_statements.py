"""The language of statements: what each kind of predicate is worth, missing runs, intervals, errors."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from a_paper import FILE, KEYS, K, Values, by, frame, read, verdict
from dumbbell.errors import InputError
from dumbbell.evaluate import statement_report, statement_verdict
from dumbbell.evaluate.statement_file import ALONG
from dumbbell.evaluate.statement_verdict import collect_tables, judge_statements

# quantifiers: 24 cells of `alone`, a quarter of them for each K


@pytest.mark.parametrize(
    ("cells", "bound", "expected", "held"),
    [
        ("every", ">= 0.5", "holds", 24),
        ("every", "> 0.5", "fails", 18),
        ("some", "> 0.98", "holds", 6),
        ("some", "> 0.99", "fails", 0),
        ("most", ">= good", "fails", 12),  # half of them is not more than half
        ("most", ">= 0.7", "holds", 18),
        ("generally", ">= 0.7", "holds", 18),  # 0.75, at least
        ("generally", ">= good", "fails", 12),
        ("every", ">= 0.5 and <= 0.99", "holds", 24),
        ("every", ">= 0.6 and <= 0.99", "fails", 18),
        ("every", "<= 0.99", "holds", 24),
        ("every", "< 0.99", "fails", 18),
        ("every", "> -good", "holds", 24),
    ],
)
def test_a_quantifier_counts_cells(cells: str, bound: str, expected: str, held: int) -> None:
    found = verdict({"cells": cells, "passes": bound}, by("k", K))
    assert (found.grade, found.met, len(found.cells), len(found.cells) - len(found.known)) == (expected, held, 24, 0)
    assert found.value.mean == pytest.approx(0.785)  # (0.5 + 0.7 + 0.95 + 0.99) / 4


def test_the_mean_is_of_all_cells() -> None:
    assert verdict({"cells": "mean", "passes": ">= 0.785"}, by("k", K)).grade == "holds"
    found = verdict({"cells": "mean", "passes": "> 0.79"}, by("k", K))
    assert (found.grade, found.failing) == ("fails", [])


def test_the_cells_that_fail_are_named_by_what_tells_them_apart() -> None:
    found = verdict({"where": {"aqm": "PI2", "n": "2"}, "passes": ">= good"}, by("k", K))
    assert found.failing == ["k 0.1", "k 0.2"]


# selections


@pytest.mark.parametrize(
    ("more", "cells"),
    [
        ({"where": {"k": 0.1}}, 6),
        ({"where": {"k": "<= small"}}, 12),
        ({"where": {"k": [0.1, 2], "aqm": ["STEP", "X"]}}, 8),
        ({"except": {"n": "2", "k": "<= small"}}, 18),
        ({"where": {"mix": "both"}}, 24),  # of the default variant
        ({"where": {"mix": "both", "variant": ["new", "old"]}}, 48),
        ({"where": {"mix": "both", "cls": "b"}}, 24),
        ({"where": {"mix": "both", "cls": ["a", "b"]}}, 48),
        ({"where": {"mix": ["a", "both"]}}, 48),
    ],
)
def test_a_selection_has_the_cells_of_the_matrix(more: dict[str, Any], cells: int) -> None:
    assert len(read(more).criteria[0].cells) == cells
    assert len(verdict(more, lambda *_: 1.0).cells) == cells


def test_given_keeps_the_cells_that_satisfy_it() -> None:
    """Use is 1 where the neighbours over STEP and PI2 are unfair, which is at K = 0.1 and, for 2 flows, at 0.2."""

    def fair(cell: dict[str, Any], _: int) -> float:
        if cell["aqm"] == "X":
            return 1.0
        return 0.5 if cell["k"] == 0.1 or (cell["k"], cell["n"]) == (0.2, "2") or cell["aqm"] == "PI2" else 0.9

    both = [{"measure": "fair", "aqm": aqm, "is": "< 0.8"} for aqm in ("STEP", "PI2")]
    statement = {"where": {"aqm": "X"}, "given": both}
    found = verdict(statement, lambda cell, _: 1.0 if cell["k"] == 0.1 else 0.0, fair)
    assert (found.grade, found.met, len(found.cells), found.failing) == ("fails", 2, 3, ["n 2, k 0.2"])
    of_classes = statement | {"where": {"aqm": "X", "mix": "both", "cls": "b"}}
    assert len(verdict(of_classes, lambda *_: 1.0, fair).cells) == 3
    nothing = verdict(statement | {"given": [{"measure": "fair", "is": "> 2"}]}, by("k", K))
    assert (nothing.grade, nothing.why) == ("no data", "no cell is as `given` asks")


def test_given_of_a_missing_run_is_not_known() -> None:
    def fair(cell: dict[str, Any], _: int) -> float | None:
        return None if cell["aqm"] == "STEP" and cell["k"] == 0.1 else 0.0

    given = [{"measure": "fair", "aqm": "STEP", "is": "< 0.8"}]
    found = verdict({"where": {"aqm": "X"}, "given": given}, by("k", dict.fromkeys(K, 1.0)), fair)
    assert (found.grade, len(found.cells) - len(found.known), len(found.cells)) == ("no data", 2, 8)


# comparisons


def test_over_is_a_ratio_of_two_cells() -> None:
    use = by("cls", {"a": 0.6, "b": 0.2})
    statement = {"set": "alone", "where": {"mix": "both"}, "measure": "share", "over": {"cls": ["a", "b"]}}
    found = verdict(statement | {"passes": ">= 2.99 and <= 3.01"}, use_or_one(use))
    assert (found.grade, len(found.cells)) == ("holds", 24)
    assert verdict(statement | {"passes": "< 1"}, use_or_one(use)).grade == "fails"
    assert statement_verdict._compute_ratio([0, 0]) == 1 and statement_verdict._compute_ratio([1, 0]) == math.inf


def use_or_one(use: Values) -> Values:
    return lambda cell, seed: use(cell, seed) if "cls" in cell else 1.0


def test_against_is_a_difference_and_the_hardest_of_several_counts() -> None:
    use = by("aqm", {"STEP": 0.5, "PI2": 0.6, "X": 0.4})
    two = verdict({"against": {"aqm": ["STEP", "PI2"]}, "passes": "< 0"}, use)
    assert (two.grade, len(two.cells)) == ("holds", 8) and two.value.mean == pytest.approx(-0.1)
    least = verdict({"against": {"aqm": ["STEP", "PI2", "X"]}, "passes": "<= 0"}, use)
    assert least.grade == "fails" and least.value.mean == pytest.approx(0.1)  # X has less
    greatest = verdict({"against": {"aqm": ["PI2", "STEP", "X"]}, "passes": ">= 0"}, use)
    assert greatest.grade == "holds" and greatest.value.mean == pytest.approx(0.1)


def test_cells_compared_over_a_column_of_the_defaults_need_not_agree_in_it() -> None:
    """One mix has the variant "", the other "new"; the variant "old" does not come in."""

    def use(cell: dict[str, Any], _: int) -> float:
        return {"": 0.5, "new": 0.75, "old": 9.0}[cell["variant"]]

    found = verdict({"against": {"mix": ["both", "a"]}, "passes": ">= 0", "cells": "mean"}, use)
    assert (found.grade, found.value.mean) == ("holds", 0.25)
    old = verdict({"where": {"mix": "both"}, "against": {"variant": ["old", "new"]}, "passes": "> 8"}, use)
    assert (old.grade, old.value.mean) == ("holds", 8.25)


def test_against_two_columns_is_a_difference_of_differences() -> None:
    def use(cell: dict[str, Any], _: int) -> float:
        return {("2", "STEP"): 0.9, ("2", "X"): 0.5, ("10", "STEP"): 0.8, ("10", "X"): 0.7}.get(
            (cell["n"], cell["aqm"]), 0.0
        )

    found = verdict({"against": {"aqm": ["STEP", "X"], "n": ["2", "10"]}, "passes": "> 0", "cells": "mean"}, use)
    assert found.grade == "holds" and found.value.mean == pytest.approx(0.3)  # 0.4 - 0.1


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("mean", [1, 2, 6, 3], 3),
        ("least", [4, 2, 6, 3], 2),
        ("greatest", [4, 2, 6, 3], 6),
        ("range", [4, 2, 6, 3], 4),
        ("balance", [4, 2, 8, 3], 0.25),
        ("change", [4, 2, 6, 3], -1),
        ("least at", [4, 2, 6, 2], 0.2),
        ("trend", [1, 3, 5, 9], 1),
        ("trend", [4, 3, 2, 1], -1),
        ("trend", [1, 3, 2, 4], 0.8),  # 1 - 6 (0 + 1 + 1 + 0) / (4 (16 - 1))
        ("trend", [2, 2, 2, 2], 0),
    ],
)
def test_along_makes_one_value_of_a_column(kind: str, values: list[float], expected: float) -> None:
    use = by("k", dict(zip(K, map(float, values), strict=True)))
    found = verdict({"along": {"k": kind}, "passes": f">= {expected - 1e-9} and <= {expected + 1e-9}"}, use)
    assert (found.grade, len(found.cells)) == ("holds", 6)
    other = verdict({"along": {"k": kind}, "passes": f"> {expected + 1e-9}"}, use)
    assert other.grade == "fails" and set(ALONG) >= {kind}


def test_along_several_columns_before_against() -> None:
    """Ranges over n of means over k: STEP (0.1 + 0.2 + 1 + 2) / 4 = 0.825, others 0."""

    def use(cell: dict[str, Any], _: int) -> float:
        return float(cell["k"]) if (cell["aqm"], cell["n"]) == ("STEP", "10") else 0.0

    along = {"k": "mean", "n": "range"}
    found = verdict({"along": along, "against": {"aqm": ["STEP", "PI2"]}, "passes": "> 0"}, use)
    assert (found.grade, len(found.cells)) == ("holds", 1) and found.value.mean == pytest.approx(0.825)
    text = "use, mean along k, range along n, aqm STEP - PI2 > 0 [every]"
    assert found.statement.text == text


# missing runs


@pytest.mark.parametrize(
    ("cells", "bound", "expected"),
    [
        ("every", "> 0.6", "fails"),  # K = 0.1 fails whatever the missing cells are
        ("every", ">= 0.5", "no data"),
        ("some", "> 0.9", "holds"),
        ("some", "> 1", "no data"),
        ("most", ">= 0.9", "no data"),  # 12 of 24, and 2 or 3 more may hold
        ("most", ">= 0.7", "holds"),
        ("most", ">= 0.98", "fails"),
        ("mean", "> 0", "no data"),
    ],
)
def test_no_data_is_said_where_missing_runs_could_decide(cells: str, bound: str, expected: str) -> None:
    """Two of the six cells of K = 0.2 are missing."""

    def use(cell: dict[str, Any], _: int) -> float | None:
        return None if cell["k"] == 0.2 and cell["aqm"] == "X" else K[cell["k"]]

    found = verdict({"cells": cells, "passes": bound}, use, lambda cell, seed: use(cell, seed))
    assert (found.grade, len(found.cells) - len(found.known)) == (expected, 2)
    assert found.missing == ("aqm X, n 2, k 0.2", "aqm X, n 10, k 0.2")
    assert found.why == "2 of 24 cells have no run, all with aqm X; k 0.2"


def test_a_comparison_needs_both_sides_and_a_row_along_all_values() -> None:
    def use(cell: dict[str, Any], _: int) -> float | None:
        return None if (cell["aqm"], cell["n"], cell["k"]) == ("PI2", "2", 0.2) else 1.0

    pairs = verdict({"against": {"aqm": ["STEP", "PI2"]}, "passes": "<= 0"}, use, use)
    assert (pairs.grade, len(pairs.cells) - len(pairs.known), len(pairs.cells)) == ("no data", 1, 8)
    rows = verdict({"along": {"k": "trend"}, "passes": ">= 0"}, use, use)
    assert (len(rows.cells) - len(rows.known), len(rows.cells), rows.missing) == (1, 6, ("aqm PI2, n 2, k 0.2",))


def test_a_measure_that_is_null_or_nan_is_missing() -> None:
    for nothing in (None, math.nan):
        use = by("k", {**K, 2: nothing})
        found = verdict({"passes": ">= 0.5"}, use)
        assert (found.grade, len(found.cells) - len(found.known)) == ("no data", 6)


def test_without_any_run_there_is_no_data() -> None:
    found = verdict({"where": {"aqm": "X"}}, lambda cell, _: None if cell["aqm"] == "X" else 1.0)
    assert (found.grade, found.met, len(found.cells), len(found.cells) - len(found.known)) == ("no data", 0, 8, 8)
    assert statement_report.format_found(found) == "-"


# intervals


def test_wilson_by_hand() -> None:
    """z = 1.96: for 8 of 10, (0.8 + 0.19207) / 1.38415 = 0.71674, half 1.96 / 1.38415 sqrt(0.016 + 0.0096036)."""
    low, high = statement_verdict.estimate_share(8, 10)
    assert low == pytest.approx(0.4902, abs=1e-4) and high == pytest.approx(0.9433, abs=1e-4)
    assert statement_verdict.estimate_share(0, 5)[0] == 0 and statement_verdict.estimate_share(5, 5)[1] == 1


def test_student_by_hand() -> None:
    """Of 1, 2 and 3: mean 2, deviation 1, t(2) = 4.3027, half 4.3027 / sqrt(3) = 2.4841."""
    found = statement_verdict.estimate_mean([1.0, 2.0, 3.0])
    assert (found.mean, found.seeds) == (2, 3)
    assert found.low == pytest.approx(2 - 2.4841, abs=1e-4) and found.high == pytest.approx(2 + 2.4841, abs=1e-4)
    for values in ([1.0], [1.0, 1.0, 1.0], [1.0, math.inf]):
        assert math.isnan(statement_verdict.estimate_mean(values).low)


def test_the_interval_of_a_mean_over_cells_is_over_seeds() -> None:
    """Cells of one seed move together: 1, 2 and 3 in half of the cells, 3, 4 and 5 in the other; means 2, 3, 4."""

    def use(cell: dict[str, Any], seed: int) -> float:
        return 1.0 + seed + (2 if cell["n"] == "10" else 0)

    found = verdict({"cells": "mean", "passes": ">= 3"}, use, seeds=3)
    assert (found.grade, found.value.mean, found.value.seeds) == ("holds", 3, 3)
    assert found.value.high == pytest.approx(3 + 2.4841, abs=1e-4)
    assert statement_report.format_found(found) == "3 ± 2.5 (24 cells)"


def test_cells_within_the_error_over_seeds_are_counted() -> None:
    """Means 2 ± 2.48 at K = 0.1, and 20 ± 2.48 elsewhere."""

    def use(cell: dict[str, Any], seed: int) -> float:
        return 1.0 + seed + (0 if cell["k"] == 0.1 else 18)

    found = verdict({"passes": ">= 1.9"}, use, seeds=3)
    assert (found.grade, found.met, found.unsure) == ("holds", 24, 6)


def test_pairs_are_of_one_seed() -> None:
    """A difference that is the same for every seed has no interval, however much seeds differ."""

    def use(cell: dict[str, Any], seed: int) -> float:
        return 10.0 * seed + (1 if cell["aqm"] == "STEP" else 0)

    found = verdict({"against": {"aqm": ["STEP", "X"]}, "passes": "> 0"}, use, seeds=3)
    assert (found.grade, found.value.mean, found.unsure) == ("holds", 1, 0)


def test_seeds_that_only_some_cells_have() -> None:
    def use(cell: dict[str, Any], seed: int) -> float | None:
        return None if cell["k"] == 0.1 and seed else K[cell["k"]] + seed / 100

    found = verdict({"passes": ">= 0.5", "cells": "mean"}, use, use, seeds=3)
    assert found.grade == "holds" and math.isnan(found.value.low)
    assert found.value.mean == pytest.approx(0.7925)  # (0.5 + 0.71 + 0.96 + 1) / 4


# errors


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ({"where": {"aqm": "STEPP"}}, 'criterion c: where.aqm is "STEPP"; did you mean "STEP"? It must be STEP, PI2'),
        (
            {"where": {"aqn": "STEP"}},
            "criterion c: where.aqn: unknown column aqn; did you mean aqm? Choose from mix, variant",
        ),
        ({"where": {"k": 0.3}}, "criterion c: where.k is 0.3; it must be 0.1, 0.2, 1, 2"),
        ({"where": {"k": "> 2"}}, 'criterion c: where.k is "> 2"; it must be a range with some of 0.1'),
        ({"where": {"k": "<= smal"}}, 'criterion c: where.k: unknown word or yardstick "smal"; did you mean "small"?'),
        ({"where": {"variant": "old"}}, "criterion c: where: it selects no cell of the matrix; give a selection with"),
        (
            {"measure": "usage"},
            'criterion c: measure is "usage"; did you mean "use"? It must be one of use, fair',
        ),
        ({"measure": "fair", "where": {"cls": "a"}}, 'criterion c: measure is "fair"; it must be a measure that goes'),
        ({"passes": "= 3"}, 'criterion c: passes is "= 3"; it must be <, <='),
        ({"passes": "within 3"}, 'criterion c: passes is "within 3"; it must be <'),
        ({"passes": 3}, "criterion c: passes is 3; it must be <"),
        (
            {"cells": "mosst"},
            'criterion c: cells is "mosst"; did you mean "most"? It must be one of every, some, mean, most',
        ),
        ({"answers": ["VI"]}, 'criterion c: answers[0] is "VI"; did you mean "V"? It must be V or own'),
        ({"set": "alone2"}, 'criterion c: set is "alone2"; did you mean "alone"? It must be alone'),
        ({"along": {"k": "slope"}}, 'criterion c: along.k is "slope"; it must be one of mean, least'),
        ({"along": {"n": "least at"}}, 'criterion c: along.n is "least at"; it must be a column of numbers'),
        ({"over": {"aqm": ["STEP"]}}, 'criterion c: over.aqm is ["STEP"]; it must be two values: [A, B]'),
        ({"over": {"aqm": ["STEP", "X", "PI2"]}}, "criterion c: over.aqm is ["),
        ({"against": {"aqm": "STEP"}}, 'criterion c: against.aqm is "STEP"; it must be two values, or more'),
        (
            {"against": {"aqm": ["STEP", "PI2", "X"]}, "passes": ">= 0 and <= 1"},
            "criterion c: against.aqm is [",
        ),
        (
            {"along": {"k": "mean"}, "against": {"k": [1, 2]}},
            'criterion c: over, along, against is "k, k"; it must be each column once',
        ),
        ({"given": [{"measure": "fair"}]}, "criterion c: given[0].is is missing; give a value"),
        ({"given": [{"measure": "share", "is": "> 0"}]}, 'criterion c: given[0].measure is "share"; it must be a mea'),
        ({"says": None}, "criterion c: says is nothing; it must be one sentence"),
        ({"figures": 3}, "criterion c: unknown key figures; did you mean figure?"),
        ({"linux": {"fails": "yes"}}, 'criterion c: linux.fails is "yes"; it must be true or false'),
        ({"id": ""}, 'criterion[0].id is ""; it must be a short name'),
    ],
)
def test_errors_name_the_statement_the_key_and_what_is_allowed(statement: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(statement)
    assert str(error.value).startswith(f"test.toml: {message}"), str(error.value)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"wrds": {}}, "unknown key wrds; did you mean words?"),
        ({"words": {"good": 0.9}}, "words.good is 0.9; it must be a table with value, origin"),
        ({"words": {"good": {"value": "x", "origin": ""}}}, 'words.good.value is "x"; it must be a finite number'),
        (
            {"shares": {"some": {"at_least": 0.5, "origin": ""}}},
            "shares.some: every, some, mean are names that every file has; use",
        ),
        (
            {"shares": {"all": {"at_least": 5, "origin": ""}}},
            "shares.all.at_least is 5; it must be a share from 0",
        ),
        ({"shares": 5}, "shares is 5; it must be a table of tables"),
        ({"cells": [FILE["cells"][0], {"mix": "b"}]}, "cells[1].variant is missing; give a value"),
        ({"sets": {"b": {"mix": "c"}}}, 'sets.b.mix is "c"; it must be a, both'),
    ],
)
def test_errors_of_the_head_name_the_key(top: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        read({}, **top)
    assert str(error.value).startswith(f"test.toml: {message}"), str(error.value)


def test_two_statements_have_two_names_and_a_default_leaves_one_variant() -> None:
    with pytest.raises(InputError, match="criterion c: id: two criteria have this name; use another name"):
        read({}, {})
    with pytest.raises(InputError, match=r"criterion c: where: the cells differ in variant alone \(new and old\)"):
        read({"where": {"mix": "both"}}, defaults={"variant": ["new", "old"]})


def test_frames_have_the_columns_and_one_run_of_a_cell_and_seed() -> None:
    suite = read({})
    good = frame(KEYS, {"use": lambda *_: 1.0, "fair": lambda *_: 1.0}, [1])
    classes = frame([*KEYS, "cls"], {"share": lambda *_: 1.0, "use": lambda *_: 1.0}, [1])
    with pytest.raises(InputError, match=r"test.toml: table.runs.measures: unknown column fair; .*from seed, mix"):
        judge_statements(suite, {"runs": good.drop("fair"), "classes": classes})
    with pytest.raises(InputError, match=r"test.toml: table.classes.keys: unknown column cls; "):
        judge_statements(suite, {"runs": good, "classes": classes.drop("cls")})
    twice = pl.concat([good, good.with_columns(use=pl.lit(2.0))])
    with pytest.raises(InputError, match=r"runs: mix a, .*, k 0.1, seed 1: two runs of one cell and seed differ"):
        judge_statements(suite, {"runs": twice, "classes": classes})
    assert judge_statements(suite, {"runs": pl.concat([good, good]), "classes": classes})[0].grade == "holds"


def test_frames_come_from_a_program_beside_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("os.path", "elsewhere/frames.py"):
        with pytest.raises(InputError, match=f'test.toml: program is "{name}"; it must be a program next to the suite'):
            collect_tables(read({}, program=name), None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"nowhere.py: there is no such file; give a program next to the suite"):
        collect_tables(read({}, program="nowhere.py"), None)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    Path("frames.py").write_text("def classes(results): ...\n")
    with pytest.raises(InputError, match=r"frames.py is a program; use option --run-program"):
        collect_tables(read({}, program="frames.py"), None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"table: unknown function runs"):
        collect_tables(read({}, program="frames.py"), None, run_program=True)  # type: ignore[arg-type]
