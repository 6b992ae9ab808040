"""`dumbbell doctor`: what is there, what is missing, and how to fix it."""

import errno
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dumbbell import _native
from dumbbell.cli import doctor
from dumbbell.engines.linux import checks, kernels
from dumbbell.engines.live import live_checks
from dumbbell.engines.needs import Check
from dumbbell.errors import InputError

SAID = 'dumbbell-trial {"release": "9.9.1", "controls": ["reno"], "random": "00"}'


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any tool and kernel; its programs go into the folder that is returned."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("DUMBBELL_LINUX", str(tmp_path / "kernels"))
    monkeypatch.setattr(
        checks, "_find_program", lambda name: str(programs / name) if (programs / name).exists() else None
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return programs


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder / name


def kernel(script: str, name: str = "default") -> None:
    place = kernels.find_home() / name
    program(place, "linux", script)
    (place / "kernel.json").write_text(
        '{"release": "9.9.1", "digest": "0", "seeded": true, "congestion_controls": [], "qdiscs": []}'
    )


def found() -> dict[str, Check]:
    return {check.what: check for check in checks.run_checks()}


@pytest.mark.usefixtures("bare")
def test_a_bare_machine_is_told_what_to_install() -> None:
    checks = found()
    assert checks["kernels"].remedy == "dumbbell linux build"
    assert checks["iproute2"].remedy == "apt-get install iproute2"
    assert checks["compiler"].remedy == "sudo apt-get install gcc"
    assert checks["build tools"].remedy == "sudo apt-get install gcc make flex bison bc patch xz-utils tar"
    assert checks["kernel source"].remedy == "give a kernel's sources by --tree PATH"
    assert {checks[what].state for what in ("kernels", "iproute2", "compiler", "build tools", "kernel source")} == {
        "missing"
    }


@pytest.mark.usefixtures("bare")
def test_who_has_a_kernel_need_not_build_one() -> None:
    kernel(f"echo '{SAID}'")
    checks = found()
    assert checks["kernel default"].found.startswith("Linux 9.9.1 boots in")
    assert (checks["build tools"].state, checks["kernel source"].state) == ("optional", "optional")
    kernel(f"echo '{SAID}'", "mine")
    assert checks["kernels"].state == found()["kernels"].state == "ok"
    assert found()["kernels"].found == "default, mine"


@pytest.mark.usefixtures("bare")
def test_a_kernel_of_another_name_is_named() -> None:
    kernel(f"echo '{SAID}'", "mine")
    check = found()["kernels"]
    assert (check.state, check.remedy.split(",")[0]) == ("optional", "--engine linux:mine")


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo one; echo 'ptrace: Operation not permitted'; exit 1", "ptrace: Operation not permitted"),
        ("echo Kernel panic - not syncing: no init; kill -6 $$", "Kernel panic - not syncing: no init"),
        ("exit 3", "exit status 3"),
    ],
)
def test_a_kernel_that_does_not_boot_says_why(script: str, said: str) -> None:
    kernel(script)
    check = found()["kernel default"]
    assert (check.state, check.found) == ("missing", said)
    assert "ptrace" in check.remedy


def test_old_and_new_iproute(bare: Path) -> None:
    program(bare, "ip", "")
    program(bare, "tc", 'case "$1" in -V) echo "tc utility, iproute2-9";; *) echo "Object is unknown";; esac')
    assert found()["iproute2"].found == "a tc without JSON"
    program(bare, "tc", 'case "$1" in -V) echo "tc utility, iproute2-9";; *) echo "[]";; esac')
    assert found()["iproute2"] == Check("iproute2", "iproute2-9")


def test_namespaces_that_are_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "unshare", "echo 'unshare: write failed /proc/self/uid_map: Operation not permitted' >&2; exit 1")
    check = found()["namespaces"]
    assert "uid_map" in check.found
    assert "sysctl" in check.remedy
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "SYS_ADMIN" in found()["namespaces"].remedy
    program(bare, "unshare", "exit 0")
    assert found()["namespaces"] == Check("namespaces", "root")


