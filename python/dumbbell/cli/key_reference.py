"""Every key of an experiment file and every column of the results, in words: `dumbbell describe`, docs/reference."""

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from dumbbell import _native
from dumbbell.errors import InputError, UnknownName, quote_value
from dumbbell.experiment import json_schema, net, plugins, schema, spelling, stack
from dumbbell.experiment.plugins import built, trust
from dumbbell.experiment.registry import Algorithm, Param, read_registry
from dumbbell.results import columns
from dumbbell.words import join_words


@dataclass(frozen=True)
class KeyDescription:
    """A key of an experiment file; `default` is empty if it must be given, `values` says what it takes."""

    name: str
    default: str
    values: str
    doc: str
    source: str = ""

    def to_text(self) -> str:
        """Return the key as `dumbbell describe` prints it."""
        head = (
            f"{self.name} = {self.default} ({self.values})" if self.default else f"{self.name} (needed: {self.values})"
        )
        return f"{head}\n    {self.doc}" + (f" [{self.source}]" if self.source else "")


@dataclass(frozen=True)
class KeyGroup:
    """A table of an experiment file, or an algorithm with its parameters."""

    name: str
    title: str
    source: str
    keys: tuple[KeyDescription, ...]
    places: tuple[str, ...] = ()  # other words that may stand ahead of its keys
    versions: tuple[str, ...] = ()  # of an algorithm: what each sets unlike the defaults, a line
    kind: str = ""  # of an algorithm, a key of `KIND_NOUNS`

    def to_text(self) -> str:
        """Return the group as `dumbbell describe` prints it."""
        head = f"{self.name}: {self.title}" + (f"\n{self.source}" if self.source else "")
        versions = ["\n    ".join([_VERSIONS, *self.versions])] * bool(self.versions)
        return "\n\n".join([head, *(key.to_text() for key in self.keys), *versions])


KIND_NOUNS = {
    "aqm": "a queue discipline",
    "cc": "a congestion control",
    "stage": "a stage of a path",
    "link": "a link",
    "app": "an application",
}
"""Kinds of algorithms, with their article."""
RUN = "run"  # the name of the group of keys outside of every table
TITLES = {
    RUN: "keys outside of every table",
    "bottleneck": "the queue and the link that all traffic shares",
    "hop": "[[hop]], another queue and link, which routes name",
    "reverse": "[reverse], the queue and link of the way back, which acknowledgements and uploads take",
    "bottleneck.rate_changes": "changes of the link's rate",
    "hosts": "how all senders and receivers behave: the profile of a kernel, and single switches",
    "flows": "[[flows]], TCP connections that are listed one by one",
    "web": "[[web]], short flows that come and go",
    "app": "[[app]], users of applications",
    "udp": "[[udp]], UDP that does not respond to congestion",
    "record": "what results keep of a run",
    "matrix": "[matrix], a sweep: every combination of the values is a run",
    "override": "[[override]], other values for some of the combinations",
}
_ANYTHING = "any key of an experiment file but title, seeds, matrix and override"
# keys inside of a value, and what it is the value of
_INSIDE = {"uniform": "start", "name": "bottleneck.aqm", "plugin": "bottleneck.aqm"} | dict.fromkeys(
    ("pareto", "min", "max", "csv"), "web.size"
)
_VERSIONS = "Values that each version sets; keys of the file override them:"
FILES = (
    "A file is TOML. Times, rates and sizes need a unit: `20ms`, `1.5s`; `10Mbit`, `1Gbit`; `1514B`, `64KiB`; "
    "a bare `0` does not. A table such as `[[flows]]` is repeated for each kind of flow."
)
PROFILES = "`hosts.profile` sets these values; keys of the file override them."
RESULTS = (
    "One DuckDB file, whose tables are joined by `key`. A missing value is null in `runs`, NaN elsewhere. "
    "If engines are named, only their results contain the column; `shell` is `dumbbell shell`."
)
KINDS = {
    "aqm": "Queue disciplines",
    "cc": "Congestion controls",
    "stage": "Stages of a path",
    "link": "Links",
    "app": "Applications",
}


