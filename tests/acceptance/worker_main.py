"""A worker in a process of its own, which writes down what it ran: `python -m tests.acceptance.worker_main SETTINGS`.

SETTINGS is JSON: url, queue, ledger (a file), work_ms, and whatever else `Worker` takes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys

from chasqui_engine import Job, Worker


def write_down(ledger: int, what: str, job: Job) -> None:
    # One small write to a file opened for appending is never mixed with another's.
    os.write(ledger, f"{what} {job.data} {os.getpid()}\n".encode())


async def main(settings: dict[str, object]) -> None:
    url, queue = str(settings.pop("url")), str(settings.pop("queue"))
    work_s = float(str(settings.pop("work_ms", 0))) / 1000
    ledger = os.open(str(settings.pop("ledger")), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(job: Job) -> int:
        write_down(ledger, "start", job)
        if work_s:
            await asyncio.sleep(work_s)
        write_down(ledger, "end", job)
        return int(job.data)

    worker = Worker(queue, handle, redis_url=url, **settings)  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(worker.close()))
    await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(main(json.loads(sys.argv[1])))
