"""The process of a `dumbbell shell`: it has the namespaces and the programs in them, and they end with it.

Its arguments are the file of the extension module, two descriptors, and the command. From the first descriptor it reads
lines: a job (JSON), `go`, and `end SIGNAL`; when it is closed, everything ends at once. To the second it says `ready`,
at the end `done STATUS SERVERS LENGTH LENGTH` and what was measured on the way up and down, or `failed KIND TEXT`.
A program that connects to its socket gets the same reports. It imports nothing but the extension: a process with
several threads gets no user namespace.
"""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any

LOOK_S = 0.1  # between two reports to a watcher
_KINDS = (FileNotFoundError, PermissionError, ChildProcessError, OSError, ValueError, RuntimeError)


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write_text(out: int, text: str, *parts: bytes) -> None:
    with os.fdopen(out, "wb", closefd=False) as output:
        output.write(text.encode(errors="replace") + b"\n")
        for part in parts:
            output.write(part)


def _follow_orders(native: Any, orders: Any, shell: Any) -> None:
    """End with the process that started this, or end the command when that is asked for."""
    for line in orders:
        word, _, rest = line.partition(" ")
        if word == "end":
            shell.end(int(rest))
    native.end_descendants(0.0)
    os._exit(1)


def _serve(about: dict[str, Any], shell: Any) -> None:
    """Tell watchers what there is to see: an abstract socket (unix(7)), of which nothing is left when we are gone."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(f"\0dumbbell-{os.getuid()}-{about['pid']}")
        server.listen()
        while True:
            watcher, _ = server.accept()
            threading.Thread(target=_write_watcher, args=(watcher, about, shell), daemon=True).start()


def _write_watcher(watcher: socket.socket, about: dict[str, Any], shell: Any) -> None:
    with contextlib.suppress(OSError), watcher:
        credentials = watcher.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] not in (0, os.getuid()):
            return
        watcher.settimeout(10)
        watcher.sendall(json.dumps(about).encode() + b"\n")
        while True:
            if (seen := shell.view()) != "null":
                watcher.sendall(seen.encode() + b"\n")
            time.sleep(LOOK_S)


def _ignore_terminal_signals() -> None:
    """Signals of the terminal go to the whole process group: they are meant for the command, which has its own way."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            # not SIG_IGN, which the command would inherit
            signal.signal(number, lambda *_: None)


def run_session() -> None:
    """Carry out one session."""
    native, orders_fd, out = _load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for descriptor in (orders_fd, out):
        os.set_inheritable(descriptor, False)
    _ignore_terminal_signals()
    orders = os.fdopen(orders_fd, "r")
    job = json.loads(orders.readline() or "null")
    if job is None:
        return
    try:
        native.live_permission()
        files = [tuple(one) for one in job["files"]]
        options = {"way_out": job["way_out"], "resolver": job["resolver"]}
        shell = native.Shell(job["up"], job["down"], job["servers"], files, **options)
        _write_text(out, "ready")
        if orders.readline() != "go\n":
            return
        threading.Thread(target=_follow_orders, args=(native, orders, shell), daemon=True).start()
        threading.Thread(target=_serve, args=(job["about"], shell), daemon=True).start()
        status, up, down, servers = shell.run(sys.argv[4:])
    except _KINDS as error:
        kind = next(kind for kind in _KINDS if isinstance(error, kind))
        _write_text(out, f"failed {kind.__name__} {error}")
        return
    except native.Interrupted:
        _write_text(out, "failed Interrupted cancelled")
        return
    results = [up.to_bytes(), down.to_bytes()]
    ended = json.dumps(servers, separators=(",", ":"))
    _write_text(out, f"done {status} {ended} {' '.join(str(len(result)) for result in results)}", *results)


if __name__ == "__main__":
    run_session()
