"""The pipeline's answers once more, in plain Python over a list of events: no Spark, no code of the pipeline's."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

Event = dict[str, Any]
"""entry_id, ts (epoch ms), event, job_id, name, attempt, duration_us, reason, backoff_ms, delay_ms."""
Row = dict[str, Any]

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid_ms(job_id: str, first_ms: int) -> int | None:
    if len(job_id) != 26 or job_id[0] not in "01234567" or any(c not in CROCKFORD for c in job_id):
        return None
    value = 0
    for c in job_id[:10]:
        value = value * 32 + CROCKFORD.index(c)
    return value if first_ms - 400 * 86_400_000 <= value <= first_ms + 60_000 else None


ENDS = ["failed", "completed", "dlq"]
"""Of two in one millisecond, the later in this list counts."""


def place(event: Event) -> tuple[int, int]:
    return event["ts"], ENDS.index(event["event"]) if event["event"] in ENDS else -1


def attempts(events: list[Event]) -> dict[tuple[str, int], Row]:
    jobs: dict[str, list[Event]] = defaultdict(list)
    for event in {event["entry_id"]: event for event in events}.values():
        if event["event"] == "drained" or (not event["job_id"] and event["event"] != "dlq"):
            continue
        jobs[event["job_id"] or f"entry:{event['entry_id']}"].append(event)
    rows: dict[tuple[str, int], Row] = {}
    for key, all_of in jobs.items():
        rows |= {(key, attempt): row for attempt, row in job_rows(sorted(all_of, key=place)).items()}
    return rows


def job_rows(events: list[Event]) -> dict[int, Row]:
    first_ms = events[0]["ts"]
    retries = [(e["ts"], e["attempt"]) for e in events if e["event"] == "retry-scheduled"]
    groups: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        attempt = event["attempt"] or 0
        if event["event"] == "delayed":
            attempt = 1
        elif event["event"] == "waiting":
            attempt = max([1, *(to for at, to in retries if at <= event["ts"])])
        groups[attempt].append(event)
    rows = {
        attempt: one_row(attempt, group, events[0]["job_id"], first_ms, retries) for attempt, group in groups.items()
    }
    first = min(rows)
    row = rows[first]
    known = [row[field] for field in ("enqueued", "ready", "active", "finished") if row[field] is not None]
    row["arrived"] = known[0]
    ended = [row for row in rows.values() if row["status"] in ("completed", "dead")]
    if ended:
        last = max(ended, key=lambda row: row["last_place"])
        last["departed"] = last["finished"]
    return rows


def one_row(attempt: int, events: list[Event], job_id: str, first_ms: int, retries: list[tuple[int, int]]) -> Row:
    def of(*kinds: str) -> list[Event]:
        return [event for event in events if event["event"] in kinds]

    announced, waiting, active = of("delayed", "retry-scheduled"), of("waiting"), of("active")
    finishing = of("completed", "failed", "dlq")
    timed = [event for event in of("completed", "failed") if event["duration_us"] is not None]
    enqueued = announced[0]["ts"] if announced else None
    if attempt <= 1:
        made = ulid_ms(job_id, first_ms)
        enqueued = made if made is not None else enqueued
    ready = None
    if waiting:
        ready = waiting[0]["ts"]
    elif announced:
        planned = announced[0]["delay_ms"] if announced[0]["delay_ms"] is not None else announced[0]["backoff_ms"]
        ready = None if planned is None else announced[0]["ts"] + planned
    if ready is None and attempt <= 1:
        ready = enqueued
    started = active[0]["ts"] if active else None
    last = finishing[-1] if finishing else None
    status = "running" if active else "waiting"
    if last is not None:
        status = "dead" if last["event"] == "dlq" else last["event"]
    names = [event["name"] for event in events if event["name"] is not None]
    failed, dead = of("failed"), of("dlq")
    return {
        "name": max(names) if names else None,
        "enqueued": enqueued,
        "ready": ready,
        "active": started,
        "finished": last["ts"] if last else None,
        "last_place": place(last) if last else None,
        "status": status,
        "latency_ms": max(0, started - ready) if started is not None and ready is not None else None,
        "handler_us": timed[-1]["duration_us"] if timed else None,
        "retried": any(to == attempt + 1 for _, to in retries),
        "reason": failed[-1]["reason"] if failed else None,
        "dead_reason": dead[-1]["reason"] if dead else None,
        "partial": last is None or (attempt > 0 and not active),
        "arrived": None,
        "departed": None,
    }


def windows(rows: dict[tuple[str, int], Row], window_s: int) -> dict[tuple[str, int], dict[str, Any]]:
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
