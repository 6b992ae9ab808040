"""The experiments of a study, and running them."""

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from dumbbell.errors import UnknownName
from dumbbell.experiment import Experiment, load, shipped
from dumbbell.experiment.plugins import built


@dataclass(frozen=True)
class Sweep:
    """Experiments whose results go to one file.

    `experiments` are files of the study's own folder `experiments`, or experiments of `dumbbell list`, by name or
    pattern (`sce/one-flow*`). `settings` replace keys, `KEY=VALUE`; `quick` do so, too, in a quick run.
    """

    results: str
    experiments: tuple[str, ...]
    settings: tuple[str, ...] = ()
    engine: str = "sim"
    quick: tuple[str, ...] = ("seeds=[1]",)

    def list_files(self, folder: Path) -> list[str]:
        """Return the files and names that the experiments are; `folder` is that of the study."""
        own = {path.stem: str(path) for path in sorted((folder / shipped.EXPERIMENTS).glob("*.toml"))}
        found: dict[str, None] = {}
        for wanted in self.experiments:
            for known in (own, {name: name for name in shipped.list_experiments()}):
                if names := [name for name in known if fnmatch(name, wanted)]:
                    found.update(dict.fromkeys(known[name] for name in names))
                    break
            else:
                known_names = [*own, *shipped.list_experiments()]
                raise UnknownName(wanted, among=known_names, file=folder.name, key="RUNS", what="experiment")
        return list(found)

    def load_experiments(self, folder: Path, *, quick: bool = False) -> list[Experiment]:
        """Return the experiments with their settings."""
        settings = {one.partition("=")[0]: one for one in (*self.settings, *(self.quick if quick else ()))}
        return [load(file, list(settings.values())) for file in self.list_files(folder)]

    def list_missing_stacks(self, folder: Path) -> list[str]:
        """Return the QUIC stacks that the experiments name and that are not built."""
        texts = [(shipped.find(file) or Path(file)).read_text(encoding="utf-8") for file in self.list_files(folder)]
        return sorted({stack for text in texts for stack in built.list_missing(text)})
