"""Values ↔ bytes: the only module that knows MessagePack.

The layouts are those of `docs/wire.md`; ChasquiMQ reads and writes the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack

from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.errors import DecodeError, EncodeError, error_text
from chasqui_engine.values.job import MAX_TRACEBACK_BYTES, MOST_ATTEMPTS, Job, JobRetryOverride
from chasqui_engine.values.packed import Packed
from chasqui_engine.values.validation import MAX_JOB_ID_BYTES, MAX_JOB_NAME_BYTES

Extension = msgpack.ExtType
Timestamp = msgpack.Timestamp

_pack = msgpack.packb
_U32 = struct.Struct("<I")
_ENVELOPE_FIELDS = 4
_BACKOFF_FIELDS = 5
_MOST_MS = 2**64 - 1
_ID_BYTES = 4 * MAX_JOB_ID_BYTES + 16
"""Bytes in which an id is searched: a character takes up to four, and headers precede it."""
_LARGE_BYTES = 4096
"""From this size on, the announced length of an array is checked before memory is allocated for it."""


def plain_value(value: Any) -> Any:
    """The form in a job of values for which MessagePack has no type that every engine reads."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int):
        raise OverflowError("an integer of more than 64 bits")
    raise TypeError(f"MessagePack has no type for {type(value).__name__}")


def encode_payload(value: Any) -> bytes:
    """A user's value as MessagePack."""
    if type(value) is Packed:
        return value
    try:
        try:
            packed: bytes = _pack(value)
        except TypeError:  # always passing `default` would make every other value a third slower
            packed = _pack(value, default=plain_value)
    except Exception as err:
        raise _encode_error(err) from err
    return packed


def decode_payload(data: bytes) -> Any:
    """The value in bytes from `encode_payload`."""
    try:
        if len(data) > _LARGE_BYTES:
            _check_complete(data)
        return msgpack.unpackb(data, strict_map_key=False)
    except Exception as err:
        raise _decode_error("not valid MessagePack", err) from err


def _decode_error(what: str, err: Exception) -> DecodeError:
    """The error for invalid bytes. A MemoryError is passed through: no job is buried for it."""
    if isinstance(err, MemoryError):
        raise err
    return DecodeError(f"{what}: {error_text(err)}")


def _encode_error(err: Exception) -> EncodeError:
    if str(err).startswith("recursion limit exceeded"):  # as msgpack has it, in some versions with a full stop
        return EncodeError("cannot be written as MessagePack: nested too deeply")
    return EncodeError(_decode_error("cannot be written as MessagePack", err).args[0])


def _check_complete(data: bytes) -> None:
    """Arrays are allocated at their announced length: hundreds of nested false lengths would cost gigabytes."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(data)
    unpacker.skip()


def encode_envelope(
    job_id: str, payload: bytes, created_at_ms: int, attempt: int = 0, retry: JobRetryOverride | None = None
) -> bytes:
    """A job's envelope around a payload that is MessagePack already."""
    fields = [job_id, payload, created_at_ms, attempt]
    if retry is not None:
        fields.append(_retry_fields(retry))
    return bytes(_pack(fields))


def encode_payloads(values: Iterable[Any]) -> list[bytes]:
    """Like `encode_payload` for each, with one packer, which is twice as fast."""
    pack = msgpack.Packer(default=plain_value).pack
    try:
        return [pack(value) for value in values]
    except Exception as err:
        raise _encode_error(err) from err


def encode_envelopes(job_ids: Iterable[str], payloads: Iterable[bytes], created_at_ms: int) -> list[bytes]:
    """Like `encode_envelope` for each new job without its own retries, with one packer."""
    pack = msgpack.Packer().pack
    return [pack([job_id, payload, created_at_ms, 0]) for job_id, payload in zip(job_ids, payloads, strict=True)]


class JobEncoder:
    """Encodes many jobs, one by one, with one packer. For one thread at a time."""

    def __init__(self) -> None:
        self._pack = msgpack.Packer(default=plain_value).pack

    def encode(self, job_id: str, value: Any, created_at_ms: int, retry: JobRetryOverride | None) -> bytes:
        """The envelope of a new job around a user's value."""
        pack = self._pack
        try:
            payload = value if type(value) is Packed else pack(value)
        except Exception as err:
            raise _encode_error(err) from err
        envelope: bytes
        if retry is None:
            envelope = pack([job_id, payload, created_at_ms, 0])
        else:
            envelope = pack([job_id, payload, created_at_ms, 0, _retry_fields(retry)])
        return envelope


def encode_job(job: Job) -> bytes:
    """A job's envelope; its name is not part of it."""
    return encode_envelope(job.id, encode_payload(job.payload), job.created_at_ms, job.attempt, job.retry)


