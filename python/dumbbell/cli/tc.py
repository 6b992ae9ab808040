"""`dumbbell tc`: from lines of tc(8) to an experiment file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.errors import Conflict, InputError, Unwritable, escape_line

Option = typer.Option


def tc(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="LINE|FILE...",
            help="Lines of tc, - for standard input, a file of commands, /etc/config/sqm, ShapedDevices.csv with "
            "network.json; or one experiment file, whose commands are printed.",
        ),
    ],
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FILE.toml", help="Experiment file. By default, standard output.")
    ] = None,
    rate: Annotated[
        str | None,
        Option("--rate", metavar="RATE", help="Rate of the link, where the lines state none, or behind Cake."),
    ] = None,
    rtt: Annotated[
        str | None, Option("--rtt", metavar="TIME", help="Base RTT, to which delays of netem are added.")
    ] = None,
    chosen_class: Annotated[
        str | None, Option("--class", metavar="CLASS", help="The class of HTB that has the traffic, such as 1:12.")
    ] = None,
    down: Annotated[
        str | None, Option("--down", metavar="DEV", help="The one of two devices that downloads leave.")
    ] = None,
) -> None:
    """Standard error says what was left out, because it has no effect here, and what differs from Linux."""
    from dumbbell.experiment import units
    from dumbbell.tc.convert import convert
    from dumbbell.tc.setup import Wishes

    if any(one.endswith(".toml") for one in given):
        options = {"--output": output, "--rate": rate, "--rtt": rtt, "--class": chosen_class, "--down": down}
        _print_commands(given, options)
        return
    for option, kind, value in (("--rate", "rate", rate), ("--rtt", "time", rtt)):
        if value is not None:
            try:
                units.parse(kind, value)
            except InputError as error:
                raise error.move(option, "") from None
    if output is not None and Path(output).exists():
        raise Unwritable("this file already exists", "another --output, or remove it", file=output)
    found = convert(given, Wishes(rate, rtt, chosen_class, down))
    for line in found.remarks:
        print(escape_line(line), file=sys.stderr)
    if output is None:
        print(found.text, end="")
        return
    from dumbbell.writing import write_text

    write_text(Path(output), found.text, "a place that can be written to")
    print(output)


def _print_commands(given: list[str], options: dict[str, str | None]) -> None:
    """Print the commands of experiment files, as dumbbell run --show-commands does."""
    from dumbbell.cli.run import print_commands

    for option, value in options.items():
        if value is not None:
            raise Conflict(f"{option} and an experiment file", "one of them", command="tc")
    print_commands(given, None, "linux", {}, trust=False)
