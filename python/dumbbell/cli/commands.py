"""Which commands there are, and how typer makes them of their functions."""

import importlib
from typing import Annotated

import typer

from dumbbell.cli.status import LineError
from dumbbell.cli.version import version
from dumbbell.errors import one_line

# Commands in the order of the help, with the module and the function or Typer that each is. Only the module of the
# command that is asked for is imported.
COMMANDS = {
    "run": ("run", "run"),
    "list": ("known", "list_"),
    "describe": ("known", "describe"),
    "schema": ("known", "schema_"),
    "table": ("read", "table"),
    "plot": ("read", "plot"),
    "report": ("report", "report"),
    "diff": ("diff", "diff"),
    "compare": ("read", "compare"),
    "draft": ("read", "draft"),
    "paper": ("read", "paper"),
    "claims": ("read", "claims"),
    "export": ("read", "export"),
    "import": ("exchange", "import_"),
    "explain": ("explain", "explain"),
    "check": ("check", "check"),
    "doctor": ("doctor", "doctor"),
    "shell": ("shell", "shell"),
    "watch": ("watch", "watch"),
    "linux": ("linux", "linux"),
    "plugin": ("plugin", "plugin"),
    "stack": ("stack", "stack"),
    "trace": ("trace", "trace"),
    "qlog": ("qlog", "qlog"),
    "study": ("study", "study"),
    "store": ("store", "store"),
    "completion": ("completion", "completion"),
}


def program(only: str | None = None) -> typer.Typer:
    """Return the command line with all commands, or with one."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="A laboratory for congestion control and active queue management.",
    )
    app.callback()(_options)
    for name in COMMANDS if only is None else (only,):
        module, inside = COMMANDS[name]
        command = getattr(importlib.import_module(f"dumbbell.cli.{module}"), inside)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def carried_out(words: list[str]) -> int:
    """Carry out the command that `words` are and return its exit status; raises LineError if there is none."""
    app = program(words[0] if words[0] in COMMANDS else None)
    try:
        status: int = app(words, standalone_mode=False, prog_name="dumbbell")
    except typer.TyperException as error:
        raise LineError(one_line(error.format_message())) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return status


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version())
        raise typer.Exit


def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and leave.")
    ] = False,
) -> None:
    from dumbbell import scratch

    scratch.clear_leftovers()
