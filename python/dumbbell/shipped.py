"""What comes with dumbbell: published experiments and references."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parents[1]


def folder(name: str) -> Path:
    """Return `experiments` or `references` as the package carries it, or else that of the repository."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else REPOSITORY / name


def experiments() -> dict[str, Path]:
    """Return the experiments by the names that `dumbbell run` takes, such as `sce/one-flow`."""
    place = folder("experiments")
    return {path.relative_to(place).with_suffix("").as_posix(): path for path in sorted(place.glob("**/*.toml"))}


def find(name: str) -> Path | None:
    """Return the experiment called `name`, with or without its ending."""
    return experiments().get(name.removesuffix(".toml"))
