"""All faults of a file at once, each with its line and column, and the scanner that finds where a key stands."""

import json
import string
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Command, examples
from dumbbell import experiment
from dumbbell.cli import program, status
from dumbbell.errors import InputError, Several, UnknownKey, WrongValue
from dumbbell.evaluate.statement_file import load_statements
from dumbbell.experiment import places

FAULTS = """\
title = '''three
lines
''' # a comment with "quotes", [brackets] and = signs
duraton = "1s"

[bottleneck]
aqm = { name = "codel", "traget" = "5ms" } # an inline table
behind = [
  # a list over lines
  "los", { name = "loss", probability = 3 },
]

[[flows]]
cc = "cubic"

[[flows]]
cc = "reno"
 base_rtt  =  20
host.x = 1

[matrix]
"bottleneck.rate" = ["1Mbit", "10Mbit", "fast"]
"""
FOUND = [
    (4, 1, "unknown key duraton; did you mean duration?"),
    (7, 25, "unknown key bottleneck.aqm.traget; did you mean bottleneck.aqm.target?"),
    (10, 3, 'bottleneck.behind[0]: unknown stage "los"; did you mean "loss"?'),
    (10, 41, "bottleneck.behind[1].probability is 3; it must be a number from 0.0 to 1.0"),
    (18, 15, 'flows[1].base_rtt is 20; did you mean "20ms"?'),
    (19, 1, "unknown key flows[1].host"),
    (22, 41, 'matrix."bottleneck.rate"[2]: bottleneck.rate is "fast"; it must be a rate'),
]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_all_faults_are_told_in_their_order_with_line_and_column(tmp_path: Path, mark: bytes, end: bytes) -> None:
    path = tmp_path / "home.toml"
    path.write_bytes(mark + FAULTS.encode().replace(b"\n", end))
    with pytest.raises(Several) as error:
        experiment.load(path)
    lines = str(error.value).splitlines()
    assert len(lines) == len(FOUND) == len(error.value.errors)
    for line, one, (row, column, text) in zip(lines, error.value.errors, FOUND, strict=True):
        assert line.startswith(f"{path}:{row}:{column}: {text}"), line
        assert (one.file, one.line, one.column) == (str(path), row, column)


def test_fields_of_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "home.toml"
    path.write_text(FAULTS)
    with pytest.raises(InputError) as error:
        experiment.load(path)
    first, *_, rtt, _, rate = error.value.errors
    assert isinstance(first, UnknownKey) and (first.key, first.nearest) == ("duraton", "duration")
    assert "bottleneck" in first.known
    assert isinstance(rtt, WrongValue) and (rtt.found, rtt.nearest) == ("20", '"20ms"')
    assert rate.found == '"fast"' and rate.allowed.startswith("a rate such as ")


def test_the_terminal_shows_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "home.toml"
    path.write_text('[bottleneck]\n\taqm = "\u6f22\u5b57" # wide\n[[flows]]\ncc = "cubic"\nlos = 1\n')
    monkeypatch.setattr("sys.argv", ["dumbbell", "run", str(path), "--dry-run"])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as left:
        program.main()
    assert left.value.code == status.BAD_INPUT
    _, source, mark, _, second, other = capsys.readouterr().err.splitlines()
    assert source == '2 |  aqm = "\u6f22\u5b57" # wide' and mark == "  |        ^^^^^^"
    assert second == "5 | los = 1" and other == "  | ^^^"


def test_settings_and_the_matrix_are_named_where_they_are_to_blame(tmp_path: Path) -> None:
    path = tmp_path / "home.toml"
    good = '[bottleneck]\naqm = "codel"\nrate = "1Mbit"\n[[flows]]\ncc = "cubic"\n'
    path.write_text(good)
    with pytest.raises(InputError) as error:
        experiment.load(path, ["bottleneck.rate=fast"])
    assert str(error.value).startswith('overrides: bottleneck.rate is "fast"; it must be a rate')
    assert error.value.line is None
    path.write_text(good + '[matrix]\n"bottleneck.rate" = ["slow", "2Mbit"]\n')
    with pytest.raises(InputError) as error:
        experiment.load(path)
    assert str(error.value).startswith(f'{path}:7:22: matrix."bottleneck.rate"[0]: bottleneck.rate is "slow"')
    path.write_text(good + '[[override]]\nwhen = { "bottleneck.rate" = "1Mbit" }\nset = { "hosts.ecn" = 3 }\n')
    with pytest.raises(InputError, match=r"home.toml:8:\d+: override\[0\].set: hosts.ecn is 3; it must be true or fal"):
        experiment.load(path)


def test_what_is_missing_is_said_of_its_table_and_not_twice(tmp_path: Path) -> None:
    path = tmp_path / "home.toml"
    path.write_text('[bottleneck]\naqm = "codel"\n\n[[flows]]\nbase_rtt = "1ms"\n')
    with pytest.raises(InputError, match=r"home.toml:4:3: flows\[0\].cc is missing; give one of reno"):
        experiment.load(path)
    path.write_text('[botleneck]\naqm = "codel"\n[[flow]]\ncc = "reno"\n')
    with pytest.raises(InputError) as error:
        experiment.load(path)
    assert str(error.value).splitlines() == [
        f"{path}:1:2: unknown key botleneck; did you mean bottleneck?",
        f"{path}:3:3: unknown key flow; did you mean flows?",
    ]


def test_many_faults_end_with_how_many_more(tmp_path: Path) -> None:
    path = tmp_path / "home.toml"
    path.write_text("".join(f"wrong{n} = {n}\n" for n in range(30)))
    with pytest.raises(InputError) as error:
        experiment.load(path)
    lines = str(error.value).splitlines()
    assert len(lines) == 21 and lines[-1].endswith(" more") and len(error.value.errors) >= 30


