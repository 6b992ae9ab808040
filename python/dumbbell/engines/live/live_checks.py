"""Checks of what a live run needs of this machine and of its timing, with remedies."""

import errno
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from dumbbell import _native, experiment
from dumbbell.engines.live import engine
from dumbbell.engines.needs import Check
from dumbbell.errors import InputError, escape_line
from dumbbell.processes import count_cores

PROBE_S = 20.0  # for the process that tries things, most of a second on an idle machine
SLOW_CLOCK_S = 1e-6  # to read the clock: a system call or a device instead of a register
SPUN_S = 100e-6  # the most by which the forwarder wakes up early, and so the most of an oversleep that harms nothing
CONTROLS = {"reno": "RENO", "cubic": "CUBIC", "dctcp": "DCTCP", "bbr": "BBR"}  # of mainline, and their options there
_CONTAINER = "in a container: docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt seccomp=unconfined"
_PROC, _SYS, _MODULES = Path("/proc/sys"), Path("/sys"), Path("/lib/modules")
# sysctl, the value that forbids namespaces to users, and the one that allows them
_FORBIDDING = (
    ("user.max_user_namespaces", "0", "10000"),
    ("user.max_net_namespaces", "0", "10000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
_AWAKE = Path("/dev/cpu_dma_latency")  # as long as it is open for writing, no core sleeps
_TRIAL = {
    "duration": "1s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "reno", "base_rtt": "20ms"}],
}


def run_checks() -> Iterator[Check]:
    """Yield what was found, what has to be there first."""
    if not hasattr(_native, "live_run"):
        yield Check("system", platform.system(), "Linux; --engine sim works here")
        return
    try:
        said = probe()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Check(
            "namespaces", f"the trial failed: {escape_line(str(error))}", "pip install --force-reinstall dumbbell"
        )
        return
    yield from judge_probe(said)
    yield from _check_machine()
    if all(not isinstance(said.get(what), dict) for what in ("permission", "namespace", "packets", "veth")):
        yield try_run()


def probe() -> dict[str, Any]:
    """Return what the process of probe.py found."""
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("probe.py")), str(_native.__file__)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_S, check=False
    )
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judge_probe(said: dict[str, Any]) -> Iterator[Check]:
    """Yield checks of what the probe said."""
    root = os.geteuid() == 0
    for what in ("permission", "namespace"):
        if refused := _describe_refusal(said, what):
            yield Check(
                "namespaces", refused.partition(", allowed: ")[0].removeprefix("found "), _check_permission(root)
            )
            break
    else:
        yield Check("namespaces", f"allowed {said['permission']}")
        refused = _describe_refusal(said, "packets")
        yield Check("packet sockets", refused or "open, with a ring", _name_module(said, "packets", "af_packet"))
        yield _check_veth(said)
        yield _check_controls(said)
    yield _check_clock(said["clock"])
    refused = _describe_refusal(said, "real time")
    allow = (
        refused and f"as root: prlimit --rtprio=2 --pid {os.getppid()}, which is the shell; without it others go first"
    )
    yield Check("real-time priority", refused or "allowed", allow, needed=False)
    yield _check_timer(said["overslept"])
    yield _check_idle_cores()


def _describe_refusal(said: dict[str, Any], what: str) -> str:
    found = said.get(what)
    return escape_line(str(found["error"])) if isinstance(found, dict) else ""


def _name_module(said: dict[str, Any], what: str, name: str) -> str:
    """Return how to get what was refused: by a right or by a module of the kernel; empty if it was not refused."""
    if not _describe_refusal(said, what):
        return ""
    return _CONTAINER if said[what].get("number") in (errno.EPERM, errno.EACCES) else f"as root: modprobe {name}"


def _check_permission(root: bool) -> str:
    for name, forbids, allows in _FORBIDDING:
        value = _read(_PROC / name.replace(".", "/"))
        if value == forbids and (not root or name == "user.max_net_namespaces"):
            return f"as root: sysctl {name}={allows}"
    return _CONTAINER if root else f"root; {_CONTAINER}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _check_veth(said: dict[str, Any]) -> Check:
    if refused := _describe_refusal(said, "veth"):
        return Check("veth", refused, _name_module(said, "veth", "veth"))
    if stay := said["veth"]:
        return Check("veth", f"offloads that cannot be switched off: {', '.join(stay)}", "another kernel", needed=False)
    return Check("veth", "made; its offloads are off")


