"""From the two rates of an access line to an answer: which queue belongs into the router, and what it costs.

`access` lists the kinds of lines; `home` writes the experiment of a home behind one; `answer` says in sentences what
its runs show; `subscribers` does the same for a list of lines.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.line.answer import LineAnswer as LineAnswer
    from dumbbell.line.answer import answer_line as answer_line
    from dumbbell.line.home import AccessLine as AccessLine
    from dumbbell.line.home import write_experiment as write_experiment
else:
    __getattr__ = import_lazily(
        __name__, {"LineAnswer": "answer", "answer_line": "answer", "AccessLine": "home", "write_experiment": "home"}
    )
