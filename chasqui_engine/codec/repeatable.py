"""Repeatable specs ↔ bytes, and the envelopes of their fires. The layouts are those of `docs/wire.md`."""

from __future__ import annotations

from typing import Any

from chasqui_engine.codec.envelope import (
    _decode_error,
    _decode_retry,
    _pack,
    _retry_fields,
    _shape,
    decode_payload,
    encode_payload,
)
from chasqui_engine.schedule.spec import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.packed import Packed
from chasqui_engine.values.validation import check_job_name

_SPEC_FIELDS = 8
"""What every spec has. After them come its policy for missed fires and the limits of its jobs, where it has such."""
_SPEC_FIELDS_WITH_RETRY = 10


def encode_spec(spec: RepeatableSpec, fired: int = 0) -> bytes:
    """A repeatable spec as it is stored."""
    fields = [
        spec.resolved_key(),
        spec.job_name,
        _pattern_fields(spec.pattern),
        _pack(encode_payload(spec.payload)),
        spec.limit,
        spec.start_after_ms,
        spec.end_before_ms,
        fired,
    ]
    # ChasquiMQ 1.3.0 reads up to nine elements, so what is not asked for is left out.
    if spec.missed_fires.kind != "skip" or spec.retry is not None:
        fields.append(_missed_fires_field(spec.missed_fires))
    if spec.retry is not None:
        fields.append(_retry_fields(spec.retry))
    return bytes(_pack(fields))


def decode_spec(data: bytes) -> RepeatableSpec:
    """The spec in bytes from `encode_spec` or ChasquiMQ."""
    fields = decode_payload(data)
    if not isinstance(fields, list) or len(fields) < _SPEC_FIELDS:
        raise DecodeError(f"a spec is an array of {_SPEC_FIELDS} or more, got {_shape(fields)}")
    key, job_name, pattern, payload, limit, start_after_ms, end_before_ms, _fired, *more = fields
    try:
        inner = decode_payload(payload)
        return RepeatableSpec(
            key=key,
            job_name=check_job_name(job_name),
            pattern=_decode_pattern(pattern),
            payload=_decode_or_keep(inner) if isinstance(inner, bytes) else inner,
            limit=limit or None,  # ChasquiMQ takes 0 for no limit
            start_after_ms=start_after_ms,
            end_before_ms=end_before_ms,
            missed_fires=_decode_missed_fires(more[0] if more else None),
            retry=_decode_retry(more[1]) if len(more) > 1 else None,
        )
    except DecodeError:
        raise
    except Exception as err:  # any value may be in place of a pattern
        raise _decode_error("not a repeatable spec", err) from err


def _decode_or_keep(payload: bytes) -> Any:
    try:
        return decode_payload(payload)
    except DecodeError:
        return Packed(payload)


def encode_fire(spec_data: bytes, job_id: str, created_at_ms: int) -> bytes:
    """The envelope of one fire of a stored spec; its payload and limits are the spec's."""
    fields = decode_payload(spec_data)
    envelope = bytes(_pack(job_id)) + bytes(fields[3]) + bytes(_pack(created_at_ms)) + b"\x00"
    retry = fields[_SPEC_FIELDS_WITH_RETRY - 1] if len(fields) >= _SPEC_FIELDS_WITH_RETRY else None
    return b"\x94" + envelope if retry is None else b"\x95" + envelope + bytes(_pack(retry))


def _pattern_fields(pattern: RepeatPattern) -> dict[str, list[Any]]:
    if pattern.kind == "every":
        return {"Every": [pattern.interval_ms]}
    return {"Cron": [pattern.expression, pattern.tz]}


def _missed_fires_field(policy: MissedFiresPolicy) -> str | dict[str, list[Any]]:
    if policy.kind == "fire-all":
        return {"FireAll": [policy.max_catchup]}
    return "FireOnce" if policy.kind == "fire-once" else "Skip"


def _decode_pattern(fields: dict[str, list[Any]]) -> RepeatPattern:
    if "Every" in fields:
        return RepeatPattern.every(fields["Every"][0])
    expression, tz = fields["Cron"]
    return RepeatPattern.cron(expression, tz=tz)


def _decode_missed_fires(fields: Any) -> MissedFiresPolicy:
    if fields is None or fields == "Skip":
        return MissedFiresPolicy.skip()
    if fields == "FireOnce":
        return MissedFiresPolicy.fire_once()
    return MissedFiresPolicy.fire_all(fields["FireAll"][0])
