"""Runs on a Dask cluster: a scheduler at an address, and workers that have the same engine."""

import asyncio
import contextlib
import importlib
import logging
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Self
from urllib.parse import urlsplit

import dumbbell.experiment.plugins.known as plugins
from dumbbell import _native
from dumbbell.engines.base import Ended, Run
from dumbbell.errors import Failed, InputError, Needs, Unfit, WrongValue, escape_line, quote_value
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.plugins.process import PluginChild
from dumbbell.results.measured_run import MeasuredRun

CONNECT_S = 4.0  # for a scheduler to answer, and for the first worker to be there
ALONE_S = 60.0  # that a sweep waits when all workers are gone
_COUNT_EVERY_S = 2.0
_LOGS = ("distributed", "distributed.client", "distributed.core", "distributed.comm")

_cancels: dict[str, _native.Cancel] = {}  # in a worker: how to end the runs of a sweep
_children: dict[str, set[PluginChild]] = {}  # in a worker: the processes of runs with plugins


def _run(config: str, sweep: str, version: str, loaded: dict[str, bytes]) -> tuple[Any, ...]:
    """Carry out a run in a worker; every outcome is plain values, so that an exception is one of the cluster.

    Plugins come by their content; a run with some is carried out in a process of its own.
    """
    if _native.engine_version() != version:
        return "version", _native.engine_version()
    started, cancel = time.perf_counter(), _cancels.setdefault(sweep, _native.Cancel())
    try:
        result = _simulate_apart(config, sweep, loaded) if loaded else _native.run(config, cancel)
    except _native.Interrupted:
        return ("stopped",)
    except Exception as error:  # whatever it is belongs to this run
        return ("stopped",) if cancel.cancelled else ("failed", str(error) or type(error).__name__)
    return "done", time.perf_counter() - started, result.to_bytes()


def _simulate_apart(config: str, sweep: str, loaded: dict[str, bytes]) -> _native.Result:
    paths = {digest: str(plugins.find_copy(plugins.keep(content, digest[-3:]))) for digest, content in loaded.items()}
    child = PluginChild("run", site=any(path.endswith(".py") for path in paths.values()))
    running = _children.setdefault(sweep, set())
    running.add(child)
    try:
        if _cancels[sweep].cancelled:
            child.kill()
        return _native.Result.from_bytes(child.answer({"config": config, "plugins": paths}))
    finally:
        running.discard(child)


def _stop(sweep: str) -> None:
    """End the runs of a sweep in a worker, those too that reach it late."""
    _cancels.setdefault(sweep, _native.Cancel()).cancel()
    for child in list(_children.get(sweep, ())):
        child.kill()


def _forget(sweep: str) -> None:
    """Take away what a worker holds of a sweep that has no run left."""
    _cancels.pop(sweep, None)
    _children.pop(sweep, None)


def _describe_version() -> str:
    return _native.engine_version()


def _format_error(error: Exception) -> str:
    return escape_line(f"{type(error).__name__}: {error}")


async def _greet(distributed: Any, address: str) -> None:
    """Connect and hang up: a client waits for ever for one that takes the connection and says nothing."""
    arguments = distributed.Security().get_connection_args("client")
    connection = await asyncio.wait_for(distributed.comm.connect(address, timeout=CONNECT_S, **arguments), CONNECT_S)
    await connection.close()


