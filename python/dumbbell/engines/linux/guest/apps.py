"""Runs the applications of a run in its guest: `python apps.py LIBRARY STARTED`, in the folder of the run.

The library is dumbbell's own, which has the applications of the simulator; only that is loaded, not the package around
it. STARTED is the clock of the system at the start of the run, ns. An error is one line on standard error.
"""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any


def load(library: str) -> Any:
    """Return dumbbell's extension module, from its file."""
    loader = ExtensionFileLoader("dumbbell._native", library)
    spec = spec_from_file_location("dumbbell._native", library, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def main() -> None:
    """Run the applications."""
    library, started = sys.argv[1:]
    try:
        load(library).run_guest_apps(".", int(started))
    except (OSError, ImportError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
