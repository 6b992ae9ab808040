"""How typer makes the command line of the table of commands.

A command NAME is the function, or the group of commands, NAME in the file NAME.py. Its help begins with its summary in
the table, goes on with the docstring of the function, and ends with its example.
"""

import importlib
import inspect
import keyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dumbbell.cli.command_table import COMMANDS, DESCRIPTION, EXAMPLE, GROUPS, RETIRED_COMMANDS, RETIRED_OPTIONS
from dumbbell.cli.status import LineError, format_version
from dumbbell.errors import escape_line

TOP_LEVEL = tuple(name for names in GROUPS.values() for name in names)


class CommandGroup(TyperGroup):
    """A command that has commands; without one it prints its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command, or those of `--help` if there are none."""
        return super().parse_args(ctx, args or ["--help"])


class _Program(CommandGroup):
    """The command `dumbbell`, whose help shows its commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, which stand above the options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the groups of commands, and the options below them."""
        width = max(map(len, TOP_LEVEL))
        for group, names in GROUPS.items():
            formatter.write(f"\n{group}:\n")
            formatter.write("".join(f"  {name:{width}}  {COMMANDS[name].summary}\n" for name in names))
        super().format_options(ctx, formatter)


def load_command(name: str) -> Any:
    """Import one command: a function or a Typer."""
    own = f"{name}_" if keyword.iskeyword(name) or name == "list" else name
    return getattr(importlib.import_module(f"dumbbell.cli.{own}"), own)


def make_program(*names: str, listing: bool = False) -> Any:
    """Return the command line with the commands `names`, or with all.

    With `listing`, commands are only listed: the help shows them all, and nothing is imported for it.
    """
    app = typer.Typer(
        cls=_Program,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help=DESCRIPTION,
    )
    app.callback()(_set_options)
    for name in names or TOP_LEVEL:
        command = _do_nothing if listing else load_command(name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    program: Any = typer.main.get_command(app)
    _set_example(program, EXAMPLE)
    if not listing:
        _add_help(program, "")
    return program


def _add_help(group: Any, prefix: str) -> None:
    """Give the commands of a group their summaries and examples."""
    for name, command in group.commands.items():
        entry = COMMANDS[f"{prefix}{name}"]
        command.short_help = entry.summary
        command.help = "\n\n".join(filter(None, [entry.summary, inspect.getdoc(command.callback)]))
        _set_example(command, entry.example)
        _name_values(command)
        if hasattr(command, "commands"):
            command.help = entry.summary  # a group has no docstring of its own
            _add_help(command, f"{prefix}{name} ")


def _name_values(command: Any) -> None:
    """Show arguments as `FILE` and `[FILE]`, and options of a few words as `text|csv`, where typer has brackets."""
    for param in command.params:
        if param.param_type_name == "argument":
            param.make_metavar = lambda *_, metavar=param.metavar, **__: metavar
        elif choices := getattr(param.type, "choices", None):
            param.metavar = "|".join(choices)


def _set_example(command: Any, example: str) -> None:
    """Let the help of a command end with an example, whose lines are left as they are."""
    lines = "".join(f"  {line}\n" for line in example.splitlines())
    command.format_epilog = lambda _, formatter: formatter.write(f"\nExample:\n{lines}")


def carry_out(words: list[str]) -> int:
    """Carry out the command that `words` are and return its exit status; raises LineError if there is none."""
    if words[0] == "--":
        words = words[1:] or ["--help"]
    _refuse_retired_command(words)
    program = make_program(words[0]) if words[0] in TOP_LEVEL else make_program(listing=True)
    try:
        status: int = program(words, standalone_mode=False, prog_name="dumbbell")
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "dumbbell"
        said = escape_line(error.format_message()).rstrip(".")
        raise LineError(_name_replacement(error) or f"{said}; see {where} --help") from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return status


def _refuse_retired_command(words: list[str]) -> None:
    """Raise LineError, with the command to use instead, if words begin with a command of former versions."""
    for length in (2, 1):
        former = " ".join(words[:length])
        if replacement := RETIRED_COMMANDS.get(former):
            raise LineError(f"{former} is now dumbbell {replacement}")


def _name_replacement(error: Any) -> str:
    """Return what to use instead of an option of former versions, if its replacement is one of the same command."""
    option = getattr(error, "option_name", "")
    replacement = RETIRED_OPTIONS.get(option, "")
    known = {name for param in error.ctx.command.params for name in param.opts} if replacement else set()
    if replacement.partition(" ")[0] in known or (option == "--check" and error.ctx.command.name == "page"):
        return f"{option} is now {replacement}"
    return ""


def _do_nothing() -> None: ...


def _print_version(wanted: bool) -> None:
    if wanted:
        print(format_version())
        raise typer.Exit


def _set_options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    from dumbbell import scratch

    scratch.clear_leftovers()
