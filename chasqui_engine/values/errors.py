"""Every error the engine raises, each with a stable code.

CMQ-001 to CMQ-299 are ChasquiMQ's numbers, and mean here what they mean there; what it has no number for is CMQ-3xx.

ChasquiError               a RuntimeError, as every error of ChasquiMQ's engine is
├── RedisError             CMQ-001  the server is unreachable or refused a command
│   └── RefusedError       CMQ-314  … and will again: login, permission, certificate, a key of another type
├── EncodeError            CMQ-002  a payload or result cannot be written as MessagePack or JSON (also a TypeError)
├── DecodeError            CMQ-003  bytes on the wire are not what they should be (also a ValueError)
├── ConfigError            CMQ-004  an argument is out of range (also a ValueError)
├── ShutdownError          CMQ-005  the object was closed, or stopped before the work was done
├── NotSupportedError      CMQ-200  asked for what this engine does not do
├── QueueBusyError         CMQ-300  jobs are running, and what was asked for would take them away
├── QueueFullError         CMQ-310  max_stream_len is reached; nothing was written
├── JobFailedError         CMQ-311  the job that was waited for is dead (see `reason`)
│   ├── JobAbortedError    CMQ-302  … was aborted
│   └── JobExpiredError    CMQ-303  … expired before it began
├── ResultUnavailableError CMQ-312  the job completed, but its result is not in Redis
├── JobTimeoutError        CMQ-313  a handler ran longer than its time limit (also a TimeoutError)
└── HandlerError           CMQ-010  what a handler raises to have its job retried
    └── UnrecoverableError CMQ-011  … to have it buried at once

`values.retry_later` adds `RetryLater` (CMQ-301), which a handler raises to have its job run later, and
`values.batch_error` `BatchError` (CMQ-304), with which a batch handler fails some of its jobs.
`chasqui_engine.spark` adds `DataLossError` (CMQ-315) and `NotRepeatableError` (CMQ-316).
"""

from __future__ import annotations

from typing import Self


def error_text(err: BaseException) -> str:
    """The text of an error, or its type if it has none; `err or …` would not work, because errors are always true."""
    return str(err) or type(err).__name__


class ChasquiError(RuntimeError):
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

    code = "CMQ-314"


class EncodeError(ChasquiError, TypeError):
    """A value cannot be written as MessagePack, or as JSON within the bounds asked for."""

    code = "CMQ-002"


class DecodeError(ChasquiError, ValueError):
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

    code = "CMQ-310"


class JobFailedError(ChasquiError):
    """The job will not complete: it is in the dead-letter queue, or one of the subclasses says what became of it.

    `reason` and `detail` say why; `traceback` is that of its last run, as text, if a run failed and it is still kept.
    """

    code = "CMQ-311"

    def __init__(
        self, job_id: str, reason: str, detail: str | None, attempt: int, traceback: str | None = None
    ) -> None:
        self.job_id = job_id
        self.reason = reason
        self.detail = detail
        self.attempt = attempt
        self.traceback = traceback
        super().__init__(f"job {job_id} {self._fate()}{f': {detail}' if detail else ''}")

    def _fate(self) -> str:
        return f"died after {self.attempt} run(s) ({self.reason})"

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str | None, int, str | None]]:
        return type(self), (self.job_id, self.reason, self.detail, self.attempt, self.traceback)


class JobAbortedError(JobFailedError):
    """The job was aborted: stopped while it ran, or taken away before."""

    code = "CMQ-302"

    def _fate(self) -> str:
        return f"was aborted after {self.attempt} run(s)" if self.attempt else "was aborted before it ran"


class JobExpiredError(JobFailedError):
    """The job did not begin in time, and will not."""

    code = "CMQ-303"

    def _fate(self) -> str:
        return "expired before it began"


_FAILURES: dict[str, type[JobFailedError]] = {"aborted": JobAbortedError, "expired": JobExpiredError}


def job_failure(
    job_id: str, reason: str, detail: str | None, attempt: int, traceback: str | None = None
) -> JobFailedError:
    """The error for those who wait for a job that will not complete."""
    return _FAILURES.get(reason, JobFailedError)(job_id, reason, detail, attempt, traceback)


class ResultUnavailableError(ChasquiError):
    """The job completed, but no result is stored, or it has expired."""

    code = "CMQ-312"


class NotSupportedError(ChasquiError):
    """The engine does not support this."""

    code = "CMQ-200"


class QueueBusyError(ChasquiError):
    """Jobs of the queue are running. Nothing was deleted."""

    code = "CMQ-300"


class JobTimeoutError(ChasquiError, TimeoutError):
    """The handler ran longer than its time limit. Counts as a failure and is retried."""

    code = "CMQ-313"


class HandlerError(ChasquiError):
    """Raise it from a handler to fail the job with a cause: `raise HandlerError(err)`."""

    code = "CMQ-010"

    def __init__(self, err: object = "") -> None:
        super().__init__(err)
        self.err = err
        if isinstance(err, BaseException):
            self.__cause__ = err

    def __str__(self) -> str:
        return str(self.err)

    @property
    def is_unrecoverable(self) -> bool:
        """Whether it buries the job at once."""
        return isinstance(self, UnrecoverableError)

    @staticmethod
    def unrecoverable(err: object = "") -> UnrecoverableError:
        """An error that buries the job at once, whatever attempts are left."""
        return UnrecoverableError(err)


class UnrecoverableError(HandlerError):
    """Raise it, or a subclass, from a handler to bury the job at once."""

    code = "CMQ-011"
