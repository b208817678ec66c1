"""How long the jobs of a queue take of late, as its events tell."""

from __future__ import annotations

from chasqui_engine import Producer, ProducerConfig

_EVENTS = 1000
_JOBS = 50
"""The last ones that ended count, and no more than so many."""


async def usual_duration_s(url: str, queue_name: str, job_name: str | None = None) -> float | None:
    """What three of four of the last jobs took at most, those of a name if one is given; None if nothing is told."""
    async with await Producer.connect(url, ProducerConfig(queue_name=queue_name)) as producer:
        events = await producer.newest_events(_EVENTS)
    took_us = [
        event.fields["duration_us"]
        for event in events
        if event.name == "completed"
        and isinstance(event.fields.get("duration_us"), int)
        and (job_name is None or event.job_name == job_name)
    ]
    newest = sorted(took_us[:_JOBS])
    return newest[(3 * len(newest)) // 4 - (len(newest) % 4 == 0)] / 1e6 if newest else None
