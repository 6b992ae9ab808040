"""The process in which the packets of a run with plugins are written.

Its argument is the file of the extension module; what is asked comes as JSON on standard input, and the answer, how
many packets there are or why there are none, goes as JSON to what was standard output.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
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
        loaded = {name: _plugin(path) for name, path in asked["plugins"].items()}
        output = Path(asked["output"])
        file = None if output.suffix == ".parquet" else output
        result, count, rows = native.run_packets(
            asked["config"], native.Cancel(), file, comment=asked["comment"], plugins=loaded, **asked["wanted"]
        )
        if rows is not None:
            import polars as pl

            pl.DataFrame(rows).write_parquet(output)
        answer = {"packets": count, "hash": result.hash}
    except Exception as error:  # whatever it is belongs to the plugin
        answer = {"failed": " ".join(str(error).split()) or type(error).__name__}
    os.write(out, json.dumps(answer).encode())
    os._exit(0)  # what a plugin left running does not keep this process


if __name__ == "__main__":
    main()
