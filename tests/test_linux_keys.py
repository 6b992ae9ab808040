"""What the kernel is told of an experiment: what it sets, and otherwise only what has to be said."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, parsed
from dumbbell import _native
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux import plan_commands, reach
from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.mapping import list_notes, map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.registry import read_registry
from every_case import every_case

KERNEL = reach.make_kernel()
KEYS = {key.name: key for key in reach.list_keys()}
# what tc and the kernel have no word for, because it is what they do without a word
SILENT = {
    "red.ecn", "red.harddrop", "red.nodrop", "red.adaptive",  # flags of tc, off if not named
    "hosts.delayed_ack", "hosts.offload", "hosts.pacing", "hosts.mss", "hosts.ecn", "hosts.send_buffer",
    "hosts.receive_buffer", "hosts.memory", "hosts.profile", "step.threshold",
    "red.limit", "red.avpkt",
}  # fmt: skip


def plan(aqm: Any = "codel", cc: Any = "cubic", kernel: Kernel = KERNEL, **changes: Any) -> str:
    one = cell(aqm, cc, **changes)
    made = map_cell(one, kernel)
    return "\n".join([*made.arguments, made.plan])


def cell(aqm: Any = "codel", cc: Any = "cubic", **changes: Any) -> Cell:
    return parsed(bottleneck={"rate": "10Mbit", "aqm": aqm, "shaper": "htb"}, flows=[{"cc": cc}], **changes).make_cell(
        0
    )


@pytest.mark.slow
@every_case("name", KEYS)
def test_every_key_reaches_the_kernel_or_is_named_as_one_that_does_not(name: str) -> None:
    found = reach.try_key(KEYS[name], KERNEL)
    if found.refused:
        # by its own name, or by that of a key without which it means nothing
        named = re.match(r"(?:unknown key )?([\w.\[\]]+)[:; ]", found.refused)
        assert named, found.refused
        words = {KEYS[name].param.name, *KEYS[name].beside, "aqm", "cc"}
        assert named[1].split(".")[-1] in words and "\n" not in found.refused
    else:
        assert bool(found.told) != (name in reach.LEFT), found


@pytest.mark.slow
@every_case("name", [name for name in KEYS if KEYS[name].owner not in ("run", *reach.OF_RUN)])
def test_a_default_that_is_set_is_told_too(name: str) -> None:
    key = KEYS[name]
    found = reach.try_key(key, KERNEL)
    value = reach.read_default(key.param)
    if found.refused or name in reach.LEFT or value is None:
        return
    assert bool(reach.try_key(key, KERNEL, [value]).told) == (name not in SILENT)


@pytest.mark.parametrize(
    ("aqm", "line"),
    [
        *((name, f"parent 1:1 handle 2: {name}") for name in ("pfifo", "bfifo", "codel", "fq_codel", "pie", "fq_pie")),
        ("dualpi2", "parent 1:1 handle 2: dualpi2"),
        ("red", "parent 1:1 handle 2: red limit 400000 avpkt 1000"),
        ("step", "parent 1:1 handle 2: codel target 100s interval 1000s ecn ce_threshold 1000us"),
        ("cake", "root handle 2: cake bandwidth 10000000bit no-split-gso"),
    ],
)
def test_without_a_key_the_kernel_has_its_own_defaults(aqm: str, line: str) -> None:
    for cc in read_registry().cc:
        _has_its_own_defaults(aqm, line, cc)


def _has_its_own_defaults(aqm: str, line: str, cc: str) -> None:
    told = plan(aqm, cc)
    assert f"command tc -n M qdisc add dev m1 {line}\n" in told
    # no module parameter, no option of a route but ECN, and of sysctls only those that are told in any case
    assert not map_cell(cell(aqm, cc), KERNEL).arguments
    routes = re.findall(r"route add \S+ via [\d.]+(.*)", told)
    assert set(routes) == {"", " features ecn"}
    sysctls = set(re.findall(r">(?:/proc/sys/net/)?((?:ipv4|core)/\w+)", told))
    assert sysctls == {
        "ipv4/tcp_mem", "ipv4/tcp_rmem", "ipv4/tcp_wmem", "ipv4/tcp_ecn", "ipv4/tcp_no_metrics_save", "ipv4/ip_forward",
        "core/txrehash",
    }  # fmt: skip


def test_what_is_told_in_any_case_is_in_the_table() -> None:
    told = " ".join(reach.ALWAYS.values())
    for words in ("tcp_mem", "tcp_wmem", "tcp_rmem", "tcp_ecn", "tcp_no_metrics_save", "txrehash", "no-split-gso"):
        assert f"{words}" in told


@pytest.mark.slow
def test_the_page_has_every_key_of_an_algorithm() -> None:
    page = reach.format_markdown()
    for key in reach.list_keys():
        if key.owner in (*read_registry().aqm, *read_registry().cc) and key.name not in reach.LEFT:
            named = re.findall(rf"^- {key.owner}: (.*)", page, re.MULTILINE)
            assert f"`{key.name}`" in page or any(f"`{key.param.name}`" in line for line in named), key.name


def test_keys_come_from_files_settings_matrices_overrides_profiles_and_versions() -> None:
    table: dict[str, Any] = {"duration": "2s"}
    table |= {"bottleneck": {"rate": "10Mbit", "aqm": {"name": "codel", "limit": 9}}}
    table |= {"flows": [{"cc": "cubic"}], "matrix": {"bottleneck.aqm.target": ["5ms", "7ms"]}}
    table |= {"override": [{"when": {"bottleneck.aqm.target": "7ms"}, "set": {"hosts.frto": True}}]}
    cells = list(parse(table, "f", {"flows[0].cc.beta": 717}).make_cells())
    told = ["\n".join(reach._list_lines(one, KERNEL)) for one in cells]
    assert "codel limit 9 target 5000us\n" in told[0] and "codel limit 9 target 7000us\n" in told[1]
    assert "tcp_frto" not in told[0] and "ipv4.tcp_frto = 2" in told[1] and "tcp_cubic.beta=717" in told[0]
    # a profile sets what it has unlike the defaults; where the kernel has no switch, it is as it is, which is said
    old = cell(hosts={"profile": "linux-5.4"})
    assert "[ ! -e ipv4/tcp_tso_rtt_log ] || echo 0 >ipv4/tcp_tso_rtt_log" in plan(hosts={"profile": "linux-5.4"})
    assert not map_cell(old, KERNEL).arguments and "hosts.profile = linux-5.4" in list_notes([old], KERNEL)[0]
    assert map_cell(cell(hosts={"profile": "freebsd-13"}), KERNEL).arguments == ("tcp_cubic.hystart=0",)
    assert cell(cc={"name": "prague", "version": "0.6"}).given["flows"][0]["cc"]["min_burst"] == 2
    assert cell(cc={"name": "prague"}).given["flows"][0]["cc"] == {"name": "prague"}
    with pytest.raises(InputError, match=r"cc.version: Linux does not support 0.6"):
        plan(cc={"name": "prague", "version": "0.6"})


def test_runs_have_one_key_if_the_kernel_is_told_the_same() -> None:
    def key(chosen: linux.LinuxEngine | None, aqm: Any = "codel", **changes: Any) -> str:
        one = cell(aqm, **changes)
        return dataclasses.replace(one, engine="e", plan_of=chosen.format_plan if chosen else None).key

    kernel = linux.LinuxEngine(KERNEL)
    given = {"name": "codel", "target": "5ms"}
    assert key(None) == key(None, given) != key(kernel)
    assert key(kernel) != key(kernel, given)
    assert key(kernel) == key(kernel, hosts={"delayed_ack": True})
    assert key(kernel) != key(kernel, hosts={"frto": True}) != key(kernel, hosts={"tso_rtt": True})
    # a run that cannot be has a key, too
    assert key(kernel, "csaqm") != key(kernel, "pi2")


def test_the_simulators_keys_do_not_depend_on_what_is_set() -> None:
    one = cell({"name": "codel", "target": "5ms"})
    assert one.plan_of is None and one.engine == _native.engine_version()
    assert (one.key, one.cell_key) == (cell().key, cell().cell_key)


def test_commands_are_shown_once_for_cells_that_have_the_same() -> None:
    table: dict[str, Any] = {"duration": "2s", "seeds": [1, 2]}
    table |= {"bottleneck": {"rate": "10Mbit", "shaper": "htb", "aqm": "codel"}}
    table |= {"flows": [{"cc": "cubic"}], "hosts": {"frto": False}}
    table |= {"matrix": {"flows[0].start": ["0s", "1s"], "bottleneck.aqm.target": ["5ms", "20ms"]}}
    table["bottleneck"]["rate_changes"] = [{"at": "1500ms", "rate": "5Mbit"}]
    texts = list(plan_commands.format_commands([parse(table, "f.toml", {"flows[0].cc.beta": 600})], KERNEL))
    assert len(texts) == 2
    first = texts[0].splitlines()
    assert first[0] == "# f: flows[0].start = 0s, bottleneck.aqm.target = 5ms"
    assert first[1] == "# f: flows[0].start = 1s, bottleneck.aqm.target = 5ms"
    assert "# on the kernel's command line: tcp_cubic.beta=600" in first
    assert "tc -n M qdisc add dev m1 parent 1:1 handle 2: codel target 5000us" in first
    assert "# at 1.5 s" in first and "# ethtool of s0 in S: tso off, gso off, gro off" in first
    assert first[-1] == "# setsockopt TCP_CONGESTION: cubic"
    assert any("echo 0 >ipv4/tcp_frto" in line for line in first)
    bare = [line for line in first if not line.startswith(("#", "ip ", "tc ", "echo ", "mkdir "))]
    assert bare == []


def test_only_the_linux_engine_has_commands_to_show(command: Command, small: Path) -> None:
    """Without an engine they are those of Linux."""
    done = command("run", small, "--show-commands", "--engine", "live")
    assert (
        done.returncode == 2
        and done.stderr == "run: --show-commands and --engine live cannot be combined; use --engine linux\n"
    )
    words = ("run", small, "--show-commands")
    assert command(*words).stdout == command(*words, "--engine", "linux").stdout
