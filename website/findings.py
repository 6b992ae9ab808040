"""Findings: the studies with their questions, and how to run each again."""

from functools import cache

from dumbbell.pages import study
from dumbbell.pages.study import Study
from website.links import on_site, title
from website.markdown import ROOT, table


@cache
def studies() -> dict[str, Study]:
    """Return the studies that come with dumbbell, by their names."""
    return {name: study.find(name) for name in study.list_studies()}


def study_page(name: str) -> str:
    """Return the place of a study's page on the site."""
    return on_site(studies()[name].page.resolve().relative_to(ROOT).as_posix())


def run_command(study: Study) -> str:
    """Return the command that makes a study's results; a study without sweeps has a program of its own for them."""
    return f"dumbbell study run {study.name}" if study.sweeps else f"python -m studies.{study.folder.name}.gather"


def index() -> str:
    """Return the table of studies: page, question and the command that runs it."""
    rows = [
        [f"[{title(study_page(name))}](../{study_page(name)})", one.question, f"`{run_command(one)}`"]
        for name, one in studies().items()
    ]
    return table(["page", "question", "run again"], rows)
