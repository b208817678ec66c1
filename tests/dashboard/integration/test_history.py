"""Plots that reach back days."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_engine.runtime.clock import now_ms

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Queue
    from tests.dashboard.integration.conftest import Api

HOUR_S, DAY_S = 3600, 86_400


async def counted(raw: Redis, queue: Queue, age_s: int, fields: dict[str, int | str]) -> None:
    """As a worker writes it."""
    at_s, prefix = now_ms() // 1000 - age_s, queue.stream_key.removesuffix(":stream")
    minute, hour = at_s % HOUR_S // 60, at_s % DAY_S // HOUR_S
    for name, value in fields.items():
        await raw.hset(f"{prefix}:tally:minute:{at_s // HOUR_S}", f"{minute}:{name}", str(value))
        await raw.hset(f"{prefix}:tally:hour:{at_s // DAY_S}", f"{hour}:{name}", str(value))


async def test_counts_of_days_are_plotted(api: Api, queue: Queue, raw: Redis) -> None:
    for days in range(20):
        fields: dict[str, int | str] = {
            "c:a": 900,
            "c:": 100,
            "f:a": 3,
            "d:a": 1,
            "t:40": 1000,
            "depth": f"{days + 1},2,3",
        }
        await counted(raw, queue, days * DAY_S + 600, fields)
    for minutes, points, days in ((60, 60, 1), (1440, 96, 1), (7 * 1440, 168, 7), (28 * 1440, 168, 20)):
        told = await api.get("queue/history", minutes=minutes)
        assert {len(told[kind]) for kind in ("completed", "dead", "p50_ms", "p99_ms", "waiting")} == {points}
        assert told["names"] == [
            {"name": "a", "completed": 900 * days, "failed": 3 * days, "dead": days},
            {"name": "", "completed": 100 * days, "failed": 0, "dead": 0},
        ]
        assert max(depth for depth in told["waiting"] if depth is not None) == days
        assert {one for one in told["p95_ms"] if one is not None} == {
            told["p50_ms"][-1] or max(filter(None, told["p50_ms"]))
        }
        assert told["start_ms"] + points * told["step_ms"] > now_ms() - told["step_ms"]
        assert sum(told["completed"]) > 0


async def test_a_queue_that_nobody_counted_and_a_wrong_span(api: Api, queue: Queue) -> None:
    told = await api.get("queue/history")
    assert (told["names"], set(told["completed"]), set(told["waiting"])) == ([], {0.0}, {None})
    assert (await api.problem("queue/history", minutes=7))[0] == 400