def _make_key(param: Param) -> KeyDescription:
    kind = "size" if spelling.find_unit_kind(param) == "size" else param.kind
    limits = spelling.format_limits(param) if param.kind in ("time", "rate", "int", "float") else ""
    none = ", or none" if param.optional and not param.choices else ""
    values = f", one of {', '.join(param.choices)}" if param.choices else f", {limits}{none}" if limits else ""
    return KeyDescription(
        param.name, spelling.spell_value(param, param.default), f"{kind}{values}", param.doc, param.source
    )


def _describe_algorithms(algorithms: Iterable[str]) -> str:
    return f"one of {', '.join(algorithms)}, or a table with its name, or the file of a `plugin`, and parameters"


def _make_section(name: str) -> KeyGroup:
    known = read_registry()
    keys = [_make_key(param) for param in schema.describe_section(name).values()]
    for key, place in schema.PATHS.get(name, {}).items():
        stages = f"a list of {', '.join(known.list_stages(key))}, or of tables with name and parameters"
        doc = f"Stages {place}, in this order; dumbbell describe NAME says what each takes."
        keys.append(KeyDescription(key, "[]", stages, doc))
    if "cc" in schema.SENDERS.get(name, ()):
        doc = "Congestion control; dumbbell describe NAME says what it takes."
        keys.insert(0, KeyDescription("cc", "", _describe_algorithms(known.cc), doc))
        if name == "app":
            kinds = f"one of {', '.join(known.app)}, or a table with its name and parameters"
            doc = "The application; dumbbell describe NAME says what it takes and measures."
            of_streams = f"Only of {', '.join(known.apps_of_streams)}, which need it."
            keys[0] = replace(keys[0], doc=f"{keys[0].doc} {of_streams}")
            keys.insert(0, KeyDescription("kind", "", kinds, doc))
        if name in stack.CARRIED:
            behind = next(number for number, one in enumerate(keys, 1) if one.name == "cc")
            keys.insert(behind, KeyDescription("stack", "unset", "text, or a table with name or plugin", stack.DOC))
    if name in net.HOPS:
        doc = "Queue discipline; dumbbell describe NAME says what it takes."
        keys.insert(0, KeyDescription("aqm", "", _describe_algorithms(known.aqm), doc))
        doc = "How packets leave the queue, instead of shaper and trace; dumbbell describe NAME says what it takes."
        keys.insert(1, KeyDescription("link", "none", f"{_describe_algorithms(known.link)}, or none", doc))
        changes = (
            'a list of tables such as { at = "30s", rate = "5Mbit" }, or one table such as '
            '{ every = "100ms", rates = ["5Mbit", "10Mbit"] }'
        )
        doc = "When the rate changes, and to what; in any order. Or a cycle of rates."
        keys.append(KeyDescription("rate_changes", "[]", changes, doc))
    return KeyGroup(name, TITLES[name], "", tuple(keys))


