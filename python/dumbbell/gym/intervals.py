"""Monitor intervals with the measurements of agents, in arrays with a row for each agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell.errors import UnknownName
from dumbbell.gym.draws import Network

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NEAR = 1e-9  # the least denominator of a ratio


class MonitorIntervals:
    """The latest interval of each agent between two actions, with a row for each of them.

    `intervals["rtt_mean_ms"]` is a column: a measurement, or a value of the networks such as `rate_mbit`. A missing
    measurement is NaN.
    """

    def __init__(self, columns: Sequence[str], rows: int) -> None:
        """Make intervals without measurements."""
        self._places = {name: place for place, name in enumerate(columns)}
        blank = np.full((rows, len(columns)), np.nan)
        self._now, self._previous, self._least, self._most = (blank.copy() for _ in range(4))
        self._networks: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> Floats:
        if name in self._places:
            return self._now[:, self._places[name]]
        if name not in self._networks:
            raise UnknownName(name, among=[*self._places, *self._networks], what="column")
        return self._networks[name]

    def get_previous(self, name: str) -> Floats:
        """Return a column of the interval before the latest one."""
        return self._previous[:, self._find_place(name)]

    def get_least(self, name: str) -> Floats:
        """Return the least value of a column in the episode so far."""
        return self._least[:, self._find_place(name)]

    def get_most(self, name: str) -> Floats:
        """Return the largest value of a column in the episode so far."""
        return self._most[:, self._find_place(name)]

    def _find_place(self, name: str) -> int:
        if name not in self._places:
            raise UnknownName(name, among=list(self._places), what="column")
        return self._places[name]

    def begin(self, rows: slice, network: Network) -> None:
        """Forget the episode of some rows; another one begins in this network."""
        for one in (self._now, self._previous, self._least, self._most):
            one[rows] = np.nan
        for name, value in network.items():
            if name not in self._networks:
                numeric = isinstance(value, int | float) and not isinstance(value, bool)
                self._networks[name] = np.full(len(self._now), np.nan if numeric else None)
            self._networks[name][rows] = value

    def take(self, values: Floats) -> None:
        """Take the values of the interval that has just ended."""
        self._previous[:] = self._now
        self._now[:] = values
        np.fmin(self._least, values, out=self._least)
        np.fmax(self._most, values, out=self._most)


def divide(above: Floats, below: Floats) -> Floats:
    """Return a quotient, NaN where the denominator is 0 or missing."""
    return above / np.where(below > NEAR, below, np.nan)


def fill_gaps(values: Floats) -> Floats:
    """Return values with 0 in place of missing ones."""
    return np.where(np.isnan(values), 0.0, values)
