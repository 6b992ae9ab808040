"""Every key of an experiment file acts, is refused, or stands on a short list with the reason.

A key is found by being registered: a new one is set, alone, in the fitting runs below, and has to change what is
measured in one of them.
"""

import copy
import itertools
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import window_stack
from dumbbell import _native
from dumbbell.engines.linux import reach
from dumbbell.errors import InputError
from dumbbell.experiment import schema
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.net import ROUTES
from dumbbell.experiment.plugins import known, trust
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.without_effect import NEEDS, OF_EVERY_RUN

# keys for which no short run is found here, and why
LEFT = {
    "bottleneck.burst": "acts with shaper = htb",
    "hosts.tso_rtt": "acts above the rates at which a burst holds many segments at a small RTT",
    "hosts.early_ack_event": "acts on controls that see an ACK before the congestion machine, in one order of events",
    "hosts.receiver_rtt_not_zero": "acts on receivers whose first sample of the RTT is 0",
    "hosts.ack_delay_bound": "acts on delayed ACKs whose timer was stretched",
    "hosts.syn_linear_timeouts": "acts where several SYNs in a row are lost",
    "hosts.sce_feedback": "acts on marks of SCE in senders without a control for them",
    "dualpi2.step_count": "acts where several packets are in the L queue at the step of packets; no such run is here",
    "bbr3.full_loss_count": "acts where a round of STARTUP loses in many places; no such run is here",
    "bbr-draft.drain_rounds": "acts where Drain lasts for rounds; no such run is here",
    "reno-sce.slow_start_exit": "acts on marks of SCE in slow start; no such run is here",
    "dctcp-sce.slow_start_exit": "acts on marks of SCE in slow start; no such run is here",
    "cubic-sce.ce_response": "acts on SCE while PRR reduces the window; no such run is here",
    "ledbat.base_history": "acts on runs of more than a minute",
    "ledbat-pp.base_history": "acts on runs of more than a minute",
    "cubic.hystart_ack_delta": "acts where a train of ACKs is broken in slow start",
}
_WAYS = {param.name for param in ROUTES}
_NOT_LINKS = ("htb", "unshaped", "trace")  # which `shaper`, a queue that shapes, and `trace` make
_RECORDED = ("key", "cell", "seed")


def mix(aqm: Any = "pfifo", cc: Any = "cubic", **more: Any) -> dict[str, Any]:
    """Return a run with some of everything."""
    return {
        "duration": "4s",
        "bottleneck": {"rate": "10Mbit", "aqm": aqm},
        "flows": [
            {"cc": cc, "base_rtt": "20ms"},
            {"cc": "reno", "base_rtt": "60ms", "ecn": False, "start": "100ms", "src_host": 7, "dst_host": 8},
        ],
        "web": [{"cc": "cubic", "arrivals": "5/s", "size": "30kB"}],
        "udp": [{"rate": "1Mbit", "start": "1s"}],
        "hosts": {"ecn": True},
    } | more


def of_queue(name: str) -> Iterator[dict[str, Any]]:
    for rate, cc in itertools.product(("10Mbit", "1Mbit", "100Mbit"), ("cubic", "prague", "dctcp")):
        yield mix(name, cc, bottleneck={"rate": rate, "aqm": name})
    if name == "htb_classes":
        flows = [{"cc": "cubic", "base_rtt": "20ms", "dscp": dscp} for dscp in (0, 46, 8, 32, 10)]
        yield mix(name, flows=flows)
    if name == "mac80211":
        flows = [{"cc": "cubic", "base_rtt": "20ms", "dst_host": host} for host in (1, 2, 3, 4)]
        yield mix(name, flows=flows, bottleneck={"rate": "50Mbit", "aqm": name})
    flood = [
        {"rate": "30Mbit", "start": "1s", "ecn": "ect1", "size": "300B", "stop": "3s"},
        {"rate": "20Mbit", "stop": "2s"},
    ]
    yield mix(name, "prague", udp=flood)
    yield mix(name, flows=[{"cc": "prague", "count": 80, "base_rtt": "20ms"}, {"cc": "cubic", "base_rtt": "20ms"}])
    yield mix(name, reverse={"rate": "200kbit", "aqm": name})


