"""The promoter: moves delayed jobs onto the stream when they are due by the server's clock."""

from __future__ import annotations

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import delayed
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.metrics.events import LockOutcome, PromoterTick
from chasqui_engine.metrics.safe_sink import guard
from chasqui_engine.runtime.aio import Stop
from chasqui_engine.schedule.leader import Leader
from chasqui_engine.schedule.standalone import Standalone
from chasqui_engine.values.config import PromoterConfig


class Promotion:
    """The promoter's duty, on a link that its owner closes."""

    def __init__(self, link: Link, keys: QueueKeys, config: PromoterConfig) -> None:
        self._link = link
        self._keys = keys
        self._config = config
        self._sink = guard(config.metrics)
        self._events_max = config.events_max

    async def run(self, stop: Stop) -> None:
        """Promotes whenever it is the leader, until `stop`."""
        config = self._config
        leader = Leader(
            self._link, self._keys.promoter_lock, config.holder_id, config.lock_ttl_secs, self._on_lock_change
        )
        await leader.run(self._tick, stop)

    def _on_lock_change(self, leads: bool) -> None:
        self._sink.promoter_lock_outcome(LockOutcome.of(leads))

    async def _tick(self) -> float:
        due = await delayed.due(self._link, self._keys, self._config.promote_batch)
        # Where nothing is due, nothing is late.
        promoted = delayed.Promoted(0, 0)
        if due.job_ids:
            promoted = await delayed.promote(self._link, self._keys, due, events_max=self._events_max)
        depth = due.depth - promoted.count
        self._sink.promoter_tick(
            PromoterTick(promoted=promoted.count, depth=depth, oldest_pending_lag_ms=promoted.lag_ms)
        )
        # Jobs that arrived before the due ones stopped the round: they are next.
        return 0 if due.more or promoted.count < len(due.job_ids) else self._pause_s(due)

    def _pause_s(self, due: delayed.Due) -> float:
        interval_s = self._config.poll_interval_ms / 1000
        if due.job_ids or due.oldest_ms is None:
            return interval_s
        # Jobs due before the next poll are promoted on time, not at the poll after it.
        return min(interval_s, max(0.001, (due.oldest_ms - due.now_ms) / 1000))


class Promoter(Standalone[PromoterConfig]):
    """Promotes one queue's delayed jobs in a process of its own; consumers run the same duty inside."""

    _ROLE = "promoter"
    _CONFIG = PromoterConfig
    _DUTY = Promotion
