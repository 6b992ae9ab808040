"""The pages of docs/reference: keys of experiment files and columns of results; `make reference` writes them.

Queue disciplines and congestion controls have pages of their own in docs/algorithms, with their parameters.
"""

import shutil
import sys
from collections.abc import Iterable

from dumbbell.cli import key_reference
from dumbbell.experiment import json_schema
from dumbbell.experiment.registry import read_registry
from dumbbell.results import columns
from website.markdown import DOCS, format_table, join_paragraphs

FOLDER = DOCS / "reference"
ALGORITHMS = (
    "A page describes each [queue discipline and congestion control](../../algorithms/index.md), with its parameters."
)
STAGES = "The [stages of a path](stages.md) and the [links](links.md) are tables with keys of their own."
# page of keys: its title, the tables of an experiment file on it, an example, and where to look next
KEYS = {
    "experiment": (
        "Keys of an experiment",
        ("run", "matrix", "override"),
        'title = "Two flows"\nduration = "60s"\nseeds = [1, 2, 3]\n'
        '\n[matrix]\n"bottleneck.rate" = ["10Mbit", "100Mbit"]\n'
        '\n[[override]]\nwhen = { "bottleneck.rate" = "100Mbit" }\nset = { duration = "20s" }',
        "[Experiment files](../../experiment-files.md) introduces them one by one.",
    ),
    "bottleneck": (
        "Keys of bottleneck, hop and reverse",
        ("bottleneck", "bottleneck.rate_changes", "hop", "reverse"),
        '[bottleneck]\nrate = "10Mbit"\naqm = { name = "codel", ecn = true }\n'
        'rate_changes = [{ at = "30s", rate = "5Mbit" }]\n\n[reverse]\nrate = "1Mbit"\naqm = "pfifo"',
        f"{ALGORITHMS} {STAGES}",
    ),
    "hosts": (
        "Keys of hosts",
        ("hosts",),
        '[hosts]\nprofile = "linux-5.4"\necn = true\ninitial_window = 10',
        "A [profile](profiles.md) sets the switches that the file does not.",
    ),
    "flows": (
        "Keys of flows",
        ("flows",),
        '[[flows]]\ncc = { name = "cubic", hystart = "off" }\nbase_rtt = "20ms"\ncount = 10\nstart = "5s"',
        f"{ALGORITHMS} {STAGES}",
    ),
    "web": (
        "Keys of web",
        ("web",),
        '[[web]]\ncc = "cubic"\nbase_rtt = "20ms"\narrivals = "100/s"\nsize = "50kB"',
        f"{ALGORITHMS} {STAGES}",
    ),
    "udp": (
        "Keys of udp",
        ("udp",),
        '[[udp]]\nrate = "100kbit"\nsize = "214B"\necho = true\nbase_rtt = "20ms"',
        STAGES,
    ),
    "app": (
        "Keys of app",
        ("app",),
        '[[app]]\nkind = { name = "pages", think = "5s" }\ncc = "cubic"\nbase_rtt = "20ms"\ncount = 3',
        f"[Applications](applications.md) have parameters of their own. {ALGORITHMS} {STAGES}",
    ),
    "record": (
        "Keys of record",
        ("record",),
        '[record]\nfrom = "1s"\ninterval = "100ms"\ntrace = "10ms"',
        "[Tables of the results](../results/runs.md) keep what is recorded.",
    ),
}
KINDS = {
    "stages": (
        "stage",
        "Stages of a path",
        '[bottleneck]\nrate = "10Mbit"\naqm = "pfifo"\npath = ["bleach", { name = "loss", probability = 0.01 }]',
        "A stage changes packets on a path: `path` and `behind` of [bottleneck](bottleneck.md), `path` and `ack_path` "
        "of [flows](flows.md), [web](web.md) and [udp](udp.md) list stages in the order in which packets meet them.",
    ),
    "applications": (
        "app",
        "Applications",
        '[[app]]\nkind = { name = "call", playout = "60ms" }\nbase_rtt = "20ms"',
        "`kind` of [app](app.md) names what a user runs. [Table apps](../results/apps.md) has what is measured.",
    ),
    "links": (
        "link",
        "Links",
        '[bottleneck]\nrate = "100Mbit"\naqm = "fq_codel"\nlink = { name = "wifi" }',
        "`link` of [bottleneck, hop and reverse](bottleneck.md) names how packets leave the queue.",
    ),
}


def _make_keys(page: str) -> str:
    title, groups, example, more = KEYS[page]
    known = key_reference.list_sections()
    parts = [f"# {title}"]
    for name in groups:
        parts += [f"## {name}"] * (len(groups) > 1) + [key_reference.format_group(known[name])]
    return join_paragraphs([*parts[:1], f"```toml\n{example}\n```", more, *parts[1:]])


def _make_kind(page: str) -> str:
    kind, title, example, about = KINDS[page]
    parts = [f"# {title}", about, f"```toml\n{example}\n```"]
    for group in key_reference.list_algorithms()[kind]:
        parts += [f"## {group.name}: {group.title}", key_reference.format_algorithm(group)]
    return join_paragraphs(parts)


def _make_profiles() -> str:
    parts = ["# Profiles of hosts", f"{key_reference.PROFILES} The default is the first."]
    for name in read_registry().profiles:
        parts += [f"## {name}", key_reference.format_profile(name)]
    return join_paragraphs(parts)


def _make_table(table: str) -> str:
    about = f"{columns.TABLES[table]} The file of the results contains [all tables](../index.md#results)."
    return join_paragraphs([f"# Table {table}", about, key_reference.format_columns(table)])


def _make_index() -> str:
    def link(rows: Iterable[tuple[str, str, str]]) -> str:
        return format_table(["page", ""], [[f"[{name}]({place})", about] for name, place, about in rows])

    def name(names: Iterable[str]) -> str:
        return ", ".join(f"`{one}`" for one in names)

    of_kind = key_reference.list_algorithms()
    keys = [(title, f"keys/{page}.md", name(groups)) for page, (title, groups, _, _) in KEYS.items()]
    keys += [
        (title, f"keys/{page}.md", name(one.name for one in of_kind[kind])) for page, (kind, title, *_) in KINDS.items()
    ]
    keys += [
        ("Profiles of hosts", "keys/profiles.md", name(read_registry().profiles)),
        ("Queue disciplines", "../algorithms/index.md", name(read_registry().aqm)),
        ("Congestion controls", "../algorithms/index.md", name(read_registry().cc)),
    ]
    tables = [(f"Table {table}", f"results/{table}.md", about) for table, about in columns.TABLES.items()]
    return join_paragraphs(
        [
            "# Keys of files, columns of results",
            "`dumbbell describe NAME` prints one entry of these pages, `dumbbell describe --all` prints them all.",
            "## Experiment files",
            key_reference.FILES,
            link(keys),
            f"`dumbbell describe --schema` prints a JSON Schema of these files. {json_schema.LIMITS}",
            "## Results",
            key_reference.RESULTS,
            link(tables),
        ]
    )


def make_pages() -> dict[str, str]:
    """Return every page by its place in docs/reference."""
    found = {"index.md": _make_index()}
    found |= {f"keys/{page}.md": _make_keys(page) for page in KEYS}
    found |= {f"keys/{page}.md": _make_kind(page) for page in KINDS}
    found["keys/profiles.md"] = _make_profiles()
    return found | {f"results/{table}.md": _make_table(table) for table in columns.COLUMNS}


def main() -> int:
    """Write every page, and remove pages of former tables."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for place, text in make_pages().items():
        file = FOLDER / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
