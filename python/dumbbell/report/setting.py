"""All that was run, section by section: every hop, every entry of traffic, hosts and recording, each with its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dumbbell.experiment.registry import read_registry
from dumbbell.results import dimensions as dims

_MOST_VALUES = 6  # of a key that varies
_LINKS = ("bottleneck", "reverse")
_SENDERS = ("flows", "web", "udp", "app")
# what is said of an entry whether it is usual or not, in this order
_ALWAYS = ("rate", "link", "trace", "aqm", "kind", "cc", "count", "direction", "base_rtt", "arrivals", "size")
_UNSAID: tuple[Any, ...] = (None, [], {})


def describe_sections(configs: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the sections of these configurations, each with its keys in words; what varies has all of its values."""
    both_ways = any(one.get("reverse") for one in configs)
    found = []
    for name, path, entries in _list_entries(configs):
        known = [one for one in entries if one is not None]
        if not known:
            continue
        words = _describe_entries(path, known, both_ways=both_ways)
        if words == name:  # nothing but what is usual
            continue
        some = f"; in {len(known)} of {len(configs)} cells" * (len(known) < len(configs))
        found.append((name, words + some))
    return found


def _list_entries(configs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any] | None]]]:
    for link in _LINKS:
        of = [one.get(link) for one in configs]
        if any(of):
            yield link, "bottleneck", of
    for section, schema in (("hop", "bottleneck"), *zip(_SENDERS, _SENDERS, strict=True)):
        most = max((len(one.get(section) or []) for one in configs), default=0)
        for place in range(most):
            of = [entries[place] if place < len(entries := one.get(section) or []) else None for one in configs]
            yield f"{section}[{place}]", schema, of
    for section in ("hosts", "record"):
        yield section, section, [one.get(section) for one in configs]


def _describe_entries(section: str, entries: Sequence[dict[str, Any]], *, both_ways: bool) -> str:
    if section == "record":
        return _format_values(dims.spell_path_value((section,), one) for one in entries)
    if section == "hosts":  # ECN always: the default is not that of Linux
        ecn = _format_values(dims.spell_path_value((section, "ecn"), one["ecn"]) for one in entries)
        return f"{_format_values(dims.spell_path_value((section,), one) for one in entries)}, ecn {ecn}"
    params = read_registry().sections[section]
    keys = list(dict.fromkeys(key for one in entries for key in one))
    keys.sort(key=lambda key: _ALWAYS.index(key) if key in _ALWAYS else len(_ALWAYS))
    said: list[str] = []
    for key in keys:
        held = [one[key] for one in entries if key in one]
        usual = key in params and all(value == params[key].default for value in held)
        if _is_unsaid(section, key, held, entries, both_ways=both_ways) or (usual and key not in _ALWAYS):
            continue
        if key == "echo":
            said.insert(0, "pings" if all(held) else "pings in some cells")
            continue
        said.append(f"{key} {_format_values(dims.spell_path_value((section, key), value) for value in held)}")
    return ", ".join(said)


def _is_unsaid(
    section: str, key: str, held: Sequence[Any], entries: Sequence[dict[str, Any]], *, both_ways: bool
) -> bool:
    if all(value in _UNSAID for value in held) or key == "plugin":
        return True
    match key:
        case "count":
            return all(value == 1 for value in held)
        case "direction":
            return not both_ways and all(value == "down" for value in held)
        case "delay" | "start":
            return all(value in (0, {"min": 0, "max": 0}) for value in held)
        case "echo":
            return not any(held)
        case "base_rtt":
            return section == "udp" and not any(one.get("echo") for one in entries)
    return False


def _format_values(texts: Iterator[str]) -> str:
    different = list(dict.fromkeys(texts))
    if len(different) <= _MOST_VALUES:
        return " | ".join(different)
    return f"{' | '.join(different[: _MOST_VALUES - 1])} | … {different[-1]} ({len(different)} values)"
