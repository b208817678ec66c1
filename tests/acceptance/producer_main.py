"""A producer in a process of its own: adds numbered jobs in bulks, each under its number as id, until it is killed."""

from __future__ import annotations

import asyncio
import sys

from chasqui_engine import Queue


async def main(url: str, queue: str, count: int, bulk: int) -> None:
    async with Queue(queue, redis_url=url) as producer:
        for start in range(0, count, bulk):
            numbers = range(start, min(start + bulk, count))
            await producer.add_bulk([{"name": "n", "data": n, "job_id": f"job-{n}"} for n in numbers])
            print(numbers.stop, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
