"""The tests themselves: which assert times, and which may be skipped."""

import ast
from pathlib import Path

import pytest

from every_case import every_case
from sessions import unexpected

HERE = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "time"}  # the CPU time of a process is its own, whoever else is busy


def asks_how_long(tree: ast.AST) -> bool:
    """Whether an assert compares a time that has passed, `time.monotonic() - asked < 3`."""
    return any(
        isinstance(clock, ast.Attribute)
        and clock.attr in CLOCKS
        and isinstance(clock.value, ast.Name)
        and clock.value.id == "time"
        for check in ast.walk(tree)
        if isinstance(check, ast.Assert)
        for passed in ast.walk(check)
        if isinstance(passed, ast.BinOp) and isinstance(passed.op, ast.Sub)
        for clock in ast.walk(passed)
    )


def unmarked(text: str) -> list[str]:
    """Return the functions of a module that assert how long something takes and are not marked timed."""
    tree = ast.parse(text)
    if any("mark.timed" in ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)):
        return []
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and asks_how_long(node)
        and not any("mark.timed" in ast.unparse(mark) for mark in node.decorator_list)
    ]


@every_case("path", sorted(HERE.glob("test_*.py")))
def test_what_asserts_times_is_marked_timed(path: Path) -> None:
    assert unmarked(path.read_text(encoding="utf-8")) == []


def test_an_assertion_of_time_is_found() -> None:
    asked = "def test_a():\n    assert time.monotonic() - asked < 3\n"
    assert unmarked(asked) == ["test_a"]
    assert unmarked(f"@pytest.mark.timed\n{asked}") == unmarked(f"pytestmark = pytest.mark.timed\n{asked}") == []
    assert unmarked("def test_b():\n    assert time.monotonic() < deadline\n") == []


def test_skips_are_allowed_by_test_and_reason() -> None:
    allowed = [{"test": "tests/test_a.py::test_b*", "reason": "no *"}]
    skipped = {
        "tests/test_a.py::test_b[1]": "no zsh",
        "tests/test_a.py::test_b[2]": "broken",
        "tests/test_a.py::test_c": "no zsh",
    }
    assert set(unexpected(skipped, allowed)) == {"tests/test_a.py::test_b[2]", "tests/test_a.py::test_c"}


def test_a_skip_that_is_not_listed_fails_the_session(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"import sys; sys.path.insert(0, {str(HERE)!r}); pytest_plugins = ['sessions']")
    pytester.makepyfile(
        "import pytest\n"
        "def test_done(): pass\n"
        "def test_skipped(): pytest.skip('for no reason')\n"
        "@pytest.mark.long\ndef test_long(): assert False\n"
    )
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=1, skipped=1, deselected=1)
    done.stdout.fnmatch_lines(["*1 skipped, 1 of them not as skips.toml says*", "WRONG *test_skipped: for no reason"])
    assert pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "done").ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_a_parallel_session_leaves_slow_tests_out(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"import sys; sys.path.insert(0, {str(HERE)!r}); pytest_plugins = ['sessions']")
    pytester.makepyfile(
        "import pytest\n"
        "def test_quick(): pass\n"
        "@pytest.mark.slow\ndef test_slow(): pass\n"
        "@pytest.mark.timed\ndef test_timed(): pass\n"
    )
    parallel = ("-p", "no:cacheprovider", "-n", "1")
    pytester.runpytest_subprocess(*parallel).assert_outcomes(passed=1)
    pytester.runpytest_subprocess(*parallel, "--slow").assert_outcomes(passed=2)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)
