"""The experiment of a home behind an access line: traffic both ways, a modem, a router, and settings of its queue.

Packets down pass the provider's queue at the line (`bottleneck`), then the router (`router-down`), which shapes what
has already passed the line. Packets up pass the router (`router-up`), then the modem's queue at the line (`reverse`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dumbbell.errors import OutOfRange, UnknownName, quote_value
from dumbbell.experiment import units
from dumbbell.line.access import LINKS, MODEM_BUFFER, AccessLink
from dumbbell.words import format_number

FULL_FRAME = 1514  # bytes without FCS, as the rates of experiment files count
LEAST_RATE, MOST_RATE = 100_000, 10_000_000_000  # of a line, bit/s
MEASURED_FROM = 5_000_000_000  # ns: flows have left slow start by then
RTTS = (0, 60_000_000_000)  # ns, as base RTTs of flows
DURATIONS = (MEASURED_FROM + 1_000_000_000, 86_400_000_000_000)  # ns; a second or more is measured
BUFFERS = (0, 60_000_000_000)  # ns: a queue of a minute is longer than any known one
UNSHAPED = "no shaper"
OLD_MODEM = "a FIFO in the modem"
FOLLOWING = "Cake that follows the line"
FOLLOWS = (5, 25, 100)
"""Percentages of the line of the lowest, the base and the highest rate of a shaper that follows it: those of
cake-autorate's Example_Starlink_config.sh down, 10, 50 and 200 Mbit/s."""
PASSING = "40Gbit"  # of a router that does not shape: faster than any line
QUEUES = {"fq_codel": "FQ-CoDel", "cake": "Cake", "codel": "CoDel", "pie": "PIE", "fq_pie": "FQ-PIE"}
"""Queues of routers that can shape, by their names in experiment files, and what they are called."""
MARGINS = (95, 90, 85)
"""Percentages of the line at which routers shape: OpenWrt's guide to SQM advises 90 % of the measured rate."""
VARYING_MARGINS = (80, 60, 40)
"""Percentages for lines whose rate varies: the shaper has to stay below the lowest rate of the line."""


