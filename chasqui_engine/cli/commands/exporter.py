"""`chasqui exporter`: the state of the queues for Prometheus."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine import ChasquiError, ConfigError, RedisError, RefusedError
from chasqui_engine.admin import BadQueue, QueueMonitor, QueueSnapshot
from chasqui_engine.cli.input.params import GroupOption, QueuesArgument, QueuesOption, parse_duration_ms, parse_queues
from chasqui_engine.cli.output.terminal import say
from chasqui_engine.cli.server_errors import describe_server_error
from chasqui_engine.cli.session import USAGE, Session, command, fail, print_json
from chasqui_engine.metrics import Reading, queue_registry
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.validation import check_queue_name

if TYPE_CHECKING:
    from types import FrameType

_NAMES_EVERY_S = 30.0
"""Listing the queues costs the server a walk over all its keys."""
_MOST_CLOSING_S = 1.0
_AT_LEAST_MS = 100

_log = logging.getLogger("chasqui.exporter")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "exporter", rich_help_panel="Inspect")(exporter)


async def exporter(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port.")] = 9110,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long a scrape may take; keep it below Prometheus's.")
    ] = "5s",
    group: GroupOption = "default",
) -> None:
    """Serve the state of queues to Prometheus: waiting, age of the oldest, active, delayed, dead, workers.

    Each scrape reads the server. Without an answer in time, chasqui_server_up is 0 and no queue is shown.
    """
    names = parse_queues(queues, queue)
    for name in names:
        check_queue_name(name, "queue")
    timeout_ms = parse_duration_ms(timeout)
    if timeout_ms < _AT_LEAST_MS:
        fail(f"--timeout must be at least {_AT_LEAST_MS}ms, got {timeout}", "write it like 5s", exit_code=USAGE)
    reader = _Reader(session.url, names, group, timeout_ms / 1000)
    loop = asyncio.get_running_loop()
    registry = queue_registry(lambda: asyncio.run_coroutine_threadsafe(reader.read(), loop).result())
    try:
        await reader.check()
        _serve(registry, host, port)
        stopping = _listen_for_signals()
        _announce(session, host, port)
        await stopping.wait()
    finally:
        await reader.close()


def _listen_for_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(stopping.set)

    # Without a handler, the first process of a container ignores SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopping


def _serve(registry: object, host: str, port: int) -> None:
    from prometheus_client import start_http_server

    try:
        start_http_server(port, addr=host, registry=registry)  # type: ignore[arg-type]
    except OSError as err:
        fail(f"cannot listen at {host}:{port}: {err.strerror}", "choose another --host or --port", exit_code=USAGE)


def _announce(session: Session, host: str, port: int) -> None:
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    if session.as_json:
        print_json({"event": "started", "url": address})
    else:
        say(f"exporter: {address}\nCtrl-C ends it")


class _Reader:
    """Reads the queues, for one scrape at a time; a connection that fails is replaced by the next scrape."""

    def __init__(self, url: str | None, names: Sequence[str], group: str, timeout_s: float) -> None:
        self._url = url
        self._names = names
        self._group = group
        self._timeout_s = timeout_s
        self._monitor: QueueMonitor | None = None
        self._found: list[str] = []
        self._found_at = -_NAMES_EVERY_S
        self._one_at_a_time = asyncio.Lock()
        self._trouble = ""

    async def check(self) -> None:
        """Reads once; raises what waiting does not help against. A server that is away may come back."""
        try:
            await self._read_in_time()
        except (ConfigError, RefusedError):
            raise
        except (ChasquiError, TimeoutError) as err:
            self._note(self._describe(err))

    async def read(self) -> Reading:
        """What a scrape shows, within the time limit."""
        began = monotonic()
        try:
            snapshots = await self._read_in_time()
        except (ChasquiError, TimeoutError) as err:
            self._note(self._describe(err))
            return Reading(answered=False, seconds=monotonic() - began)
        self._note("")
        return Reading(
            answered=True,
            seconds=monotonic() - began,
            queues={one.name: _values(one) for one in snapshots if isinstance(one, QueueSnapshot)},
            # A name that no queue can have is not a queue's.
            unreadable=tuple(one.name for one in snapshots if isinstance(one, BadQueue) and not one.odd_name),
        )

    async def close(self) -> None:
        """Closes the connection; a server that hangs is not waited for."""
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            try:
                await asyncio.wait_for(monitor.close(), _MOST_CLOSING_S)
            except (ChasquiError, TimeoutError) as err:
                _log.debug("the connection was not closed in order: %s", err)

    async def _read_in_time(self) -> list[QueueSnapshot | BadQueue]:
        async with asyncio.timeout(self._timeout_s), self._one_at_a_time:
            try:
                return await self._take_snapshots()
            except BaseException:
                await self.close()
                raise

    async def _take_snapshots(self) -> list[QueueSnapshot | BadQueue]:
        if self._monitor is None:
            first = self._names[0] if self._names else "default"
            self._monitor = await QueueMonitor.connect(self._url, queue=first, group=self._group)
        # No rates are shown, so no events are needed.
        return await self._monitor.take_snapshots(self._names or await self._list_names(self._monitor), events=1)

    async def _list_names(self, monitor: QueueMonitor) -> list[str]:
        # Without a queue, listing is all that asks the server anything.
        if not self._found or monotonic() - self._found_at >= _NAMES_EVERY_S:
            self._found = await monitor.names()
            self._found_at = monotonic()
        return self._found

    def _describe(self, err: Exception) -> str:
        if isinstance(err, RedisError):
            return describe_server_error(err, self._url)[0]
        return f"the server did not answer within {self._timeout_s:g} s" if isinstance(err, TimeoutError) else str(err)

    def _note(self, trouble: str) -> None:
        """Logs the begin and the end of an outage, not each scrape of it."""
        if trouble and not self._trouble:
            _log.warning("%s; chasqui_server_up is 0 until it answers", trouble)
        elif self._trouble and not trouble:
            _log.warning("the server answers again")
        self._trouble = trouble


def _values(one: QueueSnapshot) -> dict[str, float]:
    counts = one.counts
    return {
        "waiting_jobs": counts.waiting,
        "prioritized_jobs": counts.prioritized,
        "oldest_waiting_seconds": counts.oldest_waiting_ms / 1000,
        "active_jobs": counts.active,
        "delayed_jobs": counts.delayed,
        "delayed_lag_seconds": counts.delayed_lag_ms / 1000,
        "dead_letters": counts.dead,
        "repeatables": counts.repeatables,
        "repeatables_lag_seconds": counts.repeatable_lag_ms / 1000,
        "workers": one.workers,
        "paused": counts.paused,
    }
