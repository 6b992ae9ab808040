"""The files that come with dumbbell: studies, with their experiments, references and statements.

A study is a folder. `STUDY/NAME` is the name of its experiment `experiments/NAME.toml`, where STUDY is the folder with
hyphens; references have names without a folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]
# in the folder of a study
EXPERIMENTS, REFERENCES, SUITE, PROGRAM, PAPER = "experiments", "references", "suite.toml", "study.py", "paper.py"


def place() -> Path:
    """Return the folder of the studies, as the package carries it or else that of the repository."""
    inside = PACKAGE / "studies"
    return (inside if inside.is_dir() else REPOSITORY / "studies").resolve()


def is_installed() -> bool:
    """Whether the studies are inside an installed package, into which nobody writes."""
    return place().is_relative_to(PACKAGE)


def name_study(folder: Path) -> str:
    """Return the name of the study in a folder."""
    return folder.name.replace("_", "-")  # Python has no packages with a hyphen


def list_studies() -> dict[str, Path]:
    """Return the folders of the studies by their names, such as `sce`."""
    return {name_study(path.parent): path.parent for path in sorted(place().glob(f"*/{PROGRAM}"))}


def list_papers() -> dict[str, Path]:
    """Return the programs that show a whole paper, by the names of their studies."""
    return {name_study(path.parent): path for path in sorted(place().glob(f"*/{PAPER}"))}


def list_experiments() -> dict[str, Path]:
    """Return the experiments by the names that `dumbbell run` takes, such as `sce/one-flow`."""
    found = sorted(place().glob(f"*/{EXPERIMENTS}/*.toml"))
    return {f"{name_study(path.parents[1])}/{path.stem}": path for path in found}


def list_references() -> dict[str, Path]:
    """Return published numbers and measurements of Linux by their names, such as `linux-6.12`."""
    return {path.stem: path for path in sorted(place().glob(f"*/{REFERENCES}/*.csv"))}


def list_suites() -> dict[str, Path]:
    """Return the suites of statements by the studies that they belong to, such as `coexistence`."""
    return {name_study(path.parent): path for path in sorted(place().glob(f"*/{SUITE}"))}


def find(name: str) -> Path | None:
    """Return the experiment called `name`, with or without its ending."""
    return list_experiments().get(name.removesuffix(".toml"))


def find_alike(name: str, known: Sequence[str] | Mapping[str, object]) -> str | None:
    """Return the only known name that ends like an unknown one, which names another folder."""
    ending = Path(name).name.removesuffix(".toml").removesuffix(".csv")
    alike = [one for one in known if "/" in name and Path(one).name == ending]
    return alike[0] if len(alike) == 1 else None
