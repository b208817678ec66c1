"""The API's plots that reach back days: from the counts that workers keep."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from chasqui_engine import ConfigError
from chasqui_engine.dashboard.api.responses import answer
from chasqui_engine.dashboard.api.serializers import cut
from chasqui_engine.dashboard.dependencies import DashboardDep, QueueRef, Viewer
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.tally import Grain, HistoryPoint, quantile_ms

router = APIRouter(prefix="/api/queue")

_MINUTE_MS = 60_000
_HOUR_MIN, _DAY_MIN = 60, 1440
# Minutes shown → what is read, and the minutes that one point stands for.
_SPANS: dict[int, tuple[Grain, int]] = {
    _HOUR_MIN: ("minute", 1),
    _DAY_MIN: ("minute", 15),
    7 * _DAY_MIN: ("hour", 60),
    28 * _DAY_MIN: ("hour", 240),
}
PAST_MIN = tuple(minutes for minutes in _SPANS if minutes > _HOUR_MIN)
_MOST_NAMES = 50
_DEPTHS = ("waiting", "active", "delayed")
_QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


@router.get("/history")
async def read_history(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, minutes: Annotated[int, Query()] = _DAY_MIN
) -> Response:
    """The last hour, day, week or four weeks of a queue, in equal steps, the oldest first; and its jobs by name."""
    if minutes not in _SPANS:
        raise ConfigError(f"minutes must be one of {', '.join(map(str, _SPANS))}, got {minutes}")
    grain, step_min = _SPANS[minutes]
    now, step_ms = now_ms(), step_min * _MINUTE_MS
    count = minutes // step_min
    start_ms = (now // step_ms - count + 1) * step_ms
    async with dashboard.producer(ref) as producer:
        points = await producer.read_history(start_ms, now, grain=grain)
    return answer(await asyncio.to_thread(_plot, points, start_ms, step_ms, count, now))


def _plot(points: list[HistoryPoint], start_ms: int, step_ms: int, count: int, now: int) -> dict[str, Any]:
    steps = [HistoryPoint(start_ms + number * step_ms) for number in range(count)]
    for point in points:
        number = (point.at_ms - start_ms) // step_ms
        if 0 <= number < count:
            _merge(steps[number], point)
    # The last step has not ended: what it holds so far is spread over its time so far.
    lengths_s = [min(step_ms, max(_MINUTE_MS, now - step.at_ms)) / 1000 for step in steps]
    return {
        "start_ms": start_ms,
        "step_ms": step_ms,
        "since_ms": points[0].at_ms if points else now,
        "estimated": False,
        **{
            kind: [
                round(getattr(step, kind).total() / length, 3) for step, length in zip(steps, lengths_s, strict=True)
            ]
            for kind in ("completed", "failed", "dead")
        },
        **{name: [quantile_ms(step.durations, share) for step in steps] for name, share in _QUANTILES.items()},
        **{name: [step.depth and step.depth[n] for step in steps] for n, name in enumerate(_DEPTHS)},
        "names": _by_name(steps),
    }


def _merge(step: HistoryPoint, point: HistoryPoint) -> None:
    step.completed.update(point.completed)
    step.failed.update(point.failed)
    step.dead.update(point.dead)
    step.durations.update(point.durations)
    if point.depth is not None and (step.depth is None or point.depth > step.depth):
        step.depth = point.depth


def _by_name(steps: list[HistoryPoint]) -> list[dict[str, Any]]:
    counts = {kind: Counter[str]() for kind in ("completed", "failed", "dead")}
    for step in steps:
        for kind, total in counts.items():
            total.update(getattr(step, kind))
    runs = counts["completed"] + counts["failed"] + counts["dead"]
    return [
        {"name": cut(name), **{kind: total[name] for kind, total in counts.items()}}
        for name, _ in runs.most_common(_MOST_NAMES)
    ]
