from typing import Literal, Self, final

__all__ = [
    "SHELL_ADDRESSES",
    "Cancel",
    "Interrupted",
    "Progress",
    "Result",
    "Shell",
    "adopt_descendants",
    "check",
    "end_descendants",
    "engine_version",
    "from_capture",
    "gather",
    "link_rate",
    "link_schedule",
    "live_check",
    "live_permission",
    "live_run",
    "live_version",
    "measuring_version",
    "registry",
    "run",
    "schedule",
    "shell_check",
]

_Column = tuple[str, Literal["u64", "f64", "text"], list[bytes]]

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
class Result:
    @property
    def summary(self) -> str: ...
    @property
    def hash(self) -> str: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes) -> Result: ...

def registry() -> str: ...
def engine_version() -> str: ...
def measuring_version() -> str: ...
def check(config: str) -> None: ...
def link_schedule(content: bytes) -> str: ...
def link_rate(schedule: str) -> int: ...
def run(config: str, cancel: Cancel, progress: Progress | None = None) -> Result: ...
def schedule(config: str) -> str: ...
def from_capture(
    config: str,
    *,
    arrived: bytes,
    sent: bytes,
    samples: bytes,
    started: int,
    signals_on_arrival: bool,
    flow_queues: bool,
    limit: int,
    counters: dict[str, int],
) -> Result: ...
def gather(results: list[Result]) -> list[tuple[str, tuple[bytes, list[_Column]]]]: ...

# on Linux only
def live_version() -> str: ...
def live_check(config: str) -> None: ...
def live_permission() -> None: ...
def live_run(config: str, cancel: Cancel, progress: Progress | None = None) -> Result: ...
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
    def look(self) -> str: ...
    def end(self, signal: int) -> None: ...
