"""`dumbbell watch`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from dumbbell.cli import run_options
from dumbbell.errors import Conflict, InputError, OutOfRange, WrongValue, quote_value
from dumbbell.experiment import units


def watch(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|RESULTS|PID]",
            help="Experiment to run; results file; or a dumbbell shell: its process id, or its results file while it "
            "runs. By default, the only shell.",
        ),
    ] = "",
    key: run_options.Key = "",
    where: run_options.Where = None,
    cell: run_options.Number = None,
    settings: run_options.Settings = None,
    engine: run_options.Engine = None,
    speed: Annotated[
        float | None,
        typer.Option(metavar="X", help="Seconds of the run per second. By default, 1; unlimited for lines."),
    ] = None,
    interval: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time of the run between two updates. By default for a shell, 250ms, or 1s for lines."
        ),
    ] = "",
    stored_only: run_options.StoredOnly = False,
    trust: run_options.Trust = False,
    form: Annotated[
        Literal["screen", "csv"],
        typer.Option("--format", help="csv: one row per link or flow and interval; else a screen, or lines."),
    ] = "screen",
) -> None:
    """Keys: space pauses, . and , step, + and - change the speed, [ and ] seek, q quits. Without a terminal, it
    prints one line per interval; for a shell, one per direction. A shell is shown until it ends.
    """
    from dumbbell.explain import observed
    from dumbbell.results import one_stored
    from dumbbell.shell import watch as sessions

    is_file = one_stored.is_experiment(what)
    if not is_file and (not Path(what).is_file() or (not key and not where and sessions.is_running(what))):
        of_runs: dict[str, object] = {
            "--set": settings,
            "--cell": cell,
            "--where": where,
            "--engine": engine,
            "--speed": speed,
            "--stored": stored_only,
            "--trust": trust,
        }
        for option, value in of_runs.items():
            if value:
                raise Conflict(
                    f"{option} and a running dumbbell shell", "an experiment file or a results file", command="watch"
                )
        sessions.follow(what, interval, as_csv=form == "csv")
        return
    interval_s = _parse_interval(interval)
    if speed is not None and not 1 / 64 <= speed <= 4096:
        raise OutOfRange(f"{speed:g}", "from 1/64 to 4096", command="watch", option="--speed")
    from dumbbell.watch import lines, replay, screen, source

    is_screen = sys.stdout.isatty() and form != "csv" and os.environ.get("TERM") != "dumb"
    frames = replay.FRAMES if is_screen else replay.LINES
    found: source.RunSource
    if is_file:
        run_options.refuse_of_results("watch", {"KEY": key, "--stored": stored_only})
        chosen, by = observed.select_cell(
            what, settings, cell, where or [], engine=engine, trust=trust, command="watch"
        )
        found = source.CarriedRun(chosen, by, frames, interval_s)
    else:
        run_options.refuse_of_files("watch", {"--set": settings, "--cell": cell, "--trust": trust})
        run = observed.observe_results(one_stored.choose_run(what, key, where or [], engine))
        if not stored_only:
            observed.repeat(run)
        found = source.StoredReplay(run, frames, interval_s)
    if is_screen:
        screen.show(found, speed or 1.0)
    else:
        lines.write(found, speed, as_csv=form == "csv")


def _parse_interval(text: str) -> float | None:
    """Return the interval in seconds; None if it is not given. Raises InputError."""
    if not text:
        return None
    try:
        length = units.parse("time", text)
    except ValueError as error:
        allowed = error.allowed if isinstance(error, InputError) else "a time, such as 250ms"
        raise WrongValue(quote_value(text), allowed, command="watch", option="--interval") from None
    if length < 1_000_000:
        raise OutOfRange(quote_value(text), "1ms or more", command="watch", option="--interval")
    return length / 1e9
