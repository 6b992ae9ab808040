"""Keys that a file sets and that another key of the run leaves without effect: they are refused.

`tests/test_no_key_without_effect.py` sets every key alone and finds those that are missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dumbbell.errors import InputError, OutOfRange, Unfit
from dumbbell.experiment import plugins, units
from dumbbell.experiment.net import list_hops
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.shaping import shapes_within_link

Table = Mapping[str, Any]
_Needs = tuple[Callable[[Table], bool], str]


def _make_needs(key: str) -> _Needs:
    return lambda one: bool(one[key]), f"{key} = true"


def _set(key: str) -> _Needs:
    return lambda one: one[key] is not None, key


_FQ_CODEL: _Needs = (
    lambda one: any(
        one[f"queue{number}"] == "fq_codel" and (number == 1 or one[f"rate{number}"] is not None)
        for number in range(1, 5)
    ),
    'queue1 = "fq_codel", or that of another class',
)
_ABE = _make_needs("abe")
# keys of BBRv2 and BBRv3 for marks
OF_ECN = ("ecn_max_rtt", "ecn_alpha_gain", "ecn_factor", "ecn_thresh", "ecn_reprobe_gain")
# what a key of an algorithm needs next to it to mean anything
NEEDS: dict[str, dict[str, _Needs]] = {
    "red": {"harddrop": _make_needs("ecn"), "nodrop": _make_needs("ecn")},
    "codel": {"ce_threshold_selector": _set("ce_threshold")},
    "fq_codel": {"ce_threshold_selector": _set("ce_threshold")},
    "pie": {"ecn_prob": _make_needs("ecn")},
    "fq_pie": {"ecn_prob": _make_needs("ecn")},
    "dualpi2": {
        "step_count": _set("step_packets"),
        **dict.fromkeys(
            ("t_shift", "t_speed"), (lambda one: one["scheduler"] == "time-shift", 'scheduler = "time-shift"')
        ),
        "wrr_ratio": (lambda one: str(one["scheduler"]).startswith("wrr"), 'scheduler = "wrr-packets" or "wrr-bytes"'),
    },
    "wifi": dict.fromkeys(("fade_to", "fade_jitter"), _set("fade_from")),
    "mac80211": {
        "slow_rate": _set("slow_from"),
        "weight": (lambda one: one["turns"] == "airtime", 'turns = "airtime"'),
    },
    "htb_classes": {
        **{
            f"{key}{number}": _set(f"rate{number}")
            for number in range(2, 5)
            for key in ("prio", "quantum", "queue", "dscp")
        },
        **dict.fromkeys(("target", "interval", "flow_quantum", "ecn"), _FQ_CODEL),
    },
    "cellular": {"grant": (lambda one: one["request"] > 0, "request")},
    "cake": {"sce_thresh": (lambda one: one["sce"] == "thresh", 'sce = "thresh"')},
    **{name: dict.fromkeys(OF_ECN, _make_needs("ecn")) for name in ("bbr2", "bbr3")},
    "reno": {"abe_slow_start": _ABE},
    "cubic": {"abe_slow_start": _ABE},
    "call": {"playout": (lambda one: one["buffer"] == "fixed", 'buffer = "fixed"')},
    "video": {
        **dict.fromkeys(("group", "intra", "predicted"), (lambda one: one["source"] == "fixed", 'source = "fixed"')),
        **dict.fromkeys(("variation", "burst"), (lambda one: one["source"] == "statistical", 'source = "statistical"')),
        "rate": (
            lambda one: one["source"] == "statistical" and one["control"] == "none",
            'source = "statistical" and control = "none"',
        ),
        "spacing": (lambda one: one["control"] == "none", 'control = "none"'),
        "priority": (lambda one: one["control"] == "nada", 'control = "nada"'),
        **dict.fromkeys(
            ("least", "most", "cancel"), (lambda one: one["control"] != "none", 'control = "nada" or a plugin')
        ),
    },
}
# of hosts, what counts without a flow whose TCP is Linux's: queues learn the size of a frame from it
OF_EVERY_RUN = ("mss",)


def list_written_keys(given: dict[str, Any]) -> dict[str, frozenset[str]]:
    """Return the keys that a file sets itself in each algorithm, not those of versions and profiles."""
    return {place: frozenset(one) for place, one in _list_algorithms(given)}


def has_tcp(run: dict[str, Any]) -> bool:
    """Return whether anything in a run has the TCP of hosts, and not a stack of its own."""
    if run["web"]:
        return True
    for one in (*run["flows"], *run.get("app", ())):
        if (cc := one["cc"]) is not None:
            digest = cc.get("plugin")
            if digest is None or plugins.get_known(digest).kind != "stack":
                return True
    return False


def find_unused_tcp_key(hosts: dict[str, Any], given: dict[str, Any]) -> Unfit | None:
    """Return the error, without a file, for a key of hosts that is `given` where no run has their TCP, if any is."""
    params = read_registry().sections["hosts"]
    for key in params:
        if key in given and key not in OF_EVERY_RUN and hosts[key] != params[key].default:
            found = "it sets the hosts' TCP, and nothing here uses TCP"
            return Unfit(
                found,
                "omit the key, or add a [[flows]] without stack, [[web]] or an [[app]] with cc and without stack",
                key=f"hosts.{key}",
            )
    return None


def find_unused_burst(runs: Iterable[dict[str, Any]]) -> Unfit | None:
    """Return the error, without a file, for a bucket that no run uses: the queue shapes within its link."""
    found: dict[str, bool] = {}
    for place, hop in (one for run in runs for one in list_hops(run)):
        if hop["burst"] != read_registry().sections["bottleneck"]["burst"].default:
            found[place] = found.get(place, True) and shapes_within_link(hop)
    for place, is_unused in found.items():
        if is_unused:
            text = "cake shapes by itself at the rate of the link or below, and the bucket does nothing"
            return Unfit(text, "omit the key, or use another queue in some of the runs", key=f"{place}.burst")
    return None


def refuse(run: dict[str, Any], written: Mapping[str, frozenset[str]]) -> None:
    """Raise InputError, without a file, for the first of the keys that are `written` which another leaves unused."""
    for place, one in _list_algorithms(run):
        if "plugin" in one:
            continue
        params = read_registry().algorithms[one["name"]].params
        for key, (holds, words) in NEEDS.get(one["name"], {}).items():
            if key in params and key in written.get(place, ()) and one[key] != params[key].default and not holds(one):
                raise Unfit(
                    f"it has no effect without {words}", f"{words} as well, or omit {key}", key=f"{place}.{key}"
                )


def _list_algorithms(run: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, hop in list_hops(run):
        if "aqm" in hop:
            yield f"{place}.aqm", hop["aqm"]
        if isinstance(hop.get("link"), dict):
            yield f"{place}.link", hop["link"]
    for kind in ("flows", "web", "app"):
        for number, one in enumerate(run.get(kind, ())):
            if one.get("cc") is not None:
                yield f"{kind}[{number}].cc", one["cc"]
            if kind == "app" and isinstance(one.get("kind"), dict):
                yield f"app[{number}].kind", one["kind"]


def list_times(run: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the times of a run at which something begins or changes, ns, with their keys.

    A `stop` may come after the end: what has one then goes on to the end. Of a start that is drawn the earliest counts.
    """
    for place, hop in list_hops(run):
        if isinstance(hop["rate_changes"], list):  # of a cycle, `settle_rate_changes` looks at the times
            for number, change in enumerate(hop["rate_changes"]):
                yield f"{place}.rate_changes[{number}].at", change["at"]
        if hop.get("path") or hop.get("behind"):
            yield from _list_stages(place, hop, ("path", "behind"))
    for kind in ("flows", "web", "udp", "app"):
        for number, one in enumerate(run.get(kind, ())):
            place = f"{kind}[{number}]"
            yield f"{place}.start", one["start"]["min"]
            for key in ("app_rate_from", "app_pause", "app_resume"):
                if one.get(key) is not None:
                    yield f"{place}.{key}", one[key]
            if one.get("path") or one.get("ack_path"):
                yield from _list_stages(place, one, ("path", "ack_path"))


