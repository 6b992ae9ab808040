from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SHELL_ADDRESSES",
    "Agents",
    "Cancel",
    "Interrupted",
    "Progress",
    "Result",
    "Rows",
    "Shell",
    "Simulation",
    "Trial",
    "adopt_descendants",
    "agent_columns",
    "apps_version",
    "check",
    "columns",
    "describe_plugin",
    "end_descendants",
    "engine_version",
    "from_capture",
    "gather",
    "link_layer",
    "link_rate",
    "link_schedule",
    "live_check",
    "live_permission",
    "live_run",
    "live_version",
    "measuring_version",
    "packet_points",
    "plugin_header",
    "plugin_types",
    "registry",
    "run",
    "run_all",
    "run_guest_apps",
    "run_packets",
    "run_qlog",
    "schedule",
    "shell_check",
    "try_plugin",
    "write_captured",
]

class _Captured(TypedDict):
    arrived: bytes
    sent: bytes
    signals_on_arrival: bool
    flow_queues: bool
    limit: int | None
    counters: dict[str, int]

class _Queue(TypedDict):
    arrived: Path
    left: Path
    count: int
    drops_on_arrival: bool
    flow_queues: bool
    limit: int | None
    drops: int

class _Files(TypedDict):
    streams: list[tuple[str, int, Path, int]]
    queues: list[_Queue]
    told: list[tuple[int, Path]]
    started: int
    first_port: int
    receivers: tuple[int, int] | None
    mss: int | None
    completes: bool

class Interrupted(Exception): ...  # noqa: N818

@final
class Cancel:
    def __new__(cls) -> Self: ...
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...

@final
class Progress:
    def __new__(cls) -> Self: ...
    @property
    def simulated(self) -> int: ...
    def reach(self, time: int) -> None: ...

@final
class Trial:
    def __new__(cls) -> Self: ...
    @property
    def done(self) -> int: ...
    @property
    def simulated(self) -> int: ...
    @property
    def doing(self) -> str: ...

@final
class Result:
    @property
    def summary(self) -> str: ...
    @property
    def hash(self) -> str: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes) -> Result: ...

@final
class Rows:
    @property
    def num_rows(self) -> int: ...
    @property
    def kinds(self) -> list[tuple[str, str]]: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Simulation:
    def __new__(cls, config: str, *, plugins: Mapping[str, Any] = {}, events: bool = False) -> Self: ...
    @property
    def time(self) -> int: ...
    @property
    def over(self) -> bool: ...
    def step(self, until: int) -> bool: ...
    def view(self) -> str: ...
    def set(self, key: str, value: str) -> None: ...
    def queues(self) -> list[tuple[str, str]]: ...
    def fork(self) -> Simulation: ...
    def take_events(self) -> list[tuple[int, str, str, str, str, int, int, int, bool]]: ...
    def finish(self) -> Result: ...

@final
class Agents:
    def __new__(
        cls, simulations: Sequence[Simulation], *, time: int | None = None, rtts: float | None = None, threads: int = 1
    ) -> Self: ...
    @property
    def rows(self) -> list[tuple[int, int]]: ...
    @property
    def over(self) -> list[bool]: ...
    @property
    def times(self) -> list[int]: ...
    def step(self, actions: NDArray[np.float64], rows: NDArray[np.float64], due: NDArray[np.uint8]) -> None: ...
    def replace(self, number: int, simulation: Simulation) -> None: ...
    def fork(self, number: int) -> Simulation: ...

def agent_columns() -> str: ...
def registry() -> str: ...
def columns() -> str: ...
def engine_version() -> str: ...
def measuring_version() -> str: ...
def check(config: str) -> None: ...
def describe_plugin(plugin: str | type) -> str: ...
def try_plugin(plugin: str | type, seed: int, sequences: int, runs: int, trial: Trial) -> tuple[int, int]: ...
def plugin_header() -> str: ...
def toml_places(text: str) -> list[tuple[list[str | int], tuple[int, int], tuple[int, int]]]: ...
def plugin_types() -> str: ...
def link_layer(keys: str) -> tuple[int | None, int, str]: ...
def link_schedule(content: bytes) -> str: ...
def link_rate(schedule: str) -> int: ...
def run(
    config: str,
    cancel: Cancel | None = None,
    progress: Progress | None = None,
    plugins: dict[str, str | type] = ...,
    threads: int = 1,
) -> Result: ...
def run_all(
    configs: list[str], cancel: Cancel, progress: list[Progress], threads: int = 1
) -> list[tuple[float, Result] | Exception]: ...
def packet_points(hops: list[str]) -> list[str]: ...
def run_packets(
    config: str,
    cancel: Cancel,
    path: Path | None = None,
    *,
    comment: str = "",
    points: list[str] = ...,
    flows: list[int] = ...,
    start: int = 0,
    end: int = ...,
    snap: int | None = None,
    plugins: dict[str, str | type] = ...,
) -> tuple[Result, int, Rows | None]: ...
def write_captured(
    config: str,
    files: _Files,
    path: Path | None = None,
    *,
    comment: str = "",
    points: list[str] = ...,
    flows: list[int] = ...,
    start: int = 0,
    end: int = ...,
    snap: int | None = None,
) -> tuple[int, Rows | None]: ...
def run_qlog(
    config: str,
    cancel: Cancel,
    senders: dict[int, tuple[Path, str]],
    network: tuple[Path, str] | None = None,
    *,
    old_names: bool = False,
    plugins: dict[str, str | type] = ...,
) -> tuple[Result, int]: ...
def schedule(config: str) -> str: ...
def from_capture(
    config: str, *, hops: list[_Captured], samples: bytes, started: int, apps: bytes | None = None
) -> Result: ...
def gather(
    results: list[Result],
    described: list[tuple[str, list[int] | list[float] | list[str] | list[str | None]]] = ...,
    tables: list[str] | None = None,
) -> list[tuple[str, Rows]]: ...

# on Linux only
def live_version() -> str: ...
def live_check(config: str) -> None: ...
def live_permission() -> None: ...
def live_run(config: str, cancel: Cancel, progress: Progress | None = None, trace: str | None = None) -> Result: ...
def apps_version() -> str: ...
def run_guest_apps(folder: str, started: int) -> None: ...
def shell_check(config: str) -> None: ...
def adopt_descendants() -> None: ...
def end_descendants(seconds: float) -> None: ...

SHELL_ADDRESSES: list[tuple[str, str]]

@final
class Shell:
    def __new__(
        cls,
        up: str,
        down: str,
        servers: list[str],
        files: list[tuple[str, str]],
        *,
        way_out: bool,
        resolver: str | None,
    ) -> Self: ...
    def run(self, command: list[str]) -> tuple[int, Result, Result, list[tuple[int, int]]]: ...
    def view(self) -> str: ...
    def end(self, signal: int) -> None: ...
