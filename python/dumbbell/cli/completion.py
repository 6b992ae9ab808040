"""`dumbbell completion`: a script by which a shell completes commands, options, names of experiments and columns.

The script holds every word itself: completing starts no Python.
"""

import shlex
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from dumbbell.cli import commands, key_reference, list_, results_files
from dumbbell.errors import UnknownName
from dumbbell.experiment import shipped
from dumbbell.plotting.kinds import KINDS
from dumbbell.results import columns, versions

_COLUMNS = ("--rows", "--columns", "--value", "--against", "--by", "--facet", "--mean-over", "--where")


@dataclass
class Command:
    """The words that may follow a command: commands and options, names, or what an option takes; else files."""

    words: list[str]
    names: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)


def completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]) -> None:
    if shell not in _WRITTEN:
        raise UnknownName(shell, among=tuple(_WRITTEN), command="completion", what="shell")
    print(_WRITTEN[shell](list_commands()), end="")


def list_commands() -> dict[str, Command]:
    """Return every command by its words after `dumbbell`; that of none is what follows `dumbbell`.

    Each list of names comes from where these are defined.
    """
    keys = {key.name for group in key_reference.list_groups() for key in group.keys if '"' not in key.name}
    measures = sorted(keys.union(*columns.COLUMNS.values()))
    names = {
        **{name: [*shipped.list_experiments()] for name in ("run", "explain", "watch", "trace", "shell")},
        **{f"study {name}": [*shipped.list_studies()] for name in ("run", "page", "check", "tables", "figure")},
        "list": [*list_.KINDS],
        "describe": key_reference.list_names(),
        "doctor": [one.name for one in versions.list_runners()],
        "completion": [*_WRITTEN],
    }
    takes: dict[str, list[str]] = {
        "--engine": [*versions.KINDS, "all"],
        "--kind": [*KINDS],
        "--of": [*results_files.WHOSE],
        **dict.fromkeys(_COLUMNS, measures),
    }
    found: dict[str, Command] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        inner = getattr(command, "commands", {})
        options = [name for param in command.params if param.param_type_name == "option" for name in param.opts]
        values = {name: takes[name] for name in options if name in takes}
        for param in command.params:
            if choices := getattr(param.type, "choices", None):
                values |= {name: [*choices] for name in param.opts}
        if words in (("run",), ("trace",)) and "--engine" in values:  # what runs experiments, not what results are of
            values["--engine"] = [one.name for one in versions.list_runners()]
        name = " ".join(words)
        found[name] = Command([*inner, *options, "--help"], names.get(name, []), values)
        for one, below in inner.items():
            walk(below, (*words, one))

    walk(commands.make_program(), ())
    return found


def _collect_lists(of: dict[str, Command]) -> dict[str, str]:
    """Return the lists of words that several branches have, with the variables that hold them."""
    lists = [" ".join(words) for command in of.values() for words in (*command.values.values(), command.names) if words]
    several = [text for text in dict.fromkeys(lists) if lists.count(text) > 1]
    return {text: f"words{number}" for number, text in enumerate(several)}


def _write_cases(of: dict[str, Command], indent: str) -> str:
    """Return the branches of a shell's `case` on the command and the word before: they set `found`."""
    shared = _collect_lists(of)

    def quote_words(words: list[str]) -> str:
        text = " ".join(words)
        return f'"${shared[text]}"' if text in shared else shlex.quote(text)

    lines = []
    for name, command in of.items():
        lines += [f"{shlex.quote(f'{name}:{option}')}) found={quote_words(values)} ;;"
                  for option, values in command.values.items()]  # fmt: skip
        names = f"' '{quote_words(command.names)}" if command.names else ""
        lines.append(f"{shlex.quote(f'{name}:')}*) found={quote_words(command.words)}{names} ;;")
    return "\n".join(indent + line for line in lines)


def _write_lists(of: dict[str, Command], indent: str) -> str:
    """Return the variables that branches share."""
    return "\n".join(f"{indent}local {name}={shlex.quote(text)}" for text, name in _collect_lists(of).items())


def _list_groups(of: dict[str, Command]) -> str:
    """Return the commands that have commands, as a pattern of `case`."""
    return "|".join(sorted({name.split()[0] for name in of if " " in name}))


def _write_bash(of: dict[str, Command]) -> str:
    return f"""\
_dumbbell() {{
    local command found word=${{COMP_WORDS[COMP_CWORD]}}
{_write_lists(of, "    ")}
    ((COMP_CWORD > 1)) && command=${{COMP_WORDS[1]}}
    case $command in {_list_groups(of)}) ((COMP_CWORD > 2)) && command+=" ${{COMP_WORDS[2]}}" ;; esac
    case $command:${{COMP_WORDS[COMP_CWORD - 1]}} in
{_write_cases(of, "        ")}
    esac
    COMPREPLY=($(compgen -W "$found" -- "$word"))
}}
complete -o default -o bashdefault -F _dumbbell dumbbell
"""


def _write_zsh(of: dict[str, Command]) -> str:
    return f"""\
#compdef dumbbell
_dumbbell() {{
    local command found
{_write_lists(of, "    ")}
    ((CURRENT > 2)) && command=$words[2]
    case $command in ({_list_groups(of)}) ((CURRENT > 3)) && command+=" $words[3]" ;; esac
    case $command:$words[CURRENT-1] in
{_write_cases(of, "        ")}
    esac
    compadd -- ${{=found}}
    ((CURRENT > 2)) && _files
}}
if [[ $funcstack[1] == _dumbbell ]]; then _dumbbell "$@"; else compdef _dumbbell dumbbell; fi
"""


def _write_fish(of: dict[str, Command]) -> str:
    lines = []
    for name, command in of.items():
        first, _, second = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}" if first else "__fish_use_subcommand"
        if second:
            seen += f"; and __fish_seen_subcommand_from {second}"
        head = f"complete -c dumbbell -n {shlex.quote(seen)}"
        words = [word for word in (*command.words, *command.names) if not word.startswith("-")]
        groups = any(not word.startswith("-") for word in command.words)  # what follows is a command, no file
        if words:
            lines.append(f"{head} {'-f ' if groups else ''}-a {shlex.quote(' '.join(words))}")
        for option in (word for word in command.words if word.startswith("-")):
            kind = "-l" if option.startswith("--") else "-s"
            values = command.values.get(option)
            lines.append(
                f"{head} {kind} {option.lstrip('-')}" + (f" -xa {shlex.quote(' '.join(values))}" if values else "")
            )
    return "\n".join(lines) + "\n"


_WRITTEN = {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}
