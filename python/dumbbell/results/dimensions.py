"""Distinguishes the runs of a results file: the keys of their configurations that differ."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dumbbell.errors import InputError
from dumbbell.experiment import app, matrix, plugins, schema, spelling, switches, units
from dumbbell.experiment.net import EVERY, UNTIL
from dumbbell.experiment.override import find_param, has_value
from dumbbell.experiment.registry import Param, read_registry

NOTHING = "-"  # the text of a key that a run has not, or that another of its keys turns off
# keys whose tables say by their `name` what else is in them
_ALGORITHMS = ("aqm", "cc", "kind")
_CLOCK = ("duration", "start", "stop", "at", "until")  # times of a run, in seconds; all others are in ms


def _find_param(path: matrix.Path) -> Param | None:
    """Return the parameter of a value, also of the times of `bottleneck.rate_changes`, which no section declares."""
    if "rate_changes" in path and path[-1] in ("at", EVERY.name, UNTIL.name):
        return {EVERY.name: EVERY, UNTIL.name: UNTIL}.get(str(path[-1]), read_registry().sections["run"]["duration"])
    return find_param(path)


def spell_path_value(path: matrix.Path, value: Any, param: Param | None = None) -> str:
    """Return a canonical value of a run's configuration as an experiment file would have it.

    `param` is what the path leads to, where algorithms have parameters of one name and different units.
    """
    param = param or _find_param(path)
    if param is not None and (param.kind in ("arrivals", "sizes", "trace") or not isinstance(value, dict)):
        text = spelling.show_value(param, value)
        return text if text != "0ns" else "0s" if path[-1] in _CLOCK else "0ms"
    if isinstance(value, dict) and "name" in value:
        return _format_algorithm(value, _list_unusual(value))
    if isinstance(value, dict) and path[-1] in ("hosts", "record"):
        return _format_section(str(path[-1]), value)
    if isinstance(value, dict) and value.keys() == {"min", "max"}:
        first, last = value["min"] / 1e9, value["max"] / 1e9
        return f"{first:g}s" if first == last else f"{first:g}..{last:g}s"
    if isinstance(value, list) and path[-1] in schema.PATH_KEYS:
        return " + ".join(spell_path_value((*path, index), stage) for index, stage in enumerate(value)) or "none"
    if isinstance(value, dict) and path[-1] == "rate_changes":
        rates = ", ".join(units.show("rate", rate) for rate in value["rates"])
        until = f" until {units.show('time', value['until'])}" if value["until"] is not None else ""
        return f"{rates} every {units.show('time', value['every'])}{until}"
    if isinstance(value, list) and path[-1] == "rate_changes":
        texts = [[spell_path_value((*path, i, key), one[key]) for key in ("rate", "at")] for i, one in enumerate(value)]
        return " + ".join(f"{rate} at {at}" for rate, at in texts) or "none"
    if isinstance(value, dict) and "aqm" in value:  # a hop as a whole, where others have none
        return f"{spell_path_value((*path, 'rate'), value['rate'])} {spell_path_value((*path, 'aqm'), value['aqm'])}"
    if isinstance(value, list) and path[-1] == "hop":
        return " + ".join(one["name"] for one in value) or "none"
    if isinstance(value, list) and path[-1] in schema.SENDERS:
        return " + ".join(f"{one.get('count', 1)} {_name_sender(one)}" for one in value) or "none"
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)


def _name_sender(one: dict[str, Any]) -> str:
    """Return the name of an application, or else of a congestion control; "udp" of UDP."""
    if "kind" in one:
        return app.describe(one)
    return str(one["cc"]["name"]) if "cc" in one else "udp"


def _list_params(value: dict[str, Any]) -> dict[str, Param]:
    if "name" not in value:
        return {}
    known = plugins.find_algorithm(value, read_registry().algorithms)
    return known.params if known else {}


def _list_unusual(value: dict[str, Any]) -> list[str]:
    """Return the parameters of an algorithm that are not as usual."""
    params = _list_params(value)
    own = ("name", "plugin", "control") if "plugin" in value else ("name",)  # a stack's name has its control
    return [k for k, v in value.items() if k not in own and (k not in params or params[k].default != v)]


def _format_algorithm(value: dict[str, Any], stated: Iterable[str]) -> str:
    """Return an algorithm with parameters, `codel(ecn=true)`."""
    params = _list_params(value)
    texts = {k: spelling.show_value(params[k], value[k]) if k in params else str(value[k]) for k in stated}
    inside = ", ".join(f"{k}={text}" for k, text in texts.items())
    return plugins.name_algorithm(value) + (f"({inside})" if inside else "")


def distinguish_texts(dimension: Dimension, configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return for each text of a dimension one that says by itself what it is.

    Of several settings of one algorithm each states what any of them states: with `codel(ecn=true)`, `codel` is
    `codel(ecn=false)`.
    """
    said = {text: text for text in dimension.texts.values()}
    alike: dict[str, dict[str, dict[str, Any]]] = {}
    for cell, text in dimension.texts.items():
        held = matrix.get_path(configs[cell], dimension.path) if dimension.path else []
        if held and isinstance(held[0], dict) and "name" in held[0] and all(one == held[0] for one in held):
            alike.setdefault(plugins.name_algorithm(held[0]), {})[text] = held[0]
    for values in alike.values():
        stated = {name for value in values.values() for name in _list_unusual(value)}
        if len(values) > 1 and all(stated <= value.keys() for value in values.values()):
            said |= {
                text: _format_algorithm(value, [k for k in value if k in stated]) for text, value in values.items()
            }
    return said


