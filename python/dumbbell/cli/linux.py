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
    name: Annotated[str, Option(metavar="NAME", help="Name of the kernel, for --engine linux:NAME.")] = kernels.DEFAULT,
    version: Annotated[
        str | None,
        Option(
            metavar="VERSION", help=f"The distribution's linux-source-VERSION. By default, {sources.DEFAULT_VERSION}."
        ),
    ] = None,
    tree: Annotated[
        str | None, Option(metavar="DIR", help="Build this unpacked kernel tree instead, which is not changed.")
    ] = None,
    patch: Annotated[
        list[str] | None, Option(metavar="FILE", help="Apply a patch (-p1). May be repeated, in order.")
    ] = None,
    config: Annotated[str | None, Option(metavar="FILE", help="Add lines CONFIG_NAME=y to the configuration.")] = None,
    jobs: Annotated[
        int | None, Option(min=1, metavar="N", help="Compilers at a time. By default, one per core.")
    ] = None,
    install: Annotated[bool, Option("--install", help="First install missing tools with apt-get, as root.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be done, and exit.")] = False,
) -> None:
    """All congestion controls (TCP_CONG_*) and queue disciplines (NET_SCH_*) of the tree are enabled."""
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
    """The command also prints what the kernel gets for every experiment, and which keys are refused."""
    from dumbbell.engines.linux import reach

    print(reach.format_markdown(), end="")


@linux.command()
def remove(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Kernels of dumbbell linux list.")
    ] = None,
    source_packages: Annotated[bool, Option("--sources", help="Also remove unpacked source packages.")] = False,
) -> None:
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
