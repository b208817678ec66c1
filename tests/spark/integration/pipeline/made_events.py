"""Lives of jobs, made up at random: as events a queue would tell, and some it should not."""

from __future__ import annotations

import itertools
import random
from typing import Any

from chasqui_engine.values.ids import UlidMint

Event = dict[str, Any]
START_MS = 1_790_000_000_000
NAMES = ["send", "resize", None]
_NUMBERS = itertools.count()


def event(kind: str, at: int, job_id: str, name: str | None = "send", **fields: Any) -> Event:
    """One event, as a queue tells it."""
    empty: Event = dict.fromkeys(("attempt", "duration_us", "reason", "backoff_ms", "delay_ms", "enqueued_at"))
    about = {"event": kind, "ts": at, "job_id": job_id, "name": name}
    return {**empty, **about, "entry_id": f"{at}-{next(_NUMBERS)}", **fields}


def completed(at: int, job_id: str, name: str = "send") -> list[Event]:
    """A job that took ten milliseconds."""
    return [event("active", at, job_id, name, attempt=1), done(at + 10, job_id, name)]


def done(at: int, job_id: str, name: str = "send", attempt: int = 1) -> Event:
    return event("completed", at, job_id, name, attempt=attempt, duration_us=10_000)


def events_of_jobs(rng: random.Random, jobs: int, span_ms: int = 3 * 86_400_000) -> list[Event]:
    """Events in the order in which they happened. Entry ids have that order too; clocks of those who emit are not as
    exact."""
    mint = UlidMint()
    events: list[Event] = []

    def tell(kind: str, at: int, job_id: str, name: str | None, **fields: Any) -> None:
        events.append(event(kind, at, job_id, name, **fields))

    for number in range(jobs):
        at = START_MS + rng.randrange(span_ms)
        name = rng.choice(NAMES)
        job_id = mint.mint(at) if rng.random() < 0.6 else f"order-{number}"
        end: int | None = at
        # A job that died may be replayed, one that completed may be added again.
        while end is not None:
            end = _life(rng, tell, end, job_id, name)
            if end is not None:
                if rng.random() < 0.1:
                    tell("waiting", end, job_id, name)  # other engines are late with it
                end = end + rng.randrange(100_000) if rng.random() < 0.4 else None
    for _ in range(jobs // 20 + 1):
        at = START_MS + rng.randrange(span_ms)
        tell("drained", at, "", None)
        tell("failed", at, "", None, attempt=0, reason="not an envelope")
        tell("dlq", at, "", None, attempt=0, reason="decode_failed")
    events.sort(key=lambda told: told["ts"])
    ids_ms = START_MS
    for number, told in enumerate(events):
        ids_ms = max(ids_ms, told["ts"])
        told["entry_id"] = f"{ids_ms}-{number}"
        told["ts"] -= rng.randrange(3)
    return events


def _life(rng: random.Random, tell: Any, at: int, job_id: str, name: str | None) -> int | None:
    """Tells a life; returns when it ended, if it did."""
    enqueued_at = at
    says_when = rng.random() < 0.6  # not every engine does
    if rng.random() < 0.3:
        delay = rng.randrange(60_000)
        tell("delayed", at, job_id, name, delay_ms=delay)
        at += delay
        enqueued_at = at
        if rng.random() < 0.8:
            tell("waiting", at, job_id, name)
    for attempt in range(1, 4):
        at += rng.randrange(5_000)
        if rng.random() < 0.95:  # else this start was never heard of
            tell("active", at, job_id, name, attempt=attempt, enqueued_at=enqueued_at if says_when else None)
        if rng.random() < 0.3:
            tell("progress", at, job_id, name)
        if rng.random() < 0.05:
            return None  # still running
        took = rng.randrange(1, 20_000_000)
        at += took // 1000
        if rng.random() < 0.6:
            tell("completed", at, job_id, name, attempt=attempt, duration_us=took)
            return at
        tell("failed", at, job_id, name, attempt=attempt, reason=rng.choice(["boom", "a\r\nb"]), duration_us=took)
        if attempt == 3 or rng.random() < 0.2:
            tell("dlq", at, job_id, name, attempt=attempt, reason="retries_exhausted")
            return at
        backoff = rng.randrange(100_000)
        tell("retry-scheduled", at, job_id, name, attempt=attempt + 1, backoff_ms=backoff)
        at += backoff
        enqueued_at = at
        if rng.random() < 0.7:
            tell("waiting", at, job_id, name)
    return None


def shuffled_batches(rng: random.Random, events: list[Event], batches: int) -> list[list[Event]]:
    """The events in several batches: some late, some twice."""
    found: list[list[Event]] = [[] for _ in range(batches)]
    for number, told in enumerate(events):
        at = min(batches - 1, number * batches // len(events))
        late = rng.randrange(at, batches) if rng.random() < 0.2 else at
        found[late].append(told)
        if rng.random() < 0.1:
            found[rng.randrange(late, batches)].append(told)
    return found