def list_sections() -> dict[str, KeyGroup]:
    """Return the tables of an experiment file, in order; `run` holds the keys outside of every table."""
    known = read_registry()
    tables = {name: _make_section(name) for name in (*net.HOPS, "hosts", *schema.SENDERS, "record")}
    of_tables = [KeyDescription(name, "", "a table", f"{TITLES[name].capitalize()}.") for name in ("bottleneck",)]
    of_tables += [
        KeyDescription("hop", "[]", "a list of tables", f"{TITLES['hop']}."),
        KeyDescription("reverse", "unset", "a table", f"{TITLES['reverse']}."),
    ]
    of_tables += [
        KeyDescription(name, "{}", "a table", f"{TITLES[name].capitalize()}.") for name in ("hosts", "record")
    ]
    of_tables += [
        KeyDescription(name, "[]", "a list of tables", f"{TITLES[name]}; one or more of these four.")
        for name in schema.SENDERS
    ]
    top = [
        KeyDescription("title", '""', "text", "Title of the experiment, in tables and figures."),
        _make_key(known.sections["run"]["duration"]),
        KeyDescription(
            "seeds", "[1]", "a list of different integers of 0 or more", "Seeds: every combination is run with each."
        ),
        *of_tables,
        KeyDescription("matrix", "{}", "a table", "Keys and lists of their values: every combination is a run."),
        KeyDescription(
            "override", "[]", "a list of tables with when and set", "Other values for some of the combinations."
        ),
    ]
    changed = (
        KeyDescription("at", "", "time", "When the rate changes."),
        KeyDescription("rate", "", "rate", "The rate from then on, counted as bottleneck.rate."),
        dataclasses.replace(_make_key(net.EVERY), default=""),
        KeyDescription(
            "rates",
            "",
            "a list of rates",
            "In a cycle, the rates, one change each; the first follows the last.",
        ),
        _make_key(net.UNTIL),
    )
    joined = KeyDescription(
        '"KEY, KEY"', "", "a list of lists", "Keys joined by commas are set in step: a value for each key."
    )
    axis = KeyDescription(
        '"KEY"', "", "a list of values", f"{_ANYTHING.capitalize()}, such as bottleneck.rate, flows[*].base_rtt."
    )
    override = (
        KeyDescription(
            "when", "", "a table", "Keys and the value, or list of values, that each must have; all must hold."
        ),
        KeyDescription("set", "", "a table", f"Keys and the value that each gets: {_ANYTHING}."),
    )
    groups = [
        KeyGroup(RUN, TITLES[RUN], "", tuple(top)),
        tables.pop("bottleneck"),
        KeyGroup("bottleneck.rate_changes", TITLES["bottleneck.rate_changes"], "", changed),
        *tables.values(),
        KeyGroup("matrix", TITLES["matrix"], "", (axis, joined)),
        KeyGroup("override", TITLES["override"], "", override),
    ]
    return {group.name: group for group in groups}


def _describe_algorithm(one: Algorithm, places: tuple[str, ...], kind: str = "") -> KeyGroup:
    def format_version(version: str, values: dict[str, Any]) -> str:
        shown_values = (f"{key} = {spelling.spell_value(one.params[key], value)}" for key, value in values.items())
        return f"{version}: {', '.join(shown_values) or 'the defaults'}"

    versions = tuple(format_version(*item) for item in one.versions.items())
    keys = tuple(map(_make_key, one.params.values()))
    return KeyGroup(one.name, one.title, one.source, keys, places, versions, kind)


def list_algorithms() -> dict[str, list[KeyGroup]]:
    """Return queue disciplines, congestion controls, stages and links, with the keys that they may stand behind."""
    known = read_registry()
    places = {
        "aqm": (*(f"{name}.aqm" for name in net.HOPS), "aqm"),
        "cc": ("cc", *(f"{name}.cc" for name, taken in schema.SENDERS.items() if "cc" in taken)),
        "stage": (*schema.PATH_KEYS, *(f"{name}.{key}" for name, keys in schema.PATHS.items() for key in keys)),
        "link": (*(f"{name}.link" for name in net.HOPS), "link"),
        "app": ("app.kind",),
    }
    return {
        kind: [_describe_algorithm(one, places[kind], kind) for one in of.values()] for kind, of in known.kinds.items()
    }


@cache
def list_groups() -> list[KeyGroup]:
    """Return everything that has keys."""
    return [*list_sections().values(), *(group for of_kind in list_algorithms().values() for group in of_kind)]


def _describe_column(table: str, column: columns.Column) -> str:
    unit = f" ({column.unit})" if column.unit else ""
    by = f" Measured by {', '.join(column.engines)}." if column.engines != columns.ENGINES else ""
    return f"{column.name}{unit}, column of table {table}: {column.label}\n    {column.doc}{by}"


