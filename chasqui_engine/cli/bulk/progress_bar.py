"""The progress bar of `chasqui bulk`, with rate and time left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chasqui_engine.cli.session import Session
from chasqui_engine.runtime.clock import monotonic

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._started = monotonic()

    def update(self, position: int | None, total: int | None, rows: int, added: int) -> None:
        """Updates it."""
        rate = rows / max(monotonic() - self._started, 0.001)
        self._progress.update(
            self._task,
            completed=position,
            total=total,
            rows=f"{rows:,} rows",
            rate=f"{rate:,.0f}/s",
            new=f"{added:,} new",
        )


@contextlib.contextmanager
def open_bar(session: Session) -> Iterator[Bar | None]:
    """A bar on the terminal, for the time of the block; None without a terminal."""
    if session.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[rows]}"))
    columns += (TextColumn("{task.fields[new]}"), TextColumn("{task.fields[rate]}"))  # type: ignore[assignment]
    progress = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True))
    with progress:
        yield Bar(progress, progress.add_task("", total=None, rows="", rate="", new=""))
