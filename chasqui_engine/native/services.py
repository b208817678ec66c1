"""ChasquiMQ's `Consumer` and `Scheduler`: made with everything but the handler, run until `shutdown()`."""

from __future__ import annotations

from typing import Any

from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine.consumer import Handler, consumer
from chasqui_engine.runtime.aio import StopSignal
from chasqui_engine.schedule import scheduler
from chasqui_engine.values.config import SchedulerConfig
from chasqui_engine.values.errors import EncodeError
from chasqui_engine.values.job import Job
from chasqui_engine.values.packed import Packed
from chasqui_engine.worker.options import make_config


class Consumer:
    """Runs jobs of one queue. `job.payload` is bytes, and so is what the handler returns, or None."""

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        concurrency: int = 1,
        max_attempts: int = 25,
        group: str = "default",
        consumer_id: str | None = None,
        read_block_ms: int | None = None,
        read_count: int | None = None,
        claim_min_idle_ms: int | None = None,
        max_payload_bytes: int | None = None,
        dlq_max_stream_len: int | None = None,
        events_enabled: bool = True,
        delayed_enabled: bool = True,
        run_scheduler: bool = True,
        scheduler_tick_ms: int | None = None,
        store_results: bool = False,
        result_ttl_ms: int | None = None,
        credential_provider: FetchCredentials | None = None,
    ) -> None:
        arguments = {**locals(), "packed": True}
        if result_ttl_ms is not None:
            arguments["result_ttl_ms"] = max(1, result_ttl_ms)
        config = make_config(arguments)
        self._consumer = consumer.Consumer(redis_url, config, credential_provider=credential_provider)
        self._shutdown = _Shutdown()

    async def run(self, handler: Handler) -> None:
        """Runs jobs until `shutdown()`; `handler` is an `async` function of a job."""

        async def handle(job: Job) -> Packed | None:
            result: Any = await handler(job)
            if result is None or isinstance(result, bytes | bytearray | memoryview):
                return None if result is None else Packed(result)
            raise EncodeError(f"a handler returns bytes or None, got {type(result).__name__}")

        await self._consumer.run(handle, self._shutdown.signal())

    def shutdown(self) -> None:
        """Tells it to stop; `run` returns when the running jobs have ended. It does not run again."""
        self._shutdown.give()


class Scheduler:
    """Fires one queue's repeatable specs."""

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        tick_interval_ms: int | None = None,
        batch: int | None = None,
        max_stream_len: int | None = None,
        lock_ttl_secs: int | None = None,
        holder_id: str | None = None,
        credential_provider: FetchCredentials | None = None,
    ) -> None:
        given: dict[str, Any] = {
            "tick_interval_ms": tick_interval_ms,
            "batch": batch,
            "max_stream_len": max_stream_len,
            "lock_ttl_secs": lock_ttl_secs,
            "holder_id": holder_id,
        }
        config = SchedulerConfig(**{field: value for field, value in given.items() if value is not None})
        self._scheduler = scheduler.Scheduler(redis_url, queue_name, config, credential_provider=credential_provider)
        self._shutdown = _Shutdown()

    async def run(self) -> None:
        """Fires what is due until `shutdown()`."""
        await self._scheduler.run(self._shutdown.signal())

    def shutdown(self) -> None:
        """Tells it to stop; `run` returns when it has. It does not run again."""
        self._shutdown.give()


class _Shutdown:
    """The signal to stop, which may be given before there is a loop to be stopped in."""

    def __init__(self) -> None:
        self._signal: StopSignal | None = None
        self._given = False

    def signal(self) -> StopSignal:
        """The signal of a run that begins."""
        self._signal = StopSignal()
        if self._given:
            self._signal.set()
        return self._signal

    def give(self) -> None:
        """Gives it, for this run and those to come."""
        self._given = True
        if self._signal is not None:
            self._signal.set()
