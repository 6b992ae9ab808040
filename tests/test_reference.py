"""`dumbbell describe`."""

import re

import pytest

from conftest import Command
from dumbbell.cli import key_reference
from dumbbell.errors import InputError
from dumbbell.experiment import json_schema
from dumbbell.experiment.registry import read_registry
from dumbbell.results import columns
from website import reference_pages


def keys_of_the_schema() -> set[str]:
    """Return every key that a table of an experiment file may have, whatever it is the table of."""
    described = json_schema.make_schema()
    return {key for part in (described, *described["$defs"].values()) for key in part.get("properties", {})}


def test_every_key_and_every_column_is_described_and_in_the_reference() -> None:
    whole = key_reference.format_markdown()
    for name in keys_of_the_schema() | set(read_registry().profiles):
        assert key_reference.describe(name)
        assert name == "name" or f"`{name}`" in whole or f"### {name}" in whole, name
    for name in key_reference.list_names():
        assert key_reference.describe(name)
    for table, of_table in columns.COLUMNS.items():
        for column in of_table.values():
            assert column.doc in key_reference.describe(f"{table}.{column.name}")
            assert f"`{column.name}`" in whole.partition(f"### Table {table}\n")[2].partition("###")[0]


def test_the_pages_are_those_that_make_reference_writes() -> None:
    written = {
        path.relative_to(reference_pages.FOLDER).as_posix(): path for path in reference_pages.FOLDER.glob("**/*.md")
    }
    made = reference_pages.make_pages()
    assert set(written) == set(made)
    assert [place for place, path in written.items() if path.read_text(encoding="utf-8") != made[place]] == []


def test_every_key_and_every_column_is_on_a_page() -> None:
    """Parameters of queue disciplines and congestion controls are on the pages of these."""
    pages = reference_pages.make_pages()
    keys = "\n".join(text for place, text in pages.items() if place.startswith("keys/"))
    groups = [*key_reference.list_sections().values()]
    groups += [one for kind in ("stage", "link") for one in key_reference.list_algorithms()[kind]]
    for group in groups:
        assert all(f"\n| `{key.name}` |" in keys for key in group.keys), group.name
    for table, of_table in columns.COLUMNS.items():
        assert all(f"\n| `{name}` |" in pages[f"results/{table}.md"] for name in of_table), table


def test_hops_take_the_keys_of_the_bottleneck() -> None:
    keys = {name: group.keys for name, group in key_reference.list_sections().items()}
    assert [key.name for key in keys["hop"] if key not in keys["bottleneck"]] == ["name"]
    assert keys["reverse"] == keys["bottleneck"] and set(keys["bottleneck"]) < set(keys["hop"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bottleneck.rate", "bottleneck.rate = 10Mbit (rate, from 1kbit to 10Tbit)"),
        ("flows[*].base_rtt", "flows.base_rtt = 20ms (time, from 0ns to 60s)"),
        ("flows[3].cc.beta", "cubic.beta = "),
        ("codel.target", "codel.target = 5ms (time, "),
        ("bottleneck.aqm.target", "fq_codel.target = 5ms (time, "),
        ("record.interval", "record.interval = 1s (time, "),
        ("flows[0].path[1].probability", "loss.probability = "),
        ("rate_changes", "\nat (needed: time)"),
        ("bottleneck.rate_changes[0].at", "bottleneck.rate_changes.at (needed: time)"),
        (
            "flows[0].start.uniform",
            "flows.start = 0ns (time, from 0ns to 86400s)\n    When it starts: a time, or { uniform",
        ),
        ("count", "udp.count = 1 (int, from 1 to 1000000)"),
        ("app_rate", "flows.app_rate = unset (rate, "),
        ("seeds", "seeds = [1] (a list of different integers"),
        ("override", "\nwhen (needed: a table)"),
        ("linux-5.4", "cubic.hystart = 5.5 ["),
        ("classes.goodput_mbit", "goodput_mbit (Mbit/s), column of table classes: goodput"),
        ("series", "srtt_ms (ms), column of table series: smoothed RTT"),
    ],
)
def test_one_name_is_described(name: str, expected: str) -> None:
    assert expected in key_reference.describe(name)


def test_a_name_of_two_things_says_which_is_which() -> None:
    text = key_reference.describe("onoff")
    assert text.startswith("onoff is the name of a link and an application.\n")
    assert 'As a link, bottleneck.link = "onoff":\nonoff: suspension' in text
    assert 'As an application, app.kind = "onoff":\nonoff: A client that fetches small files' in text
    assert "is the name of" not in key_reference.describe("codel")


@pytest.mark.parametrize(
    ("name", "near"),
    [("goodput_mbt", "goodput_mbit"), ("codle", "codel"), ("botleneck.rate", "bottleneck.rate"), ("qqqqqq", None)],
)
def test_unknown_names_are_one_line_with_the_nearest(name: str, near: str | None) -> None:
    with pytest.raises(InputError) as error:
        key_reference.describe(name)
    assert error.value.nearest == near and str(error.value).startswith(
        f'describe: unknown table, key, algorithm, profile or column "{name}"; '
    )


def test_describe_takes_a_name_or_all(command: Command) -> None:
    column = command("describe", "goodput_mbit")
    assert column.returncode == 0 and len(re.findall(r"column of table", column.stdout)) == 4
    assert command("describe", "--all").stdout == key_reference.format_markdown()
    for line in (["describe"], ["describe", "codel", "--all"]):
        done = command(*line)
        assert done.returncode == 2 and done.stderr.startswith("describe: ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hosts.mss", "hosts.mss = 1448 B (size, from 88 B to 8948 B)"),
        ("hosts.initial_ssthresh", "hosts.initial_ssthresh = unset (int, from 2 to 1000000000, or none)"),
        ("flows.size", "flows.size = unset (size, from 1 B, unlimited, or none)"),
        ("prague.burst_shift", "prague.burst_shift = 12 (2^-12 s) (int, "),
        ("dctcp.shift_g", "dctcp.shift_g = 4 (2^-4) (int, "),
        ("codel.limit", "codel.limit = 1000 packets (int, "),
        ("hosts.offload", "hosts.offload = tso (choice, one of none, tso, gso)"),
        ("freebsd-13", "send_buffer = 2 MiB ["),
    ],
)
def test_values_are_told_in_words(name: str, expected: str) -> None:
    assert expected in key_reference.describe(name)


def test_no_value_is_told_as_the_engine_has_it() -> None:
    text = key_reference.format_markdown()
    assert not re.search(r"[0-9]\.[0-9]{2,}[kMG]B|`none [a-z]|-log2|[0-9]{12,}", text)