class Cluster:
    """The workers of a Dask scheduler; the same face as `sim.Threads`.

    A worker that is lost costs the runs that it had: the scheduler gives them to others, until as many workers as its
    `allowed-failures` says (3) have been lost with the same run, which then has failed.
    """

    def __init__(self, address: str) -> None:
        """Connect to the scheduler at `address`; raises InputError if there is none that can be used."""
        self._address = address
        self._sweep = uuid.uuid4().hex
        self._pending: set[Any] = set()
        self._slots, self._counted, self._manned, self._stopped = 1, 0.0, time.monotonic(), False
        try:
            distributed = importlib.import_module("distributed")
        except ImportError:
            raise Needs("the package distributed", "pip install distributed", key="--cluster") from None
        self._levels = {name: logging.getLogger(name).level for name in _LOGS}
        try:
            parts = urlsplit(address if "://" in address else f"tcp://{address}")
            good = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port and not parts.path
        except ValueError:
            good = False
        if not good:
            raise WrongValue(quote_value(address), "the address of a Dask scheduler, tcp://HOST:PORT", key="--cluster")
        self._silence_client(True)
        try:
            with ThreadPoolExecutor(1) as thread:  # the caller's may have an event loop of its own
                thread.submit(asyncio.run, _greet(distributed, address)).result()
            self._client = distributed.Client(
                address, timeout=CONNECT_S, set_as_default=False, heartbeat_interval="5s", name="dumbbell"
            )
        except Exception as error:  # of many kinds, those of the network among them
            self._silence_client(False)
            silent = isinstance(error, OSError | TimeoutError)
            raise self._make_error("no Dask scheduler that answers" if silent else _format_error(error)) from None
        try:
            self._check()
        except BaseException:
            self._close()
            raise

    def _make_error(self, found: str) -> InputError:
        return Failed(found, "a Dask scheduler whose workers have this engine", file=self._address)

    def _silence_client(self, quiet: bool) -> None:
        """Keep the client's own messages away, or let them be as they were: what matters becomes an InputError."""
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(logging.CRITICAL + 1 if quiet else level)

    def _check(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_S)
            versions = self._client.run(_describe_version, on_error="return")
        except TimeoutError:
            raise self._make_error("a scheduler without workers") from None
        except OSError as error:
            raise self._make_error(f"a scheduler that does not answer ({error})") from None
        for worker, version in versions.items():
            if isinstance(version, Exception):
                raise self._make_error(f"a worker that cannot run dumbbell, {worker} ({_format_error(version)})")
            if version != _native.engine_version():
                raise self._make_version_error(version, worker)

    def _make_version_error(self, version: str, worker: str = "") -> InputError:
        of = f"a worker{', ' + worker + ',' if worker else ''} has engine {version}"
        return Unfit(of, f"workers with engine {_native.engine_version()}, as here", file=self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._close()

    def _close(self) -> None:
        try:
            self._client.close(timeout=CONNECT_S)
        finally:
            self._silence_client(False)

    @property
    def slots(self) -> int:
        """How many runs all workers together carry out at once: their threads; raises InputError if none is left."""
        now = time.monotonic()
        if now - self._counted > _COUNT_EVERY_S:
            try:
                threads = sum(self._client.nthreads().values())
            except (OSError, ValueError, CancelledError):
                threads = 0  # a scheduler that is gone shows in the runs
            self._counted = time.monotonic()
            if threads:
                self._slots, self._manned = threads, now
            elif now - self._manned > ALONE_S:
                raise self._make_error("no workers any more")
        return self._slots

    def begin(self, runs: Sequence[Run]) -> Future[list[Ended]]:
        """Start runs, each on some worker; their progress stays at 0."""
        pending = [self._submit(cell) for cell, _ in runs]
        return asyncio.run_coroutine_threadsafe(self._fetch_all(pending), self._client.loop.asyncio_loop)

    def _submit(self, cell: Cell) -> Any:
        key = f"dumbbell-{self._sweep}-{cell.key}"
        version = _native.engine_version()
        try:
            loaded = {digest: plugins.find_copy(digest).read_bytes() for digest in plugins.list_copies(cell.groups)}
            run = self._client.submit(_run, cell.config, self._sweep, version, loaded, key=key, pure=False)
        except Exception as error:
            raise self._make_error(f"a scheduler that is gone ({_format_error(error)})") from None
        self._pending.add(run)
        return run

    async def _fetch_all(self, pending: list[Any]) -> list[Ended]:
        return await asyncio.gather(*map(self._fetch, pending), return_exceptions=True)

    async def _fetch(self, run: Any) -> MeasuredRun:
        """Wait for a run and get what it measured, in the thread in which the client lives."""
        try:
            outcome = await run
        except CancelledError:
            if self._stopped:
                raise _native.Interrupted from None
            raise self._make_error("a scheduler that is gone") from None
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                raise RuntimeError("every worker that was given it was lost") from None
            raise self._make_error(f"a worker that cannot run dumbbell ({_format_error(error)})") from None
        finally:
            self._pending.discard(run)
        match outcome:
            case "done", wall_s, result:
                return MeasuredRun(wall_s, _native.Result.from_bytes(result))
            case "version", version:
                raise self._make_version_error(version)
            case "stopped", *_:
                raise _native.Interrupted
            case _:
                raise RuntimeError(outcome[1])

    def stop(self) -> None:
        """End what has been begun, in the workers too."""
        if self._stopped:
            return
        self._stopped = True
        with contextlib.suppress(Exception):  # a cluster that is gone has stopped
            if self._pending:
                self._client.run(_stop, self._sweep, on_error="ignore")
                self._client.cancel(list(self._pending), force=True)
            else:
                self._client.run(_forget, self._sweep, on_error="ignore")