def test_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SHARED_MEMORY", tmp_path / "nowhere")
    assert "mount -t tmpfs" in checks._check_shared_memory().remedy
    monkeypatch.setattr(checks, "SHARED_MEMORY", tmp_path)
    assert "runs at a time" in checks._check_shared_memory().found
    monkeypatch.setattr(checks, "CELL_BYTES", 1 << 62)
    assert "--shm-size" in checks._check_shared_memory().remedy


needs_live = pytest.mark.skipif(not hasattr(_native, "live_run"), reason="live runs need Linux")
ALL_WELL: dict[str, Any] = {
    "permission": "to this user",
    "namespace": None,
    "packets": None,
    "veth": [],
    "controls": ["reno", "cubic", "dctcp", "bbr"],
    "clock": 50e-9,
    "real time": None,
    "overslept": [10e-6] * 247 + [90e-6] * 3,
}


def judged(said: dict[str, Any] | None = None, machine: Path | None = None) -> dict[str, Check]:
    with pytest.MonkeyPatch.context() as patch:
        if machine:
            patch.setattr(live_checks, "_PROC", machine / "proc")
            patch.setattr(live_checks, "_SYS", machine / "sys")
            patch.setattr(live_checks, "_MODULES", machine / "modules")
        patch.setattr(live_checks, "_AWAKE", machine / "awake" if machine else Path(os.devnull))
        return {check.what: check for check in live_checks.judge_probe(ALL_WELL | (said or {}))}


def error(number: int) -> dict[str, Any]:
    return {"error": os.strerror(number), "number": number}


