"""A run in the words of Linux: over one hop (plan.py), or over several, in both directions (nets.py)."""

import re
import shutil
from dataclasses import dataclass
from typing import Any

from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.nets import Net
from dumbbell.engines.linux.plan import GuestPlan
from dumbbell.engines.linux.points import CapturePoint, list_points
from dumbbell.engines.linux.qdiscs import Qdisc, list_approximated
from dumbbell.engines.linux.readback import Setting
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.net import list_hops

VERSION = 4  # changes whenever a run may come out otherwise though its plan is the same: part of every run's key
_GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # guest.c


@dataclass(frozen=True)
class Mapped:
    """A run as the guest carries it out."""

    plan: str
    """Lines that guest.c reads, with `name_by_path`."""
    arguments: tuple[str, ...]
    """For the kernel's command line."""
    hops: tuple[Qdisc, ...]
    """What is at each hop: the bottleneck, then the others."""
    senders: int
    points: tuple[CapturePoint, ...]
    """Where packets can be captured for a trace."""
    receivers: tuple[int, int] | None
    """First and last port of receivers, if packets go back over hops."""
    settings: tuple[Setting, ...]
    """What the kernel is to have of it, to be read back."""


def list_notes(cells: list[Cell], kernel: Kernel) -> list[str]:
    """Return what of these runs Linux does only nearly as the simulator, in words."""
    said: dict[str, None] = {}
    for cell in cells:
        groups = cell.groups
        profile = groups["hosts"]["profile"]
        if not kernel.release.startswith(profile.removeprefix("linux-") + "."):
            said[f"hosts.profile = {profile}: the kernel is {kernel.release}"] = None
        for place, hop in list_hops(groups):
            if hop["shaper"] == "link" and not (hop["aqm"]["name"] == "cake" and hop["aqm"]["bandwidth"] != 0):
                said[f"{place}.shaper = link: htb that may only catch up 4 us, and a serial link behind it"] = None
            said |= dict.fromkeys(list_approximated(hop["aqm"], place))
        if any(one["stop"] is not None for one in groups["flows"]):
            said["flows.stop: at most two segments that were written before leave after it"] = None
        if any(one["cc"] is not None for one in groups.get("app", ())):
            said["app: both ways of a connection are one of TCP, whose segments acknowledge as well"] = None
        if any(_closes_connections(one["kind"]) for one in groups.get("app", ())):
            said["app: connections that are closed send FINs"] = None
        if any(one["spacing"] == "poisson" for one in groups["udp"]):
            said["udp.spacing = poisson: the same distribution, other draws"] = None
    return list(said)


def _closes_connections(kind: dict[str, Any]) -> bool:
    """Whether an application closes connections during the run."""
    fresh = bool(kind.get("fresh")) or kind.get("persistent") is False
    return fresh or kind["name"] == "responsiveness"


def name_by_path(plan: str) -> str:
    """Name tc and ip of a plan by their files, where PATH has others than the guest finds by itself."""

    def replace_path(found: re.Match[str]) -> str:
        first = shutil.which(found[2])
        return found[1] + (found[2] if first in (None, shutil.which(found[2], path=_GUEST_PATH)) else first)

    return re.sub(r"(?m)(^command |^at \d+ |^counters |^show |&& )(tc|ip)(?= )", replace_path, plan)


def map_cell(cell: Cell, kernel: Kernel) -> Mapped:
    """Return a run as the guest carries it out; raises InputError, without a file, for what has no counterpart."""
    plan = Net(cell, kernel) if Net.is_needed(cell) else GuestPlan(cell, kernel)
    plan.make()
    arguments = tuple(f"{name}={value}" for name, value in sorted(plan.arguments.items()))
    text = "".join(f"{line}\n" for line in plan.lines)
    qdiscs = tuple(hop.qdisc for hop in plan.hops)
    return Mapped(
        text, arguments, qdiscs, plan.sender_count, tuple(list_points(plan)), plan.receiver_ports, tuple(plan.settings)
    )
