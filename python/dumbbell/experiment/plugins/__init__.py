"""Queue disciplines and congestion controls of somebody else: shared libraries, or classes in Python.

An experiment names one by its file, `aqm = { plugin = "./libmine.so", limit = 100 }`. Its content is what counts: a
copy of the file is kept under the hash of its content, and that hash is part of the run's configuration and so of its
key. Its code runs in processes of its own (`process`), and only if the user trusts the folder in which it lies
(`trust`).
"""

from dumbbell.experiment.plugins.known import (
    Known,
    find_algorithm,
    find_plugins,
    get_known,
    list_copies,
    name_algorithm,
    read,
    refuse,
    replace_plugins,
)

__all__ = [
    "Known",
    "find_algorithm",
    "find_plugins",
    "get_known",
    "list_copies",
    "name_algorithm",
    "read",
    "refuse",
    "replace_plugins",
]
