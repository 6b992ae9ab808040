"""The process in which a run with plugins is written as qlog. It loads the extension module alone.

Its argument is the file of the extension module; what is asked comes as JSON on standard input, and the answer, how
many records there are or why there are none, goes as JSON to what was standard output.
"""

import importlib.util
import json
import os
import sys
from typing import Any


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _plugin(path: str) -> Any:
    return _load("dumbbell_plugin", path).plugin if path.endswith(".py") else path


def main() -> None:
    """Do what is asked."""
    out = os.dup(1)
    os.dup2(2, 1)  # what plugins print
    asked = json.load(sys.stdin)
    try:
        native = _load("_native", sys.argv[1])
        loaded = {name: _plugin(path) for name, path in asked.pop("plugins").items()}
        senders = {int(number): tuple(one) for number, one in asked["senders"].items()}
        network = tuple(asked["network"]) if asked["network"] else None
        result, records = native.run_qlog(
            asked["config"], native.Cancel(), senders, network, old_names=asked["old_names"], plugins=loaded
        )
        answer = {"records": records, "hash": result.hash}
    except Exception as error:  # whatever it is belongs to the plugin
        answer = {"failed": " ".join(str(error).split()) or type(error).__name__}
    os.write(out, json.dumps(answer).encode())
    os._exit(0)  # what a plugin left running does not keep this process


if __name__ == "__main__":
    main()
