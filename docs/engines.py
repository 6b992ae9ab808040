"""Writes docs/validation-engines.md: experiments/engines/agree.toml on the simulator and on Linux (make agree)."""

import sys
from pathlib import Path

from dumbbell import engines

PAGE = Path(__file__).with_name("validation-engines.md")
TEXT = """\
# Simulator and Linux: one file, two engines

Written by `make agree`: the 48 cells of [experiments/engines/agree.toml](../experiments/engines/agree.toml), one flow
each, from the same file on the simulator and on the kernel itself, in virtual time ([linux.md](linux.md)). Cells are
means over their seeds.
"""


def main() -> None:
    """Compare the two engines of a results file."""
    compared = engines.compare(sys.argv[1])
    text = f"{TEXT}\n{engines.markdown(compared)}\n"
    PAGE.write_text(text, encoding="utf-8")


main()
