"""The values that travel: a job, its options, and its dead letter."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.durations import Expires, expiry_ms
from chasqui_engine.values.errors import ConfigError, EncodeError
from chasqui_engine.values.headers import check_headers
from chasqui_engine.values.ids import mint_id
from chasqui_engine.values.validation import (
    check_job_id,
    check_job_name,
    check_seconds,
    check_whole_number,
    warn_of_no_effect,
)

JobId = str
"""A job's id: a minted ULID, or whatever text its producer chose."""

ResultWaiter = Callable[[JobId, float], Awaitable[Any]]


class JobReports(Protocol):
    """Receives a handler's reports about its job, from any thread."""

    def progress(self, job_id: JobId, name: str, progress: str, /) -> None:
        """The progress, as JSON."""

    def log(self, job_id: JobId, name: str, line: str, /) -> None:
        """A line of the job's log."""


DEFAULT_WAIT_S = 30.0
_POLL_INTERVAL_S = 0.1
MOST_ATTEMPTS = 2**32 - 1
"""The largest count of runs on the wire."""
MOST_PRIORITY = 2**21 - 1
"""The last of all priorities, as in BullMQ."""
MAX_PROGRESS_CHARS = 4000
"""Longest progress as JSON: every subscriber reads it."""
MAX_LOG_LINE_BYTES = 4096
"""Longest line of a job's log; longer lines are cut."""
MAX_TRACEBACK_BYTES = 4096
"""Longest traceback kept of a dead job, in UTF-8; of longer ones the middle is cut out."""
NOT_ABORTED, ABORT_ASKED, ABORT_TOLD = 0, 1, 2
"""Whether a job is to be aborted, and whether its handler knows: it was cancelled, or has seen `Job.aborting`."""