def _format_section(section: str, value: dict[str, Any]) -> str:
    """Return a whole section by what is not as usual: `linux-5.1(ecn=false)`, `record(trace=100ms)`."""
    params = read_registry().sections[section]
    usual = {key: param.default for key, param in params.items()}
    name = section
    if profile := read_registry().profiles.get(value.get("profile", "")):
        name = value["profile"]
        usual |= {"profile": name} | profile.hosts
    unusual = {key: one for key, one in value.items() if key not in usual or usual[key] != one}
    inside = ", ".join(f"{key}={spell_path_value((section, key), one)}" for key, one in unusual.items())
    return name + (f"({inside})" if inside else "")


@dataclass(frozen=True)
class Scale:
    """How a parameter's canonical numbers are shown as numbers: divided by `size`, in `unit`."""

    unit: str
    size: int


def scale_of(path: matrix.Path, param: Param | None = None) -> Scale | None:
    """Return the scale of a time, rate or size; None of everything else."""
    param = param or _find_param(path)
    if path[-1] == "start":
        return Scale("s", units.TIME["s"])
    kind = spelling.find_unit_kind(param) if param else None
    if kind == "time":
        unit = "s" if path[-1] in _CLOCK else "ms"
        return Scale(unit, units.TIME[unit])
    return {"rate": Scale("mbit", units.RATE["Mbit"]), "size": Scale("bytes", 1)}.get(kind or "")