def refuse_late_times(run: dict[str, Any]) -> None:
    """Raise InputError, without a file, for what begins or changes after the end of a run."""
    for key, time in list_times(run):
        if time >= run["duration"]:
            found = f'"{units.show("time", time)}" in a run of {units.show("time", run["duration"])}'
            raise OutOfRange(found, "a time before the end of the run", key=key)
    for key, time in list_latest_starts(run):
        if time > run["duration"]:
            found = f'up to "{units.show("time", time)}" in a run of {units.show("time", run["duration"])}'
            raise OutOfRange(found, "a time before the end of the run, whatever is drawn", key=key)


def is_lone_run_right(run: dict[str, Any], given: dict[str, Any]) -> bool:
    """Return whether a run can be the only one of an experiment: no key is without effect, no time after its end."""
    try:
        refuse_late_times(run)
    except InputError:
        return False
    is_idle = not has_tcp(run) and find_unused_tcp_key(run["hosts"], given["hosts"]) is not None
    return not is_idle and not run["record"].get("queue") and find_unused_burst([run]) is None


def list_latest_starts(run: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the latest time at which each group may start, ns, with its key; no draw reaches the upper bound."""
    for kind in ("flows", "web", "udp", "app"):
        for number, one in enumerate(run.get(kind, ())):
            yield f"{kind}[{number}].start", one["start"]["max"]


def _list_stages(place: str, table: dict[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for key in keys:
        for number, stage in enumerate(table.get(key) or ()):
            if stage.get("from"):
                yield f"{place}.{key}[{number}].from", stage["from"]
