"""`dumbbell linux`: kernels for the linux engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli.commands import CommandGroup
from dumbbell.engines.linux import build as building
from dumbbell.engines.linux import build_tools, kernels, sources
from dumbbell.engines.linux.work import KernelWork
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Conflict, Missing, UnknownName

linux = typer.Typer(cls=CommandGroup, rich_markup_mode=None)
Option = typer.Option


@linux.command()
def build(
    name: Annotated[str, Option(help="What the kernel will be called: --engine linux:NAME.")] = kernels.DEFAULT,
    version: Annotated[
        str | None,
        Option(
            metavar="VERSION", help=f"The distribution's linux-source-VERSION; {sources.DEFAULT_VERSION} by default."
        ),
    ] = None,
    tree: Annotated[
        str | None, Option(metavar="PATH", help="An unpacked kernel tree instead; it is not changed.")
    ] = None,
    patch: Annotated[
        list[str] | None, Option(metavar="FILE", help="A patch (-p1); several are applied in order.")
    ] = None,
    config: Annotated[
        str | None, Option(metavar="FILE", help="More of the configuration: CONFIG_NAME=y lines.")
    ] = None,
    jobs: Annotated[int | None, Option(min=1, help="Compilers at a time; all cores by default.")] = None,
    install: Annotated[bool, Option("--install", help="Install missing tools with apt-get, as root.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what there is to do, and leave.")] = False,
) -> None:
    """Build a kernel; what an earlier start has done already is not done again.

    All congestion controls (TCP_CONG_*) and queue disciplines (NET_SCH_*) that a tree or patch has are switched on.
    """
    wanted = building.KernelRequest(
        name=name,
        version=version,
        tree=Path(tree) if tree is not None else None,
        patches=tuple(Path(one) for one in patch or []),
        fragment=Path(config) if config is not None else None,
        jobs=jobs,
    )
    if dry_run and install:
        raise Conflict("--dry-run and --install", "one of them", command="linux build")
    if dry_run:
        print("\n".join(building.describe_plan(wanted)))
        return
    if install and (packages := build_tools.list_missing_packages(build_tools.BUILD_TOOLS)):
        told = StepProgress()
        told.print_line(f"installing {', '.join(packages)}")
        build_tools.install(packages)
    kernel = building.build(wanted, StepProgress())
    print(f"{kernel.name}: Linux {kernel.release}, {kernel.binary}")


@linux.command("list")
def list_() -> None:
    """List the kernels: name, release, digest, size, what they were made from, congestion controls."""
    found = kernels.list_installed()
    if not found:
        print("no kernels: dumbbell linux build")
        return
    rows = [("name", "release", "digest", "size", "made from", "congestion controls")]
    for kernel in found:
        size = f"{kernel.described.get('bytes', 0) / 1e6:.0f} MB"
        rows.append(
            (
                kernel.name,
                kernel.release,
                kernel.digest[:8],
                size,
                building.describe_origin(kernel.described),
                " ".join(kernel.congestion_controls),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@linux.command("keys")
def print_keys() -> None:
    """Print which keys of an experiment reach the kernel, what it is given in any case, and what is refused."""
    from dumbbell.engines.linux import reach

    print(reach.format_markdown(), end="")


@linux.command()
def remove(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Kernels, as dumbbell linux list has them.")
    ] = None,
    source_packages: Annotated[bool, Option("--sources", help="Unpacked source packages as well.")] = False,
) -> None:
    """Remove kernels and what was built for them."""
    if not names and not source_packages:
        raise Missing("names of kernels, or --sources", command="linux remove", key="NAME")
    for name in names or []:
        place, folder = kernels.find_folder(name), building.place_of(name)
        if not place.exists() and not folder.exists():
            known = [kernel.name for kernel in kernels.list_installed()]
            raise UnknownName(name, among=known or "there are no kernels", command="linux remove", what="kernel")
        with KernelWork(folder, StepProgress()):
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: removed")
    if source_packages:
        with building.lock_sources(StepProgress()):
            shutil.rmtree(building.store(), ignore_errors=True)
        print("sources: removed")
