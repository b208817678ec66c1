"""What a contestant can be asked to do. Standard library only: it is imported in every peer's environment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from benchmarks.run_record import shared_record

QUEUE = "bench"
CONCURRENCY = 100
BACKOFF_MS = 100
ATTEMPTS = 5


class FailsOnceError(Exception):
    """What a job of the retry scenario raises on its first run."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How a scenario wants its jobs worked off."""

    handler: Literal["async", "plain", "fails once"] = "async"
    events: bool = False
    results: bool = False
    processes: int = 1
    delays: bool = False
    """Whether the jobs come from the delayed ones; some libraries need one part more for that."""


class Peer:
    """One library, used as its documentation shows. A job's payload is `{"n": n}`; its handler calls `self.ran(n)`.

    A method that a library has no call for stays as it is here: the scenario is then left out, with the reason given
    in `left_out`. Blocking libraries block in their coroutines; nothing else runs in the measuring process meanwhile.
    """

    left_out: ClassVar[dict[str, str]] = {}
    """Scenario → why it cannot be compared."""
    most_jobs: ClassVar[dict[str, int]] = {}
    """Scenario → jobs at most, or "*" for all, so that a run with a slow library comes to an end."""
    waiting_keys: ClassVar[tuple[str, ...]] = ()
    """Redis keys whose lengths together are the jobs that wait, now or for later."""
    removes_finished: ClassVar[bool] = True
    """Whether those keys are empty once everything ran."""

    def __init__(self, url: str, work: Work) -> None:
        self.url = url
        self.work = work

    async def open(self) -> None:
        """Connects, for adding."""

    async def close(self) -> None:
        """Ends what `open` began."""

    async def add(self, n: int) -> Any:
        """Adds one job, and returns when it is in Redis."""
        raise NotImplementedError

    async def add_bulk(self, ns: Sequence[int]) -> Any:
        """Adds many jobs in one call of the library."""
        raise NotImplementedError

    async def add_delayed_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        """Adds many jobs in one call, to run at `due_s` (epoch seconds)."""
        raise NotImplementedError

    async def add_with_options_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        """The same, each with an id of its own, `ATTEMPTS` attempts and a fixed backoff of `BACKOFF_MS`."""
        raise NotImplementedError

    async def fill(self, ns: Sequence[int]) -> None:
        """Adds many jobs, untimed: whichever way is quickest."""
        await self.add_bulk(ns)

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        """Adds many delayed jobs, untimed: whichever way is quickest."""
        await self.add_delayed_bulk(ns, due_s)

    async def results(self, ns: Sequence[int]) -> list[Any]:
        """Adds the jobs and waits for what each of them returns."""
        raise NotImplementedError

    def run_worker(self) -> None:
        """Works until SIGTERM, with up to `CONCURRENCY` jobs at once."""
        raise NotImplementedError

    def ran(self, n: int) -> int | None:
        """The body of every handler."""
        if shared_record().tick(n) == 0 and self.work.handler == "fails once":
            raise FailsOnceError(f"job {n} fails on its first run")
        return n if self.work.results else None

    async def ran_async(self, n: int) -> int | None:
        """The same as a coroutine."""
        return self.ran(n)


def until_sigterm(run: Callable[[], Awaitable[object]], stop: Callable[[], Awaitable[object]]) -> None:
    """Runs an asyncio worker that does not handle signals itself."""

    async def main() -> None:
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        running = asyncio.ensure_future(run())
        asking = asyncio.create_task(asked.wait())
        await asyncio.wait([running, asking], return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        if not running.done():
            await stop()
        await running

    asyncio.run(main())
