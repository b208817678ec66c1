"""Leadership: of all candidates for a periodic duty of a queue, one at a time does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import locks
from chasqui_engine.runtime.aio import Stop, cancel_and_wait, sleep_until
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import RedisError

_log = logging.getLogger("chasqui.leader")

_RENEWALS_PER_TTL = 3
_TRIES_PER_TTL = 10
_LAST_ROUND_S = 1.0

Tick = Callable[[], Awaitable[float]]
"""One round of the duty; returns the seconds until the next one, 0 for at once."""


class Leader:
    """Holds a lock in Redis while it can, and does the duty while it holds it."""

    def __init__(
        self, link: Link, lock: str, holder: str, ttl_s: float, on_change: Callable[[bool], None] | None = None
    ) -> None:
        self._link = link
        self._lock = lock
        self._holder = holder
        self._ttl_s = ttl_s
        self._on_change = on_change
        self._leads: bool | None = None
        self._held_at = float("-inf")

    async def run(self, tick: Tick, stop: Stop) -> None:
        """Does the duty whenever it is the leader, until `stop`; releases the lock at the end."""
        duty = asyncio.create_task(self._rounds(tick, stop))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((duty, stopping), return_when=asyncio.FIRST_COMPLETED)
            # A round is short, unless the server is unreachable: then it is not worth waiting for.
            await asyncio.wait((duty,), timeout=_LAST_ROUND_S)
        finally:
            await cancel_and_wait(duty, stopping)
            await self._release()

    async def _rounds(self, tick: Tick, stop: Stop) -> None:
        while not stop.is_set():
            await sleep_until(stop, await self._round(tick))

    async def _round(self, tick: Tick) -> float:
        try:
            if await self._hold():
                return await tick()
        except RedisError as err:
            _log.warning("%s: %s; retrying", self._lock, err)
        except Exception:  # noqa: BLE001 - one bad record must not end the duty for all others
            _log.exception("%s: this round failed; retrying", self._lock)
        return self._ttl_s / _TRIES_PER_TTL

    async def _hold(self) -> bool:
        now = monotonic()
        if self._leads and now - self._held_at < self._ttl_s / _RENEWALS_PER_TTL:
            return True
        leads = await locks.acquire(self._link, self._lock, self._holder, int(self._ttl_s * 1000))
        self._held_at = now
        if leads != self._leads:
            self._leads = leads
            if self._on_change is not None:
                self._on_change(leads)
        return leads

    async def _release(self) -> None:
        if not self._leads:
            return
        self._leads = None
        try:
            await asyncio.wait_for(locks.release(self._link, self._lock, self._holder), timeout=1)
        except (RedisError, TimeoutError) as err:
            _log.info("%s: could not release the lock (%s); it expires within %s s", self._lock, err, self._ttl_s)
