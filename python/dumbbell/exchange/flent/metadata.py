"""The set-up according to the metadata of a Flent file: rates, queue disciplines, congestion controls, ECN, RTT."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from dumbbell import _native
from dumbbell.errors import InputError
from dumbbell.exchange import setup
from dumbbell.exchange.flent import titles
from dumbbell.exchange.flent.file import Data
from dumbbell.exchange.measurement import ImportedFlow, Measurement, SetupFact, assume_fact
from dumbbell.experiment import spelling, units
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.settings import format_toml

OWN = "DUMBBELL"  # our part of the metadata of files that dumbbell wrote
_RATE = re.compile(r"(?<![\w.])(?:\w+[=:])?(\d+(?:\.\d+)?)\s*([kmg])(?:bit(?:/?s|ps)?|bps)(?![a-z])", re.IGNORECASE)
_RTT = re.compile(r"(?:\brtt|[_\W]rtt)[_=: ]*(\d+(?:\.\d+)?)\s*ms", re.IGNORECASE)
_SIZES = {"k": 1e3, "m": 1e6, "g": 1e9}
_SHAPERS = {"tbf": "rate", "cake": "bandwidth", "netem": "rate"}
_TABLES = ("runs", "flows", "classes", "rtt", "sojourn", "hops")  # of our own files
WAYS = {"INGRESS_INFO": "bottleneck", "EGRESS_INFO": "reverse"}  # interfaces of a host that shapes
_OF_EXPERIMENT = "the experiment"
_COMMON = ("none", "off", "raw")  # words that say nothing alone
_LEAST_SHARE = 0.9  # of a rate that the title says: a flow that had more went the other way
_CONTROL_OF_TITLE = re.compile(r"\bcc[:=]([A-Za-z][\w-]*)")
_CONTROL = re.compile(r"-K\s+([\w-]+)(?:,([\w-]+))?")


def describe_source(data: Data) -> dict[str, Any]:
    """Return what is kept of a file's metadata with its run."""
    found = {
        "format": "Flent",
        "test": data.get_text("NAME"),
        "version": data.get_text("FLENT_VERSION"),
        "started": data.get_text("T0") or data.get_text("TIME"),
        "host": data.get_text("HOST"),
    }
    kept: dict[str, Any] = {key: " ".join(text.split())[:200] for key, text in found.items() if text}
    for key, name in (("parameters", "TEST_PARAMETERS"), ("hosts", "HOSTS")):
        if data.metadata.get(name):
            kept[key] = data.metadata[name]
    return kept


def read_control(data: Data, name: str, *, up: bool) -> SetupFact:
    """Return the congestion control of a series."""
    known = [word for word in read_registry().cc if word not in ("constant", "external")] + [
        "bbr",
        "westwood",
        "cdg",
        "ledbat",
    ]
    for word in re.split(r"[^\w-]+", name):
        if word.lower() in known:
            return setup.match_control(word, "the name of the series")
    command = data.series_meta.get(name, {})
    if found := _CONTROL.search(str(command.get("COMMAND", command.get("command", "")))):
        return setup.match_control(found[1] if up or not found[2] else found[2], "netperf's option -K")
    for said in (command.get("CONG_CONTROL"), _get_parameter(data, "tcp_cong_control", up=up)):
        if isinstance(said, str) and said:
            return setup.match_control(said, "the test's congestion control")
    for host, tables in _list_hosts(data):
        is_sender = host == "" if up else host != "" and _is_target(data, host, tables)
        if is_sender and isinstance(said := tables.get("SYSCTLS"), dict):
            name_of = said.get("net.ipv4.tcp_congestion_control")
            if isinstance(name_of, str):
                where = "this host" if up else f"{host}, which sends"
                return setup.match_control(name_of, f"sysctl tcp_congestion_control of {where}")
    if match := _CONTROL_OF_TITLE.search(data.get_text("TITLE")):
        return setup.match_control(match[1], f"the title says {match[0].strip()}")
    return assume_fact("cubic", "the file does not say; Linux has CUBIC by default")


def _is_target(data: Data, host: str, tables: dict[str, Any]) -> bool:
    """Return whether a host is the one that the test is sent to, and not a router on the way."""
    names = data.metadata.get("HOSTS")
    if host in (data.get_text("HOST"), *(names if isinstance(names, list) else ())):
        return True
    ours = data.metadata.get("EGRESS_INFO")
    target = ours.get("target") if isinstance(ours, dict) else None
    own = [info.get("src") for key in WAYS if isinstance(info := tables.get(key), dict)]
    return isinstance(target, str) and bool(target) and target in own


def _get_parameter(data: Data, key: str, *, up: bool) -> str:
    parts = _get_parameters(data).get(key, "").split(",")
    return (parts[0] if up or len(parts) < 2 else parts[1]).strip()


def _get_parameters(data: Data) -> dict[str, str]:
    """Return the parameters of the test."""
    table = data.metadata.get("TEST_PARAMETERS")
    return {key: one for key, one in table.items() if isinstance(one, str)} if isinstance(table, dict) else {}


