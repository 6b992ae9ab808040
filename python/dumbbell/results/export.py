"""Tables of a results file as files of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import polars as pl

from dumbbell.errors import Unwritable
from dumbbell.results.store import TABLES, Store
from dumbbell.scratch import Scratch
from dumbbell.writing import get_reason


def export_tables(
    results: str | Path, folder: Path, ending: Literal["csv", "parquet"], keys: Iterable[str] | None = None
) -> list[Path]:
    """Write every table into a folder, with the runs of `keys` or all, and return the files; raises InputError.

    All files appear, or none: files that exist are not written over, and a folder that was made goes again.
    """
    paths = {name: folder / f"{name}.{ending}" for name in TABLES}
    chosen = None if keys is None else pl.DataFrame({"key": list(keys)})
    with Store.open(results) as store:
        for path in paths.values():
            if path.exists():
                raise Unwritable("this file already exists", "another name", file=path)
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with Scratch(folder) as draft:
                for name, path in paths.items():
                    rows = store.read_table(name)
                    if chosen is not None:
                        rows = rows.join(chosen, on="key", how="semi", maintain_order="left")
                    if ending == "parquet":
                        rows.write_parquet(draft / path.name)
                    else:
                        rows.write_csv(draft / path.name)
                for path in paths.values():
                    (draft / path.name).rename(path)
        except BaseException as error:
            if is_new:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if not isinstance(error, OSError | pl.exceptions.PolarsError):
                raise
            raise Unwritable(get_reason(error), "a folder that can be written to, with space", file=folder) from None
    return list(paths.values())
