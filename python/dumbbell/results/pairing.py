"""Pairs cells for comparison: the same ones of two results, or those that differ in one key alone."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import polars as pl

from dumbbell.errors import Nothing, Unfit, spell_option
from dumbbell.experiment import matrix
from dumbbell.results import dimensions as dims
from dumbbell.results import selecting, varying
from dumbbell.results.aggregate import ONLY_PARTS
from dumbbell.results.results import StoredResults
from dumbbell.words import format_count

_MOST_SETTINGS, _LONGEST = 6, 40  # settings that are listed, and characters of one


def pair_results(first: StoredResults, second: StoredResults) -> tuple[pl.DataFrame, list[str], tuple[str, str]]:
    """Return which cell of one answers which of the other: equal in every key that both know, or in their matrix.

    They are a frame with `pair`, the cells `a` and `b`, and `where` in words; lines to know of them; names of both.
    Raises InputError if there are none.
    """
    of_first, of_second = first.configurations, second.configurations
    known = _list_keys(of_first) & _list_keys(of_second)
    codes: list[dict[str, str]] = []
    for side in (of_first, of_second):
        codes.append({_hash_config(config, known): cell for cell, config in side.items()})
    same = [(codes[0][code], codes[1][code]) for code in codes[0] if code in codes[1]]
    changed = _pair_by_matrix(first, second, same)
    common = [*same, *changed]
    if not common:
        found = f"none of the {len(of_first)} and {len(of_second)} cells is in both, by configuration or by matrix"
        raise Nothing(found, f"results with cells of {first.path}", file=second.path)
    texts = first.name_cells()
    rows = [(i, a, b, texts[a]) for i, (a, b) in enumerate(common)]
    names = first.name_engines(), second.name_engines()
    if set(names[0].values()) == set(names[1].values()):  # kernels of one name may differ
        names = {version: version for version in names[0]}, {version: version for version in names[1]}
    said = [f"{one.path}, engine {', '.join(of.values())}" for one, of in zip((first, second), names, strict=True)]
    lines = [f"A: {said[0]}; B: {said[1]}."]
    if changed:
        settings = _describe_unlike([(of_first[a], of_second[b]) for a, b in changed])
        lines.append(f"Other settings in {len(changed)} of the cells, which are paired by matrix: {settings}.")
    only = len(of_first) - len(common), len(of_second) - len(common)
    if any(only):
        lines.append(f"Left out: {format_count(only[0], 'cell')} only in A, {only[1]} only in B.")
    unknown = sorted(_list_keys(of_first) ^ _list_keys(of_second))
    if unknown:
        lines.append(f"Keys that only one of them knows: {', '.join(unknown[:10])}.")
    lines += [f"{side}: {note}." for side, one in (("A", first), ("B", second)) for note in one.notes]
    return _make_pairs(rows), lines, ("A", "B")


def _pair_by_matrix(first: StoredResults, second: StoredResults, same: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs of the other cells that have the same values of the matrix: first those of one experiment."""
    found: list[tuple[str, str]] = []
    for columns in (("experiment", "matrix"), ("matrix",)):
        taken = [{pair[side] for pair in [*same, *found]} for side in (0, 1)]
        of_code: list[dict[tuple[str, ...], list[str]]] = [{}, {}]
        for side, results in enumerate((first, second)):
            for cell, *code in results.cells.select("cell", *columns).iter_rows():
                if cell not in taken[side]:
                    of_code[side].setdefault(tuple(code), []).append(cell)
        for place, cells in of_code[0].items():
            others = of_code[1].get(place, [])
            if len(cells) == len(others) == 1:
                found.append((cells[0], others[0]))
    return found


