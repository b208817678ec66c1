"""Jobs, delayed jobs, repeatables, dead letters and events as rows of JSON."""

from __future__ import annotations

import base64
import dataclasses
from datetime import UTC, datetime
from typing import Any

from chasqui_engine.admin.dead_letters import described, died_at_ms
from chasqui_engine.admin.delayed import DelayedJob
from chasqui_engine.admin.job_lookup import JobInfo
from chasqui_engine.admin.lists import ListedJob
from chasqui_engine.dashboard.api.payload_view import BRIEF_CHARS, WHOLE_CHARS, payload_text, plain_payload
from chasqui_engine.dashboard.settings import Payloads
from chasqui_engine.errors import ConfigError
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.job import DlqEntry
from chasqui_engine.schedule.cron import CronSchedule
from chasqui_engine.schedule.spec import RepeatableMeta, RepeatPattern

_SHOWN_FIRES = 5
_ERROR_CHARS = 4_000
_BRIEF_ERROR_CHARS = 300


def listed(one: ListedJob, payloads: Payloads) -> dict[str, Any]:
    """A job on the stream."""
    job = one.job
    return {
        "entry_id": one.entry_id,
        "id": one.job_id,
        "name": one.name,
        "since_ms": int(one.entry_id.partition("-")[0]),
        "attempt": None if job is None else job.attempt,
        "payload": None if job is None else payload_text(job.payload, payloads, brief=True),
        "readable": job is not None,
        "consumer": one.consumer,
        "idle_ms": one.idle_ms,
        "deliveries": one.deliveries,
    }


def delayed(one: DelayedJob, payloads: Payloads) -> dict[str, Any]:
    """A job that runs later."""
    job = one.job
    return {
        "run_at_ms": one.run_at_ms,
        "id": None if job is None else job.id,
        "name": "" if job is None else job.name,
        "attempt": None if job is None else job.attempt,
        "payload": None if job is None else payload_text(job.payload, payloads, brief=True),
        "readable": job is not None,
    }


def repeatable(meta: RepeatableMeta) -> dict[str, Any]:
    """A repeatable spec, with its next fires in its own zone."""
    pattern = meta.pattern
    return {
        "key": meta.key,
        "name": meta.job_name,
        "cron": pattern.expression,
        "tz": None if pattern.expression is None else pattern.tz or "UTC",
        "every_ms": pattern.interval_ms,
        "next_fire_ms": meta.next_fire_ms,
        "fires": [_local(pattern, at_ms) for at_ms in _fires(meta)],
        "limit": meta.limit,
        "missed": "skip" if meta.missed_fires is None else meta.missed_fires.kind,
    }


def _fires(meta: RepeatableMeta) -> list[int]:
    fires: list[int] = []
    at: int | None = meta.next_fire_ms
    while at is not None and len(fires) < _SHOWN_FIRES and (meta.end_before_ms is None or at <= meta.end_before_ms):
        fires.append(at)
        at = meta.pattern.next_after_ms(max(at, meta.start_after_ms or 0))
    return fires


def _local(pattern: RepeatPattern, at_ms: int) -> str:
    try:
        zone = UTC if pattern.expression is None else CronSchedule.parse(pattern.expression, pattern.tz).zone
        return datetime.fromtimestamp(at_ms / 1000, zone).isoformat(sep=" ", timespec="seconds")
    except (ConfigError, OverflowError, ValueError, OSError):
        return str(at_ms)


def dead(entry: DlqEntry, payloads: Payloads, *, brief: bool = True) -> dict[str, Any]:
    """A dead letter; whole, or as it fits into a row."""
    facts = described(entry, BRIEF_CHARS if brief else WHOLE_CHARS)
    readable = "unreadable" not in facts
    error, most = entry.detail or "", _BRIEF_ERROR_CHARS if brief else _ERROR_CHARS
    return {
        "dlq_id": entry.dlq_id,
        "id": facts["job_id"],
        "name": entry.name,
        "reason": entry.reason,
        "code": facts["code"],
        "error": error if len(error) <= most else error[:most] + "…",
        "died_at_ms": died_at_ms(entry),
        "created_at": facts.get("created_at"),
        "attempt": facts.get("attempt"),
        "payload": payload_text(facts["payload"], payloads, brief=brief) if readable else None,
        "readable": readable,
        "unreadable": facts.get("unreadable"),
        "bytes": len(entry.payload),
    }


def exported(entry: DlqEntry, payloads: Payloads) -> dict[str, Any]:
    """A dead letter as `chasqui dlq export` writes it; without the exact bytes where payloads are not shown."""
    facts = described(entry)
    facts["payload"] = plain_payload(facts["payload"], payloads)
    if payloads == "show":
        facts["envelope"] = base64.b64encode(entry.payload).decode()
    return facts


def job(info: JobInfo, payloads: Payloads) -> dict[str, Any]:
    """One job: where it is, and what is known of it."""
    gone = info.payload is None and info.created_at_ms is None
    return {
        # Not `asdict`, which would go to the bottom of a payload that is nested too deep for it.
        **{field.name: getattr(info, field.name) for field in dataclasses.fields(info)},
        "payload": None if gone else payload_text(info.payload, payloads),
        "payload_known": not gone,
        "progress": None if info.progress is None else payload_text(info.progress, payloads),
    }


def event(one: QueueEvent, payloads: Payloads) -> dict[str, Any]:
    """A step in a job's life."""
    fields = dict(one.fields)
    told = {"event": one.name, "at_ms": fields.pop("ts", None)}
    if "progress" in fields:
        fields["progress"] = payload_text(fields["progress"], payloads, brief=True)
    return {**told, "fields": {key: value for key, value in fields.items() if value is not None}}
