"""QUIC stacks that run in virtual time: how they are built from their sources, and where what is built lies.

`adapter` has the sources of the libraries that are built around a stack: in Rust for quinn and noq, in C for picoquic.
`project` makes a cargo project of them, `tree` reads what a user gives instead of a released version, `build` builds,
`picoquic` builds with cmake, and `built` knows what there is.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import names_of

if TYPE_CHECKING:
    from dumbbell.stacks.built import Built as Built
    from dumbbell.stacks.built import find as find
    from dumbbell.stacks.built import home as home
    from dumbbell.stacks.built import installed as installed
    from dumbbell.stacks.built import library as library
else:
    __getattr__ = names_of(__name__, dict.fromkeys(("Built", "find", "home", "installed", "library"), "built"))
