"""Enough runs, or too much memory: a worker that stops then, and is started again, cannot leak for ever."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from chasqui_engine.consumer.execution.handler import RunHandler
from chasqui_engine.consumer.stopping.early_stop import EarlyStop
from chasqui_engine.runtime.memory import resident_mib
from chasqui_engine.values.config import ConsumerConfig
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import Job

_log = logging.getLogger("chasqui.consumer")

_CHECK_EVERY_S = 0.5


def limit_runs(run: RunHandler, most: int, stop: EarlyStop) -> RunHandler:
    """The same, and gives the signal with run number `most`: no other job starts after it."""
    begun = 0

    async def run_and_count(job: Job) -> Any:
        nonlocal begun
        begun += 1
        if begun == most:
            _log.info("the worker has started %d jobs, as many as max_jobs allows: it stops", most)
            stop.set()
        return await run(job)

    return run_and_count


def check_memory(config: ConsumerConfig) -> None:
    """Refuses a limit that the process is over before its first job: it would stop at once, again and again."""
    most = config.max_rss_mb
    if most is not None and resident_mib() > most:
        raise ConfigError(
            f"max_rss_mb is {most}, but the process takes {resident_mib():.0f} MiB before its first job: "
            "set it well above that"
        )


async def watch_memory(most_mib: int, stop: EarlyStop) -> None:
    """Gives the signal when the process takes more memory."""
    while True:
        await asyncio.sleep(_CHECK_EVERY_S)
        if (now := resident_mib()) > most_mib:
            break
    _log.warning(
        "the worker's process takes %.0f MiB, and max_rss_mb is %d: it stops, to be started again", now, most_mib
    )
    stop.set()