def of_control(name: str) -> Iterator[dict[str, Any]]:
    queues = (
        "pfifo",
        {"name": "codel", "ecn": True},
        "codel",
        "step",
        "dualpi2",
        {"name": "pfifo", "limit": 30},
        {"name": "cake", "sce": "on"},
    )
    for aqm in queues:
        yield mix(aqm, name, duration="12s")
        yield mix(aqm, name, duration="15s", bottleneck={"rate": "100Mbit", "aqm": aqm})
        yield mix(aqm, name, duration="25s", udp=[], web=[], flows=[{"cc": name, "base_rtt": "20ms"}])
    # marks and losses in the same round trips
    lossy = {"cc": name, "base_rtt": "20ms", "path": [{"name": "loss", "probability": 0.02}]}
    yield mix("dualpi2", name, duration="12s", udp=[], web=[], flows=[lossy])


def of_hosts() -> Iterator[dict[str, Any]]:
    small = {"name": "pfifo", "limit": 20}
    for aqm, cc in itertools.product(
        ("pfifo", small, "codel", "dualpi2", "step"), ("cubic", "prague", "bbr3", "dctcp", "dctcp-sce")
    ):
        yield mix(aqm, cc)
        pausing = mix(aqm, cc, udp=[{"rate": "20Mbit", "start": "1s", "stop": "2s"}])
        pausing["flows"][0] |= {"app_pause": "500ms", "app_resume": "1s", "jitter": "5ms"}
        yield pausing | {"reverse": {"rate": "1Mbit", "aqm": {"name": "pfifo", "limit": 5}}}
        fast = mix(aqm, cc, hosts={"offload": "gso", "ecn": True}, bottleneck={"rate": "200Mbit", "aqm": aqm})
        fast["flows"][0] |= {"loss": 0.05}
        yield fast


def of_tables(name: str) -> Iterator[dict[str, Any]]:
    cake = {"name": "cake", "isolation": "dual-srchost" if name.endswith("src_host") else "dual-dsthost"}
    yield mix("pie" if name == "record.queue" else "codel")
    yield mix(cake)
    pinging = mix("codel")
    pinging["udp"][0] |= {"echo": True, "base_rtt": "20ms"}
    yield pinging
    if name.startswith("flows.app"):
        pausing = mix("codel")
        pausing["flows"][0] |= {"app_pause": "1s", "app_resume": "2s"}
        yield pausing


def of_link(name: str) -> Iterator[dict[str, Any]]:
    for aqm in ("pfifo", "codel"):
        yield mix(aqm, bottleneck={"rate": "20Mbit", "aqm": aqm, "link": {"name": name}}, duration="20s")


def of_stage(name: str) -> Iterator[dict[str, Any]]:
    for rate in ("30Mbit", "200Mbit"):
        run = mix("dualpi2", "prague", bottleneck={"rate": rate, "aqm": "dualpi2"})
        run["flows"][0]["path"] = [{"name": name}]
        yield run
    weights = mix("csaqm", "prague")
    weights["flows"][0]["path"] = [{"name": name}]
    yield weights


def of_hop(name: str) -> Iterator[dict[str, Any]]:
    hop = {"rate": "8Mbit", "aqm": "codel"}
    run = mix("pfifo", **({"reverse": hop} if name == "reverse" else {"hop": [hop | {"name": "second"}]}))
    if name == "reverse":
        run["flows"].append({"cc": "cubic", "base_rtt": "20ms", "direction": "up"})
    else:
        run["flows"][0]["route"] = ["bottleneck", "second"]
    yield run


def of_ways() -> Iterator[dict[str, Any]]:
    ways = {"reverse": {"rate": "1Mbit", "aqm": "pfifo"}, "hop": [{"name": "second", "rate": "8Mbit", "aqm": "pfifo"}]}
    yield mix("pfifo", app=[{"kind": "pages", "cc": "cubic"}], **ways)


def of_autorate() -> Iterator[dict[str, Any]]:
    cake = {"rate": "100Mbit", "aqm": {"name": "cake", "bandwidth": "10Mbit"}}
    hops: list[dict[str, Any]] = [{"name": name, "aqm": "pfifo"} for name in ("line", "up", "line-up")]
    hops[1] = {"name": "up", "rate": "100Mbit", "aqm": {"name": "cake", "bandwidth": "10Mbit"}}
    for rate in ("8Mbit", "60Mbit"):
        route, way_up = ["bottleneck", "line"], ["up", "line-up"]
        flows = [{"cc": "cubic", "base_rtt": "20ms", "route": route}]
        user = {"kind": "autorate", "route": route, "ack_route": way_up}
        up = {"cc": "cubic", "base_rtt": "20ms", "route": way_up}
        yield mix(
            bottleneck=cake,
            hop=[{"rate": rate} | one for one in hops],
            flows=[*flows, up],
            app=[user],
        )


