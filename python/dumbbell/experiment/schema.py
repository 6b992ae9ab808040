"""The typed schema of an experiment file, made from what the engine describes of itself."""

import marshal
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path as FilePath
from types import GenericAlias
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    SerializeAsAny,
    Tag,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

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
from dumbbell.experiment import (
    app,
    buffer,
    frame_size,
    link_trace,
    other_names,
    plugins,
    relative,
    stack,
    without_effect,
)
from dumbbell.experiment.files import Files
from dumbbell.experiment.matrix import Path, format_path, get_path
from dumbbell.experiment.net import (
    BUFFER,
    DELAY,
    EVERY,
    HOPS,
    NAME,
    ROUTES,
    UNTIL,
    list_hops,
    remove_net,
    settle_rate_changes,
)
from dumbbell.experiment.registry import Algorithm, Param, read_registry
from dumbbell.experiment.spelling import parse_value, spell_value

MAX_FLOWS = 1_000_000
_MOST_CHECKED = 4096  # tables that are known to be right
_checked: dict[tuple[str, bytes], tuple[dict[str, Any], dict[str, Any]]] = {}
"""Tables that name no file and are known to be right, canonical: with every key, and with those given."""
_VALUES = frozenset((str, int, float, bool, type(None), dict))
"""Types of values of a model that are no models; to ask whether they are takes longer."""
DAY = 86_400 * 10**9


def _format_complaint(error: InputError) -> PydanticCustomError:
    return PydanticCustomError("dumbbell", "{error}", {"error": error})


Parse = Callable[[Any, Files | None], Any]


def _make_checked_type(parse: Parse) -> Any:
    """Return the type of values that `parse` accepts and makes canonical."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        try:
            return parse(value, info.context)
        except InputError as error:
            raise _format_complaint(error) from None

    return Annotated[Any, PlainValidator(validate)]


class Section(BaseModel):
    """A table of an experiment file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