def _describe_unlike(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return in words in which keys pairs of configurations differ, and from what to what in the first of them."""
    found: dict[str, str] = {}
    for a, b in pairs:
        for path in dims.find_unlike_paths((), [dims.drop_seed(a), dims.drop_seed(b)]):
            values = [dims.spell_path_value(path, value) for one in (a, b) for value in matrix.get_path(one, path)]
            found.setdefault(matrix.format_path(path), " to ".join(map(_shorten_text, values)))
    if "hosts.profile" in found:  # it sets other switches, which go without saying
        found = {key: text for key, text in found.items() if key == "hosts.profile" or not key.startswith("hosts.")}
    listed = [f"{key} from {text}" for key, text in list(found.items())[:_MOST_SETTINGS]]
    more = len(found) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


def _shorten_text(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _make_pairs(rows: list[tuple[int, str, str, str]]) -> pl.DataFrame:
    schema = {"pair": pl.Int64, "a": pl.String, "b": pl.String, "where": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _list_keys(configs: dict[str, dict[str, Any]]) -> set[str]:
    """Return the keys of configurations, indexes of lists left out."""
    found: set[str] = set()

    def walk(value: Any, place: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{place}.{key}" if place else key)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, place)
        else:
            found.add(place)

    for config in configs.values():
        walk(config, "")
    return found


def _hash_config(config: dict[str, Any], known: set[str]) -> str:
    """Return a hash of a configuration without seed and without keys that are not in `known`."""

    def keep_known(value: Any, place: str) -> Any:
        if isinstance(value, dict):
            inner = {
                key: keep_known(one, f"{place}.{key}" if place else key) for key, one in value.items() if key != "seed"
            }
            return {key: one for key, one in inner.items() if one is not _NOTHING}
        if isinstance(value, list):
            return [keep_known(one, place) for one in value]
        return value if place in known else _NOTHING

    text = json.dumps(keep_known(config, ""), sort_keys=True, default=lambda _: None)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


_NOTHING = object()


def pair_by_key(results: StoredResults, by: str) -> tuple[pl.DataFrame, list[str], tuple[str, str]]:
    """Return which cells differ in the key `by` alone."""
    name, _, wanted = by.partition("=")
    if name.strip() in ONLY_PARTS and not results.is_of_runs(name.strip()):
        allowed = f"a key of runs; {spell_option('where')} chooses among flows and classes"
        raise Unfit(f"{name.strip()} distinguishes parts of one run", allowed, option="--by")
    dimension = results.find_key(name.strip(), "--by")
    values = dimension.ordered
    if wanted:
        values = selecting.select_dimension_texts(dimension, wanted.strip(), results.configurations, "--by")
    if len(values) < 2:
        raise Unfit(
            f"{name} has one value, {', '.join(values)}", "a key with two or more", file=results.path, option="--by"
        )
    if len(values) > 2:
        shown = ", ".join(values)
        two = f"two of them, such as {name}={values[0]},{values[1]}"
        raise Unfit(f"it has {len(values)} values: {shown}", two, option="--by", key=name)
    cells = [cell for cell, text in dimension.texts.items() if text in values]
    others = varying.find_undetermined(
        [one.select_cells(cells) for one in results.varying], [dimension.select_cells(cells)], cells
    )
    # what follows from the key in every pair is part of the difference
    sides: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in cells:
        place = tuple(one.texts[cell] for one in others)
        sides.setdefault(place, {})[dimension.texts[cell]] = cell
    both = {place: side for place, side in sides.items() if len(side) == 2}
    if not both:
        raise Unfit(
            f"other keys change together with {name}",
            f"cells that differ only in {name}",
            file=results.path,
            option="--by",
        )
    rows = [
        (
            i,
            side[values[0]],
            side[values[1]],
            ", ".join(one.format_text(t) for one, t in zip(others, place, strict=True)),
        )
        for i, (place, side) in enumerate(both.items())
    ]
    lines = [f"{results.path}: {name.strip()} {values[0]} (A) against {values[1]} (B)."]
    if len(sides) > len(both):
        lines.append(f"Left out: {format_count(len(sides) - len(both), 'cell')} that only one of the two has.")
    lines += [f"{note}." for note in results.notes]
    unlike = _list_other_differences(results, rows, [one.path for one in dimension.parts if one.path is not None])
    if unlike:
        lines.append(f"They differ in {', '.join(unlike)} as well.")
    return _make_pairs(rows), lines, ("A", "B")


def _list_other_differences(
    results: StoredResults, rows: list[tuple[int, str, str, str]], paths: list[matrix.Path]
) -> list[str]:
    """Return the keys, other than those at `paths`, in which the cells of the pairs differ."""
    configs = results.configurations
    found: dict[str, None] = {}
    for _, a, b, _ in rows:
        for other in dims.find_unlike_paths((), [dims.drop_seed(configs[a]), dims.drop_seed(configs[b])]):
            if not any(_is_inside(other, path) for path in paths):
                found[matrix.format_path(other)] = None
    return list(found)


def _is_inside(path: matrix.Path, outer: matrix.Path) -> bool:
    steps = zip(path, outer, strict=False)
    return len(path) >= len(outer) and all(a == b or (b == matrix.EVERY and isinstance(a, int)) for a, b in steps)
