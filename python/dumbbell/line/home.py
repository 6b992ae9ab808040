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

    def count_packets(self, rate: int) -> int:
        """Return how many full frames such a queue holds at `rate`; at least 10."""
        return max(10, rate * self.buffer // (8 * FULL_FRAME * 1_000_000_000))

    @property
    def assumptions(self) -> list[str]:
        """The assumptions of the experiment, each as a noun phrase."""
        return [
            f"servers at a round-trip time of {format_number(self.rtt / 1e6)} ms",
            f"queues of {format_number(self.buffer / 1e6)} ms at both ends of the line",
            *([self.link.assumed] if self.link.assumed else []),
            "two downloads and one upload that never end, CUBIC without ECN",
        ]


@dataclass(frozen=True)
class RouterSetting:
    """A setting of router and modem: values of the keys of the matrix, as TOML."""

    name: str
    values: tuple[str, ...]
    queue: str = ""
    margin: int = 100


_KEYS = (
    *("hop[0].rate", "hop[0].shaper", "hop[0].aqm", "hop[1].rate", "hop[1].shaper", "hop[1].aqm"),
    *("bottleneck.aqm", "reverse.aqm"),
)


def list_settings(line: AccessLine) -> list[RouterSetting]:
    """Return the settings that are compared: no shaper, the modem's own queues, then each queue at each margin."""
    fifo = [f'{{ name = "pfifo", limit = {line.count_packets(rate)} }}' for rate in (line.down, line.up)]
    passing = (f'"{PASSING}"', '"link"', '"pfifo"')
    found = [RouterSetting(UNSHAPED, (*passing, *passing, *fifo))]
    for name, (down, up) in line.link.modem_queues.items():
        found.append(RouterSetting(name, (*passing, *passing, down or fifo[0], up or fifo[1])))
    for queue in line.queues:
        shaper = '"link"' if queue == "cake" else '"htb"'
        own = [f'{{ name = "{queue}", ingress = true }}' if queue == "cake" else f'"{queue}"', f'"{queue}"']
        for margin in line.tried_margins:
            values: list[str] = []
            for rate, aqm in zip((line.down, line.up), own, strict=True):
                values += [f'"{units.show("rate", rate * margin // 100)}"', shaper, aqm]
            found.append(RouterSetting(f"{QUEUES[queue]} at {margin} %", (*values, *fifo), queue, margin))
    return found


def write_experiment(line: AccessLine, command: str = "") -> str:
    """Return the experiment file of a home behind a line."""
    link = line.link
    down, up = (units.show("rate", rate) for rate in (line.down, line.up))
    rtt = units.show("time", line.rtt)
    layer = f'link_layer = "{link.layer}"'
    settings = list_settings(line)
    axis = ",\n".join(f'    ["{one.name}", {", ".join(one.values)}]' for one in settings)
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
"setting, {", ".join(_KEYS)}" = [
{axis},
]
"""


def _format_keys(keys: dict[str, str]) -> str:
    return "".join(f'{name} = "{value}"\n' for name, value in keys.items())
