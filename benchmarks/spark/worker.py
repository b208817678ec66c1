"""A Chasqui worker of the scale run, in a process of its own: python -m benchmarks.spark.worker <url> <queue>."""

from __future__ import annotations

import asyncio
import signal
import sys

from chasqui_engine import Consumer, ConsumerConfig, Job


async def handle(job: Job) -> None:
    """Nothing but the queue's own work."""


async def main(url: str, queue: str) -> None:
    # No event may be trimmed: the pipeline is to see all of them.
    config = ConsumerConfig(queue_name=queue, events_max_stream_len=10**9, run_scheduler=False, delayed_enabled=False)
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await Consumer(url, config).run(handle, end)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
