"""The keys of a suite for its judges: paths on which they judge, and fields that a trace must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dumbbell.experiment import units
from dumbbell.experiment.toml_checks import check_keys, check_kind, make_error

JUDGES = ("bbr",)
"""Packages next to this module with judges: the part of a judge's name before the dot."""


@dataclass(frozen=True)
class TraceNeeds:
    """The fields that the trace of another implementation must have for a judge.

    `setup` is what has to be done to the flow, and `real` how a real stack gets there. `columns` is what the trace
    needs in addition to states, `flags` what is compared if it has it. `times` and `values` are what the judge must be
    told of the set-up by name, `optional` what else it may be told.
    """

    setup: str = ""
    real: str = ""
    columns: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathGrid:
    """Rates of links in bit/s and base RTTs in ns at which judges judge; `quick` has those that --quick keeps."""

    rates: tuple[int, ...] = ()
    rtts: tuple[int, ...] = ()
    quick: Mapping[str, tuple[int, ...]] | None = None

    def select(self, *, quick: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return rates and RTTs, with `quick` those alone that are kept then."""
        if not quick or self.quick is None:
            return self.rates, self.rtts
        return self.quick["rates"], self.quick["rtts"]


def read_needs(key: str, value: Any) -> TraceNeeds:
    """Return what a criterion's judge needs of a trace. Raises InputError."""
    names = [one.name for one in fields(TraceNeeds)]
    found: dict[str, Any] = {}
    for name, one in check_keys(key, value, names).items():
        if name in ("setup", "real"):
            found[name] = str(check_kind(f"{key}.{name}", one, str, "text"))
        else:
            texts = check_kind(f"{key}.{name}", one, list, "texts")
            found[name] = tuple(
                check_kind(f"{key}.{name}[{number}]", text, str, "text") for number, text in enumerate(texts)
            )
    return TraceNeeds(**found)


def read_grid(key: str, value: Any) -> PathGrid:
    """Return the paths of a suite's judges. Raises InputError."""
    table = check_keys(key, value, ("rates", "rtts", "quick"), ("rates", "rtts"))
    quick = None
    if "quick" in table:
        of_quick = check_keys(f"{key}.quick", table["quick"], ("rates", "rtts"), ("rates", "rtts"))
        quick = {name: _read_quantities(f"{key}.quick.{name}", name, one) for name, one in of_quick.items()}
    return PathGrid(
        _read_quantities(f"{key}.rates", "rates", table["rates"]),
        _read_quantities(f"{key}.rtts", "rtts", table["rtts"]),
        quick,
    )


def _read_quantities(key: str, kind: str, value: Any) -> tuple[int, ...]:
    found = []
    for number, one in enumerate(check_kind(key, value, list, f"a list of {kind}")):
        if not isinstance(one, str):
            raise make_error(f"{key}[{number}]", one, "a quantity with its unit, as text")
        found.append(int(units.parse({"rates": "rate", "rtts": "time"}[kind], one)))
    return tuple(found)
