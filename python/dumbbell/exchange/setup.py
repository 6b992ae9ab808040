"""The experiment that simulates what a file measured: what the file says, and in comments what it does not."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import statistics
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dumbbell.errors import InputError, WrongValue
from dumbbell.exchange import infer
from dumbbell.exchange.measurement import (
    FRAME_BYTES,
    ImportedFlow,
    Measurement,
    Origin,
    SetupFact,
    assume_fact,
    derive_fact,
)
from dumbbell.exchange.spelt import parse_milliseconds, spell_milliseconds, spell_rate, spell_seconds, spell_size
from dumbbell.experiment import units
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.settings import format_toml

__all__ = ["spell_milliseconds", "spell_rate", "spell_seconds", "spell_size"]

_ALIKE = 0.2  # base RTTs, and spaces of pings, this close to the smallest of a group are one
_ALIKE_MS, _TOGETHER_S = 1.0, 1.0
_ALIKE_RATE = 1.5  # rates within this factor are alike: flows of unknown controls with others may have others
_MOST_NAMED = 4  # flows of a table that are named
_LEAST_PING = 1_000  # bit/s
_PING_BYTES = 98  # ICMP echo with 56 bytes of payload, as ping and fping send it
_SIGNED = "# as dumbbell import wrote it:"
_PLAIN_KEY = re.compile("[a-z_]+")
_NO_RTT = assume_fact("20ms", "the file has no RTT")
# what Linux and other tools call congestion controls, where dumbbell says it otherwise
_CONTROLS = {"bbr": "bbr1", "newreno": "reno", "bbr_v1": "bbr1", "bbrv1": "bbr1", "bbrv2": "bbr2", "bbrv3": "bbr3"}


@dataclass
class Proposal:
    """An experiment file: its text, its only cell, the keys that are known, and where each value is from."""

    text: str
    cell: Cell
    known: list[str]
    facts: list[tuple[str, SetupFact]]

    @property
    def assumed(self) -> list[str]:
        """The assumptions, one line each."""
        return [f"{key} = {fact.text}: {fact.source}" for key, fact in self.facts if fact.origin is Origin.ASSUMED]


def match_control(name: str, source: str) -> SetupFact:
    """Return a congestion control as dumbbell calls it; CUBIC, as an assumption, for one that is not here."""
    plain = name.strip().lower()
    plain = _CONTROLS.get(plain, plain)
    if plain in read_registry().cc:
        return SetupFact(plain, source)
    return assume_fact("cubic", f"{name.strip()[:40] or 'nothing'} ({source}) is not in dumbbell")


def propose_file(found: Measurement, file: str, name: str = "", settings: Sequence[tuple[str, Any]] = ()) -> Proposal:
    """Return the experiment file that simulates the set-up of `file`, and put the flows into its order.

    `settings` are keys that the user knows better. Raises InputError if there is no such experiment.
    """
    _turn_uploads(found)
    complete = infer.complete(found)
    groups = order_flows(found)
    for reduced in (False, True):
        facts = dict(complete)
        if reduced:  # a queue discipline with parameters that are not allowed here
            for key in ("bottleneck.aqm", "reverse.aqm"):
                if key in facts:
                    facts[key] = assume_fact('"pfifo"', f"{facts[key].text} is not possible here")
        writer = _Writer(settings)
        text = writer.write_file(found, groups, facts, file)
        try:
            cell = parse(tomllib.loads(text), name or file).make_cell(0)
        except InputError:
            if reduced or settings:
                raise
            continue
        return Proposal(text, cell, writer.known, writer.facts)
    raise AssertionError


def order_flows(found: Measurement) -> list[list[ImportedFlow]]:
    """Put the flows into the order of an experiment, and return those that are alike together."""
    _turn_uploads(found)
    groups = _group_flows(found.flows)
    found.flows = [flow for group in groups for flow in group]
    return groups


def match_flows(found: Measurement, groups: dict[str, Any]) -> None:
    """Put the flows into the order of a configuration: each of its flows is the first one that is most like it."""
    _turn_uploads(found)
    left = list(found.flows)
    flows = []
    for kind in ("flows", "udp"):
        for one in [entry for entry in groups[kind] for _ in range(entry["count"])]:
            of_kind = [place for place, flow in enumerate(left) if (flow.kind == "flows") == (kind == "flows")]
            if of_kind:
                flows.append(left.pop(min(of_kind, key=lambda place: _compare_flow(left[place], one))))
    found.flows = flows + left


def _compare_flow(flow: ImportedFlow, one: dict[str, Any]) -> tuple[bool, ...]:
    """Return in what a flow is not as an entry of a configuration has it, what counts most first."""
    rtt, wanted = _get_milliseconds(flow.base_rtt), (one.get("base_rtt") or 0) / 1e6
    return (
        flow.direction != one.get("direction", "down"),
        "cc" in one and flow.cc is not None and flow.cc.text != one["cc"]["name"],
        "cc" not in one and (flow.kind == "ping") != bool(one.get("echo")),
        rtt is not None and wanted > 0 and not wanted * (1 - _ALIKE) <= rtt <= wanted * (1 + _ALIKE) + _ALIKE_MS,
        abs(flow.start_s - one["start"]["min"] / 1e9) > _TOGETHER_S,
    )


def _turn_uploads(found: Measurement) -> None:
    """Let a measurement of uploads alone pass the bottleneck, as one of downloads does."""
    senders = [flow for flow in found.flows if flow.kind != "ping"]
    ways = {flow.direction for flow in senders}
    if len(ways) == 1 and found.hops and not found.exact:  # the other queue has acknowledgements alone
        found.queue, found.hops = found.hops["reverse" if ways == {"up"} else "bottleneck"], {}
    if ways == {"up"}:
        for flow in found.flows:
            flow.direction = "down"
        found.setup = {
            key.replace("reverse.", "bottleneck."): fact
            for key, fact in found.setup.items()
            if not key.startswith("bottleneck.")
        }
        found.source["uploads"] = True
    elif ways == {"down"}:
        for flow in found.flows:
            flow.direction = "down"
        found.setup = {key: fact for key, fact in found.setup.items() if not key.startswith("reverse.")}


def _group_flows(flows: Iterable[ImportedFlow]) -> list[list[ImportedFlow]]:
    """Return flows that are alike together: TCP first, as in configurations."""
    groups: list[list[ImportedFlow]] = []
    for flow in sorted(flows, key=lambda one: one.kind != "flows"):
        group = next((one for one in groups if _are_alike(one[0], flow)), None)
        if group is None:
            groups.append([flow])
        else:
            group.append(flow)
    return groups


def _are_alike(first: ImportedFlow, flow: ImportedFlow) -> bool:
    def get_text(fact: SetupFact | None) -> str:
        return fact.text if fact else ""

    if (first.kind, first.direction, get_text(first.cc)) != (flow.kind, flow.direction, get_text(flow.cc)):
        return False
    if (get_text(first.sends), get_text(first.ecn)) != (get_text(flow.sends), get_text(flow.ecn)):
        return False
    if (get_text(first.rate), get_text(first.size)) != (
        get_text(flow.rate),
        get_text(flow.size),
    ) or first.lasts != flow.lasts:
        return False
    if first.kind == "flows" and (first.cc is None or not first.cc.known):
        low, high = sorted((first.goodput_mbit, flow.goodput_mbit))
        if high > _ALIKE_RATE * low:
            return False
    gaps = sorted(one.gap_s or 0.0 for one in (first, flow))
    if gaps[1] > gaps[0] * (1 + _ALIKE):
        return False
    near = abs(first.start_s - flow.start_s) <= _TOGETHER_S and abs(first.end_s - flow.end_s) <= _TOGETHER_S
    rtts = [_get_milliseconds(one.base_rtt) for one in (first, flow)]
    if None in rtts:
        return near and rtts[0] == rtts[1]
    low, high = sorted(float(one or 0.0) for one in rtts)
    return near and high - low <= max(_ALIKE * low, _ALIKE_MS)


def _get_milliseconds(fact: SetupFact | None) -> float | None:
    return None if fact is None else parse_milliseconds(fact)


class _Writer:
    """Writes an experiment file, and remembers what of it is known."""

    def __init__(self, settings: Sequence[tuple[str, Any]] = ()) -> None:
        self.lines: list[str] = []
        self.known: list[str] = []
        self.facts: list[tuple[str, SetupFact]] = []
        self._prefix = ""
        self._there: set[str] = set()
        """Keys of this section so far."""
        self._settings = dict(settings)
        self._of_all = {key for key in self._settings if "[*]" in key}
        self._used: set[str] = set()

    def write_file(
        self, found: Measurement, groups: list[list[ImportedFlow]], facts: dict[str, SetupFact], file: str
    ) -> str:
        """Return the whole file."""
        about = ", ".join(f"{key} {value}" for key, value in found.source.items() if isinstance(value, str))
        self._write_comment(f"The set-up of {file} ({about}), to be simulated. Values are said, derived or ASSUMED.")
        self._write_line("title", format_toml(found.title or file))
        duration = max(found.duration_s, found.interval_s, 0.01)
        text = f'"{spell_seconds(math.ceil(duration * 1000) / 1000)}"'
        fact = SetupFact(text, "the length of the measurement")
        if found.duration_s < duration:
            fact = assume_fact(text, f"one interval; the measurement took {spell_seconds(found.duration_s)}")
        self._write_key("duration", fact)
        self._write_line("seeds", f"[{found.exact['seed'] if found.exact else 1}]")
        ways = ["down", "up"] if any(flow.direction == "up" for flow in found.flows) else ["down"]
        for way in ways:
            self._write_hop(way, found, facts)
        said = any(key.startswith("hosts.") for key in self._settings)
        if said or "hosts.ecn" in found.setup or any(flow.kind == "flows" for flow in found.flows):
            self._write_section("[hosts]", "hosts.")
            self._write_key("ecn", facts["hosts.ecn"])
        numbers = {"flows": 0, "udp": 0}
        for group in groups:
            section = "flows" if group[0].kind == "flows" else "udp"
            self._write_section(f"[[{section}]]", f"{section}[{numbers[section]}].")
            numbers[section] += 1
            if section == "flows":
                self._write_tcp(group, found)
            else:
                self._write_udp(group, found)
        self._write_section("[record]", "record.")
        interval = spell_seconds(found.interval_s) if found.interval_s >= 0.001 else "1ms"
        self._write_line("interval", f'"{interval}"')
        self._write_rest()
        if left := self._settings.keys() - self._used:
            key = min(left)
            raise WrongValue(key, "a key of the proposed file, such as bottleneck.rate or flows[0].cc", key="--set")
        return sign_proposal("\n".join([*self.lines, ""]))

    def _write_comment(self, text: str) -> None:
        self.lines.append(f"# {_make_plain(text)}")

    def _write_section(self, head: str, prefix: str) -> None:
        self._write_rest()
        self.lines += ["", head]
        self._prefix = prefix
        self._there = set()
        every = re.sub(r"\[\d+\]", "[*]", prefix)
        for key in [key for key in self._of_all if key.startswith(every)]:
            self._settings.setdefault(prefix + key.removeprefix(every), self._settings[key])
            self._used.add(key)

    def _set(self) -> list[str]:
        """Return keys of this section that the user sets."""
        inner = [key.removeprefix(self._prefix) for key in self._settings if key.startswith(self._prefix)]
        return [key for key in inner if _PLAIN_KEY.fullmatch(key)]

    def _write_rest(self) -> None:
        """Write what the user sets of this section and nothing else has."""
        for key in self._set():
            if key not in self._there:
                self._write_line(key, "")
        self._settings = {
            key: value for key, value in self._settings.items() if key.removeprefix(self._prefix) not in self._there
        }

    def _write_line(self, key: str, text: str) -> None:
        """Write a key that says for itself where its value is from, or that the user sets."""
        self._there.add(key)
        said = key in self._set()
        value = format_toml(self._settings[self._prefix + key]) if said else text
        self.lines.append(self._append_comment(f"{key} = {value}", "as you set it" * said))

    def _append_comment(self, text: str, why: str) -> str:
        return text + f"{' ' * max(2, 30 - len(text))}# {why}" * bool(why)

    def _write_key(self, key: str, fact: SetupFact) -> None:
        whole = f"{self._prefix}{key}"
        fact = self._add_parameters(whole, fact)
        if key in self._set():
            self.known.append(whole)
            self._write_line(key, "")
            return
        self._there.add(key)
        if fact.known:
            self.known.append(whole)
        self.facts.append((whole, fact))
        self.lines.append(self._append_comment(f"{key} = {fact.text}", _make_plain(fact.explanation)))

    def _add_parameters(self, whole: str, fact: SetupFact) -> SetupFact:
        """Return an algorithm with the parameters that the user sets, as `bottleneck.aqm.limit`."""
        inner = {key: value for key, value in self._settings.items() if key.startswith(f"{whole}.")}
        if not inner:
            return fact
        own = self._settings.get(whole, tomllib.loads(f"value = {fact.text}")["value"])
        table = own if isinstance(own, dict) else {"name": own}
        self._used |= inner.keys()
        table |= {key.removeprefix(f"{whole}."): value for key, value in inner.items()}
        self._settings[whole] = table
        return fact

    def _write_hop(self, way: str, found: Measurement, facts: dict[str, SetupFact]) -> None:
        section = {"down": "bottleneck", "up": "reverse"}[way]
        self._write_section(f"[{section}]", f"{section}.")
        speed = facts[f"{section}.rate"]
        self._write_key("rate", replace(speed, text=f'"{speed.text}"'))
        if shaper := facts.get(f"{section}.shaper"):
            self._write_key("shaper", shaper)
        said, aqm = self._settings.get(f"{section}.rate"), facts[f"{section}.aqm"]
        if said is not None and f"{section}.aqm" not in found.setup and aqm.text.startswith('{ name = "pfifo'):
            with contextlib.suppress(InputError):  # a buffer as long as the RTT rose, at the rate that the user knows
                aqm = infer.infer_queue(found, way, float(units.parse("rate", str(said))))
        self._write_key("aqm", aqm)

    def _write_members(self, group: list[ImportedFlow]) -> None:
        """Say which flows of the file a table is."""
        for flow in group[:_MOST_NAMED]:
            known = f"{flow.goodput_mbit:.3g} Mbit/s" if "goodput_mbit" in flow.figures else "goodput not known"
            self._write_comment(f"{flow.name}: {known}" if flow.kind != "ping" else flow.name)
        if (more := len(group) - _MOST_NAMED) > 0:
            self._write_comment(f"and {more} more")

    def _write_tcp(self, group: list[ImportedFlow], found: Measurement) -> None:
        first = group[0]
        self._write_members(group)
        cc = first.cc or assume_fact("cubic", "the file does not say")
        self._write_key("cc", replace(cc, text=f'"{cc.text}"'))
        if first.echo:
            self._write_key("ecn_echo", first.echo)
        if first.ecn:
            self._write_key("ecn", first.ecn)
        if first.sends:
            self._write_key("size", replace(first.sends, text=f'"{first.sends.text}"'))
        self._write_base_rtt(group)
        if first.direction == "up":
            self._write_line("direction", '"up"')
        self._write_count(group)
        self._write_times(group, found)

    def _write_udp(self, group: list[ImportedFlow], found: Measurement) -> None:
        first = group[0]
        self._write_members(group)
        is_ping = first.kind == "ping"
        says = "the file does not say" + "; ping and fping send 84 bytes, and Ethernet adds 14" * is_ping
        size = first.size or assume_fact(f"{_PING_BYTES if is_ping else FRAME_BYTES}B", says)
        speed = first.rate
        if speed is None and is_ping:
            gap = _find_gap(first, found.interval_s)
            text = spell_rate(max(units.parse("size", size.text) * 8 / gap, _LEAST_PING))
            how, error = f"an answer every {gap:.3g} s, of this size", "without those that were lost"
            speed = derive_fact(text, how, error) if size.known else assume_fact(text, f"{how}, {error}")
        elif speed is None:
            text = spell_rate(max(first.goodput_mbit * first.frames_per_payload * 1e6, _LEAST_PING))
            speed = assume_fact(text, "what arrived, as frames; the file does not say what was sent")
        self._write_key("rate", replace(speed, text=f'"{speed.text}"'))
        self._write_key("size", replace(size, text=f'"{size.text}"'))
        if is_ping:
            self._write_line("echo", "true")
            self._write_base_rtt(group)
        if first.direction == "up":
            self._write_line("direction", '"up"')
        self._write_count(group)
        self._write_times(group, found)

    def _write_base_rtt(self, group: list[ImportedFlow]) -> None:
        known = [flow.base_rtt for flow in group if flow.base_rtt is not None]
        fact = min(known, key=lambda one: _get_milliseconds(one) or 0.0) if known else _NO_RTT
        self._write_key("base_rtt", replace(fact, text=f'"{fact.text}"'))

    def _write_count(self, group: list[ImportedFlow]) -> None:
        if len(group) > 1:
            self._write_line("count", str(len(group)))

    def _write_times(self, group: list[ImportedFlow], found: Measurement) -> None:
        if (lasts := group[0].lasts) is not None:
            for key, fact in lasts.items():
                self._write_key(key, fact)
            return
        start, last = min(flow.start_s for flow in group), max(flow.start_s for flow in group)
        end = max(flow.end_s for flow in group)
        is_exact = any(flow.carried is not None for flow in group)  # packets have their times
        least = 0.001 if is_exact else max(found.interval_s, 0.05)
        if last - start >= least and last < found.duration_s:
            text = f'{{ uniform = ["{spell_seconds(start)}", "{spell_seconds(last)}"] }}'
            self._write_key("start", SetupFact(text, "when the first and the last of them began"))
        elif start >= least and start < found.duration_s:
            self._write_key("start", SetupFact(f'"{spell_seconds(start)}"', "when the first of them began"))
        else:
            start = 0.0
        if group[0].sends:
            return
        if end > start + 0.001 and end < found.duration_s - max(2 * found.interval_s, 0.1):
            self._write_key("stop", SetupFact(f'"{spell_seconds(end)}"', "when the last of them ended"))


def _make_plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _find_gap(flow: ImportedFlow, otherwise: float) -> float:
    """Return the time between pings, s."""
    times = flow.series["time_s"].to_list() if flow.series.height else []
    sent = flow.figures.get("answers")
    if flow.gap_s:
        return flow.gap_s
    if sent and flow.end_s > flow.start_s:
        return (flow.end_s - flow.start_s) / max(1, int(sent) - 1)
    gaps = np.diff(times)
    return float(statistics.median(gaps)) if len(gaps) else max(otherwise, 0.01)


def sign_proposal(text: str) -> str:
    """Return a proposed file with a last line by which `is_untouched` knows it again."""
    return f"{text}\n{_SIGNED} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}\n"


def find_source_name(text: str) -> str:
    """Return the name of the file of which a text is the proposal; empty if it is none."""
    match = re.match(r"# The set-up of (.*) \(format ", text)
    return match[1] if match else ""


def is_untouched(text: str) -> bool:
    """Whether nobody changed a proposed file."""
    return sign_proposal(text.rpartition(f"\n{_SIGNED}")[0]) == text


def list_paths(table: Any, place: str = "") -> list[str]:
    """Return the keys of a table of tables and lists."""
    if isinstance(table, dict):
        return [path for key, one in table.items() for path in list_paths(one, f"{place}.{key}" if place else str(key))]
    if isinstance(table, list):
        return [path for number, one in enumerate(table) for path in list_paths(one, f"{place}[{number}]")]
    return [place]


def describe_traffic(cell: Cell) -> dict[str, Any]:
    """Return the traffic of a configuration: how many flows and sources of UDP it lists."""
    return {kind: sum(one["count"] for one in cell.groups[kind]) for kind in ("flows", "udp")}
