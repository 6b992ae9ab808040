"""`dumbbell doctor`: what is there, what is missing, and how to mend it."""

import os
from pathlib import Path

import pytest

from dumbbell import doctor
from dumbbell.doctor import Check
from dumbbell.errors import InputError
from dumbbell.linux import kernels

SAID = 'dumbbell-trial {"release": "9.9.1", "controls": ["reno"], "random": "00"}'


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any tool and kernel; its programs go into the folder that is returned."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("DUMBBELL_LINUX", str(tmp_path / "kernels"))
    monkeypatch.setattr(doctor, "_program", lambda name: str(programs / name) if (programs / name).exists() else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return programs


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder / name


def kernel(script: str, name: str = "default") -> None:
    place = kernels.home() / name
    program(place, "linux", script)
    (place / "kernel.json").write_text(
        '{"release": "9.9.1", "digest": "0", "seeded": true, "congestion_controls": [], "qdiscs": []}'
    )


def found() -> dict[str, Check]:
    return {check.what: check for check in doctor.linux()}


@pytest.mark.usefixtures("bare")
def test_a_bare_machine_is_told_what_to_install() -> None:
    checks = found()
    assert checks["kernels"].remedy == "dumbbell linux build"
    assert checks["iproute2"].remedy == "apt-get install iproute2"
    assert checks["compiler"].remedy == "sudo apt-get install gcc"
    assert checks["build tools"].remedy == "sudo apt-get install gcc make flex bison bc patch xz-utils tar"
    assert checks["kernel source"].remedy == "a kernel's sources by --tree PATH"
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
    monkeypatch.setattr(doctor, "_SHARED_MEMORY", tmp_path / "nowhere")
    assert "mount -t tmpfs" in doctor._shared_memory().remedy
    monkeypatch.setattr(doctor, "_SHARED_MEMORY", tmp_path)
    assert "runs at a time" in doctor._shared_memory().found
    monkeypatch.setattr(doctor, "CELL_BYTES", 1 << 62)
    assert "--shm-size" in doctor._shared_memory().remedy


def test_the_simulator_works_and_decides_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor("sim")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sim: works"
    assert "1 s of one flow" in lines[1]
    with pytest.raises(InputError, match="found simm, allowed: sim, linux"):
        doctor.doctor("simm")


def test_a_missing_thing_is_in_the_first_line() -> None:
    text = doctor.table({"x": [Check("a", "b"), Check("long", "none", "get it"), Check("c", "d", "e", needed=False)]})
    assert text.splitlines() == [
        "x: does not work yet: long",
        "  ok        a     b",
        "  missing   long  none",
        "                  -> get it",
        "  optional  c     d",
        "                  -> e",
    ]
