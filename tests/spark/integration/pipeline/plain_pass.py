"""The pipeline's attempts and windows once more, in plain Python over a list of events: no Spark, no code of the
pipeline's."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

Event = dict[str, Any]
"""entry_id, ts (epoch ms), event, job_id, name, attempt, duration_us, reason, backoff_ms, delay_ms, enqueued_at."""
Row = dict[str, Any]
Key = tuple[str, int, int]
"""Job, life, attempt."""

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
OF_JOBS = {"delayed", "waiting", "active", "retry-scheduled", "completed", "failed", "dlq"}


def ulid_ms(job_id: str, first_ms: int) -> int | None:
    if len(job_id) != 26 or job_id[0] not in "01234567" or any(c not in CROCKFORD for c in job_id):
        return None
    value = 0
    for c in job_id[:10]:
        value = value * 32 + CROCKFORD.index(c)
    return value if first_ms - 400 * 86_400_000 <= value <= first_ms + 60_000 else None


def order(event: Event) -> tuple[int, ...]:
    return tuple(map(int, event["entry_id"].split("-")))


def attempts(events: list[Event]) -> dict[Key, Row]:
    jobs: dict[str, list[Event]] = defaultdict(list)
    for event in sorted({event["entry_id"]: event for event in events}.values(), key=order):
        if event["event"] in OF_JOBS and (event["job_id"] or event["event"] == "dlq"):
            jobs[event["job_id"] or f"entry:{event['entry_id']}"].append(event)
    rows: dict[Key, Row] = {}
    for key, of_job in jobs.items():
        first_ms = min(event["ts"] for event in of_job)
        name = max((event["name"] for event in of_job if event["name"] is not None), default=None)
        for life, of_life in enumerate(lives(of_job)):
            for attempt, row in rows_of_life(of_life, life, first_ms).items():
                rows[key, life, attempt] = {**row, "name": name}
    return rows


def lives(events: list[Event]) -> list[list[Event]]:
    """Each up to and with the event that ends it; a `waiting` that nothing follows is of the life before."""
    found: list[list[Event]] = [[]]
    for event in events:
        if found[-1] and found[-1][-1]["event"] in ("completed", "dlq"):
            found.append([])
        found[-1].append(event)
    if len(found) > 1 and all(event["event"] == "waiting" for event in found[-1]):
        last = found.pop()
        found[-1] += last
    return found


def rows_of_life(events: list[Event], life: int, first_ms: int) -> dict[int, Row]:
    retries = [(order(e), e["attempt"]) for e in events if e["event"] == "retry-scheduled"]
    groups: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        attempt = event["attempt"] or 0
        if event["event"] == "delayed":
            attempt = 1
        elif event["event"] == "waiting":
            attempt = max([1, *(to for at, to in retries if at <= order(event))])
        groups[attempt].append(event)
    announced = {to for _, to in retries}
    rows = {attempt: one_row(attempt, group, life, first_ms, announced) for attempt, group in groups.items()}
    row = rows[min(rows)]
    known = [row[field] for field in ("enqueued", "ready", "active", "finished") if row[field] is not None]
    row["arrived"] = known[0]
    return rows


def one_row(attempt: int, events: list[Event], life: int, first_ms: int, announced_attempts: set[int]) -> Row:
    def of(*kinds: str) -> list[Event]:
        return [event for event in events if event["event"] in kinds]

    announced, waiting, active = of("delayed", "retry-scheduled"), of("waiting"), of("active")
    timed = [event for event in of("completed", "failed") if event["duration_us"] is not None]
    on_stream = active[0]["enqueued_at"] if active else None
    made = ulid_ms(events[0]["job_id"], first_ms) if life == 0 and attempt <= 1 else None
    enqueued = first_known(made, announced[0]["ts"] if announced else None, on_stream if attempt <= 1 else None)
    due = None
    if announced:
        planned = announced[0]["delay_ms"] if announced[0]["delay_ms"] is not None else announced[0]["backoff_ms"]
        due = None if planned is None else announced[0]["ts"] + planned
    was_waiting = waiting[0]["ts"] if waiting else None
    ready = first_known(on_stream, was_waiting, due, enqueued if attempt <= 1 else None)
    started = active[0]["ts"] if active else None
    last = (of("completed", "failed", "dlq") or [None])[-1]
    status = "running" if active else "waiting"
    if last is not None:
        status = "dead" if last["event"] == "dlq" else last["event"]
    failed, dead = of("failed"), of("dlq")
    return {
        "enqueued": enqueued,
        "ready": ready,
        "active": started,
        "finished": last["ts"] if last else None,
        "status": status,
        "latency_ms": max(0, started - ready) if started is not None and ready is not None else None,
        "handler_us": timed[-1]["duration_us"] if timed else None,
        "retried": attempt + 1 in announced_attempts,
        "reason": failed[-1]["reason"] if failed else None,
        "dead_reason": dead[-1]["reason"] if dead else None,
        "partial": last is None or (attempt > 0 and not active),
        "arrived": None,
        "departed": last["ts"] if last and status in ("completed", "dead") else None,
    }


def first_known(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def windows(rows: dict[Key, Row], window_s: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Per name and window (the second it began in): counts, and all that was measured."""
    found: dict[tuple[str, int], dict[str, Any]] = defaultdict(
        lambda: {"latencies": [], "handlers": [], **dict.fromkeys(COUNTS, 0)}
    )

    def at(row: Row, ms: int) -> dict[str, Any]:
        return found[row["name"] or "", ms // 1000 // window_s * window_s]

    for row in rows.values():
        if row["arrived"] is not None:
            at(row, row["arrived"])["arrived"] += 1
        if row["departed"] is not None:
            at(row, row["departed"])["departed"] += 1
        if row["active"] is not None:
            here = at(row, row["active"])
            here["started"] += 1
            here["latencies"] += [row["latency_ms"]] if row["latency_ms"] is not None else []
        if row["finished"] is not None:
            here = at(row, row["finished"])
            here["completed"] += row["status"] == "completed"
            here["failed"] += row["status"] in ("failed", "dead")
            here["retried"] += row["status"] == "failed" and row["retried"]
            here["dead"] += row["status"] == "dead"
            here["partial"] += row["partial"]
            here["handlers"] += [row["handler_us"]] if row["handler_us"] is not None else []
    return dict(found)


COUNTS = ("arrived", "started", "completed", "failed", "retried", "dead", "departed", "partial")


def quantile(values: list[int], rank: float) -> int | None:
    """The smallest value that at least `rank` of all values are not above."""
    return sorted(values)[max(0, math.ceil(rank * len(values)) - 1)] if values else None
