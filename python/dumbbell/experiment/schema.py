"""The sections of an experiment file, made from what the engine describes of itself."""

import marshal
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from dumbbell.errors import (
    InputError,
    Missing,
    Nothing,
    TooMany,
    Unfit,
    UnknownKey,
    UnknownName,
    WrongValue,
    combine_errors,
    find_nearest,
    join_names,
    quote_value,
)
from dumbbell.experiment import frame_size, link_trace, other_names, plugins, stack, without_effect
from dumbbell.experiment.checking import (
    Check,
    Checked,
    Checking,
    Fault,
    Section,
    SectionKey,
    check_anything,
    check_list,
    check_optional,
    check_table,
    check_value,
    set_default,
)
from dumbbell.experiment.files import Files
from dumbbell.experiment.matrix import Path, format_path, get_path
from dumbbell.experiment.net import DELAY, HOPS, NAME, ROUTES, list_hops, remove_net
from dumbbell.experiment.registry import Algorithm, Param, read_registry
from dumbbell.experiment.spelling import parse_value, spell_value

MAX_FLOWS = 1_000_000
_MOST_CHECKED = 4096  # tables of a file that are known to be right
DAY = 86_400 * 10**9


def _make_fields(params: dict[str, Param], *, without: tuple[str, ...] = ()) -> dict[str, SectionKey]:
    def make_field(param: Param) -> SectionKey:
        return SectionKey(
            check_value(lambda value, files: parse_value(param, value, files)), set_default(param.default)
        )

    return {name: make_field(param) for name, param in params.items() if name not in without}


def _check_algorithm(what: str, algorithms: dict[str, Algorithm]) -> Check:
    """Return the check of `aqm`, `cc`, `link` and stages of a path: a name, or a table with a name and parameters."""
    names = list(algorithms)

    @cache
    def make_section(name: str) -> Section:
        return Section({"name": SectionKey(check_anything)} | _make_fields(algorithms[name].params))

    def expand_name(value: Any) -> dict[str, Any]:
        table = {"name": value} if isinstance(value, str) else value
        if not isinstance(table, dict):
            raise WrongValue(quote_value(value), f"a name, or a table with a name: {join_names(names)}")
        name = table.get("name")
        if name not in names:
            key = "" if isinstance(value, str) else ".name"
            if name is None:
                raise Missing(names, key=key)
            if what == "aqm" and (instead := other_names.explain_tc_word(str(name))):
                raise UnknownName(quote_value(name), among=instead, key=key, what=what)
            ours, also = other_names.find_algorithm(str(name), names)
            raise UnknownName(quote_value(name), among=names, key=key, nearest=ours, what=what, also=also)
        return table

    def check(value: Any, place: Path, checking: Checking) -> Checked:
        try:
            if what in KINDS and isinstance(value, dict) and "plugin" in value:
                return _parse_plugin(what, value, checking.files)
            table = expand_name(value)
        except InputError as error:
            checking.faults.append(Fault(place, "value", value, error))
            return Checked(None, None)
        return make_section(table["name"])(table, place, checking)

    return check


KINDS = {"aqm": "queue discipline", "cc": "congestion control"}
_OF_PLUGINS = KINDS | {"stack": "stack"}


def _parse_plugin(what: str, table: dict[str, Any], files: Files | None) -> Checked:
    """Return the algorithm of a plugin, by the name that it declares and with the parameters of `table`; InputError."""
    known = plugins.read(table["plugin"], files.folder if files is not None else FilePath())
    if known.kind not in (what, "stack" if what == "cc" else what):
        found = f"{quote_value(table['plugin'])} is a {_OF_PLUGINS[known.kind]}"
        raise Unfit(found, f"a plugin that is a {KINDS[what]}", key=".plugin")
    params, name = known.algorithm.params, known.algorithm.name
    if known.kind == "stack":
        # in tables it is called by its control as well
        name = f"{name}-{parse_value(params['control'], table.get('control', params['control'].default), files)}"
    if table.get("name", name) != name:
        raise Unfit(f"the plugin is called {name}", f"name = {quote_value(name)}, or no name", key=".name")
    given: dict[str, Any] = {"name": name, "plugin": known.digest}
    for key, value in table.items():
        if key not in ("name", "plugin"):
            if key not in params:
                names = [one for one in params if one != "control"] if known.kind == "stack" else params
                raise UnknownKey(key, among=["plugin", *names], key=f".{key}")
            try:
                given[key] = parse_value(params[key], value, files)
            except InputError as error:
                raise error.move("", f".{key}{error.key}") from None
    own = {one.name: one.default for one in params.values()}
    return Checked({"name": name, "plugin": known.digest} | own | given, given)


