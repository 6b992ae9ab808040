"""The command line reference, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer

from dumbbell.cli.commands import make_program
from website.markdown import escape_cell, format_code, format_table, join_paragraphs


def list_commands() -> dict[str, Any]:
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


def _make_section(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=f"dumbbell {name}")
    yield f"## dumbbell {name}"
    yield (command.help or "").replace("<", "&lt;").strip()  # what looks like HTML is text
    usage = command.get_usage(context).removeprefix("Usage: ").split()
    yield f"```text\n{' '.join(usage)}\n```"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    yield format_table(["", "meaning"], [[format_code(said[0]), escape_cell(said[1])] for said in records if said])


def make_page() -> str:
    """Return what follows the introduction of the page."""
    return join_paragraphs(part for name, command in list_commands().items() for part in _make_section(name, command))