@dataclass(frozen=True)
class AccessLine:
    """An access line and what is to be tried on it: rates in bit/s, times in ns, margins in percent of the line."""

    down: int
    up: int
    kind: str = "fibre"
    rtt: int = 20_000_000
    queues: tuple[str, ...] = ("fq_codel", "cake")
    margins: tuple[int, ...] = ()
    """Percentages of the line; empty: those of the kind of line."""
    modem_buffer: int | None = None
    seeds: int = 5
    duration: int = 30_000_000_000
    name: str = "line"
    sources: dict[str, str] = field(default_factory=dict)
    """Where a value is from, by `down`, `up`, `rtt`, if it was not given."""

    def __post_init__(self) -> None:
        if self.kind not in LINKS:
            raise UnknownName(quote_value(self.kind), among=LINKS, what="kind of line", key="--link")
        for name, rate in (("--down", self.down), ("--up", self.up)):
            if not LEAST_RATE <= rate <= MOST_RATE:
                allowed = f"{units.show('rate', LEAST_RATE)} to {units.show('rate', MOST_RATE)}"
                raise OutOfRange(units.show("rate", rate), allowed, key=name)
        for name, time, (least, most) in (
            ("--rtt", self.rtt, RTTS),
            ("--duration", self.duration, DURATIONS),
            ("--modem-buffer", self.buffer, BUFFERS),
        ):
            if not least <= time <= most:
                allowed = f"{units.show('time', least)} to {units.show('time', most)}"
                raise OutOfRange(units.show("time", time), allowed, key=name)
        for queue in self.queues:
            if queue not in QUEUES:
                raise UnknownName(quote_value(queue), among=QUEUES, what="queue of a router", key="--queue")

    @property
    def link(self) -> AccessLink:
        """The kind of line."""
        return LINKS[self.kind]

    @property
    def tried_margins(self) -> tuple[int, ...]:
        """The margins that are tried."""
        return self.margins or (VARYING_MARGINS if self.link.varies else MARGINS)

    @property
    def buffer(self) -> int:
        """Size of the queues at the line, ns at its rate."""
        return MODEM_BUFFER if self.modem_buffer is None else self.modem_buffer

    def make_queues(self) -> tuple[str, str]:
        """Return the queue of the provider and of the modem, as TOML."""
        if self.link.buffers and self.modem_buffer is None:
            down, up = self.link.buffers
            return f"{{ {down} }}", f"{{ {up} }}"
        down, up = (f'{{ name = "pfifo", limit = {self.count_packets(rate)} }}' for rate in (self.down, self.up))
        if not self.link.modem_queue:
            return down, up
        size = max(FULL_FRAME, self.up * self.buffer // (8 * 10**9))
        limit = "" if self.modem_buffer is None else f', limit = "{size}B"'
        return down, f"{{ {self.link.modem_queue}{limit} }}"

    def count_packets(self, rate: int) -> int:
        """Return how many full frames such a queue holds at `rate`; at least 10."""
        return max(10, rate * self.buffer // (8 * FULL_FRAME * 1_000_000_000))

    @property
    def assumptions(self) -> list[str]:
        """The assumptions of the experiment, each as a noun phrase."""
        return [
            f"servers at a round-trip time of {format_number(self.rtt / 1e6)} ms",
            self._describe_buffers(),
            *([self.link.assumed] if self.link.assumed else []),
            "two downloads and one upload that never end, CUBIC without ECN",
        ]

    def _describe_buffers(self) -> str:
        time = f"{format_number(self.buffer / 1e6)} ms"
        if self.link.modem_queue:
            return f"a queue of {time} at the provider's end of the line"
        if self.link.buffers and self.modem_buffer is None:
            return self.link.buffer_text
        return f"queues of {time} at both ends of the line"


@dataclass(frozen=True)
class RouterSetting:
    """A setting of router and modem: values of the keys of the matrix, as TOML."""

    name: str
    values: tuple[str, ...]
    queue: str = ""
    margin: int = 100
    follows: bool = False
    """Whether a program lets the rate of the shaper follow the line."""


_KEYS = (
    *("hop[0].rate", "hop[0].shaper", "hop[0].aqm", "hop[1].rate", "hop[1].shaper", "hop[1].aqm"),
    *("bottleneck.aqm", "reverse.aqm"),
)


def list_settings(line: AccessLine) -> list[RouterSetting]:
    """Return the settings that are compared: no shaper, a FIFO in the modem, then each queue at each margin.

    On a line whose rate varies Cake that follows it comes last.
    """
    lines = line.make_queues()
    passing = (f'"{PASSING}"', '"link"', '"pfifo"')
    found = [RouterSetting(UNSHAPED, (*passing, *passing, *lines))]
    if line.link.modem_queue:
        fifo = f'{{ name = "pfifo", limit = {line.count_packets(line.up)} }}'
        found.append(RouterSetting(OLD_MODEM, (*passing, *passing, lines[0], fifo)))
    for queue in line.queues:
        shaper = '"link"' if queue == "cake" else '"htb"'
        own = [f'{{ name = "{queue}", ingress = true }}' if queue == "cake" else f'"{queue}"', f'"{queue}"']
        for margin in line.tried_margins:
            values: list[str] = []
            for rate, aqm in zip((line.down, line.up), own, strict=True):
                values += [f'"{units.show("rate", rate * margin // 100)}"', shaper, aqm]
            found.append(RouterSetting(f"{QUEUES[queue]} at {margin} %", (*values, *lines), queue, margin))
    if line.link.varies:
        values = []
        for rate, ingress in ((line.down, ", ingress = true"), (line.up, "")):
            first = units.show("rate", rate * FOLLOWS[1] // 100)
            values += [f'"{PASSING}"', '"link"', f'{{ name = "cake", bandwidth = "{first}"{ingress} }}']
        found.append(RouterSetting(FOLLOWING, (*values, *lines), "cake", follows=True))
    return found


def _make_apps(line: AccessLine, *, follows: bool) -> str:
    """Return the applications of a setting, as TOML: pages and a call, and the program that sets the rates of Cake."""
    base_rtt = f'base_rtt = "{units.show("time", line.rtt)}"'
    down = 'route = ["bottleneck", "router-down"], ack_route = ["router-up", "reverse"]'
    apps = [
        f'{{ kind = {{ name = "pages", think = "2s" }}, cc = "cubic", {base_rtt}, {down} }}',
        f'{{ kind = "call", {base_rtt}, {down} }}',
    ]
    if follows:
        rates = [
            f'{way}_{name} = "{units.show("rate", max(1000, rate * share // 100))}"'
            for way, rate in (("down", line.down), ("up", line.up))
            for name, share in zip(("min", "base", "max"), FOLLOWS, strict=True)
        ]
        apps.append(f'{{ kind = {{ name = "autorate", {", ".join(rates)} }}, {base_rtt}, {down} }}')
    return f"[{', '.join(apps)}]"


def write_experiment(line: AccessLine, command: str = "") -> str:
    """Return the experiment file of a home behind a line."""
    link = line.link
    down, up = (units.show("rate", rate) for rate in (line.down, line.up))
    rtt = units.show("time", line.rtt)
    layer = f'link_layer = "{link.layer}"'
    settings = list_settings(line)
    axis = ",\n".join(f'    ["{one.name}", {", ".join(_list_values(line, one))}]' for one in settings)
    ways = {
        "down": 'route = ["bottleneck", "router-down"]\nack_route = ["router-up", "reverse"]',
        "up": 'direction = "up"\nroute = ["router-up", "reverse"]\nack_route = ["bottleneck", "router-down"]',
    }
    tcp = f'cc = "cubic"\nbase_rtt = "{rtt}"'
    bulk = 'start = { uniform = ["0s", "1s"] }'
    assumed = "".join(f"\n# - {text}" for text in line.assumptions)
    made = f"Made by: {command}\n# " if command else ""
    sources = {name: f"  # {text}" for name, text in line.sources.items()}
    return f"""\
# {made}A home behind {link.title}, {down} down and {up} up. Which queue belongs into its router?
# Assumed:{assumed}
title = "{line.name}: {down} down, {up} up, {link.title}"
duration = "{units.show("time", line.duration)}"
seeds = {list(range(1, line.seeds + 1))}

[bottleneck]                    # the line, down, and the provider's queue
rate = "{down}"{sources.get("down", "")}
{_format_keys(link.down)}{layer}
aqm = "pfifo"

[reverse]                       # the line, up, and the modem's queue
rate = "{up}"{sources.get("up", "")}
{_format_keys(link.up)}{layer}
aqm = "pfifo"

[[hop]]                         # the router, down: it shapes what has already passed the line
name = "router-down"
rate = "{PASSING}"
{layer}
aqm = "pfifo"

[[hop]]                         # the router, up
name = "router-up"
rate = "{PASSING}"
{layer}
aqm = "pfifo"

[hosts]
ecn = false

[[flows]]                       # downloads
{tcp}{sources.get("rtt", "")}
count = 2
{ways["down"]}
{bulk}

[[flows]]                       # an upload
{tcp}
{ways["up"]}
{bulk}

[[app]]                         # somebody opens pages
kind = {{ name = "pages", think = "2s" }}
{tcp}
{ways["down"]}

[[app]]                         # somebody calls, with a playout buffer as of softphones
kind = {{ name = "call", buffer = "adaptive" }}
base_rtt = "{rtt}"
{ways["down"]}

[record]
from = "{units.show("time", MEASURED_FROM)}"
series = false

[matrix]
"setting, {", ".join([*_KEYS, *(["app"] * link.varies)])}" = [
{axis},
]
"""


def _list_values(line: AccessLine, setting: RouterSetting) -> list[str]:
    """Return the values of a setting for all keys of the matrix."""
    return [*setting.values, *([_make_apps(line, follows=setting.follows)] * line.link.varies)]


def _format_keys(keys: dict[str, str]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in keys.items())
