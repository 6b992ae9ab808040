"""The typed schema of an experiment file, made from what the engine describes of itself."""

import math
from collections.abc import Callable
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dumbbell import link_trace, traffic, units
from dumbbell.errors import InputError, nearest, shown
from dumbbell.files import Files
from dumbbell.registry import Algorithm, Param, registry

MAX_FLOWS = 1_000_000
DAY = 86_400 * 10**9


def _complaint(error: InputError) -> PydanticCustomError:
    details = {"key": error.key, "found": error.found, "allowed": error.allowed, "nearest": error.nearest or ""}
    return PydanticCustomError("dumbbell", "found {found}, allowed: {allowed}", details)


def unit_kind(param: Param) -> str | None:
    """Return "time", "rate" or "size" if values of `param` need a unit."""
    if param.kind in ("time", "rate"):
        return param.kind
    return "size" if param.kind == "int" and param.unit == "bytes" else None


def show_value(param: Param, value: Any) -> str:
    """Return a canonical value as it would stand in an experiment file, without quotes."""
    kind = unit_kind(param)
    if value is None:
        return "none"
    if param.kind == "arrivals":
        return traffic.show_arrivals(value)
    if param.kind == "sizes":
        return traffic.show_sizes(value)
    if param.kind == "trace":
        return link_trace.show(value)
    return units.show(kind, value) if kind else shown(value, 200).strip('"')


def allowed_values(param: Param) -> str:
    """Return in words what `param` takes."""
    match param.kind:
        case "bool":
            allowed = "true, false"
        case "choice":
            allowed = ", ".join(param.choices)
        case _:
            thing = {"time": "a time", "rate": "a rate", "float": "a number"}.get(param.kind, "an integer")
            low, high = param.min, param.max
            if low is None and high is None and param.kind == "int":
                low, high = 0, 2**64 - 1
            limits = [f"from {show_value(param, low)}"] if low is not None else []
            limits += [f"to {show_value(param, high)}"] if high is not None else []
            allowed = " ".join([thing, *limits])
    return f"{allowed}, none" if param.optional else allowed


def canonical(param: Param, value: Any, files: Files | None = None) -> Any:
    """Return `value`, as written in a file, in canonical form; InputError without file and key if it cannot be.

    `files` reads the files that it names.
    """
    if param.optional and (value is None or (value == "none" and "none" not in param.choices)):
        return None

    def wrong() -> InputError:
        return InputError("", "", shown(value), allowed_values(param))

    if param.kind == "arrivals":
        return traffic.parse_arrivals(value)
    if param.kind == "sizes":
        return traffic.parse_sizes(value, files)
    if param.kind == "trace":
        return link_trace.parse(value, files)
    kind = unit_kind(param)
    if kind:
        result: Any = units.parse(kind, value)
    elif param.kind == "choice":
        if value not in param.choices:
            raise InputError("", "", shown(value), allowed_values(param), nearest(value, param.choices))
        return value
    elif param.kind == "bool":
        if not isinstance(value, bool):
            raise wrong()
        return value
    elif param.kind == "int":
        if type(value) is not int:
            raise wrong()
        result = value
    else:
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or math.isnan(value):
            raise wrong()
        result = float(value)
    low = 0 if param.min is None and param.kind != "float" else param.min
    high = 2**64 - 1 if param.max is None and param.kind != "float" else param.max
    if (low is not None and result < low) or (high is not None and result > high):
        raise wrong()
    return result


Parse = Callable[[Any, Files | None], Any]


def _checked(parse: Parse) -> Any:
    """Return the type of values that `parse` accepts and makes canonical."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        try:
            return parse(value, info.context)
        except InputError as error:
            raise _complaint(error) from None

    return Annotated[Any, PlainValidator(validate)]


class Section(BaseModel):
    """A table of an experiment file: unknown keys are errors that name the nearest known one."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def known_keys(cls, value: Any) -> Any:
        """Refuse a key that is not in the schema."""
        if not isinstance(value, dict):
            raise _complaint(InputError("", "", shown(value), "a table"))
        for key in value:
            if key not in cls.model_fields:
                allowed = list(cls.model_fields)
                raise _complaint(InputError("", f".{key}", "this key", ", ".join(allowed), nearest(key, allowed)))
        return value


