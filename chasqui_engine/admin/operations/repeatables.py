"""The operations on a queue's repeatables: store, list, pause, fire, remove."""

from __future__ import annotations

from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.schedule import store
from chasqui_engine.schedule.spec import RepeatableMeta, RepeatableSpec
from chasqui_engine.values.job import JobId
from chasqui_engine.values.validation import check_limit


class RepeatableOperations(Operations):
    """The part of `QueueOperations` that concerns repeatables."""

    async def upsert_repeatable(self, spec: RepeatableSpec) -> str:
        """Stores a repeatable spec; returns its key."""
        return await store.upsert(await self._open_link(), self._keys, spec)

    async def list_repeatable(self, limit: int = 100) -> list[RepeatableMeta]:
        """Up to `limit` specs, the next to fire first."""
        return await store.list_all(await self._open_link(), self._keys, check_limit(limit))

    async def remove_repeatable(self, key: str) -> bool:
        """Removes a spec by its key; True if there was one."""
        return await store.remove(await self._open_link(), self._keys, key)

    async def pause_repeatable(self, key: str) -> bool:
        """Keeps a spec from firing until `resume_repeatable`, also when it is upserted; True if it was not paused."""
        return await store.pause(await self._open_link(), self._keys, key)

    async def resume_repeatable(self, key: str) -> bool:
        """Ends a pause; True if there was one. The next fire is the first one after now; missed ones are dropped."""
        return await store.resume(await self._open_link(), self._keys, key)

    async def fire_repeatable(self, key: str) -> JobId | None:
        """Makes one job of a spec now; its next fire and its limit stay. None if there is no such spec."""
        return await store.fire_now(await self._open_link(), self._keys, self._config, key)
