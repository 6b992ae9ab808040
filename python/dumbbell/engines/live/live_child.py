"""The process in which a live run is carried out; it has what is in its network namespaces, and they end with it.

Its arguments are the file of the extension module and perhaps a folder for the headers of all frames. On standard input
it gets the configuration, one line of JSON; when that input is closed it ends at once. On standard output it says
`progress NS` from time to time and at the end `done LENGTH` and the result, or `failed KIND TEXT`. It imports nothing
but the extension: a process with several threads gets no user namespace.
"""

import importlib.util
import os
import sys
import threading
from typing import Any

REPORT_S = 0.2  # between two reports of progress


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _end_with_input() -> None:
    """End when the process that started this has closed our input, or is gone."""
    os.read(0, 1)
    os._exit(1)


def _write_text(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def _report(progress: Any, over: threading.Event) -> None:
    while not over.wait(REPORT_S):
        _write_text(f"progress {progress.simulated}")


def _read_line() -> str:
    """Read one line from standard input without consuming what follows."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def carry_out() -> None:
    """Carry out one run."""
    native = _load(sys.argv[1])
    config = _read_line()
    try:
        native.live_permission()
        progress = native.Progress()
        threading.Thread(target=_end_with_input, daemon=True).start()
        over = threading.Event()
        reporter = threading.Thread(target=_report, args=(progress, over), daemon=True)
        reporter.start()
        result = native.live_run(config, native.Cancel(), progress, *sys.argv[2:]).to_bytes()
        over.set()
        reporter.join()  # so that no report is in the middle of the result
    except (OSError, RuntimeError, ValueError) as error:
        _write_text(f"failed {type(error).__name__} {error}")
        return
    _write_text(f"done {len(result)}")
    with os.fdopen(1, "wb", closefd=False) as output:
        output.write(result)


if __name__ == "__main__":
    carry_out()
