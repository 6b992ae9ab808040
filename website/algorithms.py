"""A page for every queue discipline and congestion control: what follows the hand-written text of `docs/algorithms`."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dumbbell.cli import key_reference
from dumbbell.experiment.registry import Algorithm, read_registry
from website import agreement, evaluations, gallery, playground
from website.markdown import ROOT, escape_cell, format_code, format_table, join_paragraphs

KINDS = {"aqm": "Queue disciplines", "cc": "Congestion controls"}
# what a row of the validation calls an algorithm
CALLED = {
    "pfifo": "tail drop",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "pie": "PIE",
    "fq_pie": "FQ-PIE",
    "red": "RED",
    "cake": "Cake",
    "dualpi2": "DualPI2",
    "reno": "Reno",
    "cubic": "CUBIC",
    "dctcp": "DCTCP",
    "prague": "Prague",
    "bbr1": "BBRv1",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
}
# rows whose algorithms their name does not say
ALSO = {
    "one-flow": ("reno", "cubic"),
    "one-flow-aqm": ("reno", "cubic"),
    "many-flows": ("reno", "cubic"),
    "bbr2-gigabit": ("dctcp", "step"),
    "sce-one": ("reno", "cubic", "dctcp", "reno-sce", "dctcp-sce"),
    "sce-two": ("reno", "cubic", "dctcp", "reno-sce", "dctcp-sce"),
    "sce-plain": ("cake",),
}
NOT_THE_SIMULATOR = "sce-plain-linux"


def list_algorithms() -> dict[str, Algorithm]:
    """Return queue disciplines and congestion controls by name."""
    known = read_registry()
    return {**known.aqm, **known.cc}


@cache
def _list_sources() -> dict[str, Path]:
    """Return the Rust file of each algorithm."""
    found = {}
    for kind in KINDS:
        for file in sorted((ROOT / "crates" / "dumbbell-core" / "src" / kind).glob("**/*.rs")):
            if name := re.search(r'const NAME: &str = "([\w-]+)"', file.read_text(encoding="utf-8")):
                found[name[1]] = file
    return found


def read_module_doc(name: str) -> str:
    """Return the comment at the head of an algorithm's Rust file as Markdown."""
    lines = []
    for line in _list_sources()[name].read_text(encoding="utf-8").splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[3:].removeprefix(" "))
    text = "\n".join(lines)
    text = re.sub(r"\[(`[^`\]]+`)\](?:\([^)]*\))?", r"\1", text)  # links of rustdoc
    text = re.sub(r"(?<=[^\n|])\n(?=\|)", "\n\n", text)
    text = re.sub(r"^(?!\s*[-|])(.+)\n(?=- )", r"\1\n\n", text, flags=re.MULTILINE)  # lists need an empty line
    return text.replace("<", "&lt;")


def _format_parameters(name: str) -> Iterator[str]:
    group = next(one for kind in KINDS for one in key_reference.list_algorithms()[kind] if one.name == name)
    if not group.keys:
        yield "None."
        return
    rows = [
        [
            format_code(key.name),
            format_code(key.default) or "must be given",
            escape_cell(key.values),
            escape_cell(key.doc),
            escape_cell(key.source),
        ]
        for key in group.keys
    ]
    shown = format_table(["key", "default", "values", "meaning", "source of the default"], rows)
    yield f'<div class="parameters" markdown="1">\n\n{shown}\n\n</div>'
    if group.versions:
        yield "Versions, and what each sets; keys in the file override it:"
        yield "\n".join(f"- {line}" for line in group.versions)


def _is_in_row(name: str, row: dict[str, str]) -> bool:
    """Whether a row of the validation has cells with an algorithm."""
    if row["name"] == NOT_THE_SIMULATOR:
        return False
    word = CALLED.get(name)
    named = word is not None and re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", row["what"])
    return bool(named) or name in ALSO.get(row["name"], ())


def describe_agreement(name: str) -> str:
    """Return in how many cells an algorithm agrees with references, and the cells of its own that do not."""
    rows = [row for row in agreement.read_table("rows.csv") if _is_in_row(name, row)]
    if not rows:
        return "Not compared with Linux cell by cell. [Validation](../validation.md) says what is."
    shown = [
        [escape_cell(row["what"]), row["reference"], f"{row['agree']} of {row['cells']}", row["bar"]] for row in rows
    ]
    of_rows = {row["name"] for row in rows}
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    outside = [
        one for one in agreement.read_table("outside.csv") if one["name"] in of_rows and word.search(one["cell"])
    ]
    parts = [
        "Rows of the [validation](../validation.md), which explains the bars. A row may have other algorithms, too.",
        format_table(["cells", "with", "agree", "bar"], shown),
    ]
    if outside:
        worst = sorted(outside, key=lambda one: -float(one["size"]))[:5]
        some = f"the {len(worst)} largest of {len(outside)}" if len(outside) > len(worst) else f"{len(outside)}"
        parts.append(f"Cells outside of their bar that name `{name}` ({some}):")
        parts.append("\n".join(f"- {one['cell']}: {one['off']}" for one in worst))
    return "\n\n".join(parts)


def uses(table_: Any, name: str, key: str = "") -> bool:
    """Whether the table of an experiment file names an algorithm as queue discipline or congestion control."""
    match table_:
        case dict():
            inside = table_.get("name") == name and re.search(r"\b(aqm|cc)\b", key)
            return bool(inside) or any(
                uses(value, name, inner if inner not in ("name",) and key == "" else f"{key}.{inner}")
                for inner, value in table_.items()
            )
        case list():
            return any(uses(value, name, key) for value in table_)
        case str():
            return table_ == name and bool(re.search(r"\b(aqm|cc)(\.name)?(,|$)|\b(aqm|cc)\b", key))
    return False


def _list_experiments(name: str) -> str:
    using = [entry for entry in gallery.list_entries() if uses(gallery.read_contents(entry.file), name)]
    if not using:
        return "None of those that come with dumbbell."
    lines = [f"- [`{one.name}`](../gallery/{one.folder}.md#{one.anchor}): {one.title}" for one in using]
    return "\n".join(lines)


def make_page(name: str) -> str:
    """Return what follows the hand-written text about an algorithm."""
    one = list_algorithms()[name]
    kind = "aqm" if name in read_registry().aqm else "cc"
    key = "bottleneck.aqm" if kind == "aqm" else "flows[*].cc"
    return join_paragraphs(
        [
            "## Parameters",
            f'`{key} = "{name}"`, or a table with its name and some of these keys. '
            f"`dumbbell describe {name}` prints them.",
            *_format_parameters(name),
            *(
                [f"Two downloads and a ping with it: {link}."]
                if (link := playground.make_algorithm_link(kind, name))
                else []
            ),
            "## As it is implemented",
            f"*{escape_cell(one.source)}.* What follows is the comment at the head of "
            f"`{_list_sources()[name].relative_to(ROOT).as_posix()}`.",
            read_module_doc(name),
            "## Agreement with references",
            describe_agreement(name),
            "## Evaluation",
            evaluations.format_evaluation(name),
            "## Experiments that use it",
            _list_experiments(name),
        ]
    )


def make_index() -> str:
    """Return the tables of all algorithms."""
    known = read_registry()
    parts = []
    for kind, of_kind in (("aqm", known.aqm), ("cc", known.cc)):
        rows = [[f"[`{one.name}`]({one.name}.md)", escape_cell(one.title)] for one in of_kind.values()]
        parts += [f"## {KINDS[kind]}", format_table(["name", ""], rows)]
    return join_paragraphs(parts)
