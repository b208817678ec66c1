"""The scheduler: turns repeatable specs into jobs at their fire times, by the server's clock."""

from __future__ import annotations

import logging

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import locks, repeatables
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.repeatable import encode_fire
from chasqui_engine.metrics.events import LockOutcome
from chasqui_engine.metrics.safe_sink import guard
from chasqui_engine.runtime.aio import Stop
from chasqui_engine.schedule.leader import Leader
from chasqui_engine.schedule.plan import plan_fires
from chasqui_engine.schedule.standalone import Standalone
from chasqui_engine.schedule.store import decode_stored
from chasqui_engine.values.config import SchedulerConfig
from chasqui_engine.values.ids import mint_ids

_log = logging.getLogger("chasqui.schedule")

_UNREADABLE_PAUSE_MS = 3_600_000
"""An unreadable spec is retried after this time; a newer engine may have written it."""

_ROUND_BYTES = 16 * 1024 * 1024
"""Bytes of the jobs of one round: a spec can ask for more missed fires than memory holds."""
_LEAST_BYTES = 256
"""The least size assumed for a fire."""


class Scheduling:
    """The scheduler's duty, on a link that its owner closes."""

    def __init__(self, link: Link, keys: QueueKeys, config: SchedulerConfig) -> None:
        self._link = link
        self._keys = keys
        self._config = config

    async def run(self, stop: Stop) -> None:
        """Fires due specs whenever it is the leader, until `stop`."""
        config = self._config
        sink = guard(config.metrics)
        leader = Leader(
            self._link,
            self._keys.scheduler_lock,
            config.holder_id,
            config.lock_ttl_secs,
            lambda leads: sink.promoter_lock_outcome(LockOutcome.of(leads)),
        )
        await leader.run(self._tick, stop)

    async def _tick(self) -> float:
        now_ms = await locks.server_now_ms(self._link)
        due, more = await repeatables.read_page(self._link, self._keys, count=self._config.batch, due_by_ms=now_ms)
        fires = self._plans(due, now_ms)
        replies = await repeatables.fire(self._link, self._keys, fires)
        refused = [reply for reply in replies if isinstance(reply, Exception)]
        if refused:
            _log.warning("%d repeatables of %s did not fire: %s; retrying", len(refused), self._keys.queue, refused[0])
        if (more or len(fires) < len(due)) and len(refused) < len(fires):
            return 0
        tick_s = self._config.tick_interval_ms / 1000
        # Specs due before the next tick fire on time, not at the tick after it.
        upcoming_ms = await repeatables.next_fire_after(self._link, self._keys, now_ms)
        if refused or upcoming_ms is None:
            return tick_s
        return min(tick_s, max(0.001, (upcoming_ms - now_ms) / 1000))

    def _plans(self, due: list[repeatables.StoredSpec], now_ms: int) -> list[repeatables.Fire]:
        """As many of them as fit into one round."""
        fires: list[repeatables.Fire] = []
        room = _ROUND_BYTES
        for stored in due:
            weight = max(len(stored.data or b""), _LEAST_BYTES)
            fires.append(self._plan(stored, now_ms, max(1, room // weight)))
            room -= weight * len(fires[-1][-1])
            if room <= 0:
                break
        return fires

    def _plan(self, stored: repeatables.StoredSpec, now_ms: int, at_most: int) -> repeatables.Fire:
        key, at_ms = stored.key, stored.next_fire_ms
        if stored.size is None:
            return key, at_ms, None, "", []
        try:
            spec = decode_stored(stored)
            plan = plan_fires(spec, int(at_ms), stored.fired, now_ms, at_most)
            ids = mint_ids(len(plan.fires), now_ms)
            envelopes = [encode_fire(stored.data or b"", job_id, now_ms) for job_id in ids]
        except Exception as err:  # noqa: BLE001 - an error of one spec does not keep the others from firing
            _log.warning("repeatable %.200r of %s cannot be read and does not fire: %.500s", key, self._keys.queue, err)
            return key, at_ms, now_ms + _UNREADABLE_PAUSE_MS, "", []
        return key, at_ms, plan.next_fire_ms, spec.job_name, envelopes


class Scheduler(Standalone[SchedulerConfig]):
    """Fires one queue's repeatable specs in a process of its own; consumers run the same duty inside."""

    _ROLE = "scheduler"
    _CONFIG = SchedulerConfig
    _DUTY = Scheduling
