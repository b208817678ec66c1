"""Jobs that wake DAGs: the contract of Airflow's shared streams (3.3 and later), in process."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import Job, Queue, Worker
from chasqui_provider.asset_events import job_stream
from chasqui_provider.asset_events.dedup import mark_of
from chasqui_provider.asset_events.job_stream import Batch, Handover
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger
from tests.provider.helpers import AssetState
from tests.provider.integration.queue_state import State
from tests.servers import ServerProcess
from tests.support.waiting import until

pytest.importorskip("airflow.triggers.shared_stream", reason="shared streams came with Airflow 3.3")

from airflow.triggers.shared_stream import AdvanceOutcome, SharedStreamManager

from chasqui_provider.triggers.shared_stream import verdict_on


class Runner:
    """The part of a triggerer that drives event triggers: `TriggerRunner.run_trigger`, with the database left out."""

    def __init__(self, **options: Any) -> None:
        self.manager = SharedStreamManager(**options)
        self.events: list[tuple[int, Any, int | None]] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, trigger_id: int, trigger: ChasquiMessageTrigger) -> None:
        self.tasks[trigger_id] = asyncio.create_task(self._run(trigger_id, trigger))

    async def _run(self, trigger_id: int, trigger: ChasquiMessageTrigger) -> None:
        key = trigger.shared_stream_key()
        try:
            stream = self.manager.subscribe(trigger_id=trigger_id, trigger=trigger, key=key)
            async for event in trigger.filter_shared_stream(stream):
                seq = self.manager.bind_pending_event(trigger_id=trigger_id, key=key)
                self.events.append((trigger_id, json.loads(json.dumps(event.payload)), seq))
        finally:
            await self.manager.unsubscribe(trigger_id, key)

    def store(self) -> None:
        """What the supervisor does: the events so far are in the database."""
        self.manager.confirm_persisted([seq for _, _, seq in self.events if seq is not None])

    def job_ids(self, trigger_id: int | None = None) -> list[str]:
        return [job["id"] for one, payload, _ in self.events if trigger_id in (None, one) for job in payload["jobs"]]

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self.manager.stop_all()


@asynccontextmanager
async def runner(**options: Any) -> AsyncIterator[Runner]:
    running = Runner(**options)
    try:
        yield running
    finally:
        await asyncio.wait_for(running.close(), 20)


@pytest.fixture
def quick_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead triggerer held is free for others after a second, not after half a minute."""
    monkeypatch.setattr(job_stream, "Worker", functools.partial(Worker, claim_min_idle_ms=1000))


async def test_acked_only_when_stored(queue: Queue, state: State) -> None:
    await queue.add("order", {"n": 1, "raw": b"\xff"}, job_id="a")
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: airflow.events, "the event")
        _, payload, _ = airflow.events[0]
        assert payload["queue_name"] == queue.name
        (job,) = payload["jobs"]
        assert (job["id"], job["name"], job["payload"]) == ("a", "order", {"n": 1, "raw": {"$bytes": "/w=="}})
        await asyncio.sleep(0.3)
        assert await state.pending() == 1, "not stored: not acked"
        airflow.store()
        await until(state.empty, "the ack")
        assert await state.dead() == []


async def test_what_is_not_stored_is_handed_back(queue: Queue, state: State) -> None:
    await queue.add_bulk([{"name": "o", "data": n, "job_id": f"j{n}"} for n in range(5)])
    async with runner() as first:
        first.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: len(first.events) == 5, "the events")
    async with runner() as second:
        second.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: len(second.events) == 5, "the events again")
        second.store()
        await until(state.empty, "the acks")
    assert sorted(second.job_ids()) == [f"j{n}" for n in range(5)]
    assert {job["attempt"] for _, payload, _ in second.events for job in payload["jobs"]} == {1}, "told before, maybe"
    assert await state.dead() == []