def _replace_stack(value: Any) -> Any:
    """Return a table of `flows` whose `stack`, if it has one, has become the plugin of its `cc`; raises InputError."""
    if not isinstance(value, dict) or "stack" not in value:
        return value
    table = {key: one for key, one in value.items() if key != "stack"}
    table["cc"] = stack.make_plugin_table(table, value["stack"])
    return table


_TIME = Param("time", "time", False, "", 0, 0, DAY, (), "", "")
START = Param(
    "start", "time", False, "", 0, 0, DAY, (), 'When it starts: a time, or { uniform = ["0s", "1s"] } to draw one.', ""
)
COUNT = Param("count", "int", False, "", 1, 1, MAX_FLOWS, (), "How many there are of it.", "")
# sections whose entries send, and what they take in addition to the keys that the engine describes
SENDERS = {"flows": ("cc", "start", "count"), "web": ("cc", "start"), "udp": ("start", "count")}
# lists of stages that packets or acknowledgements pass, and where they lie
_OF_HOP = {"path": "right ahead of the queue, for all packets", "behind": "behind the link, for all packets"}
PATHS = {
    "flows": {"path": "between the sender and the bottleneck", "ack_path": "between the receiver and the sender"},
    "web": {"path": "between the sender and the bottleneck", "ack_path": "between the receiver and the sender"},
    "udp": {
        "path": "between the sender and the bottleneck",
        "ack_path": "between the receiver and the sender, with `echo`",
    },
} | dict.fromkeys(HOPS, _OF_HOP)
PATH_KEYS = frozenset(key for keys in PATHS.values() for key in keys)
# sections whose tables are in a list
LISTED = (*SENDERS, "hop")


@cache
def describe_section(section: str) -> dict[str, Param]:
    """Return what a table of the experiment file takes, but for queue disciplines and congestion controls."""
    ahead = [NAME] if section == "hop" else []
    ahead += [one for one in (START, COUNT) if one.name in SENDERS.get(section, ())]
    after = [DELAY] if section in HOPS else list(ROUTES) if section in SENDERS else []
    params = [*ahead, *read_registry().sections["bottleneck" if section in HOPS else section].values(), *after]
    return {one.name: one for one in params if (section, one.name) != ("udp", "ack_route")}


def format_profile(name: str) -> list[str]:
    """Return what a profile of hosts sets, `key = value [source]` a line."""
    known, profile = read_registry(), read_registry().profiles[name]
    values = {key: spell_value(known.sections["hosts"][key], value) for key, value in profile.hosts.items()}
    for cc, params in profile.cc.items():
        values |= {f"{cc}.{key}": spell_value(known.cc[cc].params[key], value) for key, value in params.items()}
    lines = [f"{key} = {value} [{profile.sources[key]}]" for key, value in values.items()]
    return lines or ["the defaults"]


def parse_start(value: Any) -> dict[str, int]:
    """Return the earliest and latest start of a flow, ns; InputError without file and key."""
    if isinstance(value, dict):
        allowed = 'a time, or { uniform = ["0s", "1s"] }'
        ends = value.get("uniform")
        if set(value) != {"uniform"} or not isinstance(ends, list) or len(ends) != 2:
            raise WrongValue(quote_value(value), allowed)
        first, last = (parse_value(_TIME, end) for end in ends)
        if first > last:
            raise WrongValue(quote_value(value), "an earliest time that is not after the latest")
        return {"min": first, "max": last}
    start = parse_value(_TIME, value)
    return {"min": start, "max": start}


def _refuse_value(value: Any) -> Any:
    return None if value == "none" else value


