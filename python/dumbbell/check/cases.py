"""The cases, in the order of the draft: their texts are in cases.toml, their programs in the modules by phase."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from dumbbell.check.case import BbrCase
from dumbbell.check.path import PATH
from dumbbell.check.probing import PROBING
from dumbbell.check.spurious import SPURIOUS
from dumbbell.check.startup import STARTUP

_PROGRAMS = STARTUP | PROBING | PATH | SPURIOUS
_TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _make_case(key: str, texts: dict[str, Any]) -> BbrCase:
    found: dict[str, Any] = {name: tuple(text) if isinstance(text, list) else text for name, text in texts.items()}
    return BbrCase(key=key, **found, **vars(_PROGRAMS[key]))


CASES: dict[str, BbrCase] = {key: _make_case(key, texts) for key, texts in _TEXTS["cases"].items()}
TIMES: dict[str, str] = _TEXTS["times"]
VALUES: dict[str, str] = _TEXTS["values"]
