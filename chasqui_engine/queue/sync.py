"""The queue for programs without asyncio: one event loop in a thread of its own, kept open, usable from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from chasqui_engine.queue.queue import Queue
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.values.errors import ShutdownError
from chasqui_engine.values.job import DEFAULT_WAIT_S, Job, JobId

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Queue, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncQueue, P], T]:
    """The same method of a `SyncQueue`: it blocks and returns what the queue's own method returns when awaited."""

    @wraps(method)
    def call(self: SyncQueue, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._queue, *args, **kwargs))

    return call


class SyncQueue:
    """`Queue` for programs without asyncio: the same arguments, and methods of the same names that block.

    Usable from any thread; `with SyncQueue("emails") as queue: …` closes it. `SyncQueue.add` is what `Queue.add` is,
    without the `await`; so is every other method.
    """

    def __init__(self, name: str, **options: Any) -> None:
        self._queue = Queue(name, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"chasqui-queue-{name}", daemon=True)
        self._thread.start()
        self._submitting = threading.Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def added(self) -> int:
        """`Queue.added`."""
        return self._queue.added

    add = _blocking(Queue.add)
    add_unique = _blocking(Queue.add_unique)
    add_bulk = _blocking(Queue.add_bulk)
    upsert_repeatable_job = _blocking(Queue.upsert_repeatable_job)

    get_job_result = _blocking(Queue.get_job_result)
    get_job_result_bulk = _blocking(Queue.get_job_result_bulk)
    get_result = _blocking(Queue.get_result)
    get_result_bulk = _blocking(Queue.get_result_bulk)

    pause = _blocking(Queue.pause)
    resume = _blocking(Queue.resume)
    is_paused = _blocking(Queue.is_paused)
    exists = _blocking(Queue.exists)
    health = _blocking(Queue.health)
    counts = _blocking(Queue.counts)
    snapshot = _blocking(Queue.snapshot)

    get_job = _blocking(Queue.get_job)
    get_jobs = _blocking(Queue.get_jobs)
    get_jobs_page = _blocking(Queue.get_jobs_page)
    get_job_counts = _blocking(Queue.get_job_counts)
    get_job_logs = _blocking(Queue.get_job_logs)
    list_waiting = _blocking(Queue.list_waiting)
    find_last_runs = _blocking(Queue.find_last_runs)
    read_history = _blocking(Queue.read_history)
    list_completed = _blocking(Queue.list_completed)
    list_active = _blocking(Queue.list_active)
    newest_events = _blocking(Queue.newest_events)
    page_events = _blocking(Queue.page_events)
    events_of_job = _blocking(Queue.events_of_job)
    find_outcomes = _blocking(Queue.find_outcomes)

    abort = _blocking(Queue.abort)
    remove = _blocking(Queue.remove)
    remove_report = _blocking(Queue.remove_report)
    remove_waiting = _blocking(Queue.remove_waiting)
    drain = _blocking(Queue.drain)
    clean = _blocking(Queue.clean)
    obliterate = _blocking(Queue.obliterate)

    change_priority = _blocking(Queue.change_priority)
    set_limits = _blocking(Queue.set_limits)
    get_limits = _blocking(Queue.get_limits)
    clear_limits = _blocking(Queue.clear_limits)

    list_delayed = _blocking(Queue.list_delayed)
    cancel_delayed = _blocking(Queue.cancel_delayed)
    cancel_delayed_bulk = _blocking(Queue.cancel_delayed_bulk)
    run_delayed_now = _blocking(Queue.run_delayed_now)
    reschedule_delayed = _blocking(Queue.reschedule_delayed)

    peek_dlq = _blocking(Queue.peek_dlq)
    page_dlq = _blocking(Queue.page_dlq)
    page_newest_dlq = _blocking(Queue.page_newest_dlq)
    get_dead = _blocking(Queue.get_dead)
    get_tracebacks = _blocking(Queue.get_tracebacks)
    replay_dlq = _blocking(Queue.replay_dlq)
    replay_dead = _blocking(Queue.replay_dead)
    replay_edited = _blocking(Queue.replay_edited)
    delete_dead = _blocking(Queue.delete_dead)

    get_repeatable_jobs = _blocking(Queue.get_repeatable_jobs)
    list_repeatable = _blocking(Queue.list_repeatable)
    upsert_repeatable = _blocking(Queue.upsert_repeatable)
    pause_repeatable = _blocking(Queue.pause_repeatable)
    resume_repeatable = _blocking(Queue.resume_repeatable)
    fire_repeatable = _blocking(Queue.fire_repeatable)
    remove_repeatable = _blocking(Queue.remove_repeatable)
    remove_repeatable_by_key = _blocking(Queue.remove_repeatable_by_key)

    def wait_for_result(self, job: Job | JobId, *, timeout: float = DEFAULT_WAIT_S) -> Any:
        """`Job.wait_for_result`, for a job or its id."""
        job_id = job.id if isinstance(job, Job) else job
        return self._run(self._queue.wait_for_result(job_id, timeout=timeout))

    def close(self) -> None:
        """Closes the connections and ends the thread. Calls that still wait get a `ShutdownError`."""
        with self._submitting:
            if self._closed:
                return
            self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        await self._queue.close()
        # The calls of other threads must end too, or they would wait forever.
        await cancel_and_wait(*(asyncio.all_tasks() - {asyncio.current_task()}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._submitting:
            if self._closed:
                work.close()
                raise ShutdownError(f"queue {self.name!r} is closed")
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except CancelledError:
            raise ShutdownError(f"queue {self.name!r} was closed meanwhile") from None
        finally:
            # The work of a caller that is interrupted while waiting is cancelled.
            running.cancel()
