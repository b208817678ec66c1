"""Jobs on their way to Airflow: read from a queue, passed on in batches, and settled only when Airflow has stored them.

A worker of the engine takes the jobs. Its handler hands each one on and then waits for the verdict, so that the
engine's own machinery keeps the entry alive meanwhile, acks it, has it delivered again, or buries it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from chasqui_engine import ChasquiError, EncodeError, HandlerError, Job, UnrecoverableError, Worker
from chasqui_provider.connection.settings import Settings
from chasqui_provider.conversion import to_airflow
from chasqui_provider.triggers.payloads import MOST_BYTES, size_of

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_LAST_WORDS_S = 1.0
"""Seconds allowed for writing verdicts when the stream is closed."""
_MOST_OFFERS = 100
"""Deliveries of one job to Airflow, which may be unavailable for a while."""


class Handover(Enum):
    """What Airflow made of a job."""

    STORED = "stored"
    REJECTED = "rejected"
    FAILED = "failed"


def check_count(name: str, given: object) -> None:
    """Checks that a value is a whole number from 1 up."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(f"{name} must be a whole number from 1 up, got {given!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How jobs are read from the queue."""

    group: str = "default"
    job_names: tuple[str, ...] = ()
    """Accepted job names; empty accepts all. Jobs with other names are rejected."""
    batch_size: int = 1
    """At most this many jobs per event; fewer when they are large."""
    linger_s: float = 0.0
    """How long an incomplete batch waits for more jobs."""
    max_in_flight: int = 100
    """At most this many jobs waiting for their verdict."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_in_flight"):
            check_count(name, getattr(self, name))
        if self.batch_size > self.max_in_flight:
            raise ValueError(f"batch_size ({self.batch_size}) must not be over max_in_flight ({self.max_in_flight})")
        if self.linger_s < 0:
            raise ValueError(f"linger must not be negative, got {self.linger_s}")


class _Undecided:
    """One job that waits for its verdict, and its fields in an event."""

    __slots__ = ("done", "fields", "job", "size", "verdict")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.fields = _describe(job)
        self.size = size_of(self.fields)
        self.verdict: asyncio.Future[Handover] = asyncio.get_running_loop().create_future()
        self.done = asyncio.Event()


@dataclass(eq=False, slots=True)
class Batch:
    """Jobs that become one event."""

    held: Sequence[_Undecided] = field(repr=False)
    handed_on: int = 0
    """How many receivers have passed it on to Airflow and asked for the next one."""
    _unwanted: set[str] = field(default_factory=set, repr=False)

    def payload(self, queue_name: str) -> dict[str, Any]:
        """The event's payload."""
        return {"queue_name": queue_name, "jobs": [held.fields for held in self.held]}

    @property
    def settled(self) -> bool:
        """Whether all jobs have a verdict."""
        return all(held.verdict.done() for held in self.held)

    def reject(self, job_ids: Iterable[str]) -> None:
        """Buries these jobs, by their ids in the event, when the others are settled."""
        self._unwanted.update(job_ids)

    def settle(self, verdict: Handover) -> None:
        """Gives the worker the verdicts of these jobs."""
        for held in self.held:
            if not held.verdict.done():
                unwanted = verdict is Handover.STORED and held.fields["id"] in self._unwanted
                held.verdict.set_result(Handover.REJECTED if unwanted else verdict)


def _describe(job: Job) -> dict[str, Any]:
    return {
        "id": to_airflow(job.id),
        "name": to_airflow(job.name),
        "payload": to_airflow(job.payload),
        "attempt": job.attempt,
        "deliveries": job.deliveries,
        "created_at_ms": job.created_at_ms,
    }


class JobStream:
    """The jobs of a queue, in batches. Jobs without a verdict at close go back to the queue.

    Whether a batch that had been passed on was stored is unknown: its jobs go back as failed runs, so that the next
    event marks them as possible repetitions.
    """

    def __init__(self, settings: Settings, queue_name: str | None, options: StreamOptions) -> None:
        self.queue_name = settings.name_of(queue_name)
        self._url = settings.url
        self._options = options
        self._arrived: asyncio.Queue[_Undecided] = asyncio.Queue()
        self._put_off: _Undecided | None = None
        self._waiting: set[_Undecided] = set()
        self._unsettled: list[Batch] = []
        self._worker: Worker | None = None

    async def batches(self) -> AsyncIterator[Batch]:
        """Yields batches forever; waits while the server cannot be reached."""
        running = asyncio.create_task(self._run(), name=f"chasqui-messages-{self.queue_name}")
        try:
            while True:
                batch = asyncio.ensure_future(self._next_batch())
                try:
                    await asyncio.wait({batch, running}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not batch.done():
                        batch.cancel()
                if running.done():
                    running.result()
                self._unsettled = [one for one in self._unsettled if not one.settled]
                self._unsettled.append(batch.result())
                yield batch.result()
        finally:
            await self._stop(running)

    async def _next_batch(self) -> Batch:
        held = [await self._take_next()]
        size = held[0].size
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.linger_s):
                while len(held) < self._options.batch_size:
                    one = await self._take_next()
                    size += one.size
                    if size > MOST_BYTES:
                        self._put_off = one
                        break
                    held.append(one)
        return Batch(held)

    async def _take_next(self) -> _Undecided:
        while True:
            held, self._put_off = self._put_off or await self._arrived.get(), None
            # A worker that broke off has given its jobs back meanwhile.
            if not held.done.is_set():
                return held

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            self._worker = self._make_worker()
            try:
                await self._worker.run()
            except ValueError:
                raise  # a setting is wrong: retrying does not help
            except ChasquiError as err:
                _log.warning("reading jobs of queue %s: %s; retrying in %.1f s", self.queue_name, err, pause_s)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _make_worker(self) -> Worker:
        in_flight = self._options.max_in_flight
        return Worker(
            self.queue_name,
            self._hand_on,
            redis_url=self._url,
            group=self._options.group,
            concurrency=in_flight,
            read_count=in_flight,
            max_attempts=_MOST_OFFERS,
            relay=True,
            shutdown_deadline_secs=0,
        )

    async def _hand_on(self, job: Job) -> None:
        names = self._options.job_names
        if names and job.name not in names:
            raise UnrecoverableError(f"Airflow takes {', '.join(names)} here, not {job.name or 'jobs without a name'}")
        try:
            held = _Undecided(job)
        except EncodeError as err:
            raise UnrecoverableError(f"Airflow cannot hold the payload: it {err.args[0]}") from err
        self._waiting.add(held)
        self._arrived.put_nowait(held)
        try:
            verdict = await held.verdict
        finally:
            self._waiting.discard(held)
            held.done.set()
        if verdict is Handover.REJECTED:
            raise UnrecoverableError("rejected by Airflow")
        if verdict is Handover.FAILED:
            raise HandlerError("Airflow did not store the event")

    async def _stop(self, running: asyncio.Task[None]) -> None:
        for batch in self._unsettled:
            if batch.handed_on:
                batch.settle(Handover.FAILED)
        given = [held.done.wait() for held in self._waiting if held.verdict.done()]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*given), _LAST_WORDS_S)
        if self._worker is not None:
            await self._worker.close()
        if not (self._worker and self._worker.is_running):
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
