"""The command `dumbbell`.

`program` runs experiments and lists what there is, `read` reads results; every further command has a file.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import names_of

if TYPE_CHECKING:
    from dumbbell.cli.program import app as app
    from dumbbell.cli.program import main as main
else:
    __getattr__ = names_of(
        __name__,
        {"app": "program", "main": "program"},
    )
