"""Finds the keys of an experiment that reach the kernel, by setting each of them and looking at the run's plan."""

import copy
import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.mapping import map_cell
from dumbbell.engines.linux.qdiscs import NOT_ZERO
from dumbbell.errors import InputError
from dumbbell.experiment import schema, shipped, spelling
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.net import DELAY, ROUTES
from dumbbell.experiment.registry import Param, read_registry
from dumbbell.experiment.without_effect import OF_ECN

# what the kernel gets whatever the experiment sets, because without it a run would be another run
ALWAYS = {
    "bottleneck.rate": "`htb rate … ceil … quantum 1514`; `netem rate` of a serial link",
    "bottleneck.burst": "`htb burst … cburst …`",
    "bottleneck.aqm": "`red`: `limit` and `avpkt`, for which neither tc nor the kernel has a default. `step`: "
    "`target 100s interval 1000s ecn ce_threshold …`, CoDel without its control law. `cake`: `bandwidth`, and "
    "`no-split-gso`, because a burst is one packet here",
    "flows.cc": "the flow's congestion control, by setsockopt(2)",
    "flows.base_rtt": "`netem delay … limit 10000000` behind a band of `prio`: by itself netem holds 1000 packets",
    "hosts.mss": "the MTU of every device, from which the kernel has thresholds, quanta and the limit of `bfifo`",
    "hosts.offload": 'TSO, GSO and GRO of every device: a veth has all of them on, `"tso"` here none; '
    '`gso_max_segs 1` with `"none"`',
    "hosts.ecn": "`features ecn` of the route for flows with ECN; `tcp_ecn = 2`, Linux's default, asks for none",
    "hosts.send_buffer": "the last number of `tcp_wmem`: Linux has it from its memory, and a guest has little",
    "hosts.receive_buffer": "the last number of `tcp_rmem`, for the same reason",
    "hosts.memory": "`tcp_mem`, for the same reason",
    "hosts.initial_ssthresh": "`tcp_no_metrics_save = 1`: no flow learns from an earlier one",
    "hosts.pacing": 'with `"fq"`: `fq flow_limit 1000000 limit 10000000`, so that it drops nothing',
    "no key": "`txrehash = 0`: a flow stays in its flow queue after a timeout. Addresses, routes, forwarding",
}
# what is as the kernel has it, whatever the experiment sets, and is said on standard error if it is set
LEFT = {
    "fq_codel.stale_when_empty": "whatever the experiment sets, which is said on standard error",
    "record.from": "what is measured, not what happens",
    "record.short_flows": "what is kept, not what happens",
}
# what a key needs with it to mean anything
_BESIDE: dict[str, dict[str, Any]] = {
    "pie.ecn_prob": {"ecn": True},
    **{f"udp.{key}": {"on": "300ms", "off": "100ms"} for key in ("on", "off", "times")},
    "fq_pie.ecn_prob": {"ecn": True},
    "red.harddrop": {"ecn": True},
    "red.nodrop": {"ecn": True},
    **{f"{cc}.{key}": {"abe": True} for cc in ("reno", "cubic") for key in ("beta_ecn", "abe_slow_start")},
    # marks count for BBR below a round trip that is short
    **{
        f"{cc}.{key}": {"ecn": True} | ({} if key == "ecn_max_rtt" else {"ecn_max_rtt": "200ms"})
        for cc in ("bbr2", "bbr3")
        for key in OF_ECN
    },
    "fq_codel.ce_threshold_selector": {"ce_threshold": "1ms"},
    "codel.ce_threshold_selector": {"ce_threshold": "1ms"},
    "dualpi2.typical_rtt": {"max_rtt": "100ms"},
    "dualpi2.step_count": {"step_packets": 5},
    "dualpi2.t_shift": {"scheduler": "time-shift"},
    "dualpi2.t_speed": {"scheduler": "time-shift"},
    "dualpi2.wrr_ratio": {"scheduler": "wrr-packets"},
    "dualpi2.ramp_range": {"version": "rfc9332"},
    "dualpi2.marking": {"version": "rfc9332"},
    "cake.sce_thresh": {"sce": "thresh"},
    "mac80211.slow_rate": {"slow_from": 3},
    **{
        f"htb_classes.{key}{number}": {f"rate{number}": "1Mbit"}
        for number in range(2, 5)
        for key in ("prio", "quantum", "queue", "dscp", "ceil")
    },
    "htb_classes.ceil1": {"rate1": "1Mbit"},
    **{f"htb_classes.{key}": {"queue1": "fq_codel"} for key in ("target", "interval", "flow_quantum", "ecn")},
    "udp.base_rtt": {"echo": True},
    "bottleneck.burst": {"shaper": "htb"},
    "flows.connect": {"start": "2s"},
    "flows.app_rate_from": {"app_rate": "1Mbit"},
    "flows.app_resume": {"app_pause": "1s"},
}
# first words of what the guest's program does itself
_GUEST = ("tcp", "udp", "duration", "series", "tail", "mss", "listen", "sink")
# keys of hops and ways over them, which make another network of the run
_NET = (DELAY.name, *(param.name for param in ROUTES))
# tables whose keys say who sends what over which link, and when: not of the kernel's choosing
OF_RUN = ("run", "bottleneck", "flows", "web", "udp", "record")
_BASE: dict[str, Any] = {
    "duration": "10s",
    "bottleneck": {"rate": "10Mbit", "aqm": "pie"},  # which tells the first of the states
    "flows": [{"cc": "reno"}],
    "web": [{"cc": "reno"}],
    "udp": [{}],
}
_TRACE = shipped.place() / "traces" / shipped.EXPERIMENTS / "cellular.trace"