def _make_fields(params: dict[str, Param], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    def make_field(param: Param) -> Any:
        default = Field(default_factory=lambda: param.default)
        return (_make_checked_type(lambda value, files: parse_value(param, value, files)), default)

    return {name: make_field(param) for name, param in params.items() if name not in without}


def _make_algorithm_type(what: str, algorithms: dict[str, Algorithm]) -> Any:
    """Return the type of `aqm`, `cc`, `link` and stages of a path: a name, or a table with a name and parameters."""
    models = []
    for algorithm in algorithms.values():
        fields = {"name": (Literal[algorithm.name], ...)} | _make_fields(algorithm.params)
        if what == "app" and MEDIA_CONTROL in fields:
            fields[MEDIA_CONTROL] = (_make_checked_type(_parse_media_control), fields[MEDIA_CONTROL][1])
        name = f"{what}_{algorithm.name}".replace("-", "_")
        models.append(create_model(name, __base__=Section, __doc__=f"{algorithm.title}. {algorithm.source}", **fields))
    names = list(algorithms)

    def expand_name(value: Any) -> Any:
        table = {"name": value} if isinstance(value, str) else value
        if not isinstance(table, dict):
            raise _format_complaint(
                WrongValue(quote_value(value), f"a name, or a table with a name: {join_names(names)}")
            )
        name = table.get("name")
        if name not in names:
            key = "" if isinstance(value, str) else ".name"
            if name is None:
                raise _format_complaint(Missing(names, key=key))
            if what == "aqm" and (instead := other_names.explain_tc_word(str(name))):
                raise _format_complaint(UnknownName(quote_value(name), among=instead, key=key, what=what))
            ours, also = other_names.find_algorithm(str(name), names)
            raise _format_complaint(
                UnknownName(quote_value(name), among=names, key=key, nearest=ours, what=what, also=also)
            )
        return table

    union: Any = Union[tuple(models)]  # noqa: UP007  built at run time
    if len(models) > 1:
        union = Annotated[union, Field(discriminator="name")]
    registered = Annotated[union, BeforeValidator(expand_name)]
    if what not in KINDS:
        return registered

    def parse_with_plugins(value: Any, handler: Callable[[Any], Any], info: ValidationInfo) -> Any:
        if not isinstance(value, dict) or "plugin" not in value:
            return handler(value)
        try:
            return _parse_plugin(what, value, info.context)
        except InputError as error:
            raise _format_complaint(error) from None

    as_it_is: Any = SerializeAsAny
    return Annotated[registered, WrapValidator(parse_with_plugins), as_it_is()]


KINDS = {"aqm": "queue discipline", "cc": "congestion control"}
_OF_PLUGINS = KINDS | {"stack": "stack", "media": "congestion control of video"}
MEDIA_CONTROL = "control"  # of an application, which may be a plugin


def _parse_plugin(what: str, table: dict[str, Any], files: Files | None) -> Section:
    """Return the algorithm of a plugin, by the name that it declares and with the parameters of `table`; InputError."""
    known = plugins.read(table["plugin"], files.folder if files is not None else FilePath())
    if known.kind not in (what, "stack" if what == "cc" else what):
        found = f"{quote_value(table['plugin'])} is a {_OF_PLUGINS[known.kind]}"
        raise Unfit(found, f"a plugin that is a {_OF_PLUGINS[what]}", key=".plugin")
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
    return _make_plugin_model(known.digest)(**given)


def _parse_media_control(value: Any, files: Files | None) -> Any:
    """Return the congestion control of a video: a word, or the table of a plugin, which is canonical."""
    if isinstance(value, dict) and "plugin" in value:
        return _parse_plugin("media", value, files).model_dump()
    return parse_value(read_registry().app["video"].params[MEDIA_CONTROL], value, files)


def _replace_stack(value: Any) -> Any:
    """Return a table of `flows` or `app` whose `stack`, if it has one, has become the plugin of its `cc`."""
    if not isinstance(value, dict) or "stack" not in value:
        return value
    table = {key: one for key, one in value.items() if key != "stack"}
    try:
        table["cc"] = stack.make_plugin_table(table, value["stack"])
    except InputError as error:
        raise _format_complaint(error) from None
    return table


@lru_cache(maxsize=256)
def _make_plugin_model(digest: str) -> type[Section]:
    """Return the model of a plugin that is known, with values that are canonical already."""
    params = plugins.get_known(digest).algorithm.params.values()
    fields = {one.name: (Any, one.default) for one in params}
    model: type[Section] = _make_model(f"plugin_{digest}", {"name": (str, ...), "plugin": (str, ...)} | fields)
    return model


_TIME = Param("time", "time", False, "", 0, 0, DAY, (), "", "")
START = Param(
    "start", "time", False, "", 0, 0, DAY, (), 'When it starts: a time, or { uniform = ["0s", "1s"] } to draw one.', ""
)
COUNT = Param("count", "int", False, "", 1, 1, MAX_FLOWS, (), "How many there are of it.", "")
# sections whose entries send, and what they take in addition to the keys that the engine describes
SENDERS = {
    "flows": ("cc", "start", "count"),
    "web": ("cc", "start"),
    "udp": ("start", "count"),
    "app": ("kind", "cc", "start", "count"),
}
# lists of stages that packets or acknowledgements pass, and where they lie
_OF_HOP = {"path": "right ahead of the queue, for all packets", "behind": "behind the link, for all packets"}
PATHS = {
    "flows": {"path": "between the sender and the bottleneck", "ack_path": "between the receiver and the sender"},
    "web": {"path": "between the sender and the bottleneck", "ack_path": "between the receiver and the sender"},
    "udp": {
        "path": "between the sender and the bottleneck",
        "ack_path": "between the receiver and the sender, with `echo`",
    },
    "app": {
        "path": "between the server and the bottleneck",
        "ack_path": "between the client and the server, for requests and acknowledgements",
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
    after = [DELAY, BUFFER] if section in HOPS else list(ROUTES) if section in SENDERS else []
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


def _make_model(name: str, fields: dict[str, Any], **also: Any) -> Any:
    return create_model(name, __base__=Section, **also, **fields)


# what pydantic calls the two forms of changes of a hop's rate in the places of errors
_CHANGES, _CYCLE = "changes", "cycle"
CYCLE_KEYS = (EVERY.name, "rates", UNTIL.name)


def _parse_rates(value: Any, files: Files | None) -> list[int]:
    if not isinstance(value, list) or not value:
        raise WrongValue(quote_value(value), 'a list of rates, such as ["5Mbit", "10Mbit"]')
    rate, found = describe_section("bottleneck")["rate"], []
    for number, one in enumerate(value):
        try:
            found.append(parse_value(rate, one, files))
        except InputError as error:
            raise error.move("", f"[{number}]") from None
    return found


def _make_changes_type(change: type[Section]) -> Any:
    """Return the type of `rate_changes`: a list of changes, or a table of a cycle of them."""
    every, until = (_make_fields({one.name: one})[one.name] for one in (EVERY, UNTIL))
    fields = {EVERY.name: (every[0], ...), "rates": (_make_checked_type(_parse_rates), ...), UNTIL.name: until}
    cycle = _make_model("RateCycle", fields)

    def choose(value: Any) -> str:
        return _CYCLE if isinstance(value, dict | Section) else _CHANGES

    tagged: list[Any] = [
        Annotated[GenericAlias(list, change), Tag(_CHANGES)],
        Annotated[cycle, Tag(_CYCLE)],
    ]
    return Annotated[Union[tuple(tagged)], Discriminator(choose)]  # noqa: UP007  built at run time


@cache
def run_model() -> type[Section]:
    """Return the model of one run: everything in an experiment file that the engine sees."""
    rate = _make_fields(describe_section("bottleneck"))["rate"][0]
    change = _make_model("RateChange", {"at": (_make_fields({"at": _TIME})["at"][0], ...), "rate": (rate, ...)})
    link: Any = Annotated[_make_algorithm_type("link", read_registry().link) | None, BeforeValidator(_refuse_value)]
    aqm: dict[str, Any] = {
        "aqm": (_make_algorithm_type("aqm", read_registry().aqm), ...),
        "link": (link, None),
        "rate_changes": (_make_changes_type(change), []),
    }
    stage = _make_algorithm_type("stage", read_registry().stage)

    def make_path_fields(section: str) -> dict[str, Any]:
        return {key: (GenericAlias(list, stage), []) for key in PATHS.get(section, ())}

    def make_hop_model(name: str) -> type[Section]:
        named = {"name": (_make_fields({"name": NAME})["name"][0], ...)} if name == "hop" else {}
        fields = named | aqm | make_path_fields(name) | _make_fields(describe_section(name), without=tuple(named))
        model: type[Section] = _make_model(name.capitalize(), fields)
        return model

    own = {
        "cc": (_make_algorithm_type("cc", read_registry().cc), ...),
        "kind": (_make_algorithm_type("app", read_registry().app), ...),
        "start": (
            _make_checked_type(lambda value, _: parse_start(value)),
            Field(default_factory=lambda: {"min": 0, "max": 0}),
        ),
        **_make_fields({"count": COUNT}),
    }
    senders: dict[str, Any] = {}
    for name, taken in SENDERS.items():
        fields = (
            {key: own[key] for key in taken}
            | ({"cc": (own["cc"][0] | None, None)} if name == "app" else {})
            | make_path_fields(name)
            | _make_fields(describe_section(name), without=("start", "count"))
        )
        # a stack is the plugin of an entry's `cc` before anything is checked
        of_stack = {"__validators__": {"of_stack": model_validator(mode="before")(_replace_stack)}}
        also = of_stack if name in stack.CARRIED else {}
        one = _make_model(name.capitalize().removesuffix("s"), fields, **also)
        senders[name] = (GenericAlias(list, one), [])
    record = _make_model("Record", _make_fields(describe_section("record")))
    hosts = _make_model("Hosts", _make_fields(describe_section("hosts")))
    parts = {
        "bottleneck": (make_hop_model("bottleneck"), ...),
        "hop": (GenericAlias(list, make_hop_model("hop")), []),
        "reverse": (make_hop_model("reverse") | None, None),
        "hosts": (hosts, Field(default_factory=hosts)),
        **senders,
        "record": (record, Field(default_factory=record)),
    }
    model: type[Section] = _make_model("Run", _make_fields(describe_section("run"), without=("seed",)) | parts)
    return model


def _parse_seeds(value: Any, _: object = None) -> list[int]:
    good = isinstance(value, list) and value and all(type(seed) is int and 0 <= seed < 2**63 for seed in value)
    if not good or len(set(value)) != len(value):
        raise WrongValue(quote_value(value), "a list of different integers of 0 or more, such as [1, 2, 3]")
    return list(value)


def _parse_string(value: Any, _: object = None) -> str:
    if not isinstance(value, str):
        raise WrongValue(quote_value(value), "a string")
    return value


_Seeds = _make_checked_type(_parse_seeds)
_String = _make_checked_type(_parse_string)


class Override(Section):
    """Other values for some cells of the matrix."""

    when: dict[str, Any]
    set: dict[str, Any]


class SweepPlan(Section):
    """The keys of an experiment file that describe the sweep rather than a run."""

    title: _String = ""  # type: ignore[valid-type]
    seeds: _Seeds = [1]  # type: ignore[valid-type]
    matrix: dict[str, list[Any]] = {}
    override: list[Override] = []


PLAN_KEYS = tuple(SweepPlan.model_fields)


@cache
def list_run_keys() -> tuple[str, ...]:
    """Return the keys of an experiment file that describe a run."""
    return tuple(run_model().model_fields)


def validate(model: type[Section], table: dict[str, Any], files: Files | None = None) -> Section:
    """Return `table` as a `model`; InputError without file if it does not fit, of every key that is wrong."""
    try:
        return model.model_validate(table, context=files)
    except ValidationError as error:
        found = [_convert_error(one, table) for one in error.errors(include_url=False)]
    raise combine_errors(found)


def _convert_error(one: Any, table: dict[str, Any]) -> InputError:
    """Return an error of pydantic as one of ours."""
    steps = _find_steps(one["loc"])
    key = format_path(steps)
    match one["type"]:
        case "dumbbell":
            error: InputError = one["ctx"]["error"]
            return error.move("", _format_key((key + error.key).removeprefix("."), table))
        case "missing":
            return Missing(_name_missing(str(steps[-1])), key=key)
        case "extra_forbidden" if steps[0] in HOPS and (instead := other_names.explain_tc_word(str(steps[-1]))):
            return UnknownKey(quote_value(steps[-1]), among=instead, key=key)
        case "extra_forbidden":
            return UnknownKey(
                quote_value(steps[-1]),
                among=_list_keys(steps[:-1], table),
                key=key,
                nearest=find_nearest_key(steps, table),
            )
        case "list_type" if key in (*LISTED, "override") and isinstance(one["input"], dict):
            return Unfit(f"[{key}] is one table", f"[[{key}]], with two brackets: there may be several", key=key)
        case "list_type":
            return WrongValue(quote_value(one["input"]), "a list", key=key)
        case "dict_type" | "model_type" | "model_attributes_type":
            return WrongValue(quote_value(one["input"]), "a table", key=key)
    return WrongValue(quote_value(one["input"]), one["msg"], key=key)


def _format_key(key: str, table: dict[str, Any]) -> str:
    """Return a key of `table` as the file has it: parameters of a stack are in its table, though `cc` was read."""
    of_cc = re.fullmatch(r"(flows|app)\[(\d+)\]\.cc\.(.+)", key)
    if not of_cc or "stack" not in table[of_cc[1]][int(of_cc[2])]:
        return key
    inside = "cc" if of_cc[3] == "control" else f"stack.{of_cc[3]}"
    return f"{of_cc[1]}[{of_cc[2]}].{inside}"


def _find_algorithms() -> dict[str, dict[str, Algorithm]]:
    """Return keys that name algorithms, and which ones."""
    known = read_registry()
    return {"aqm": known.aqm, "cc": known.cc, "link": known.link, "kind": known.app} | dict.fromkeys(
        PATH_KEYS, known.stage
    )


def _find_steps(loc: tuple[str | int, ...]) -> Path:
    """Return the place of an error without the names of the models that pydantic puts in."""
    tags = _find_algorithms()
    owner: str = ""  # what the names of algorithms that come next belong to
    steps: list[str | int] = []
    for part in loc:
        if isinstance(part, int):
            steps.append(part)
        elif part in tags.get(owner, ()) or (owner == "rate_changes" and part in (_CHANGES, _CYCLE)):
            owner = ""
        else:
            steps.append(part)
            owner = part
    return tuple(steps)


def _name_missing(name: str) -> str | list[str]:
    algorithms = {"aqm": read_registry().aqm, "cc": read_registry().cc, "kind": read_registry().app}
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
            return [*PLAN_KEYS, *list_run_keys()]
        case "rate_changes":
            return ["at", "rate"] if isinstance(table[-1], int) else list(CYCLE_KEYS)
        case "override":
            return list(Override.model_fields)
    if owner not in (*HOPS, *SENDERS, *read_registry().sections):
        return []
    own = ["aqm", "link", "rate_changes"] if owner in HOPS else list(SENDERS.get(owner, ()))
    own += ["stack"] if owner in stack.CARRIED else []
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
    run, given = check_tables(table, files)
    settle(run, given)
    return run | {"seed": seed}


def check_tables(table: dict[str, Any], files: Files | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a run whose tables are checked one by one, with every key, and the keys that `table` sets.

    Raises InputError.
    """
    return _check_in_parts(table, files) or _check_at_once(table, files)


def settle(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Check a run as a whole, and give keys the values that follow from others: it is canonical then, without a seed.

    A profile of hosts and a version of an algorithm that are `given` set what `describe` says of them, which is then
    given too. Raises InputError.
    """
    count = sum(one["count"] for one in (*run["flows"], *run["udp"]))
    if count > MAX_FLOWS:
        raise TooMany(f"{count} flows and sources of UDP", f"at most {MAX_FLOWS}", key="flows")
    if count == 0 and not run["web"] and not run["app"]:
        raise Nothing("nothing sends", "at least one [[flows]], [[web]], [[udp]] or [[app]]", key="flows")
    app.check(run, given)
    for (place, hop), (_, own) in zip(list_hops(run), list_hops(given), strict=True):
        link_trace.settle(place, set(own), hop)
    written = without_effect.list_written_keys(given)
    _apply_profile(run, given)
    frame_size.settle(run, given)
    buffer.settle(run, given, written)
    relative.settle(run, given)
    without_effect.refuse(run, written)
    settle_rate_changes(run)
    remove_net(run, list(SENDERS))
    if not run["app"]:  # the configuration of such a run is as it was before there were applications
        del run["app"]


def _make_empty_run() -> dict[str, Any]:
    return {"hosts": {}, "hop": [], "flows": [], "web": [], "udp": [], "app": []}


def _check_at_once(table: dict[str, Any], files: Files | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a run that is checked, with every key, and the keys that are given; raises InputError."""
    model: Any = validate(run_model(), table, files)
    run: dict[str, Any] = model.model_dump()
    for web, one in zip(model.web, run["web"], strict=True):
        one["size"] = web.size  # the same list for all runs, however long it is
    given: dict[str, Any] = model.model_dump(exclude_unset=True, exclude={"web": {"__all__": {"size"}}})
    return run, _make_empty_run() | given


def _check_in_parts(table: dict[str, Any], files: Files | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what `_check_at_once` does; a section that many runs of a file have is checked once.

    None if anything is wrong: what that is, is said of the run as a whole.
    """
    model = run_model()
    if files is None or not table.keys() <= _list_sections(model).keys():
        return None
    run: dict[str, Any] = {}
    given = _make_empty_run()
    single = describe_section("run")
    try:
        for name, section in _list_sections(model).items():
            value = table.get(name)
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
    except (InputError, ValueError, TypeError):  # pydantic's and marshal's are of these
        return None
    return run, given


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise TypeError
    return value or []


@lru_cache(maxsize=4)
def _list_sections(model: type[Section]) -> dict[str, type[Section] | None]:
    """Return the fields of a run's model, in order, each with the model of its tables; None of what is a value."""
    found: dict[str, type[Section] | None] = {}
    for name, one in model.model_fields.items():
        kinds = (kind for kind in (one.annotation, *get_args(one.annotation)) if isinstance(kind, type))
        found[name] = next((kind for kind in kinds if issubclass(kind, Section)), None)
    return found


def _check_part(name: str, section: type[Section], value: Any, files: Files) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a table of a section with every key, and with those that are given; ValueError if it is wrong."""
    place = (name, text := marshal.dumps(value, 2))  # this version writes equal values alike, and unequal ones unlike
    known = _checked.get(place) or files.checked.get(place)
    if known is None:
        before = files.uses
        model = section.model_validate(value, context=files)
        known = _make_table(model), _make_table(model, only_given=True)
        if name == "web":
            known[1].pop("size", None)
        if b"plugin" in text or b"stack" in text:  # its file may change
            return known
        store = _checked if files.uses == before else files.checked
        if len(store) >= _MOST_CHECKED:
            store.clear()
        store[place] = known
    return _copy_table(known[0]), _copy_table(known[1])


def _make_table(value: Any, *, only_given: bool = False) -> Any:
    """Return the tables of a model, as its `model_dump` does in three times the time, or only the keys that are set."""
    if isinstance(value, Section):
        given = value.model_fields_set if only_given else value.__dict__
        return {
            key: one if type(one) in _VALUES else _make_table(one, only_given=only_given)
            for key, one in value.__dict__.items()
            if key in given
        }
    if isinstance(value, list) and value and isinstance(value[0], Section):
        return [_make_table(one, only_given=only_given) for one in value]
    return value  # the same list for all runs, however long it is


def _copy_table(table: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in which a run can set what it does set later: keys, and those that profile and version fill."""
    copied = table.copy()
    for key in KINDS:
        if (algorithm := copied.get(key)) is not None:
            copied[key] = algorithm.copy()
    return copied


def _apply_profile(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Give keys of `run` that are not `given` the values of the hosts' profile, then those of the algorithm's version.

    They count as given if the profile or the version is. The engine does the same with a run that leaves keys out; here
    it is done for the canonical form, in which every value stands.
    """
    known = read_registry()
    profile = known.profiles[run["hosts"]["profile"]]
    named = "profile" in given["hosts"]
    _fill(run["hosts"], given["hosts"], profile.hosts, named=named)
    users = [(own, one) for own, one in zip(given["app"], run["app"], strict=True) if one["cc"] is not None]
    for own, one in (*zip((*given["flows"], *given["web"]), (*run["flows"], *run["web"]), strict=True), *users):
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
    if not values:
        return
    missing = {key: value for key, value in values.items() if key not in given}
    config |= missing
    if named:
        given |= missing
