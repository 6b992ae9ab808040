"""A program: prints the congestion controls that a stack's library declares, as JSON."""

import ctypes
import json
import sys

ABI = 5


class _Stack(ctypes.Structure):
    _fields_ = (("controls", ctypes.POINTER(ctypes.c_char_p)),)  # what follows is not read


class _Plugin(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("params", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("title", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("param", ctypes.c_void_p),
        ("queue", ctypes.c_void_p),
        ("control", ctypes.c_void_p),
        ("stack", ctypes.POINTER(_Stack)),
    )


def list_controls(path: str) -> list[str]:
    """Return the names, the default first."""
    describe = ctypes.CDLL(path).dumbbell_describe
    describe.restype = ctypes.POINTER(_Plugin)
    plugin = describe().contents
    if plugin.abi != ABI or not plugin.stack:
        raise ValueError("it has another version of the interface, or no stack in it")
    names = []
    for name in plugin.stack.contents.controls:
        if name is None:
            break
        names.append(name.decode())
    return names


if __name__ == "__main__":
    print(json.dumps(list_controls(sys.argv[1])))
