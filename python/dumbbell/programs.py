"""Programs next to data, such as `study.py` of a study: loaded from a path, with the other modules of their folder."""

import contextlib
import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from dumbbell.errors import InputError, Unreadable, escape_line


def _name_package(folder: Path) -> str:
    return f"dumbbell_program_{re.sub(r'[^a-zA-Z0-9]', '_', folder.resolve().name)}"


def load(path: Path) -> ModuleType:
    """Run a program and return it as a module; it may import modules of its folder as `from .other import name`.

    Raises Unreadable if it is not a Python file, or if what it does when it is loaded fails.
    """
    if path.suffix != ".py" or not path.is_file():
        raise Unreadable("there is no such file", "a program, NAME.py", file=path)
    folder, name = path.resolve().parent, _name_package(path.parent)
    loaded = sys.modules.get(name)
    if loaded is None or list(loaded.__path__) != [str(folder)]:  # another folder of this name
        for one in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[one]
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    sys.modules.pop(f"{name}.{path.stem}", None)
    importlib.invalidate_caches()
    with report_faults(path):
        return importlib.import_module(f"{name}.{path.stem}")


@contextlib.contextmanager
def report_faults(path: Path, told: type[Exception] = InputError) -> Iterator[None]:
    """Report an exception as an error of the program at `path`, with the line of its folder from which it came.

    Those of the kind `told`, and errors of input, say by themselves what is wrong.
    """
    try:
        yield
    except (InputError, told):
        raise
    except Exception as error:  # whatever it is
        said = escape_line(f"{type(error).__name__}: {error}")[:200]
        folder = str(path.resolve().parent)
        own = [one for one in traceback.extract_tb(error.__traceback__) if str(Path(one.filename).parent) == folder]
        where = f"{path.with_name(Path(own[-1].filename).name)}:{own[-1].lineno}" if own else str(path)
        raise Unreadable(f"this program fails: {said}", "a program that ends well", file=where) from error
