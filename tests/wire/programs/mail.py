"""A queue and a worker: retries, a stable id, a delay, a result, a dead letter, a repeatable."""

import asyncio
import os
import sys

from chasquimq import BackoffSpec, Job, MissedFiresPolicy, Queue, QueueEvents, RepeatPattern, UnrecoverableError, Worker


async def send(job: Job):
    to = job.data["to"]
    if "@unrecoverable" in to:
        raise UnrecoverableError(f"hard bounce: {to}")
    if "@flaky" in to and job.attempts_made < 2:
        raise RuntimeError(f"soft bounce: {to}")
    return {"sent": to, "runs": job.attempts_made + 1}


async def add_all(queue):
    backoff = BackoffSpec.exponential(10, multiplier=2.0, max_ms=50)
    jobs = [
        await queue.add("welcome", {"to": "ada@example.com"}),
        await queue.add("welcome", {"to": "grace@flaky.example"}, attempts=3, backoff=backoff),
        await queue.add("welcome", {"to": "ka@later.example"}, delay_ms=50),
        await queue.add_unique("welcome", {"to": "alice@example.com"}, job_id="welcome:alice"),
        *await queue.add_bulk([{"name": "bulk", "data": {"to": f"{n}@example.com"}} for n in range(2)]),
    ]
    await queue.add_unique("welcome", {"to": "not again"}, job_id="welcome:alice")
    for job in jobs:
        print(job.name, await job.wait_for_result(timeout=20))
    print(sorted(await queue.get_job_result_bulk([job.id for job in jobs]), key=str))
    return {job.id for job in jobs}


async def bury_one(queue):
    await queue.add("welcome", {"to": "bob@unrecoverable.example"})
    for _ in range(200):
        if letters := await queue.peek_dlq():
            print([(letter["name"], letter["reason"]) for letter in letters])
            return
        await asyncio.sleep(0.02)


async def repeat_one(queue):
    weekdays = RepeatPattern.cron("0 9 * * 1-5", tz="Europe/Lisbon")
    tick = await queue.add("tick", {"to": "x"}, repeat=weekdays, missed_fires=MissedFiresPolicy.fire_once())
    metas = await queue.get_repeatable_jobs()
    print(tick.id, [(meta.key, meta.job_name, meta.pattern.to_dict()) for meta in metas])
    print(await queue.remove_repeatable_by_key(tick.id))


async def see_refusals(queue):
    for error, name, data, options in (
        (ValueError, "n", 1, {"delay_ms": -1}),
        (ValueError, "n", 1, {"job_id": " "}),
        (RuntimeError, "n" * 300, 1, {}),
        (TypeError, "n", object(), {}),
    ):
        try:
            await queue.add(name, data, **options)
        except error:
            print("refused as", error.__name__)


async def main(url, name):
    events = QueueEvents(name, redis_url=url, last_event_id="0")
    worker = Worker(name, send, redis_url=url, concurrency=4, store_results=True, read_block_ms=100)
    running = asyncio.create_task(worker.run())
    async with Queue(name, redis_url=url) as queue:
        ids = await add_all(queue)
        await bury_one(queue)
        await repeat_one(queue)
        await see_refusals(queue)
    async for event in events:
        if event.name == "completed":
            ids.discard(event.job_id)
        if not ids:
            break
    print("all completed")
    await events.close()
    await worker.close()
    await asyncio.wait_for(running, 20)


asyncio.run(main(*sys.argv[1:]))
print("done", flush=True)
os._exit(0)