def of_applications(kinds: Iterable[str]) -> Iterator[dict[str, Any]]:
    cake = ({"name": "cake", "isolation": f"dual-{end}host"} for end in ("src", "dst"))
    for kind, aqm, cc in itertools.product(
        kinds, ({"name": "codel", "ecn": True}, "pfifo", "dualpi2", *cake), ("prague", "cubic")
    ):
        streams = kind in read_registry().apps_of_streams
        user = {"kind": {"name": kind}, "src_host": 7} | ({"cc": cc} if streams else {})
        yield mix(aqm, app=[user], reverse={"rate": "1Mbit", "aqm": "pfifo"})


def bases(key: reach.KernelKey) -> Iterator[dict[str, Any]]:
    """Yield runs in which a key may act."""
    if key.param.name in _WAYS:
        return of_ways()
    if key.owner == "autorate":
        return of_autorate()
    if key.place.startswith("app["):  # a link may have the name of an application
        return of_applications(
            [one for one in read_registry().app if one != "autorate"] if key.owner == "app" else [key.owner]
        )
    if key.owner in read_registry().link:
        return of_link(key.owner)
    if key.owner in read_registry().stage:
        return of_stage(key.owner)
    if key.owner in ("reverse", "hop"):
        return of_hop(key.owner)
    if key.owner in read_registry().aqm:
        return of_queue(key.owner)
    if key.owner in read_registry().cc:
        return of_control(key.owner)
    return of_hosts() if key.owner == "hosts" else of_tables(key.name)


@cache
def measured(config: str) -> tuple[str, dict[str, pl.DataFrame]]:
    result = _native.run(config, _native.Cancel())
    tables = {name: pl.DataFrame(pa.table(table)) for name, table in _native.gather([result])}
    return result.hash, {name: one.drop(_RECORDED, strict=False) for name, one in tables.items()}


def acts(one: Cell, other: Cell) -> bool:
    """Whether two runs measure something else, or record something else of it."""
    (first, tables), (second, others) = measured(one.config), measured(other.config)
    return first != second or any(not table.equals(others[name]) for name, table in tables.items())


# values that are needed, where those of a kind do not fit
_ROUTES: dict[str, list[Any]] = {
    f"{table}.{way}": [hops]
    for table in schema.SENDERS
    for way, hops in (("route", ["bottleneck", "second"]), ("ack_route", ["second"]))
}
_VALUES: dict[str, list[Any]] = {
    "red.burst": [400],
    "web.size": ["90kB"],
    "record.queue": [["p"]],
    "hop.buffer": ["2p"],
    "video.least": ["300kbit"],
    **_ROUTES,
}
_STATISTICAL = {"source": "statistical"}
_SHORT_TEST = {"interval": "100ms", "idle": "100ms", "probe_share": 1.0, "tolerance": 0.0}
_OF_TEST = ("averaged", "kept", "tolerance", "added", "most", "probes", "probe_share")
_BESIDE: dict[str, dict[str, Any]] = {
    **{key: {"shaper": "htb"} for key in ("reverse.burst", "hop.burst")},
    **{f"video.{key}": _STATISTICAL for key in ("rate", "variation", "burst")},
    **{f"video.{key}": _STATISTICAL | {"control": "nada"} for key in ("least", "most", "priority", "cancel")},
    "delay.reorder": {"from": "1s", "to": "2s"},
    **{f"mac80211.{key}": {"slow_from": 3} for key in ("slow_rate", "turns", "weight", "longest")},
    **{
        f"htb_classes.{key}{number}": {"rate1": "1Mbit", "ceil1": "10Mbit"}
        | ({} if number == 1 else {f"rate{number}": "1Mbit", f"ceil{number}": "10Mbit"})
        | ({"rate2": "1Mbit", "ceil2": "10Mbit"} if number == 1 else {})
        for number in range(1, 5)
        for key in ("prio", "quantum", "queue", "dscp")
    },
    **{f"htb_classes.ceil{number}": {"rate1": "1Mbit", f"rate{number}": "1Mbit"} for number in range(1, 5)},
    **{f"htb_classes.{key}": {"queue1": "fq_codel"} for key in ("target", "interval", "flow_quantum", "ecn")},
    "cellular.grant": {"request": "10ms"},
    **{f"wifi.{key}": {"fade_from": "1s"} for key in ("fade_to", "fade_jitter")},
    "htb_classes.burst": {"rate1": "1Mbit"},
    "request.times": {"think": "50ms"},
    "dash.buffer": {"segment": "100ms", "level": 0},
    **{f"responsiveness.{name}": _SHORT_TEST for name in _OF_TEST},
}