@cache
def make_run_section() -> Section:
    """Return the section of one run: everything in an experiment file that the engine sees."""
    rate = _make_fields(describe_section("bottleneck"))["rate"].check
    change = Section({"at": SectionKey(_make_fields({"at": _TIME})["at"].check), "rate": SectionKey(rate)})
    link = check_optional(_check_algorithm("link", read_registry().link))
    aqm = {
        "aqm": SectionKey(_check_algorithm("aqm", read_registry().aqm)),
        "link": SectionKey(lambda value, place, checking: link(_refuse_value(value), place, checking), lambda: None),
        "rate_changes": SectionKey(check_list(change), list),
    }
    stages = check_list(_check_algorithm("stage", read_registry().stage))

    def make_path_fields(section: str) -> dict[str, SectionKey]:
        return {key: SectionKey(stages, list) for key in PATHS.get(section, ())}

    def make_hop_section(name: str) -> Section:
        named = {"name": SectionKey(_make_fields({"name": NAME})["name"].check)} if name == "hop" else {}
        own = _make_fields(describe_section(name), without=tuple(named))
        return Section(named | aqm | make_path_fields(name) | own)

    own = {
        "cc": SectionKey(_check_algorithm("cc", read_registry().cc)),
        "start": SectionKey(check_value(lambda value, _: parse_start(value)), set_default({"min": 0, "max": 0})),
        **_make_fields({"count": COUNT}),
    }

    def make_list_field(section: Section) -> SectionKey:
        return SectionKey(check_list(section), list, section)

    senders: dict[str, SectionKey] = {}
    for name, taken in SENDERS.items():
        fields = (
            {key: own[key] for key in taken}
            | make_path_fields(name)
            | _make_fields(describe_section(name), without=("start", "count"))
        )
        # a stack is the plugin of a flow's `cc` before anything is checked
        senders[name] = make_list_field(Section(fields, _replace_stack if name == "flows" else None))
    bottleneck, reverse = make_hop_section("bottleneck"), make_hop_section("reverse")
    parts = {
        "bottleneck": SectionKey(bottleneck, None, bottleneck),
        "hop": make_list_field(make_hop_section("hop")),
        "reverse": SectionKey(check_optional(reverse), lambda: None, reverse),
        "hosts": _make_plain_field("hosts"),
        **senders,
        "record": _make_plain_field("record"),
    }
    return Section(_make_fields(describe_section("run"), without=("seed",)) | parts)


def _make_plain_field(name: str) -> SectionKey:
    """Return the field of a section of values, all of which have defaults."""
    section = Section(_make_fields(describe_section(name)))
    return SectionKey(section, lambda: section({}, (), Checking(None)).whole, section)


def _parse_seeds(value: Any, _: object = None) -> list[int]:
    good = isinstance(value, list) and value and all(type(seed) is int and 0 <= seed < 2**63 for seed in value)
    if not good or len(set(value)) != len(value):
        raise WrongValue(quote_value(value), "a list of different integers of 0 or more, such as [1, 2, 3]")
    return list(value)


def _parse_string(value: Any, _: object = None) -> str:
    if not isinstance(value, str):
        raise WrongValue(quote_value(value), "a string")
    return value


_FREE = check_table(check_anything)
_OVERRIDE = Section({"when": SectionKey(_FREE), "set": SectionKey(_FREE)})
# the keys of an experiment file that describe the sweep rather than a run
SWEEP_PLAN = Section(
    {
        "title": SectionKey(check_value(_parse_string), lambda: ""),
        "seeds": SectionKey(check_value(_parse_seeds), lambda: [1]),
        "matrix": SectionKey(check_table(check_list(check_anything)), dict),
        "override": SectionKey(check_list(_OVERRIDE), list),
    }
)


def validate(section: Section, table: dict[str, Any], files: Files | None = None) -> Checked:
    """Check `table`; raises InputError without file if it does not fit the section, of every key that is wrong."""
    checking = Checking(files)
    checked = section(table, (), checking)
    if checking.faults:
        raise combine_errors([_convert_fault(fault, table) for fault in checking.faults])
    return checked


def _convert_fault(fault: Fault, table: dict[str, Any]) -> InputError:
    """Return the error that says what is wrong in `table`."""
    steps = fault.place
    key = format_path(steps)
    if fault.error is not None:
        return fault.error.move("", _format_key((key + fault.error.key).removeprefix("."), table))
    match fault.kind:
        case "missing":
            return Missing(_name_missing(str(steps[-1])), key=key)
        case "unknown" if steps[0] in HOPS and (instead := other_names.explain_tc_word(str(steps[-1]))):
            return UnknownKey(quote_value(steps[-1]), among=instead, key=key)
        case "unknown":
            return UnknownKey(
                quote_value(steps[-1]),
                among=_list_keys(steps[:-1], table),
                key=key,
                nearest=find_nearest_key(steps, table),
            )
        case "no list" if key in (*LISTED, "override") and isinstance(fault.found, dict):
            return Unfit(f"[{key}] is one table", f"[[{key}]], with two brackets: there may be several", key=key)
        case "no list":
            return WrongValue(quote_value(fault.found), "a list", key=key)
    return WrongValue(quote_value(fault.found), "a table", key=key)


def _format_key(key: str, table: dict[str, Any]) -> str:
    """Return a key of `table` as the file has it: parameters of a stack are in its table, though `cc` was read."""
    of_cc = re.fullmatch(r"flows\[(\d+)\]\.cc\.(.+)", key)
    if not of_cc or "stack" not in table["flows"][int(of_cc[1])]:
        return key
    inside = "cc" if of_cc[2] == "control" else f"stack.{of_cc[2]}"
    return f"flows[{of_cc[1]}].{inside}"


