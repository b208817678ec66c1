"""Jobs, delayed jobs, repeatables, dead letters and events as rows of JSON."""

from __future__ import annotations

import base64
import dataclasses
from datetime import UTC, datetime
from typing import Any, TypeVar

from chasqui_engine import ConfigError, DecodeError, DlqEntry, JobInfo, QueueEvent, RepeatableMeta, RepeatPattern
from chasqui_engine.admin import CompletedJob, DelayedJob, ListedJob, describe, died_at_ms
from chasqui_engine.codec import glimpse_payload
from chasqui_engine.dashboard.api.payload_view import BRIEF_CHARS, WHOLE_CHARS, payload_text, plain_payload
from chasqui_engine.dashboard.settings import Payloads
from chasqui_engine.events import LastRun
from chasqui_engine.schedule import CronSchedule

_SHOWN_FIRES = 5
_TEXT_CHARS = 4_000
_ID_CHARS = 1_024
"""As long as an id may be; of a longer one no page could be asked for."""


def serialize_listed(one: ListedJob, payloads: Payloads) -> dict[str, Any]:
    """A job on the stream."""
    job = one.job
    return {
        "entry_id": one.entry_id,
        "id": cut(one.job_id, _ID_CHARS),
        "name": cut(one.name),
        "since_ms": one.since_ms,
        "attempt": None if job is None else job.attempt,
        "payload": None if job is None else payload_text(job.payload, payloads, brief=True),
        "readable": job is not None,
        "consumer": cut(one.consumer),
        "idle_ms": one.idle_ms,
        "deliveries": one.deliveries,
    }


def serialize_active(one: ListedJob, run: LastRun | None, payloads: Payloads) -> dict[str, Any]:
    """A job in flight, and its run if it has begun."""
    run = run or LastRun()
    attempt = run.attempt if run.started_at_ms is not None else None
    limits = one.job.retry if one.job is not None else None
    return {
        **serialize_listed(one, payloads),
        "started_at_ms": run.started_at_ms,
        "run": attempt,
        "max_attempts": limits.max_attempts if limits else None,
        **_progress(run.progress, payloads, brief=True),
    }


def _progress(value: Any, payloads: Payloads, *, brief: bool = False) -> dict[str, Any]:
    """A progress as text, and as a part of 100 if that is what it is."""
    part = value.get("percent") if isinstance(value, dict) else value
    is_part = isinstance(part, int | float) and not isinstance(part, bool) and 0 <= part <= 100
    return {
        "progress": None if value is None else payload_text(value, payloads, brief=brief),
        "percent": part if is_part and payloads == "show" else None,
    }


def serialize_completed(one: CompletedJob, result: bytes | None, payloads: Payloads) -> dict[str, Any]:
    """A job that completed, with the beginning of its result if that is kept."""
    return {
        "entry_id": one.entry_id,
        "id": cut(one.job_id, _ID_CHARS),
        "name": cut(one.name),
        "at_ms": one.at_ms,
        "attempt": one.attempt,
        "duration_ms": one.duration_ms,
        "result": None if result is None else _result_text(result, payloads, brief=True),
        "result_known": result is not None,
    }


def serialize_delayed(one: DelayedJob, run: LastRun | None, payloads: Payloads) -> dict[str, Any]:
    """A delayed job, and between two runs the error of the last one."""
    job = one.job
    failed = run if run is not None and run.error is not None else LastRun()
    return {
        "error": cut(failed.error),
        "error_type": cut(failed.error_type),
        "max_attempts": job.retry.max_attempts if job is not None and job.retry else None,
        "run_at_ms": one.run_at_ms,
        "id": None if job is None else cut(job.id, _ID_CHARS),
        "name": "" if job is None else cut(job.name),
        "attempt": None if job is None else job.attempt,
        "payload": None if job is None else payload_text(job.payload, payloads, brief=True),
        "readable": job is not None,
    }


