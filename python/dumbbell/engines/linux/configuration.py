"""The kernel's configuration: ours, the user's, and what came of it."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from dumbbell.errors import Failed, WrongValue, quote_value

OURS = Path(__file__).with_name("kernel.config")
_ALGORITHM = re.compile(r"^\s*config\s+((?:TCP_CONG|NET_SCH)_\w+)", re.MULTILINE)
_NOT_OURS = re.compile(r"TCP_CONG_ADVANCED|NET_SCH_DEFAULT")  # menus of their own


def parse(text: str, where: str) -> dict[str, str]:
    """Return the values of a configuration or fragment by symbol, without CONFIG_; modules count as built in.

    Raises InputError for a line that is none of a configuration.
    """
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.fullmatch(r"CONFIG_(\w+)=(.*)", line.strip()):
            values[match[1]] = "y" if match[2] == "m" else match[2]
        elif match := re.fullmatch(r"# CONFIG_(\w+) is not set", line.strip()):
            values[match[1]] = "n"
        elif line.strip() and not line.lstrip().startswith("#"):
            raise WrongValue(
                quote_value(line.strip()),
                "CONFIG_NAME=VALUE, or # CONFIG_NAME is not set",
                file=where,
                key=f"line {number}",
            )
    return values


def read_value(text: str, symbol: str) -> str:
    """Return the value of `symbol` in a configuration without its quotes; empty if it is off."""
    match = re.search(rf"^CONFIG_{symbol}=\"?(.*?)\"?$", text, re.MULTILINE)
    return match[1] if match else ""


def compute_digest(fragment: str) -> str:
    """Return a hash of what is asked for: our configuration and the user's fragment."""
    asked = [parse(OURS.read_text(encoding="utf-8"), str(OURS)), parse(fragment, "")]
    return hashlib.sha256(repr(asked).encode()).hexdigest()


def make_configuration(tree: Path, fragment: str) -> str:
    """Return the configuration to ask `tree` for: ours, all its TCP_CONG_* and NET_SCH_*, the fragment."""
    values = parse(OURS.read_text(encoding="utf-8"), str(OURS))
    for file in sorted((tree / "net").rglob("Kconfig*")):
        found = _ALGORITHM.findall(file.read_text(encoding="utf-8", errors="replace"))
        values |= {symbol: "y" for symbol in found if not _NOT_OURS.fullmatch(symbol)}
    values |= parse(fragment, "")
    return "".join(f"CONFIG_{symbol}={value}\n" for symbol, value in values.items())


def check_taken(final: str, fragment: str, where: str) -> None:
    """Raise InputError if a line of the user's fragment is not what the final configuration has."""
    have = parse(final, "")
    for symbol, asked in parse(fragment, where).items():
        if have.get(symbol, "n") != asked:
            found = f"{asked} was asked for, and the kernel sets {have.get(symbol, 'n')}"
            raise Failed(found, "symbols of this kernel, with what they depend on", file=where, key=f"CONFIG_{symbol}")


def list_algorithms(tree: Path, final: str) -> tuple[list[str], list[str]]:
    """Return the names of congestion controls and queue disciplines of `tree` that the configuration `final` has on."""
    controls = {"reno"}
    for text in _list_sources(tree / "net/ipv4", final, "TCP_CONG_"):
        controls |= set(re.findall(r"^\s*\.name\s*=\s*\"([\w-]+)\"", text, re.MULTILINE))
    qdiscs = {"pfifo_fast", "mq", "noqueue", "blackhole"}  # of sch_generic.c and its neighbours, always there
    for text in _list_sources(tree / "net/sched", final, "NET_SCH_"):
        qdiscs |= set(re.findall(r"^\s*\.id\s*=\s*\"(\w+)\"", text, re.MULTILINE))
    return sorted(name for name in controls if not name.endswith("-reno")), sorted(qdiscs)


def read_bbr_version(tree: Path) -> int:
    """Return the version of BBR in the tcp_bbr.c of `tree`: BBRv3 defines its number, BBRv1 has none."""
    file = tree / "net/ipv4/tcp_bbr.c"
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    version = re.search(r"^#define\s+BBR_VERSION\s+(\d+)", text, re.MULTILINE)
    return int(version[1]) if version else 1


def _list_sources(folder: Path, final: str, prefix: str) -> Iterator[str]:
    """Yield the sources that the Makefile of `folder` compiles for the symbols with `prefix` that are on."""
    makefile = (folder / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(rf"^obj-\$\(CONFIG_({prefix}\w+)\)\s*\+=(.*)$", makefile, re.MULTILINE)
    for symbol, objects in lines:
        if read_value(final, symbol) != "y":
            continue
        for stem in (one.removesuffix(".o") for one in objects.split()):
            parts = re.findall(rf"^{re.escape(stem)}-(?:y|objs)\s*[:+]?=(.*)$", makefile, re.MULTILINE)
            for one in [stem, *(part.removesuffix(".o") for line in parts for part in line.split())]:
                if (file := folder / f"{one}.c").exists():
                    yield file.read_text(encoding="utf-8", errors="replace")
