"""The command line reference, from the commands themselves, in the groups of `dumbbell --help`."""

from collections.abc import Iterator
from typing import Any

from dumbbell.cli.command_table import COMMANDS, GROUPS
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

    walk(make_program(), ())
    return found


def _make_section(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=f"dumbbell {name}")
    yield f"### dumbbell {name}"
    yield (command.help or "").replace("<", "&lt;").strip()  # what looks like HTML is text
    usage = command.get_usage(context).removeprefix("Usage: ").split()
    yield f"```text\n{' '.join(usage)}\n```"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    options = format_table(["", "meaning"], [[format_code(said[0]), escape_cell(said[1])] for said in records if said])
    yield f'<div class="columns" markdown="1">\n\n{options}\n\n</div>'
    yield "Example:"
    yield f"```sh\n{COMMANDS[name].example}\n```"


def make_page() -> str:
    """Return what follows the introduction of the page."""
    commands = list_commands()
    parts: list[str] = []
    for group, names in GROUPS.items():
        parts.append(f"## {group}")
        for name, command in commands.items():
            if name.split()[0] in names:
                parts += _make_section(name, command)
    return join_paragraphs(parts)