def make_kernel() -> Kernel:
    """Return a kernel with all queue disciplines and congestion controls of the registry: there is no such one."""
    return Kernel("all", Path(), "6.12.0", "", {}, (*read_registry().cc, "bbr"), tuple(read_registry().aqm))


@dataclass(frozen=True)
class KernelKey:
    """A key that a user can set."""

    owner: str
    """Its algorithm, or its table."""
    param: Param
    place: str
    """What stands before it in an experiment file: `bottleneck.aqm.`, `hosts.`."""

    @property
    def name(self) -> str:
        """As the reference has it."""
        return f"{self.owner}.{self.param.name}"

    @property
    def beside(self) -> dict[str, Any]:
        """What it needs with it to mean anything."""
        return _BESIDE.get(self.name, {})

    def make_cell(self, **values: Any) -> Cell:
        """Return a run in which keys other than this one, and maybe this one, are set; raises InputError."""
        settings: dict[str, Any] = {}
        if self.owner in read_registry().aqm or self.owner in read_registry().cc:
            settings[self.place.removesuffix(".")] = self.owner
        if self.name == "record.queue":
            settings["bottleneck.aqm"] = "pie"  # which has something to tell
        return parse(copy.deepcopy(_BASE), "keys", settings | {self.place + k: v for k, v in values.items()}).make_cell(
            0
        )


def list_keys() -> Iterator[KernelKey]:
    """Yield every key of a run that a user can set, except paths (refused), applications and rate changes."""
    known = read_registry()
    for algorithms, place in ((known.aqm, "bottleneck.aqm."), (known.cc, "flows[0].cc.")):
        for algorithm in algorithms.values():
            yield from (KernelKey(algorithm.name, param, place) for param in algorithm.params.values())
    for section in known.sections:
        if section == "app":
            continue
        place = "" if section == "run" else f"{section}{'[0]' * (section in schema.SENDERS)}."
        for param in schema.describe_section(section).values():
            if param.name not in ("seed", *_NET):  # a seed is one of `seeds`
                yield KernelKey(section, param, place)


