"""A tour of the queue on a private server: `python -m demo.engine`, and the first part of `make demo`."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from datetime import timedelta
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chasqui_engine.events import QueueEvent, QueueEvents
from chasqui_engine.queue.queue import Queue
from chasqui_engine.schedule.spec import RepeatPattern
from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.errors import JobFailedError, UnrecoverableError
from chasqui_engine.values.job import Job
from chasqui_engine.worker.worker import Worker

URL = "embedded://"
QUEUE = "demo"
EMAILS, LATER, FLAKY, BOUNCING = 500, 25, 10, 3
DEADLINE_S = 60

_SHOWN = ("active", "completed", "failed", "retry-scheduled", "delayed", "waiting", "dlq", "drained", "cron fires")
_COLOURS = {"completed": "green", "failed": "yellow", "dlq": "red", "retry-scheduled": "yellow", "delayed": "cyan"}


class Mailbox:
    """The handler: most mail goes out, some needs a second try, some fails until its address is fixed."""

    def __init__(self) -> None:
        self.repaired = False

    async def __call__(self, job: Job) -> dict[str, Any]:
        await asyncio.sleep(0.002)
        if job.name == "flaky" and job.attempt < 2:
            raise ConnectionError(f"mail server hung up, run {job.attempt + 1}")
        if job.name == "bounce" and not self.repaired:
            raise UnrecoverableError("no such address")
        return {"sent": job.data["to"], "run": job.attempt + 1}


class Board:
    """The events so far, as a picture."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.steps: list[str] = []
        self.changed = asyncio.Event()
        self._last: deque[QueueEvent] = deque(maxlen=8)

    def see(self, event: QueueEvent) -> None:
        """Adds an event."""
        self.counts[event.name] += 1
        if event.job_name == "report" and event.name == "completed":
            self.counts["cron fires"] += 1
        self._last.append(event)
        self.changed.set()

    def __rich__(self) -> Group:
        table = Table.grid(padding=(0, 2))
        for start in range(0, len(_SHOWN), 3):
            row = []
            for name in _SHOWN[start : start + 3]:
                row += [Text(name, style=_COLOURS.get(name, "")), Text(f"{self.counts[name]:>5}", style="bold")]
            table.add_row(*row)
        lines = Text()
        for event in self._last:
            lines.append(f"{event.name:>16}  ", style=_COLOURS.get(event.name, ""))
            lines.append(f"{event.job_name:<8} {event.job_id or '':<28} {event.fields.get('reason', '')}\n")
        return Group(
            Panel("\n".join(self.steps), title="Chasqui"),
            Panel(table, title="events so far"),
            Panel(lines, title="latest"),
        )


async def watch(board: Board, url: str) -> None:
    """Feeds the board until it is cancelled."""
    async with QueueEvents(QUEUE, redis_url=url, last_event_id="0") as events:
        async for event in events:
            board.see(event)


async def enough(board: Board) -> None:
    """Waits until everything has run and cron has fired twice."""
    jobs = EMAILS + LATER + FLAKY + BOUNCING
    async with asyncio.timeout(DEADLINE_S):
        while board.counts["cron fires"] < 2 or board.counts["completed"] < jobs:
            await board.changed.wait()
            board.changed.clear()


async def tour(queue: Queue, mailbox: Mailbox, board: Board) -> None:
    """Enqueue, delay, retry, cron, dead letters, replay, results."""
    say = board.steps.append
    await queue.add_bulk([{"name": "email", "data": {"to": f"user-{n}@example.com"}} for n in range(EMAILS)])
    say(f"✓ {EMAILS} jobs added in one bulk")
    for n in range(LATER):
        await queue.add("later", {"to": f"later-{n}@example.com"}, delay=timedelta(seconds=2))
    say(f"✓ {LATER} more that run in two seconds")
    flaky = [{"name": "flaky", "data": {"to": f"flaky-{n}@example.com"}, "attempts": 5} for n in range(FLAKY)]
    retried = await queue.add_bulk([{**job, "backoff": BackoffSpec.exponential(200)} for job in flaky])
    say(f"✓ {FLAKY} that fail twice and are retried with a growing pause")
    dead = [await queue.add("bounce", {"to": f"nobody-{n}@example.com"}) for n in range(BOUNCING)]
    say(f"✓ {BOUNCING} that no retry can help")
    report = RepeatPattern.cron("*/2 * * * * *", tz="America/Lima")
    await queue.upsert_repeatable_job("report", {"to": "ops@example.com"}, repeat=report)
    say("✓ a report every two seconds, by cron")

    results = await asyncio.gather(*(job.wait_for_result(timeout=DEADLINE_S) for job in retried))
    say(f"✓ the flaky ones succeeded: {results[0]}")
    try:
        await dead[0].wait_for_result(timeout=DEADLINE_S)
    except JobFailedError as err:
        say(f"✓ a caller that waits for a dead job gets the error at once: {err}")
    mailbox.repaired = True
    say(f"✓ address fixed; replayed {await queue.replay_dlq()} dead letters: {await dead[0].wait_for_result()}")
    await enough(board)
    say("✓ everything ran. Next: README.md for your own worker, docs/ for the rest")


async def main(url: str = URL) -> None:
    """The tour, live where there is a terminal to draw on."""
    console, board, mailbox = Console(), Board(), Mailbox()
    live = Live(board, console=console, refresh_per_second=10) if console.is_terminal else None
    async with Queue(QUEUE, redis_url=url) as queue:
        worker = Worker(QUEUE, mailbox, redis_url=url, store_results=True, scheduler_tick_ms=200)
        running = asyncio.create_task(worker.run())
        watching = asyncio.create_task(watch(board, url))
        if live is not None:
            live.start()
        try:
            await tour(queue, mailbox, board)
            await asyncio.sleep(0.3)
        finally:
            if live is not None:
                live.stop()
            watching.cancel()
            await worker.close()
            await running
    if live is None:
        console.print(board)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:2]))
    except KeyboardInterrupt:
        sys.exit(130)
