"""The worker, as users see it: a queue's name, a handler, `run()`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.client.urls import apply_tls
from chasqui_engine.consumer import Consumer, Handler, check_handler
from chasqui_engine.consumer.execution.middleware import Middleware, check_middleware
from chasqui_engine.consumer.listening.listeners import Listener, Listeners
from chasqui_engine.metrics.events import MetricsSink
from chasqui_engine.queue.coercion import BackoffLike
from chasqui_engine.runtime.aio import StopSignal
from chasqui_engine.tracing import Tracing, TracingLike
from chasqui_engine.values.config import RunPlainIn, TimeLimit
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.ids import worker_name
from chasqui_engine.values.validation import check_queue_name
from chasqui_engine.worker.handler_registry import largest_batch_of
from chasqui_engine.worker.options import make_config

_MAX_ATTEMPTS = 25


class Worker:
    """Runs a handler for the jobs of one queue, many at once.

    `handler` is a function of a `Job`: `async def`, or plain (it then runs in a thread, or in a process with
    `run_plain_in="process"`). `run()` returns after `close()`, when the running jobs have ended or the deadline has.

    - `redis_url`: the server; else `CHASQUI_REDIS_URL`, else `redis://127.0.0.1:6379`. `tls=True` makes it `rediss://`.
    - `name`: what it is called where workers are shown, in place of host and process; a random part follows, so that
      any number may be given the same.
    - `concurrency`: jobs that run at once. `max_attempts`: runs of a job in all, unless the job says otherwise.
    - `batch_size`, `batch_wait_ms`: the handler is given lists of up to so many jobs, which wait so long for others.
    - `backoff`: the wait before a failed job runs again, unless the job has its own: milliseconds, a `BackoffSpec`, or
      its fields. By default it doubles from 0.1 s to 30 s.
    - `store_results`, `result_ttl_ms`: whether what the handler returns is kept, and how long (an hour).
    - `time_limit_secs`: longest a handler may run, as a number or a function of the job.
    - `max_age_secs`: a job that has not begun so long after it was added, or was due, expires: it ends without a run.
      `dead_letter_expired` puts it into the dead letters.
    - `max_jobs`, `max_rss_mb`: after so many runs, or when the process takes more memory (MiB), it stops as if told to,
      and `run` returns: whatever keeps it running starts it again.
    - `shutdown_deadline_secs`: how long running jobs may take to end at a stop (30).
    - `log_job_ids`: whether `JobIdFilter` can say which job a log record of a handler belongs to.
    - `middleware`: `async def middleware(job, call_next)` functions around each run, the first outermost.
    - `tracing`: whether runs make OpenTelemetry spans; True, or a `TracerProvider` other than the program's.
    - `credential_provider`: a function that gives user and password whenever a connection is opened.
    - `read_block_ms`, `read_count` and the others: as in `ConsumerConfig`, which says what each is for.
    """

    _shutdown: StopSignal | None = None
    _running: asyncio.Task[None] | None = None
    _closed = False

    def __init__(
        self,
        queue_name: str,
        handler: Handler,
        *,
        redis_url: str | None = None,
        tls: bool = False,
        credential_provider: FetchCredentials | None = None,
        group: str = "default",
        name: str | None = None,
        consumer_id: str | None = None,
        concurrency: int = 100,
        batch_size: int | None = None,
        batch_wait_ms: int = 100,
        time_limit_secs: TimeLimit = None,
        max_age_secs: float | None = None,
        dead_letter_expired: bool = False,
        run_plain_in: RunPlainIn | None = None,
        max_jobs: int | None = None,
        max_rss_mb: int | None = None,
        shutdown_deadline_secs: float | None = None,
        max_attempts: int = _MAX_ATTEMPTS,
        backoff: BackoffLike | None = None,
        dlq_max_stream_len: int | None = None,
        store_results: bool = False,
        result_ttl_ms: int | None = None,
        read_block_ms: int | None = None,
        read_count: int | None = None,
        claim_min_idle_ms: int | None = None,
        max_payload_bytes: int | None = None,
        delayed_enabled: bool = True,
        run_scheduler: bool = True,
        scheduler_tick_ms: int | None = None,
        relay: bool = False,
        log_job_ids: bool = False,
        middleware: Sequence[Middleware] = (),
        tracing: TracingLike = False,
        events_enabled: bool = True,
        metrics: MetricsSink | None = None,
    ) -> None:
        if name is not None:
            consumer_id = _make_consumer_id(name, consumer_id)
        concurrency = max(concurrency, largest_batch_of(handler))
        self._config = make_config(locals())
        self._handler = check_handler(handler)
        self._listeners = Listeners()
        around = check_middleware(middleware)
        if traces := Tracing.of(tracing, queue_name):
            around = (traces.middleware(group), *around)
        self._consumer = Consumer(
            apply_tls(redis_url, tls),
            self._config,
            credential_provider=credential_provider,
            listeners=self._listeners,
            middleware=around,
        )
        self._started = asyncio.Event()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._config.queue_name

    @property
    def consumer_id(self) -> str:
        """The worker's own name: `<host>-<pid>-<random>` unless it was given one."""
        return self._config.consumer_id

    @property
    def shutdown_deadline_secs(self) -> float:
        """How long running jobs may take to end at a stop."""
        return self._config.shutdown_deadline_secs

    @property
    def is_running(self) -> bool:
        """Whether `run` is under way."""
        return self._running is not None and not self._running.done()

    @property
    def is_ready(self) -> bool:
        """Whether it has reached the server and takes jobs."""
        return self.is_running and self._started.is_set()

    async def wait_until_ready(self) -> None:
        """Waits until it takes jobs; call it concurrently with `run`."""
        await self._started.wait()

    def on(self, event: str, listener: Listener) -> Self:
        """Calls `listener`, a plain or an `async` function, whenever something happens in this worker.

        - `active(job)`, `completed(job, result)`, `failed(job, error)`: a run began, went well, or failed; the last
          two once that is written. A job that failed may run again.
        - `progress(job, progress)`; `stalled(job_id)`: a job was reclaimed from a worker that went silent.
        - `drained()`: nothing waits any more, and nothing runs here.
        - `ready()`, `paused()`, `resumed()`, `closing()`, `closed()`; `error(err)`: `run` ends with this error.

        A plain function is called in the event loop and must be quick; an `async` one is started and not waited for.
        What it raises is logged, and harms no job. `QueueEvents` hears of the jobs of all workers.
        """
        self._listeners.add(event, listener)
        return self

    def once(self, event: str, listener: Listener) -> Self:
        """Like `on`, for the next time only."""
        self._listeners.add(event, listener, once=True)
        return self

    def off(self, event: str, listener: Listener) -> Self:
        """Removes a listener; nothing happens if it is not there."""
        self._listeners.remove(event, listener)
        return self

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def run(self, *, burst: bool = False) -> None:
        """Runs jobs until `close()`. A second concurrent call waits for the same end.

        With `burst` it also returns when there is nothing to do: no job waits, none runs here, and none that is
        delayed, to be retried or repeated is due. A paused queue ends it too.
        """
        if not self.is_running:
            self._shutdown = StopSignal()
            if self._closed:
                self._shutdown.set()
            self._started.clear()
            running = self._consumer.run(self._handler, self._shutdown, self._started, burst=burst)
            self._running = asyncio.create_task(running)
        assert self._running is not None
        try:
            await asyncio.shield(self._running)
        except asyncio.CancelledError:
            # Cancelling `run` stops the worker in an orderly way.
            if not self._running.done():
                await self.close()
                await self._running
            raise

    def stop(self) -> None:
        """Asks the worker to stop and returns at once; `run` returns when it has stopped.

        May be called from another thread, and by `signal.signal`: no job starts any more, even if handlers block the
        event loop.
        """
        self._closed = True
        if self._shutdown is not None:
            self._shutdown.set()

    async def close(self) -> None:
        """Like `stop`, and can be awaited."""
        self.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _make_consumer_id(name: str, consumer_id: str | None) -> str:
    if consumer_id is not None:
        raise ConfigError("name and consumer_id both say what the worker is called: pass one of them")
    check_queue_name(name, "name")
    return worker_name(name)
