"""Bytes of captured packets, the same place of all of them at once."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from dumbbell.exchange.pcap.records import Int64s, Records, view_words


class Bytes:
    """Bytes at places of a file, with nothing beyond what was captured of each packet."""

    def __init__(self, records: Records, keep: Int64s) -> None:
        self.data = records.data
        self.at = records.at[keep]
        self.end = self.at + records.captured[keep]
        self._two, self._four = view_words(records.raw, ">u2"), view_words(records.raw, ">u4")

    def read_bytes(self, offset: Int64s | int) -> Int64s:
        """Return bytes."""
        return self._take_numbers(self.data, self.at + offset, 1)

    def read_16_bits(self, offset: Int64s | int) -> Int64s:
        """Return numbers of 16 bits."""
        return self._take_numbers(self._two, self.at + offset, 2)

    def read_32_bits(self, offset: Int64s | int) -> Int64s:
        """Return numbers of 32 bits."""
        return self._take_numbers(self._four, self.at + offset, 4)

    def _take_numbers(self, numbers: npt.NDArray[Any], place: Int64s, size: int) -> Int64s:
        """Return numbers at places; 0 beyond what was captured."""
        inside = place + size <= self.end
        if inside.all():
            return numbers[place].astype(np.int64)
        found = np.zeros(len(place), dtype=np.int64)
        found[inside] = numbers[place[inside]]
        return found

    def select_rows(self, rows: Int64s) -> Bytes:
        """Return those of some packets."""
        few = copy(self)
        few.at, few.end = self.at[rows], self.end[rows]
        return few

    def keep_rows(self, keep: npt.NDArray[np.bool_]) -> None:
        """Keep some packets."""
        self.at, self.end = self.at[keep], self.end[keep]
