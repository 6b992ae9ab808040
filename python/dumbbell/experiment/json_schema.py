"""The JSON Schema of experiment files, made from what the engine describes of itself."""

import json
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from dumbbell.experiment import buffer, net, override, relative, schema, spelling, stack, traffic, units
from dumbbell.experiment.matrix import SETTING, parse_path
from dumbbell.experiment.registry import Algorithm, Param, read_registry

LIMITS = (
    "It accepts what `dumbbell run` accepts and refuses what `run` refuses, except for what JSON Schema cannot "
    "express: values that contradict each other or the algorithm that the matrix sets, the same run twice, overrides "
    "that no run meets or of what the matrix sets, times after the end of the run, hops that routes name, an index "
    "beyond the list, more than a million flows in all, the types of values in step, equal names of settings, whole "
    "numbers written as 1.0, nan, and files of sizes or traces that are missing. `run --dry-run` checks all of it."
)
SEED = 2**63 - 1
NAME = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"
MOST = {"web": 256, "hop": 62}  # of the engine (crates/dumbbell-config/src)
_SPACE = "[ \\t]*"
_ANY_NAME = "[A-Za-z][A-Za-z0-9_]*"
_INDEX = "\\[(\\*|[0-9]{1,7})\\]"

Schema = dict[str, Any]


def _match_any_case(word: str) -> str:
    return "".join(f"[{c.lower()}{c.upper()}]" for c in word)


def _list_units(kind: str) -> dict[str, int]:
    """Return regular expressions of the units of `kind`, and how large each is."""
    sizes = units.UNITS[kind]
    if kind == "rate":
        return {f"{_match_any_case(unit)}(/s)?": size for unit, size in sizes.items()}
    also = {"time": {"us": "[uµ]s"}, "size": {"kB": "[kK]B"}}[kind]
    return {also.get(unit, unit): size for unit, size in sizes.items()}


def _match_decimals(size: int) -> str:
    """Return a regular expression of the fraction that a number of units of `size` may have."""
    twos = (size & -size).bit_length() - 1
    fives = next(n for n in range(64) if size % 5 ** (n + 1))
    places = min(twos, fives) or twos
    return f"(\\.[0-9]{{1,{places}}}0*)?" if places else "(\\.0+)?"


def _expand(value: Fraction, *, up: bool, places: int = 12) -> tuple[str, str]:
    """Return the digits of `value` ahead of the point and those behind it, without zeros at the ends."""
    scaled = value * 10**places
    whole = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    integer, fraction = divmod(whole, 10**places)
    return str(integer) if integer else "", f"{fraction:0{places}d}".rstrip("0")


def _match_beyond(digits: str, *, up: bool, rest: str) -> list[str]:
    """Return regular expressions of digit strings that first differ from `digits` upwards (or downwards)."""
    found = []
    for place, digit in enumerate(digits):
        others = range(int(digit) + 1, 10) if up else range(int(digit))
        if others:
            found.append(f"{digits[:place]}[{others[0]}-{others[-1]}]" + rest.format(n=len(digits) - place - 1))
    return found


def match_at_least(value: Fraction) -> str:
    """Return a regular expression of the decimals that are not below `value`."""
    whole, fraction = _expand(value, up=True)
    found = [f"[1-9][0-9]{{{len(whole)},}}(\\.[0-9]+)?"]
    found += [f"{part}(\\.[0-9]+)?" for part in _match_beyond(whole, up=True, rest="[0-9]{{{n}}}")]
    behind = [*_match_beyond(fraction, up=True, rest="[0-9]*"), f"{fraction}[0-9]*"]
    found.append(f"{whole}\\.({'|'.join(behind)})" if fraction else f"{whole}(\\.[0-9]+)?")
    return f"0*({'|'.join(found)})"