@dataclass(frozen=True)
class Dimension:
    """One key by which runs differ: its name, and the text and the typed value that each cell has for it.

    A cell that has no such key, or in which another key turns it off, has the text `-` and the value None. Keys that
    change together are one dimension with all of their names: `keys` are those that it joins.
    """

    name: str
    path: matrix.Path | None
    texts: dict[str, str]
    values: dict[str, Any]
    keys: tuple[Dimension, ...] = ()
    param: Param | None = None

    @property
    def parts(self) -> tuple[Dimension, ...]:
        """The keys that it joins, or itself."""
        return self.keys or (self,)

    @property
    def unit(self) -> str:
        """The unit of its numbers, if they are times, rates or sizes."""
        first = self.parts[0]
        scale = scale_of(first.path, first.param) if first.path and self.is_numeric else None
        return scale.unit if scale else ""

    @property
    def counted(self) -> str:
        """What its numbers count, if they have no unit: `packets`."""
        param = self.parts[0].param
        return param.unit if param and self.is_numeric and not self.unit and param.kind == "int" else ""

    @property
    def column(self) -> str:
        """Name of its column in a frame: the key with the unit of its numbers."""
        return self.name + (f"_{self.unit}" if self.unit else "")

    def is_any_of(self, names: Collection[str]) -> bool:
        """Whether one of `names` is its name, its last word, or that of a key that it joins."""
        return any(name in names for one in (self, *self.keys) for name in (one.name, one.word))

    @property
    def is_numeric(self) -> bool:
        """Whether all its values are numbers."""
        return bool(self.kinds) and self.kinds <= {int, float}

    @cached_property
    def kinds(self) -> set[type]:
        """The types of its values, where it has one."""
        return set(map(type, self.values.values())) - {type(None)}

    @cached_property
    def numbers(self) -> dict[str, float] | None:
        """The number that each text stands for, if all its values are numbers."""
        if not self.is_numeric:
            return None
        return {text: float(self.values[cell]) for cell, text in self.texts.items() if text != NOTHING}

    @property
    def word(self) -> str:
        """The last word of the key, or of the first of several."""
        return self.parts[0].name.rpartition(".")[2]

    @property
    def ordered(self) -> list[str]:
        """Its texts, each once: numbers ascending, the others as they first come, `-` last."""
        cells = list(self.texts)
        if self.kinds and self.kinds <= {int, float, bool}:
            cells.sort(key=lambda cell: (self.values[cell] is None, self.values[cell] or 0))
        texts = list(dict.fromkeys(self.texts[cell] for cell in cells))
        return sorted(texts, key=lambda text: text == NOTHING)

    def format_text(self, text: str) -> str:
        """Return a value with the last word of its key; an algorithm says by itself what it is."""
        if (
            self.keys
            or self.word in _ALGORITHMS
            or self.name
            in (
                "flow",
                "class",
                matrix.SETTING,
                "experiment",
                "title",
                "engine_version",
                "kernel",
            )
        ):
            return text
        return f"{self.word} {text}"

    def select_cells(self, cells: Iterable[str]) -> Dimension:
        """Return the same key of some of the cells."""
        kept = [cell for cell in cells if cell in self.texts]
        texts, values = ({c: own[c] for c in kept} for own in (self.texts, self.values))
        return Dimension(
            self.name, self.path, texts, values, tuple(key.select_cells(kept) for key in self.keys), self.param
        )


def convert_value(path: matrix.Path, value: Any, param: Param | None = None) -> Any:
    """Return a canonical value as a number in its unit, a bool or text."""
    if isinstance(value, dict) and value.keys() == {"min", "max"} and value["min"] == value["max"]:
        value = value["min"]
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        scale = scale_of(path, param)
        if scale is None:
            return value
        whole, rest = divmod(value, scale.size)
        return whole if rest == 0 and scale.unit == "bytes" else value / scale.size
    return spell_path_value(path, value, param)


def make_dimension(
    name: str,
    path: matrix.Path,
    configs: dict[str, dict[str, Any]],
    *,
    unused: bool = False,
    plain: bool = False,
) -> Dimension:
    """Return what each configuration has at `path`: one value, or the different ones of several places.

    With `unused`, what another key turns off is said, too. With `plain`, the value of an unset key is None, and
    numbers are numbers whether they count packets or bytes.
    """
    texts: dict[str, str] = {}
    values: dict[str, Any] = {}
    known: dict[str, tuple[str, Any]] = {}
    held = {cell: _find_values(path, config) for cell, config in configs.items()}
    params = {(p.unit, p.kind): p for found in held.values() for _, used, p in found if used and p is not None}
    unlike_units = len(params) > 1
    for cell, found in held.items():
        only_one = found[0][0] if len(found) == 1 else None
        code = repr([one for one, _, _ in found]) if not isinstance(only_one, int | float | str) else ""
        code += f"{type(only_one).__name__} {only_one} {[(used, p and p.unit) for _, used, p in found]}"
        if code not in known:
            said = [(value, param) for value, used, param in found if used]
            different = list(dict.fromkeys(_show_value(path, *one, unit=unlike_units) for one in said))
            text = " / ".join(different) or NOTHING
            value = (convert_value(path, *said[0]) if len(different) == 1 else text) if said else None
            if plain and all(value is None for value, _ in said):
                value = None
            if unused and not said and found:
                value = text = f"{spell_path_value(path, found[0][0], found[0][2])} (not used)"
            known[code] = (text, text if unlike_units and not plain and value is not None else value)
        texts[cell], values[cell] = known[code]
    kinds = set(map(type, values.values())) - {type(None)}
    if not kinds <= {int, float} and kinds != {bool}:
        values = {cell: text if values[cell] is not None else None for cell, text in texts.items()}
    only = next(iter(params.values())) if len(params) == 1 else None
    return Dimension(name, path, texts, values, param=only)


