"""The operations on dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chasqui_engine._redis.commands import dead_letters as dead_letters_commands
from chasqui_engine.admin import dead_letters
from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.values.job import DlqEntry, JobId
from chasqui_engine.values.validation import check_limit


class DeadLetterOperations(Operations):
    """The part of `QueueOperations` that concerns dead letters."""

    async def replay_dlq(self, limit: int = 100) -> int:
        """Replays up to `limit` dead letters with a fresh attempt count; returns how many."""
        return (await dead_letters.replay(await self._open_link(), self._keys, check_limit(limit))).moved

    async def replay_dead(self, entries: Sequence[DlqEntry]) -> int:
        """Replays these dead letters with a fresh attempt count; returns how many still existed."""
        return (await dead_letters.replay_these(await self._open_link(), self._keys, entries)).moved

    async def replay_edited(self, entry: DlqEntry, payload: Any) -> bool:
        """Replays a dead letter with another payload; False if it no longer exists."""
        return await dead_letters.replay_edited(await self._open_link(), self._keys, entry, payload)

    async def delete_dead(self, dlq_ids: Sequence[str]) -> int:
        """Deletes dead letters for good; returns how many still existed."""
        return await dead_letters_commands.delete(await self._open_link(), self._keys, dlq_ids) if dlq_ids else 0

    async def page_dlq(self, after: str | None, limit: int = 500) -> list[DlqEntry]:
        """Up to `limit` dead letters after the one with that id, None for the first; oldest first."""
        return await dead_letters_commands.list_oldest(
            await self._open_link(), self._keys, count=check_limit(limit), after=after
        )

    async def page_newest_dlq(self, before: str | None, limit: int = 500) -> list[DlqEntry]:
        """Up to `limit` dead letters before the one with that id, None for the last; newest first."""
        link = await self._open_link()
        return await dead_letters_commands.list_newest(link, self._keys, count=check_limit(limit), before=before)

    async def get_dead(self, dlq_ids: Sequence[str]) -> list[DlqEntry]:
        """Those of these dead letters that still exist."""
        return (
            await dead_letters_commands.get_dead_letters(await self._open_link(), self._keys, dlq_ids)
            if dlq_ids
            else []
        )

    async def get_tracebacks(self, job_ids: Sequence[JobId | None]) -> list[str | None]:
        """The tracebacks of the last runs of dead jobs, cut to 4,096 bytes, in order; None where none is kept.

        They are kept as long as a result would be.
        """
        return await dead_letters.read_tracebacks(await self._open_link(), self._keys, job_ids)