async def test_what_was_never_passed_on_is_handed_back_as_it_was(queue: Queue, state: State) -> None:
    await queue.add("o", None, job_id="a")
    trigger = ChasquiMessageTrigger(queue.name)
    batches: Any = (await trigger.open()).batches()
    await asyncio.wait_for(anext(batches), 20)
    await batches.aclose()
    async with runner() as airflow:
        airflow.start(1, trigger)
        await until(lambda: airflow.events, "the event")
        (job,) = airflow.events[0][1]["jobs"]
        assert (job["attempt"], job["deliveries"]) == (0, 0)
        airflow.store()
        await until(state.empty, "the ack")


@pytest.mark.usefixtures("quick_claims")
async def test_what_a_dead_triggerer_held_is_told_as_such(queue: Queue, state: State) -> None:
    await queue.add("o", None, job_id="a")
    await state.take_as("a triggerer that died")
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: airflow.events, "the event")
        (job,) = airflow.events[0][1]["jobs"]
        assert (job["attempt"], job["deliveries"]) == (0, 1)
        airflow.store()
        await until(state.empty, "the ack")


def knowing(trigger: ChasquiMessageTrigger, *told: Job) -> ChasquiMessageTrigger:
    """A trigger of an asset whose state has marks of these jobs."""
    marks = [mark_of({"id": job.id, "created_at_ms": job.created_at_ms}) for job in told]
    trigger.asset_state_store = AssetState(*marks)  # type: ignore[assignment]
    return trigger


@pytest.mark.usefixtures("quick_claims")
async def test_what_a_dead_triggerer_told_is_acked_and_not_told_again(queue: Queue, state: State) -> None:
    told = [await queue.add("o", None, job_id=f"told-{n}") for n in range(3)]
    await queue.add("o", None, job_id="untold")
    await state.take_as("a triggerer that died")
    async with runner() as airflow:
        airflow.start(1, knowing(ChasquiMessageTrigger(queue.name, batch_size=4, linger=0.3), *told))
        await until(lambda: airflow.events, "the event")
        assert airflow.job_ids() == ["untold"]
        airflow.store()
        await until(state.empty, "the acks")
        assert await state.dead() == []


@pytest.mark.usefixtures("quick_claims")
async def test_a_batch_that_was_told_as_a_whole_makes_no_event(queue: Queue, state: State) -> None:
    told = await queue.add("o", None, job_id="a")
    await state.take_as("a triggerer that died")
    async with runner() as airflow:
        airflow.start(1, knowing(ChasquiMessageTrigger(queue.name), told))
        await until(state.empty, "the ack")
        assert airflow.events == []
        assert await state.dead() == []


@pytest.mark.usefixtures("quick_claims")
async def test_of_two_triggers_only_the_one_that_has_not_told_a_job_tells_it(queue: Queue, state: State) -> None:
    told = await queue.add("o", None, job_id="a")
    await state.take_as("a triggerer that died")
    async with runner(cohort_grace_period=0.1) as airflow:
        airflow.start(1, knowing(ChasquiMessageTrigger(queue.name), told))
        airflow.start(2, knowing(ChasquiMessageTrigger(queue.name)))
        await until(lambda: airflow.events, "the event")
        assert [trigger_id for trigger_id, _, _ in airflow.events] == [2]
        assert await state.pending() == 1, "not acked before that event is stored as well"
        airflow.store()
        await until(state.empty, "the ack")


async def test_stored_at_the_last_moment_is_not_delivered_again(queue: Queue, state: State) -> None:
    await queue.add("o", None, job_id="a")
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: airflow.events, "the event")
        airflow.store()
    assert await state.empty()


async def test_rejected_goes_to_the_dead_letters(queue: Queue, state: State) -> None:
    class Picky(ChasquiMessageTrigger):
        def accepts(self, payload: dict[str, Any]) -> bool:
            return payload["jobs"][0]["payload"] > 0

    for n in (-1, 1):
        await queue.add("o", n, job_id=f"j{n}")
    async with runner() as airflow:
        airflow.start(1, Picky(queue.name))
        await until(lambda: airflow.events, "the event")
        airflow.store()
        await until(state.empty, "both ends")
        assert airflow.job_ids() == ["j1"]
        (dead,) = await state.dead()
        assert (dead[b"reason"], b"rejected by Airflow" in dead[b"detail"]) == (b"unrecoverable", True)


