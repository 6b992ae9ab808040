"""The command line reference, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer

from dumbbell.cli.commands import make_program
from website.markdown import cell, code, paragraphs, table


def commands() -> dict[str, Any]:
    """Return every command by the words after `dumbbell`, such as `linux build`; groups are left out."""
    found: dict[str, Any] = {}

    def walk(group: Any, words: tuple[str, ...]) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, (*words, name))
            else:
                found[" ".join((*words, name))] = command

    walk(typer.main.get_command(make_program()), ())
    return found


def _section(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=f"dumbbell {name}")
    yield f"## dumbbell {name}"
    yield cell_free(command.help or "")
    usage = command.get_usage(context).removeprefix("Usage: ").split()
    yield f"```text\n{' '.join(usage)}\n```"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    yield table(["", "meaning"], [[code(said[0]), cell(said[1])] for said in records if said])


def cell_free(text: str) -> str:
    """Return a docstring as paragraphs; what looks like HTML is text."""
    return text.replace("<", "&lt;").strip()


def page() -> str:
    """Return what follows the introduction of the page."""
    return paragraphs(part for name, command in commands().items() for part in _section(name, command))
