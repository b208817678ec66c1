"""Arguments that are accepted so that programs for ChasquiMQ run as they are, and change nothing, warn."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from chasqui_engine import ConsumerConfig, Job, ProducerConfig, PromoterConfig, Queue, RepeatPattern, SchedulerConfig
from chasqui_engine.queue.coercion import bulk_spec

HOURLY = RepeatPattern.every(3_600_000)


@pytest.mark.parametrize(
    ("kind", "field", "value", "instead"),
    [
        (ProducerConfig, "pool_size", 3, "leave it out"),
        (PromoterConfig, "max_stream_len", 3, "ProducerConfig.max_stream_len"),
        (SchedulerConfig, "max_stream_len", 3, "ProducerConfig.max_stream_len"),
        (ConsumerConfig, "delayed_max_stream_len", 3, "ProducerConfig.max_stream_len"),
    ],
)
def test_a_setting_says_what_to_use_instead(kind: Any, field: str, value: Any, instead: str) -> None:
    with pytest.warns(UserWarning, match=f"^{kind.__name__}.{field} has no effect: .*{instead}"):
        kind(**{field: value})


def test_defaults_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConsumerConfig().promoter()
        ProducerConfig(pool_size=8)
        SchedulerConfig()


async def _stop_before_the_server(queue: Queue, call: str, **options: Any) -> None:
    await queue.close()
    with pytest.raises(Exception, match="is closed"):
        await getattr(queue, call)("n", 1, repeat=HOURLY, **options)


@pytest.mark.parametrize("call", ["add", "upsert_repeatable_job"])
async def test_an_id_of_a_repeatable_warns(call: str) -> None:
    with pytest.warns(UserWarning, match="^job_id of a repeatable job has no effect: use .*key="):
        await _stop_before_the_server(Queue("q"), call, job_id="mine")


async def test_a_delay_of_a_repeatable_warns() -> None:
    with pytest.warns(UserWarning, match=r"^delay_ms of a repeatable job has no effect: use .*start_after_ms"):
        await _stop_before_the_server(Queue("q"), "add", delay_ms=5)


def test_an_option_of_a_repeatable_in_a_bulk_warns() -> None:
    with pytest.warns(UserWarning, match="^job_id of a repeatable job has no effect: "):
        bulk_spec({"name": "n", "data": 1, "repeat": HOURLY, "job_id": "mine"})


async def test_a_poll_interval_warns() -> None:
    async def wait(job_id: str, timeout: float) -> str:
        return "done"

    job = Job(id="id", payload=1, created_at_ms=1, _wait=wait)
    with pytest.warns(UserWarning, match="^poll_interval has no effect: .*leave it out"):
        assert await job.wait_for_result(poll_interval=0.5) == "done"
