"""QUIC stacks that run in virtual time: how they are built from their sources, and where what is built lies.

`adapter` has the sources of the libraries that are built around a stack: in Rust for quinn and noq, in C for picoquic.
`project` makes a cargo project of them, `tree` reads what a user gives instead of a released version, `build` builds,
`picoquic` builds with cmake. What there is is known to `experiment.plugins.built`, which experiments ask.
"""

from dumbbell.experiment.plugins.built import Built, find, find_home, find_library, list_installed

__all__ = ["Built", "find", "find_home", "find_library", "list_installed"]
