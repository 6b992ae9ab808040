"""The first boots of a kernel, which show whether it runs here, and draws the same random numbers for the same seed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dumbbell.engines.linux.changes import SEED_VARIABLE
from dumbbell.errors import Failed, escape_line

TIMEOUT_S = 60.0
MEMORY = "128M"
START = 1_700_000_000  # of the guest's clock, seconds since 1970: any fixed time will do
# The guest's only program, by the Python that runs us: it says what the kernel is, and switches it off
# (mount(2); reboot(2) with LINUX_REBOOT_CMD_POWER_OFF).
_INIT = """#!{python} -IS
import ctypes, json, os
call = ctypes.CDLL(None)
call.mount(b"proc", b"/proc", b"proc", 0, None)
with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
    controls = file.read().split()
said = {{"release": os.uname().release, "controls": controls, "random": os.urandom(32).hex()}}
print("\\ndumbbell-trial " + json.dumps(said), flush=True)
call.reboot(0x4321FEDC)
"""


def boot(binary: Path, place: Path, seed: int) -> dict[str, Any]:
    """Boot the kernel `binary` once and return its release, congestion controls, random bytes, and the seconds it took.

    `place` is a folder for its files. Raises InputError if the kernel does not come up.
    """
    place.mkdir(parents=True, exist_ok=True)
    init = place / "init"
    init.write_text(_INIT.format(python=sys.executable), encoding="utf-8")
    init.chmod(0o755)
    began = time.monotonic()
    command = [
        str(binary), f"mem={MEMORY}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}",
        "con=null", "con0=null,fd:1", "quiet", "panic=-1", "ipv6.disable=1",
        "time-travel=inf-cpu", f"time-travel-start={START}", f"uml_dir={place}",
    ]  # fmt: skip
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, SEED_VARIABLE: str(seed)},
    )
    try:
        output = child.communicate(timeout=TIMEOUT_S)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        raise Failed(f"it did not end within {TIMEOUT_S:g} s", "a kernel that boots", file=binary, key="boot") from None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    said = re.search(r"^dumbbell-trial (\{.*\})", output, re.MULTILINE)
    if not said:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        telling = [line for line in lines if re.search(r"(?i)panic|not permitted|denied|fail|error|no space", line)]
        found = escape_line((telling or lines or [f"exit status {child.returncode}"])[0])
        raise Failed(
            found, "a machine that allows ptrace, and room to run programs in /dev/shm", file=binary, key="boot"
        )
    return {**json.loads(said[1]), "seconds": round(time.monotonic() - began, 2)}
