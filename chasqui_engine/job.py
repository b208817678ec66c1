"""The values that travel: a job, what it was added with, and what is left when it dies."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

from chasqui_engine.backoff import BackoffSpec
from chasqui_engine.clock import now_ms
from chasqui_engine.errors import ConfigError, EncodeError
from chasqui_engine.ids import mint_id
from chasqui_engine.validation import check_job_id, check_job_name

JobId = str
"""A job's id: a minted ULID, or whatever text its producer chose."""

ResultWaiter = Callable[[JobId, float], Awaitable[Any]]

ProgressTeller = Callable[[JobId, str, str], None]
"""Takes a job's id, its name, and how far it is, as JSON."""

DEFAULT_WAIT_S = 30.0
_MOST_ATTEMPTS = 2**32 - 1
"""What the counter of runs can hold on the wire."""
MAX_PROGRESS_CHARS = 4000
"""Of a progress, as JSON: every subscriber reads it."""


class _Told:
    """Lets `update_progress` be awaited, or not: there is nothing to wait for."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_TOLD = _Told()


@dataclass(frozen=True, slots=True)
class JobRetryOverride:
    """A job's own limits; what is left None comes from the worker."""

    max_attempts: int | None = None
    """Runs in all, the first included."""
    backoff: BackoffSpec | None = None
    """Delay between them."""

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        if attempts is not None and (type(attempts) is not int or not 0 <= attempts <= _MOST_ATTEMPTS):
            raise ConfigError(f"max_attempts must be a whole number from 0 to {_MOST_ATTEMPTS}, got {attempts!r}")
        if self.backoff is not None and not isinstance(self.backoff, BackoffSpec):
            raise ConfigError(f"backoff must be a BackoffSpec, got {type(self.backoff).__name__}")


# Not frozen, unlike every other value: freezing it costs a microsecond, a tenth of what a job costs in all.
@dataclass(slots=True, kw_only=True)
class Job:
    """One piece of work. The same value on both sides: a queue returns it, a handler is given it."""

    id: JobId
    """Minted when it was added, or the producer's own."""
    payload: Any
    """What the producer passed: anything MessagePack can hold."""
    created_at_ms: int
    """When it was added, by the producer's clock."""
    attempt: int = 0
    """Runs already made: 0 on the first."""
    retry: JobRetryOverride | None = None
    """Its own limits; None leaves them to the worker."""
    name: str = ""
    """What kind of job it is: which handler it is for."""
    deliveries: int = field(default=0, compare=False)
    """Workers that had it before, in this run, and went silent: whatever a handler does may have been done already."""
    _wait: ResultWaiter | None = field(default=None, repr=False, compare=False)
    _tell: ProgressTeller | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def new(payload: Any, *, name: str = "", retry: JobRetryOverride | None = None) -> Job:
        """A job of now, with a fresh id."""
        return Job(id=mint_id(), payload=payload, created_at_ms=now_ms(), retry=retry, name=check_job_name(name))

    def with_id(self, job_id: JobId) -> Job:
        """The same job under another id."""
        return replace(self, id=check_job_id(job_id))

    def with_retry(self, retry: JobRetryOverride | None) -> Job:
        """The same job with its own retry limits."""
        return replace(self, retry=retry)

    def with_name(self, name: str) -> Job:
        """The same job under another name."""
        return replace(self, name=check_job_name(name))

    @property
    def data(self) -> Any:
        """The payload."""
        return self.payload

    @property
    def attempts_made(self) -> int:
        """Runs already made; the same as `attempt`."""
        return self.attempt

    def update_progress(self, progress: Any) -> Awaitable[None]:
        """Says how far the handler is, to whoever follows the queue's events: a number, or anything JSON can hold.

        From plain handlers as well as from `async` ones, where it may be awaited. It returns at once and never fails
        because of the server: like every event, it is lost rather than hold up a job. A handler that runs in a process
        of its own (`run_plain_in="process"`) tells the log only: nobody who follows the events hears of it.
        """
        if self._tell is None:
            raise RuntimeError("update_progress needs a job that a handler was given, not one that a queue returned")
        try:
            text = json.dumps(progress, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as err:
            raise EncodeError(f"a progress must be something JSON can hold: {err}") from err
        if len(text) > MAX_PROGRESS_CHARS:
            raise EncodeError(f"a progress takes up to {MAX_PROGRESS_CHARS} characters as JSON, got {len(text)}")
        self._tell(self.id, self.name, text)
        return _TOLD

    async def wait_for_result(self, *, timeout: float = DEFAULT_WAIT_S, poll_interval: float = 0.1) -> Any:
        """What the handler returned, as soon as it is there.

        Raises `JobFailedError` when the job died, `ResultUnavailableError` when it completed without a stored
        result, `TimeoutError` after `timeout` seconds. All waiters of a queue share one subscription, so
        `poll_interval` is accepted for compatibility and decides nothing.
        """
        if self._wait is None:
            raise RuntimeError("wait_for_result needs a job that a queue returned, not one that a handler was given")
        for name, value in (("timeout", timeout), ("poll_interval", poll_interval)):
            if not value > 0:
                raise ConfigError(f"{name} must be a positive number of seconds, got {value!r}")
        return await self._wait(self.id, timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """What an add may say about its job."""

    id: JobId | None = None
    """A stable id: adding it again is a no-op, from any process."""
    retry: JobRetryOverride | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.id is not None:
            check_job_id(self.id)
        if self.retry is not None and not isinstance(self.retry, JobRetryOverride):
            raise ConfigError(f"retry must be a JobRetryOverride, got {type(self.retry).__name__}")
        check_job_name(self.name)


_REASON_CODES = {
    "retries_exhausted": "CMQ-020",
    "decode_failed": "CMQ-021",
    "malformed": "CMQ-022",
    "oversize_payload": "CMQ-023",
    "unrecoverable": "CMQ-024",
}


@dataclass(frozen=True, slots=True)
class DlqReason:
    """Why a job was buried: one of five words, and what went wrong in particular."""

    kind: str
    detail: str | None = None

    @staticmethod
    def retries_exhausted(detail: str | None = None) -> DlqReason:
        """Every attempt failed."""
        return DlqReason("retries_exhausted", detail)

    @staticmethod
    def decode_failed(detail: str | None = None) -> DlqReason:
        """The envelope or payload is not MessagePack of the right shape."""
        return DlqReason("decode_failed", detail)

    @staticmethod
    def malformed(detail: str | None = None) -> DlqReason:
        """The stream entry lacks the field that holds the job."""
        return DlqReason("malformed", detail)

    @staticmethod
    def oversize_payload(detail: str | None = None) -> DlqReason:
        """The envelope is larger than the worker accepts."""
        return DlqReason("oversize_payload", detail)

    @staticmethod
    def unrecoverable(detail: str | None = None) -> DlqReason:
        """The handler said that no retry can help."""
        return DlqReason("unrecoverable", detail)

    def as_str(self) -> str:
        """The word on the wire."""
        return self.kind

    @property
    def code(self) -> str:
        """The stable code of the reason, `CMQ-020` to `CMQ-024`."""
        return _REASON_CODES.get(self.kind, "CMQ-000")


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqEntry:
    """A dead job as it lies in the dead-letter stream."""

    dlq_id: str
    """Stream id in the dead-letter queue."""
    source_id: str
    """Stream id it had in the queue."""
    reason: str
    detail: str | None
    """Type and text of the error; None where the engine that buried it did not say."""
    payload: bytes
    """The envelope, as it was."""
    name: str