def choose_values(param: Param) -> list[Any]:
    """Return values, as a file would have them, that are not the default of a key; it need not take all of them."""
    default, unit = param.default, spelling.find_unit_kind(param)
    if param.kind == "states":
        return [[param.choices[0]]]
    if param.kind in ("arrivals", "sizes", "trace", "buffer"):
        return [{"arrivals": "7/s", "sizes": "20kB", "trace": str(_TRACE), "buffer": "20p"}[param.kind]]
    if param.kind == "bool":
        found: list[Any] = [not default] if default is not None else [True, False]
    elif param.kind == "choice":
        found = [*param.choices]
    elif unit == "time":
        found = [f"{time}ns" for time in (2 * (default or 3_500_000), 2_000_000_000)]
    elif unit == "rate":
        found = ["5Mbit", "20Mbit"]
    elif unit == "size":
        found = [f"{size}B" for size in ((default or 200) // 2, 2 * (default or 10), 1000, 30_000)]
    elif param.kind == "int":
        found = [*([default + 1, default - 1] if default is not None else []), 2, 5, 50]
    else:
        found = [*([default / 2] if default else []), 0.25, 1.5, 5.0]
    return [value for value in found if _make_canonical(param, value) not in (None, default)]


def read_default(param: Param) -> Any:
    """Return the default of a key as a file would have it; None if it has none."""
    unit = {"time": "ns", "rate": "bit", "size": "B"}.get(spelling.find_unit_kind(param) or "", "")
    return f"{param.default}{unit}" if unit and param.default is not None else param.default


def _make_canonical(param: Param, value: Any) -> Any:
    try:
        return spelling.parse_value(param, value)
    except InputError:
        return None


@dataclass(frozen=True)
class Reach:
    """The effect of a key that is set to `value`: what the kernel gets of it, or why it is refused."""

    key: KernelKey
    value: Any
    told: tuple[str, ...] = ()
    refused: str = ""


def try_key(key: KernelKey, kernel: Kernel, tried: list[Any] | None = None) -> Reach:
    """Set a key, by default to values that are not its default, and return what the kernel gets then and not before.

    The first value that reaches the kernel counts, else the first that is refused, else any. Raises LookupError if
    no value makes a run.
    """
    found: list[Reach] = []
    for value in choose_values(key.param) if tried is None else tried:
        try:
            cells = key.make_cell(**key.beside), key.make_cell(**(key.beside | {key.param.name: value}))
        except InputError:  # not this value in this run
            continue
        try:
            before, after = (_list_lines(cell, kernel) for cell in cells)
        except InputError as error:
            found.append(Reach(key, value, refused=str(error)))
            continue
        found.append(Reach(key, value, _find_differences(before, after)))
    if not found:
        raise LookupError(f"{key.name}: no value that makes a run")
    return next((one for one in found if one.told), next((one for one in found if one.refused), found[0]))


def _list_lines(cell: Cell, kernel: Kernel) -> list[str]:
    plan = map_cell(cell, kernel)
    lines = (line for line in plan.plan.splitlines() if not line.startswith("show "))
    return [*plan.arguments, *(piece for line in lines for piece in _split_line(line))]


def _split_line(line: str) -> list[str]:
    """Return each sysctl of a line by itself, as sysctl(8) has it."""
    if "cd /proc/sys/net" not in line:
        return [line]
    return [f"{name.replace('/', '.')} = {value}" for value, name in re.findall(r"echo ([^;>]+) >([\w/]+)", line)]


def _find_differences(before: list[str], after: list[str]) -> tuple[str, ...]:
    """Return the words by which lines of `after` differ from those of `before`, each with the word before a number."""
    found: dict[str, None] = {}
    if any(line.split(" ")[0] in _GUEST for line in {*before} ^ {*after}):
        found["the guest's program"] = None
    for line in (one for one in after if one not in before and one.split(" ")[0] not in _GUEST):
        near = difflib.get_close_matches(line, before, 1, 0.8)
        old, new = (near[0].split() if near else []), line.removeprefix("command ").split()
        for tag, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag in ("insert", "replace"):
                first = start - 1 if start and new[start][0].isdigit() else start
                found[" ".join(new[first:end])] = None
    return tuple(found)


def format_markdown() -> str:
    """Return the table of all keys: what the kernel gets of each, what it gets in any case, what is refused."""
    kernel = make_kernel()
    rows, refused, of_run = [], dict[str, list[str]](), dict[str, list[str]]()
    for key in list_keys():
        found = try_key(key, kernel)
        if found.refused:
            refused.setdefault(key.owner, []).append(f"`{key.param.name}`")
        elif found.told and key.owner in OF_RUN:
            of_run.setdefault(key.owner, []).append(f"`{key.param.name}`")
        elif found.told and key.name not in ALWAYS:
            value = spelling.show_value(key.param, _make_canonical(key.param, found.value))
            rows.append(f"| `{key.name}` | `{value}` | {', '.join(f'`{one}`' for one in found.told)} |")
    zeros = ", ".join(f"`{name}.{key}`" for name, keys in NOT_ZERO.items() for key in keys)
    always = (f"| {name if name == 'no key' else f'`{name}`'} | {what} |" for name, what in ALWAYS.items())
    return f"""# Keys on the linux engine

`dumbbell linux keys` prints this page. It sets every key, one at a time, and lists the changes in the commands
for the kernel.

## Keys that reach the kernel if the experiment sets them

Unless the experiment sets these keys, the kernel's own defaults apply, including patched ones.
`dumbbell describe` lists the settings that `hosts.profile` and `version` imply. The examples differ from the defaults
of the simulator.

| key | example | setting in the kernel |
| --- | --- | --- |
{_join_lines(rows)}

## Keys that always reach the kernel

If the experiment does not set these keys, the simulator's default applies, because Linux has no comparable default.

| key | setting in the kernel |
| --- | --- |
{_join_lines(always)}

`[[hop]]`, `[reverse]`, `delay`, `direction`, `route` and `ack_route` become namespaces, links between them and rules of
routing, which `--show-commands` prints. `link_layer`, `overhead`, `mpu` and `framing` of a hop with Cake become Cake's
options; with other queues they are refused.

The keys of `[[app]]` and of its applications reach a program in the guest, which runs the applications of the
simulator; `cc`, `ecn`, `dscp`, hosts and base RTT become options of its sockets, routes and delays. `ecn_echo` follows
from `cc`, and other values are refused.

These keys decide who sends what over which link, and when:

{_join_lines(f"- {owner}: {', '.join(names)}" for owner, names in of_run.items())}

## Refused

A value other than the default of these keys is an error, before anything runs:

{_join_lines(f"- {owner}: {', '.join(names)}" for owner, names in refused.items())}
- every stage of a path
- every link that `link` names

Only these values of other keys are refused:

- 0 for {zeros}: tc treats 0 as "not given", and the kernel would use its default
- `base_rtt` and `delay` in fractions of a microsecond, and times of queue disciplines: tc accepts no finer values
- `pie.tupdate` and `fq_pie.tupdate` in fractions of a millisecond: the kernel counts ticks

## Read back

After every run dumbbell reads the settings of the kernel: `tc -j qdisc show` and `tc class show` for hops and delays,
routes, sysctls, parameters of modules, MTU, offloads, and the congestion control and type of service of sockets. If a
setting differs, the run fails with a line that names key, requested and actual value. The kernel's granularity
is allowed: CoDel counts time in units of 1024 ns, PIE's target and delays are ticks of 64 ns, rates are whole bytes
per second, and `htb burst` is the time that it takes at the rate, in whole microseconds. Not read back are `avpkt`,
`burst`, `probability` and `bandwidth` of RED, from which tc computes other values, and the options of DualPI2, which
iproute2 6.1 does not support.

## Values of the kernel that no key changes

{_join_lines(f"- `{name}`: {why}" for name, why in LEFT.items())}
"""


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)
