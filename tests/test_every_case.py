"""The decorator `every_case`: all cases run, and the message has those that failed."""

from pathlib import Path

import pytest

from every_case import every_case

RAN: list[int] = []


@every_case("number, square", [(1, 1), (2, 4), (3, 9)])
def test_a_fixture_is_given_beside_the_cases(number: int, square: int, tmp_path: Path) -> None:
    assert number**2 == square and tmp_path.is_dir()


@every_case("number", [1, 2, 3])
def odd(number: int) -> None:
    RAN.append(number)
    assert number % 2, "even"


def test_every_case_runs_and_the_failed_ones_are_named() -> None:
    with pytest.raises(AssertionError, match=r"1 of 3 cases:\n2: AssertionError: even"):
        odd()
    assert RAN == [1, 2, 3]


def test_no_case_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no case"):
        every_case("number", [])
