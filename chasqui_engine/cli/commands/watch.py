"""`chasqui watch`: the queues, live."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine.admin import QueueMonitor, QueueSnapshot
from chasqui_engine.cli.input.params import GroupOption, QueuesArgument, QueuesOption, parse_queues
from chasqui_engine.cli.logs import logger_at
from chasqui_engine.cli.monitor import Snapshots, open_monitor, take_snapshots
from chasqui_engine.cli.outage import describe_outage, ride_out
from chasqui_engine.cli.output.formatting import ago
from chasqui_engine.cli.output.queue_table import DEPTH, DONE, lines_of, queue_table
from chasqui_engine.cli.output.terminal import say, style_text
from chasqui_engine.cli.session import Session, command, print_json
from chasqui_engine.runtime.clock import monotonic, now_ms
from chasqui_engine.values.durations import iso

if TYPE_CHECKING:
    from rich.console import RenderableType

_HISTORY = 30
_MAX_BAD_LINES = 3
_AROUND_ROWS = 11
"""Lines of a screen that are not rows: the table's head and frame, what is below it, and the cursor's."""
_SHOW_RECOVERY_S = 10.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "watch", rich_help_panel="Inspect")(watch)


async def watch(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    interval_ms: Annotated[int, typer.Option("--interval-ms", min=50, help="Time between refreshes.")] = 1000,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Exit after this many refreshes.")] = None,
    group: GroupOption = "default",
) -> None:
    """Watch queues in a live table with sparklines, until Ctrl-C.

    In a pipe, or with --json, every refresh is a line of JSON. A restart of the server is ridden out.
    """
    names = parse_queues(queues, queue)
    async with open_monitor(session, names, group, may_be_missing=True) as monitor:
        view = _Lines(monitor) if session.as_json or not sys.stdout.isatty() else _Screen(session, monitor)
        # What the connection logs would be drawn over the table, and repeat what the view says.
        with logger_at("chasqui.redis", logging.ERROR), view:
            await _refresh(monitor, names, view, interval_ms, count)


async def _refresh(
    monitor: QueueMonitor, names: Sequence[str], view: _Lines | _Screen, interval_ms: int, count: int | None
) -> None:
    view.show(await take_snapshots(monitor, names))
    refreshes = 1
    while refreshes != count:
        await asyncio.sleep(interval_ms / 1000)
        view.show(await ride_out(lambda: take_snapshots(monitor, names), view.show_outage))
        refreshes += 1


class _Lines:
    """A line of JSON for every refresh; outages go to stderr."""

    def __init__(self, monitor: QueueMonitor) -> None:
        self._address = monitor.address
        self._silent_since: float | None = None

    def show(self, found: Snapshots) -> None:
        if self._silent_since is not None:
            say(f"reconnected to {self._address} after {ago((monotonic() - self._silent_since) * 1000)}", sys.stderr)
            self._silent_since = None
        print_json({"at": iso(now_ms()), "queues": found.as_dicts()})

    def show_outage(self, seconds: float) -> None:
        if self._silent_since is None:
            self._silent_since = monotonic() - seconds
            say(describe_outage(self._address, seconds), sys.stderr)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


class _Screen:
    """A table that is redrawn."""

    def __init__(self, session: Session, monitor: QueueMonitor) -> None:
        from rich.live import Live

        self._address = monitor.address
        # No alternate screen: the last table stays when the command ends.
        self._live = Live(console=session.console, auto_refresh=False)
        self._history = _History()
        self._last = Snapshots([], [])
        self._outage_s: float | None = None
        self._recovery: tuple[float, str] | None = None

    def show(self, found: Snapshots) -> None:
        if self._outage_s is not None:
            self._recovery = (monotonic(), f"reconnected after {ago(self._outage_s * 1000)}")
            self._outage_s = None
        self._last = found
        self._history.add(found.queues)
        recovered = self._recovery and monotonic() - self._recovery[0] < _SHOW_RECOVERY_S
        self._draw(self._recovery[1] if self._recovery and recovered else "")

    def show_outage(self, seconds: float) -> None:
        self._outage_s = seconds
        self._draw(describe_outage(self._address, seconds))

    def _draw(self, note: str) -> None:
        size = self._live.console.size
        notes = [f"{self._address}, {iso(now_ms())}; Ctrl-C ends it", *([note] if note else [])]
        self._live.update(self._history.table(self._last, notes, size.width, size.height), refresh=True)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *exc: object) -> None:
        self._live.stop()


class _History:
    """The last refreshes, for the sparklines."""

    def __init__(self) -> None:
        self._depth: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._rate: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))

    def add(self, queues: list[QueueSnapshot]) -> None:
        """Adds one refresh."""
        for one in queues:
            self._depth[one.name].append(one.counts.waiting + one.counts.active)
            self._rate[one.name].append(one.throughput.completed_per_s)

    def table(self, found: Snapshots, notes: list[str], width: int, height: int) -> RenderableType:
        """The table, with a column per plot and the notes below, of as many queues as there is room for."""
        from rich.console import Group

        bad = found.describe_bad(_MAX_BAD_LINES)
        shown = busiest(found.queues, height - _AROUND_ROWS - len(bad), width)
        lines = list(notes)
        if len(shown) < len(found.queues):
            lines.append(f"the {len(shown):,} busiest of {len(found.queues):,} queues; name some to see others")
        lines += bad
        below = style_text("\n".join(lines), "italic", no_wrap=True, overflow="ellipsis")
        return Group(queue_table(shown, width, {DEPTH: self._depth, DONE: self._rate}), below)


def busiest(queues: list[QueueSnapshot], lines: int, width: int) -> list[QueueSnapshot]:
    """As many as fit into `lines`, in their original order: a table whose rows jump cannot be read."""
    ranked = sorted(queues, key=lambda one: (-one.counts.waiting - one.counts.active, -one.throughput.completed_per_s))
    kept: set[str] = set()
    for one in ranked:
        lines -= lines_of(one, width)
        if lines < 0 and kept:
            break
        kept.add(one.name)
    return [one for one in queues if one.name in kept]
