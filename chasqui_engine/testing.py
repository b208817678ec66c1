"""For the tests of programs that use queues: run what is on a queue now, and look at what was added.

On any queue, and without a server of your own on `embedded://`. Functions take a `Queue` or a `SyncQueue`; in a test
that is not `async`, call them by `asyncio.run`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chasqui_engine.consumer import Handler
from chasqui_engine.queue.queue import Queue
from chasqui_engine.queue.sync import SyncQueue
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import Job, JobId
from chasqui_engine.worker.worker import Worker

__all__ = ["ANY_PAYLOAD", "RunReport", "assert_added", "assert_nothing_added", "list_added", "run_all"]

_MOST_ROUNDS = 1000
_PAGE = 1000
_MOST_SHOWN = 10


class _AnyPayload:
    """Equals every payload."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "any payload"


ANY_PAYLOAD = _AnyPayload()
"""For `assert_added`: it does not matter."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What `run_all` did."""

    completed: list[Job] = field(default_factory=list)
    """Jobs that went well, in the order in which they ended."""
    results: dict[JobId, Any] = field(default_factory=dict)
    """What the handler returned for them."""
    failed: list[tuple[Job, BaseException]] = field(default_factory=list)
    """Runs that failed, each with its error; a job may be there several times, and be completed after that."""


async def run_all(queue: Queue | SyncQueue, handler: Handler, *, delayed: bool = False, **settings: Any) -> RunReport:
    """Runs the jobs of a queue, and those that they add, until none waits; says what became of them.

    With `delayed` the time of what is delayed, retries included, does not matter: it runs too. `settings` are arguments
    of `Worker`. What a handler raises does not end it: see `RunReport.failed`.
    """
    report = RunReport()
    async with _open(queue) as own:
        for _ in range(_MOST_ROUNDS):
            await _run_waiting(own, handler, report, settings)
            if not delayed or not await _hurry(own):
                return report
    raise ConfigError(
        f"jobs of queue {queue.name!r} are delayed again and again: after {_MOST_ROUNDS} rounds some are left"
    )


async def list_added(queue: Queue | SyncQueue) -> list[Job]:
    """The jobs that wait or are delayed."""
    found: list[Job] = []
    async with _open(queue) as own:
        for state in ("waiting", "prioritized", "delayed"):
            cursor: str | None = None
            while True:
                jobs, cursor = await own.get_jobs_page(state, limit=_PAGE, cursor=cursor)
                found += jobs
                if cursor is None:
                    break
    return found


async def assert_added(
    queue: Queue | SyncQueue, *, name: str | None = None, payload: Any = ANY_PAYLOAD, count: int | None = None
) -> Job:
    """Asserts that a job of this name and payload waits or is delayed, or exactly `count` of them; returns the first.

    `payload` may also be a function that says whether it is the right one.
    """
    there = await list_added(queue)
    found = [job for job in there if name in (None, job.name) and _matches(payload, job.payload)]
    if not found or (count is not None and len(found) != count):
        wanted = f"{'a job' if count is None else f'{count} job(s)'} named {'anything' if name is None else repr(name)}"
        raise AssertionError(
            f"queue {queue.name!r} should have {wanted} with {payload!r}, and has {len(found)} such; {_describe(there)}"
        )
    return found[0]


async def assert_nothing_added(queue: Queue | SyncQueue) -> None:
    """Asserts that no job waits or is delayed."""
    if there := await list_added(queue):
        raise AssertionError(f"queue {queue.name!r} should be empty; {_describe(there)}")


def _open(queue: Queue | SyncQueue) -> Queue:
    """The same queue with connections of this event loop, which are closed at the end."""
    inner = queue._queue if isinstance(queue, SyncQueue) else queue
    return Queue(inner.name, redis_url=inner._url, credential_provider=inner._fetch)


async def _run_waiting(queue: Queue, handler: Handler, report: RunReport, settings: dict[str, Any]) -> None:
    def complete(job: Job, result: Any) -> None:
        report.completed.append(job)
        report.results[job.id] = result

    worker = Worker(queue.name, handler, redis_url=queue._url, credential_provider=queue._fetch, **settings)
    worker.on("completed", complete)
    worker.on("failed", lambda job, error: report.failed.append((job, error)))
    await worker.run(burst=True)


async def _hurry(queue: Queue) -> bool:
    """Puts what is delayed on the stream; False if there was nothing."""
    any_moved = False
    while readable := [one.job.id for one in await queue.list_delayed(_PAGE) if one.job is not None]:
        if not any([await queue.run_delayed_now(job_id) for job_id in readable]):
            break
        any_moved = True
    return any_moved


def _matches(wanted: Any, payload: Any) -> bool:
    return bool(wanted(payload)) if callable(wanted) else bool(wanted == payload)


def _describe(jobs: list[Job]) -> str:
    shown = ", ".join(f"{job.name!r} {job.payload!r:.200}" for job in jobs[:_MOST_SHOWN])
    more = f" and {len(jobs) - _MOST_SHOWN:,} more" if len(jobs) > _MOST_SHOWN else ""
    return f"there is {shown}{more}" if jobs else "there is nothing"
