"""Manual pages from the command line: `python -m website.man FOLDER` writes dumbbell.1 and a page for each command."""

import re
import sys
from pathlib import Path
from typing import Any

from dumbbell.cli.command_table import COMMANDS, DESCRIPTION, EXAMPLE, GROUPS
from dumbbell.cli.status import format_version
from website.commands import list_commands


def escape(text: str) -> str:
    """Return text for roff: a backslash, a hyphen and a dot or quote at the start of a line have a meaning there."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)


def _format_page(name: str, summary: str, synopsis: str, body: list[str], example: str) -> str:
    lines = [
        f'.TH "{name.upper()}" 1 "" "{format_version()}" "dumbbell"',
        ".SH NAME",
        escape(f"{name} - {summary.rstrip('.')}"),
        ".SH SYNOPSIS",
        escape(synopsis),
        *body,
        ".SH EXAMPLE",
        ".nf",
        escape(example),
        ".fi",
    ]
    return "\n".join(lines) + "\n"


def _format_command(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=f"dumbbell {name}")
    synopsis = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    body = [".SH DESCRIPTION", *(line for part in command.help.split("\n\n") for line in (".PP", escape(part)))]
    for title, kind in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        params = [param for param in command.get_params(context) if param.param_type_name == kind]
        records = [record for param in params if (record := param.get_help_record(context))]
        if records:
            body.append(f".SH {title}")
        for term, meaning in records:
            body += [".TP", f".B {escape(term)}", escape(meaning)]
    entry = COMMANDS[name]
    return _format_page(f"dumbbell-{name.replace(' ', '-')}", entry.summary, synopsis, body, entry.example)


def make_pages() -> dict[str, str]:
    """Return the pages by their files' names."""
    commands = list_commands()
    pages = {
        f"dumbbell-{name.replace(' ', '-')}.1": _format_command(name, command) for name, command in commands.items()
    }
    body = [".SH COMMANDS"]
    for group, names in GROUPS.items():
        body.append(f".SS {group}")
        for name in commands:
            if name.split()[0] in names:
                page = f"dumbbell-{name.replace(' ', '-')}"
                body += [".TP", f".BR {escape(page)} (1)", escape(COMMANDS[name].summary)]
    pages["dumbbell.1"] = _format_page("dumbbell", DESCRIPTION, "dumbbell COMMAND [OPTIONS] ...", body, EXAMPLE)
    return pages


def main() -> None:
    """Write the pages into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in make_pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
