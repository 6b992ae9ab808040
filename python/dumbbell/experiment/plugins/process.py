"""Starts the processes that plugins are loaded in, and says in a line how one came to its end."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from dumbbell import _native
from dumbbell.errors import escape_line

DESCRIBE_S = 20.0  # for a plugin to say what it declares
HANG_S = 60.0  # that a run may take without getting on; DUMBBELL_PLUGIN_HANG_S sets another
TRY_HANG_S = 3.0  # the same of a short run that tries a plugin out
_MOST_SAID = 300  # characters of what a plugin printed before it crashed


def hang_s(otherwise: float = HANG_S) -> float:
    """Return for how long a run with plugins may not get on, s."""
    try:
        return float(os.environ.get("DUMBBELL_PLUGIN_HANG_S", otherwise))
    except ValueError:
        return otherwise


class PluginChild:
    """A process that does one thing with plugins."""

    def __init__(
        self, what: str, path: Path | str = "", *, site: bool = False, environment: Mapping[str, str] = os.environ
    ) -> None:
        """Start it, with the packages that are installed if it needs `site`; RuntimeError if that is impossible."""
        script = Path(__file__).with_name("plugin_child.py")
        flags = ["-I"] if site or str(path).endswith(".py") else ["-I", "-S"]
        command = [sys.executable, *flags, str(script), str(_native.__file__), what, str(path)]
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._hung: str = ""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                start_new_session=True,
                env={**environment, "RUST_BACKTRACE": "0"},
            )
        except OSError as error:
            raise RuntimeError(f"no process for a plugin can be started: {error}") from None

    def kill(self) -> None:
        """End it at once, with whatever it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except OSError:
            self._process.kill()

    def answer(
        self,
        asked: Any = None,
        progress: _native.Progress | None = None,
        *,
        within_s: float | None = None,
        gets_on_s: float | None = None,
        doing: Callable[[int], None] = lambda _done: None,
    ) -> bytes:
        """Return its answer to what is `asked`; RuntimeError, one line, if it fails, crashes or hangs.

        It hangs if it takes longer than `within_s`, or if a run does not get on for `gets_on_s`, by default `hang_s`.
        `doing` is called with how many parts are done.
        """
        # a plugin that is tried out is loaded first, for which it has as long as to say what it declares
        limit = within_s or (DESCRIBE_S if gets_on_s else hang_s())
        state = {"at": time.monotonic(), "over": False, "doing": "", "limit": limit}
        watch = threading.Thread(target=self._watch_child, args=(state,), daemon=True)
        try:
            assert self._process.stdin is not None and self._process.stdout is not None
            watch.start()
            if asked is not None:
                self._process.stdin.write(json.dumps(asked).encode() + b"\n")
                self._process.stdin.flush()
            gets_on = within_s is None
            return self._read_answer(self._process.stdout, progress, state, (gets_on_s, doing), gets_on=gets_on)
        except BrokenPipeError:
            raise RuntimeError(self._end(state)) from None
        finally:
            state["over"] = True
            self.kill()
            self._process.communicate()
            self._printed.close()

    def _read_answer(
        self,
        output: IO[bytes],
        progress: _native.Progress | None,
        state: dict[str, Any],
        parts: tuple[float | None, Callable[[int], None]],
        *,
        gets_on: bool,
    ) -> bytes:
        reached = -1
        gets_on_s, doing = parts
        for line in output:
            word, _, rest = line.decode(errors="replace").rstrip("\n").partition(" ")
            if word == "doing" and state["doing"] != rest:
                state["doing"], state["at"], reached = rest, time.monotonic(), -1
                count, _, part = rest.partition(" ")
                if part and gets_on_s:
                    state["limit"] = gets_on_s
                doing(int(count))
            elif word == "progress":
                if int(rest) > reached and gets_on:
                    reached, state["at"] = int(rest), time.monotonic()
                if progress is not None:
                    progress.reach(int(rest))
            elif word == "done":
                answer = output.read(int(rest))
                if len(answer) == int(rest):
                    return answer
            elif word == "failed":
                raise RuntimeError(escape_line(rest))
        raise RuntimeError(self._end(state))

    def _watch_child(self, state: dict[str, Any]) -> None:
        while not state["over"]:
            if time.monotonic() - state["at"] > state["limit"]:
                self._hung = f"the plugin hangs: nothing happened for {state['limit']:g} s"
                self.kill()
                return
            time.sleep(0.05)

    def _end(self, state: Mapping[str, Any]) -> str:
        """Return how the process came to its end, and in which part of a trial."""
        part = state["doing"].partition(" ")[2]
        where, _, config = part.partition("; ")
        return f"{where}{': ' * bool(where)}{self._describe_end()}{'; ' * bool(config)}{config}"

    def _describe_end(self) -> str:
        if self._hung:
            return self._hung
        code = self._process.wait()
        self._printed.seek(0)
        lines = [line.strip() for line in self._printed.read().decode(errors="replace").splitlines() if line.strip()]
        said = f": {escape_line(' '.join(lines[:3]))[:_MOST_SAID]}" if lines else ""
        if code < 0:
            try:
                how = signal.Signals(-code).name
            except ValueError:
                how = f"signal {-code}"
            return f"the plugin crashed ({how}){said}"
        return f"the plugin ended its process (status {code}){said}"


def carry_out(
    what: str, asked: Mapping[str, Any], *, site: bool = False, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Carry out a run with plugins in a process of its own, for as long as it takes, and return what that answers.

    `asked["plugins"]` are the paths of plugins. Raises RuntimeError, one line.
    """
    site = site or any(path.endswith(".py") for path in asked["plugins"].values())
    answer: dict[str, Any] = json.loads(
        PluginChild(what, site=site, environment=environment).answer(asked, within_s=math.inf)
    )
    return answer


def ask_child(what: str, path: Path, *words: Any, within_s: float = DESCRIBE_S) -> bytes:
    """Return what a process of its own answers about the plugin at `path`; RuntimeError, one line, if it does not."""
    return PluginChild(what, path).answer(list(words) if words else None, within_s=within_s)


def try_out(
    path: Path, seed: int, sequences: int, runs: int, *, gets_on_s: float, doing: Callable[[int], None]
) -> tuple[int, int]:
    """Try the plugin at `path` out; return how many sequences of operations and runs it stood. Raises RuntimeError."""
    answer = PluginChild("try", path).answer([seed, sequences, runs], gets_on_s=gets_on_s, doing=doing)
    done, made = json.loads(answer)
    return done, made
