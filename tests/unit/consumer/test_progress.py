"""Progress on its way to Redis: in order, one batch after the other, and no more of it than fits."""

from __future__ import annotations

import asyncio

import pytest

from chasqui_engine.consumer.progress import Progress, ProgressBatcher


class Traffic:
    """Where the batches go; each takes as long as the gate is shut."""

    def __init__(self, most: int) -> None:
        self.sent: list[list[str]] = []
        self.failures: list[BaseException] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.batcher = ProgressBatcher(self.send, self.failures.append, most=most)

    async def send(self, batch: list[Progress]) -> None:
        self.sent.append([f"{job_id}={progress}" for job_id, _name, progress in batch])
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    def say(self, job_id: str, progress: int) -> None:
        self.batcher.add((job_id, "n", str(progress)))


@pytest.fixture
async def traffic() -> Traffic:
    return Traffic(most=3)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_comes_in_one_turn_goes_together(traffic: Traffic) -> None:
    traffic.say("a", 1)
    traffic.say("a", 2)
    assert traffic.sent == []
    await turns()
    assert traffic.sent == [["a=1", "a=2"]]


async def test_no_batch_leaves_before_the_last_has_arrived_and_none_is_too_large(traffic: Traffic) -> None:
    traffic.gate.clear()
    traffic.say("a", 0)
    await turns()
    for job_id in "bcdef":
        traffic.say(job_id, 1)
        await turns()
    assert traffic.sent == [["a=0"]]
    traffic.gate.set()
    await traffic.batcher.flush()
    assert traffic.sent == [["a=0"], ["b=1", "c=1", "d=1"], ["e=1", "f=1"]]


async def test_a_job_that_says_more_than_can_be_told_is_heard_with_its_last_word(traffic: Traffic) -> None:
    traffic.gate.clear()
    traffic.say("a", 0)
    await turns()
    for n in range(1, 10_000):
        traffic.say("a", n)
    traffic.say("b", 1)
    traffic.gate.set()
    await traffic.batcher.flush()
    assert traffic.sent == [["a=0"], ["a=1", "a=2", "a=9999"], ["b=1"]]
    assert traffic.batcher._newest == {}


async def test_threads_say_it_too(traffic: Traffic) -> None:
    def handler(job_id: str) -> None:
        for n in range(1000):
            traffic.say(job_id, n)

    await asyncio.gather(*(asyncio.to_thread(handler, job_id) for job_id in "abc"))
    await traffic.batcher.drain()
    said = [word.split("=") for batch in traffic.sent for word in batch]
    for job_id in "abc":
        told = [int(progress) for of, progress in said if of == job_id]
        assert told == sorted(told)
        assert told[-1] == 999
    assert max(map(len, traffic.sent)) <= 3


async def test_a_flush_does_not_wait_for_what_comes_after_it(traffic: Traffic) -> None:
    traffic.gate.clear()
    traffic.say("a", 0)
    await turns()
    traffic.say("a", 1)
    flushing = asyncio.create_task(traffic.batcher.flush())
    await turns()
    assert not flushing.done()
    traffic.gate.set()
    await flushing
    assert traffic.sent == [["a=0"], ["a=1"]]


async def test_what_fails_is_told_and_the_next_goes_on(traffic: Traffic) -> None:
    traffic.error = ValueError("x")
    traffic.say("a", 0)
    await traffic.batcher.drain()
    traffic.error = None
    traffic.say("a", 1)
    await traffic.batcher.drain()
    assert traffic.sent == [["a=0"], ["a=1"]]
    assert [str(error) for error in traffic.failures] == ["x"]
