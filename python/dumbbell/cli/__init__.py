"""The command `dumbbell`.

`program` starts and ends the process, `commands` is the table of commands, and every command has a file of its name.
`results_files`, `run_options` and `evaluate_options` hold what several commands share.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.cli.program import main as main
else:
    __getattr__ = import_lazily(__name__, {"main": "program"})
