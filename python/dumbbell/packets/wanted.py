"""The selection of packets, and the points at which they are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dumbbell import _native
from dumbbell.errors import OutOfRange, UnknownName, WrongValue, quote_value
from dumbbell.experiment.cell import Cell

ALL = "all"
MOST_SNAP = 65_535
FOREVER = 2**64 - 1  # ns


@dataclass(frozen=True)
class PacketSelection:
    """Packets of a run: at some points, of some flows, of some of the time.

    `points` are names of `list_points`, without any the senders; `flows` numbers as in table `flows`, without any all;
    `span` two times, s. `snap` is how many bytes of a frame a file keeps, 0 for all; without it headers, and payload
    that is not zeros.
    """

    points: tuple[str, ...] = ()
    flows: tuple[int, ...] = ()
    span: tuple[float, float] | None = None
    snap: int | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        """As the engine takes them."""
        start, end = (0, FOREVER) if self.span is None else (round(time * 1e9) for time in self.span)
        return {"points": list(self.points), "flows": list(self.flows), "start": start, "end": end, "snap": self.snap}


def list_points(groups: dict[str, Any]) -> list[str]:
    """Return the points of a run, in the order in which data pass them: sender, NAME and NAME:out of hops, receiver."""
    hops = ["bottleneck", *(hop["name"] for hop in groups.get("hop", []))]
    return _native.packet_points([*hops, "reverse"] if groups.get("reverse") else hops)


def check_selection(
    cell: Cell,
    points: Sequence[str] = (),
    flows: Sequence[int] = (),
    span: tuple[float, float] | None = None,
    snap: int | None = None,
) -> PacketSelection:
    """Return what is wanted of a run; raises InputError if the run has no such point or flow."""
    known = list_points(cell.groups)
    for point in points:
        if point not in (*known, ALL):
            raise UnknownName(point, among=[*known, ALL], command="trace", option="--at", what="point")
    if ALL in points:
        points = known
    for number in flows:
        if not 0 <= number < max(cell.flow_count, 1) and not cell.groups["web"]:
            raise OutOfRange(str(number), f"from 0 to {max(cell.flow_count - 1, 0)}", command="trace", option="--flow")
    if span is not None and span[0] * 1e9 >= cell.duration:
        found = f"{span[0]:g} s in a run of {cell.duration / 1e9:g} s"
        raise OutOfRange(found, "a time that begins before the end of the run", command="trace", option="--time")
    if snap is not None and not 0 <= snap <= MOST_SNAP:
        raise WrongValue(
            quote_value(snap), f"bytes from 0 (whole frames) to {MOST_SNAP}", command="trace", option="--snap"
        )
    return PacketSelection(tuple(dict.fromkeys(points)), tuple(dict.fromkeys(flows)), span, snap)