def _describe_table(table: str) -> str:
    parts = [f"table {table} of the results. {columns.TABLES[table]}"]
    parts += [_describe_column(table, column) for column in columns.COLUMNS[table].values()]
    return "\n\n".join(parts)


def _describe_profile(name: str) -> str:
    return f"{name}" + "".join(f"\n    {line}" for line in schema.format_profile(name))


def _describe_observations() -> str:
    """Return the columns that agents of flows with the control external observe."""
    told = json.loads(_native.agent_columns())
    units = {one["name"]: f" ({one['unit']})" if one["unit"] else "" for one in told["observations"]}
    rows = [f"    {one['name']}{units[one['name']]}: {one['doc']}" for one in told["observations"]]
    return "\n".join(["Observations of its agents (dumbbell.Agents), of the time since they acted last:", *rows])


def describe(name: str) -> str:
    """Return what is said of everything called `name`; raises InputError if nothing is.

    That may be a table or key of an experiment file (`flows`, `base_rtt`, `flows[*].base_rtt`), an algorithm or a
    parameter of one (`codel`, `codel.target`), a profile, a table or a column of the results (`goodput_mbit`).
    """
    wanted = re.sub(r"\[(\*|[0-9]+)\]", "", name.strip())
    before, _, last = wanted.rpartition(".")
    kinds = [group.kind for group in list_groups() if group.kind and group.name == wanted]
    found = [f"{wanted} is the name of {join_words([KIND_NOUNS[kind] for kind in kinds])}."] if len(kinds) > 1 else []
    for group in list_groups():
        if wanted in (group.name, group.name.rpartition(".")[2]):
            heading = f'As {KIND_NOUNS[group.kind]}, {group.places[0]} = "{wanted}":\n' if len(kinds) > 1 else ""
            found.append(heading + group.to_text())
        for key in group.keys:
            if (
                key.name == last
                and before in ("", group.name, *group.places)
                and (group.name, key.name in TITLES) != (RUN, True)
            ):
                found.append(key.to_text() if group.name == RUN else f"{group.name}.{key.to_text()}")
    known = read_registry()
    if wanted == "external":
        found.append(_describe_observations())
    if wanted == "hosts":
        found.append("Values that each profile sets; keys of the file override them:")
    found += [_describe_profile(profile) for profile in known.profiles if wanted in (profile, "hosts")]
    found += [_describe_table(table) for table in columns.COLUMNS if table == wanted]
    found += [_describe_column(table, column) for table, column in columns.find(last) if before in ("", table)]
    if not found and last in _INSIDE:
        return describe(before or _INSIDE[last])
    if not found:
        every = list_names()
        raise UnknownName(
            quote_value(name),
            among=every,
            command="describe",
            what="table, key, algorithm, profile or column",
            also="dumbbell describe --all prints them all",
        )
    return "\n\n".join(found)


def describe_plugin(file: str) -> str:
    """Return what is said of the plugin in a file or of a built stack, whose code is run to learn it.

    Raises InputError.
    """
    path = FilePath(file).absolute() if not _is_stack(file) else built.find(file).library
    trust.trust(path.parent)
    try:
        found = plugins.read(path.name, path.parent)
    except InputError as error:
        raise error.move("describe", "") from None
    places = {"aqm": "bottleneck.aqm", "cc": "flows.cc", "stack": "flows.stack", "media": "app.kind.control"}
    place = places[found.kind]
    return _describe_algorithm(found.algorithm, (place,)).to_text()


def is_plugin(name: str) -> bool:
    """Whether a name is that of a plugin's file, or of a stack that is built."""
    return (FilePath(name).suffix in (".so", ".py", ".dylib") and FilePath(name).is_file()) or _is_stack(name)


def _is_stack(name: str) -> bool:
    return any(name in (one.name, one.stack) for one in built.list_installed())


