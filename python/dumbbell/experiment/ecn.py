"""Queues that are set to mark, in runs in which nothing asks for ECN."""

from typing import Any

from dumbbell.experiment.file import Experiment
from dumbbell.experiment.net import list_hops

_ALWAYS = ("dctcp", "prague")  # they need ECN, whatever the hosts
_SAMPLE = 32  # runs of an experiment that are looked at


def asks_for_ecn(groups: dict[str, Any]) -> bool:
    """Return whether any packet of a canonical run may be ECN-capable; of a plugin nobody knows."""
    streams = [one for one in groups.get("app", ()) if one["cc"] is not None]
    for one in (*groups["flows"], *groups["web"], *streams):
        own = groups["hosts"]["ecn"] if one["ecn"] is None else one["ecn"]
        if own or "plugin" in one["cc"] or one["cc"]["name"] in _ALWAYS:
            return True
    marked = [one["ecn"] for one in groups["udp"]] + [one["kind"].get("marking") for one in groups.get("app", ())]
    return any(field not in (None, "not-ect") for field in marked)


def explain_useless_marks(experiment: Experiment) -> str:
    """Return what to say of an experiment whose queue is to mark while nothing asks for ECN; else an empty text."""
    cells = experiment.sample_cells(_SAMPLE)
    told = [place for cell in cells for place, own in list_hops(cell.given) if own.get("aqm", {}).get("ecn") is True]
    if not told or any(asks_for_ecn(cell.groups) for cell in cells):
        return ""
    return f"{told[0]}.aqm.ecn = true marks nothing: no flow asks for ECN; hosts.ecn = true makes them ask"
