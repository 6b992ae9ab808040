"""Kinds of errors, a sentence each."""

import copy
import pickle
import re
from pathlib import Path

import pytest

from dumbbell import errors
from dumbbell.errors import (
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
            UnknownKey("a.toml", "hosts.ecm", '"ecm"', ["ecn"], "hosts.ecn"),
            "unknown key hosts.ecm; did you mean hosts.ecn?",
        ),
        (UnknownKey("a.toml", "x", '"x"', ["ecn", "mss"]), "unknown key x; known are ecn, mss"),
        (
            UnknownName("a.toml", "bottleneck.aqm", '"codle"', ["pie", "codel"], what="aqm"),
            'bottleneck.aqm: unknown aqm "codle"; did you mean "codel"? Known are pie, codel',
        ),
        (UnknownName("a.toml", "", "x", [], what="kernel"), "unknown kernel x; there are none"),
        (WrongValue("a.toml", "x", "3", "a list"), "x is 3; it must be a list"),
        (WrongValue("a.toml", "x", "3", "a time", '"3s"'), 'x is 3; did you mean "3s"? It must be a time'),
        (WrongValue("a.toml", "x", "3", ["a"]), "x is 3; it must be a"),
        (WrongValue("a.toml", "x", "3", ["a", "b"]), "x is 3; it must be a or b"),
        (OutOfRange("a.toml", "x: y", "3", "at most 2"), "x: y is 3; it must be at most 2"),
        (TooMany("a.toml", "x", "40 panels", "at most 36"), "x: 40 panels are too many; there may be at most 36"),
        (Missing("a.toml", "x", "a time"), "x is missing; it must be a time"),
        (Conflict("a.toml", "", "x and y", "one of them"), "x and y do not go together; use one of them"),
        (Unfit("a.toml", "x", "nothing differs", "a key"), "x: nothing differs; use a key"),
        (Unsupported("a.toml", "x", "csaqm", ["pie"], where="Linux"), "x: Linux has no csaqm; use pie"),
        (Unreadable("a.toml", "", "this is a directory", "a file"), "this is a directory; it must be a file"),
        (Unwritable("a.toml", "", "no room", "another disk"), "it cannot be written: no room; choose another disk"),
        (Nothing("a.toml", "", "no run", "one or more"), "no run; it needs one or more"),
        (InUse("a.toml", "", "process 7", "end it"), "it is in use by process 7; end it"),
    ],
)
def test_a_sentence_for_each_kind(error: InputError, text: str) -> None:
    assert str(error) == f"a.toml: {text}"
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error) and str(other) == str(error) and vars(other) == vars(error)
    assert str(error.within("b.toml")).startswith("b.toml: ") and error.file == "a.toml"
    assert isinstance(error, ValueError)


def test_what_is_needed_is_the_subject() -> None:
    assert (
        str(Needs("linux build", "", "flex", "apt-get install flex")) == "linux build needs flex: apt-get install flex"
    )


def test_a_dozen_names_at_most_the_nearest_first() -> None:
    text = str(UnknownName("", "", "nam62", MANY))
    assert text.startswith("unknown name nam62; did you mean name62? Known are name62, ")
    assert text.endswith("… (63 in all)") and text.count(", ") == 12
    assert len(UnknownName("", "", "nam62", MANY).known) == 63
    assert str(WrongValue("", "x", "zzz", MANY)).count(", ") == 12


def test_options_are_called_as_where_they_are_given() -> None:
    error = Unfit("--mean-over", "", "nothing differs", "a key")
    assert str(error) == "mean_over: nothing differs; use a key"
    assert str(WrongValue("", "--set", "3", "a list")) == "overrides is 3; it must be a list"
    with errors.on_command_line():
        assert str(error) == "--mean-over: nothing differs; use a key" and errors.flag("by") == "--by"
    assert errors.flag("--mean-over") == "mean_over"


def test_several_are_a_line_each_and_nothing_breaks_a_line() -> None:
    both = Several([WrongValue("a", "x\n", "3\r", "a\u2028list"), Missing("a", "y", "given")])
    assert len(str(both).splitlines()) == 2 == len(both.errors)
    assert [one.file for one in both.within("b").errors] == ["b", "b"] and both.file == "a"
    assert len(both._render_traceback_()) == 2


def test_every_error_of_the_package_is_of_a_kind() -> None:
    root = Path(errors.__file__).parent
    folders = [root, root.parents[1] / "studies"]
    sources = [path for folder in folders for path in folder.rglob("*.py") if path.name != "errors.py"]
    assert len(sources) > 100
    for path in sources:
        assert not re.search(r"(raise|return) InputError\(", path.read_text()), path
        assert not re.search(r"f?\"[^\"\n]*found \{[^\"\n]*allowed: ", path.read_text()), path
