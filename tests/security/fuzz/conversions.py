"""Hostile entries through what turns bytes into jobs, JSON and Spark's rows: no server, so that there can be many."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from chasqui_engine.codec.envelope import (
    decode_delayed,
    decode_failure,
    decode_id,
    decode_job,
    decode_payload,
    encode_payload,
)
from chasqui_engine.codec.envelope import with_attempt as enveloped_with_attempt
from chasqui_engine.codec.preview import glimpse_job
from chasqui_engine.codec.repeatable import decode_spec
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.payload_json import json_text, preview, to_json
from chasqui_engine.spark.read import rows as rows_module
from chasqui_engine.spark.read.events import events_batch, events_batch_of_entries
from chasqui_engine.spark.read.resp_page import take_apart
from chasqui_engine.spark.schemas import arrow_schema
from chasqui_engine.values.errors import ChasquiError, DecodeError, EncodeError
from tests.support.hostile.checks import check_json, chunks, fields_of
from tests.support.hostile.entries import PLACES, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_engine.values.job import Job

_CHARS = 300
_MOST_BESIDE_BYTES = 8 * 1024
_ENTITIES = {"stream": "jobs", "dlq": "dead", "delayed": "delayed", "repeat": "repeatables", "events": "events"}


def convert_all(seed: int, count: int) -> Counter[str]:
    """Shares `count` entries among all places, and converts each in every way; returns what became of them."""
    outcomes: Counter[str] = Counter()
    for place in PLACES:
        for chunk in chunks(seed, count // len(PLACES), place):
            outcomes.update(f"{place} {_READERS[place](one)}" for one in chunk)
            _as_rows(place, chunk)
    return outcomes


def check_value(value: Any) -> None:
    """A value in each of its forms."""
    check_json(to_json(value, nul="replace"))
    assert len(preview(value, _CHARS)) <= _CHARS + 1
    check_json(json.loads(json_text(value, compact=True)), nul=True)
    json_text(value, compact=True).encode()
    with contextlib.suppress(EncodeError):
        check_json(to_json(value, nul="replace", strict=True, max_size=4096))


def _job(envelope: bytes, name: bytes) -> str:
    text = name.decode(errors="replace")
    try:
        job = decode_job(envelope, text)
    except DecodeError:
        _glimpsed(envelope, text)
        return "unreadable"
    assert decode_id(envelope) == job.id
    assert decode_job(enveloped_with_attempt(envelope, 5), text).attempt == 5
    shown = _glimpsed(envelope, text)
    if shown is None:
        assert _beside(envelope) > _MOST_BESIDE_BYTES, "what runs is shown"
        return "job with too much beside its payload"
    assert (shown.id, shown.attempt, shown.retry) == (job.id, job.attempt, job.retry)
    check_value(job.payload)
    return "job"


def _beside(envelope: bytes) -> int:
    job_id, _payload, *rest = decode_payload(envelope)
    return len(encode_payload([job_id, *rest]))


def _glimpsed(envelope: bytes, name: str) -> Job | None:
    try:
        job = glimpse_job(envelope, name, _CHARS)
    except DecodeError:
        return None
    assert len(preview(job.payload, _CHARS)) <= _CHARS + 1
    return job


def _stream(one: Entry) -> str:
    fields = fields_of(one)
    return _job(fields.get(b"d", b""), fields.get(b"n", b""))


def _delayed(one: Entry) -> str:
    try:
        name, envelope = decode_delayed(one.data[1])
    except DecodeError:
        return "unreadable"
    return _job(envelope, name.encode())


def _event(one: Entry) -> str:
    told = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in fields_of(one).items()}
    event = QueueEvent.of("1-1", told)
    check_json(to_json(event.fields, nul="replace"))
    return "event"


def _spec(one: Entry) -> str:
    spec = one.data[1]
    data = spec.get("spec") if isinstance(spec, dict) else spec
    if not isinstance(data, bytes):
        return "missing"
    try:
        found = decode_spec(data)
    except DecodeError:
        return "unreadable"
    check_value(found.payload)
    fire = found.pattern.next_after_ms(1_700_000_000_000)
    assert fire is None or fire > 1_700_000_000_000
    return "spec"


def _result(one: Entry) -> str:
    if one.data is None:
        return "of another type"
    try:
        check_value(decode_payload(one.data))
    except DecodeError:
        return "unreadable"
    return "value"


def _failure(one: Entry) -> str:
    if one.data is None:
        return "of another type"
    try:
        decode_failure(one.data)
    except DecodeError:
        return "unreadable"
    return "record"


_READERS: dict[str, Callable[[Entry], str]] = {
    "stream": _stream,
    "dlq": _stream,
    "events": _event,
    "delayed": _delayed,
    "repeat": _spec,
    "result": _result,
    "failure": _failure,
}


def _as_rows(place: str, chunk: list[Entry]) -> None:
    """One row for each entry, whatever it holds."""
    if place == "events":
        _check_both_ways([(b"1-%d" % n, fields_of(one)) for n, one in enumerate(chunk)])
        return
    rows = [row for one in chunk if (row := _row(place, one)) is not None]
    batch = rows_module.batch_of(rows, "q", arrow_schema(_ENTITIES.get(place, "results")))
    batch.validate(full=True)
    assert batch.num_rows == len(rows)


def _row(place: str, one: Entry) -> rows_module.Row | None:
    if place in ("stream", "dlq"):
        flat = [part for pair in fields_of(one).items() for part in pair]
        return (rows_module.job_row if place == "stream" else rows_module.dead_row)((b"1-1", flat))
    if place == "delayed":
        score, member = one.data
        try:
            return rows_module.delayed_row(float(score), *decode_delayed(member))
        except ChasquiError:
            return rows_module.delayed_row(float(score), "", member)
    if place == "repeat":
        score, spec = one.data
        data = spec.get("spec") if isinstance(spec, dict) else None
        return rows_module.spec_row("key", float(score), data, 0)
    if one.data is None:
        return None
    return (rows_module.result_row if place == "result" else rows_module.failure_row)("id", one.data, None)


def _check_both_ways(entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
    """A page taken apart says what a page does that a client parsed."""
    schema = arrow_schema("events")
    parsed = [(entry_id, [part for pair in fields.items() for part in pair]) for entry_id, fields in entries]
    slow = events_batch_of_entries(parsed, "q", schema)
    slow.validate(full=True)
    assert slow.num_rows == len(entries)
    for start, (entry_id, flat) in enumerate(parsed):
        page = take_apart(_reply([(entry_id, flat)]))
        if page is not None:
            assert events_batch(page, "q", schema).equals(slow.slice(start, 1)), flat


def _reply(entries: list[tuple[bytes, list[bytes]]]) -> bytes:
    """As a server answers `XRANGE`."""
    said = b"*%d\r\n" % len(entries)
    for entry_id, flat in entries:
        said += b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(entry_id), entry_id, len(flat))
        said += b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in flat)
    return said