def list_names() -> list[str]:
    """Return everything that `describe` takes."""
    found: dict[str, None] = {}
    for group in list_groups():
        found[group.name] = None
        for key in group.keys:
            if '"' not in key.name:
                found |= dict.fromkeys([key.name, *([] if group.name == RUN else [f"{group.name}.{key.name}"])])
    found |= dict.fromkeys(read_registry().profiles)
    for table, of_table in columns.COLUMNS.items():
        found |= dict.fromkeys([table, *of_table, *(f"{table}.{name}" for name in of_table)])
    return list(found)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _format_rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(map(_escape_cell, row))} |" for row in rows]
    return "\n".join(lines)


def _format_keys(keys: Iterable[KeyDescription]) -> str:
    def make_row(key: KeyDescription) -> tuple[str, ...]:
        source = f" [{key.source}]" if key.source else ""
        return f"`{key.name}`", f"`{key.default}`" if key.default else "needed", key.values, key.doc + source

    return _format_rows(("key", "default", "values", "meaning"), map(make_row, keys))


def format_group(group: KeyGroup) -> str:
    """Return a table of an experiment file as Markdown: a sentence, and its keys."""
    title = group.title[0].upper() + group.title[1:]
    if group.name in net.HOPS[1:]:  # their keys are those of the bottleneck, with few of their own
        known = {key.name for key in list_sections()[net.HOPS[0]].keys}
        own = [key for key in group.keys if key.name not in known]
        also = ", and:" if own else "."
        return "\n\n".join(
            [f"{title}. It takes every key of `{net.HOPS[0]}`{also}", *([_format_keys(own)] if own else [])]
        )
    return f"{title}.\n\n{_format_keys(group.keys)}"


def format_algorithm(group: KeyGroup) -> str:
    """Return an algorithm as Markdown: its source, its parameters, and its versions."""
    parts = [f"{group.source}."]
    if group.keys:
        parts.append(_format_keys(group.keys))
    if group.versions:
        parts.append("\n".join([_VERSIONS, "", *(f"- {line}" for line in group.versions)]))
    return "\n\n".join(parts)


def format_profile(name: str) -> str:
    """Return what a profile of hosts sets as Markdown."""
    return "\n".join(f"- {line}" for line in schema.format_profile(name))


def format_columns(table: str) -> str:
    """Return the columns of a table of the results as Markdown."""
    of_table = columns.COLUMNS[table].values()
    marked = f"† {columns.OF_BOTTLENECK}\n\n" if table == "runs" else ""
    of = (("" if c.engines == columns.ENGINES else ", ".join(c.engines)) for c in of_table)
    docs = (c.doc.replace(columns.OF_BOTTLENECK, "†") for c in of_table)
    rows = ((f"`{c.name}`", c.unit, c.label, by, doc) for c, by, doc in zip(of_table, of, docs, strict=True))
    return marked + _format_rows(("column", "unit", "", "engines", "meaning"), rows)


def format_markdown() -> str:
    """Return the whole reference as Markdown."""
    parts = [
        "# Keys of files, columns of results",
        "Every key of an experiment file and every column of the results, as `dumbbell describe NAME` prints them.",
        "## Experiment files",
        FILES,
        f"`dumbbell describe --schema` prints a JSON Schema of these files. {json_schema.LIMITS}",
    ]
    for group in list_sections().values():
        parts += [f"### {group.name}", format_group(group)]
    for kind, of_kind in list_algorithms().items():
        parts.append(f"## {KINDS[kind]}")
        for group in of_kind:
            parts += [f"### {group.name}: {group.title}", format_algorithm(group)]
    parts += ["## Profiles of hosts", PROFILES]
    for name in read_registry().profiles:
        parts += [f"### {name}", format_profile(name)]
    parts += ["## Results", RESULTS]
    for table in columns.COLUMNS:
        parts += [f"### Table {table}", columns.TABLES[table], format_columns(table)]
    return "\n\n".join(parts) + "\n"