def sysctl(machine: Path, name: str, value: str) -> None:
    place = machine / "proc" / name.replace(".", "/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(value + "\n")


@pytest.mark.slow
@needs_live
def test_the_live_engine_is_tried_on_this_machine() -> None:
    checks = {check.what: check for check in live_checks.run_checks()}
    assert next(iter(checks)) == "namespaces"
    if checks["namespaces"].state == "missing":
        assert set(checks) == {"namespaces", "clock", "real-time priority", "timer", "idle cores", "cores", "load"}
        pytest.skip(f"{checks['namespaces'].found}: the rest cannot be tried")
    assert [*checks] == [
        "namespaces", "packet sockets", "veth", "congestion controls", "clock", "real-time priority", "timer",
        "idle cores", "cores", "load", "trial",
    ]  # fmt: skip
    assert "reno" in checks["congestion controls"].found
    lateness = re.search(r"P99 of lateness (\d+) us, allowed: 500 us", checks["trial"].found)  # a tenth of CoDel's 5 ms
    assert lateness and (int(lateness[1]) <= 500 or checks["trial"].remedy)


def test_where_all_is_well_there_is_nothing_to_do() -> None:
    checks = judged()
    assert {check.state for check in checks.values()} == {"ok"}
    assert checks["timer"].found == "sleeps last 10 us too long, 1 % of them more than 90 us"


def test_cores_that_sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(machine=tmp_path)["idle cores"].found == f"may sleep: there is no {tmp_path / 'awake'}"
    (tmp_path / "awake").touch()
    assert judged(machine=tmp_path)["idle cores"] == Check("idle cores", "are kept awake during a run")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write whatever the mode says
    assert judged(machine=tmp_path)["idle cores"].remedy == f"as root: chmod o+w {tmp_path / 'awake'}"
    assert judged(machine=tmp_path)["idle cores"].state == "optional"


@pytest.mark.parametrize(
    ("name", "value", "root", "remedy"),
    [
        ("user.max_user_namespaces", "0", False, "as root: sysctl user.max_user_namespaces=10000"),
        ("user.max_net_namespaces", "0", True, "as root: sysctl user.max_net_namespaces=10000"),
        ("user.max_net_namespaces", "5", True, "in a container: docker run"),
        ("kernel.unprivileged_userns_clone", "0", False, "as root: sysctl kernel.unprivileged_userns_clone=1"),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
            False,
            "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel.apparmor_restrict_unprivileged_userns", "0", False, "root; in a container: docker run"),
    ],
)
def test_what_forbids_namespaces_is_named(
    name: str, value: str, root: bool, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysctl(tmp_path, name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    refused = {"error": "found no permission for network namespaces (no), allowed: root, or others"}
    checks = judged({"permission": refused}, tmp_path)
    assert checks["namespaces"].found == "no permission for network namespaces (no)"
    assert checks["namespaces"].remedy.startswith(remedy)
    assert checks["namespaces"].state == "missing" and "veth" not in checks


def test_a_right_and_a_module_are_different_remedies() -> None:
    for what, key in (("packet sockets", "packets"), ("veth", "veth")):
        assert "NET_ADMIN" in judged({key: error(errno.EPERM)})[what].remedy
        lacking = judged({key: error(errno.EOPNOTSUPP)})[what]
        assert (lacking.state, lacking.remedy) == (
            "missing",
            f"as root: modprobe {'veth' if key == 'veth' else 'af_packet'}",
        )
    assert judged({"veth": ["gro"]})["veth"].found == "offloads that cannot be switched off: gro"


def test_congestion_controls_are_loaded_allowed_or_built(tmp_path: Path) -> None:
    sysctl(tmp_path, "net.ipv4.tcp_available_congestion_control", "reno cubic")
    module = tmp_path / "modules" / os.uname().release / "kernel/net/ipv4/tcp_dctcp.ko.xz"
    module.parent.mkdir(parents=True)
    module.touch()
    check = judged({"controls": ["reno"]}, tmp_path)["congestion controls"]
    assert check.found == "reno; not cubic, dctcp, bbr"
    assert check.remedy == (
        "as root: modprobe -a tcp_dctcp; as root: sysctl net.ipv4.tcp_allowed_congestion_control='reno cubic';"
        " a kernel with CONFIG_TCP_CONG_BBR"
    )
    assert check.state == "optional"


def test_slow_clocks_and_late_timers(tmp_path: Path) -> None:
    place = tmp_path / "sys/devices/system/clocksource/clocksource0"
    place.mkdir(parents=True)
    (place / "current_clocksource").write_text("hpet\n")
    (place / "available_clocksource").write_text("kvm-clock hpet acpi_pm\n")
    check = judged({"clock": 1.5e-6}, tmp_path)["clock"]
    assert (check.found, check.state) == ("hpet, 1500 ns to read", "optional")
    assert check.remedy == f"as root: echo kvm-clock > {place}/current_clocksource"
    assert judged({"overslept": [10e-6] * 247 + [101e-6] * 3})["timer"].state == "optional"
    assert judged({"real time": error(errno.EPERM)})["real-time priority"].state == "optional"


def test_a_probe_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_checks, "_native", SimpleNamespace(live_run=None, __file__=str(tmp_path / "none.so")))
    (check,) = live_checks.run_checks()
    assert (check.state, check.what) == ("missing", "namespaces")
    assert "none.so" in check.found


def test_the_simulator_works_and_decides_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor("sim")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sim: works"
    assert "1 s of one flow" in lines[1]
    with pytest.raises(InputError, match=r"unknown engine simm; did you mean sim. Choose from sim, linux, live"):
        doctor.doctor("simm")


def test_a_missing_thing_is_in_the_first_line() -> None:
    text = doctor.format_checks(
        {"x": [Check("a", "b"), Check("long", "none", "get it"), Check("c", "d", "e", needed=False)]}
    )
    assert text.splitlines() == [
        "x: does not work yet: long",
        "  ok        a     b",
        "  missing   long  none",
        "                  -> get it",
        "  optional  c     d",
        "                  -> e",
    ]
