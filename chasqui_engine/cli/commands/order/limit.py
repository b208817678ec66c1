"""`chasqui limit`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from chasqui_engine import QueueLimits
from chasqui_engine.cli.input.params import QueueArgument, QueueOption, require_queue
from chasqui_engine.cli.session import USAGE, Session, command, fail

_RATE = re.compile(r"(?P<jobs>\d+)/(?P<number>\d*)(?P<unit>s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "limit", rich_help_panel="Manage")(limit)


async def limit(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="JOBS/TIME", help="Jobs that begin in a time: 100/s, 10/5m.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="Jobs that run at once, on all workers together.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the limits away.")] = False,
) -> None:
    """Limit a queue, or show its limits. What is left out is not limited; workers follow at once."""
    name = require_queue(queue_argument, queue)
    if clear and (rate or concurrency is not None):
        fail("--clear takes all limits away", "pass it alone", exit_code=USAGE)
    async with session.producer(name) as producer:
        if clear:
            await producer.clear_limits()
        elif rate or concurrency is not None:
            await producer.set_limits(rate=_parse_rate(rate), concurrency=concurrency)
        found = await producer.get_limits()
    session.answer(_describe(name, found), lambda: f"limits of queue {name}: {found}")


def _parse_rate(text: str | None) -> tuple[int, float] | None:
    if text is None:
        return None
    found = _RATE.fullmatch(text.strip())
    if found is None:
        fail(f"{text!r} is no rate", "write JOBS/TIME: 100/s, 600/m, 10/5m", exit_code=USAGE)
    return int(found["jobs"]), float(int(found["number"] or 1) * _SECONDS[found["unit"]])


def _describe(name: str, limits: QueueLimits) -> dict[str, object]:
    rate = None if limits.rate is None else {"jobs": limits.rate[0], "seconds": limits.rate[1]}
    return {"queue": name, "rate": rate, "concurrency": limits.concurrency}
