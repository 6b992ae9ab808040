"""Licences of what a wheel bundles: all are named in THIRD_PARTY.md, and all are allowed by deny.toml."""

import re
import subprocess
import tomllib

import pytest

from website import licences
from website.markdown import ROOT


@pytest.fixture(scope="module")
def page() -> str:
    try:
        return licences.make_page()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cargo metadata does not work here: {error}")


def test_the_page_that_is_checked_in_is_the_one_that_is_written(page: str) -> None:
    assert licences.PAGE.read_text(encoding="utf-8") == page, "python -m website.licences writes it"


@pytest.mark.usefixtures("page")
def test_every_licence_of_a_crate_is_allowed() -> None:
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))["licenses"]["allow"])

    def holds(expression: str) -> bool:
        every = re.split(r"\) AND | AND ", expression.replace("/", " OR "))
        return all(any(one.strip("() ") in allowed for one in part.split(" OR ")) for part in every)

    assert [one["name"] for one in licences.list_crates() if not holds(one["license"])] == []
    assert not holds("GPL-3.0") and not holds("MIT AND GPL-3.0") and holds("(MIT OR GPL-3.0) AND Unicode-3.0")


def test_data_of_others_is_named() -> None:
    assert all((ROOT / file).is_file() for file in licences.DATA)
