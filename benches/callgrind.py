"""Counts what a program executes, by callgrind, and reads what it wrote."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


@dataclass(frozen=True)
class Cost:
    """What was counted at one place of a function: its own, or that of a call from there (`called` names whom)."""

    object: str
    function: str
    place: int  # an address with --dump-instr=yes, otherwise a line
    counts: tuple[int, ...]  # in the order of the events
    called: tuple[str, str] | None = None  # object and function


@dataclass(frozen=True)
class Profile:
    """One run: what the program printed, which events were counted, and where."""

    printed: str
    events: tuple[str, ...]
    costs: list[Cost]

    def sum_object(self, object_: str) -> int:
        """Return how many instructions the code of one object executed itself."""
        return sum(cost.counts[0] for cost in self.costs if cost.called is None and cost.object == object_)


def works() -> bool:
    """Tell whether callgrind is installed and can run a program here."""
    if shutil.which("valgrind") is None:
        return False
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run(program: Path, arguments: Sequence[str], *options: str) -> Profile:
    """Run a program under callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *options, str(program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
        with out.open(encoding="utf-8", errors="replace") as lines:
            events, costs = read(lines)
    return Profile(done.stdout, events, costs)


def read(lines: Iterator[str]) -> tuple[tuple[str, ...], list[Cost]]:
    """Read a file of callgrind's: the events, and the costs in the order of the file."""
    events: tuple[str, ...] = ()
    costs: list[Cost] = []
    names: dict[str, dict[str, str]] = {"ob": {}, "fn": {}, "file": {}}

    def name(kind: str, text: str) -> str:
        found = NAME.match(text)
        if found is None:
            return text
        number, said = found.groups()
        if said:
            names[kind][number] = said
        return names[kind][number]

    object_ = function = called_object = called = ""
    place, calls = 0, False
    for line in lines:
        key, equals, value = line.rstrip("\n").partition("=")
        match key:
            case "ob" if equals:
                object_ = name("ob", value)
            case "fn" if equals:
                function, called_object = name("fn", value), ""
            case "cob" if equals:
                called_object = name("ob", value)
            case "cfn" if equals:
                called = name("fn", value)
            case "calls" if equals:
                calls = True
            case "fl" | "fi" | "fe" | "cfi" | "cfl" if equals:
                name("file", value)
            case _ if line[:1].isdigit() or line[:1] in {"+", "-", "*"}:
                at, *numbers = line.split()
                place = place if at == "*" else place + int(at, 0) if at[0] in "+-" else int(at, 0)
                counts = tuple(int(number) for number in numbers) + (0,) * (len(events) - len(numbers))
                whom = (called_object or object_, called) if calls else None
                costs.append(Cost(object_, function, place, counts, whom))
                if calls:
                    calls, called_object = False, ""
            case _ if line.startswith("events:"):
                events = tuple(line.split()[1:])
    return events, costs
