"""The command `dumbbell`.

`program` finds the command and says how it ended; `run` runs experiments, `known` lists what there is, `read` reads
results, and every further command has a file.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import names_of

if TYPE_CHECKING:
    from dumbbell.cli.program import main as main
else:
    __getattr__ = names_of(__name__, {"main": "program"})
