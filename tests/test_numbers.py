"""How numbers are written in sentences, tables and pages."""

from collections.abc import Callable
from typing import Any

from dumbbell import words


def test_numbers_are_written_in_one_way() -> None:
    for write, given, expected in (
        (words.format_number, (1234.5,), "1234"),
        (words.format_number, (12_345.6,), "12 346"),
        (words.format_number, (0.001234,), "0.00123"),
        (words.format_number, (2.50,), "2.5"),
        (words.format_whole, (9999,), "9999"),
        (words.format_whole, (10_000,), "10 000"),
        (words.format_count, (1, "run"), "1 run"),
        (words.format_count, (12_000, "entry", "entries"), "12 000 entries"),
        (words.format_duration, (0.02,), "20 ms"),
        (words.format_duration, (300.0,), "300 s"),
        (words.format_work_time, (119.0,), "119 s"),
        (words.format_work_time, (720.0,), "12 min"),
        (words.format_work_time, (12_345.0, 2), "3.4 h"),
        (words.format_rate, (1500.0,), "1.5 Gbit/s"),
        (words.format_rate, (0.064,), "64 kbit/s"),
        (words.format_percent, (0.4534,), "45.3 %"),
        (words.format_percent, (0.0071,), "0.71 %"),
        (words.format_percent, (1.0,), "100 %"),
        (words.format_measured, (float("nan"),), "-"),
        (words.capitalise, ("runs, one by one",), "Runs, one by one"),
        (words.capitalise, ("one-way delay",), "One-way delay"),
        (words.capitalise, ("mine@39b57e sent",), "mine@39b57e sent"),
    ):
        function: Callable[..., Any] = write
        assert function(*given) == expected, (function.__name__, given)
