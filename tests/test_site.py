"""The documentation site: every page has its place, every link leads somewhere, what is generated is complete.

`make docs` builds the site in strict mode; here its parts are tested, without MkDocs.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

import dumbbell
import dumbbell.gym
from dumbbell.experiment.registry import read_registry
from every_case import every_case
from website import (
    agreement,
    algorithms,
    commands,
    findings,
    gallery,
    links,
    pages,
    playground,
    python_api,
    speeds,
)

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCES = links.list_sources()
GENERATED = pages.list_generated(sized=False)
APPENDED = pages.list_appended()


class Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads mkdocs.yml, with functions as their names."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda _loader, name, _node: name)


@cache
def config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    return found


def in_navigation(part: Any) -> Iterator[str]:
    match part:
        case str():
            yield part
        case list():
            for one in part:
                yield from in_navigation(one)
        case dict():
            for one in part.values():
                yield from in_navigation(one)


@cache
def text_of(place: str) -> str:
    """Return a page of the site as MkDocs gets it, by its place."""
    if place in GENERATED:
        return GENERATED[place]()
    file = links.list_sources()[place]
    text = links.move_links(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix(), place)
    return text + (APPENDED[place]() if place in APPENDED else "")


def places() -> list[str]:
    return [*SOURCES, *GENERATED]


def test_the_navigation_names_every_page_once() -> None:
    named = list(in_navigation(pages.complete_navigation(config()["nav"])))
    left_out = config()["not_in_nav"].split()
    assert sorted([*named, *left_out]) == sorted(places())
    assert tuple(left_out) == links.NOTEBOOKS


def test_pages_that_are_made_have_no_source_and_others_do() -> None:
    assert not set(GENERATED) & set(SOURCES)
    assert set(APPENDED) <= set(SOURCES)


@pytest.mark.slow
@every_case("place", places())
def test_links_and_images_of_a_page_lead_somewhere(place: str) -> None:
    for target in links.list_targets(text_of(place)):
        name, _, _anchor = target.partition("#")
        if not name or links.is_outside(target):
            continue
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), name))
        file = path.removeprefix(f"{links.FILES}/")
        assert (
            path in GENERATED
            or path in SOURCES
            or (DOCS / path).is_file()
            or (path == playground.PLACE and playground.PAGE.is_file())
            or (path.startswith(f"{links.FILES}/") and (ROOT / file).is_file())
        ), f"{place}: {target}"


# texts that `dumbbell study page validation` and `make agree` write; the site replaces file names in them
_WRITTEN_WITH_FILE_NAMES = ("docs/validation-", "studies/bbr/", "studies/bbr_", "studies/validation/")


@every_case("place", SOURCES)
def test_a_link_in_the_repository_shows_a_title_and_leads_to_a_heading(place: str) -> None:
    """A page on GitHub is its source: neither titles nor identifiers of headings are added there."""
    source = SOURCES[place]
    text = source.read_text(encoding="utf-8")
    if not source.relative_to(ROOT).as_posix().startswith(_WRITTEN_WITH_FILE_NAMES):
        assert not links.NAMED.findall(links.FENCE.sub("", text))
    for target in links.list_targets(text):
        name, _, anchor = target.partition("#")
        file = source.parent / name if name else source
        if anchor and not links.is_outside(target) and file.suffix == ".md":
            assert anchor in list_headings(file.read_text(encoding="utf-8")), target


def list_headings(text: str) -> set[str]:
    """Return the identifiers that GitHub gives to the headings of a page."""
    names = [found[1] for found in re.finditer(r"^#+ (.+?)(?: #+)?$", links.FENCE.sub("", text), re.MULTILINE)]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", name).strip().lower() for name in names]
    return {re.sub(r"[^\w -]", "", name).replace(" ", "-") for name in plain}


def test_links_to_other_places_are_moved() -> None:
    text = "[a](../studies/abe/experiments) [b](../README.md#x) `[c](nowhere.md)`\n\n```\n[d](nowhere.md)\n```\n"
    text += "[e](limits.md) [f](../studies/abe/README.md)"
    moved = links.move_links(text.replace("`[c](nowhere.md)`", ""), "docs/statements.md", "statements.md")
    assert "[a](gallery/abe.md) [b](index.md#x)" in moved and "[d](nowhere.md)" in moved and "[e](limits.md)" in moved
    assert "[f](findings/abe.md)" in moved
    found = [target.removeprefix("../") for target in links.list_targets(text)]
    assert found == ["studies/abe/experiments", "README.md#x", "limits.md", "studies/abe/README.md"]
    assert links.move_links("[limits.md](../limits.md#a)", "docs/a/b.md", "a/b.md") == "[Limits](../limits.md#a)"
    assert links.move_links("[a](../LICENSE-MIT)", "docs/a.md", "a.md") == "[a](files/LICENSE-MIT)"


def test_every_algorithm_has_a_page() -> None:
    known = {**read_registry().aqm, **read_registry().cc}
    written = {path.stem for path in (DOCS / "algorithms").glob("*.md")} - {"index"}
    assert written == set(known)
    for name, one in known.items():
        text = text_of(f"algorithms/{name}.md")
        assert "```math" in text, f"{name}: no equation"
        for key in one.params:
            assert f"`{key}`" in text, f"{name}: no {key}"
        for section in (
            "Parameters",
            "As it is implemented",
            "Agreement with references",
            "Evaluation",
            "Experiments that use it",
        ):
            assert f"## {section}" in text
        assert f"({name}.md)" in text_of("algorithms/index.md")


def test_agreement_is_that_of_the_validation() -> None:
    assert "| one flow: tail drop, CoDel, Cake | Linux 6.12 | 115 of 115 |" in algorithms.describe_agreement("codel")
    assert "FQ-CoDel" not in algorithms.describe_agreement("codel").split("one flow: tail drop, CoDel, Cake")[0]
    assert "Not compared with Linux" in algorithms.describe_agreement("csaqm")
    rows = (ROOT / "studies" / "validation" / "evidence" / "rows.csv").read_text(encoding="utf-8")
    for row in algorithms.ALSO:
        assert re.search(rf"^{row},", rows, re.MULTILINE), f"the validation has no row {row}"


def test_the_picture_of_the_validation_has_every_cell() -> None:
    rows = agreement.read_table("rows.csv")
    drawn = pages.add_picture(text_of(agreement.PLACE), agreement.PLACE)
    assert agreement.MARK not in drawn
    squares = re.findall(r'<path class="(agrees|differs)" d="(M[^"]*)"', drawn)
    counts = {kind: sum(d.count("M") for found, d in squares if found == kind) for kind in ("agrees", "differs")}
    agree = sum(int(row["agree"]) for row in rows)
    assert counts == {"agrees": agree, "differs": sum(int(row["cells"]) for row in rows) - agree}


def test_errors_of_the_picture_are_over_the_bars_of_the_page() -> None:
    for row in agreement.read_table("rows.csv"):
        errors = agreement.compute_relative_errors()[row["name"]]
        assert errors, row["name"]
        worst = max(worst for _, _, worst in errors.values())
        if row["bar"] == "G":  # many starts: a figure may agree by the interval of the difference alone
            assert worst < 1.5, row["name"]
        elif row["agree"] == row["cells"]:
            assert worst <= 1, row["name"]
        elif row["name"] != "two-flows":  # its one cell outside is so by drops and marks, which have no errors there
            assert worst > 1, row["name"]


def test_an_experiment_uses_what_it_names_as_queue_or_control() -> None:
    table = {
        "title": "pie",
        "bottleneck": {"aqm": "codel", "path": ["loss"]},
        "flows": [{"cc": {"name": "reno", "abe": True}}],
        "matrix": {"flows[0].cc, flows[1].cc": [["cubic", {"name": "dctcp"}]], "seeds": ["red"]},
    }
    used = [name for name in ("codel", "reno", "cubic", "dctcp", "pie", "red", "loss") if algorithms.uses(table, name)]
    assert used == ["codel", "reno", "cubic", "dctcp"]


def test_every_experiment_is_in_the_gallery() -> None:
    files = set(ROOT.glob("studies/*/experiments/*.toml"))
    assert {entry.file for entry in gallery.list_entries()} == files
    for entry in gallery.list_entries():
        text = text_of(f"gallery/{entry.folder}.md")
        assert f"    dumbbell run {entry.name}\n" in text and f"#{entry.anchor} }}" in text
        assert entry.question, f"{entry.name}: no comment at the head says what it asks"
        assert f"({entry.folder}.md#{entry.anchor})" in text_of("gallery/index.md")


def test_figures_of_the_gallery_exist() -> None:
    names = {entry.name: entry for entry in gallery.list_entries()}
    for study, one in findings.list_studies().items():
        for experiment, figure in getattr(one.program, "GALLERY", {}).items():
            assert names[f"{study}/{experiment}"].figure.endswith(f"/{figure}.svg"), f"{study}: no figure {figure}"
    assert names["bbr/policer"].figure == "files/studies/bbr/figures/bbr-policer.svg"


# figures of QUIC stacks, of a plugin's versions and of a suite's scenarios, which the playground does not run
_NOT_IN_THE_PLAYGROUND = {
    *("bbr-suite-spurious", "drops-by-step", "dualpi2-versions-shifted", "dualpi2-versions-wrrb"),
    "learning-curve",  # of trainings
}


@pytest.mark.slow
def test_a_figure_of_a_study_leads_to_the_playground(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground, "PAGE", Path(__file__))
    without = set()
    for path in sorted(ROOT.glob("studies/*/figures/*.svg")):
        image = f"![A figure](../{links.FILES}/studies/a/figures/{path.stem}.svg)"
        linked = gallery.link_figures(f"Before.\n\n{image}\n\nAfter.", "findings/a.md")
        if linked.count(f"](../{playground.PLACE}#g=") != 1:
            without.add(path.stem)
    assert without == _NOT_IN_THE_PLAYGROUND
    assert f"]({playground.PLACE}#g=" in gallery.link_figures(image.replace(path.stem, "bbr-rtt"), "validation.md")


def test_an_experiment_leads_to_a_page_that_uses_it() -> None:
    pages_of = {entry.name: entry.page for entry in gallery.list_entries()}
    assert pages_of["abe/gain"] == "findings/abe.md"  # the study of its folder runs it
    assert pages_of["hops/router-modem"] == "how-to/uplink.md"  # a page names it
    assert pages_of["sce/two-flow"] == "how-to/compare.md"  # and that comes before another study
    assert pages_of["dualpi2/overload-aqm"] == "findings/dualpi2.md" and pages_of["traffic/web"] == gallery.ELSEWHERE


def test_every_study_has_its_question_and_its_row() -> None:
    text = text_of("findings/index.md")
    for name, one in findings.list_studies().items():
        assert one.question and f"](../{findings.find_study_page(name)}) | {one.question} |" in text


def test_the_size_of_an_experiment_is_told() -> None:
    entry = next(one for one in gallery.list_entries() if one.name == "abe/slow-start")
    packets = r"[\d.]+ million packets|[\d,]+ packets"
    assert re.fullmatch(
        rf"192 runs, about ({packets}), (a few seconds|\d+ (s|min|h)) on 2 cores", gallery.describe_size(entry)
    )


def test_the_time_of_an_experiment_follows_from_its_packets_and_its_longest_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speeds, "read_speeds", lambda: {"slow": 1e6})
    assert speeds.estimate_seconds("slow", 6e6, 1e6) == 3
    assert speeds.estimate_seconds("slow", 6e6, 5e6) == 5
    assert speeds.estimate_seconds("other", 6e6, 1e6) < 3


def test_speeds_are_those_of_experiments() -> None:
    assert set(speeds.read_speeds()) <= {entry.name for entry in gallery.list_entries()}
    assert len(speeds.read_speeds()) > 0.9 * len(gallery.list_entries())
    assert all(1e5 < speed < 1e8 for speed in speeds.read_speeds().values())


def test_every_experiment_with_a_figure_shows_it() -> None:
    for entry in gallery.list_entries():
        text = text_of(f"gallery/{entry.folder}.md").split(f"{{ #{entry.anchor} }}")[1].partition("\n## ")[0]
        assert ("thumbnail" in text) == bool(entry.figure) and entry.figure in text, entry.name


def test_every_command_and_option_has_its_place() -> None:
    text = text_of("commands.md")
    found = commands.list_commands()
    assert {"run", "evaluate trace", "linux build", "study figure"} <= set(found)
    for name, command in found.items():
        section = text.split(f"\n### dumbbell {name}\n")[1].partition("\n### ")[0]
        for param in command.params:
            for option in (*param.opts, *param.secondary_opts):
                assert not option.startswith("-") or option in section, f"{name}: no {option}"


def test_every_public_name_has_its_place() -> None:
    text = text_of("python.md")
    for name in dumbbell.__all__:
        assert f"\n## dumbbell.{name}\n" in text
    assert "### Results.table" in text and "### Results.where" in text
    assert set(python_api.list_names()) == set(dumbbell.__all__)
    of_gym = set(python_api.list_gym_names())
    assert {"make_env", "make_vector_env", "LearningTask"} <= of_gym <= set(dumbbell.gym.__all__)


def test_nothing_asks_the_network() -> None:
    theme = config()["theme"]
    assert theme["font"] is False
    assert "repo_url" not in config() and "analytics" not in config()["extra"]
    assert "offline" in config()["plugins"]
    # without a script of our own for it, the plugin "offline" takes that of a server
    assert any("iframe-worker" in script for script in config()["extra"]["polyfills"])
    for script in (*config()["extra"]["polyfills"], *config()["extra_css"], *config().get("extra_javascript", ())):
        assert (DOCS / script).is_file(), f"{script} is not a file of docs"
    for file in (*DOCS.glob("assets/*.css"), *DOCS.glob("assets/*.js")):
        assert "//" not in re.sub(r"^\s*//.*|file://", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    fences = config()["markdown_extensions"][-1]["pymdownx.superfences"]["custom_fences"]
    assert "mermaid" not in {one["name"] for one in fences}  # the theme fetches a script for charts that it draws
    for file in SOURCES.values():
        assert "```mermaid" not in file.read_text(encoding="utf-8"), f"{file}: charts are files of docs/assets"


def test_every_page_names_the_version_and_the_licence() -> None:
    footer = pages.add_version(config()["copyright"])
    assert footer == f"dumbbell, MIT or Apache 2.0 · version {metadata.version('dumbbell')}"