@pytest.mark.usefixtures("quick_claims")
async def test_of_a_batch_only_what_is_not_wanted_is_rejected(queue: Queue, state: State) -> None:
    class Picky(ChasquiMessageTrigger):
        def accepts(self, payload: dict[str, Any]) -> bool:
            return payload["jobs"][0]["payload"] != "bad"

    told = await queue.add("o", "good", job_id="told")
    await queue.add("o", "bad", job_id="bad")
    await queue.add("o", "good", job_id="good")
    await state.take_as("a triggerer that died")
    async with runner() as airflow:
        airflow.start(1, knowing(Picky(queue.name, batch_size=3, linger=0.3), told))
        await until(lambda: airflow.events, "the event")
        airflow.store()
        await until(state.empty, "all ends")
        assert airflow.job_ids() == ["good"]
        (dead,) = await state.dead()
        assert dead[b"reason"] == b"unrecoverable"


async def test_a_job_for_one_run_is_offered_again_and_not_buried(queue: Queue, state: State) -> None:
    """Its own number of attempts is for those who work on it; Airflow is only told of it."""
    job = await queue.add("o", None, job_id="a", attempts=1, backoff=10)
    async with runner() as first:
        first.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: first.events, "the event")
    assert await state.dead() == []
    async with runner() as second:
        second.start(1, knowing(ChasquiMessageTrigger(queue.name), job))
        await until(state.empty, "the ack: it was stored, and nobody had said so")
    assert second.events == []
    assert await state.dead() == []


@pytest.mark.usefixtures("quick_claims")
async def test_what_two_triggerers_died_with_comes_in_batches(queue: Queue, state: State) -> None:
    await queue.add_bulk([{"name": "o", "data": n, "job_id": f"j{n}"} for n in range(20)])
    await state.take_as("a triggerer that died", times=3)
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name, batch_size=20, linger=0.5))
        await until(lambda: len(airflow.job_ids()) == 20, "all jobs")
        assert len(airflow.events) == 1
        airflow.store()
        await until(state.empty, "the acks")


async def test_one_name_may_be_given_as_text(queue: Queue, state: State) -> None:
    await queue.add("order", None, job_id="a")
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name, job_names="order"))
        await until(lambda: airflow.events, "the event")
        airflow.store()
        await until(state.empty, "the ack")


async def test_names_that_are_not_wanted_are_rejected(queue: Queue, state: State) -> None:
    await queue.add("spam", None)
    await queue.add("order", None, job_id="a")
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name, job_names=["order"]))
        await until(lambda: airflow.events, "the event")
        airflow.store()
        await until(state.empty, "both ends")
        assert airflow.job_ids() == ["a"]
        assert len(await state.dead()) == 1


async def test_failed_is_delivered_again(queue: Queue, state: State) -> None:
    await queue.add("o", None, job_id="a", backoff=10)
    async with runner(ack_timeout=0.3) as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name))
        await until(airflow.tasks[1].done, "the trigger to be failed: its event was never stored")
        airflow.start(2, ChasquiMessageTrigger(queue.name))
        await until(lambda: airflow.job_ids(2), "the job again")
        assert airflow.events[-1][1]["jobs"][0]["attempt"] == 1
        airflow.store()
        await until(state.empty, "the ack")


async def test_a_slow_event_holds_nothing_else_up(queue: Queue, state: State) -> None:
    await queue.add_bulk([{"name": "o", "data": n, "job_id": f"j{n}"} for n in range(3)])
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name))
        await until(lambda: len(airflow.events) == 3, "the events")
        airflow.manager.confirm_persisted([seq for _, _, seq in airflow.events[1:] if seq is not None])

        async def two_acked() -> bool:
            return await state.waiting() == 1

        await until(two_acked, "the acks of those behind the first")
        airflow.store()
        await until(state.empty, "the first")


