"""Processes for handlers that are plain functions.

One call at a time in each, unlike those of `concurrent.futures`, where one that dies takes the calls of all others
with it: here it costs its own job only. A call that is given up (time limit, shutdown) ends its process.
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

# A fresh interpreter each: what this process has open is not theirs to touch.
_context = get_context("spawn")


class ProcessDiedError(Exception):
    """It went away in the middle of a call."""


class Processes:
    """As many processes as calls run at once; each is kept for the next call."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        try:
            self._function = pickle.dumps(function)
        except Exception as err:
            raise ConfigError(f"handler cannot be sent to a process ({err}): use a function of a module") from err
        self._threads = DaemonThreads()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    async def run(self, argument: Any) -> Any:
        """The function's value, or what it raised; `ProcessDiedError` when it ended its process."""
        process = self._idle.pop() if self._idle else _Process(self._function)
        self._busy.add(process)
        try:
            value, error = await self._threads.run(process.call, argument)
        except BaseException:  # no call waits for it any more, or it is dead
            process.kill()
            raise
        finally:
            self._busy.discard(process)
        self._idle.append(process)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Lets idle processes end, and ends those that are busy."""
        for process in self._busy:
            process.kill()
        for process in self._idle:
            process.close()
        self._idle.clear()
        self._threads.close()


class _Process:
    """One process, driven from a thread; `kill` may come from another."""

    def __init__(self, function: bytes) -> None:
        self._function = function
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._killed = False
        self._lock = threading.Lock()

    def call(self, argument: Any) -> tuple[Any, BaseException | None]:
        """What the function gave, or raised."""
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
        """Ends it now, whatever it does."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Lets it end by itself."""
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
    """The process's side: calls the handler until its parent is gone."""
    # Ctrl-C reaches every process of the terminal; it is the parent that decides what becomes of the job.
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
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
        return _pack_error(error)
    try:
        return pickle.dumps((value, None))
    except Exception as err:  # noqa: BLE001 - anything may go wrong in a value's own pickling
        return _pack_error(EncodeError(f"what the handler returned cannot leave its process: {err}"))


def _pack_error(error: BaseException) -> bytes:
    error.add_note("In the handler's process:\n" + "".join(traceback.format_exception(error)))
    try:
        answer = pickle.dumps((None, error))
        pickle.loads(answer)
    except Exception:  # noqa: BLE001 - many errors can be written but not read: their __init__ wants more
        text = f"{type(error).__name__}: {_text(error)}"
        plain = UnrecoverableError(text) if isinstance(error, UnrecoverableError) else HandlerError(text)
        return pickle.dumps((None, plain))
    return answer


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as err:  # noqa: BLE001 - an error that cannot say what it is is still an error
        return f"(its __str__ raised {type(err).__name__})"