def _find_algorithms() -> dict[str, dict[str, Algorithm]]:
    """Return keys that name algorithms, and which ones."""
    known = read_registry()
    return {"aqm": known.aqm, "cc": known.cc, "link": known.link} | dict.fromkeys(PATH_KEYS, known.stage)


def _name_missing(name: str) -> str | list[str]:
    algorithms = {"aqm": read_registry().aqm, "cc": read_registry().cc}
    tables = {"bottleneck": "a table", "when": "a table", "set": "a table"}
    return list(algorithms[name]) if name in algorithms else tables.get(name, "a value")


def _list_keys(table: Path, given: dict[str, Any]) -> list[str]:
    """Return the keys of a table of an experiment file; those of an algorithm are of the one that is `given` there."""
    owner = next((step for step in reversed(table) if isinstance(step, str)), "")
    algorithms = _find_algorithms()
    if owner in algorithms:
        known = algorithms[owner]
        named = next((one.get("name") if isinstance(one, dict) else one for one in get_path(given, table)), None)
        some = [known[named]] if isinstance(named, str) and named in known else known.values()
        return list(dict.fromkeys(["name", *(name for one in some for name in one.params)]))
    match owner:
        case "":
            return [*SWEEP_PLAN.fields, *make_run_section().fields]
        case "rate_changes":
            return ["at", "rate"]
        case "override":
            return list(_OVERRIDE.fields)
    if owner not in (*HOPS, *SENDERS, *read_registry().sections):
        return []
    own = ["aqm", "link", "rate_changes"] if owner in HOPS else list(SENDERS.get(owner, ()))
    own += ["stack"] if owner == "flows" else []
    return list(dict.fromkeys([*own, *PATHS.get(owner, ()), *describe_section(owner)]))


def find_nearest_key(path: Path, given: dict[str, Any]) -> str | None:
    """Return the key of an experiment file that an unknown one most likely means: here, or elsewhere.

    `given` is the file: keys of algorithms are those of the algorithm that it names.
    """
    table, word = path[:-1], str(path[-1])
    if meant := other_names.find_key(word, _list_keys(table, given)):
        return format_path((*table, meant))
    inside = [(*table, step) for step in ("aqm", "cc", "link") if step in _list_keys(table, given)]
    if close := _find_nearest([table], word, given, 0.75) or _find_nearest(inside, word, given, 0.75):
        return close
    tops: list[Path] = [
        (),
        ("bottleneck",),
        *((name,) for name in ("reverse",) if name in given),
        *((name, 0) for name in ("hop",) if name in given),
        ("hosts",),
        ("record",),
        *((name, 0) for name in SENDERS),
    ]
    elsewhere = [
        *tops,
        *((*one, step) for one in tops for step in ("aqm", "cc", "link") if step in _list_keys(one, given)),
    ]
    if close := _find_nearest(elsewhere, word, given, 0.8):
        return close
    called = next(((*one, name) for one in tops if (name := other_names.find_key(word, _list_keys(one, given)))), None)
    return format_path(called) if called and not table else _find_nearest([table, *inside], word, given, 0.5)


def _find_nearest(tables: Sequence[Path], word: str, given: dict[str, Any], cutoff: float) -> str | None:
    """Return the key of some tables whose last name is nearest to `word`, if one is near enough."""
    found: dict[str, str] = {}
    for table in tables:
        for name in _list_keys(table, given):
            found.setdefault(name, format_path((*table, name)))
    close = find_nearest(word, found, cutoff)
    return found[close] if close else None


def resolve(table: dict[str, Any], seed: int, files: Files | None = None) -> dict[str, Any]:
    """Return the canonical form of a run whose `flows` and `udp` still have their `count`.

    Every key is present, times are integer ns, rates integer bit/s and sizes integer bytes; keys of hosts and
    congestion controls that `table` does not set have the values of the hosts' profile. `files` reads the
    files that it names. Raises InputError.
    """
    return resolve_and_given(table, seed, files)[0]