async def test_no_more_in_flight_than_allowed(queue: Queue, state: State) -> None:
    await queue.add_bulk([{"name": "o", "data": n} for n in range(20)])
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name, max_in_flight=4))
        await until(lambda: len(airflow.events) == 4, "the first events")
        await asyncio.sleep(0.3)
        assert len(airflow.events) == 4

        async def all_done() -> bool:
            airflow.store()
            return await state.empty()

        await until(all_done, "all")
        assert len(airflow.job_ids()) == len(set(airflow.job_ids())) == 20


async def test_many_jobs_in_one_event(queue: Queue, state: State) -> None:
    await queue.add_bulk([{"name": "o", "data": n} for n in range(25)])
    async with runner() as airflow:
        airflow.start(1, ChasquiMessageTrigger(queue.name, batch_size=10, linger=0.3))
        await until(lambda: len(airflow.job_ids()) == 25, "all jobs")
        assert len(airflow.events) == 3
        airflow.store()
        await until(state.empty, "the acks")


async def test_triggers_share_a_worker_and_all_must_store(queue: Queue, state: State) -> None:
    await queue.add("o", None, job_id="a")
    async with runner(cohort_grace_period=0.1) as airflow:
        for trigger_id in (1, 2):
            airflow.start(trigger_id, ChasquiMessageTrigger(queue.name))
        await until(lambda: len(airflow.events) == 2, "an event for each")
        airflow.manager.confirm_persisted([airflow.events[0][2] or 0])
        await asyncio.sleep(0.3)
        assert await state.pending() == 1
        airflow.store()
        await until(state.empty, "the ack")


async def test_two_triggerers_share_the_jobs(queue: Queue, state: State) -> None:
    async with runner() as one, runner() as other:
        for airflow in (one, other):
            airflow.start(1, ChasquiMessageTrigger(queue.name, max_in_flight=5))
        await queue.add_bulk([{"name": "o", "data": n, "job_id": f"j{n}"} for n in range(200)])

        async def all_done() -> bool:
            one.store()
            other.store()
            return await state.empty()

        await until(all_done, "all")
        assert sorted(one.job_ids() + other.job_ids()) == sorted(f"j{n}" for n in range(200))
        assert one.events
        assert other.events


async def test_an_outage_is_ridden_out(connect: Any, queue_name: str) -> None:
    with ServerProcess(extra_args=("--appendonly", "yes", "--appendfsync", "always")) as server:
        connect(url=server.url)
        server.stop()
        async with runner() as airflow:
            airflow.start(1, ChasquiMessageTrigger(queue_name))
            await asyncio.sleep(0.3)
            assert not airflow.tasks[1].done()
            server.start()
            async with Queue(queue_name, redis_url=server.url) as queue:
                await queue.add("o", None, job_id="a")
            await until(lambda: airflow.job_ids() == ["a"], "the first job")
            airflow.store()
            server.restart()
            async with Queue(queue_name, redis_url=server.url) as queue:
                await queue.add("o", None, job_id="b")
            await until(lambda: airflow.job_ids() == ["a", "b"], "the second job")
            airflow.store()
            async with Redis.from_url(server.url) as client:
                await until(State(client, queue_name).empty, "the acks")


@pytest.mark.parametrize(
    ("outcome", "handed_on", "verdict"),
    [
        (AdvanceOutcome(acked=1, failed=0), 1, Handover.STORED),
        (AdvanceOutcome(acked=2, failed=0), 2, Handover.STORED),
        (AdvanceOutcome(acked=1, failed=0), 0, Handover.FAILED),
        (AdvanceOutcome(acked=0, failed=0), 0, Handover.FAILED),
        (AdvanceOutcome(acked=1, failed=1), 1, Handover.FAILED),
        (AdvanceOutcome(acked=0, failed=0, rejected=1), 0, Handover.REJECTED),
        (AdvanceOutcome(acked=1, failed=1, rejected=1), 1, Handover.REJECTED),
    ],
)
def test_verdicts(outcome: AdvanceOutcome, handed_on: int, verdict: Handover) -> None:
    assert verdict_on(Batch([], handed_on), outcome) is verdict
