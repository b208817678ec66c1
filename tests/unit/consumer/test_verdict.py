"""What becomes of a failed job, decided as a value."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine.codec.envelope import decode_failure, encode_envelope
from chasqui_engine.consumer.verdict import (
    MAX_DETAIL_CHARS,
    MAX_ERROR_CHARS,
    Bury,
    Retry,
    allowed_runs,
    brief,
    describe,
    judge_arrival,
    judge_failure,
    must_be_counted,
    runs_begun,
)
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.backoff import BackoffSpec, RetryConfig
from chasqui_engine.values.config import ConsumerConfig
from chasqui_engine.values.errors import EncodeError, HandlerError, JobTimeoutError, UnrecoverableError
from chasqui_engine.values.job import Job, JobRetryOverride

RETRY = RetryConfig(initial_backoff_ms=100, multiplier=2.0, max_backoff_ms=1000, jitter_ms=0)


DELIVERY = Delivery(b"1-0", encode_envelope("a", b"\xc0", 1), "n", 0, 0.0)


def job(override: JobRetryOverride | None = None) -> Job:
    return Job.new("x", retry=override)


def config(max_attempts: int = 25, **settings: Any) -> ConsumerConfig:
    return ConsumerConfig(max_attempts=max_attempts, retry=RETRY, **settings)


def judge(attempt: int, error: BaseException, max_attempts: int, override: JobRetryOverride | None = None) -> Any:
    return judge_failure(DELIVERY, job(override), attempt, error, 7, config(max_attempts))


class OwnUnrecoverableError(UnrecoverableError):
    pass


@pytest.mark.parametrize(("attempt", "backoff_ms"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (50, 1000)])
def test_retries_wait_longer_and_longer(attempt: int, backoff_ms: int) -> None:
    verdict = judge(attempt, ValueError("boom"), 100)
    assert isinstance(verdict, Retry)
    assert (verdict.backoff_ms, verdict.attempt, verdict.error) == (backoff_ms, attempt, "boom")


@pytest.mark.parametrize("attempt", [3, 4])
def test_the_last_run_buries(attempt: int) -> None:
    verdict = judge(attempt, ValueError("boom"), 3)
    assert isinstance(verdict, Bury)
    assert (verdict.reason, verdict.detail, verdict.error) == ("retries_exhausted", "ValueError: boom", "boom")
    assert decode_failure(verdict.failure) == ("retries_exhausted", "ValueError: boom", attempt)


@pytest.mark.parametrize(("own", "queue_wide", "allowed"), [(None, 3, 3), (5, 3, 5), (1, 3, 1), (0, 3, 0)])
def test_the_jobs_own_number_of_runs_counts(own: int | None, queue_wide: int, allowed: int) -> None:
    one = job(JobRetryOverride(max_attempts=own))
    assert allowed_runs(one, config(queue_wide)) == allowed
    assert allowed_runs(job(), config(queue_wide)) == queue_wide
    assert allowed_runs(one, config(queue_wide, relay=True)) == queue_wide


def test_the_jobs_own_backoff_counts() -> None:
    override = JobRetryOverride(backoff=BackoffSpec.fixed(7, jitter_ms=0))
    assert judge(2, ValueError(), 3, override).backoff_ms == 7


@pytest.mark.parametrize(
    "error", [UnrecoverableError("no"), OwnUnrecoverableError("no"), HandlerError.unrecoverable("no")]
)
def test_unrecoverable_buries_at_once(error: Exception) -> None:
    verdict = judge(1, error, 25)
    assert (verdict.reason, verdict.detail) == ("unrecoverable", f"{type(error).__name__}: no")


def test_a_result_that_cannot_be_written_will_not_be_written_next_time() -> None:
    verdict = judge(1, EncodeError("no"), 25)
    assert isinstance(verdict, Bury)
    assert verdict.reason == "unrecoverable"


@pytest.mark.parametrize("error", [HandlerError("x"), JobTimeoutError("x"), SystemExit(1), KeyboardInterrupt()])
def test_everything_else_is_retried(error: BaseException) -> None:
    assert judge(1, error, 3).backoff_ms == 100


@pytest.mark.parametrize(
    ("envelope", "deliveries", "reason", "detail"),
    [
        (None, 0, "malformed", "the entry has no field 'd'"),
        (b"\xc0" * 2000, 0, "oversize_payload", "2001 bytes, at most 1000 are accepted"),
        (b"\xc1", 0, "decode_failed", ""),
        (DELIVERY.envelope, 4, "retries_exhausted", "the last worker went silent before it was done"),
    ],
)
def test_what_arrives_and_cannot_run_is_buried(
    envelope: bytes | None, deliveries: int, reason: str, detail: str
) -> None:
    verdict = judge_arrival(Delivery(b"1-0", envelope, "n", deliveries, 0.0), config(3, max_payload_bytes=1000), now_ms)
    assert isinstance(verdict, Bury)
    assert verdict.reason == reason
    assert detail in verdict.detail
    assert verdict.duration_us is None


def test_what_arrives_and_can_run_is_a_job() -> None:
    arrived = judge_arrival(DELIVERY, config(), now_ms)
    assert isinstance(arrived, Job)
    assert (arrived.id, arrived.name, arrived.data) == ("a", "n", None)


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot say")


@pytest.mark.parametrize(
    ("error", "detail", "short"),
    [
        (ValueError("boom"), "ValueError: boom", "boom"),
        (ValueError(), "ValueError: ", "ValueError"),
        (KeyError("k"), "KeyError: 'k'", "'k'"),
        (HandlerError(OSError("disk")), "HandlerError: disk", "disk"),
        (ValueError("\ud800"), "ValueError: ?", "?"),
        (
            SpeechlessError(),
            "SpeechlessError: (its __str__ raised RuntimeError)",
            "(its __str__ raised RuntimeError)",
        ),
    ],
)
def test_what_is_said_of_an_error(error: Exception, detail: str, short: str) -> None:
    assert (describe(error), brief(error)) == (detail, short)


def test_what_is_said_has_an_end() -> None:
    error = ValueError("ä" * 1_000_000)
    assert len(describe(error)) == MAX_DETAIL_CHARS
    assert brief(error) == "ä" * MAX_ERROR_CHARS


@pytest.mark.parametrize(
    ("allowed", "attempt", "deliveries", "begun"),
    [
        (3, 0, 0, 0),
        (3, 0, 1, 1),  # it may have been begun: nobody waits for the count of a run that is not the last
        (3, 1, 1, 2),
        (3, 2, 1, 2),  # the last one would have been counted
        (3, 2, 2, 3),
        (1, 0, 0, 0),
        (1, 0, 1, 0),
        (1, 0, 2, 1),
    ],
)
def test_what_deliveries_say_about_runs(allowed: int, attempt: int, deliveries: int, begun: int) -> None:
    one = job()
    one.attempt = attempt
    assert runs_begun(one, deliveries, allowed) == begun


@pytest.mark.parametrize("allowed", [1, 2, 3, 25])
def test_runs_that_are_begun_are_as_many_as_allowed(allowed: int) -> None:
    """A job that kills every worker: each begins it once, and each but the first finds what the one before counted."""
    runs = deliveries = 0
    while runs_begun(job(), deliveries, allowed) < allowed:
        delivery = Delivery(b"1-0", b"", "", deliveries, 0.0)
        delivery.counted = must_be_counted(job(), deliveries, allowed)
        runs, deliveries = runs + 1, delivery.count
    assert runs == allowed
