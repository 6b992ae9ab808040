"""`dumbbell doctor`: what each engine needs, whether this machine has it, and how to get it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Annotated

import typer

from dumbbell.cli.status import FAILED
from dumbbell.engines.needs import Check
from dumbbell.errors import UnknownName
from dumbbell.results import versions


def look(engine: str) -> Iterator[Check]:
    """Yield what an engine needs; the simulator also runs QUIC stacks."""
    yield from importlib.import_module(versions.KINDS[engine].needs).run_checks()
    if engine == "sim":
        yield _check_stacks()


def _check_stacks() -> Check:
    """Return which QUIC stacks are built, and whether others can be; runs without them need none."""
    from dumbbell.experiment.plugins import built
    from dumbbell.stacks import tools

    names = [one.name for one in built.list_installed()]
    missing = {"cargo": tools.RUSTUP, "cmake": f"for picoquic: {tools.CMAKE}"}
    missing = {program: how for program, how in missing.items() if tools.find_program(program) is None}
    found = "; ".join([", ".join(names) or "none built", *(f"no {program}" for program in missing)])
    if names and not missing:
        return Check("stacks", found)
    how = f"to build one: {'; '.join(missing.values())}" if missing else "dumbbell stack build quinn"
    return Check("stacks", found, how, needed=False)


def format_checks(checks: dict[str, list[Check]]) -> str:
    """Return the checks of each engine as a table, with whether it works in the first line of each."""
    lines = []
    rows = [check for of_engine in checks.values() for check in of_engine]
    what = max(len(check.what) for check in rows)
    for engine, of_engine in checks.items():
        missing = [check.what for check in of_engine if check.state == "missing"]
        lines.append(f"{engine}: " + (f"does not work yet: {', '.join(missing)}" if missing else "works"))
        for check in of_engine:
            lines.append(f"  {check.state:8}  {check.what:{what}}  {check.found}")
            if check.remedy:
                lines.append(f"  {'':8}  {'':{what}}  -> {check.remedy}")
    return "\n".join(lines)


def doctor(
    engine: Annotated[str, typer.Argument(metavar="[ENGINE]", help="sim, linux or live. By default, all.")] = "",
) -> None:
    """Exit status: 0 if the simulator works, or the engine that is named; else 1."""
    names = [one.name for one in versions.list_runners()]
    if engine and engine not in names:
        raise UnknownName(engine, among=names, command="doctor", what="engine")
    checks = {name: list(look(name)) for name in names if engine in ("", name)}
    print(format_checks(checks))
    if any(check.state == "missing" for check in checks[engine or "sim"]):
        raise typer.Exit(FAILED)
