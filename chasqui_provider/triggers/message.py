"""The trigger that takes jobs from a queue and triggers DAGs with them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from chasqui_provider.asset_events.dedup import drop_repeated
from chasqui_provider.asset_events.job_stream import Batch, Handover, JobStream, StreamOptions
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.triggers.filters import as_names
from chasqui_provider.triggers.payloads import QuietEvent

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import SharedStreamProducer

_STORED_AFTER_S = 10.0
"""Without confirmation (Airflow before 3.3), an event yielded this long ago is assumed to be stored."""


class ChasquiMessageTrigger(BaseEventTrigger):
    """Takes jobs from a queue; each batch of them is one asset event: `{"queue_name": …, "jobs": [{"id": …}, …]}`.

    A job is acked only when its event is in Airflow's database. One that Airflow fails to store is delivered again; one
    that is rejected, or nested deeper than Airflow can hold, goes to the dead letters. Triggers in one triggerer that
    take from the same queue in the same way share one worker, and each of them gets every job; in different triggerers
    they share the jobs.

    Events that come before Airflow has made a run share that run. `batch_size` and `linger` put jobs that come together
    into one event, which costs less; before Airflow 3.3, jobs in another event may be left to a later run.

    :param group: the consumer group; the engine's workers use "default".
    :param job_names: accept only jobs with these names; others are rejected.
    :param batch_size: at most this many jobs in one event, which also ends at 256 KiB.
    :param linger: seconds an incomplete batch waits for more.
    :param max_in_flight: at most this many jobs waiting to be stored.
    """

    def __init__(
        self,
        queue_name: str | None = None,
        chasqui_conn_id: str = DEFAULT_CONN_ID,
        group: str = "default",
        job_names: str | Sequence[str] = (),
        batch_size: int = 1,
        linger: float = 0.0,
        max_in_flight: int = 100,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id
        self.options = StreamOptions(
            group=group,
            job_names=as_names(job_names),
            batch_size=batch_size,
            linger_s=linger,
            max_in_flight=max_in_flight,
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments from which the triggerer recreates the trigger."""
        options = self.options
        return (
            f"{type(self).__module__.replace('triggers.message', 'triggers.chasqui')}.{type(self).__qualname__}",
            {
                "queue_name": self.queue_name,
                "chasqui_conn_id": self.chasqui_conn_id,
                "group": options.group,
                "job_names": list(options.job_names),
                "batch_size": options.batch_size,
                "linger": options.linger_s,
                "max_in_flight": options.max_in_flight,
            },
        )

    def accepts(self, payload: dict[str, Any]) -> bool:
        """Whether to accept a job, given as an event with only that job; rejected jobs go to the dead letters.

        For subclasses.
        """
        del payload
        return True

    # --- Airflow 3.3 and later: shared streams that say when an event is stored ---

    def shared_stream_key(self) -> Hashable:
        """Triggers with the same key share one worker."""
        return type(self).__qualname__, self.queue_name, self.chasqui_conn_id, self.options

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """The producer side of the stream, which reads the queue."""
        from chasqui_provider.triggers.shared_stream import JobStreamProducer

        trigger = cls(**kwargs)
        return JobStreamProducer(trigger.open)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Each batch as an event, without the jobs of earlier events."""
        async for batch, queue_name in shared_stream:
            payload = self._drop_unwanted(batch, await drop_repeated(batch.payload(queue_name), self.asset_state_store))
            if payload["jobs"]:
                yield QuietEvent(payload)
            # Reached only once the event was passed on; a trigger cancelled before that never gets here.
            batch.handed_on += 1

    def _drop_unwanted(self, batch: Batch, payload: dict[str, Any]) -> dict[str, Any]:
        """The event without the jobs that this trigger rejects."""
        jobs = [job for job in payload["jobs"] if self.accepts({**payload, "jobs": [job]})]
        batch.reject({job["id"] for job in payload["jobs"]} - {job["id"] for job in jobs})
        return {**payload, "jobs": jobs}

    async def open(self) -> JobStream:
        """The stream of jobs, not yet started."""
        return JobStream(await ChasquiHook(self.chasqui_conn_id).get_settings(), self.queue_name, self.options)

    # --- Airflow before 3.3 ---

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Each batch as an event; acked some time later, because Airflow does not report when it is stored."""
        stream = await self.open()
        leaving: deque[tuple[float, Batch]] = deque()
        settling = asyncio.create_task(_settle_old(leaving))
        batches = stream.batches()
        try:
            async for batch in batches:
                payload = self._drop_unwanted(batch, batch.payload(stream.queue_name))
                if payload["jobs"]:
                    batch.handed_on += 1
                    yield QuietEvent(payload)
                    leaving.append((asyncio.get_running_loop().time() + _STORED_AFTER_S, batch))
                else:
                    batch.settle(Handover.STORED)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)
            await batches.aclose()  # type: ignore[attr-defined]


async def _settle_old(leaving: deque[tuple[float, Batch]]) -> None:
    now = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(max(0.1, leaving[0][0] - now()) if leaving else 0.1)
        while leaving and leaving[0][0] <= now():
            leaving.popleft()[1].settle(Handover.STORED)