def match_at_most(value: Fraction) -> str:
    """Return a regular expression of the decimals that are not above `value`."""
    whole, fraction = _expand(value, up=False)
    found = [f"[0-9]{{0,{len(whole) - 1}}}(\\.[0-9]+)?"] if whole else []
    found += [f"{part}(\\.[0-9]+)?" for part in _match_beyond(whole, up=False, rest="[0-9]{{{n}}}")]
    behind = [
        *_match_beyond(fraction, up=False, rest="[0-9]*"),
        *(fraction[:n] for n in range(1, len(fraction))),
        f"{fraction}0*",
    ]
    found.append(f"{whole}(\\.({'|'.join(behind)}))?" if fraction else f"{whole}(\\.0*)?")
    return f"0*({'|'.join(found)})"


def _match_any_unit(parts: Iterable[str]) -> str:
    return f"^{_SPACE}({'|'.join(parts)}){_SPACE}$"


class _Definitions:
    """The definitions in `$defs`, each once."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}

    def add(self, name: str, definition: Schema) -> Schema:
        self.found.setdefault(name, definition)
        return {"$ref": f"#/$defs/{name}"}

    def define_quantity(self, kind: str, low: int | None, high: int | None) -> Schema:
        """Return the schema of a time, rate or size from `low` to `high`."""
        words = _list_units(kind)
        number = "[0-9]{1,30}"
        pattern = _match_any_unit(f"{number}{_match_decimals(size)}{_SPACE}{word}" for word, size in words.items())
        parts = [self.add(kind, {"type": "string", "pattern": pattern})]
        for bound, regex, said in ((low, match_at_least, "from"), (high, match_at_most, "to")):
            if bound:
                pattern = _match_any_unit(
                    f"{regex(Fraction(bound, size))}{_SPACE}{word}" for word, size in words.items()
                )
                parts.append(self.add(f"{kind}_{said}_{units.show(kind, bound)}", {"pattern": pattern}))
        quantity = {"allOf": parts} if len(parts) > 1 else parts[0]
        return quantity if low else {"anyOf": [quantity, {"const": 0}]}

    def define_value(self, param: Param) -> Schema:
        """Return the schema of what `spelling.parse_value` takes for `param`."""
        found: Schema
        low = 0 if param.min is None and param.kind != "float" else param.min
        high = 2**64 - 1 if param.max is None and param.kind != "float" else param.max
        if kind := spelling.find_unit_kind(param):
            found = self.define_quantity(kind, low, high)
        elif param.kind == "arrivals":
            found = self._define_arrivals()
        elif param.kind == "sizes":
            found = self._define_sizes()
        elif param.kind == "trace":
            found = {"type": "string"}
        elif param.kind == "buffer":
            found = self._define_buffer()
        elif param.kind == "name":
            found = {"type": "string", "pattern": NAME}
        elif param.kind == "states":
            found = {"type": "array", "items": {"enum": list(param.choices)}, "uniqueItems": True}
        elif param.kind == "hops":
            found = {"type": "array", "items": {"type": "string", "pattern": NAME}}
        elif param.kind == "choice":
            found = {"enum": list(param.choices)}
        else:
            limits = {"minimum": low, "maximum": high} if param.kind != "bool" else {}
            found = {"type": {"int": "integer", "float": "number", "bool": "boolean"}[param.kind]}
            found |= {key: value for key, value in limits.items() if value is not None}
            if names := spelling.list_value_names(param):
                found = {"anyOf": [found, {"enum": list(names)}]}
        if param.relative:
            found = {"anyOf": [found, self._define_relative(param)]}
        return {"anyOf": [found, {"enum": ["none", None]}]} if param.optional else found

    def define_param(self, param: Param) -> Schema:
        """Return the same with description and default."""
        doc = " ".join(part for part in (param.doc, f"Source: {param.source}." * bool(param.source)) if part)
        if param.kind == "sizes":
            default = traffic.format_sizes(param.default)
        else:
            as_text = spelling.find_unit_kind(param) or param.kind == "arrivals" or param.default is None
            default = spelling.show_value(param, param.default) if as_text else param.default
        return self.define_value(param) | {"description": doc, "default": default}

    def _define_relative(self, param: Param) -> Schema:
        unit, (low, high) = relative.UNITS[param.relative], relative.BOUNDS[param.relative]
        numbers = ("[0-9]{1,12}(\\.[0-9]{1,9})?", match_at_least(low), match_at_most(high))
        return {"type": "string", "allOf": [{"pattern": f"^{_SPACE}{one}{_SPACE}{unit}{_SPACE}$"} for one in numbers]}

    def _define_buffer(self) -> Schema:
        number = "[0-9]{1,12}(\\.[0-9]{1,9})?"
        bounds = (match_at_least(buffer.LEAST_BDP), match_at_most(buffer.MOST_BDP))
        products = [f"^{_SPACE}{one}{_SPACE}bdp{_SPACE}$" for one in (number, *bounds)]
        whole = "0*[1-9][0-9]{0,7}|0*100000000"
        packets = f"^{_SPACE}(?=[0-9]{{1,12}}[^0-9])({whole})(\\.0{{1,9}})?{_SPACE}p{_SPACE}$"
        return {
            "anyOf": [
                {"type": "string", "allOf": [{"pattern": one} for one in products]},
                {"type": "string", "pattern": packets},
                {"type": "integer", "minimum": 1, "maximum": buffer.MOST_PACKETS},
                self.define_quantity("size", 1, buffer.MOST_BYTES),
                self.define_quantity("time", 1, buffer.LONGEST),
            ]
        }

    def _define_arrivals(self) -> Schema:
        number = f"{_SPACE}[0-9]{{1,15}}(\\.[0-9]{{1,15}})?"
        rest = f"{_SPACE}/{_SPACE}s({_SPACE}/{_SPACE}Mbit)?{_SPACE}$"
        limit = f"^{_SPACE}{match_at_most(Fraction(traffic.MAX_ARRIVALS))}{_SPACE}/"
        return {
            "anyOf": [{"type": "string", "pattern": f"^{number}{rest}", "allOf": [{"pattern": limit}]}, {"const": 0}]
        }

    def _define_sizes(self) -> Schema:
        size = self.define_quantity("size", 1, traffic.MAX_SIZE)
        shape = {"type": "number", "minimum": traffic.SHAPES[0], "maximum": traffic.SHAPES[1]}
        forms = ({"pareto": shape, "min": size, "max": size}, {"csv": {"type": "string"}})
        return {"anyOf": [size, *(_define_table(form, required=list(form)) for form in forms)]}

    def define_time(self) -> Schema:
        return self.define_quantity("time", 0, schema.DAY)

    def start(self) -> Schema:
        ends = {"type": "array", "items": self.define_time(), "minItems": 2, "maxItems": 2}
        return {"anyOf": [self.define_time(), _define_table({"uniform": ends}, required=["uniform"])]}

    def define_algorithm(self, kind: str, algorithms: dict[str, Algorithm]) -> Schema:
        """Return the schema of `aqm`, `cc`, `link` or a stage: a name, or a table with a name and parameters."""
        tables = []
        for algorithm in algorithms.values():
            params = {name: self.define_param(param) for name, param in algorithm.params.items()}
            if kind == "app" and schema.MEDIA_CONTROL in params:
                plugin = self.define_plugin("media")
                params[schema.MEDIA_CONTROL] = {"anyOf": [params[schema.MEDIA_CONTROL], plugin]}
            table = _define_table({"name": {"const": algorithm.name}} | params, required=["name"])
            table["description"] = f"{algorithm.title}. {algorithm.source}"
            tables.append(self.add(f"{kind}_{algorithm.name}".replace("-", "_"), table))
        if kind in schema.KINDS:
            tables.append(self.define_plugin(kind))
        return self.add(kind, {"anyOf": [{"enum": list(algorithms)}, *tables]})

    def define_plugin(self, kind: str) -> Schema:
        """Return the schema of the table of a plugin."""
        file = {"type": "string", "minLength": 1, "description": "File of a plugin, relative to the experiment's."}
        described = "A plugin: its file, and the parameters that it declares."
        table = {"type": "object", "properties": {"plugin": file}, "required": ["plugin"], "description": described}
        return self.add(f"{kind}_plugin", table)


def _define_table(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {})


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


class _Keys:
    """Keys of a matrix, and what their values may be."""

    def __init__(self) -> None:
        self.found: dict[str, list[Schema]] = {}

    def add(self, key: str, value: Schema) -> None:
        self.found.setdefault(key, []).append(value)

    def make_patterns(self, value: Callable[[str, Schema], Schema | None]) -> dict[str, Schema]:
        """Return `patternProperties`: what `value` makes of key and schema, keys that take the same together."""
        keys: dict[str, list[str]] = {}
        for key, of in self.found.items():
            if (made := value(key, of[0] if len(of) == 1 else {"anyOf": of})) is not None:
                keys.setdefault(json.dumps(made), []).append(key)
        return {f"^{_SPACE}({'|'.join(alike)}){_SPACE}$": json.loads(made) for made, alike in keys.items()}

    def match_any(self) -> str:
        """Return a regular expression of every key: those that begin alike share their beginning."""
        ends: dict[str, list[str]] = {}
        for key in self.found:
            start, dot, end = key.rpartition("\\.")
            ends.setdefault(start + dot, []).append(end)
        return "|".join(f"{start}({'|'.join(of)})" for start, of in ends.items())


def _add_algorithm_keys(
    keys: _Keys, place: str, whole: Schema, algorithms: dict[str, Algorithm], defs: _Definitions
) -> None:
    keys.add(place, whole)
    keys.add(f"{place}\\.name", {"enum": list(algorithms)})
    for algorithm in algorithms.values():
        for name, param in algorithm.params.items():
            if defs.define_value(param) not in keys.found.get(f"{place}\\.{name}", []):
                keys.add(f"{place}\\.{name}", defs.define_value(param))


# what senders name, one or the other
_SPEAKS = {"flows": ("cc", "stack"), "web": ("cc",), "app": ("kind",)}


def _define_presence(section: str, inner: str = "") -> Schema:
    """Return the schema of files whose matrix sets `section`, or `inner` within it."""
    key = f"(^|,){_SPACE}{section}({inner})?{_SPACE}(,|$)"
    return {"required": ["matrix"], "properties": {"matrix": {"not": {"propertyNames": {"not": {"pattern": key}}}}}}


def _define_section(name: str, defs: _Definitions, keys: _Keys) -> Schema:
    """Return the schema of a table of the file; its keys go to `keys`."""
    known = read_registry()
    listed = name in schema.LISTED
    place = name + (_INDEX if listed else "")
    fields: dict[str, Schema] = {}
    for key, kind, algorithms in (("aqm", "aqm", known.aqm), ("kind", "app", known.app), ("cc", "cc", known.cc)):
        if (kind == "aqm" and name in net.HOPS) or key in schema.SENDERS.get(name, ()):
            fields[key] = defs.define_algorithm(kind, algorithms)
            _add_algorithm_keys(keys, f"{place}\\.{key}", fields[key], algorithms, defs)
            if key == "kind":
                keys.add(f"{place}\\.{key}\\.{schema.MEDIA_CONTROL}", defs.define_plugin("media"))
    for key, where in schema.PATHS.get(name, {}).items():
        stages = known.list_stages(key)
        stage = defs.define_algorithm("ack_stage" if key == "ack_path" else "stage", stages)
        fields[key] = _list(stage) | {"description": f"Stages {where}, in this order.", "default": []}
        keys.add(f"{place}\\.{key}", _list(stage))
        _add_algorithm_keys(keys, f"{place}\\.{key}{_INDEX}", stage, stages, defs)
    if name in net.HOPS:
        link = defs.define_algorithm("link", known.link)
        optional = {"anyOf": [link, {"enum": ["none", None]}]}
        fields["link"] = optional | {"description": "How packets leave the queue.", "default": "none"}
        _add_algorithm_keys(keys, f"{place}\\.link", optional, known.link, defs)
        rate = defs.define_value(known.sections["bottleneck"]["rate"])
        change = {"at": defs.define_time(), "rate": rate}
        every, until = defs.define_value(net.EVERY), defs.define_value(net.UNTIL)
        cycle = {"every": every, "rates": _list(rate) | {"minItems": 1}, "until": until}
        changes = {
            "anyOf": [
                _list(defs.add("RateChange", _define_table(change, required=list(change)))),
                defs.add("RateCycle", _define_table(cycle, required=["every", "rates"])),
            ]
        }
        fields["rate_changes"] = changes | {"default": []}
        keys.add(f"{place}\\.rate_changes", changes)
        for key, value in change.items():
            keys.add(f"{place}\\.rate_changes{_INDEX}\\.{key}", value)
        for key, value in cycle.items():
            keys.add(f"{place}\\.rate_changes\\.{key}", value)
        keys.add(f"{place}\\.rate_changes\\.rates{_INDEX}", rate)
    for key, param in schema.describe_section(name).items():
        fields[key] = defs.define_param(param)
        if key == "start":
            fields[key] |= defs.start()
            keys.add(f"{place}\\.start\\.uniform", defs.start()["anyOf"][1]["properties"]["uniform"])
        keys.add(f"{place}\\.{key}", {k: v for k, v in fields[key].items() if k not in ("description", "default")})
        if param.kind == "sizes":
            for end in ("min", "max"):
                keys.add(f"{place}\\.{key}\\.{end}", defs.define_quantity("size", 1, traffic.MAX_SIZE))
            shape = {"type": "number", "minimum": traffic.SHAPES[0], "maximum": traffic.SHAPES[1]}
            keys.add(f"{place}\\.{key}\\.pareto", shape)
    table = _define_carried(fields, keys, place) if name in stack.CARRIED else _define_table(fields)
    one = defs.add(name.capitalize().removesuffix("s" if listed else ""), table)
    keys.add(place, one)
    if listed:
        keys.add(name, _list(one))
    limit = {"maxItems": MOST[name]} if name in MOST else {}
    return _list(one) | limit | {"default": []} if listed else one


def _define_carried(fields: dict[str, Schema], keys: _Keys, place: str) -> Schema:
    """Return the schema of what a stack may carry: `cc` is a control of that then, which only its library knows."""
    control, text = {"type": "string", "minLength": 1}, {"type": "string", "minLength": 1}
    table = {
        "type": "object",
        "properties": {"name": text, "plugin": text},
        "anyOf": [{"required": ["name"]}, {"required": ["plugin"]}],
    }
    own = {"anyOf": [text, table]}
    keys.add(f"{place}\\.cc", control)
    keys.add(f"{place}\\.stack", own)
    keys.add(f"{place}\\.stack\\.{_ANY_NAME}", {})
    found = _define_table(fields | {"stack": own | {"description": stack.DOC}, "cc": {}})
    tcp = {"properties": {"cc": fields["cc"]}}
    return found | {"if": {"required": ["stack"]}, "then": {"properties": {"cc": control}}, "else": tcp}


def _define_matrix(keys: _Keys) -> Schema:
    one = f"{_SPACE}({keys.match_any()}){_SPACE}"
    axis = {"type": "array", "minItems": 1}
    in_step = {
        f"^[^,]*(,[^,]*){{{n - 1}}}$": axis | {"items": {"type": "array", "minItems": n, "maxItems": n}}
        for n in range(2, 17)
    }
    return {
        "type": "object",
        "minProperties": 1,
        "description": "Key and its values; every combination is a run. Keys joined by commas take lists of values; "
        "the first may be setting, which names them.",
        "patternProperties": keys.make_patterns(lambda _, value: axis | {"items": value})
        | in_step
        | {f"^{_SPACE}{SETTING}{_SPACE},": {"items": {"prefixItems": [{"type": "string", "pattern": "\\S"}]}}},
        "propertyNames": {"pattern": f"^({_SPACE}{SETTING}{_SPACE},)?{one}(,{one})*$"},
    }


def _define_override(keys: _Keys) -> Schema:
    def define_condition(key: str, value: Schema) -> Schema | None:
        plain = key.replace(_INDEX, "[0]").replace(_ANY_NAME, "name").replace("\\.", ".")
        if not override.has_value(parse_path(plain)) or ".stack" in plain:
            return None
        wanted = {"type": "string"} if key.endswith(("\\.aqm", "\\.cc", "\\.link")) else value
        return {"anyOf": [wanted, {"type": "array", "items": wanted, "minItems": 1}]}

    tables = {
        "when": ("Keys and the value, or list of values, that each must have.", keys.make_patterns(define_condition)),
        "set": (
            "Keys and the value that each gets.",
            keys.make_patterns(lambda key, value: None if key in override.TABLES else value),
        ),
    }
    properties = {
        key: {"type": "object", "minProperties": 1, "description": doc, "patternProperties": patterns}
        | {"additionalProperties": False}
        for key, (doc, patterns) in tables.items()
    }
    return _define_table(properties, required=["when", "set"])


def make_schema() -> Schema:
    """Return the JSON Schema of an experiment file; `LIMITS` says what it cannot say."""
    defs, keys = _Definitions(), _Keys()
    duration = read_registry().sections["run"]["duration"]
    keys.add("duration", defs.define_value(duration))
    sections = {name: _define_section(name, defs, keys) for name in (*net.HOPS, "hosts", *schema.SENDERS, "record")}
    seed = {"type": "integer", "minimum": 0, "maximum": SEED}
    properties = {
        "title": {"type": "string", "description": "Title of the experiment.", "default": ""},
        "duration": defs.define_param(duration),
        "seeds": _list(seed) | {"minItems": 1, "uniqueItems": True, "description": "Every run is made with each."},
        **sections,
        "matrix": _define_matrix(keys),
        "override": _list(defs.add("Override", _define_override(keys))),
    }
    with_aqm = {"required": ["bottleneck"], "properties": {"bottleneck": {"required": ["aqm"]}}}
    needs_aqm = {"properties": {"reverse": {"required": ["aqm"]}}, "required": ["reverse"]}
    no_reverse = {"not": {"anyOf": [{"required": ["reverse"]}, _define_presence("reverse", "\\..*")]}}
    whole_hops = {"properties": {"hop": {"items": {"required": ["name", "aqm"]}}}}
    # where no stack carries an entry of a section, a matrix sets controls of TCP
    of_tcp = {"items": defs.define_algorithm("cc", read_registry().cc)}

    def define_controls(name: str) -> Schema:
        has_stack = {"required": [name], "properties": {name: {"contains": {"required": ["stack"]}}}}
        tcp = {"patternProperties": {f"^{_SPACE}{name}{_INDEX}\\.cc{_SPACE}$": of_tcp}}
        sets_stack = _define_presence(name, f"{_INDEX}\\.stack(\\..*)?")
        return {"anyOf": [has_stack, sets_stack, {"properties": {"matrix": tcp}}]}

    complete = [
        {"anyOf": [with_aqm, _define_presence("bottleneck", "\\.aqm(\\.name)?")]},
        {"anyOf": [needs_aqm, no_reverse, _define_presence("reverse", "\\.aqm(\\.name)?")]},
        {"anyOf": [whole_hops, _define_presence("hop", f"({_INDEX}(\\.(name|aqm(\\.name)?))?)?")]},
        {"anyOf": [part for name in schema.SENDERS for part in (_define_some(name), _define_presence(name))]},
        *(
            {
                "anyOf": [
                    {"properties": {name: {"items": {"anyOf": [{"required": [key]} for key in _SPEAKS[name]]}}}},
                    _define_presence(name, f"{_INDEX}(\\.({'|'.join(_SPEAKS[name])})(\\.(name|plugin))?)?"),
                ]
            }
            for name in _SPEAKS
        ),
        *map(define_controls, stack.CARRIED),
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Experiment of dumbbell",
        "description": LIMITS,
        **_define_table(properties),
        "allOf": complete,
        "$defs": defs.found,
    }


def _define_some(name: str) -> Schema:
    return {"required": [name], "properties": {name: {"minItems": 1}}}
