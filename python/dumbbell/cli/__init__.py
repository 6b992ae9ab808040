"""The command `dumbbell`.

`program` starts and ends the process, `commands` is the table of commands, and every command has a file of its name.
`results_files`, `run_options` and `check_output` hold what several commands share.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import names_of

if TYPE_CHECKING:
    from dumbbell.cli.program import main as main
else:
    __getattr__ = names_of(__name__, {"main": "program"})