def _list_hosts(data: Data) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metadata of each host: those of the one that measures have an empty name."""
    yield "", data.metadata
    remote = data.metadata.get("REMOTE_METADATA")
    for host, table in remote.items() if isinstance(remote, dict) else ():
        if isinstance(table, dict):
            yield str(host), table


def describe(data: Data, found: Measurement) -> None:
    """Add what the metadata say of the set-up."""
    for host, table in _list_hosts(data):
        for key, section in WAYS.items():
            info = table.get(key)
            if isinstance(info, dict) and f"{section}.rate" not in found.setup:
                where = f"{host or 'the host that measures'}, {info.get('iface') or 'its interface'}"
                found.setup |= _read_shaper(info, section, where)
    _read_rates_of_title(data, found)
    titles.read_queues(data, found)
    text = f"{data.get_text('TITLE')} {data.get_text('DATA_FILENAME')}"
    if (match := _RTT.search(text)) and 0 < float(match[1]) < 10_000:
        found.source["rtt"] = float(match[1])
    sysctls = data.metadata.get("SYSCTLS")
    ecn = sysctls.get("net.ipv4.tcp_ecn") if isinstance(sysctls, dict) else None
    if str(ecn) in ("0", "1", "2"):
        found.setup["hosts.ecn"] = SetupFact(
            "true" if str(ecn) == "1" else "false", f"sysctl tcp_ecn = {ecn} where it was measured"
        )


def match_queues(data: Data) -> dict[str, str]:
    """Return which queue each host counted: that of the interface that shapes this way, where only one host has it."""
    hosts, interfaces = (
        [one.strip() for one in _get_parameters(data).get(f"qdisc_stats_{what}", "").split(",")]
        for what in ("hosts", "interfaces")
    )
    if set(hosts) == set(WAYS.values()):  # as dumbbell calls them
        return {host: host for host in hosts}
    tables = dict(_list_hosts(data))
    found = {}
    for host, interface in zip(hosts, interfaces, strict=False):
        for key, way in WAYS.items():
            info = tables.get(host, {}).get(key)
            if isinstance(info, dict) and info.get("iface") == interface and _read_shaper(info, way, host):
                found[host] = way
    return found if len(set(found.values())) == len(found) else {}


def _read_shaper(info: dict[str, Any], section: str, where: str) -> dict[str, SetupFact]:
    """Return rate and queue discipline of an interface that shapes; nothing of any other."""
    qdiscs = [one for one in _list(info.get("qdiscs")) if isinstance(one.get("params", {}), dict)]
    classes = [one for one in _list(info.get("classes")) if one.get("name") in ("htb", "hfsc")]
    found: dict[str, SetupFact] = {}
    rates = [
        rate for one in classes if (rate := _parse_rate(_read_params(one).get("ceil") or _read_params(one).get("rate")))
    ]
    if rates:
        found[f"{section}.rate"] = SetupFact(setup.spell_rate(max(rates)), f"tc class of {where}")
        found[f"{section}.shaper"] = SetupFact('"htb"', f"tc class of {where}")
    for one in qdiscs:
        key = _SHAPERS.get(str(one.get("name")))
        if not rates and key and (rate := _parse_rate(_read_params(one).get(key))):
            found[f"{section}.rate"] = SetupFact(setup.spell_rate(rate), f"tc qdisc {one['name']} of {where}")
            rates.append(rate)
    if not found:
        return {}
    leaves = [
        one
        for one in qdiscs
        if one.get("name") in read_registry().aqm or one.get("name") in ("pfifo_fast", "sfq", "fq")
    ]
    if leaves:
        found[f"{section}.aqm"] = read_aqm(str(leaves[-1]["name"]), _read_params(leaves[-1]), f"tc qdisc of {where}")
    return found


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _read_params(one: dict[str, Any]) -> dict[str, Any]:
    found = one.get("params")
    return found if isinstance(found, dict) else {}


def _parse_rate(text: Any) -> float:
    """Return a rate as tc writes it, bit/s; 0 if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgKMG]?)bit", text) if isinstance(text, str) else None
    return float(match[1]) * _SIZES.get(match[2].lower(), 1.0) if match else 0.0


def read_aqm(name: str, params: dict[str, Any], source: str) -> SetupFact:
    """Return a queue discipline with tc's parameters as an experiment file has it."""
    if name == "pfifo_fast":
        return SetupFact(
            '{ name = "pfifo", limit = 1000 }', f"{source}: pfifo_fast, whose length is that of the device"
        )
    if name not in read_registry().aqm:
        return assume_fact('"pfifo"', f"{source}: {name} is not in dumbbell")
    table = [f"name = {format_toml(name)}"]
    words = {*params, *map(str, params.values())}  # of cake, words without a value are keys or values as they come
    for key, param in read_registry().aqm[name].params.items():
        kind = spelling.find_unit_kind(param) or param.kind
        if key == "ecn" and param.kind == "bool" and params:  # tc names it where it is on
            table.append(f"ecn = {str(params.get('ecn', 'false') in ('', 'true', 'on')).lower()}")
            continue
        if param.kind == "choice" and key not in params:
            named = [word for word in param.choices if word in words and word not in _COMMON]
            table += [f"{key} = {format_toml(word)}" for word in named[:1]]
            continue
        if key == "bandwidth":  # the rate of the hop
            continue
        if key in params and (text := _format_value(kind, str(params[key]))):
            table.append(f"{key} = {text}")
    return SetupFact(f"{{ {', '.join(table)} }}" if len(table) > 1 else format_toml(name), source)


