"""The consumer: wires the stages together, starts them, and stops them in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from chasqui_engine._redis.client.connector import FOR_EVER, Connector
from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.consumer.buffer import PrefetchBuffer
from chasqui_engine.consumer.clock_steps import ClockSteps
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.consumer.execution.aborts import Aborts
from chasqui_engine.consumer.execution.fork_guard import guard_against_forks
from chasqui_engine.consumer.execution.handler import Handler, Handlers, RunHandler
from chasqui_engine.consumer.execution.middleware import Middleware, wrap_in_middleware
from chasqui_engine.consumer.heartbeat import Heartbeat
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.listening.job_events import JobEvents
from chasqui_engine.consumer.listening.listeners import Listeners
from chasqui_engine.consumer.presence.presence import Presence
from chasqui_engine.consumer.reader import Reader
from chasqui_engine.consumer.runner import JobRunner
from chasqui_engine.consumer.settlement import Settler
from chasqui_engine.consumer.stopping.early_stop import EarlyStop
from chasqui_engine.consumer.stopping.limits import check_memory, limit_runs, watch_memory
from chasqui_engine.consumer.stopping.until_empty import UntilEmpty
from chasqui_engine.metrics.safe_sink import guard
from chasqui_engine.runtime.aio import Stop, cancel_and_wait
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.runtime.posix import need_posix
from chasqui_engine.schedule.promoter import Promotion
from chasqui_engine.schedule.scheduler import Scheduling
from chasqui_engine.tally import TallyWriter
from chasqui_engine.values.config import ConsumerConfig
from chasqui_engine.values.errors import ChasquiError

_log = logging.getLogger("chasqui.consumer")

_LEASE_SHARE = 0.5
"""Fraction of claim_min_idle: heartbeats come every third of it, so an entry confirmed within half is ours."""
_LONGEST_LEASE_S = 0.1
"""The buffer holds about this much work: entries that wait longer are confirmed before they start."""
_START_PATIENCE_S = 1.0
"""Patience with a server that is starting up; an unreachable one is reported soon."""
_LAST_WORDS_S = 2.0
"""Seconds for final writes after the deadline, and for leaving the group."""


class Consumer:
    """Takes jobs from one queue and runs them."""

    def __init__(
        self,
        redis_url: str | None = None,
        config: ConsumerConfig | None = None,
        *,
        credential_provider: FetchCredentials | None = None,
        listeners: Listeners | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        need_posix("a worker")
        self._listeners = Listeners() if listeners is None else listeners
        self._middleware = middleware
        self._url = redis_url
        self._config = config or ConsumerConfig()
        self._fetch = credential_provider

    async def run(
        self, handler: Handler, shutdown: Stop, started: asyncio.Event | None = None, *, burst: bool = False
    ) -> None:
        """Runs jobs until `shutdown` is set, then lets running jobs finish within the deadline.

        `started` is set as soon as the server is reached and jobs are taken. With `burst` it ends when there is
        nothing to do.
        """
        config = self._config
        check_memory(config)
        may_stop_itself = burst or config.max_jobs is not None or config.max_rss_mb is not None
        shutdown = EarlyStop(shutdown) if may_stop_itself else shutdown
        connector = self._connector()
        try:
            listeners = self._listeners
            running = _Running(
                connector, self._connector(), handler, config, shutdown, listeners, self._middleware, burst=burst
            )
            await running.start()
            if started is not None:
                started.set()
            listeners.emit("ready")
            about = (self._config.consumer_id, self._config.queue_name, self._config.group)
            _log.info("worker %s started: queue %s, group %s, %d jobs at once", *about, self._config.concurrency)
            await running.until(shutdown)
            _log.info("worker %s stopped: queue %s, group %s", *about)
        except Exception as err:
            self._listeners.emit("error", err)
            raise
        finally:
            self._listeners.emit("closed")
            await self._listeners.finish()
            await connector.close()

    def _connector(self) -> Connector:
        return Connector(self._url, self._config.queue_name, "worker", self._fetch)


class _Running:
    """One run of a consumer."""

    def __init__(
        self,
        connector: Connector,
        heart: Connector,
        handler: Handler,
        config: ConsumerConfig,
        shutdown: Stop,
        listeners: Listeners,
        middleware: Sequence[Middleware],
        *,
        burst: bool,
    ) -> None:
        self._config = config
        self._middleware = middleware
        self._early_stop = shutdown if isinstance(shutdown, EarlyStop) else None
        self._reads = connector.link(FOR_EVER)
        self._commands = commands = connector.link(FOR_EVER)
        self._member = member = GroupMember(connector.keys, config.group, config.consumer_id)
        self._in_flight = in_flight = InFlight(min(config.claim_min_idle_ms / 1000 * _LEASE_SHARE, _LONGEST_LEASE_S))
        self._buffer = buffer = PrefetchBuffer(shutdown)
        self._handlers = Handlers(handler, config)
        self._clock = clock = ClockSteps(commands, config.queue_name)
        self._listeners = listeners
        job_events = JobEvents(listeners, commands, member, in_flight)
        context = ConsumerContext(commands, member, config, in_flight, buffer, guard(config.metrics), clock, job_events)
        self._settler = Settler(context)
        self._tally = TallyWriter(commands, member, self._settler.tally)
        self._runner = JobRunner(context, self._wrap(self._handlers.run), self._settler)
        self._aborts = Aborts(context, self._settler)
        self._reader = Reader(context, self._reads, self._aborts)
        deadline_s = config.shutdown_deadline_secs
        presence = Presence(member, config, handler, in_flight, buffer)
        self._heartbeat = Heartbeat(heart, member, in_flight, config.claim_min_idle_ms, shutdown, deadline_s, presence)
        self._promotion = Promotion(commands, connector.keys, config.promoter())
        self._scheduling = Scheduling(commands, connector.keys, config.scheduling())
        self._stop_duties = asyncio.Event()
        self._reading: list[asyncio.Task[None]] = []
        self._working: list[asyncio.Task[None]] = []
        self._duties: list[asyncio.Task[None]] = []
        self._watching: list[asyncio.Task[None]] = []
        self._until_empty = UntilEmpty(commands, member, config) if burst else None

    def _wrap(self, run: RunHandler) -> RunHandler:
        """What the runner calls for a job: the handler, and around it what was asked for."""
        run = wrap_in_middleware(run, self._middleware)
        if self._early_stop is not None and self._config.max_jobs is not None:
            run = limit_runs(run, self._config.max_jobs, self._early_stop)
        return run

    async def start(self) -> None:
        """Connects and starts every stage."""
        await self._reads.connect(_START_PATIENCE_S)
        await self._commands.connect(_START_PATIENCE_S)
        await group.ensure_group(self._commands, self._member)
        await self._clock.check()
        self._heartbeat.start()
        guard_against_forks(asyncio.get_running_loop())
        names = range(self._config.concurrency)
        self._working = [asyncio.create_task(self._runner.work(), name=f"chasqui-worker-{n}") for n in names]
        self._reading = [
            asyncio.create_task(self._reader.read(), name="chasqui-reader"),
            asyncio.create_task(self._reader.claim(), name="chasqui-claimer"),
            asyncio.create_task(self._reader.take_staged(), name="chasqui-staged"),
        ]
        if self._config.delayed_enabled:
            self._duties.append(asyncio.create_task(self._promotion.run(self._stop_duties), name="chasqui-promoter"))
        if self._config.run_scheduler:
            self._duties.append(asyncio.create_task(self._scheduling.run(self._stop_duties), name="chasqui-scheduler"))
        self._watching.append(asyncio.create_task(self._tally.run(), name="chasqui-tally"))
        if self._early_stop is not None:
            self._watch(self._early_stop)

    def _watch(self, stop: EarlyStop) -> None:
        if self._config.max_rss_mb is not None:
            watching = watch_memory(self._config.max_rss_mb, stop)
            self._watching.append(asyncio.create_task(watching, name="chasqui-memory"))
        if self._until_empty is not None:
            self._watching.append(asyncio.create_task(self._until_empty.watch(stop), name="chasqui-burst"))

    async def until(self, shutdown: Stop) -> None:
        """Waits for the signal, or for the first stage that fails, and stops."""
        signal = asyncio.create_task(shutdown.wait())
        stages: list[asyncio.Future[Any]] = [signal, self._settler.failure]
        stages += [*self._reading, *self._working, *self._duties, *self._watching]
        try:
            ended, _ = await asyncio.wait(stages, return_when=asyncio.FIRST_COMPLETED)
        finally:
            signal.cancel()
            await self._stop()
        for stage in ended:
            if stage is not signal:
                stage.result()

    async def _stop(self) -> None:
        deadline = monotonic() + self._config.shutdown_deadline_secs
        self._stop_duties.set()
        self._listeners.emit("closing")
        await cancel_and_wait(*self._reading, *self._watching)
        # Only after the connection is gone can the server no longer deliver entries to it that would go unseen.
        self._reads.drop()
        await asyncio.sleep(0)
        waiting = [delivery.entry_id for delivery in self._buffer.close()]
        await self._in_time(group.release(self._commands, self._member, waiting), deadline, "releasing jobs")
        await self._finish_running(deadline)
        last = max(deadline, monotonic()) + _LAST_WORDS_S if deadline - monotonic() < _LAST_WORDS_S else deadline
        await self._in_time(self._settler.drain(), last, "settling jobs")
        # Everything important is written. Leaving is optional: others notice a silent consumer.
        soon = min(last, monotonic() + _LAST_WORDS_S)
        await self._tally.finish(max(0.05, soon - monotonic()))
        await self._in_time(group.remove_consumer(self._commands, self._member), soon, "leaving the group")
        await cancel_and_wait(*(await self._unfinished_duties(soon)))
        await self._heartbeat.stop()
        self._handlers.close()
        # A run that ends after this has no effect: its entry belongs to another worker by then.
        self._settler.failure.cancel()

    async def _finish_running(self, deadline: float) -> None:
        if not self._working:
            return
        # The reader, which looks after them, has ended.
        aborting = asyncio.create_task(self._aborts.keep_looking())
        _, late = await asyncio.wait(self._working, timeout=max(0.0, deadline - monotonic()))
        await cancel_and_wait(aborting)
        if late:
            _log.warning("%d jobs did not end within the shutdown deadline; they go to other workers", len(late))
            for task in late:
                task.cancel()
            # A handler that ignores its cancellation is abandoned.
            await asyncio.wait(late, timeout=_LAST_WORDS_S / 2)

    async def _unfinished_duties(self, deadline: float) -> set[asyncio.Task[None]]:
        if not self._duties:
            return set()
        return (await asyncio.wait(self._duties, timeout=max(0.0, deadline - monotonic())))[1]

    async def _in_time(self, work: Awaitable[object], deadline: float, what: str) -> None:
        try:
            await asyncio.wait_for(work, timeout=max(0.05, deadline - monotonic()))
        except (ChasquiError, TimeoutError) as err:
            _log.warning(
                "%s failed (%s); the jobs will be reclaimed after claim_min_idle_ms", what, str(err) or "out of time"
            )