def _show_value(path: matrix.Path, value: Any, param: Param | None, *, unit: bool) -> str:
    """Return a value as a file has it; with what it counts, if `unit` and it does not say that itself."""
    text = spell_path_value(path, value, param)
    counts = unit and value is not None and param and param.unit and not spelling.find_unit_kind(param)
    return f"{text} {param.unit}" if counts else text  # type: ignore[union-attr]


def _find_values(path: matrix.Path, config: dict[str, Any]) -> list[tuple[Any, bool, Param | None]]:
    """Return the values at a path, and of each whether it counts, and the parameter of the algorithm that it is."""
    last = path[-1]
    if not isinstance(last, str) or len(path) < 2:
        return [(value, True, None) for value in matrix.get_path(config, path)]
    holders = [one for one in matrix.get_path(config, path[:-1]) if isinstance(one, dict) and last in one]
    return [(one[last], not switches.explain_off(path, one), _list_params(one).get(last)) for one in holders]


def drop_seed(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without its seed: that of a cell."""
    return {key: value for key, value in config.items() if key != "seed"}


def find_unlike_paths(path: matrix.Path, values: Sequence[Any]) -> list[matrix.Path]:
    """Return the paths below `path` at which `values`, one per cell, are not all the same, as deep as they reach."""
    first = values[0]
    if all(value == first for value in values):
        return []
    if all(isinstance(value, dict) for value in values) and all(v.keys() == first.keys() for v in values):
        if first.keys() in ({"min", "max"}, {"file", "schedule"}) or any(
            v.get("name") != first.get("name") for v in values
        ):
            return [path]
        return [p for key in first for p in find_unlike_paths((*path, key), [value[key] for value in values])]
    if all(isinstance(value, list) and len(value) == len(first) for value in values) and path[-1] != "empirical":
        return [p for i in range(len(first)) for p in find_unlike_paths((*path, i), [value[i] for value in values])]
    return [path]


def find_leaf(path: matrix.Path, configs: dict[str, dict[str, Any]]) -> matrix.Path:
    """Return the one parameter by which the algorithm at `path` differs; `path` itself if there is not just one."""
    found = [matrix.get_path(config, path) for config in configs.values()]
    if path[-1] not in _ALGORITHMS or any(len(values) != 1 or not isinstance(values[0], dict) for values in found):
        return path
    leaves = find_unlike_paths(path, [values[0] for values in found])
    return leaves[0] if len(leaves) == 1 else path


def find_path(
    name: str, configs: Collection[dict[str, Any]], matrix_keys: Sequence[str], others: Sequence[str] = ()
) -> matrix.Path | None:
    """Return the path that `name` means: a dotted key, or the end of a key of the matrix, of `others`, or of a section.

    None if it means no key of `configs`, or not just one.
    """
    try:
        path = matrix.parse_path(name)
    except InputError:
        return None

    def is_known(key: matrix.Path) -> bool:
        return any(matrix.get_path(config, key) for config in configs)

    if name in ("cc", "base_rtt") and is_known(("flows", matrix.EVERY, name)):
        return ("flows", matrix.EVERY, name)
    if is_known(path):
        return path
    ends = [key for key in matrix_keys if key.rpartition(".")[2] == name]
    ends = ends or [key for key in others if key.rpartition(".")[2] == name]
    sections, inside, senders = (
        [f"{s}.{name}" for s in of if is_known(matrix.parse_path(f"{s}.{name}"))]
        for of in (("bottleneck", "bottleneck.aqm", "hosts", "flows[*]"), ("flows[*].cc",), ("web[*]", "udp[*]"))
    )
    for candidates in (ends, sections, inside, senders):
        if len(candidates) == 1:
            return matrix.parse_path(candidates[0])
    return None


def find_exact_path(name: str, configs: Iterable[dict[str, Any]]) -> matrix.Path | None:
    """Return the path that a dotted name spells, if configurations or experiment files have such a key."""
    try:
        path = matrix.parse_path(name)
    except InputError:
        return None
    known = len(path) > 1 and (has_value(path) or any(matrix.get_path(config, path) for config in configs))
    return path if known else None


def make_column(name: str, of_cell: dict[str, str]) -> Dimension:
    """Return a dimension that is not a key of the configuration: `experiment`, `engine_version`."""
    return Dimension(name, None, of_cell, dict(of_cell))
