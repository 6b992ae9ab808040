"""Lines of shell that call `dumbbell`, parsed as the command line parses them, but not carried out."""

import functools
import re
import shlex
from typing import Any

import typer

from dumbbell.cli.command_table import RETIRED_COMMANDS
from dumbbell.cli.commands import make_program

PROGRAM = re.compile(r"(?:[\w$(){}./-]*/)?dumbbell$")
_NUMBER = {"N": "1", "X": "1", "POINTS": "8", "SECONDS": "1"}  # placeholders of numbers
_ENDS = ("|", ">", ">>", "2>", "2>&1", "&&", "||", ";", "&", "<")


@functools.cache
def program() -> Any:
    """Return the whole command line."""
    return make_program()


def command_names(group: str = "") -> set[str]:
    """Return the commands of `dumbbell`, or those of one of its groups."""
    found = program().commands[group] if group else program()
    return set(getattr(found, "commands", ()))


def find_commands(line: str) -> list[list[str]]:
    """Return the words after `dumbbell` of every call in a line of shell, up to a pipe or the end of the command."""
    spaced = re.sub(r"\$\((.*?)\)", r"\1", line)
    try:
        words = shlex.split(spaced, comments=True)
    except ValueError:
        words = spaced.split()
    if len(words) == 2 and words[0] == "eval":
        words = words[1].split()
    calls: list[list[str]] = []
    inside = False
    for word in words:
        if PROGRAM.search(word):
            calls.append([])
            inside = True
        elif word in _ENDS:
            inside = False
        elif inside:
            calls[-1].append(word.rstrip(";"))
    return calls


def expand(words: list[str]) -> list[str]:
    """Return a synopsis as a command with all its options: of `a|b` the first, without brackets and ellipses."""
    text = " ".join(words).replace("…", "").replace("...", "")
    text = re.sub(r"\[([-\w|. ]*)\s\|\s([^]]*)\]", r"\1", text)  # [--a X | --b Y]
    found = []
    for word in re.sub(r"(?<![\w*\]])\[|\](?=\s|$|\])", " ", text).split():
        first = word if "=" in word or "'" in word else word.split("|")[0]
        if first:
            found.append(_NUMBER.get(first, first))
    return found


def parse(words: list[str]) -> None:
    """Parse words after `dumbbell`. Raises ValueError if a command or option does not exist, or an argument lacks."""
    former = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in RETIRED_COMMANDS), None)
    if former:
        raise ValueError(f"{former} is now {RETIRED_COMMANDS[former]}")
    command, context = program(), None
    try:
        while True:
            context = command.make_context(command.name or "dumbbell", words, parent=context)
            if not hasattr(command, "commands"):
                return
            _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    except typer.Exit:  # --help and --version
        return
    except typer.TyperException as error:
        raise ValueError(error.format_message()) from None


def find_error(words: list[str]) -> str:
    """Return what is wrong with words after `dumbbell`, as they are and as a synopsis; "" if one parses."""
    error = ""
    for form in (words, expand(words)):
        try:
            parse(form)
        except ValueError as wrong:
            error = str(wrong)
        else:
            return ""
    return error