def settings(key: reach.KernelKey) -> dict[str, Any]:
    # the runs here have ECN on
    beside = {"ecn": False} if key.name == "hosts.ecn" else _BESIDE.get(key.name, key.beside)
    return {key.place + name: value for name, value in beside.items()}


def further_keys() -> Iterator[reach.KernelKey]:
    """Yield the keys of links, of stages, of further hops, and of ways over hops."""
    for links, place in ((read_registry().link, "bottleneck.link."), (read_registry().stage, "flows[0].path[0].")):
        for one in links.values():
            if one.name not in _NOT_LINKS:
                yield from (reach.KernelKey(one.name, param, place) for param in one.params.values())
    for name, place in (("reverse", "reverse."), ("hop", "hop[0].")):
        yield from (reach.KernelKey(name, param, place) for param in schema.describe_section("bottleneck").values())
    for table in schema.SENDERS:
        for param in schema.describe_section(table).values():
            if param.name in _WAYS or table == "app":
                yield reach.KernelKey(table, param, f"{table}[0].")
    for one in read_registry().app.values():
        yield from (reach.KernelKey(one.name, param, "app[0].kind.") for param in one.params.values())


KEYS = list(reach.list_keys())
FURTHER = list(further_keys())
# what a key needs holds by default in these: other values under which it means nothing
_WITHOUT: dict[str, dict[str, Any]] = {
    "call.playout": {"buffer": "adaptive"},
    **{f"video.{key}": _STATISTICAL for key in ("group", "intra", "predicted")},
    "video.spacing": {"control": "nada"},
}
_NOT_THERE = [("bbr2", "ecn_reprobe_gain")]  # which BBRv3 alone has


@pytest.mark.slow
@pytest.mark.spread
@pytest.mark.parametrize("key", KEYS + FURTHER, ids=[key.name for key in KEYS + FURTHER])
def test_every_key_acts(key: reach.KernelKey) -> None:
    if key.name in LEFT:
        assert LEFT[key.name]
        return
    refused = ""
    for base in bases(key):
        for value in _VALUES.get(key.name) or reach.choose_values(key.param):
            try:
                beside = settings(key)
                one = parse(copy.deepcopy(base), "base", beside).make_cell(0)
                other = parse(copy.deepcopy(base), "key", beside | {key.place + key.param.name: value}).make_cell(0)
                if one.config != other.config and acts(one, other):
                    return
            except InputError as error:
                refused = str(error)
    pytest.fail(f"{key.name} does nothing in any of these runs; refused: {refused or 'never'}")


def test_what_is_left_out_is_there() -> None:
    assert {key.name for key in KEYS} >= LEFT.keys()


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, keys in NEEDS.items() for key in keys if (name, key) not in _NOT_THERE]
)
def test_a_key_without_what_it_needs_is_refused_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str
) -> None:
    """Both halves: the refusal is there, and without it the key would change nothing."""
    (found,) = (one for one in KEYS + FURTHER if one.name == f"{name}.{key}")
    value = (_VALUES.get(found.name) or reach.choose_values(found.param))[0]
    base = next(bases(found))
    place = found.place + key
    without = {found.place + other: given for other, given in _WITHOUT.get(found.name, {}).items()}
    if (name, key) == ("mac80211", "weight"):  # what it needs is the default
        base["bottleneck"]["aqm"] = {"name": name, "turns": "aggregates"}
    with pytest.raises(InputError, match=rf"{key}: it has no effect without "):
        parse(copy.deepcopy(base), "file", without | {place: value})
    monkeypatch.setattr("dumbbell.experiment.without_effect.NEEDS", {})
    one, other = (parse(copy.deepcopy(base), "file", without | more).make_cell(0) for more in ({}, {place: value}))
    assert one.config != other.config and not acts(one, other)
    # the default, written out, is no mistake
    parse(
        copy.deepcopy(base),
        "file",
        {place: reach.read_default(found.param)} if reach.read_default(found.param) is not None else {},
    )


