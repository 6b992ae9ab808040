"""Findings: the studies with their questions, and how to run each again."""

from functools import cache

from dumbbell.pages import study
from dumbbell.pages.study import Study
from website.links import place_on_site, read_title
from website.markdown import ROOT, format_table


@cache
def list_studies() -> dict[str, Study]:
    """Return the studies that come with dumbbell, by their names."""
    return {name: study.find(name) for name in study.list_studies()}


def find_study_page(name: str) -> str:
    """Return the place of a study's page on the site."""
    return place_on_site(list_studies()[name].page.resolve().relative_to(ROOT).as_posix())


def run_command(study: Study) -> str:
    """Return the command that makes a study's results; a study without sweeps has a program of its own for them."""
    return f"dumbbell study run {study.name}" if study.sweeps else f"python -m studies.{study.folder.name}.gather"


def make_index() -> str:
    """Return the table of studies: page, question and the command that runs it."""
    rows = [
        [f"[{read_title(find_study_page(name))}](../{find_study_page(name)})", one.question, f"`{run_command(one)}`"]
        for name, one in list_studies().items()
    ]
    return format_table(["page", "question", "run again"], rows)
