"""What happens to the jobs of a worker, for its listeners: reported when it is written, not before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import Delivery, GroupMember
from chasqui_engine.codec.envelope import decode_id
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.listening.listeners import Listeners
from chasqui_engine.values.errors import ChasquiError
from chasqui_engine.values.job import Job, JobReports


class _Ended(NamedTuple):
    job: Job
    event: str
    value: Any


class JobEvents:
    """Between the stages of a consumer and the listeners. Called only while somebody listens: `listeners.hear_jobs`."""

    def __init__(self, listeners: Listeners, link: Link, member: GroupMember, in_flight: InFlight) -> None:
        self.listeners = listeners
        self._link = link
        self._member = member
        self._in_flight = in_flight
        self._ended: dict[bytes, _Ended] = {}
        """Runs that have ended and are not settled yet, by their entries."""
        self._looking: asyncio.Task[None] | None = None
        self.emit = listeners.emit

    def begin(self, job: Job, reports: JobReports) -> None:
        """A run begins."""
        if self.listeners.has("progress"):
            job._reports = _ToListeners(self.listeners, job, reports)
        self.emit("active", job)

    def complete(self, delivery: Delivery, job: Job, value: Any) -> None:
        """A run went well."""
        self._ended[delivery.entry_id] = _Ended(job, "completed", value)

    def fail(self, delivery: Delivery, job: Job, error: BaseException) -> None:
        """A run failed."""
        self._ended[delivery.entry_id] = _Ended(job, "failed", error)

    def settle(self, ours: Iterable[Delivery], lost: Iterable[bytes] = ()) -> None:
        """These are settled; what another worker settles is not reported here."""
        for entry_id in lost:
            self._ended.pop(entry_id, None)
        for delivery in ours:
            if ended := self._ended.pop(delivery.entry_id, None):
                self.emit(ended.event, ended.job, ended.value)
        if self.listeners.has("drained") and not self._in_flight and self._looking is None:
            self._looking = asyncio.create_task(self._find_whether_drained(), name="chasqui-drained")

    def stall(self, deliveries: Iterable[Delivery]) -> None:
        """These were reclaimed from workers that went silent."""
        if self.listeners.has("stalled"):
            for delivery in deliveries:
                self.emit("stalled", decode_id(delivery.envelope or b""))

    async def _find_whether_drained(self) -> None:
        try:
            work = await group.find_work(self._link, self._member, delayed=False, repeatables=False)
        except ChasquiError:
            return  # the next job that ends asks again
        finally:
            self._looking = None
        if not any(work):
            self.emit("drained")


class _ToListeners:
    """Passes a handler's reports on, and its progress to those who listen."""

    def __init__(self, listeners: Listeners, job: Job, inner: JobReports) -> None:
        self._listeners = listeners
        self._job = job
        self._inner = inner
        self._loop = asyncio.get_running_loop()

    def progress(self, job_id: str, name: str, progress: str, /) -> None:
        """From any thread."""
        self._inner.progress(job_id, name, progress)
        self._loop.call_soon_threadsafe(self._listeners.emit, "progress", self._job, json.loads(progress))

    def log(self, job_id: str, name: str, line: str, /) -> None:
        """Passed on."""
        self._inner.log(job_id, name, line)
