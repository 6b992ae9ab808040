"""What comes with dumbbell: published experiments and references."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]
CLAIMS = "claims.toml"  # in a folder of experiments: what a paper says of them


def folder(name: str) -> Path:
    """Return `experiments`, `references` or `studies` as the package carries it, or else that of the repository."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else REPOSITORY / name


def experiments() -> dict[str, Path]:
    """Return the experiments by the names that `dumbbell run` takes, such as `sce/one-flow`."""
    place = folder("experiments")
    files = [path for path in sorted(place.glob("**/*.toml")) if path.name != CLAIMS]
    return {path.relative_to(place).with_suffix("").as_posix(): path for path in files}


def claims() -> dict[str, Path]:
    """Return the files of claims by the folders of experiments that they are in, such as `csaqm`."""
    place = folder("experiments")
    return {path.parent.relative_to(place).as_posix(): path for path in sorted(place.glob(f"**/{CLAIMS}"))}


def find(name: str) -> Path | None:
    """Return the experiment called `name`, with or without its ending."""
    return experiments().get(name.removesuffix(".toml"))
