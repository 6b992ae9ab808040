"""The table of commands, and how typer makes the command line of it.

A command NAME is the function, or the group of commands, NAME in the file NAME.py. Its help begins with its line here
and goes on with the docstring of the function.
"""

import importlib
import inspect
import keyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dumbbell.cli.status import LineError, format_version
from dumbbell.errors import escape_line

COMMANDS = {
    "run": "Run experiments; what the results file has already is not run again.",
    "list": "List queue disciplines, congestion controls, stages of paths, links and experiments that come with "
    "dumbbell.",
    "describe": "Say what a key, table or algorithm of experiment files takes, or what a column of the results is.",
    "schema": "Print the JSON Schema of experiment files, for editors.",
    "table": "Print means over seeds with their intervals: any key by any other, all keys that differ.",
    "plot": "Draw what suits the results, or what is asked for: lines, bars, distributions, heat maps, time series.",
    "report": "Write a page with all that results say: findings, figures, tables, and the runs behind every cell.",
    "diff": "Print what differs between two results, surest and largest first; or, with --packets, where two runs "
    "part.",
    "compare": "Print results against published ones, or two engines' side by side, cell by cell, with errors and "
    "scores.",
    "paper": "Print a paper's results as tables and, with -o, draw its figures: those that there are runs for.",
    "claims": "Print whether a paper's claims hold in results, with values and intervals.",
    "export": "Write every table of the results as CSV or Parquet, or runs for Flent; files that exist are not written "
    "over.",
    "import": "Read what other tools measured into results, next to simulations of the same set-up.",
    "explain": "Say what happened in one run, in sentences made from its events.",
    "check": "Judge congestion controls and QUIC stacks by suites of test cases.",
    "doctor": "Say what each engine needs, what is missing on this machine, and how to fix it.",
    "shell": "Run a shell or a command behind the bottleneck of an experiment file, both directions through it.",
    "watch": "Show a run as it goes, a stored run again, or a running dumbbell shell in another terminal.",
    "linux": "Build, list and remove kernels that run as processes on a virtual clock.",
    "plugin": "Write, test and trust queue disciplines, congestion controls and stacks of your own.",
    "stack": "Build, list and remove QUIC stacks that run in virtual time.",
    "trace": "Run one cell of an experiment and write its packets, as tcpdump would have seen them.",
    "qlog": "Write runs as qlog, and draw qlog files.",
    "study": "Studies: experiments, a page and figures.",
    "completion": "Print a script for bash, zsh or fish that completes commands, options, experiments and columns.",
}


class CommandGroup(TyperGroup):
    """A command that has commands; without one it prints its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command, or those of `--help` if there are none."""
        return super().parse_args(ctx, args or ["--help"])


def load_command(name: str) -> Any:
    """Import one command: a function or a Typer."""
    own = f"{name}_" if keyword.iskeyword(name) or name == "list" else name
    return getattr(importlib.import_module(f"dumbbell.cli.{own}"), own)


def make_program(*names: str, listing: bool = False) -> typer.Typer:
    """Return the command line with the commands `names`, or with all.

    With `listing`, commands are only listed: the help shows them all, and nothing is imported for it.
    """
    app = typer.Typer(
        cls=CommandGroup,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="A laboratory for congestion control and active queue management.",
    )
    app.callback()(_set_options)
    for name in names or COMMANDS:
        line = COMMANDS[name]
        command = _do_nothing if listing else load_command(name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, help=line)
        else:
            app.command(name, help="\n\n".join(filter(None, [line, inspect.getdoc(command)])))(command)
    return app


def carry_out(words: list[str]) -> int:
    """Carry out the command that `words` are and return its exit status; raises LineError if there is none."""
    if words[0] == "--":
        words = words[1:] or ["--help"]
    app = make_program(words[0]) if words[0] in COMMANDS else make_program(listing=True)
    try:
        status: int = app(words, standalone_mode=False, prog_name="dumbbell")
    except typer.TyperException as error:
        raise LineError(escape_line(error.format_message())) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return status


def _do_nothing() -> None: ...


def _print_version(wanted: bool) -> None:
    if wanted:
        print(format_version())
        raise typer.Exit


def _set_options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and leave.")
    ] = False,
) -> None:
    from dumbbell import scratch

    scratch.clear_leftovers()
