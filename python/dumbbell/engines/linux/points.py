"""Where in the guest packets are captured for `dumbbell trace`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dumbbell.engines.linux.plan import GuestPlan

PROGRAM = "tracer"  # in the folder of a run


@dataclass(frozen=True)
class CapturePoint:
    """A device whose packets are captured."""

    place: Literal["left", "right", "into", "behind queue", "out"]
    """Both directions at the hosts on a side; of a hop what arrives, what leaves its queue, what leaves its link."""
    hop: int
    space: str
    device: str
    earlier: int = 0
    """By how much packets passed the place before they are captured, ns."""

    @property
    def file(self) -> str:
        """Name of the file, in the folder of a run."""
        return f"trace.{self.space}.{self.device}"

    @property
    def words(self) -> str:
        """As trace.c takes it."""
        which = {"left": "all", "right": "all", "into": "arriving"}.get(self.place, "leaving")
        return f"{self.space} {self.device} {which} {self.file}"


def list_points(plan: GuestPlan) -> Iterator[CapturePoint]:
    """Yield all points of a run: where there is no serial link, what leaves a queue has left the link."""
    yield CapturePoint("left", 0, "S", "s0")
    for number, hop in enumerate(plan.hops):
        yield CapturePoint("into", number, hop.space, hop.arrival)
        if hop.serial:
            yield CapturePoint("behind queue", number, hop.space, hop.departure)
            yield CapturePoint("out", number, *hop.behind, earlier=hop.delay)  # the same netem has link and delay
        else:
            yield CapturePoint("out", number, hop.space, hop.departure)
    yield CapturePoint("right", 0, "R", "r0")


def make_command(wanted: Sequence[CapturePoint]) -> str:
    """Return the line of a plan that captures there."""
    return f"command ./{PROGRAM} {' '.join(point.words for point in wanted)}\n"
