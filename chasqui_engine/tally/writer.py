"""Writes what a worker has counted, a few times a minute."""

from __future__ import annotations

import asyncio
import logging
import math

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine._redis.commands.stats import MINUTE_S
from chasqui_engine.runtime.clock import monotonic, now_ms
from chasqui_engine.tally.counting import Tally
from chasqui_engine.values.errors import ChasquiError

_log = logging.getLogger("chasqui.consumer")

_EVERY_S = 10.0


class TallyWriter:
    """Writes the tally of one worker."""

    def __init__(self, link: Link, member: GroupMember, tally: Tally) -> None:
        self._link = link
        self._member = member
        self._tally = tally
        self._refused = False
        self._written_at = -math.inf

    async def run(self) -> None:
        """Writes every few seconds, without jobs once a minute, until it is cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            fields = self._tally.take()
            if (fields or monotonic() - self._written_at >= MINUTE_S) and not self._refused:
                await self._write(fields)

    async def finish(self, timeout_s: float) -> None:
        """Writes what is left."""
        fields = self._tally.take()
        if fields and not self._refused:
            try:
                await asyncio.wait_for(self._write(fields), timeout_s)
            except TimeoutError:
                _log.info("queue %s: the last counts of this worker were not written in time", self._member.keys.queue)

    async def _write(self, fields: dict[str, int]) -> None:
        self._written_at = monotonic()
        try:
            await stats.record_tally(self._link, self._member, fields, at_s=now_ms() // 1000)
        except ChasquiError as err:
            # Counts are not worth more: an older ACL forbids them, or the server is full.
            self._refused = "NOPERM" in str(err)
            _log.info("queue %s: counts were not written: %s", self._member.keys.queue, err)