BEYOND = {
    "flows[0].start": {"uniform": ["4s", "6s"]},
    "flows[0].app_pause": "4s",
    "flows[0].path": [{"name": "loss", "probability": 0.1, "from": "4s"}],
    "flows[0].ack_path": [{"name": "bleach", "probability": 0.5, "from": "5s"}],
    "bottleneck.path": [{"name": "reorder", "probability": 0.1, "delay": "1ms", "from": "5s"}],
    "bottleneck.rate_changes": [{"at": "4s", "rate": "1Mbit"}],
}


@pytest.mark.parametrize("key", BEYOND)
def test_what_would_happen_after_the_end_is_refused(key: str) -> None:
    with pytest.raises(InputError, match=r"in a run of 4s; it must be a time before the end of the run"):
        parse(mix("codel"), "file", {key: BEYOND[key]})
    parse(mix("codel"), "file", {"flows[0].stop": "5s"})  # a stop is no beginning: what has it goes on to the end


@pytest.mark.parametrize("value", ["p", "blue"])
def test_states_that_no_queue_tells_are_refused(value: str) -> None:
    with pytest.raises(InputError, match=r"record\.queue is p|record\.queue is blue"):
        parse(mix("codel"), "file", {"record.queue": ["count", value]})
    with pytest.raises(InputError, match="tell nothing of their state"):
        parse(mix("pfifo"), "file", {"record.queue": [value]})
    with pytest.raises(InputError, match=r"record\.series"):
        parse(mix("codel"), "file", {"record.queue": ["count"], "record.series": False})
    swept = {"matrix": {"bottleneck.aqm": ["codel", "pie"]}}
    parse(mix("codel") | swept, "file", {"record.queue": ["count", "p"]})  # one of the queues tells it
    parse(mix("codel") | {"reverse": {"rate": "1Mbit", "aqm": "cake"}}, "file", {"record.queue": ["count", "blue"]})


UDP = {"duration": "1s", "bottleneck": {"rate": "10Mbit", "aqm": "codel"}, "udp": [{"rate": "20Mbit"}]}
OF_HOSTS = [key for key in KEYS if key.owner == "hosts"]


@pytest.mark.parametrize("key", OF_HOSTS, ids=[key.name for key in OF_HOSTS])
def test_hosts_without_tcp_are_refused(key: reach.KernelKey) -> None:
    value = next(iter(reach.choose_values(key.param)))
    setting = {f"hosts.{key.param.name}": value}
    if key.param.name in OF_EVERY_RUN:
        parse(copy.deepcopy(UDP), "file", setting)
        return
    with pytest.raises(InputError, match=rf"hosts\.{key.param.name}: it sets the hosts' TCP"):
        parse(copy.deepcopy(UDP), "file", setting)
    # one run of a sweep that has it is enough
    parse(
        copy.deepcopy(UDP) | {"matrix": {"web": [[], [{"cc": "reno", "arrivals": "1/s", "size": "1kB"}]]}},
        "file",
        setting,
    )


def test_hosts_of_stacks_alone_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setattr(known, "_known", {})
    library = window_stack.built(tmp_path)
    trust.trust(library.parent)
    table: dict[str, Any] = {"duration": "1s", "bottleneck": {"rate": "10Mbit", "aqm": "codel"}}
    stacked = {"stack": str(library), "base_rtt": "20ms"}
    for setting in ({"hosts.initial_window": 20}, {"hosts.profile": "linux-5.4"}, {"hosts.pacing": "fq"}):
        with pytest.raises(InputError, match="it sets the hosts' TCP, and nothing here uses TCP"):
            parse(table | {"flows": [dict(stacked)]}, "file", setting)
        parse(table | {"flows": [dict(stacked), {"cc": "cubic", "base_rtt": "20ms"}]}, "file", setting)
