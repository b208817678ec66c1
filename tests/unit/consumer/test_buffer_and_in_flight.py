"""What a worker holds, and how its tasks get at it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine.consumer.buffer import PrefetchBuffer
from chasqui_engine.consumer.in_flight import POISON_SUSPECT, InFlight
from chasqui_engine.runtime.clock import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable


def delivery(number: int, *, read_at: float = 0.0) -> Delivery:
    return Delivery(b"%d-0" % number, b"", "", 0, read_at)


def suspect(number: int) -> Delivery:
    return Delivery(b"%d-0" % number, b"", "", POISON_SUSPECT, 0.0)


def make_buffer() -> PrefetchBuffer:
    return PrefetchBuffer(asyncio.Event())


class TestHeld:
    def test_each_entry_is_taken_once(self) -> None:
        held = InFlight(lease_s=1)
        first = [delivery(1), delivery(2)]
        assert held.take(first) == first
        again = delivery(2)
        third = delivery(3)
        assert held.take([again, third]) == [third]
        assert len(held) == 3
        assert held.entry_ids() == [b"1-0", b"2-0", b"3-0"]

    def test_what_is_released_may_be_taken_again_from_a_later_read(self) -> None:
        held = InFlight(lease_s=1)
        held.about_to_read()
        (one,) = held.take([delivery(1)])
        held.release(one)
        held.release(one)
        assert len(held) == 0
        assert held.take([delivery(1)]) == [], "it ended while that answer was on its way"
        held.about_to_read()
        assert len(held.take([delivery(1)])) == 1

    def test_a_lost_entry_is_marked(self) -> None:
        held = InFlight(lease_s=1)
        one, two = held.take([delivery(1), delivery(2)])
        held.note_heartbeat(monotonic(), [b"1-0", b"9-9"])
        assert (one.lost, two.lost) == (True, False)

    def test_an_entry_is_certain_for_a_while_after_it_was_asked_for(self) -> None:
        held = InFlight(lease_s=1)
        now = monotonic()
        (one,) = held.take([delivery(1, read_at=now)])
        assert held.lease_is_fresh(one, now + 0.9)
        assert not held.lease_is_fresh(one, now + 1.1)

    def test_a_heartbeat_prolongs_it(self) -> None:
        held = InFlight(lease_s=1)
        (one,) = held.take([delivery(1, read_at=monotonic())])
        later = monotonic() + 10
        assert not held.lease_is_fresh(one, later)
        held.note_heartbeat(later, [])
        assert held.lease_is_fresh(one, later + 0.9)
        assert not held.lease_is_fresh(one, later + 1.1)

    def test_a_heartbeat_from_before_says_nothing_of_what_came_after(self) -> None:
        """The entry was given out long ago, its reply lay in the socket, and the heartbeat could not cover it."""
        held = InFlight(lease_s=1)
        asked_for = monotonic() - 10
        held.note_heartbeat(monotonic(), [])
        (one,) = held.take([delivery(1, read_at=asked_for)])
        assert not held.lease_is_fresh(one, monotonic())

    def test_an_old_heartbeat_does_not_undo_a_newer_one(self) -> None:
        held = InFlight(lease_s=1)
        (one,) = held.take([delivery(1, read_at=monotonic())])
        later = monotonic() + 10
        held.note_heartbeat(later, [])
        held.note_heartbeat(later - 5, [])
        assert held.lease_is_fresh(one, later + 0.5)

    def test_snapshots_from_another_thread(self) -> None:
        held = InFlight(lease_s=1)
        failures: list[BaseException] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.is_set():
                try:
                    held.note_heartbeat(monotonic(), held.entry_ids()[:3])
                except BaseException as error:
                    failures.append(error)
                    return

        watching = threading.Thread(target=watch)
        watching.start()
        for start in range(0, 20_000, 100):
            taken = held.take([delivery(number) for number in range(start, start + 100)])
            for one in taken[:90]:
                held.release(one)
        stop.set()
        watching.join()
        assert failures == []
        assert len(held) == 2000


class TestBuffer:
    async def test_first_in_first_out(self) -> None:
        buffer = make_buffer()
        buffer.put([delivery(1), delivery(2)])
        buffer.put([delivery(3)])
        assert len(buffer) == 3
        taken = [buffer.take() for _ in range(4)]
        assert [one and one.entry_id for one in taken] == [b"1-0", b"2-0", b"3-0", None]

    async def test_whoever_waits_is_woken(self) -> None:
        buffer = make_buffer()
        waiting = asyncio.create_task(buffer.wait())
        await asyncio.sleep(0)
        assert buffer.idle == 1
        buffer.put([delivery(1)])
        assert await asyncio.wait_for(waiting, 5) is True
        assert buffer.idle == 0

    async def test_many_entries_wake_many(self) -> None:
        """However many workers and entries, none stays behind, be the handlers quick or slow."""
        buffer = make_buffer()
        taken: list[bytes] = []

        async def work() -> None:
            while True:
                one = buffer.take()
                if one is None:
                    if not await buffer.wait():
                        return
                    continue
                taken.append(one.entry_id)
                if one.entry_id.startswith((b"1", b"2")):
                    await asyncio.sleep(0.001)

        workers = [asyncio.create_task(work()) for _ in range(20)]
        for start in range(0, 500, 25):
            buffer.put([delivery(number) for number in range(start, start + 25)])
            await asyncio.sleep(0)
        await _soon(lambda: len(taken) == 500)
        assert buffer.close() == []
        await asyncio.wait_for(asyncio.gather(*workers), 5)
        assert len(set(taken)) == 500

    async def test_slow_handlers_get_all_hands(self) -> None:
        buffer = make_buffer()
        inside = 0

        async def work() -> None:
            nonlocal inside
            while buffer.take() is None:
                if not await buffer.wait():
                    return
            inside += 1
            await asyncio.sleep(60)

        workers = [asyncio.create_task(work()) for _ in range(16)]
        await asyncio.sleep(0)
        buffer.put([delivery(number) for number in range(16)])
        await _soon(lambda: inside == 16)
        for worker in workers:
            worker.cancel()

    async def test_closing_gives_back_the_rest_and_sends_the_waiting_home(self) -> None:
        buffer = make_buffer()
        waiting = [asyncio.create_task(buffer.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert buffer.close() == []
        assert await asyncio.wait_for(asyncio.gather(*waiting), 5) == [False] * 3
        full = make_buffer()
        entries = [delivery(1), delivery(2)]
        full.put(entries)
        assert full.close() == entries
        assert full.take() is None
        assert await full.wait() is False

    async def test_a_worker_that_is_cancelled_while_it_waits_is_not_counted(self) -> None:
        buffer = make_buffer()
        gone = asyncio.create_task(buffer.wait())
        stays = asyncio.create_task(buffer.wait())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert buffer.idle == 1
        buffer.put([delivery(1)])
        assert await asyncio.wait_for(stays, 5) is True

    async def test_room_is_told_when_something_was_taken(self) -> None:
        buffer = make_buffer()
        buffer.put([delivery(1)])
        waiting = asyncio.create_task(buffer.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done()
        buffer.take()
        await asyncio.wait_for(waiting, 5)
        nudged = asyncio.create_task(buffer.wait_for_room())
        await asyncio.sleep(0)
        buffer.nudge()
        await asyncio.wait_for(nudged, 5)

    async def test_of_those_that_may_silence_a_worker_one_is_out_at_a_time(self) -> None:
        buffer, bombs, plain = make_buffer(), [suspect(1), suspect(2)], [delivery(3), delivery(4)]
        buffer.quarantine(bombs)
        buffer.put(plain)
        assert [buffer.take() for _ in range(4)] == [bombs[0], *plain, None]
        buffer.quarantine_done()
        assert [buffer.take(), buffer.take()] == [bombs[1], None]
        buffer.quarantine_done()
        buffer.quarantine([suspect(5)])
        assert await buffer.wait()

    async def test_all_of_them_are_among_what_is_taken_out(self) -> None:
        buffer, bombs = make_buffer(), [suspect(1), suspect(2)]
        buffer.quarantine(bombs)
        assert buffer.empty() == bombs
        buffer.quarantine(bombs)
        assert buffer.take() is bombs[0]
        assert buffer.close() == [bombs[1]]
        buffer.quarantine_done()
        assert buffer.take() is None


async def _soon(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + 5
    while not condition():
        assert monotonic() < deadline
        await asyncio.sleep(0.001)