class _NothingToAwait:
    """Lets `update_progress` and `log` be awaited, or not: there is nothing to wait for."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_NOTHING_TO_AWAIT = _NothingToAwait()


@dataclass(frozen=True, slots=True)
class JobRetryOverride:
    """A job's own limits; None values come from the worker."""

    max_attempts: int | None = None
    """Total runs, the first included."""
    backoff: BackoffSpec | None = None
    """Delay between them."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            check_whole_number(self.max_attempts, "max_attempts", most=MOST_ATTEMPTS)
        if self.backoff is not None and not isinstance(self.backoff, BackoffSpec):
            raise ConfigError(f"backoff must be a BackoffSpec, got {type(self.backoff).__name__}")

    def with_own_maximum(self) -> JobRetryOverride:
        """The same limits, with a delay that the default maximum of workers does not cut."""
        return self if self.backoff is None else replace(self, backoff=self.backoff.with_own_maximum())


# Not frozen, unlike every other value: freezing costs a microsecond, a tenth of a job's total cost.
@dataclass(slots=True, kw_only=True)
class Job:
    """One piece of work. The same value on both sides: a queue returns it, a handler is given it."""

    id: JobId
    """Minted when it was added, or the producer's own."""
    payload: Any
    """The producer's data: anything MessagePack can hold."""
    created_at_ms: int
    """When it was added, by the producer's clock."""
    attempt: int = 0
    """Runs already made: 0 on the first."""
    retry: JobRetryOverride | None = None
    """Its own limits; None leaves them to the worker."""
    name: str = ""
    """What kind of job it is: which handler it is for."""
    headers: dict[str, str] = field(default_factory=dict)
    """What its producer gave it to travel with: texts by name."""
    priority: int = 0
    """0, or none, is the first; of others the smaller is first."""
    deliveries: int = field(default=0, compare=False)
    """How many workers went silent during this run: the handler's work may already have been done."""
    _wait: ResultWaiter | None = field(default=None, repr=False, compare=False)
    _reports: JobReports | None = field(default=None, repr=False, compare=False)
    _abort: int = field(default=NOT_ABORTED, repr=False, compare=False)
    _in_thread: bool = field(default=False, repr=False, compare=False)

    @staticmethod
    def new(payload: Any, *, name: str = "", retry: JobRetryOverride | None = None) -> Job:
        """A job created now, with a fresh id."""
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

    @property
    def aborting(self) -> bool:
        """Whether the job is to be aborted, which a handler in a thread looks at and then ends: see `Queue.abort`.

        Handlers in the event loop are cancelled, and processes killed, so that these need not look.
        """
        if self._abort:
            self._abort = ABORT_TOLD
        return self._abort != NOT_ABORTED

    def update_progress(self, progress: Any) -> Awaitable[None]:
        """Emits how far the handler is as an event of the queue: a number, or anything JSON can hold.

        From plain handlers as well as from `async` ones, where it may be awaited. It returns at once and never fails
        because of the server: like every event, it is lost rather than hold up a job. A handler that runs in a process
        of its own (`run_plain_in="process"`) only logs it: there is no event.
        """
        if self._reports is None:
            raise RuntimeError("update_progress needs a job that a handler was given, not one that a queue returned")
        try:
            text = json.dumps(progress, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as err:
            raise EncodeError(f"a progress must be something JSON can hold: {err}") from err
        if len(text) > MAX_PROGRESS_CHARS:
            raise EncodeError(f"a progress takes up to {MAX_PROGRESS_CHARS} characters as JSON, got {len(text)}")
        self._reports.progress(self.id, self.name, text)
        return _NOTHING_TO_AWAIT

    def log(self, line: str) -> Awaitable[None]:
        """Appends a line to the job's log, which `Queue.get_job_logs` reads. The log keeps about the last 1,000 lines,
        for as long as a result is kept; a line has up to 4,096 bytes, and what is longer is cut.

        From plain handlers as well as from `async` ones, where it may be awaited. It returns at once and never fails
        because of the server; lines are written before the job ends. A handler that runs in a process of its own
        (`run_plain_in="process"`) logs to that process's log instead.
        """
        if self._reports is None:
            raise RuntimeError("log needs a job that a handler was given, not one that a queue returned")
        if not isinstance(line, str):
            raise ConfigError(f"a line of a job's log must be text, got {type(line).__name__}")
        self._reports.log(self.id, self.name, _cut(line))
        return _NOTHING_TO_AWAIT

    async def wait_for_result(self, *, timeout: float = DEFAULT_WAIT_S, poll_interval: float = _POLL_INTERVAL_S) -> Any:
        """Waits for the return value of the handler.

        Raises `JobFailedError` when the job died, `ResultUnavailableError` when it completed without a stored
        result, `TimeoutError` after `timeout` seconds. `poll_interval` has no effect: all waiters of a queue share
        one subscription.
        """
        if self._wait is None:
            raise RuntimeError("wait_for_result needs a job that a queue returned, not one that a handler was given")
        check_seconds(timeout, "timeout")
        check_seconds(poll_interval, "poll_interval")
        if poll_interval != _POLL_INTERVAL_S:
            warn_of_no_effect("poll_interval", "results are pushed, not polled for; leave it out")
        return await self._wait(self.id, timeout)


def _cut(line: str) -> str:
    # A lone surrogate cannot be sent.
    return line[:MAX_LOG_LINE_BYTES].encode(errors="replace")[:MAX_LOG_LINE_BYTES].decode(errors="ignore")


class Moment(NamedTuple):
    """When a job runs: after a delay by the server's clock, or at a point in time."""

    relative: bool
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """The options of an added job."""

    id: JobId | None = None
    """A stable id: adding it again is a no-op, from any process."""
    retry: JobRetryOverride | None = None
    name: str = ""
    headers: Mapping[str, str] | None = None
    """Texts that travel with the job, over retries and replays: `Job.headers`."""
    expires: Expires | None = None
    """A `timedelta` or seconds from now, or a `datetime`: a job that has not begun by then expires, without a run."""
    priority: int = 0
    """0 is the first; one of 1 to 2,097,151 waits until no job of a smaller one does."""
    has_headers: bool = field(init=False, repr=False, compare=False, default=False)
    """Whether anything travels with the job beside its envelope."""

    def __post_init__(self) -> None:
        if self.id is not None:
            check_job_id(self.id)
        if self.retry is not None and not isinstance(self.retry, JobRetryOverride):
            raise ConfigError(f"retry must be a JobRetryOverride, got {type(self.retry).__name__}")
        check_job_name(self.name)
        check_whole_number(self.priority, "priority", most=MOST_PRIORITY)
        if self.headers is not None:
            object.__setattr__(self, "headers", check_headers(self.headers))
            object.__setattr__(self, "has_headers", bool(self.headers))
        if self.expires is not None:
            expiry_ms(self.expires, 0)
            object.__setattr__(self, "has_headers", True)
        if self.retry is not None:
            # The job must carry the maximum: otherwise the worker's default, which is lower, applies.
            object.__setattr__(self, "retry", self.retry.with_own_maximum())


PLAIN = AddOptions()
"""Whether all options have their defaults."""

Addition = tuple[Any, AddOptions]
"""A payload and its options."""


_REASON_CODES = {
    "retries_exhausted": "CMQ-020",
    "decode_failed": "CMQ-021",
    "malformed": "CMQ-022",
    "oversize_payload": "CMQ-023",
    "unrecoverable": "CMQ-024",
    "expired": "CMQ-303",
}
DLQ_REASONS = tuple(_REASON_CODES)
"""The values of `DlqReason.kind`."""


@dataclass(frozen=True, slots=True)
class DlqReason:
    """Why a job was buried: one of six kinds, and the details."""

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

    @staticmethod
    def expired(detail: str | None = None) -> DlqReason:
        """It had not begun in time, and its worker keeps such jobs."""
        return DlqReason("expired", detail)

    def as_str(self) -> str:
        """The word on the wire."""
        return self.kind

    @property
    def code(self) -> str:
        """The stable code of the reason, `CMQ-020` to `CMQ-024`; of `expired`, `CMQ-303`."""
        return _REASON_CODES.get(self.kind, "CMQ-000")


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqEntry:
    """A dead job in the dead-letter stream."""

    dlq_id: str
    """Stream id in the dead-letter queue."""
    source_id: str
    """Stream id it had in the queue."""
    reason: str
    detail: str | None
    """Type and text of the error; None if the engine that buried it did not store them."""
    payload: bytes
    """The envelope, as it was."""
    name: str