def _check_controls(said: dict[str, Any]) -> Check:
    if refused := _describe_refusal(said, "controls"):
        return Check("congestion controls", refused, "a /proc file system: mount -t proc proc /proc")
    usable = said["controls"]
    lacking = [name for name in CONTROLS if name not in usable]
    known, modules = _read(_PROC / "net/ipv4/tcp_available_congestion_control").split(), _list_modules()
    remedies = []
    if loaded := [name for name in lacking if name not in known and f"tcp_{name}" in modules]:
        remedies.append("as root: modprobe -a " + " ".join(f"tcp_{name}" for name in loaded))
    if any(name in known for name in lacking):
        remedies.append(f"as root: sysctl net.ipv4.tcp_allowed_congestion_control='{' '.join(known)}'")
    if built := [CONTROLS[name] for name in lacking if name not in known and f"tcp_{name}" not in modules]:
        remedies.append("a kernel with " + ", ".join(f"CONFIG_TCP_CONG_{option}" for option in built))
    found = " ".join(usable) + (f"; not {', '.join(lacking)}" if lacking else "")
    return Check("congestion controls", found, "; ".join(remedies), needed=False)


def _list_modules() -> set[str]:
    """Return the names of the congestion controls that this kernel can load."""
    place = _MODULES / platform.release()
    return {path.name.partition(".")[0] for path in place.glob("**/net/ipv4/tcp_*.ko*")}


def _check_clock(cost: float) -> Check:
    place = _SYS / "devices/system/clocksource/clocksource0"
    name, known = _read(place / "current_clocksource") or "unknown", _read(place / "available_clocksource").split()
    found = f"{name}, {cost * 1e9:.0f} ns to read"
    if cost <= SLOW_CLOCK_S:
        return Check("clock", found)
    better = [one for one in ("tsc", "kvm-clock", "arch_sys_counter") if one in known and one != name]
    remedy = f"as root: echo {better[0]} > {place}/current_clocksource" if better else "another machine"
    return Check("clock", found, remedy, needed=False)


def _check_timer(overslept: list[float]) -> Check:
    half, late = (overslept[min(len(overslept) * part // 100, len(overslept) - 1)] * 1e6 for part in (50, 99))
    found = f"sleeps last {half:.0f} us too long, 1 % of them more than {late:.0f} us"
    idle = f"an idle machine; up to {SPUN_S * 1e6:.0f} us harm nothing"
    return Check("timer", found, "" if late <= SPUN_S * 1e6 else idle, needed=False)


def _check_idle_cores() -> Check:
    if os.access(_AWAKE, os.W_OK):
        return Check("idle cores", "are kept awake during a run")
    if _AWAKE.exists():
        return Check("idle cores", "sleep, and wake up late", f"as root: chmod o+w {_AWAKE}", needed=False)
    return Check("idle cores", f"may sleep: there is no {_AWAKE}", "a container that has the device", needed=False)


def _check_machine() -> Iterator[Check]:
    count = count_cores()
    more = "" if count > 1 else "2: one core is for the bottleneck alone"
    yield Check("cores", str(count), more, needed=False)
    load = os.getloadavg()[0]
    wait = "" if load < count / 2 else "wait until other programs have ended"
    yield Check("load", f"{load:.1f} of {count} cores in the last minute", wait, needed=False)


def try_run() -> Check:
    """Carry out a run of a second; say how late its frames were."""
    cell = next(iter(experiment.parse(_TRIAL, "doctor").make_cells()))
    invalid: list[str] = []
    try:
        with engine.LiveLab(engine.LiveEngine(), lambda _, text: invalid.append(text)) as lab:
            result = lab.submit(cell, _native.Progress()).result().result
    except InputError as error:
        return Check("trial", error.found, error.allowed)
    except (RuntimeError, CancelledError) as error:
        return Check(
            "trial", escape_line(str(error)), "dumbbell doctor live once more; if it stays, a report of this line"
        )
    summary = json.loads(result.summary)
    late, allowed = (summary[name] * 1e3 for name in ("lateness_p99_ms", "lateness_allowed_ms"))
    found = f"1 s at 10 Mbit/s: P99 of lateness {late:.0f} us, allowed: {allowed:.0f} us"
    return Check("trial", found, invalid[0] if invalid else "", needed=False)
