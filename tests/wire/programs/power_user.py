"""ChasquiMQ's power-user classes: bytes in, bytes out, options and specs as dicts."""

import asyncio
import os
import sys

import msgpack
from chasquimq import Consumer, Producer, Scheduler, UnrecoverableError


async def main(url, queue):
    producer = Producer(url, queue, max_stream_len=1000, max_delay_secs=3600)
    print(producer.stream_key() == f"{{chasqui:{queue}}}:stream", producer.dlq_key() == f"{{chasqui:{queue}}}:dlq")
    runs, done = [], asyncio.Event()

    async def handler(job):
        runs.append((job.name, job.payload, job.attempt))
        if len(runs) == 12:
            done.set()
        if job.name == "bury":
            raise UnrecoverableError("no such address")
        if job.name == "again" and job.attempt == 0:
            raise ValueError("not yet")
        return job.payload[::-1]

    options = {"concurrency": 2, "read_block_ms": 100, "store_results": True, "result_ttl_ms": 60_000}
    consumer = Consumer(url, queue, run_scheduler=False, **options)
    running = asyncio.ensure_future(consumer.run(handler))
    scheduler = Scheduler(url, queue, tick_interval_ms=50)
    scheduling = asyncio.ensure_future(scheduler.run())

    first = await producer.add(b"not msgpack \xff\x00")
    await producer.add_bulk([msgpack.packb({"n": n}) for n in range(3)])
    await producer.add_bulk_named([("a", b"\x01"), ("b", b"\x02")])
    await producer.add_in(20, b"later")
    retry = {"max_attempts": 3, "backoff": {"kind": "fixed", "delay_ms": 10}}
    await producer.add_with_options(b"fails once", {"name": "again", "retry": retry})
    await producer.add_with_options(b"fails", {"name": "bury"})
    far = await producer.add_in_with_options(3_000_000, b"far away", {"id": "far"})
    print(far, await producer.cancel_delayed("far"), await producer.cancel_delayed("far"))
    spec = {"job_name": "tick", "pattern": {"kind": "every", "interval_ms": 300}, "payload": b"tock", "limit": 2}
    key = await producer.upsert_repeatable(spec)
    listed = await producer.list_repeatable(10)
    print(key, [(one["key"], one["job_name"], one["pattern"], one["limit"]) for one in listed])

    await asyncio.wait_for(done.wait(), 20)
    for _ in range(200):
        result = await producer.get_result(first)
        letters = await producer.peek_dlq(10)
        if result is not None and letters:
            break
        await asyncio.sleep(0.02)
    print(sorted(runs), result, await producer.get_result_bulk(["no such job"]))
    print([(one["name"], one["reason"], msgpack.unpackb(one["payload"])[1]) for one in letters])
    print(await producer.remove_repeatable_by_key("no such key"))
    scheduler.shutdown()
    consumer.shutdown()
    await asyncio.wait_for(asyncio.gather(running, scheduling), 20)
    print(await producer.replay_dlq(10))
    for bad in ({"kind": "moon", "delay_ms": 1}, {"kind": "", "delay_ms": 1}):
        try:
            await producer.add_with_options(b"", {"retry": {"backoff": bad}})
        except ValueError:
            print("refused")
    try:
        await producer.upsert_repeatable({**spec, "pattern": {"kind": "moon"}})
    except ValueError as err:
        print("moon" in str(err))
    await producer.shutdown()


asyncio.run(main(*sys.argv[1:]))
print("done", flush=True)
os._exit(0)