@pytest.mark.parametrize(
    ("text", "place"),
    [("a = 1\nb = = 2\n", "2:5"), ("a = [1,\n", "2:1"), ("a = 1\na = 2\n", "2:6"), ('x = "\n', "1:6")],
)
def test_a_fault_of_toml_says_where(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "home.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"home.toml:{place}: this is not TOML: "):
        experiment.load(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[flows]\n[flows]\n", "2:7: FLOWS"),
        ("[flows]\n[[flows]]\n", "2:8: FLOWS"),
        ("[[flows]]\n[flows]\n", "2:7: FLOWS"),
        ("a = 1\na = 2\n", "2:6: this is not TOML: a is there twice; it must be there once"),
    ],
)
def test_what_is_there_twice_is_said_in_words(tmp_path: Path, text: str, found: str) -> None:
    flows = "flows is there twice; it must be there once, or a table [[flows]] each time if there may be several"
    path = tmp_path / "home.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        experiment.load(path)
    assert str(error.value) == f"{path}:{found.replace('FLOWS', f'this is not TOML: {flows}')}"


def test_statements_say_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text('title = "x"\nprogram = "csaqm"\ntabel = {}\n')
    with pytest.raises(InputError, match=r"suite.toml:3:1: unknown key tabel; did you mean table\?"):
        load_statements(path)


def test_a_command_ends_with_a_line_for_each_fault(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "home.toml"
    path.write_text(FAULTS)
    done = command("run", path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == len(FOUND) and not done.stdout


NAMES = st.text(string.ascii_letters + '-_ ."\\#=[]\u00e9\t', min_size=1, max_size=6)
TEXTS = st.text(string.ascii_letters + "\"'\\#=[]{},\n\t \u00e9", max_size=12)
SCALARS = st.integers(-9, 99) | st.booleans() | st.floats(-9, 9) | TEXTS
TABLES = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS, lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3), max_leaves=8
    ),
    max_size=4,
)


class Writer:
    """Writes a table as TOML, in forms that are drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one(self, *of: Any) -> Any:
        return self._draw(st.sampled_from(of))

    def key(self, name: str) -> str:
        forms = [json.dumps(name, ensure_ascii=False)]
        if name and all(c in string.ascii_letters + "-_" for c in name):
            forms.append(name)
        if not set(name) & {"'", "\n", "\t"}:
            forms.append(f"'{name}'")
        return str(self.one(*forms))

    def text(self, value: str) -> str:
        forms = [json.dumps(value, ensure_ascii=False)]
        if not set(value) & {"'", "\n"}:
            forms.append(f"'{value}'")
        if "'''" not in value and not value.endswith("'"):
            forms.append(f"'''\n{value}'''")
        forms.append('"""\n' + value.replace("\\", "\\\\").replace('""', '"\\"') + '"""')
        forms.append('"""' + json.dumps(value, ensure_ascii=False)[1:-1] + '"""')
        return str(self.one(*forms))

    def value(self, value: Any) -> str:
        match value:
            case bool():
                return str(value).lower()
            case str():
                return self.text(value)
            case list():
                gap = self.one("", " ", "\n  ", " # ], }\n")
                comma = self.one("", ",") if value else ""
                return f"[{gap}" + f",{gap}".join(map(self.value, value)) + f"{comma}{gap}]"
            case dict():
                space = self.one("", " ")
                return "{" + ", ".join(f"{self.key(k)}{space}={space}{self.value(v)}" for k, v in value.items()) + "}"
        return str(value)

    def table(self, table: dict[str, Any], path: str = "") -> str:
        here, below = "", ""
        for name, value in table.items():
            key = self.key(name)
            full = f"{path}{self.one('.', ' . ')}{key}" if path else key
            some = isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
            form = self.one("value", "header", "dotted")
            if isinstance(value, dict) and form == "header":
                below += f"[{full}]{self.one('', ' # [x]')}\n" + self.table(value, full)
            elif some and form == "header":
                below += "".join(f"[[ {full} ]]\n" + self.table(one, full) for one in value)
            elif isinstance(value, dict) and value and form == "dotted":
                here += "".join(f"{key}.{self.key(k)} = {self.value(v)}\n" for k, v in value.items())
            else:
                here += (
                    f"{self.one('', '  ')}{key} = {self.value(value)}{self.one('', ' # = [')}\n{self.one('', chr(10))}"
                )
        return here + below


@st.composite
def documents(draw: st.DrawFn) -> str:
    return Writer(draw).table(draw(TABLES))


def every(value: Any, path: places.Steps = ()) -> dict[places.Steps, Any]:
    """Return all keys and elements of a value, with what they hold."""
    found = {path: value} if path else {}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in pairs:
        found |= every(inner, (*path, step))
    return found


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(documents())
def test_every_key_of_a_document_is_found_where_it_stands(text: str) -> None:
    wanted = every(tomllib.loads(text))
    found = places.find(text)
    assert found.keys() == wanted.keys()
    for path, place in found.items():
        key, value = (text[span.start : span.end] for span in (place.key, place.value))
        if place.key != place.value:
            assert tomllib.loads(f"x = {value}")["x"] == wanted[path]
            assert list(tomllib.loads(f"{key} = 1")) == [path[-1]]
        elif isinstance(path[-1], int) and not isinstance(wanted[path], dict):
            assert tomllib.loads(f"x = {value}")["x"] == wanted[path]


def test_keys_are_read_as_they_are_written() -> None:
    assert places.split_key('matrix."bottleneck.rate"[2]') == ("matrix", "bottleneck.rate", 2)
    assert places.split_key("flows[0].cc.beta") == ("flows", 0, "cc", "beta")