def serialize_repeatable(meta: RepeatableMeta) -> dict[str, Any]:
    """A repeatable spec, with its next fires in its own zone."""
    pattern = meta.pattern
    return {
        "key": cut(meta.key, _ID_CHARS),
        "name": meta.job_name,
        "cron": pattern.expression,
        "tz": None if pattern.expression is None else pattern.tz or "UTC",
        "every_ms": pattern.interval_ms,
        "paused": meta.is_paused,
        "next_fire_ms": meta.next_fire_ms,
        "fires": [] if meta.is_paused else [_local(pattern, at_ms) for at_ms in _fires(meta)],
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


def serialize_dead(entry: DlqEntry, payloads: Payloads, *, brief: bool = True) -> dict[str, Any]:
    """A dead letter; complete, or short enough for a row."""
    facts = describe(entry, BRIEF_CHARS if brief else WHOLE_CHARS)
    readable = "unreadable" not in facts
    most = BRIEF_CHARS if brief else _TEXT_CHARS
    return {
        "dlq_id": entry.dlq_id,
        "id": cut(facts["job_id"], _ID_CHARS),
        "name": cut(entry.name, most),
        "reason": cut(entry.reason, most),
        "code": facts["code"],
        "error": cut(entry.detail or "", most),
        "died_at_ms": died_at_ms(entry),
        "created_at": facts.get("created_at"),
        "attempt": facts.get("attempt"),
        "payload": payload_text(facts["payload"], payloads, brief=brief) if readable else None,
        "readable": readable,
        "unreadable": facts.get("unreadable"),
        "bytes": len(entry.payload),
    }


def serialize_exported(entry: DlqEntry, payloads: Payloads) -> dict[str, Any]:
    """A dead letter as `chasqui dlq export` writes it; without the exact bytes unless payloads are shown."""
    facts = describe(entry)
    facts["payload"] = plain_payload(facts["payload"], payloads)
    if payloads == "show":
        facts["envelope"] = base64.b64encode(entry.payload).decode()
    return facts


def serialize_job(info: JobInfo, result: bytes | None, payloads: Payloads) -> dict[str, Any]:
    """One job: its state and history, and its stored result."""
    gone = info.payload is None and info.created_at_ms is None
    fields = {field.name: getattr(info, field.name) for field in dataclasses.fields(info)}
    return {
        # Not `asdict`, which fails on a payload that is nested too deeply.
        **{name: cut(value, _TEXT_CHARS) if isinstance(value, str) else value for name, value in fields.items()},
        "traceback": info.traceback,
        "payload": None if gone else payload_text(info.payload, payloads),
        "payload_known": not gone,
        **_progress(info.progress, payloads),
        "result": None if result is None else _result_text(result, payloads),
        "result_known": result is not None,
    }


def _result_text(result: bytes, payloads: Payloads, *, brief: bool = False) -> str | None:
    try:
        value = glimpse_payload(result, BRIEF_CHARS if brief else WHOLE_CHARS)
        return payload_text(value, payloads, brief=brief)
    except DecodeError as err:
        return f"cannot be read: {err.args[0]}"


def serialize_log(lines: list[str], count: int, payloads: Payloads) -> dict[str, Any]:
    """The newest lines of a job's log. They may quote the payload, so they are hidden with it."""
    return {"lines": lines if payloads == "show" else None, "count": count}


def serialize_event(one: QueueEvent, payloads: Payloads) -> dict[str, Any]:
    """An event of a job."""
    fields = dict(one.fields)
    facts = {"event": cut(one.name), "at_ms": fields.pop("ts", None)}
    if "progress" in fields:
        fields["progress"] = payload_text(fields["progress"], payloads, brief=True)
    shown = {cut(name): cut(value, _TEXT_CHARS) if isinstance(value, str) else value for name, value in fields.items()}
    return {**facts, "fields": {name: value for name, value in shown.items() if value is not None}}


_Text = TypeVar("_Text", str, str | None)


def cut(text: _Text, most: int = BRIEF_CHARS) -> _Text:
    """The beginning of a text that others wrote: a browser takes seconds to lay out a table of long texts."""
    return text if text is None or len(text) <= most else f"{text[:most]}…"
