"""`dumbbell evaluate history` and `evaluate bisect`: trees of ten commits, of which one introduces a defect."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Command
from dumbbell.errors import InputError
from dumbbell.evaluate.history import (
    EvaluationHistory,
    HistoryEntry,
    draw_cell_history,
    format_history,
    make_history_page,
)
from dumbbell.stacks.commits import Commit, CommitVerdict, TreeClone
from window_stack import CRATE, FAULTS, SOURCE, require_compiler

BUILD = "cc -std=c11 -O1 -shared -fPIC window.c -o window.so"
BROKEN, DEFECT = 5, 7


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))


def git(tree: Path, *words: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, "-C", str(tree), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def make_tree(tree: Path, texts: list[str], name: str = "window.c") -> list[str]:
    """Return the commits of a new tree, each with one text of a file."""
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    (tree / "dumbbell.h").write_text((CRATE / "include" / "dumbbell.h").read_text())
    commits = []
    for number, text in enumerate(texts, 1):
        (tree / name).write_text(text)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "--allow-empty", "-m", f"change {number}")
        commits.append(git(tree, "rev-parse", "HEAD"))
    return commits


# the clone of a tree, without a stack


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    tree = tmp_path_factory.mktemp("ten") / "tree"
    return tree, make_tree(tree, [f"{number}\n" for number in range(1, 11)], "number")


@pytest.mark.parametrize("first", range(2, 11))
def test_the_first_bad_commit_is_found_wherever_it_is(first: int, ten: tuple[Path, list[str]], tmp_path: Path) -> None:
    tree, commits = ten
    clone = TreeClone(tree, tmp_path / "clone")
    judged = []

    def judge(commit: Commit) -> CommitVerdict:
        clone.check_out(commit)
        number = int((clone.folder / "number").read_text())
        (clone.folder / "number").write_text("a build changes files of the tree\n")
        judged.append(number)
        if number == BROKEN:
            return CommitVerdict.UNKNOWN
        return CommitVerdict.BAD if number >= first else CommitVerdict.GOOD

    good, bad = clone.find_range("main~9..main")
    assert (good.id, bad.id) == (commits[0], commits[-1])
    end = clone.find_first_bad(good, bad, judge)
    assert len(judged) == len(set(judged)) <= 5
    if first in (BROKEN, BROKEN + 1):
        # the commit that cannot be judged may be the first bad one
        assert end.first_bad is None and {one.id for one in end.possible} == set(commits[BROKEN - 1 : BROKEN + 1])
    else:
        assert end.first_bad == clone.find_commit(commits[first - 1])
        assert end.first_bad.subject == f"change {first}"
    # the tree is as it was
    assert git(tree, "status", "--porcelain") == "" and git(tree, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert not (tree / ".git" / "BISECT_LOG").exists() and git(tree, "worktree", "list").count("\n") == 0


def test_commits_are_a_range_with_both_ends_or_a_list(ten: tuple[Path, list[str]], tmp_path: Path) -> None:
    tree, commits = ten
    clone = TreeClone(tree, tmp_path / "clone")
    assert [one.id for one in clone.list_commits("main~3..main")] == commits[-4:]
    assert [one.id for one in clone.list_commits(f"{commits[2]},main")] == [commits[2], commits[-1]]
    for wrong, said in [
        ("main..main~3", "it must be a range of 1 to 1000 commits"),
        ("v1..main", 'commits is "v1"; it must be a commit'),
        ("main...main", "it must be GOOD..BAD"),
        ("--all..main", 'commits is "--all"'),
    ]:
        with pytest.raises(InputError, match=said):
            clone.list_commits(wrong)
    with pytest.raises(InputError, match="is not a git tree"):
        TreeClone(tmp_path / "nothing", tmp_path / "other")


def test_ends_in_the_wrong_order_are_refused(ten: tuple[Path, list[str]], tmp_path: Path) -> None:
    tree, _ = ten
    clone = TreeClone(tree, tmp_path / "clone")
    good, bad = clone.find_range("main..main~3")
    with pytest.raises(InputError, match="git bisect"):
        clone.find_first_bad(good, bad, lambda _: CommitVerdict.GOOD)


# histories of reports made by hand


def report(*values: tuple[str, float, float, float], grade: str = "no worse") -> dict[str, Any]:
    cells = [
        {"place": {"setting": where}, "where": where, "grade": grade, "value": value, "low": low, "high": high}
        | {"command": f"dumbbell repeat {where}", "seeds": 10}
        for where, value, low, high in values
    ]
    criterion = {"id": "use", "says": "It uses the link.", "grade": grade, "bars": {"level": ">= 0.8 * cubic"}}
    criterion["measure"] = "goodput, Mbit/s"
    return {"suite": "stack", "name": "x", "criteria": [criterion | {"cells": cells}]}


def make_history(*reports: dict[str, Any] | None) -> EvaluationHistory:
    entries = [
        HistoryEntry(f"v{n}", "", one, "" if one is not None else "it does not compile: window.c:3: error")
        for n, one in enumerate(reports, 1)
    ]
    return EvaluationHistory("x over versions", tuple(entries))


def test_each_version_is_compared_with_the_last_one_that_was_judged() -> None:
    good, low = report(("10Mbit", 9.0, 8.9, 9.1)), report(("10Mbit", 8.0, 7.9, 8.1))
    found = make_history(good, None, low, low)
    assert [(entry.name, len(one.regressions)) for entry, one in found.steps] == [("v3", 1), ("v4", 0)]
    text = format_history(found)
    assert "v3: Against v1: 1 worse, 0 better, 0 the same." in text
    assert "v2: it does not compile: window.c:3: error" in text
    assert "use: dumbbell repeat 10Mbit" in text and "9 (8.9 to 9.1)" in text
    assert not found.is_last_worse
    assert make_history(good, low).is_last_worse and make_history(good, None).is_last_worse
    # what differs by less than 5 % is no change
    assert not make_history(good, report(("10Mbit", 8.7, 8.6, 8.8))).is_last_worse
    # a worse grade is one, whatever the figure
    assert make_history(good, report(("10Mbit", 9.0, 8.9, 9.1), grade="closed")).is_last_worse


def test_the_page_has_each_cell_with_its_interval() -> None:
    found = make_history(report(("a", 9.0, 8.0, 10.0), ("b", 1.0, 1.0, 1.0)), None, report(("a", 5.0, 4.0, 6.0)))
    first, second = found.list_cells("use")
    assert (first.place, second.place) == ("a", "b") and [one is None for one in second.cells] == [False, True, True]
    page = make_history_page(found, "dumbbell evaluate history <x>")
    assert "&lt;x&gt;" in page and page.count('<svg class="trends"') == 2 and '<details id="use" open>' in page
    assert "9 (8 to 10)" in page and "v1: no worse, 9 (8 to 10)" in page
    assert "use: It uses the link. (goodput, Mbit/s)" in page  # the unit of its values
    drawing = str(draw_cell_history(found, first))
    # 10 and 4 are the ends of the scale: 8 and 36 px from above
    assert "M8.0 8.0V17.3" in drawing and "M52.0 26.7V36.0" in drawing
    assert 'points="8.0,12.7 52.0,31.3"' in drawing


def test_reports_of_any_suite_have_a_history(tmp_path: Path, command: Command) -> None:
    for name, value in (("old", 9.0), ("new", 5.0)):
        (tmp_path / f"{name}.json").write_text(json.dumps(report(("a", value, value, value))))
    done = command("evaluate", "history", "old.json", "new.json", "-o", "trend.html")
    assert done.returncode == 1 and "new: Against old: 1 worse" in done.stdout, done.stderr
    assert (tmp_path / "trend.html").is_file()
    done = command("evaluate", "history", "new.json", "old.json", "--format", "json")
    assert done.returncode == 0 and json.loads(done.stdout)["changes"][0]["change"] == "better"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["history", "quinn"], "evaluate history: --versions is missing; give --versions, or --tree with --commits"),
        (["history", "quinn", "--versions", "0.11.2"], "stack build: --version is 0.11.2; it must be"),
        (["history", "quinn", "noq", "--versions", "1.0.0"], 'evaluate history: STACK is "noq"'),
        (["history", "a.json", "b.json", "--quick"], "evaluate history: reports and options of a stack"),
        (["history", "a.json", "b.json"], "a.json: no such file"),
        (["history", "quinn", "--versions", "1.2.3", "--suite", "rfc9743"], "evaluate history: --suite"),
        (["bisect", "quinn", "--tree", "tree", "--commits", "a..b", "--suite", "rfc9743"], "evaluate bisect: --suite"),
        (["history", "quinn", "--versions", "1.2.3", "--tree", "."], "evaluate history: --versions and --tree"),
        (["history", "x.so", "--tree", "tree", "--commits", "main~1..main"], "--build is missing; give the shell"),
        (["bisect", "quinn", "--commits", "a..b"], "evaluate bisect: --tree is missing"),
        (["bisect", "quinn", "--tree", "tree"], "evaluate bisect: --commits is missing"),
        (["bisect", "quinn", "--tree", "tree", "--commits", "main"], '--commits is "main"; it must be GOOD..BAD'),
    ],
)
def test_mistakes_get_one_line_and_status_2(words: list[str], said: str, tmp_path: Path, command: Command) -> None:
    make_tree(tmp_path / "tree", ["1", "2"])
    done = command("evaluate", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr


# the example in C: a commit that does not compile, and one since which it starts with a smaller window


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    require_compiler()
    before, after = FAULTS["slow"]
    texts = []
    for number in range(1, 11):
        text = SOURCE.replace(before, after) if number >= DEFECT else SOURCE
        texts.append(text if number != BROKEN else text.replace("#include", "#incluse", 1))
    make_tree(tmp_path / "tree", texts)
    return tmp_path / "tree"


@pytest.mark.slow
def test_the_commit_with_a_defect_is_found_past_one_that_does_not_compile(tree: Path, command: Command) -> None:
    words = ["window.so", "--tree", tree, "--build", BUILD, "--only", "path-change", "--quick", "-o", "search"]
    done = command("evaluate", "bisect", *words, "--commits", "main~9..main", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["first_bad"]["subject"] == f"change {DEFECT}"
    verdicts = {one["subject"]: one["verdict"] for one in found["trials"]}
    assert verdicts["change 1"] == verdicts[f"change {DEFECT - 1}"] == "good"
    assert verdicts["change 10"] == verdicts[f"change {DEFECT}"] == "bad"
    assert {cell["criterion"] for one in found["trials"] for cell in one["worse"]} == {"path-change-goodput"}
    if "change 5" in verdicts:
        assert verdicts["change 5"] == "skip" and "does not compile" in done.stderr
    # nothing is run or built again, and there is nothing to find where nothing got worse
    done = command("evaluate", "bisect", *words, "--commits", "main~9..main~5")
    assert done.returncode == 2 and "it does not compile" in done.stderr, done.stderr
    done = command("evaluate", "bisect", *words, "--commits", "main~9..main~6")
    assert done.returncode == 3 and "Nothing is worse" in done.stdout, done.stderr


@pytest.mark.slow
def test_commits_have_a_history(tree: Path, command: Command) -> None:
    words = ["window.so", "--tree", tree, "--build", BUILD, "--only", "path-change-goodput", "--quick"]
    done = command("evaluate", "history", *words, "--commits", "main~6..main~3", "--format", "json")
    assert done.returncode == 1, done.stderr  # the last of them has the defect
    found = json.loads(done.stdout)
    assert [bool(one["lacks"]) for one in found["entries"]] == [False, True, False, False]
    [change] = found["changes"]
    assert (change["since"], change["change"]) == (found["entries"][-1]["name"], "worse")
    assert found["entries"][-1]["title"].endswith(f"change {DEFECT}")
