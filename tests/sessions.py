"""What a session of pytest does beside the tests: which of them it runs and where, and which skips are right.

A plugin of conftest. Three markers say where a test belongs:

- `slow`: it takes more than 0.7 s. A parallel session (`pytest -n 2`) leaves it out unless `--slow` is given
  (`make test-slow`, `make test-all`, `.ci/run`).
- `timed`: it asserts how long something takes, or runs in real time. A parallel session leaves it out; `make test-slow`
  runs these tests afterwards, one by one.
- `long`: it does in full what another test does in small. Left out unless `--long` is given (`make test-all`).
"""

import fnmatch
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SKIPS = Path(__file__).parent / "skips.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that are marked slow beside others, too")
    parser.addoption("--long", action="store_true", help="run the tests that are marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not belong into this session, and keep the tests of a file in one process."""
    is_parallel = hasattr(config, "workerinput")
    left_out = {"timed"} if is_parallel else set()
    if is_parallel and not config.getoption("--slow"):
        left_out.add("slow")
    if not config.getoption("--long"):
        left_out.add("long")
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        belongs = not any(item.get_closest_marker(name) for name in left_out)
        (chosen if belongs else others).append(item)
        # a file's fixtures are made once; tests of a file that is marked `spread` share none
        if is_parallel and not item.get_closest_marker("spread"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if others:
        items[:] = chosen
        config.hook.pytest_deselected(items=others)


def unexpected(skipped: dict[str, str], allowed: list[dict[str, str]]) -> dict[str, str]:
    """Return those of the skipped tests, id → reason, that no entry of the list allows."""
    return {
        test: reason
        for test, reason in skipped.items()
        if not any(fnmatch.fnmatchcase(test, a["test"]) and fnmatch.fnmatchcase(reason, a["reason"]) for a in allowed)
    }


def _skipped(config: pytest.Config) -> dict[str, str]:
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    found = {}
    for report in reporter.stats.get("skipped", []) if reporter else []:
        why = report.longrepr
        said = why[2] if isinstance(why, tuple) else str(why)
        # a group of xdist is a suffix of the id
        found[report.nodeid.partition("@")[0]] = " ".join(said.removeprefix("Skipped: ").split())
    return found


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    yield
    if not hasattr(session.config, "workerinput"):
        allowed = tomllib.loads(SKIPS.read_text(encoding="utf-8"))["skip"]
        if unexpected(_skipped(session.config), allowed) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a line for each reason to skip tests, with their number, and a line for each test that should have run."""
    skipped = _skipped(config)
    if not skipped:
        return
    wrong = unexpected(skipped, tomllib.loads(SKIPS.read_text(encoding="utf-8"))["skip"])
    terminalreporter.section(f"{len(skipped)} skipped, {len(wrong)} of them not as {SKIPS.name} says")
    for test, reason in sorted(wrong.items()):
        terminalreporter.line(f"WRONG {test}: {reason[:200]}")
    for reason, number in Counter(reason for test, reason in skipped.items() if test not in wrong).most_common():
        terminalreporter.line(f"{number} skipped: {reason[:200]}")
