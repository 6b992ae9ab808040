"""The process in which plugins are loaded: it does one thing and ends. Whatever their code does, nothing else suffers.

Its arguments are the file of the extension module, what it is to do, and a path. Answers go to the file descriptor that
was standard output; what plugins print goes to standard error.

- `describe PATH`: what the plugin declares, as JSON.
- `try PATH`, with JSON on standard input: it is tried out. It says `doing TEXT` and `progress N` from time to time.
- `run`, with JSON on standard input: a run, and where its plugins lie. It says `progress NS` from time to time.
- `packets` and `qlog`, the same: the run is written as files. The answer is JSON, how many records there are and the
  hash of the results.

The last answer is `done LENGTH` and so many bytes, or `failed TEXT`. When standard input is closed it ends at once.
"""

import contextlib
import importlib.util
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPORT_S = 0.2  # between two reports of progress


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_plugin(path: str) -> Any:
    """Return the plugin at a path: a library as it is, of a program in Python the class that it calls `plugin`."""
    if not path.endswith(".py"):
        return path
    try:
        module = _load("dumbbell_plugin", path)
    except SyntaxError:
        raise  # it says its line itself
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        where = f" (line {lines[-1]})" if lines else ""
        raise RuntimeError(f"{type(error).__name__}: {error}{where}") from None
    found = getattr(module, "plugin", None)
    if not isinstance(found, type):
        raise TypeError("it has no class called plugin; allowed: plugin = NAME of a class")
    return found


def _read_line() -> str:
    """Read one line from standard input without consuming what follows."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def _end_with_input() -> None:
    """End when the process that started this has closed our input, or is gone."""
    os.read(0, 1)
    os._exit(1)


def _answer(native: Any, what: str, path: str, say: Any) -> bytes:
    if what == "describe":
        return bytes(native.describe_plugin(load_plugin(path)), "utf-8")
    asked = json.loads(_read_line())
    threading.Thread(target=_end_with_input, daemon=True).start()
    if what == "try":
        trial = native.Trial()

        def report_progress() -> None:
            say(f"doing {trial.done} {trial.doing}")
            say(f"progress {trial.simulated}")

        with _report_regularly(report_progress):
            return json.dumps(native.try_plugin(load_plugin(path), *asked, trial)).encode()
    if what in ("packets", "qlog"):
        asked["plugins"] = {name: load_plugin(at) for name, at in asked["plugins"].items()}
        count, digest = (_write_packets if what == "packets" else _write_qlog)(native, **asked)
        return json.dumps({"count": count, "hash": digest}).encode()
    progress = native.Progress()
    with _report_regularly(lambda: say(f"progress {progress.simulated}")):
        loaded = {name: load_plugin(at) for name, at in asked["plugins"].items()}
        result: bytes = native.run(asked["config"], native.Cancel(), progress, loaded).to_bytes()
    return result


def _write_packets(native: Any, config: str, output: str, wanted: dict[str, Any], **options: Any) -> tuple[int, str]:
    is_table = output.endswith(".parquet")
    file = None if is_table else Path(output)
    result, count, rows = native.run_packets(config, native.Cancel(), file, **options, **wanted)
    if is_table:
        import polars as pl

        pl.DataFrame(rows).write_parquet(output)
    return count, result.hash


def _write_qlog(
    native: Any, config: str, senders: dict[str, Any], network: list[str] | None, **options: Any
) -> tuple[int, str]:
    of_flows = {int(number): tuple(one) for number, one in senders.items()}
    result, count = native.run_qlog(config, native.Cancel(), of_flows, network and tuple(network), **options)
    return count, result.hash


@contextlib.contextmanager
def _report_regularly(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` from time to time, for as long as the block takes."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(REPORT_S):
            report()

    reporter = threading.Thread(target=repeat, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()  # so that no report is in the middle of the result


def answer_request() -> None:
    """Do what is asked."""
    out = os.dup(1)
    os.dup2(2, 1)

    def write_text(text: str) -> None:
        os.write(out, text.encode() + b"\n")

    try:
        answer = _answer(_load("_native", sys.argv[1]), sys.argv[2], sys.argv[3], write_text)
    except Exception as error:  # whatever it is belongs to the plugin
        write_text(f"failed {' '.join(str(error).split()) or type(error).__name__}")
    else:
        write_text(f"done {len(answer)}")
        with os.fdopen(out, "wb", closefd=False) as output:
            output.write(answer)
    # what the plugin left running does not keep this process
    os._exit(0)


if __name__ == "__main__":
    answer_request()
