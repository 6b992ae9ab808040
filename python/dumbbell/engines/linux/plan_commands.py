"""The settings of a run as commands for people: `dumbbell tc FILE.toml`, `dumbbell run --show-commands`."""

import re
from collections.abc import Iterator

from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.mapping import Mapped, map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.file import Experiment


def format_commands(experiments: list[Experiment], kernel: Kernel) -> Iterator[str]:
    """Yield the commands of every cell; cells with the same commands are one text. Raises InputError."""
    cells: dict[str, list[str]] = {}
    for experiment in experiments:
        for cell in experiment.make_cells():
            if cell.seed != experiment.seeds[0]:
                continue
            try:
                text = "\n".join(list_commands(map_cell(cell, kernel)))
            except InputError as error:
                raise error.move_into(experiment.file) from None
            place = ", ".join(f"{key} = {value}" for key, value in cell.matrix.items())
            cells.setdefault(text, []).append(f"# {cell.experiment}: {place}" if place else f"# {cell.experiment}")
    for text, places in cells.items():
        yield "\n".join([*places, text])


def list_commands(plan: Mapped) -> list[str]:
    """Return the commands of a plan, what the guest's program does itself as comments; not who sends what when."""
    lines = [f"# on the kernel's command line: {' '.join(plan.arguments)}"] if plan.arguments else []
    controls = dict.fromkeys(re.findall(r"(?m)^tcp (?:\S+ ){7}(\S+)", plan.plan))
    for line in plan.plan.splitlines():
        word, _, rest = line.partition(" ")
        if word == "command":
            lines.append(rest)
        elif word == "at":
            time, _, text = rest.partition(" ")
            lines += [f"# at {int(time) / 1e9:g} s", text]
        elif word == "offload":
            space, device, *offloads, _mtu = rest.split()
            states = ", ".join(
                f"{name} {'on' if int(on) else 'off'}" for name, on in zip(("tso", "gso", "gro"), offloads, strict=True)
            )
            lines.append(f"# ethtool of {device} in {space}: {states}")
    return lines + [f"# setsockopt TCP_CONGESTION: {', '.join(controls)}"] * bool(controls)
