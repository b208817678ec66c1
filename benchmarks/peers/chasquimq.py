"""ChasquiMQ's Python package, a binding to its Rust engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import chasquimq

from benchmarks.peers.chasqui_api import ChasquiApi, jobs_later

_AT_ONCE = 100


class Contestant(ChasquiApi):
    """The same calls as ours. Bulks with options it adds one by one itself."""

    library = chasquimq
    most_jobs: ClassVar = {"add-delayed-bulk": 10_000, "add-with-options-bulk": 10_000, "memory-delayed": 200_000}

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        jobs = jobs_later(ns, due_s)
        for first in range(0, len(jobs), _AT_ONCE):
            await asyncio.gather(*(self._queue.add(**job) for job in jobs[first : first + _AT_ONCE]))

    async def plain_handler(self, job: Any) -> Any:
        # Its handlers must be coroutines: this is how its users run a plain function.
        return await asyncio.to_thread(self.ran, job.data["n"])