def _format_value(kind: str, text: str) -> str:
    """Return a parameter of tc in TOML; empty if it is not understood."""
    try:
        if kind == "time":
            units.parse("time", text)
            return format_toml(text)
    except InputError:
        return ""
    number = re.fullmatch(r"(\d+)(?:p|b|Kb)?", text)
    if kind == "int" and number:
        return number[1]
    if kind == "bool" and text in ("true", "false"):
        return text
    if kind == "size" and number:
        return format_toml(f"{number[1]}B")
    return ""


def _read_rates_of_title(data: Data, found: Measurement) -> None:
    """Take rates from title or file name, where tc says none: `bandwidth:1Mbit/10Mbit`, `bw=20Mbit`.

    Of two the larger one is that of downloads, as links to homes have it. A rate that is less than what was measured
    is none of this link.
    """
    if "bottleneck.rate" in found.setup and "reverse.rate" in found.setup:
        return
    for place in ("TITLE", "DATA_FILENAME"):
        rates = [
            float(number) * _SIZES[unit.lower()]
            for number, unit in _RATE.findall(data.get_text(place).replace("_", " "))
        ]
        rates = list(dict.fromkeys(rates))[:2]
        if not rates:
            continue
        ways = {"bottleneck.rate": max(rates), "reverse.rate": min(rates)}
        for key, rate in ways.items():
            way = "down" if key == "bottleneck.rate" else "up"
            carried = sum(flow.goodput_mbit for flow in found.flows if flow.direction == way) * 1e6
            if key not in found.setup and rate > 0 and carried * _LEAST_SHARE <= rate:
                where = "the title" if place == "TITLE" else "the name of the file"
                found.setup[key] = SetupFact(setup.spell_rate(rate), f"{where} says so")
        return


def _read_times(one: dict[str, Any]) -> dict[str, SetupFact]:
    """Return `start` and `stop` of an entry of a configuration, where they are set."""
    ends = (units.show("time", one["start"][key]) if one["start"][key] else "0s" for key in ("min", "max"))
    first, last = map(format_toml, ends)
    found = {"start": first if first == last else f"{{ uniform = [{first}, {last}] }}"}
    if one.get("stop") is not None:
        found["stop"] = format_toml(units.show("time", one["stop"]))
    if one["start"]["max"] == 0:
        del found["start"]
    return {key: SetupFact(text, _OF_EXPERIMENT) for key, text in found.items()}


def restore(data: Data, found: Measurement) -> None:
    """Take configuration and figures of a run that dumbbell exported as they were."""
    own = data.metadata.get(OWN)
    if not isinstance(own, dict) or "tables" not in own:
        return
    try:
        config = own["config"]
        tables = {name: own["tables"][name] for name in _TABLES if name != "hops" or name in own["tables"]}
        _native.check(json.dumps(config))
        flows = [one for kind in ("flows", "udp") for one in config[kind] for _ in range(one["count"])]
        names = [str(one) for one in own["series"]]
        if not all(isinstance(row, dict) for rows in tables.values() for row in rows):
            raise ValueError("rows")
        if len(names) != len(flows) or len(tables["flows"]) != len(flows) or len(tables["runs"]) != 1:
            raise ValueError("flows")
        seed = int(own["seed"])
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        text = " ".join(str(error).split())[:80]
        found.notes.append(f"dumbbell's record of the run is damaged ({text}): only the series are imported")
        return
    by_name = {flow.name: flow for flow in found.flows}
    kept = []
    for name, row, one in zip(names, tables["flows"], flows, strict=True):
        flow = by_name.get(name)
        if flow is None:  # without a point of the time series
            flow = ImportedFlow(name, "flows" if "cc" in one else "ping" if one.get("echo") else "udp")
        flow.direction = str(row.get("direction") or "down")
        if "cc" in one:
            flow.cc = setup.match_control(str(one["cc"]["name"]), _OF_EXPERIMENT)
        else:
            flow.rate = SetupFact(units.show("rate", one["rate"]), _OF_EXPERIMENT)
            flow.size = SetupFact(units.show("size", one["size"]), _OF_EXPERIMENT)
        if one.get("base_rtt"):
            flow.base_rtt = SetupFact(units.show("time", one["base_rtt"]), _OF_EXPERIMENT)
        flow.lasts = _read_times(one)
        kept.append(flow)
    found.flows = kept
    if not config.get("reverse"):  # the way of the data, which the host that measures sends
        found.setup = {key.replace("reverse.", "bottleneck."): fact for key, fact in found.setup.items()}
    found.source["exact"] = True
    found.exact = {
        "config": config,
        "seed": seed,
        "name": str(own.get("experiment", "")),
        "title": str(own.get("title", "")),
    }
    found.exact |= {"tables": list(tables)} | tables
