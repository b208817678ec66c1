"""The listeners of one worker: who is called for which event, and what becomes of what they raise."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from chasqui_engine.values.errors import ConfigError

Listener = Callable[..., Any]
"""A function, plain or `async`, of what the event gives."""

_log = logging.getLogger("chasqui.worker")

OF_JOBS = ("active", "completed", "failed", "progress", "stalled", "drained")
OF_WORKERS = ("ready", "paused", "resumed", "closing", "closed", "error")
_EVENTS = (*OF_WORKERS, *OF_JOBS)
_LAST_WORDS_S = 2.0


class _Entry(NamedTuple):
    listener: Listener
    once: bool


class Listeners:
    """Who listens to what. Plain functions are called in the event loop, `async` ones started and not waited for."""

    def __init__(self) -> None:
        self._entries: dict[str, list[_Entry]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._failed: set[tuple[str, int]] = set()
        self.hear_jobs = False
        """Whether any listens to what happens to jobs: most workers pay for this look, and for nothing else."""

    def add(self, event: str, listener: Listener, *, once: bool = False) -> None:
        """Adds a listener; one that is added twice is called twice."""
        if not callable(listener):
            raise ConfigError(f"a listener must be a function, got {type(listener).__name__}")
        self._entries.setdefault(_check_event(event), []).append(_Entry(listener, once))
        self._note_who_listens()

    def remove(self, event: str, listener: Listener) -> bool:
        """Removes a listener; False if it was not there."""
        entries = self._entries.get(_check_event(event), [])
        left = [entry for entry in entries if entry.listener != listener]
        self._entries[event] = left
        self._note_who_listens()
        return len(left) < len(entries)

    def has(self, event: str) -> bool:
        """Whether anybody listens to this event."""
        return bool(self._entries.get(event))

    def emit(self, event: str, *given: Any) -> None:
        """Calls who listens; nothing that a listener does reaches the caller."""
        for entry in self._entries.get(event, ())[:]:
            if entry.once:
                self._entries[event].remove(entry)
                self._note_who_listens()
            try:
                value = entry.listener(*given)
            except Exception as err:  # noqa: BLE001 - a listener may raise anything
                self._log(event, entry.listener, err)
                continue
            if inspect.isawaitable(value):
                self._start(event, entry.listener, value)

    async def finish(self) -> None:
        """Waits for `async` listeners that still run, for a moment."""
        if self._running:
            await asyncio.wait(self._running, timeout=_LAST_WORDS_S)

    def _start(self, event: str, listener: Listener, value: Any) -> None:
        def finish_one(task: asyncio.Task[Any]) -> None:
            self._running.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                self._log(event, listener, error)

        task = asyncio.ensure_future(value)
        self._running.add(task)
        task.add_done_callback(finish_one)

    def _note_who_listens(self) -> None:
        self.hear_jobs = any(self._entries.get(event) for event in OF_JOBS)

    def _log(self, event: str, listener: Listener, error: BaseException) -> None:
        """Once at length: a listener that fails may do so for every job."""
        known = (event, id(listener))
        if known in self._failed:
            _log.debug("the listener to %r failed again: %r", event, error)
            return
        self._failed.add(known)
        name = getattr(listener, "__qualname__", repr(listener))
        _log.error(
            "the listener %s to %r failed; no job is harmed, and further failures of it are logged at DEBUG",
            name,
            event,
            exc_info=error,
        )


def _check_event(event: str) -> str:
    if event not in _EVENTS:
        raise ConfigError(f"there is no event {event!r} of a worker; there are {', '.join(_EVENTS)}")
    return event