def resolve_and_given(
    table: dict[str, Any], seed: int, files: Files | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `resolve` does, and of it only the keys that `table` sets, in the same tables and lists.

    A profile of hosts and a version of an algorithm that `table` names set what `describe` says of them.
    """
    run, given = _check_in_parts(table, files) or _check_at_once(table, files)
    count = sum(one["count"] for one in (*run["flows"], *run["udp"]))
    if count > MAX_FLOWS:
        raise TooMany(f"{count} flows and sources of UDP", f"at most {MAX_FLOWS}", key="flows")
    if count == 0 and not run["web"]:
        raise Nothing("nothing sends", "at least one [[flows]], [[web]] or [[udp]]", key="flows")
    for (place, hop), (_, own) in zip(list_hops(run), list_hops(given), strict=True):
        link_trace.settle(place, set(own), hop)
    written = without_effect.list_written_keys(given)
    _apply_profile(run, given)
    frame_size.settle(run, given)
    without_effect.refuse(run, written)
    remove_net(run, list(SENDERS))
    return run | {"seed": seed}, given


def _make_empty_run() -> dict[str, Any]:
    return {"hosts": {}, "hop": [], "flows": [], "web": [], "udp": []}


def _check_at_once(table: dict[str, Any], files: Files | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a run that is checked, with every key, and the keys that are given; raises InputError."""
    checked = validate(make_run_section(), table, files)
    given: dict[str, Any] = checked.given
    for web in given.get("web", ()):
        web.pop("size", None)
    return checked.whole, _make_empty_run() | given


def _check_in_parts(table: dict[str, Any], files: Files | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what `_check_at_once` does; a section that many runs of a file have is checked once.

    None if anything is wrong: what that is, is said of the run as a whole.
    """
    fields = make_run_section().fields
    if files is None or not table.keys() <= fields.keys():
        return None
    run: dict[str, Any] = {}
    given = _make_empty_run()
    single = describe_section("run")
    try:
        for name, field in fields.items():
            value, section = table.get(name), field.section
            if section is None:
                run[name] = parse_value(single[name], value, files) if name in table else single[name].default
                given |= {name: run[name]} if name in table else {}
            elif name in LISTED:
                parts = [_check_part(name, section, one, files) for one in _list(value)]
                run[name], given[name] = [one for one, _ in parts], [one for _, one in parts]
            elif name in table:
                run[name], given[name] = _check_part(name, section, value, files)
            else:
                run[name] = None if name == "reverse" else _check_part(name, section, {}, files)[0]
    except (InputError, ValueError, TypeError):  # marshal's are of these
        return None
    return run, given


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise TypeError
    return value or []


def _check_part(name: str, section: Section, value: Any, files: Files) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a table of a section with every key, and with those that are given; ValueError if it is wrong."""
    place = (name, text := marshal.dumps(value, 2))  # this version writes equal values alike, and unequal ones unlike
    if (known := files.checked.get(place)) is None:
        checking = Checking(files)
        known = section(value, (), checking)
        if checking.faults:
            raise ValueError
        if name == "web":
            known.given.pop("size", None)
        if b"plugin" in text or b"stack" in text:  # its file may change
            return known
        if len(files.checked) >= _MOST_CHECKED:
            files.checked.clear()
        files.checked[place] = known
    return _copy_table(known[0]), _copy_table(known[1])


def _copy_table(table: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in which a run can set what it does set later: keys, and those that profile and version fill."""
    return table | {key: dict(table[key]) for key in KINDS if key in table}


def _apply_profile(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Give keys of `run` that are not `given` the values of the hosts' profile, then those of the algorithm's version.

    They count as given if the profile or the version is. The engine does the same with a run that leaves keys out; here
    it is done for the canonical form, in which every value stands.
    """
    known = read_registry()
    profile = known.profiles[run["hosts"]["profile"]]
    named = "profile" in given["hosts"]
    _fill(run["hosts"], given["hosts"], profile.hosts, named=named)
    for own, one in zip((*given["flows"], *given["web"]), (*run["flows"], *run["web"]), strict=True):
        _fill(one["cc"], own["cc"], {} if "plugin" in one["cc"] else profile.cc.get(one["cc"]["name"], {}), named=named)
        _apply_version(one["cc"], own["cc"], known.cc)
    for (_, hop), (_, own) in zip(list_hops(run), list_hops(given), strict=True):
        _apply_version(hop["aqm"], own["aqm"], known.aqm)


def _apply_version(config: dict[str, Any], given: dict[str, Any], algorithms: dict[str, Algorithm]) -> None:
    if "plugin" in config:
        return
    algorithm = algorithms[config["name"]]
    _fill(config, given, algorithm.list_version_changes(config), named=next(iter(algorithm.params), "") in given)


def _fill(config: dict[str, Any], given: dict[str, Any], values: dict[str, Any], *, named: bool) -> None:
    """Set the `values` that are not given; if whatever sets them is `named`, they are given too."""
    missing = {key: value for key, value in values.items() if key not in given}
    config |= missing
    if named:
        given |= missing
