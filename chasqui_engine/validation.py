"""What a queue, group, consumer, job name, job id or key of a repeatable may look like.

Names become parts of Redis keys, so a name must never be able to reach another queue's keys.
"""

from __future__ import annotations

from chasqui_engine.errors import ConfigError

MAX_QUEUE_NAME_BYTES = 200
MAX_JOB_NAME_BYTES = 256
MAX_JOB_ID_BYTES = 1024
MAX_REPEAT_KEY_BYTES = 1024
MAX_SPEC_BYTES = 1024 * 1024
"""Of a repeatable spec as it is stored, its payload included."""


def check_queue_name(name: str, field: str = "queue_name") -> str:
    """A queue, group or consumer name: printable, no braces (they delimit the cluster hash tag)."""
    _check_text(name, field, MAX_QUEUE_NAME_BYTES)
    if not name.strip():
        raise ConfigError(f"{field} must not be empty")
    if any(c in "{}" or not c.isprintable() for c in name):
        raise ConfigError(f"{field} must not contain braces or control characters, got {name!r}")
    return name


def check_job_name(name: str) -> str:
    """A job's name: any text up to 256 bytes; empty means none."""
    # Most names are ASCII, where a character is a byte: whatever is not has to be measured.
    if type(name) is str and name.isascii() and len(name) <= MAX_JOB_NAME_BYTES:
        return name
    return _check_text(name, "name", MAX_JOB_NAME_BYTES)


def check_job_id(job_id: str) -> str:
    """A job's id: any text with something to see in it, up to 1024 bytes."""
    _check_text(job_id, "job_id", MAX_JOB_ID_BYTES)
    if not job_id.strip():
        raise ConfigError("job_id must be a non-empty, non-whitespace string")
    return job_id


def check_repeat_key(key: str) -> str:
    """The key of a repeatable, given or made of its name and pattern: any text up to 1024 bytes."""
    return _check_text(key, "key", MAX_REPEAT_KEY_BYTES)


def _check_text(text: str, field: str, limit_bytes: int) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"{field} must be a string, got {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as err:
        raise ConfigError(f"{field} is not valid Unicode: {err.reason} at {err.start}") from err
    if size > limit_bytes:
        raise ConfigError(f"{field} must be at most {limit_bytes} bytes in UTF-8, got {size}")
    return text
