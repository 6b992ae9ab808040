"""Programs next to data, such as `study.py` of a study: loaded from a path, with the other modules of their folder."""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from dumbbell.errors import InputError, Unreadable, one_line


def _package(folder: Path) -> str:
    return f"dumbbell_program_{re.sub(r'[^a-zA-Z0-9]', '_', folder.resolve().name)}"


def load(path: Path) -> ModuleType:
    """Run a program and return it as a module; it may import modules of its folder as `from .other import name`.

    Raises Unreadable if it is not a Python file, or if what it does when it is loaded fails.
    """
    if path.suffix != ".py" or not path.is_file():
        raise Unreadable(str(path), "", "there is no such file", "a program, NAME.py")
    folder, name = path.resolve().parent, _package(path.parent)
    loaded = sys.modules.get(name)
    if loaded is None or list(loaded.__path__) != [str(folder)]:  # another folder of this name
        for one in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[one]
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    sys.modules.pop(f"{name}.{path.stem}", None)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(f"{name}.{path.stem}")
    except InputError:
        raise
    except Exception as error:  # a fault of the program, whatever it is
        said = one_line(f"{type(error).__name__}: {error}")[:200]
        raise Unreadable(str(path), "", f"this program fails: {said}", "a program that can be loaded") from error
