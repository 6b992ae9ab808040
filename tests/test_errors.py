"""Kinds of errors, a sentence each."""

import copy
import pickle
import re
from pathlib import Path

import pytest

from dumbbell import errors
from dumbbell.errors import (
    Ambiguous,
    Conflict,
    InputError,
    InUse,
    Missing,
    Needs,
    Nothing,
    OutOfRange,
    Several,
    TooMany,
    Unfit,
    UnknownKey,
    UnknownName,
    Unreadable,
    Unsupported,
    Unwritable,
    WrongValue,
)

MANY = [f"name{n}" for n in range(63)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            UnknownKey('"ecm"', among=["ecn"], file="a.toml", key="hosts.ecm", nearest="hosts.ecn"),
            "unknown key hosts.ecm; did you mean hosts.ecn?",
        ),
        (UnknownKey('"x"', among=["ecn", "mss"], file="a.toml", key="x"), "unknown key x; choose from ecn, mss"),
        (
            UnknownName('"codle"', among=["pie", "codel"], file="a.toml", key="bottleneck.aqm", what="aqm"),
            'bottleneck.aqm: unknown aqm "codle"; did you mean "codel"? Choose from pie, codel',
        ),
        (UnknownName("x", among=[], file="a.toml", what="kernel"), "unknown kernel x; there are none"),
        (WrongValue("3", "a list", file="a.toml", key="x"), "x is 3; it must be a list"),
        (
            WrongValue("3", "a time", file="a.toml", key="x", nearest='"3s"'),
            'x is 3; did you mean "3s"? It must be a time',
        ),
        (WrongValue("3", ["a"], file="a.toml", key="x"), "x is 3; it must be a"),
        (WrongValue("3", ["a", "b"], file="a.toml", key="x"), "x is 3; it must be a or b"),
        (OutOfRange("3", "at most 2", file="a.toml", key="x: y"), "x: y is 3; it must be at most 2"),
        (
            TooMany("40 panels", "at most 36", file="a.toml", key="x"),
            "x: 40 panels are too many; at most 36 are allowed",
        ),
        (Missing("a time", file="a.toml", key="x"), "x is missing; give a time"),
        (Conflict("x and y", "one of them", file="a.toml"), "x and y cannot be combined; use one of them"),
        (Unfit("nothing differs", "a key", file="a.toml", key="x"), "x: nothing differs; use a key"),
        (
            Unsupported("csaqm", ["pie"], file="a.toml", key="x", where="Linux"),
            "x: Linux does not support csaqm; use pie",
        ),
        (Unreadable("this is a directory", "a file", file="a.toml"), "this is a directory; it must be a file"),
        (Unwritable("no room", "another disk", file="a.toml"), "cannot write: no room; choose another disk"),
        (Nothing("found no run", "one or more", file="a.toml"), "found no run; give one or more"),
        (InUse("process 7", "end it", file="a.toml"), "process 7 is using it; end it"),
        (InUse("", "end it", file="a.toml"), "another process is using it; end it"),
        (
            Ambiguous("it describes 9 runs", "one with --cell N", file="a.toml"),
            "it describes 9 runs; choose one with --cell N",
        ),
        (TooMany("2 values", "one", file="a.toml", key="x"), "x: 2 values are too many; one is allowed"),
        (
            TooMany("40 panels", "at most 36", "filter the rows", file="a.toml", key="x"),
            "x: 40 panels are too many; at most 36 are allowed: filter the rows",
        ),
        (
            Unreadable("there is no such file", "a results file", file="a.toml"),
            "there is no such file; give a results file",
        ),
    ],
)
def test_a_sentence_for_each_kind(error: InputError, text: str) -> None:
    assert str(error) == f"a.toml: {text}"
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error) and str(other) == str(error) and vars(other) == vars(error)
    assert str(error.move_into("b.toml")).startswith("b.toml: ") and error.file == "a.toml"
    assert isinstance(error, ValueError)


def test_what_is_needed_is_the_subject() -> None:
    assert (
        str(Needs("flex", "apt-get install flex", command="linux build"))
        == "linux build needs flex: apt-get install flex"
    )


def test_a_dozen_names_at_most_the_nearest_first() -> None:
    text = str(UnknownName("nam62", among=MANY))
    assert text.startswith("unknown name nam62; did you mean name62? Choose from name62, ")
    assert text.endswith("… (63 in all)") and text.count(", ") == 12
    assert len(UnknownName("nam62", among=MANY).known) == 63
    assert str(WrongValue("zzz", MANY, key="x")).count(", ") == 12


def test_options_are_called_as_where_they_are_given() -> None:
    error = Unfit("nothing differs", "a key", option="--mean-over")
    assert str(error) == "mean_over: nothing differs; use a key"
    assert str(WrongValue("3", "a list", key="--set")) == "overrides is 3; it must be a list"
    with errors.speak_as_command_line():
        assert str(error) == "--mean-over: nothing differs; use a key" and errors.spell_option("by") == "--by"
    assert errors.spell_option("--mean-over") == "mean_over"


def test_several_are_a_line_each_and_nothing_breaks_a_line() -> None:
    both = Several([WrongValue("3\r", "a\u2028list", file="a", key="x\n"), Missing("given", file="a", key="y")])
    assert len(str(both).splitlines()) == 2 == len(both.errors)
    assert [one.file for one in both.move_into("b").errors] == ["b", "b"] and both.file == "a"
    assert len(both._render_traceback_()) == 2


def test_every_error_of_the_package_is_of_a_kind() -> None:
    root = Path(errors.__file__).parent
    folders = [root, root.parents[1] / "studies"]
    sources = [path for folder in folders for path in folder.rglob("*.py") if path.name != "errors.py"]
    assert len(sources) > 100
    for path in sources:
        assert not re.search(r"(raise|return) InputError\(", path.read_text()), path
        assert not re.search(r"f?\"[^\"\n]*found \{[^\"\n]*allowed: ", path.read_text()), path
