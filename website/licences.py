"""THIRD_PARTY.md: the licences of all that a wheel of dumbbell bundles.

python -m website.licences    writes the file
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from website.markdown import ROOT, format_code, format_table, join_paragraphs

PAGE = ROOT / "THIRD_PARTY.md"
VEGA = Path("python/dumbbell/figures/vega")
PLAY = Path("web/play")
# data that comes with dumbbell and was measured or written by others
DATA = {
    "studies/sce/references/sce.csv": "figures of draft-heist-tsvwg-sce-one-and-two-flow-tests-00: facts from an "
    "Internet-Draft, under the IETF Trust's Legal Provisions",
    "studies/home/references/flent-rrul.csv": "figures of Flent files that their authors published: facts, no file of "
    "theirs is included",
}


def list_crates() -> list[dict[str, Any]]:
    """Return the crates of others that the extension is built from, as `cargo metadata` describes them."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    described = json.loads(done.stdout)
    packages = {one["id"]: one for one in described["packages"]}
    needs = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] in (None, "build") for kind in dep["dep_kinds"])
        ]
        for node in described["resolve"]["nodes"]
    }
    waiting = [key for key, one in packages.items() if one["name"] == "dumbbell-py"]
    found: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += needs[key]
    return sorted(
        (packages[key] for key in found if packages[key]["source"]), key=lambda one: (one["name"], one["version"])
    )


def list_packages() -> list[list[str]]:
    """Return name, version and licence of the packages of npm whose code is in the page of the playground."""
    read = json.loads((ROOT / PLAY / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    names = read[""]["dependencies"]
    return [
        [name, read[f"node_modules/{name}"]["version"], format_code(read[f"node_modules/{name}"]["license"])]
        for name in names
    ]


def make_page() -> str:
    """Return the text of THIRD_PARTY.md."""
    named = [line.split()[:2] for line in (ROOT / VEGA / "VERSIONS").read_text(encoding="utf-8").splitlines()]
    scripts = [[name, version, f"[BSD-3-Clause]({VEGA}/LICENSE-{name})"] for name, version in named]
    parts = [
        "# Licences of others",
        "A wheel of dumbbell bundles these beside its own code, which is MIT or Apache-2.0. Python packages that "
        "dumbbell depends on are installed next to it, not bundled. `python -m website.licences` writes this file.",
        "## Scripts of interactive figures",
        format_table(["script", "version", "licence"], scripts),
        "## Packages in the page of the playground",
        "The page contains the texts of their licences.",
        format_table(["package", "version", "licence"], list_packages()),
        "## Data",
        format_table(["file", "source"], [[format_code(file), text] for file, text in DATA.items()]),
        "## Rust crates, linked into the extension",
        format_table(
            ["crate", "version", "licence"],
            [[c["name"], c["version"], format_code(c["license"])] for c in list_crates()],
        ),
    ]
    return join_paragraphs(parts)


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
