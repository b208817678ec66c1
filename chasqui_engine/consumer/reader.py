"""The reader: moves entries from the stream into the buffer, new ones and reclaimed ones."""

from __future__ import annotations

import asyncio
import logging

from chasqui_engine._redis.client.link import CommandError, Link
from chasqui_engine._redis.commands import group, headers, stats
from chasqui_engine._redis.commands.admission.priorities import Taken
from chasqui_engine._redis.commands.group import Delivery, Pending
from chasqui_engine.consumer.admission.limited import LimitedReads
from chasqui_engine.consumer.admission.staged import StagedJobs
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.consumer.execution.aborts import Aborts
from chasqui_engine.consumer.in_flight import POISON_SUSPECT
from chasqui_engine.consumer.orphaned_entries import Orphans
from chasqui_engine.consumer.reclaim import IdleEntries
from chasqui_engine.metrics.events import ReaderBatch
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.clock import monotonic

_log = logging.getLogger("chasqui.consumer")

_AHEAD_S = 0.1
"""The buffer holds what the workers will start within this time: enough to keep them busy, without hoarding
from other processes."""
_BATCHES_AHEAD = 4
"""At most this many: the next read is in flight while the last one is processed."""
_CLAIMS_PER_IDLE = 4
_LONGEST_CLAIM_PAUSE_S = 5.0
_PAUSE_CHECK_S = 0.2
"""How soon a pause and a resume are noticed."""
_STRAYS = 500
# The stream or the group was deleted during a read.
_GROUP_GONE = ("NOGROUP", "UNBLOCKED")


