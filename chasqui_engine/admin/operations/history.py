"""What happened in a queue: jobs that completed, last runs, and counts that reach back weeks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from chasqui_engine._redis.commands.stats import HOURS_KEPT_S, MINUTES_KEPT_S
from chasqui_engine.admin import lists
from chasqui_engine.admin.lists import CompletedJob
from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.events import last_runs
from chasqui_engine.events.last_runs import LastRun
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.tally import Grain, HistoryPoint, read_history
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import JobId
from chasqui_engine.values.stream_ids import as_number
from chasqui_engine.values.validation import check_limit, check_whole_number


class HistoryOperations(Operations):
    """What is known of jobs that ran."""

    async def list_completed(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        name: str = "",
        since_ms: int = 0,
        until_ms: int | None = None,
    ) -> tuple[list[CompletedJob], str | None]:
        """Jobs that completed, the newest first, as long as the queue keeps its events; and the next page's cursor.

        The cursor, None at the end, is the next call's `before`. Half a second is searched: a page may be shorter than
        `limit`, and have a cursor all the same. `since_ms` and `until_ms` are by the server's clock.
        """
        check_whole_number(since_ms, "since_ms")
        if until_ms is not None:
            check_whole_number(until_ms, "until_ms")
        if before is not None:
            as_number(before)
        link, limit = await self._open_link(), check_limit(limit)
        return await lists.list_completed(
            link, self._keys, before=before, name=name, since_ms=since_ms, until_ms=until_ms, limit=limit
        )

    async def find_last_runs(self, job_ids: Sequence[JobId]) -> dict[JobId, LastRun]:
        """Of each job, since when it runs and how far it is, or why its last run failed.

        The newest 5,000 events are searched; jobs without one are left out.
        """
        return await last_runs.find_last_runs(await self._open_link(), self._keys, job_ids)

    async def read_history(
        self, since_ms: int, until_ms: int | None = None, *, grain: Grain = "minute"
    ) -> list[HistoryPoint]:
        """How jobs ended, and how deep the queue was, as its workers counted: the minutes or hours since a time.

        Minutes are kept for a day, hours for four weeks. At most so much is read.
        """
        check_whole_number(since_ms, "since_ms")
        until = now_ms() if until_ms is None else check_whole_number(until_ms, "until_ms")
        if grain not in get_args(Grain):
            raise ConfigError(f"grain must be minute or hour, got {grain!r}")
        longest_ms = (MINUTES_KEPT_S if grain == "minute" else HOURS_KEPT_S) * 1000
        return await read_history(
            await self._open_link(), self._keys, since_ms=max(since_ms, until - longest_ms), until_ms=until, grain=grain
        )
