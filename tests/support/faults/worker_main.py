"""A worker process that writes down what it ran: `python -m tests.support.faults.worker_main SETTINGS`.

SETTINGS is JSON: url, queue, ledger (a file), work_ms, spread (of the work, 0 to 1), engine (`chasqui_engine` or
`chasquimq`, which has a `Worker` of the same kind), and whatever else `Worker` takes: with `batch_size` the handler
takes lists. A job's data is its number, or a number and the name of one of `ACTS`. SIGUSR1 makes it write how many
tasks it has, beside the ledger.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
from importlib import import_module
from typing import Any

from tests.support.faults.fates import ACTS
from tests.support.faults.fleet import tasks_file


def write_down(ledger: int, what: str, number: int) -> None:
    # One small write to a file opened for appending is never mixed with another's.
    os.write(ledger, f"{what} {number} {os.getpid()}\n".encode())


def write_tasks(ledger: str) -> None:
    tasks_file(ledger, os.getpid()).write_text(f"{len(asyncio.all_tasks())}\n")


async def main(settings: dict[str, object]) -> None:
    url, queue = str(settings.pop("url")), str(settings.pop("queue"))
    work_s, spread = float(str(settings.pop("work_ms", 0))) / 1000, float(str(settings.pop("spread", 0)))
    engine = import_module(str(settings.pop("engine", "chasqui_engine")))
    path = str(settings.pop("ledger"))
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(job: Any) -> Any:
        number, fate = job.data if isinstance(job.data, list) else (job.data, "well")
        write_down(ledger, "start", number)
        if work_s:
            await asyncio.sleep(work_s * random.uniform(1 - spread, 1 + spread))
        try:
            value = ACTS[fate](job.attempt)
        except Exception:
            write_down(ledger, "fail", number)
            raise
        write_down(ledger, "end", number)
        return value

    async def handle_batch(jobs: list[Any]) -> None:
        for job in jobs:
            write_down(ledger, "start", job.data)
        await asyncio.sleep(work_s * random.uniform(1 - spread, 1 + spread))
        for job in jobs:
            write_down(ledger, "end", job.data)

    worker = engine.Worker(queue, handle_batch if "batch_size" in settings else handle, redis_url=url, **settings)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(worker.close()))
    loop.add_signal_handler(signal.SIGUSR1, write_tasks, path)
    await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(main(json.loads(sys.argv[1])))