def decode_job(envelope: bytes, name: str = "", unpack: Callable[[bytes], Any] = decode_payload) -> Job:
    """The job in an envelope. A payload that a typed Rust producer wrote inline is accepted as well."""
    fields = decode_payload(envelope)
    if type(fields) is not list or len(fields) < _ENVELOPE_FIELDS:
        raise DecodeError(f"an envelope is an array of {_ENVELOPE_FIELDS} or more, got {_shape(fields)}")
    job_id, payload, created_at_ms, attempt, *rest = fields
    if type(job_id) is not str:
        raise DecodeError(f"an envelope's id is text, got {_shape(job_id)}")
    # Both are repeated in keys and events. Measured in characters, because that costs nothing.
    if len(job_id) > MAX_JOB_ID_BYTES or len(name) > MAX_JOB_NAME_BYTES:
        raise DecodeError(
            f"a job's id takes up to {MAX_JOB_ID_BYTES} and its name up to {MAX_JOB_NAME_BYTES}, "
            f"got {len(job_id)} and {len(name)}"
        )
    if type(created_at_ms) is not int or not 0 <= created_at_ms <= _MOST_MS:
        raise DecodeError("an envelope's created_at_ms is a whole number of up to 64 bits")
    if type(attempt) is not int or not 0 <= attempt <= MOST_ATTEMPTS:
        raise DecodeError("an envelope's attempt is a whole number of up to 32 bits")
    return Job(
        id=job_id,
        payload=unpack(payload) if type(payload) is bytes else payload,
        created_at_ms=created_at_ms,
        attempt=attempt,
        retry=_decode_retry(rest[0]) if rest else None,
        name=name,
    )


def decode_id(envelope: bytes) -> str | None:
    """Only the id; None if it is missing or unreadable."""
    unpacker = msgpack.Unpacker(max_buffer_size=_ID_BYTES, max_array_len=0, max_map_len=0, max_ext_len=0)
    unpacker.feed(envelope[:_ID_BYTES])
    try:
        unpacker.read_array_header()
        job_id = unpacker.unpack()
    except Exception:  # noqa: BLE001 - after any error there is no id
        return None
    return job_id if isinstance(job_id, str) else None


def with_attempt(envelope: bytes, attempt: int) -> bytes:
    """The same envelope with another attempt count; every other byte stays as its producer wrote it."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(envelope)
    try:
        length = unpacker.read_array_header()
        for _ in range(_ENVELOPE_FIELDS - 1):
            unpacker.skip()
        start = unpacker.tell()
        unpacker.skip()
        end = unpacker.tell()
    except Exception as err:
        raise _decode_error("not an envelope", err) from err
    if length < _ENVELOPE_FIELDS:
        raise DecodeError(f"an envelope is an array of {_ENVELOPE_FIELDS} or more, got one of {length}")
    return envelope[:start] + bytes(_pack(attempt)) + envelope[end:]


def _retry_fields(retry: JobRetryOverride) -> list[Any]:
    backoff = retry.backoff
    if backoff is None:
        return [retry.max_attempts, None]
    multiplier = None if backoff.multiplier is None else float(backoff.multiplier)
    fields = [str(backoff.kind), backoff.delay_ms, backoff.max_delay_ms, multiplier, backoff.jitter_ms]
    return [retry.max_attempts, fields]


def _decode_retry(fields: Any) -> JobRetryOverride | None:
    """Fields after the known ones are a newer producer's, and ignored."""
    if fields is None:
        return None
    if not isinstance(fields, list) or len(fields) < 2:
        raise DecodeError(f"an envelope's retry is [max_attempts, backoff], got {_shape(fields)}")
    max_attempts, backoff = fields[:2]
    if backoff is not None and (not isinstance(backoff, list) or len(backoff) < 2):
        raise DecodeError(f"a retry's backoff is [kind, delay_ms, …], got {_shape(backoff)}")
    try:
        spec = None if backoff is None else BackoffSpec(str(backoff[0]), *backoff[1:_BACKOFF_FIELDS])
        return JobRetryOverride(max_attempts, spec)
    except Exception as err:  # any value may be in place of a number, even one nested too deeply to show
        raise _decode_error("an envelope's retry is out of range", err) from err


def _shape(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, list) else type(value).__name__


def encode_delayed(name: str, envelope: bytes) -> bytes:
    """A member of the delayed set: the name's length, the name, the envelope."""
    text = name.encode()
    return _U32.pack(len(text)) + text + envelope


def decode_delayed(member: bytes) -> tuple[str, bytes]:
    """Name and envelope of a delayed member."""
    if len(member) < _U32.size:
        raise DecodeError("a delayed member begins with the length of its name")
    end = _U32.size + _U32.unpack_from(member)[0]
    if end > len(member):
        raise DecodeError("a delayed member is shorter than the name it announces")
    return member[_U32.size : end].decode(errors="replace"), member[end:]


def encode_failure(reason: str, detail: str | None, attempt: int, traceback: str = "") -> bytes:
    """The failure record of a dead job, for waiters; with the traceback of its last run, if one failed."""
    return bytes(_pack([reason, detail, attempt, traceback] if traceback else [reason, detail, attempt]))


def is_drop_record(data: bytes) -> bool:
    """Whether a failure record is of a job that ended without a dead letter: its detail is nil, only theirs is."""
    try:
        return decode_failure(data)[1] is None
    except DecodeError:
        return False


def decode_failure(data: bytes) -> tuple[str, str | None, int]:
    """Reason, detail and runs made of a dead job."""
    fields = decode_payload(data)
    match fields:
        case [str(reason), str() | None as detail, int(attempt), *_] if not isinstance(attempt, bool):
            return reason, detail, attempt
    raise DecodeError(f"a failure record is [reason, detail, attempt], got {_shape(fields)}")


def decode_traceback(data: bytes) -> str | None:
    """The traceback in a failure record; None if it has none, or cannot be read."""
    try:
        fields = decode_payload(data)
    except DecodeError:
        return None
    match fields:
        case [_, _, _, str(text), *_]:
            # Other programs may have written any length.
            return text[:MAX_TRACEBACK_BYTES]
    return None
