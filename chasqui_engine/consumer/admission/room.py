"""How many jobs a worker takes where their order, or their number, is bounded: those that start at once."""

from __future__ import annotations

from chasqui_engine.consumer.context import ConsumerContext

_AHEAD_S = 0.002
"""Beyond the idle tasks, what starts within this time is taken: a job that is in a buffer is not overtaken any more."""


async def wait_for_room(context: ConsumerContext) -> int:
    """Waits until a task is idle, or will be at once; returns how many jobs may be taken."""
    config, buffer = context.config, context.buffer
    while True:
        soon = int(_AHEAD_S / max(context.pace.mean_s, 1e-6) * config.concurrency)
        ahead = min(soon, 4 * config.batch)
        wanted = buffer.idle + ahead - len(buffer)
        unwritten = len(context.in_flight) - len(buffer) - config.concurrency
        if wanted > 0 and len(buffer) <= ahead // 2 and unwritten < 2 * config.ack_batch:
            return min(wanted, 2 * config.batch)
        await buffer.wait_for_idle_or_room()
