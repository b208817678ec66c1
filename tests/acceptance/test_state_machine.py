"""Any order of adding, delaying, cancelling, running, failing, replaying and repeating, against a plain model."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test
from redis.asyncio import Redis

from chasqui_engine import (
    Consumer,
    ConsumerConfig,
    Job,
    MissedFiresPolicy,
    Queue,
    RepeatPattern,
    RetryConfig,
    Scheduler,
    SchedulerConfig,
)
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.queues import running, server_ms, waiting_jobs
from tests.support.waiting import until
from tests.wire.theirs import PeerProcess, Theirs

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

MAX_ATTEMPTS = 2
HOUR_MS = 3_600_000
DATA: dict[str, dict[str, str]] = {"well": {}, "fail": {"fail": "as told"}}
"""What makes a handler of either engine do what the model foresees."""
POLICIES = {
    "skip": MissedFiresPolicy.skip(),
    "once": MissedFiresPolicy.fire_once(),
    "all": MissedFiresPolicy.fire_all(2),
}


class Model:
    """Where every job should be."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        """Id → what its handler will do: "well" or "fail"."""
        self.delayed: dict[str, str] = {}
        self.dead: list[tuple[str, str]] = []
        self.taken: set[str] = set()
        self.specs: dict[str, tuple[int, MissedFiresPolicy]] = {}
        """Key → hours between fires, and what becomes of those that are missed."""
        self.runs: dict[str, int] = {}
        """Id → runs so far, in all its lives."""

    def run_all(self) -> None:
        for job_id, fate in self.waiting.items():
            made = 1 if fate == "well" else MAX_ATTEMPTS
            self.runs[job_id] = self.runs.get(job_id, 0) + made
            if fate == "fail":
                self.dead.append((job_id, fate))
        self.waiting.clear()


class QueueMachine(RuleBasedStateMachine):
    """The engine and the model, step by step."""

    url = ""
    peer: PeerProcess | None = None
    their_runs = 0
    jobs: Bundle[str] = Bundle("jobs")
    specs: Bundle[str] = Bundle("specs")

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._numbers = itertools.count()
        self._turns = itertools.cycle((True, False))
        self._seen = 0
        self.model = Model()
        self.ran: dict[str, int] = {}
        self._name = f"t-{uuid.uuid4()}"
        self._keys = QueueKeys(self._name)
        self._queue = Queue(self._name, redis_url=self.url)

    def teardown(self) -> None:
        self._do(self._queue.close())
        self._runner.close()

    def _do(self, step: Coroutine[Any, Any, Any]) -> Any:
        async def within_time() -> Any:
            async with asyncio.timeout(30):
                return await step

        return self._runner.run(within_time())

    def _fresh_id(self) -> str:
        return f"job-{next(self._numbers)}"

    @rule(target=jobs, fate=st.sampled_from(["well", "fail"]))
    def add(self, fate: str) -> str:
        job_id = self._fresh_id()
        self._do(self._queue.add("n", DATA[fate], job_id=job_id))
        self.model.waiting[job_id] = fate
        self.model.taken.add(job_id)
        return job_id

    @rule(target=jobs, fates=st.lists(st.sampled_from(["well", "fail"]), max_size=5))
    def add_many(self, fates: list[str]) -> Any:
        ids = [self._fresh_id() for _ in fates]
        items = [{"name": "n", "data": DATA[fate], "job_id": job_id} for job_id, fate in zip(ids, fates, strict=True)]
        self._do(self._queue.add_bulk(items))
        self.model.waiting.update(zip(ids, fates, strict=True))
        self.model.taken.update(ids)
        return multiple(*ids)

    @rule(target=jobs, fate=st.sampled_from(["well", "fail"]))
    def delay(self, fate: str) -> str:
        job_id = self._fresh_id()
        self._do(self._queue.add("n", DATA[fate], job_id=job_id, delay_ms=HOUR_MS))
        self.model.delayed[job_id] = fate
        self.model.taken.add(job_id)
        return job_id

    @rule(job_id=jobs, later=st.booleans())
    def add_again(self, job_id: str, later: bool) -> None:
        """A no-op for an id that is taken; one whose job was cancelled is free again."""
        self._do(self._queue.add("n", DATA["well"], job_id=job_id, delay_ms=HOUR_MS if later else None))
        if job_id not in self.model.taken:
            self.model.taken.add(job_id)
            (self.model.delayed if later else self.model.waiting)[job_id] = "well"

    @rule(job_id=jobs)
    def cancel(self, job_id: str) -> None:
        found = self._do(self._queue.cancel_delayed(job_id))
        assert found == (job_id in self.model.delayed)
        if found:
            del self.model.delayed[job_id]
            self.model.taken.discard(job_id)

    @rule()
    def time_passes(self) -> None:
        """Everything delayed is due: its time is moved into the past."""
        self._do(self._make_due())
        self.model.waiting.update(self.model.delayed)
        self.model.delayed.clear()

    async def _make_due(self) -> None:
        async with Redis.from_url(self.url) as raw:
            for member in await raw.zrange(self._keys.delayed, 0, -1):
                await raw.zadd(self._keys.delayed, {member: 1})
        await self._work(lambda: self._standing("delayed", 0), concurrency=1, shy=True)

    @rule()
    def work(self) -> None:
        """A worker comes, runs all there is, and leaves."""
        self._do(self._run_all())
        self.model.run_all()

    async def _run_all(self) -> None:
        if self.peer is not None and next(self._turns):
            theirs = Theirs(self.peer, self._name)
            await theirs.work(max_attempts=MAX_ATTEMPTS)
            await until(self._quiet, timeout_s=20)
            await theirs.stop()
            runs = await theirs.runs()
            for job_id, *_ in runs[self._seen :]:
                self.ran[job_id] = self.ran.get(job_id, 0) + 1
            type(self).their_runs += len(runs) - self._seen
            self._seen = len(runs)
            return
        await self._work(self._quiet)

    async def _work(self, until_it_is: Any, *, concurrency: int = 10, shy: bool = False) -> None:
        async def handler(job: Job) -> None:
            self.ran[job.id] = self.ran.get(job.id, 0) + 1
            if "fail" in job.payload:
                raise ValueError(job.payload["fail"])

        retry = RetryConfig(initial_backoff_ms=1, jitter_ms=0)
        config = ConsumerConfig(
            queue_name=self._name, max_attempts=MAX_ATTEMPTS, retry=retry, block_ms=50, delayed_poll_interval_ms=5,
            concurrency=concurrency, run_scheduler=False,
        )  # fmt: skip
        shutdown = asyncio.Event()
        from chasqui_engine import Promoter

        service = Promoter(self.url, self._name, config.promoter()) if shy else Consumer(self.url, config)
        at_work = asyncio.create_task(
            service.run(shutdown) if isinstance(service, Promoter) else service.run(handler, shutdown)
        )
        try:
            await until(until_it_is, timeout_s=20)
        finally:
            shutdown.set()
            await at_work

    @rule()
    def replay(self) -> None:
        moved = self._do(self._queue.replay_dlq())
        assert moved == len(self.model.dead)
        self.model.waiting.update(self.model.dead)
        self.model.dead.clear()

    @rule(target=specs, hours=st.integers(1, 3), policy=st.sampled_from(sorted(POLICIES)))
    def repeat(self, hours: int, policy: str) -> str:
        return str(self._do(self._upsert(hours, POLICIES[policy])))

    async def _upsert(self, hours: int, policy: MissedFiresPolicy) -> str:
        pattern = RepeatPattern.every(hours * HOUR_MS)
        spec = await self._queue.upsert_repeatable_job("tick", DATA["well"], repeat=pattern, missed_fires=policy)
        self.model.specs[spec.id] = hours, policy
        return spec.id

    @rule(key=specs, passed=st.integers(1, 4), said_again=st.booleans())
    def fire(self, key: str, passed: int, said_again: bool) -> None:
        """So many fires of a spec have passed; its program may say it once more before a scheduler comes."""
        if key not in self.model.specs:
            return
        hours, policy = self.model.specs[key]
        fired = self._do(self._fire(key, passed, said_again))
        wanted = {"skip": 0, "fire-once": 1, "fire-all": min(passed, policy.max_catchup or 0)}[policy.kind]
        assert len(fired) == (1 if passed == 1 else wanted)
        assert hours * HOUR_MS > self._do(self._until_next(key)) > 0
        self.model.waiting.update(dict.fromkeys(fired, "well"))

    async def _fire(self, key: str, passed: int, said_again: bool) -> set[str]:
        """The ids of the jobs that were made."""
        hours, policy = self.model.specs[key]
        async with Redis.from_url(self.url) as raw:
            due_ms = await server_ms(raw) - (2 * passed - 1) * hours * HOUR_MS // 2
            await raw.zadd(self._keys.repeat, {key: due_ms})
            if said_again:
                await self._upsert(hours, policy)
            async with running(Scheduler(self.url, self._name, SchedulerConfig(tick_interval_ms=5)).run):
                await until(lambda: self._is_planned(raw))
        return {job.id for job in await self._on_the_stream()} - self.model.waiting.keys()

    async def _is_planned(self, raw: Redis) -> bool:
        return not await raw.zcount(self._keys.repeat, "-inf", await server_ms(raw))

    async def _on_the_stream(self) -> list[Job]:
        async with Redis.from_url(self.url) as raw:
            return await waiting_jobs(raw, self._name)

    async def _until_next(self, key: str) -> float:
        """How long it is until a spec fires."""
        async with Redis.from_url(self.url) as raw:
            return float(await raw.zscore(self._keys.repeat, key) or 0) - await server_ms(raw)

    @rule(key=specs)
    def end_repeating(self, key: str) -> None:
        assert self._do(self._queue.remove_repeatable_by_key(key)) == (key in self.model.specs)
        self.model.specs.pop(key, None)

    @invariant()
    def everything_is_where_it_should_be(self) -> None:
        stream, delayed, dead, specs = self._do(self._counts())
        model = self.model
        assert (stream, delayed, dead) == (len(model.waiting), len(model.delayed), len(model.dead))
        assert specs == model.specs.keys()
        assert self.ran == model.runs

    async def _counts(self) -> tuple[int, int, int, set[str]]:
        keys = self._keys
        async with Redis.from_url(self.url) as raw:
            specs = {meta.key for meta in await self._queue.get_repeatable_jobs()}
            return await raw.xlen(keys.stream), await raw.zcard(keys.delayed), await raw.xlen(keys.dlq), specs

    async def _standing(self, what: str, count: int) -> bool:
        stream, delayed, _dead, _specs = await self._counts()
        return {"stream": stream, "delayed": delayed}[what] == count

    async def _quiet(self) -> bool:
        """Nothing waits, runs, or is about to be retried."""
        stream, delayed, _dead, _specs = await self._counts()
        return stream == 0 and delayed == len(self.model.delayed)


BOUNDED = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.mark.timeout(300)
def test_any_order_of_things(redis_url: str) -> None:
    class OnOne(QueueMachine):
        url = redis_url

    run_state_machine_as_test(OnOne, settings=BOUNDED)


@pytest.fixture
def peer(redis86_url: str) -> Iterator[PeerProcess]:
    process = PeerProcess(redis86_url)
    yield process
    process.close()


@pytest.mark.timeout(300)
def test_any_order_of_things_with_chasquimq_as_the_other_worker(redis86_url: str, peer: PeerProcess) -> None:
    process = peer

    class Shared(QueueMachine):
        url = redis86_url
        peer = process

        def teardown(self) -> None:
            """Whatever the order of things was, the last to work is the other one."""
            self._turns = itertools.cycle((True,))
            self._do(self._queue.add("n", DATA["well"]))
            self._do(self._run_all())
            super().teardown()

    run_state_machine_as_test(Shared, settings=settings(BOUNDED, stateful_step_count=20))
    assert Shared.their_runs
