"""The last runs of jobs, from the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_engine.events import LastRun

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Queue


async def test_each_job_has_the_last_run_that_the_events_tell(queue: Queue, raw: Redis) -> None:
    events = queue.stream_key.replace(":stream", ":events")

    async def emit(kind: str, job_id: str, **fields: Any) -> None:
        await raw.xadd(events, {"e": kind, "id": job_id, "ts": 5, **fields})

    await emit("active", "runs", attempt=1)
    await emit("failed", "runs", attempt=1, reason="old", error_type="E")
    await emit("progress", "runs", progress="7")  # of a worker that goes on in another run
    await emit("active", "runs", attempt=2)
    await emit("progress", "runs", progress="50")
    await emit("progress", "runs", progress="60")
    await emit("active", "failed", attempt=3)
    await emit("progress", "failed", progress="50")
    await emit("failed", "failed", attempt=3, reason="no", error_type="ValueError")
    await emit("retry-scheduled", "failed", attempt=4, backoff_ms=9)
    await emit("active", "waits", attempt=1)
    await emit("waiting", "waits")
    assert await queue.find_last_runs(["runs", "failed", "waits", "none"]) == {
        "runs": LastRun(started_at_ms=5, attempt=2, progress=60),
        "failed": LastRun(attempt=3, error="no", error_type="ValueError"),
        "waits": LastRun(),
    }
    assert await queue.find_last_runs([]) == {}


async def test_a_run_behind_thousands_of_events_is_left_out(queue: Queue, raw: Redis) -> None:
    events = queue.stream_key.replace(":stream", ":events")
    async with raw.pipeline(transaction=False) as pipe:
        for n in range(7_000):
            pipe.xadd(events, {"e": "active", "id": "first" if not n else "other", "ts": 1})
        await pipe.execute()
    assert set(await queue.find_last_runs(["first", "other"])) == {"other"}
