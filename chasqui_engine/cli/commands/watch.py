"""`chasqui watch`: the queues, live."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine.admin.snapshot import QueueSnapshot
from chasqui_engine.cli.commands.inspect import QueuesArgument, QueuesOption
from chasqui_engine.cli.monitor import Monitor, Sighting, open_monitor
from chasqui_engine.cli.params import GroupOption
from chasqui_engine.cli.queue_table import DEPTH, DONE, lines_of, queue_table
from chasqui_engine.cli.session import Session, command, print_json
from chasqui_engine.cli.terminal import styled
from chasqui_engine.clock import now_ms
from chasqui_engine.durations import iso

if TYPE_CHECKING:
    from rich.console import RenderableType

_HISTORY = 30
_MOST_BAD = 3
"""Lines about queues that cannot be looked at."""
_AROUND_ROWS = 10
"""Lines of a screen that are not rows: the table's head and frame, what stands below it, and the cursor's."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "watch", rich_help_panel="Look")(watch)


async def watch(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    interval_ms: Annotated[int, typer.Option("--interval-ms", min=50, help="How often to look.")] = 1000,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Look so often, then end.")] = None,
    group: GroupOption = "default",
) -> None:
    """Watch queues: a live table with sparklines; Ctrl-C ends it. In a pipe, or with --json, a JSON line per look."""
    names = list(dict.fromkeys([*(queues or []), *(queue or [])]))
    async with open_monitor(session, names, group, to_come=True) as looker:
        if session.as_json or not sys.stdout.isatty():
            await _lines(looker, interval_ms, count)
        else:
            await _screen(session, looker, interval_ms, count)


async def _lines(looker: Monitor, interval_ms: int, count: int | None) -> None:
    looks = 0
    while True:
        seen = await looker.look()
        print_json({"at": iso(now_ms()), "queues": seen.as_dicts()})
        looks += 1
        if looks == count:
            return
        await asyncio.sleep(interval_ms / 1000)


async def _screen(session: Session, looker: Monitor, interval_ms: int, count: int | None) -> None:
    from rich.live import Live

    history = _History()
    looks = 0
    # No alternate screen: what was seen last stays when it ends.
    with Live(console=session.console, auto_refresh=False) as live:
        while True:
            seen = await looker.look()
            history.add(seen.queues)
            size = live.console.size
            live.update(history.table(seen, looker.address, size.width, size.height), refresh=True)
            looks += 1
            if looks == count:
                return
            await asyncio.sleep(interval_ms / 1000)


class _History:
    """The last looks, for the sparklines."""

    def __init__(self) -> None:
        self._depth: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._rate: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))

    def add(self, seen: list[QueueSnapshot]) -> None:
        """One more look."""
        for one in seen:
            self._depth[one.name].append(one.counts.waiting + one.counts.active)
            self._rate[one.name].append(one.throughput.completed_per_s)

    def table(self, seen: Sighting, address: str, width: int, height: int) -> RenderableType:
        """The table, with a column per plot, of as many queues as there is room for."""
        from rich.console import Group

        bad = seen.told(_MOST_BAD)
        shown = busiest(seen.queues, height - _AROUND_ROWS - len(bad), width)
        words = [f"{address}, {iso(now_ms())}; Ctrl-C ends it"]
        if len(shown) < len(seen.queues):
            words.append(f"the {len(shown):,} busiest of {len(seen.queues):,} queues; name some to see others")
        words += bad
        below = styled("\n".join(words), "italic", no_wrap=True, overflow="ellipsis")
        return Group(queue_table(shown, width, {DEPTH: self._depth, DONE: self._rate}), below)


def busiest(seen: list[QueueSnapshot], lines: int, width: int) -> list[QueueSnapshot]:
    """As many as fit into so many lines, in the order in which they came: a table whose rows jump cannot be read."""
    ranked = sorted(seen, key=lambda one: (-one.counts.waiting - one.counts.active, -one.throughput.completed_per_s))
    kept: set[str] = set()
    for one in ranked:
        lines -= lines_of(one, width)
        if lines < 0 and kept:
            break
        kept.add(one.name)
    return [one for one in seen if one.name in kept]