class Reader:
    """Reads while the buffer has room."""

    def __init__(self, context: ConsumerContext, reads: Link, aborts: Aborts) -> None:
        self._reads = reads
        self._commands = commands = context.link
        self._member = member = context.member
        self._config = config = context.config
        self._in_flight = context.in_flight
        self._buffer = context.buffer
        self._sink = context.sink
        self._pace = context.pace
        self._orphans = Orphans(commands, member, config.claim_min_idle_ms)
        self._idle = IdleEntries(config.claim_min_idle_ms)
        self._clock = context.clock
        self._job_events = context.job_events
        self._limited = LimitedReads(context, reads, self._accept)
        self._staged = StagedJobs(context, self._accept_staged)
        self.take_staged = self._staged.run
        """Takes jobs that wait beside the stream, until cancelled."""
        self._aborts = aborts
        self._paused = self._claiming = self._warned_blind = self._with_headers = self._with_aborts = False
        self._is_limited = False

    async def read(self) -> None:
        """Reads new entries until cancelled; none while the queue is paused."""
        while True:
            if await self._pause_is_set():
                await self._wait_for_resume()
            await self._read_until_paused()

    async def _wait_for_resume(self) -> None:
        self._job_events.emit("paused")
        _log.info("queue %s is paused; consumer %s takes no jobs", self._member.keys.queue, self._member.consumer)
        while self._paused:
            await self._release_unstarted()
            await asyncio.sleep(_PAUSE_CHECK_S)
            await self._pause_is_set()
        self._job_events.emit("resumed")
        _log.info("queue %s is resumed; consumer %s takes jobs again", self._member.keys.queue, self._member.consumer)

    async def _read_until_paused(self) -> None:
        # In its own task, so that the pause check costs the reads nothing and can interrupt a blocking one.
        limited = self._is_limited
        reading = asyncio.create_task(self._read_within_limits() if limited else self._read_new(), name="chasqui-reads")
        try:
            while True:
                if (await asyncio.wait({reading}, timeout=_PAUSE_CHECK_S))[0]:
                    reading.result()
                if await self._pause_is_set() or self._is_limited is not limited:
                    break
        finally:
            await cancel_and_wait(reading)
        # The server may be about to answer the cancelled read: on a closed connection it cannot.
        self._reads.drop()

    async def _pause_is_set(self) -> bool:
        flags = await stats.read_flags(self._commands, self._member.keys)
        if flags.refused:
            self._warn_blind("whether queue %s is paused, has limits, aborts or priorities", flags.refused)
        self._paused, self._with_headers, self._with_aborts = flags.paused, flags.with_headers, flags.with_aborts
        self._is_limited = flags.limited
        # Within limits, the reads take staged jobs too.
        self._staged.pause(flags.paused or flags.limited)
        if flags.with_priorities:
            self._staged.wake()
        if self._with_aborts:
            await self._stop_aborted()
        return self._paused

    async def _stop_aborted(self) -> None:
        try:
            await self._aborts.stop_marked()
        except CommandError as err:
            self._warn_blind("which jobs of queue %s are to be aborted", err)

    def _warn_blind(self, what: str, err: CommandError | str) -> None:
        if not self._warned_blind:
            self._warned_blind = True
            _log.warning(f"cannot read {what}: %s", self._member.keys.queue, err)

    async def _release_unstarted(self) -> None:
        """Releases what no handler has started: the buffer, and the entries of a cancelled read."""
        unbegun = self._buffer.empty()
        pending = await group.list_pending_of(self._commands, self._member, at_most=len(self._in_flight) + _STRAYS)
        held = set(self._in_flight.entry_ids())
        # Entries of a claim, or a take, in progress are ours before they are recorded.
        on_their_way = self._claiming or self._staged.is_taking or self._limited.is_taking
        strays = [] if on_their_way else [entry_id for entry_id in pending if entry_id not in held]
        to_return = [delivery.entry_id for delivery in unbegun] + strays
        if to_return:
            await group.release(self._commands, self._member, to_return)
        for delivery in unbegun:
            self._in_flight.release(delivery)

    async def _read_new(self) -> None:
        config = self._config
        backlog = False
        while True:
            room = await self._room()
            # Several reads at once save round trips, but on a short queue they would return nothing.
            counts = _shares(room, config.batch) if backlog else [min(room, config.batch)]
            self._in_flight.about_to_read()
            try:
                reads = await group.read(
                    self._reads,
                    self._member,
                    counts=counts,
                    block_ms=config.block_ms,
                    read_at=monotonic(),
                )
            except CommandError as err:
                await self._restore_group(err)
            else:
                backlog = len(reads[-1]) == counts[-1]
                for deliveries in reads:
                    await self._accept(deliveries)

    async def _read_within_limits(self) -> None:
        while True:
            try:
                await self._limited.read()
            except CommandError as err:
                await self._restore_group(err)

    async def claim(self) -> None:
        """Reclaims entries of silent workers until cancelled."""
        pause_s = min(self._config.claim_min_idle_ms / 1000 / _CLAIMS_PER_IDLE, _LONGEST_CLAIM_PAUSE_S)
        while True:
            try:
                await self._clock.check()
                await self._orphans.check()
                await self._claim_idle()
            except CommandError as err:
                await self._restore_group(err)
            await asyncio.sleep(min(pause_s, self._idle.next_s))

    async def _claim_idle(self) -> None:
        while not self._paused:
            room = await self._room()
            asked_at = monotonic()
            idle = await group.list_idle(self._commands, self._member, self._idle.seen_from_ms)
            # Recorded entries in our name are not abandoned; unrecorded ones came with a lost answer.
            held, me = set(self._in_flight.entry_ids()), self._member.consumer.encode()
            others = [entry for entry in idle if entry.consumer != me or entry.entry_id not in held]
            ripe = self._idle.check(others, asked_at)[: min(room, self._config.batch)]
            if not ripe or not await self._claim(ripe):
                return

    async def _claim(self, ripe: list[Pending]) -> bool:
        """Claims entries; False if there were none."""
        self._claiming = True
        try:
            deliveries = await group.claim(
                self._commands,
                self._member,
                ripe,
                min_idle_ms=self._config.claim_min_idle_ms,
                read_at=monotonic(),
            )
            await self._accept(deliveries)
        finally:
            self._claiming = False
        return bool(deliveries)

    async def _accept(self, deliveries: list[Delivery], *, has_looked: bool = False) -> None:
        if not deliveries:
            return
        if self._sink.enabled:
            reclaimed = sum(1 for delivery in deliveries if delivery.deliveries)
            self._sink.reader_batch(ReaderBatch(size=len(deliveries), reclaimed=reclaimed))
        if any(delivery.priority for delivery in deliveries):
            self._staged.wake()  # where one is, there may be more
            if not has_looked:
                await self._look_for_headers()
        if self._with_headers:
            await self._add_headers(deliveries)
        if self._with_aborts:
            await self._note_aborted(deliveries)
        fresh = self._in_flight.take(deliveries)
        self._buffer.put(delivery for delivery in fresh if not delivery.deliveries)
        if again := [delivery for delivery in fresh if delivery.deliveries]:
            await self._accept_again(again)
        if len(fresh) < len(deliveries) and (ours := self._in_flight.find_redelivered(deliveries)):
            # The server has counted another delivery.
            await self._recount(ours)

    async def _accept_staged(self, taken: Taken) -> None:
        self._with_headers = self._with_headers or taken.with_headers
        await self._accept(taken.deliveries, has_looked=True)

    async def _look_for_headers(self) -> None:
        # What moves up to the stream leaves its headers behind, and may be younger than the last look.
        if not self._with_headers:
            self._with_headers = (await stats.read_flags(self._commands, self._member.keys)).with_headers

    async def _add_headers(self, deliveries: list[Delivery]) -> None:
        # These are not recorded yet: if this is cancelled, they are released to the stream.
        try:
            await headers.add_missing(self._commands, self._member.keys, deliveries)
        except CommandError as err:
            self._warn_blind("the headers of delayed jobs of queue %s", err)

    async def _note_aborted(self, deliveries: list[Delivery]) -> None:
        try:
            await self._aborts.note_marked(deliveries)
        except CommandError as err:
            self._warn_blind("which jobs of queue %s are to be aborted", err)

    async def _recount(self, ours: list[Delivery]) -> None:
        await group.set_delivery_counts(self._commands, self._member, [(one.entry_id, one.count) for one in ours])

    async def _accept_again(self, again: list[Delivery]) -> None:
        """Of entries whose workers went silent, only started runs count: each may wait here for another that
        kills this worker too."""
        if self._job_events.listeners.hear_jobs:
            self._job_events.stall(again)
        suspects = [] if self._config.relay else [one for one in again if one.deliveries >= POISON_SUSPECT]
        try:
            await self._recount(again)
        finally:
            # They are in flight: cancelled here, they would never run.
            self._buffer.put(one for one in again if one not in suspects)
            self._buffer.quarantine(suspects)

    async def _room(self) -> int:
        """Waits until more entries are needed; returns how many."""
        config, buffer = self._config, self._buffer
        while True:
            soon = int(_AHEAD_S / max(self._pace.mean_s, 1e-6) * config.concurrency)
            ahead = max(1, min(soon, _BATCHES_AHEAD * config.batch))
            # Unsettled entries count too: when Redis is slow to process acks, reading more does not help.
            unwritten = len(self._in_flight) - len(buffer) - config.concurrency
            if len(buffer) <= ahead // 2 and unwritten < 2 * config.ack_batch:
                return buffer.idle + ahead - len(buffer)
            await buffer.wait_for_room()

    async def _restore_group(self, err: CommandError) -> None:
        if not err.args[0].startswith(_GROUP_GONE):
            raise err
        if await group.ensure_group(self._commands, self._member):
            _log.warning(
                "group %s of queue %s was gone (flushed, deleted, or lost in a failover) and was created again: %s",
                self._member.group,
                self._member.keys.queue,
                err,
            )


def _shares(whole: int, most: int) -> list[int]:
    """`whole` in parts of up to `most`."""
    return [min(most, whole - start) for start in range(0, whole, most)]
