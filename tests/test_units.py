import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumbbell.errors import InputError
from dumbbell.experiment import units


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("time", "20ms", 20_000_000),
        ("time", "1.5s", 1_500_000_000),
        ("time", "100us", 100_000),
        ("time", "100 µs", 100_000),
        ("time", "2min", 120 * 10**9),
        ("time", "0.001us", 1),
        ("time", 0, 0),
        ("rate", "10Mbit", 10_000_000),
        ("rate", "10Mbit/s", 10_000_000),
        ("rate", "500kbit", 500_000),
        ("rate", "1gbit", 10**9),
        ("rate", "2.5Gbit", 2_500_000_000),
        ("size", "4MB", 4_000_000),
        ("size", "64KiB", 65536),
        ("size", "1514B", 1514),
        ("size", "1.5kB", 1500),
    ],
)
def test_quantities(kind: str, text: object, value: int) -> None:
    assert units.parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "nearest"),
    [
        ("time", 20, '"20ms"'),
        ("time", "20", '"20ms"'),
        ("time", "20MS", '"20ms"'),
        ("time", "-20ms", None),
        ("time", "20ms/s", '"20ms"'),
        ("time", "0.1ns", None),
        ("time", "1e3ms", None),
        ("time", True, None),
        ("time", 0.0, None),
        ("time", None, None),
        ("time", ["1s"], None),
        ("time", "0.5", '"0.5ms"'),
        ("rate", 10_000_000, '"10Mbit"'),
        ("rate", 100, '"100Mbit"'),
        ("rate", "10Mb", '"10Mbit"'),
        ("rate", "1MB", '"1Mbit", or "8Mbit" for 1MB/s'),
        ("rate", "1KiB", '"1kbit", or "8.192kbit" for 1KiB/s'),
        ("rate", "100B", '"100bit", or "800bit" for 100B/s'),
        ("rate", "1.5MB/s", '"12Mbit"'),
        ("rate", "2MBps", '"16Mbit"'),
        ("rate", f"{'9' * 30}TB", None),
        ("rate", "0B", None),
        ("rate", "10s", None),
        ("size", "5Mbit", None),
        ("time", "5B", None),
        ("rate", "٣Mbit", None),
        ("size", 1514, '"1514B"'),
        ("size", "1514b", '"1514B"'),
    ],
)
def test_what_is_no_quantity(kind: str, text: object, nearest: str | None) -> None:
    with pytest.raises(InputError) as error:
        units.parse(kind, text)
    assert error.value.nearest == nearest


CORPUS = Path(__file__).parent.parent / "crates" / "dumbbell-net" / "tests" / "quantities.json"


@pytest.mark.parametrize("kind", ["time", "rate", "size"])
def test_the_crate_dumbbell_net_reads_the_same_quantities(kind: str) -> None:
    # its own test reads the same cases
    for text, value in json.loads(CORPUS.read_text(encoding="utf-8"))[kind]:
        try:
            found = units.parse(kind, text)
        except InputError:
            found = None
        assert found == value, text


@given(st.sampled_from(["time", "rate", "size"]), st.integers(0, 10**15))
def test_what_is_shown_reads_back(kind: str, value: int) -> None:
    assert units.parse(kind, units.show(kind, value)) == value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("size", 1448, "1448B"),
        ("size", 1500, "1.5kB"),
        ("size", 65_536, "64KiB"),
        ("size", 4 << 20, "4MiB"),
        ("size", 1_514_000, "1514kB"),
        ("size", 0, "0B"),
        ("time", 1_500_000, "1.5ms"),
        ("time", 0, "0ns"),
        ("rate", 10_000_000, "10Mbit"),
    ],
)
def test_what_is_shown_has_few_digits(kind: str, value: int, text: str) -> None:
    assert units.show(kind, value) == text
