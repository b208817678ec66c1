"""Every error the engine raises, each with a stable code.

ChasquiError
├── RedisError             CMQ-001  the server is unreachable or refused a command
│   └── RefusedError       CMQ-012  … and will again: login, permission, certificate, a key of another type
├── EncodeError            CMQ-002  a payload or result cannot be written as MessagePack or JSON
├── DecodeError            CMQ-003  bytes on the wire are not what they should be
├── ConfigError            CMQ-004  an argument is out of range (also a ValueError)
├── ShutdownError          CMQ-005  the object was closed, or stopped before the work was done
├── QueueFullError         CMQ-006  max_stream_len is reached; nothing was written
├── JobFailedError         CMQ-007  the job that was waited for is dead (see `reason`)
├── ResultUnavailableError CMQ-008  the job completed, but its result is not in Redis
├── NotSupportedError      CMQ-009  asked for what this engine does not do
├── JobTimeoutError        CMQ-010  a handler ran longer than its time limit
├── QueueBusyError         CMQ-300  jobs are running, and what was asked for would take them away
└── HandlerError           CMQ-011  what a handler raises to have its job retried
    └── UnrecoverableError CMQ-024  … to have it buried at once

`values.retry_later` adds `RetryLater` (CMQ-301), which a handler raises to have its job run later.
`chasqui_engine.spark` adds `DataLossError` (CMQ-030) and `NotRepeatableError` (CMQ-031).
"""

from __future__ import annotations

from typing import Self


def error_text(err: BaseException) -> str:
    """The text of an error, or its type if it has none; `err or …` would not work, because errors are always true."""
    return str(err) or type(err).__name__


class ChasquiError(Exception):
    """The root of every error of this package; `code` never changes between releases."""

    code = "CMQ-000"

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class RedisError(ChasquiError):
    """The server cannot be reached, or answered a command with an error."""

    code = "CMQ-001"
    is_reply = False
    """Whether the server answered a command with this error; False where no answer came."""


class RefusedError(RedisError):
    """The server refuses this client or command, and waiting does not help.

    A login, a permission, a certificate, or a key of another type.
    """

    code = "CMQ-012"


class EncodeError(ChasquiError):
    """A value cannot be written as MessagePack, or as JSON within the bounds asked for."""

    code = "CMQ-002"


class DecodeError(ChasquiError):
    """Bytes read from Redis are not what the wire format says."""

    code = "CMQ-003"


class ConfigError(ChasquiError, ValueError):
    """A setting or argument is out of range; the message names it."""

    code = "CMQ-004"


class ShutdownError(ChasquiError):
    """The object is closed."""

    code = "CMQ-005"


class QueueFullError(ChasquiError):
    """`max_stream_len` is reached. Nothing of the call was written."""

    code = "CMQ-006"


class JobFailedError(ChasquiError):
    """The job is in the dead-letter queue; `reason` and `detail` say why."""

    code = "CMQ-007"

    def __init__(self, job_id: str, reason: str, detail: str | None, attempt: int) -> None:
        self.job_id = job_id
        self.reason = reason
        self.detail = detail
        self.attempt = attempt
        what = f": {detail}" if detail else ""
        super().__init__(f"job {job_id} died after {attempt} run(s) ({reason}){what}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str | None, int]]:
        return type(self), (self.job_id, self.reason, self.detail, self.attempt)


class ResultUnavailableError(ChasquiError):
    """The job completed, but no result is stored, or it has expired."""

    code = "CMQ-008"


class NotSupportedError(ChasquiError, RuntimeError):
    """The engine does not support this."""

    code = "CMQ-009"


class QueueBusyError(ChasquiError, RuntimeError):
    """Jobs of the queue are running. Nothing was deleted."""

    code = "CMQ-300"


class JobTimeoutError(ChasquiError, TimeoutError):
    """The handler ran longer than its time limit. Counts as a failure and is retried."""

    code = "CMQ-010"


class HandlerError(ChasquiError, RuntimeError):
    """Raise it from a handler to fail the job with a cause: `raise HandlerError(err)`."""

    code = "CMQ-011"

    def __init__(self, err: object = "") -> None:
        super().__init__(err)
        self.err = err
        if isinstance(err, BaseException):
            self.__cause__ = err

    def __str__(self) -> str:
        return str(self.err)

    @staticmethod
    def unrecoverable(err: object = "") -> UnrecoverableError:
        """An error that buries the job at once, whatever attempts are left."""
        return UnrecoverableError(err)


class UnrecoverableError(HandlerError):
    """Raise it, or a subclass, from a handler to bury the job at once."""

    code = "CMQ-024"
