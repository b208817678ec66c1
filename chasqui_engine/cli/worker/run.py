"""One worker in this process, from its start until a Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from chasqui_engine import ConfigError, JobIdFilter, Worker
from chasqui_engine.cli.logs import LogOptions
from chasqui_engine.cli.session import FAILED, INTERRUPTED, Session, print_json
from chasqui_engine.cli.worker.handler_loader import load_handler
from chasqui_engine.cli.worker.queue_status import QueueStatus
from chasqui_engine.cli.worker.status_line import Rate, StatusLine, Tally, printing_above, worker_line
from chasqui_engine.metrics import MetricsSink
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.clock import monotonic

_DRAW_EVERY_S = 0.5
_REPORT_EVERY_S = 0.5
_GRACE_S = 5.0
"""After the shutdown deadline, for releasing jobs and for the last lines."""
_BLOCKED = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a worker."""

    target: str
    queue: str
    options: dict[str, Any]
    """Passed to `Worker`."""
    metrics_host: str
    metrics_port: int | None
    logs: LogOptions
    burst: bool = False


async def run_here(session: Session, plan: Plan, child: socket.socket | None = None) -> int:
    """Runs until it is stopped; returns the exit code. With `child`, reports to the parent process over that socket."""
    handler = load_handler(plan.target)
    tally = Tally(_prometheus(plan))
    worker = Worker(
        plan.queue, handler, redis_url=session.url, metrics=tally, log_job_ids=plan.logs.needs_job_ids, **plan.options
    )
    line = StatusLine()
    line.shown = line.shown and not session.as_json and child is None
    _log_above(line, session, plan.logs)
    stopping = _Stopping(worker, line, worker.shutdown_deadline_secs, silent=child is not None or session.as_json)
    stopping.listen()
    started = monotonic()
    if child is None:
        _say(session, line, "started", plan, {"worker": worker.consumer_id})
    background = [asyncio.create_task(_report(child, tally, worker) if child else _draw(session, plan, tally, line))]
    try:
        with printing_above(line):
            await worker.run(burst=plan.burst)
    finally:
        await cancel_and_wait(*background)
        line.clear()
        line.shown = False
    if child is None:
        _say(session, line, "stopped", plan, {**tally.numbers.as_dict(), "seconds": round(monotonic() - started, 1)})
    return FAILED if plan.burst and tally.numbers.dead else 0


class _Stopping:
    """Ctrl-C: the first lets running jobs finish, the second stops at once.

    Handled by `signal.signal`, not by the event loop, which a handler may block.
    """

    def __init__(self, worker: Worker, line: StatusLine, deadline_s: float, *, silent: bool) -> None:
        self._worker = worker
        self._line = line
        self._deadline_s = deadline_s
        self._silent = silent
        self._asked = False
        self._loop = asyncio.get_running_loop()

    def listen(self) -> None:
        """Installs the signal handlers."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        if self._asked:
            os._exit(INTERRUPTED)
        self._asked = True
        self._worker.stop()
        threading.Thread(target=self._exit_after_deadline, daemon=True).start()
        # Not here: the interrupted code may be writing a line itself.
        self._loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        if not self._silent:
            self._line.say("stopping: running jobs may finish, no others start. Ctrl-C again stops at once")

    def _exit_after_deadline(self) -> None:
        """For handlers that block the event loop; other workers reclaim their jobs."""
        time.sleep(self._deadline_s + _GRACE_S)
        os._exit(_BLOCKED)


def _prometheus(plan: Plan) -> MetricsSink | None:
    if plan.metrics_port is None:
        return None
    from chasqui_engine.metrics import PrometheusSink

    sink = PrometheusSink(plan.queue)
    from prometheus_client import start_http_server

    try:
        start_http_server(plan.metrics_port, addr=plan.metrics_host)
    except OSError as err:
        raise ConfigError(f"metrics cannot be served at {plan.metrics_host}:{plan.metrics_port}: {err}") from err
    return sink


def _log_above(line: StatusLine, session: Session, logs: LogOptions) -> None:
    root = logging.getLogger()
    line.setFormatter(logs.formatter())
    if logs.needs_job_ids:
        line.addFilter(JobIdFilter())
    root.handlers = [line]
    if not session.debug:
        root.setLevel(logs.level_number)


def _say(session: Session, line: StatusLine, what: str, plan: Plan, facts: dict[str, Any]) -> None:
    at_once = plan.options["concurrency"]
    if session.as_json:
        print_json({"event": what, "queue": plan.queue, "concurrency": at_once, "pid": os.getpid(), **facts})
    elif what == "started":
        line.say(f"worker {facts['worker']} for {plan.queue}: {plan.target}, concurrency {at_once}. Ctrl-C stops it")
    else:
        counts = f"{facts['done']:,} done, {facts['failed']:,} failed, {facts['dead']:,} dead"
        retried = f"; {facts['retried']:,} retried, and what of them is not due yet is left" if facts["retried"] else ""
        line.say(f"stopped after {facts['seconds']} s: {counts}{retried if plan.burst else ''}")


async def _draw(session: Session, plan: Plan, tally: Tally, line: StatusLine) -> None:
    if not line.shown:
        return
    rate, started = Rate(), monotonic()
    async with QueueStatus(session.url, plan.queue, plan.options["group"]) as status:
        while True:
            numbers = tally.numbers
            rated = rate.of(numbers.done + numbers.failed)
            line.draw(worker_line(plan.queue, numbers, rated, monotonic() - started, status.text))
            await asyncio.sleep(_DRAW_EVERY_S)


async def _report(parent: socket.socket, tally: Tally, worker: Worker) -> None:
    """Reports the counts to the parent, and stops when the parent is gone."""
    reader, writer = await asyncio.open_connection(sock=parent)
    gone = asyncio.create_task(reader.read())
    ready = asyncio.create_task(worker.wait_until_ready())

    def send_counts() -> None:
        writer.write(json.dumps({**tally.numbers.as_dict(), "ready": worker.is_ready}).encode() + b"\n")

    try:
        # Only after it has reached the server, since the parent does not restart what never started; then at once,
        # so that a worker that dies with its first job counts as started.
        await asyncio.wait({gone, ready}, return_when=asyncio.FIRST_COMPLETED)
        while not gone.done():
            send_counts()
            await asyncio.wait({gone}, timeout=_REPORT_EVERY_S)
        worker.stop()
    finally:
        # The jobs since the last report.
        with contextlib.suppress(OSError):
            send_counts()
            await writer.drain()
        await cancel_and_wait(gone, ready)
        writer.close()
