"""The values that travel with a job."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from chasqui_engine import AddOptions, BackoffSpec, ConfigError, DlqEntry, DlqReason, Job, JobRetryOverride
from chasqui_engine.runtime.clock import now_ms

RETRY = JobRetryOverride(7, BackoffSpec.fixed(100))


def test_a_new_job_is_of_now_and_has_run_never() -> None:
    before = now_ms()
    job = Job.new({"to": "ada"}, name="mail", retry=RETRY)
    assert before <= job.created_at_ms <= now_ms()
    assert (job.payload, job.name, job.retry, job.attempt) == ({"to": "ada"}, "mail", RETRY, 0)
    assert len(job.id) == 26
    assert Job.new(1).id != Job.new(1).id


def test_other_names_for_the_same() -> None:
    job = Job(id="id", payload=[1], created_at_ms=1, attempt=3)
    assert job.data is job.payload
    assert job.attempts_made == job.attempt == 3


def test_a_copy_differs_in_one_thing() -> None:
    job = Job.new(1)
    assert job.with_id("mine") == dataclasses.replace(job, id="mine")
    assert job.with_name("mail") == dataclasses.replace(job, name="mail")
    assert job.with_retry(RETRY) == dataclasses.replace(job, retry=RETRY)
    assert job.with_retry(RETRY).with_retry(None) == job


def test_who_waits_is_no_part_of_a_job() -> None:
    async def wait(job_id: str, timeout: float) -> Any:
        return job_id, timeout

    job = Job(id="id", payload=1, created_at_ms=1, _wait=wait)
    assert job == Job(id="id", payload=1, created_at_ms=1)
    assert "_wait" not in repr(job)


def test_a_job_can_be_sent_to_a_process() -> None:
    job = Job(id="id", payload={"a": b"\0"}, created_at_ms=1, retry=RETRY, name="mail")
    assert pickle.loads(pickle.dumps(job)) == job


@pytest.mark.parametrize("make", [lambda: Job.new(1).with_id(" "), lambda: Job.new(1).with_id("x" * 1025)])
def test_an_id_must_be_one(make: Any) -> None:
    with pytest.raises(ConfigError, match="job_id"):
        make()


@pytest.mark.parametrize("make", [lambda: Job.new(1, name="x" * 257), lambda: Job.new(1).with_name("é" * 129)])
def test_a_name_must_not_be_too_long(make: Any) -> None:
    with pytest.raises(ConfigError, match="name"):
        make()


async def test_waiting_goes_to_the_queue_it_came_from() -> None:
    async def wait(job_id: str, timeout: float) -> Any:
        return job_id, timeout

    job = Job(id="id", payload=1, created_at_ms=1, _wait=wait)
    assert await job.wait_for_result() == ("id", 30.0)
    assert await job.wait_for_result(timeout=2) == ("id", 2)


async def test_a_job_that_no_queue_returned_cannot_be_waited_for() -> None:
    with pytest.raises(RuntimeError, match="a queue returned"):
        await Job.new(1).wait_for_result()


@pytest.mark.parametrize("field", ["timeout", "poll_interval"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
async def test_waiting_takes_a_positive_time(field: str, value: float) -> None:
    async def wait(job_id: str, timeout: float) -> Any:
        raise AssertionError("must not be asked")

    job = Job(id="id", payload=1, created_at_ms=1, _wait=wait)
    with pytest.raises(ConfigError, match=field):
        await job.wait_for_result(**{field: value})


def test_an_override_says_nothing_unless_told() -> None:
    assert JobRetryOverride() == JobRetryOverride(max_attempts=None, backoff=None)
    assert JobRetryOverride(0).max_attempts == 0


@pytest.mark.parametrize("attempts", [-1, 1.0, "3", True, 2**32])
def test_an_override_out_of_range(attempts: Any) -> None:
    with pytest.raises(ConfigError, match="max_attempts"):
        JobRetryOverride(attempts)


def test_an_overrides_backoff_is_a_spec() -> None:
    with pytest.raises(ConfigError, match="backoff"):
        JobRetryOverride(3, {"kind": "fixed", "delay_ms": 1})  # type: ignore[arg-type]


def test_options_say_nothing_unless_told() -> None:
    assert AddOptions() == AddOptions(id=None, retry=None, name="")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("id", "", "job_id"),
        ("id", " \t", "job_id"),
        ("id", 5, "job_id"),
        ("id", "x" * 1025, "job_id"),
        ("name", "x" * 257, "name"),
        ("name", None, "name"),
        ("retry", 3, "retry"),
    ],
)
def test_options_out_of_range(field: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        AddOptions(**{field: value})


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("retries_exhausted", "CMQ-020"),
        ("decode_failed", "CMQ-021"),
        ("malformed", "CMQ-022"),
        ("oversize_payload", "CMQ-023"),
        ("unrecoverable", "CMQ-024"),
    ],
)
def test_the_reasons_to_be_buried(kind: str, code: str) -> None:
    reason = getattr(DlqReason, kind)("why")
    assert (reason.as_str(), reason.detail, reason.code) == (kind, "why", code)
    assert getattr(DlqReason, kind)().detail is None


def test_a_reason_of_a_newer_engine_has_no_code_of_ours() -> None:
    assert DlqReason("bored").code == "CMQ-000"


def test_a_dead_letter_has_the_fields_that_chasquimq_gives() -> None:
    names = [field.name for field in dataclasses.fields(DlqEntry)]
    assert names == ["dlq_id", "source_id", "reason", "detail", "payload", "name"]