def _fields(params: dict[str, Param], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    def field(param: Param) -> Any:
        default = Field(default_factory=lambda: param.default)
        return (_checked(lambda value, files: canonical(param, value, files)), default)

    return {name: field(param) for name, param in params.items() if name not in without}


def _algorithm_type(what: str, algorithms: dict[str, Algorithm]) -> Any:
    """Return the type of `aqm`, `cc` and stages of a path: a name, or a table with a name and parameters."""
    models = []
    for algorithm in algorithms.values():
        fields = {"name": (Literal[algorithm.name], ...)} | _fields(algorithm.params)
        name = f"{what}_{algorithm.name}".replace("-", "_")
        models.append(create_model(name, __base__=Section, __doc__=f"{algorithm.title}. {algorithm.source}", **fields))
    names = list(algorithms)

    def by_name(value: Any) -> Any:
        table = {"name": value} if isinstance(value, str) else value
        if not isinstance(table, dict):
            error = InputError("", "", shown(value), f"a name, or a table with a name: {', '.join(names)}")
            raise _complaint(error)
        name = table.get("name")
        if name not in names:
            key = "" if isinstance(value, str) else ".name"
            raise _complaint(InputError("", key, shown(name), ", ".join(names), nearest(name, names)))
        return table

    union: Any = Union[tuple(models)]  # noqa: UP007  built at run time
    if len(models) > 1:
        union = Annotated[union, Field(discriminator="name")]
    return Annotated[union, BeforeValidator(by_name)]


_TIME = Param("time", "time", False, "", 0, 0, DAY, (), "", "")
START = Param(
    "start", "time", False, "", 0, 0, DAY, (), 'When it starts: a time, or { uniform = ["0s", "1s"] } to draw one.', ""
)
COUNT = Param("count", "int", False, "", 1, 1, MAX_FLOWS, (), "How many there are of it.", "")
# sections whose entries send, and what they take beside the keys that the engine describes
SENDERS = {"flows": ("cc", "start", "count"), "web": ("cc", "start"), "udp": ("start", "count")}
# lists of stages that packets or acknowledgements pass, and where they lie
PATHS = {
    "flows": {"path": "between the sender and the bottleneck", "ack_path": "between the receiver and the sender"},
    "web": {"path": "between the sender and the bottleneck", "ack_path": "between the receiver and the sender"},
    "udp": {"path": "between the sender and the bottleneck"},
    "bottleneck": {"path": "right ahead of the queue, for all packets", "behind": "behind the link, for all packets"},
}
PATH_KEYS = frozenset(key for keys in PATHS.values() for key in keys)


def described(section: str) -> dict[str, Param]:
    """Return what a table of the experiment file takes, but for queue disciplines and congestion controls."""
    own = {param.name: param for param in (START, COUNT) if param.name in SENDERS.get(section, ())}
    return own | registry().sections[section]


def profile_lines(name: str) -> list[str]:
    """Return what a profile of hosts sets, `key = value [source]` a line."""
    known, profile = registry(), registry().profiles[name]
    values = {key: show_value(known.sections["hosts"][key], value) for key, value in profile.hosts.items()}
    for cc, params in profile.cc.items():
        values |= {f"{cc}.{key}": show_value(known.cc[cc].params[key], value) for key, value in params.items()}
    lines = [f"{key} = {value} [{profile.sources[key]}]" for key, value in values.items()]
    return lines or ["the defaults"]


def canonical_start(value: Any) -> dict[str, int]:
    """Return the earliest and latest start of a flow, ns; InputError without file and key."""
    if isinstance(value, dict):
        allowed = 'a time, or { uniform = ["0s", "1s"] }'
        ends = value.get("uniform")
        if set(value) != {"uniform"} or not isinstance(ends, list) or len(ends) != 2:
            raise InputError("", "", shown(value), allowed)
        first, last = (canonical(_TIME, end) for end in ends)
        if first > last:
            raise InputError("", "", shown(value), "an earliest time that is not after the latest")
        return {"min": first, "max": last}
    start = canonical(_TIME, value)
    return {"min": start, "max": start}


def _model(name: str, fields: dict[str, Any]) -> Any:
    return create_model(name, __base__=Section, **fields)


@cache
def run_model() -> type[Section]:
    """Return the model of one run: everything in an experiment file that the engine sees."""
    sections = registry().sections
    rate = _fields(sections["bottleneck"])["rate"][0]
    change = _model("RateChange", {"at": (_fields({"at": _TIME})["at"][0], ...), "rate": (rate, ...)})
    aqm = {"aqm": (_algorithm_type("aqm", registry().aqm), ...), "rate_changes": (GenericAlias(list, change), [])}
    stage = _algorithm_type("stage", registry().stage)

    def paths(section: str) -> dict[str, Any]:
        return {key: (GenericAlias(list, stage), []) for key in PATHS.get(section, ())}

    bottleneck = _model("Bottleneck", aqm | paths("bottleneck") | _fields(sections["bottleneck"]))
    own = {
        "cc": (_algorithm_type("cc", registry().cc), ...),
        "start": (
            _checked(lambda value, _: canonical_start(value)),
            Field(default_factory=lambda: {"min": 0, "max": 0}),
        ),
        **_fields({"count": COUNT}),
    }
    senders: dict[str, Any] = {}
    for name, taken in SENDERS.items():
        fields = {key: own[key] for key in taken} | paths(name) | _fields(sections[name])
        one = _model(name.capitalize().removesuffix("s"), fields)
        senders[name] = (GenericAlias(list, one), [])
    record = _model("Record", _fields(sections["record"]))
    hosts = _model("Hosts", _fields(sections["hosts"]))
    parts = {
        "bottleneck": (bottleneck, ...),
        "hosts": (hosts, Field(default_factory=hosts)),
        **senders,
        "record": (record, Field(default_factory=record)),
    }
    model: type[Section] = _model("Run", _fields(sections["run"], without=("seed",)) | parts)
    return model


def _seeds(value: Any, _: object = None) -> list[int]:
    good = isinstance(value, list) and value and all(type(seed) is int and 0 <= seed < 2**63 for seed in value)
    if not good or len(set(value)) != len(value):
        raise InputError("", "", shown(value), "a list of different integers of 0 or more, such as [1, 2, 3]")
    return list(value)


def _string(value: Any, _: object = None) -> str:
    if not isinstance(value, str):
        raise InputError("", "", shown(value), "a string")
    return value


_Seeds = _checked(_seeds)
_String = _checked(_string)


class Override(Section):
    """Other values for some cells of the matrix."""

    when: dict[str, Any]
    set: dict[str, Any]


class Plan(Section):
    """The keys of an experiment file that describe the sweep rather than a run."""

    title: _String = ""  # type: ignore[valid-type]
    seeds: _Seeds = [1]  # type: ignore[valid-type]
    matrix: dict[str, list[Any]] = {}
    override: list[Override] = []


def validate(model: type[Section], table: dict[str, Any], files: Files | None = None) -> Section:
    """Return `table` as a `model`; InputError with its key, without file, if it does not fit."""
    try:
        return model.model_validate(table, context=files)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    tags = {"aqm": registry().aqm, "cc": registry().cc} | dict.fromkeys(PATH_KEYS, registry().stage)
    owner = ""  # what the names of algorithms that come next belong to
    key = ""
    for part in first["loc"]:
        if isinstance(part, int):
            key += f"[{part}]"
        elif part in tags.get(owner, ()):
            owner = ""
        else:
            key += "" if part.startswith(("aqm_", "cc_", "stage_")) else f".{part}"
            owner = part
    context = first.get("ctx", {})
    match first["type"]:
        case "dumbbell":
            found, allowed = context["found"], context["allowed"]
            raise InputError("", (key + context["key"]).removeprefix("."), found, allowed, context["nearest"] or None)
        case "missing":
            found, allowed = "nothing", _missing(str(first["loc"][-1]))
        case "list_type":
            found, allowed = shown(first["input"]), "a list"
        case "dict_type":
            found, allowed = shown(first["input"]), "a table"
        case _:
            found, allowed = shown(first["input"]), first["msg"]
    raise InputError("", key.removeprefix("."), found, allowed)


def _missing(name: str) -> str:
    algorithms = {"aqm": registry().aqm, "cc": registry().cc}
    tables = {"bottleneck": "a table", "when": "a table", "set": "a table"}
    return ", ".join(algorithms[name]) if name in algorithms else tables.get(name, "a value")


def resolve(table: dict[str, Any], seed: int, files: Files | None = None) -> dict[str, Any]:
    """Return the canonical form of a run whose `flows` and `udp` still have their `count`.

    Every key is present, times are integer ns, rates integer bit/s and sizes integer bytes; keys of hosts and
    congestion controls that `table` does not set have the values of the hosts' profile. `files` reads the
    files that it names. Raises InputError.
    """
    model: Any = validate(run_model(), table, files)
    run: dict[str, Any] = model.model_dump()
    listed = sum(one["count"] for one in (*run["flows"], *run["udp"]))
    if listed > MAX_FLOWS:
        raise InputError("", "flows", f"{listed} flows and sources of UDP", f"at most {MAX_FLOWS}")
    if listed == 0 and not run["web"]:
        raise InputError("", "flows", "nothing that sends", "one [[flows]], [[web]] or [[udp]] or more")
    for web, one in zip(model.web, run["web"], strict=True):
        one["size"] = web.size  # the same list for all runs, however long it is
    _apply_trace(model.bottleneck.model_fields_set, run["bottleneck"])
    _apply_profile(model, run)
    return run | {"seed": seed}


WITHOUT_TRACE = ("rate", "shaper", "burst", "rate_changes")  # of a bottleneck


def _apply_trace(given: set[str], bottleneck: dict[str, Any]) -> None:
    """Make the rate of a bottleneck with a trace that of the trace; InputError if a key is `given` that it replaces."""
    trace = bottleneck["trace"]
    if trace is None:
        return
    for key in WITHOUT_TRACE:
        if key in given and bottleneck[key] != []:
            allowed = "one of the two: the trace says when the link sends, and its mean rate is the rate"
            raise InputError("", f"bottleneck.{key}", "this key beside bottleneck.trace", allowed)
    bottleneck["rate"] = link_trace.mean_rate(trace["schedule"])


def _apply_profile(model: Any, run: dict[str, Any]) -> None:
    """Give keys that `model` was not given the values of the hosts' profile, then those of the algorithm's version."""
    known = registry()
    profile = known.profiles[run["hosts"]["profile"]]
    run["hosts"] |= {key: value for key, value in profile.hosts.items() if key not in model.hosts.model_fields_set}
    for given, one in zip((*model.flows, *model.web), (*run["flows"], *run["web"]), strict=True):
        params = profile.cc.get(one["cc"]["name"], {})
        one["cc"] |= {key: value for key, value in params.items() if key not in given.cc.model_fields_set}
        _apply_version(given.cc, one["cc"], known.cc)
    _apply_version(model.bottleneck.aqm, run["bottleneck"]["aqm"], known.aqm)


def _apply_version(model: Any, config: dict[str, Any], algorithms: dict[str, Algorithm]) -> None:
    params = algorithms[config["name"]].of_version(config)
    config |= {key: value for key, value in params.items() if key not in model.model_fields_set}
