"""`dumbbell line`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumbbell.errors import Conflict, InputError, Missing, OutOfRange

if TYPE_CHECKING:
    from dumbbell.line.home import AccessLine
Option = typer.Option


def line(
    down: Annotated[
        str | None, Option("--down", metavar="RATE", help="Rate of the line down, such as 250Mbit.")
    ] = None,
    up: Annotated[str | None, Option("--up", metavar="RATE", help="Rate of the line up.")] = None,
    link: Annotated[
        str, Option("--link", metavar="KIND", help="Kind of line: fibre, docsis, vdsl, adsl, leo, lte or 5g.")
    ] = "fibre",
    rtt: Annotated[
        str | None, Option("--rtt", metavar="TIME", help="Round-trip time to servers; 20ms by default.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        Option("--queue", metavar="QUEUE", help="Try this queue in the router: fq_codel and cake by default."),
    ] = None,
    margins: Annotated[
        str | None,
        Option(
            "--margins",
            metavar="PERCENT,…",
            help="Shape to these percentages of the line: 95,90,85, or 80,60,40 where its rate varies.",
        ),
    ] = None,
    modem_buffer: Annotated[
        str | None,
        Option("--modem-buffer", metavar="TIME", help="What the queues at the line hold, as time at its rate."),
    ] = None,
    source: Annotated[
        str | None,
        Option("--from", metavar="FILE", help="Take rates and RTT from a measurement: pcap, Flent or iperf3 --json."),
    ] = None,
    subscribers: Annotated[
        str | None,
        Option(
            "--subscribers", metavar="CSV", help="A line for each row: name, down, up, and link, rtt if they differ."
        ),
    ] = None,
    seeds: Annotated[int, Option("--seeds", min=1, max=100, metavar="N", help="Runs of each setting.")] = 5,
    duration: Annotated[str, Option("--duration", metavar="TIME", help="Length of each run.")] = "30s",
    output: Annotated[
        str, Option("-o", "--output", metavar="NAME", help="Write NAME.toml, NAME.duckdb and NAME.html.")
    ] = "line",
    file_only: Annotated[
        bool, Option("--file", help="Write only the experiment file, NAME.toml, and run nothing.")
    ] = False,
) -> None:
    """Two-way traffic of a home runs over the usual queues and shapers: downloads, an upload, pages and a call. The
    first sentences name the queue to choose and what it costs.
    """
    if not Path(output).name:
        raise Missing("the beginning of names of files, such as line", command="line", option="--output")
    words = ["dumbbell", *sys.argv[1:]]
    command = shlex.join(words) if sys.argv[1:2] == ["line"] else ""
    options = {
        "queues": tuple(queue or ("fq_codel", "cake")),
        "margins": () if margins is None else _parse_margins(margins),
        "modem_buffer": _parse("time", modem_buffer, "--modem-buffer"),
        "seeds": seeds,
        "duration": _parse("time", duration, "--duration"),
    }
    if subscribers is not None:
        if down is not None or up is not None or source is not None:
            raise Conflict("--subscribers and rates of one line", "one of them", command="line")
        _answer_subscribers(Path(subscribers), link, rtt, options, output)
        return
    one = _describe_line(down, up, link, rtt, source, Path(output).name, options)
    _answer_one(one, output, command, file_only=file_only)


def _parse(kind: str, text: str | None, option: str) -> int | None:
    from dumbbell.experiment import units

    if text is None:
        return None
    try:
        return units.parse(kind, text)
    except InputError as error:
        raise error.move(option, "") from None


def _parse_margins(text: str) -> tuple[int, ...]:
    found = []
    for word in text.split(","):
        word = word.strip().removesuffix("%").strip()
        if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= 110:
            raise OutOfRange(f'"{word}"', "percentages from 1 to 110, such as 95,90,85", key="--margins")
        found.append(int(word))
    return tuple(dict.fromkeys(found))


def _describe_line(
    down: str | None,
    up: str | None,
    link: str,
    rtt: str | None,
    source: str | None,
    name: str,
    options: dict[str, Any],
) -> AccessLine:
    from dumbbell.line.access import find_kind
    from dumbbell.line.home import AccessLine

    rates = {
        "down": _parse("rate", down, "--down"),
        "up": _parse("rate", up, "--up"),
        "rtt": _parse("time", rtt, "--rtt"),
    }
    sources: dict[str, str] = {}
    if source is not None:
        from dumbbell.line.measured import read_line

        for key, (value, where) in read_line(Path(source)).items():
            if rates[key] is None:
                rates[key], sources[key] = value, where
    for key in ("down", "up"):
        if rates[key] is None:
            raise Missing("a rate such as 50Mbit", command="line", option=f"--{key}")
    fields = options | ({} if rates["rtt"] is None else {"rtt": rates["rtt"]})
    return AccessLine(rates["down"] or 0, rates["up"] or 0, find_kind(link), name=name, sources=sources, **fields)


def _answer_one(one: AccessLine, output: str, command: str, *, file_only: bool) -> None:
    from dumbbell import report as reporting
    from dumbbell.cli.run import carry_out
    from dumbbell.experiment.file import load
    from dumbbell.line.answer import answer_line, format_answer
    from dumbbell.line.home import write_experiment
    from dumbbell.results.results import StoredResults
    from dumbbell.writing import write_text

    file, results, page = (f"{output}{ending}" for ending in (".toml", ".duckdb", ".html"))
    write_text(Path(file), write_experiment(one, command), "a name in a folder that exists", command="line")
    experiment = load(file)
    if file_only:
        print(file)
        return
    carry_out([experiment], results)
    keys = [cell.key for cell in experiment.make_cells()]
    answer = answer_line(one, StoredResults(Path(results), keys=keys))
    reporting.write([results], page, answer=answer.sentences)
    print(format_answer(answer, [f"The experiment: {file}", f"Its results: {results}", f"The page: {page}"]))


def _answer_subscribers(path: Path, link: str, rtt: str | None, options: dict[str, Any], output: str) -> None:
    from dumbbell.line.subscribers import answer_subscribers, read_subscribers

    lines = read_subscribers(path, link, _parse("time", rtt, "--rtt"), options)
    print(answer_subscribers(lines, output))
