"""The registry of the engine: queue disciplines, congestion controls and the parameters of each."""

import json
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

from dumbbell import _native

Kind = Literal[
    "time", "rate", "int", "float", "bool", "choice", "arrivals", "sizes", "trace", "name", "hops", "states", "buffer"
]


@dataclass(frozen=True)
class Param:
    """One parameter; `default`, `min` and `max` are canonical: integer ns, bit/s, bytes."""

    name: str
    kind: Kind
    optional: bool
    unit: str
    default: Any
    min: Any
    max: Any
    choices: tuple[str, ...]
    doc: str
    source: str
    frames: int = 0
    """Full frames that the default is: with other segments it is another number of bytes."""
    relative: Literal["", "share", "bdp"] = ""
    """The relative form that a file may use: a share of the rate of the first hop, or bandwidth-delay products."""

    def find_default(self, full_frame: int) -> int:
        """Return the default, which is full frames, where these have `full_frame` bytes."""
        value = self.frames * full_frame
        return max(self.min or 0, min(value, value if self.max is None else self.max))


@dataclass(frozen=True)
class Algorithm:
    """A queue discipline, a congestion control, a stage of a path, a link or an application.

    `versions` says what each word of its first parameter, the version, sets unlike the defaults, canonical.
    """

    name: str
    title: str
    source: str
    params: dict[str, Param]
    versions: dict[str, dict[str, Any]]

    def list_version_changes(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return what the version in `config` sets unlike the defaults."""
        return self.versions.get(config[next(iter(self.params))], {}) if self.versions else {}


@dataclass(frozen=True)
class Profile:
    """The differences of a kernel from the defaults: parameters of hosts and of congestion controls, canonical.

    `sources` says where each is from; its keys are those of hosts, and `cc.key`. `segment_memory` is the memory of a
    segment in a queue in addition to its payload, bytes.
    """

    hosts: dict[str, Any]
    cc: dict[str, dict[str, Any]]
    sources: dict[str, str]
    segment_memory: int


@dataclass(frozen=True)
class Registry:
    """Everything that a run's configuration can hold."""

    aqm: dict[str, Algorithm]
    cc: dict[str, Algorithm]
    stage: dict[str, Algorithm]
    stages_of_data: tuple[str, ...]
    """Stages that acknowledgements cannot pass."""
    link: dict[str, Algorithm]
    app: dict[str, Algorithm]
    apps_of_streams: tuple[str, ...]
    """Applications that need a congestion control."""
    sections: dict[str, dict[str, Param]]
    profiles: dict[str, Profile]
    states: dict[str, str]
    """What queue disciplines tell of their state, with its meaning."""

    def list_stages(self, path: str) -> dict[str, Algorithm]:
        """Return the stages that `path`, `behind` or `ack_path` takes."""
        without = self.stages_of_data if path == "ack_path" else ()
        return {name: stage for name, stage in self.stage.items() if name not in without}

    @cached_property
    def kinds(self) -> dict[str, dict[str, Algorithm]]:
        """Everything that has a name and parameters, by kind."""
        return {"aqm": self.aqm, "cc": self.cc, "stage": self.stage, "link": self.link, "app": self.app}

    @cached_property
    def algorithms(self) -> dict[str, Algorithm]:
        """The same by name."""
        return {name: one for of_kind in self.kinds.values() for name, one in of_kind.items()}


def _read_params(described: list[dict[str, Any]]) -> dict[str, Param]:
    return {p["name"]: Param(**{**p, "choices": tuple(p["choices"] or ())}) for p in described}


def read_algorithm(described: dict[str, Any]) -> Algorithm:
    """Return an algorithm as the engine, or a plugin, describes it."""
    params = _read_params(described["params"])
    return Algorithm(described["name"], described["title"], described["source"], params, described["versions"])


# parameters that a file may give relative to the path of what sends, by section or algorithm, and the sentence for it
RELATIVE: dict[str, dict[str, Literal["share", "bdp"]]] = {
    "udp": {"rate": "share"},
    "flows": {"app_rate": "share"},
    "constant": {"rate": "share", "window": "bdp"},
    "external": {"rate": "share", "window": "bdp"},
}
_RELATIVE_DOC = {
    "share": 'Or a share of the rate that the first hop of its route has at the start, such as "80%".',
    "bdp": 'Or a multiple of the BDP, such as "2bdp": its base RTT times the rate that the first hop of its route has '
    "at the start, in full frames.",
}


def _allow_relative(owner: str, params: dict[str, Param]) -> dict[str, Param]:
    """Return parameters of a section or an algorithm; those that may be relative say so."""
    return params | {
        name: replace(params[name], relative=kind, doc=f"{params[name].doc} {_RELATIVE_DOC[kind]}")
        for name, kind in RELATIVE.get(owner, {}).items()
    }


@cache
def read_registry() -> Registry:
    """Return what the engine describes of itself."""
    described = json.loads(_native.registry())
    sections = {name: _allow_relative(name, _read_params(params)) for name, params in described["sections"].items()}
    profiles = {name: Profile(**profile) for name, profile in described["profiles"].items()}
    aqm, cc, stage, link, app = (
        {one["name"]: read_algorithm(one) for one in described[kind]} for kind in ("aqm", "cc", "stage", "link", "app")
    )
    for name in ("constant", "external"):
        cc[name] = replace(cc[name], params=_allow_relative(name, cc[name].params))
    control = app["video"].params["control"]
    own = replace(control, doc=f"{control.doc} Or {{ plugin = FILE }}, with the parameters of that plugin.")
    app["video"] = replace(app["video"], params=app["video"].params | {"control": own})
    states = {one["name"]: one["doc"] + (f" ({one['unit']})" if one["unit"] else "") for one in described["states"]}
    sections["record"]["queue"] = Param(
        "queue", "states", False, "", [], None, None, tuple(states),
        "State of the queue disciplines at each point of the time series, in table queue_states: "
        + "; ".join(f"{name}: {doc}" for name, doc in states.items()) + ".", "",
    )  # fmt: skip
    of_data, of_streams = (tuple(described[key]) for key in ("stages_of_data", "apps_of_streams"))
    return Registry(aqm, cc, stage, of_data, link, app, of_streams, sections, profiles, states)
