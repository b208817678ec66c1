"""Gathering what should travel together."""

from __future__ import annotations

import asyncio

import pytest

from chasqui_engine.consumer.batcher import Batcher


class Traffic:
    """Where the batches go; each takes as long as the gate is shut."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.failures: list[BaseException] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def send(self, items: list[int]) -> None:
        self.sent.append(items)
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    def batcher(self, *, most: int = 100, idle_s: float = 0.0) -> Batcher[int]:
        return Batcher(self.send, self.failures.append, most=most, idle_s=idle_s)


@pytest.fixture
async def traffic() -> Traffic:
    return Traffic()


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_comes_in_one_turn_goes_together_and_at_once(traffic: Traffic) -> None:
    batcher = traffic.batcher(idle_s=60)
    for item in range(3):
        batcher.add(item)
    assert traffic.sent == []
    await _turns()
    assert traffic.sent == [[0, 1, 2]]


async def test_a_full_batch_does_not_wait_for_the_turn_to_end(traffic: Traffic) -> None:
    batcher = traffic.batcher(most=2, idle_s=60)
    for item in range(5):
        batcher.add(item)
    await _turns()
    assert traffic.sent == [[0, 1], [2, 3], [4]]


async def test_while_one_is_on_its_way_others_gather(traffic: Traffic) -> None:
    traffic.gate.clear()
    batcher = traffic.batcher(idle_s=60)
    batcher.add(0)
    await _turns()
    for item in (1, 2, 3):
        batcher.add(item)
        await _turns()
    assert traffic.sent == [[0]]
    traffic.gate.set()
    await _turns()
    assert traffic.sent == [[0], [1, 2, 3]]


async def test_but_not_for_ever(traffic: Traffic) -> None:
    traffic.gate.clear()
    batcher = traffic.batcher(idle_s=0.02)
    batcher.add(0)
    await _turns()
    batcher.add(1)
    batcher.add(2)
    await asyncio.sleep(0.1)
    assert traffic.sent == [[0], [1, 2]]
    traffic.gate.set()
    await batcher.drain()


async def test_no_batch_is_larger_than_allowed(traffic: Traffic) -> None:
    traffic.gate.clear()
    batcher = traffic.batcher(most=3, idle_s=60)
    for item in range(20):
        batcher.add(item)
        if item % 4 == 0:
            await _turns(2)
    traffic.gate.set()
    await batcher.drain()
    assert max(map(len, traffic.sent)) == 3
    assert [item for batch in traffic.sent for item in batch] == list(range(20))


async def test_drain_waits_until_everything_has_arrived(traffic: Traffic) -> None:
    traffic.gate.clear()
    batcher = traffic.batcher()
    batcher.add(0)
    draining = asyncio.create_task(batcher.drain())
    await _turns()
    batcher.add(1)
    await _turns()
    assert not draining.done()
    traffic.gate.set()
    await asyncio.wait_for(draining, 5)
    assert sorted(item for batch in traffic.sent for item in batch) == [0, 1]


async def test_drain_with_nothing_to_do(traffic: Traffic) -> None:
    await asyncio.wait_for(traffic.batcher().drain(), 5)
    assert traffic.sent == []


async def test_a_failure_is_told_and_the_next_batch_goes_all_the_same(traffic: Traffic) -> None:
    traffic.error = ValueError("no")
    batcher = traffic.batcher()
    batcher.add(0)
    await asyncio.wait_for(batcher.drain(), 5)
    assert traffic.failures == [traffic.error]
    traffic.error = None
    batcher.add(1)
    await batcher.drain()
    assert traffic.sent == [[0], [1]]
    assert len(traffic.failures) == 1
