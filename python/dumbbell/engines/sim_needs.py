"""Checks of what the simulator needs of this machine: its extension, which simulates a second, and cores."""

import time
from collections.abc import Iterator

from dumbbell.engines.needs import Check
from dumbbell.errors import escape_line
from dumbbell.processes import count_cores

_TINY = {
    "duration": "1s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}],
}


def run_checks() -> Iterator[Check]:
    """Yield whether a second can be simulated, and how many cores there are."""
    try:
        from dumbbell import _native, experiment

        cell = next(iter(experiment.parse(_TINY, "doctor").make_cells()))
        began = time.perf_counter()
        _native.run(cell.config, _native.Cancel(), _native.Progress())
        took = time.perf_counter() - began
        yield Check("simulator", f"{_native.engine_version()}; 1 s of one flow takes {took * 1e3:.1f} ms")
    except (ImportError, RuntimeError, ValueError) as error:
        yield Check("simulator", escape_line(str(error)), "pip install --force-reinstall dumbbell")
    yield Check("cores", f"{count_cores()}: as many runs at a time")
