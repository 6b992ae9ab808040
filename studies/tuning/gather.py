"""The searches of this study: fronts of parameters, and the experiments that compare them with defaults.

python -m studies.tuning.gather [FOLDER]

Carries out the searches in studies/tuning/searches, or continues them, with a results file for each in FOLDER. Writes
searches/fronts.csv, and experiments/home.toml and datacentre.toml: for each queue the defaults, and of the candidates
on its front that use the link as much as the defaults do, the one with the lowest delay. `dumbbell study run tuning`
runs these experiments with seeds that the searches have not seen.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import polars as pl

import dumbbell
from dumbbell.experiment import parse
from dumbbell.experiment.settings import format_toml
from dumbbell.experiment.toml_file import read_toml
from dumbbell.pages import study

STUDY = "tuning"
QUEUES = {"codel": "CoDel", "pie": "PIE", "pi2": "PI2"}
PLACES = {"home": "A home", "datacentre": "A datacentre"}
SCORES = ("delay", "delay_low", "delay_high", "use", "use_low", "use_high")
_AQM = "bottleneck.aqm."
SEEDS = [101, 102, 103, 104, 105]  # not those of the searches, in which the best candidates were lucky


def make_rows(found: dumbbell.Search, queue: str, place: str) -> pl.DataFrame:
    """Return the front of a search and the defaults, with the settings of each in words."""
    both = [found.front.with_columns(kind=pl.lit("front")), found.unchanged.with_columns(kind=pl.lit("default"))]
    rows = pl.concat(both, how="diagonal")
    texts = [
        ", ".join(one.removeprefix(_AQM).replace("=", " ") for one in found.list_settings(number))
        for number in rows["candidate"]
    ]
    return rows.select(
        pl.lit(place).alias("place"),
        pl.lit(queue).alias("queue"),
        "kind",
        "candidate",
        "seeds",
        pl.Series("settings", texts, dtype=pl.String),
        *SCORES,
    )


def choose_tuned(found: dumbbell.Search) -> int:
    """Return the candidate with the lowest delay of those on the front that use the link as much as the defaults."""
    least = found.unchanged["use"].item()
    return int(found.front.filter(pl.col("use") >= least).sort("delay")["candidate"][0])


def make_experiment(place: str, tables: dict[str, dict[str, Any]], tuned: dict[str, list[str]]) -> str:
    """Return the experiment that compares defaults with tuned parameters, as TOML."""
    first = dict(next(iter(tables.values())))
    matrix = first.pop("matrix")
    settings = []
    for queue, words in QUEUES.items():
        default = tables[queue]["bottleneck"]["aqm"]
        plain = {"name": default} if isinstance(default, str) else dict(default)
        own = dict(one.removeprefix(_AQM).split("=") for one in tuned[queue])
        values = {key: int(text) if text.isdigit() else text for key, text in own.items()}
        settings += [[f"{words}, defaults", plain], [f"{words}, tuned", plain | values]]
    lines = [
        f"# How much do the defaults of CoDel, PIE and PI2 cost? {PLACES[place]}. studies.tuning.gather wrote this.",
        f'title = "{PLACES[place]}: defaults and tuned parameters"',
        f"seeds = {SEEDS}",
        *(f"{key} = {format_toml(value)}" for key, value in first.items()),
        "",
        "[matrix]",
        '"setting, bottleneck.aqm" = [',
        *(f"    {format_toml(one)}," for one in settings),
        "]",
        *(f'"{key}" = {format_toml(values)}' for key, values in matrix.items()),
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Carry out the searches, and write what follows from them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    own = study.find(STUDY).folder
    rows = []
    for place in PLACES:
        tables, tuned = {}, {}
        for queue, words in QUEUES.items():
            file = own / "searches" / f"{queue}-{place}.toml"
            print(f"{words}, {place}", file=sys.stderr, flush=True)
            found = dumbbell.search(file, output=folder / f"{queue}-{place}.duckdb")
            rows.append(make_rows(found, words, place))
            tables[queue] = read_toml(file)["experiment"]
            tuned[queue] = found.list_settings(choose_tuned(found))
        text = make_experiment(place, tables, tuned)
        path = own / "experiments" / f"{place}.toml"
        path.write_text(text, encoding="utf-8")
        parse(read_toml(path), str(path))
    pl.concat(rows).with_columns(pl.col(SCORES).round_sig_figs(6)).write_csv(own / "searches" / "fronts.csv")


if __name__ == "__main__":
    main()
