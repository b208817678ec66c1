"""Processes for handlers that are plain functions.

One call at a time in each, unlike those of `concurrent.futures`, where one that dies takes the calls of all others
with it: here it affects only its own job. A cancelled call (time limit, shutdown) kills its process.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from chasqui_engine.consumer.execution.threads import DaemonThreads
from chasqui_engine.values.errors import ConfigError, EncodeError, HandlerError, UnrecoverableError

# Fresh interpreters, which inherit nothing that this process has open.
_context = get_context("spawn")


class ProcessDiedError(Exception):
    """The process died during a call."""


class Processes:
    """As many processes as concurrent calls; each is reused."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        try:
            self._function = pickle.dumps(function)
        except Exception as err:
            raise ConfigError(f"handler cannot be sent to a process ({err}): use a module-level function") from err
        self._threads = DaemonThreads()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    async def run(self, argument: Any) -> Any:
        """Returns or raises like the function; `ProcessDiedError` if it ended its process."""
        process = self._idle.pop() if self._idle else _Process(self._function)
        self._busy.add(process)
        try:
            value, error = await self._threads.run(process.call, argument)
        except BaseException:  # the call was cancelled, or the process is dead
            process.kill()
            raise
        finally:
            self._busy.discard(process)
        self._idle.append(process)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Ends idle processes, and kills busy ones."""
        for process in self._busy:
            process.kill()
        for process in self._idle:
            process.close()
        self._idle.clear()
        self._threads.close()


class _Process:
    """One process, driven from a thread; `kill` may be called from another."""

    def __init__(self, function: bytes) -> None:
        self._function = function
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._killed = False
        self._lock = threading.Lock()

    def call(self, argument: Any) -> tuple[Any, BaseException | None]:
        """Returns or raises like the function."""
        request = pickle.dumps(argument)
        try:
            connection = self._connection or self._start()
            connection.send_bytes(request)
            answer = connection.recv_bytes()
        except (EOFError, OSError) as err:
            self._reap()
            raise ProcessDiedError("the process that ran the handler died") from err
        value, error = pickle.loads(answer)
        return value, error

    def kill(self) -> None:
        """Kills it."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Asks it to end."""
        if self._connection is not None:
            self._connection.close()

    def _start(self) -> Connection:
        ours, theirs = _context.Pipe()
        with theirs, self._lock:
            if self._killed:
                ours.close()
                raise EOFError
            self._process = _context.Process(target=_serve, args=(theirs, self._function), name="chasqui-handler")
            self._process.start()
            self._connection = ours
        return ours

    def _reap(self) -> None:
        self.kill()
        if self._process is not None:
            self._process.join()
        self.close()


def _serve(connection: Connection, function: bytes) -> None:
    """Runs in the child process: calls the handler until the parent is gone."""
    # Ctrl-C reaches every process of the terminal; the parent decides what happens to the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            argument = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            return
        connection.send_bytes(_answer(function, argument))


@functools.cache
def _load(function: bytes) -> Any:
    return pickle.loads(function)


def _answer(function: bytes, argument: Any) -> bytes:
    try:
        value = _load(function)(argument)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:  # noqa: BLE001 - every error belongs to the caller
        return _pack_error(error)
    try:
        return pickle.dumps((value, None))
    except Exception as err:  # noqa: BLE001 - a value's own pickling may raise anything
        return _pack_error(EncodeError(f"the handler's return value cannot be sent from its process: {err}"))


def _pack_error(error: BaseException) -> bytes:
    error.add_note("In the handler's process:\n" + "".join(traceback.format_exception(error)))
    try:
        answer = pickle.dumps((None, error))
        pickle.loads(answer)
    except Exception:  # noqa: BLE001 - many errors can be pickled but not unpickled: their __init__ takes more arguments
        text = f"{type(error).__name__}: {_text(error)}"
        plain = UnrecoverableError(text) if isinstance(error, UnrecoverableError) else HandlerError(text)
        return pickle.dumps((None, plain))
    return answer


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as err:  # noqa: BLE001 - an error whose __str__ raises is still an error
        return f"(its __str__ raised {type(err).__name__})"
