"""Queue disciplines and congestion controls of somebody else: shared libraries, or classes in Python.

An experiment names one by its file, `aqm = { plugin = "./libmine.so", limit = 100 }`. Its content is what counts: a
copy of the file is kept under the hash of its content, and that hash is part of the run's configuration and so of its
key. Its code runs in processes of its own (`process`), and only if the user trusts the folder in which it lies
(`trust`).
"""

from dumbbell.experiment.plugins.known import (
    Known,
    algorithm_of,
    called,
    in_groups,
    of_digest,
    paths,
    plain,
    read,
    refuse,
)

__all__ = ["Known", "algorithm_of", "called", "in_groups", "of_digest", "paths", "plain", "read", "refuse"]
