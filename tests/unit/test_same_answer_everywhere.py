"""One question has one answer, whichever part of the product is asked: payloads as JSON, numbers, caps.

URLs are in `test_urls.py`; Airflow's connections, and jobs without a handler, in the tests of the provider.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from chasqui_engine import (
    AddOptions,
    BackoffSpec,
    ConfigError,
    ConsumerConfig,
    JobRetryOverride,
    MissedFiresPolicy,
    ProducerConfig,
    PromoterConfig,
    QueueEvents,
    RepeatableSpec,
    RepeatPattern,
    RetryConfig,
    SchedulerConfig,
    Worker,
)
from chasqui_engine.codec import encode_payload
from chasqui_engine.dashboard.api.payload_view import plain_payload
from chasqui_engine.payload_json import json_text, to_json
from chasqui_engine.spark.read.rows import json_of
from chasqui_provider.conversion import to_json as airflow_json

ODD = {"blob": b"\xff\x00", "x": math.nan, "far": math.inf, "deep": [[{"k": [b""]}]], 7: "key"}
"""What JSON has no form for."""
EVERY = RepeatPattern.every(60_000)


def test_a_payload_has_one_form_in_json() -> None:
    form = to_json(ODD)
    assert form["blob"] == {"$bytes": "/wA="}
    assert (form["x"], form["far"]) == (None, None)
    assert json.loads(json_text(ODD)) == form
    assert plain_payload(ODD, "show") == form
    assert json.loads(json_of(encode_payload(ODD))) == form
    assert airflow_json(ODD) == form


WHOLE_NUMBERS: dict[str, Any] = {
    "ProducerConfig": lambda given: ProducerConfig(max_stream_len=given),
    "ConsumerConfig": lambda given: ConsumerConfig(concurrency=given),
    "PromoterConfig": lambda given: PromoterConfig(promote_batch=given),
    "SchedulerConfig": lambda given: SchedulerConfig(batch=given),
    "RetryConfig": lambda given: RetryConfig(initial_backoff_ms=given),
    "BackoffSpec": lambda given: BackoffSpec(kind="fixed", delay_ms=given),
    "JobRetryOverride": lambda given: JobRetryOverride(max_attempts=given),
    "RepeatPattern": lambda given: RepeatPattern(kind="every", interval_ms=given),
    "RepeatableSpec": lambda given: RepeatableSpec(job_name="n", pattern=EVERY, payload=1, limit=given),
    "QueueEvents": lambda given: QueueEvents("q", count=given),
    "Worker": lambda given: Worker("q", lambda _: None, result_ttl_ms=given),
}


@pytest.mark.parametrize("given", [-1, 2**70, True, 1.5, "3"], ids=repr)
@pytest.mark.parametrize("make", WHOLE_NUMBERS.values(), ids=WHOLE_NUMBERS)
def test_what_is_no_whole_number_is_refused_in_one_way(make: Any, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"\w+ must be a whole number (of milliseconds )?from \d+ (up|to \d+), got"):
        make(given)


@pytest.mark.parametrize("given", [-1, True, math.nan, "3"], ids=repr)
def test_what_is_no_number_is_refused_in_one_way(given: Any) -> None:
    for make in (
        lambda: ConsumerConfig(shutdown_deadline_secs=given),
        lambda: RetryConfig(multiplier=given),
    ):
        with pytest.raises(ConfigError, match=r"\w+ must be a number (of seconds )?from 0 up, got"):
            make()


@pytest.mark.parametrize("config", [ProducerConfig, ConsumerConfig, PromoterConfig])
def test_the_cap_of_the_events_is_nothing_where_none_are_emitted(config: Any) -> None:
    assert config(events_max_stream_len=7).events_max == 7
    assert config(events_max_stream_len=7, events_enabled=False).events_max == 0


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_catchup must be a whole number from 1 to 4294967295"):
        MissedFiresPolicy.fire_all(0)
    with pytest.raises(ConfigError, match="retry must be a JobRetryOverride"):
        AddOptions(retry=3)  # type: ignore[arg-type]
