"""What is in the server, as the tests of triggers ask for it."""

from __future__ import annotations

from redis.asyncio import Redis


class State:
    """What is in the server."""

    def __init__(self, client: Redis, queue_name: str) -> None:
        self._client = client
        self._prefix = f"{{chasqui:{queue_name}}}"

    async def waiting(self) -> int:
        return int(await self._client.xlen(f"{self._prefix}:stream"))

    async def pending(self) -> int:
        return int((await self._client.xpending(f"{self._prefix}:stream", "default"))["pending"])

    async def delayed(self) -> int:
        return int(await self._client.zcard(f"{self._prefix}:delayed"))

    async def dead(self) -> list[dict[bytes, bytes]]:
        return [fields for _, fields in await self._client.xrange(f"{self._prefix}:dlq")]

    async def emit(self, **fields: str) -> None:
        """An event, whoever may have written it."""
        await self._client.xadd(f"{self._prefix}:events", fields)  # type: ignore[arg-type]

    async def take_as(self, consumer: str, times: int = 1) -> None:
        """Somebody takes what waits, so many times, and is silent for ten minutes."""
        stream, group = f"{self._prefix}:stream", "default"
        await self._client.xgroup_create(stream, group, "0", mkstream=True)
        ((_, entries),) = await self._client.xreadgroup(group, consumer, {stream: ">"})
        for entry_id, _ in entries:
            silent = {"idle": 600_000, "retrycount": times, "justid": True}
            await self._client.xclaim(stream, group, consumer, 0, [entry_id], **silent)  # type: ignore[arg-type]

    async def empty(self) -> bool:
        return not await self.waiting() and not await self.delayed()
