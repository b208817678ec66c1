"""The queue for programs without asyncio: one event loop in a thread of its own, kept open, usable from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Self, TypeVar

from chasqui_engine.admin.health import QueueHealth
from chasqui_engine.admin.job_lookup import JobInfo
from chasqui_engine.admin.snapshot import QueueCounts
from chasqui_engine.aio import cancel_and_wait
from chasqui_engine.errors import ShutdownError
from chasqui_engine.job import Job, JobId
from chasqui_engine.queue import Queue
from chasqui_engine.schedule.spec import RepeatableMeta

T = TypeVar("T")


class SyncQueue:
    """`Queue` for programs without asyncio: the same arguments, and methods of the same names that block.

    Usable from any thread; `with SyncQueue("emails") as queue: …` closes it. Each method takes what
    the one of that name there takes.
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

    def add(self, name: str, data: Any, **options: Any) -> Job:
        """`Queue.add`."""
        return self._run(self._queue.add(name, data, **options))

    def add_unique(self, name: str, data: Any, **options: Any) -> Job:
        """`Queue.add_unique`."""
        return self._run(self._queue.add_unique(name, data, **options))

    def add_bulk(self, jobs: Sequence[Mapping[str, Any]]) -> list[Job]:
        """`Queue.add_bulk`."""
        return self._run(self._queue.add_bulk(jobs))

    def cancel_delayed(self, job_id: JobId) -> bool:
        """`Queue.cancel_delayed`."""
        return self._run(self._queue.cancel_delayed(job_id))

    def peek_dlq(self, limit: int = 20) -> list[dict[str, Any]]:
        """`Queue.peek_dlq`."""
        return self._run(self._queue.peek_dlq(limit))

    def replay_dlq(self, limit: int = 100) -> int:
        """`Queue.replay_dlq`."""
        return self._run(self._queue.replay_dlq(limit))

    def upsert_repeatable_job(self, name: str, data: Any, **options: Any) -> Job:
        """`Queue.upsert_repeatable_job`."""
        return self._run(self._queue.upsert_repeatable_job(name, data, **options))

    def get_repeatable_jobs(self, limit: int = 100) -> list[RepeatableMeta]:
        """`Queue.get_repeatable_jobs`."""
        return self._run(self._queue.get_repeatable_jobs(limit))

    def remove_repeatable_by_key(self, key: str) -> bool:
        """`Queue.remove_repeatable_by_key`."""
        return self._run(self._queue.remove_repeatable_by_key(key))

    def get_job_result(self, job_id: JobId) -> Any:
        """`Queue.get_job_result`."""
        return self._run(self._queue.get_job_result(job_id))

    def get_job_result_bulk(self, job_ids: Sequence[JobId]) -> list[Any]:
        """`Queue.get_job_result_bulk`."""
        return self._run(self._queue.get_job_result_bulk(job_ids))

    def wait_for_result(self, job: Job | JobId, *, timeout: float = 30.0) -> Any:
        """`Job.wait_for_result`, for a job or its id."""
        job_id = job.id if isinstance(job, Job) else job
        return self._run(self._queue.wait_for_result(job_id, timeout=timeout))

    def pause(self) -> bool:
        """`Queue.pause`."""
        return self._run(self._queue.pause())

    def resume(self) -> bool:
        """`Queue.resume`."""
        return self._run(self._queue.resume())

    def is_paused(self) -> bool:
        """`Queue.is_paused`."""
        return self._run(self._queue.is_paused())

    def health(self, *, group: str = "default") -> QueueHealth:
        """`Queue.health`."""
        return self._run(self._queue.health(group=group))

    def counts(self, *, group: str = "default") -> QueueCounts:
        """`Queue.counts`."""
        return self._run(self._queue.counts(group=group))

    def get_job(self, job_id: JobId, *, group: str = "default") -> JobInfo:
        """`Queue.get_job`."""
        return self._run(self._queue.get_job(job_id, group=group))

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
        # What other threads wait for must end too, or they would wait for ever.
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
            # Whoever is interrupted while waiting does not leave the work behind.
            running.cancel()
