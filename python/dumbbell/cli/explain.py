"""`dumbbell explain`."""

import json
from typing import Annotated, Literal

import typer

from dumbbell.cli import run_options


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS|FILE",
            help="Results file, or an experiment to run: a file, or a name from dumbbell list experiments.",
        ),
    ],
    key: run_options.Key = "",
    where: run_options.Where = None,
    cell: run_options.Number = None,
    settings: run_options.Settings = None,
    engine: run_options.Engine = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="json: every fact with its numbers and its sentence.")
    ] = "text",
    stored_only: run_options.StoredOnly = False,
    trust: run_options.Trust = False,
) -> None:
    """A stored run of the simulator is repeated to record its trace. The results are the same; it takes the time of
    one run.
    """
    from dumbbell.explain import explained, observed
    from dumbbell.results import one_stored

    if one_stored.is_experiment(what):
        run_options.refuse_of_results("explain", {"KEY": key, "--stored": stored_only})
        chosen, by = observed.select_cell(
            what, settings, cell, where or [], engine=engine, trust=trust, command="explain"
        )
        run = observed.observe_cell(chosen, observed.carry_out_run(chosen, by))
    else:
        run_options.refuse_of_files("explain", {"--set": settings, "--cell": cell, "--trust": trust})
        run = observed.observe_results(one_stored.choose_run(what, key, where or [], engine))
    if not stored_only:
        observed.repeat(run)
    found = explained.explain_run(run)
    print(json.dumps(found.to_json(), ensure_ascii=False, indent=2) if form == "json" else found.to_text())
