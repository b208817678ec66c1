"""Every default, and every value out of range: a `ConfigError` that names the field."""

from __future__ import annotations

import dataclasses
import os
import re
import uuid
from typing import Any

import pytest

from chasqui_engine import ConfigError, ConsumerConfig, ProducerConfig, PromoterConfig, RetryConfig, SchedulerConfig
from chasqui_engine.metrics import InMemorySink, noop_sink

Config = ProducerConfig | ConsumerConfig | PromoterConfig | SchedulerConfig | RetryConfig
DAY_S = 24 * 3600

PRODUCER = {
    "queue_name": "default",
    "pool_size": 8,
    "max_stream_len": 1_000_000,
    "when_full": "error",
    "max_delay_secs": 30 * DAY_S,
    "dedup_ttl_secs": 3600,
    "priority_max_wait_secs": 60,
    "events_enabled": True,
    "events_max_stream_len": 100_000,
}
CONSUMER = {
    "queue_name": "default",
    "group": "default",
    "batch": 64,
    "block_ms": 5000,
    "claim_min_idle_ms": 30_000,
    "concurrency": 100,
    "max_attempts": 3,
    "ack_batch": 256,
    "ack_idle_ms": 5,
    "shutdown_deadline_secs": 30,
    "max_payload_bytes": 1024 * 1024,
    "dlq_inflight": 32,
    "dlq_max_stream_len": 100_000,
    "retry": RetryConfig(),
    "backoff": None,
    "retry_inflight": 64,
    "delayed_enabled": True,
    "delayed_poll_interval_ms": 100,
    "delayed_promote_batch": 256,
    "delayed_max_stream_len": 1_000_000,
    "delayed_lock_ttl_secs": 5,
    "events_enabled": True,
    "events_max_stream_len": 100_000,
    "run_scheduler": True,
    "store_results": False,
    "result_ttl_secs": 3600,
    "max_result_bytes": 16 * 1024 * 1024,
    "time_limit_secs": None,
    "max_age_secs": None,
    "dead_letter_expired": False,
    "run_plain_in": "thread",
    "batch_size": None,
    "batch_wait_ms": 100,
    "max_jobs": None,
    "max_rss_mb": None,
    "relay": False,
    "packed": False,
    "log_job_ids": False,
    "metrics": noop_sink(),
}
PROMOTER = {
    "queue_name": None,
    "poll_interval_ms": 100,
    "promote_batch": 256,
    "max_stream_len": 1_000_000,
    "lock_ttl_secs": 5,
    "events_enabled": True,
    "events_max_stream_len": 100_000,
    "metrics": noop_sink(),
}
SCHEDULER = {
    "queue_name": None,
    "tick_interval_ms": 1000,
    "batch": 256,
    "max_stream_len": 1_000_000,
    "lock_ttl_secs": 5,
    "metrics": noop_sink(),
}
RETRY = {"initial_backoff_ms": 100, "max_backoff_ms": 30_000, "multiplier": 2.0, "jitter_ms": 100}


def test_a_worker_is_called_after_host_and_process() -> None:
    first, second = ConsumerConfig().consumer_id, ConsumerConfig().consumer_id
    assert re.fullmatch(rf"[A-Za-z0-9._-]+-{os.getpid()}-[0-9a-z]{{6}}", first)
    assert first != second


# The fields whose default is made anew each time, and the letter it begins with.
MADE = {
    PromoterConfig: {"holder_id": "p"},
    SchedulerConfig: {"holder_id": "s"},
}
DEFAULTS: dict[type[Config], dict[str, Any]] = {
    ProducerConfig: PRODUCER,
    ConsumerConfig: CONSUMER,
    PromoterConfig: PROMOTER,
    SchedulerConfig: SCHEDULER,
    RetryConfig: RETRY,
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_defaults(kind: type[Config]) -> None:
    config = kind()
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    made = MADE.get(kind, {})
    nested = {"scheduler", "consumer_id"} if kind is ConsumerConfig else set()
    assert {name: value for name, value in fields.items() if name not in made.keys() | nested} == DEFAULTS[kind]
    for name, letter in made.items():
        assert fields[name][:2] == f"{letter}-"
        assert uuid.UUID(fields[name][2:]).version == 4
        assert fields[name] != getattr(kind(), name)


def test_a_consumers_scheduler_has_a_schedulers_defaults() -> None:
    nested = ConsumerConfig().scheduler
    assert dataclasses.replace(nested, holder_id="s") == SchedulerConfig(holder_id="s")
    assert nested.holder_id != ConsumerConfig().scheduler.holder_id


@pytest.mark.parametrize("kind", [PromoterConfig, SchedulerConfig])
@pytest.mark.parametrize("name", ["", "a{b}", 5])
def test_the_queue_of_a_duty_is_checked_where_it_is_named(kind: Any, name: Any) -> None:
    assert kind(queue_name="mail").queue_name == "mail"
    with pytest.raises(ConfigError, match=f"{kind.__name__}.queue_name"):
        kind(queue_name=name)


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_configs_are_frozen_and_take_names_only(kind: type[Config]) -> None:
    field = dataclasses.fields(kind)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(), field, 1)
    with pytest.raises(TypeError):
        kind(1)  # type: ignore[call-arg]


FROM_ONE = {
    ProducerConfig: [
        "pool_size",
        "max_stream_len",
        "dedup_ttl_secs",
        "priority_max_wait_secs",
        "events_max_stream_len",
    ],
    ConsumerConfig: [
        "batch",
        "block_ms",
        "claim_min_idle_ms",
        "concurrency",
        "max_attempts",
        "ack_batch",
        "max_payload_bytes",
        "dlq_inflight",
        "dlq_max_stream_len",
        "retry_inflight",
        "delayed_poll_interval_ms",
        "delayed_promote_batch",
        "delayed_max_stream_len",
        "delayed_lock_ttl_secs",
        "events_max_stream_len",
        "result_ttl_secs",
        "max_result_bytes",
    ],
    PromoterConfig: ["poll_interval_ms", "promote_batch", "max_stream_len", "lock_ttl_secs", "events_max_stream_len"],
    SchedulerConfig: ["tick_interval_ms", "batch", "max_stream_len", "lock_ttl_secs"],
}
FROM_NOTHING = {ProducerConfig: ["max_delay_secs"], ConsumerConfig: ["ack_idle_ms", "batch_wait_ms"]}
FLAGS = {
    ProducerConfig: ["events_enabled"],
    ConsumerConfig: [
        "delayed_enabled",
        "events_enabled",
        "run_scheduler",
        "store_results",
        "relay",
        "packed",
        "log_job_ids",
        "dead_letter_expired",
    ],
    PromoterConfig: ["events_enabled"],
}
NAMES = {
    ProducerConfig: ["queue_name"],
    ConsumerConfig: ["queue_name", "group", "consumer_id"],
    PromoterConfig: ["holder_id"],
    SchedulerConfig: ["holder_id"],
}
OPTIONAL_NAMES = {PromoterConfig: ["queue_name"], SchedulerConfig: ["queue_name"]}
SECONDS = {ConsumerConfig: ["shutdown_deadline_secs", "time_limit_secs", "max_age_secs"]}
OPTIONAL_NUMBERS = {ConsumerConfig: ["batch_size", "max_jobs", "max_rss_mb"]}
CHOICES = {ProducerConfig: ["when_full"], ConsumerConfig: ["run_plain_in"]}
OPTIONAL_VALUES = {ConsumerConfig: ["backoff"]}
VALUES = {ConsumerConfig: ["retry", "scheduler", "metrics"], PromoterConfig: ["metrics"], SchedulerConfig: ["metrics"]}
FIELDS = (FROM_ONE, FROM_NOTHING, FLAGS, NAMES, SECONDS, CHOICES, VALUES)
# One call of a script carries all of these at once.
CARRIED = {
    ConsumerConfig: ["ack_batch", "dlq_inflight", "retry_inflight", "delayed_promote_batch"],
    PromoterConfig: ["promote_batch"],
}

Refused = tuple[type[Config], str, Any]


def refused(fields: dict[Any, list[str]], *values: Any) -> list[Refused]:
    return [(kind, name, value) for kind, names in fields.items() for name in names for value in values]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        *refused(FROM_ONE, 0, -1, 1.0, "1", None, True, 2**53),
        *refused(FROM_NOTHING, -1, 0.5, "1", None, True, 2**53),
        *refused(OPTIONAL_NUMBERS, 0, -1, 1.0, "1", True, 2**53),
        *refused(FLAGS, "false", 0, None),
        *refused(NAMES, "", " ", "a{b}", "x" * 201, None, 5),
        *refused(OPTIONAL_NAMES, "", " ", "a{b}", "x" * 201, 5),
        *refused(SECONDS, -1, "1", float("nan"), float("inf"), True),
        *refused(CHOICES, "", "else", None, 5),
        *refused(VALUES, None, "metrics", {}),
        *refused(OPTIONAL_VALUES, 5, "fixed", {}),
        *refused(CARRIED, 5001),
    ],
    ids=lambda part: part.__name__ if isinstance(part, type) else repr(part)[:20],
)
def test_a_value_out_of_range_names_the_field(kind: type[Config], field: str, value: Any) -> None:
    if field == "time_limit_secs" and value is None:
        return
    with pytest.raises(ConfigError, match=rf"\b{re.escape(field)} must ") as caught:
        kind(**{field: value})
    assert caught.value.code == "CMQ-004"
    assert isinstance(caught.value, ValueError)


def test_every_field_is_checked() -> None:
    """So that a field that is added gets its range."""
    for kind, defaults in DEFAULTS.items():
        if kind is RetryConfig:  # with the formula that uses it
            continue
        checked = {
            name
            for fields in (*FIELDS, OPTIONAL_NAMES, OPTIONAL_NUMBERS, OPTIONAL_VALUES)
            for name in fields.get(kind, [])
        }
        assert checked == {field.name for field in dataclasses.fields(kind)}
        assert defaults.keys() <= checked


@pytest.mark.filterwarnings("ignore:.* has no effect")
@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [*refused(FROM_ONE, 1, 5000), *refused(FROM_NOTHING, 0, 1), *refused(OPTIONAL_NUMBERS, 1, 5000)],
)
def test_the_ends_of_the_range_are_within(kind: type[Config], field: str, value: int) -> None:
    assert getattr(kind(**{field: value}), field) == value


@pytest.mark.parametrize("limit", [None, 0.5, 3600, lambda job: job.payload])
def test_a_time_limit_may_depend_on_the_job(limit: Any) -> None:
    assert ConsumerConfig(time_limit_secs=limit).time_limit_secs is limit


def test_a_consumers_promoter_does_as_the_consumer_was_told() -> None:
    sink = InMemorySink()
    config = ConsumerConfig(
        delayed_poll_interval_ms=7,
        delayed_promote_batch=8,
        delayed_lock_ttl_secs=10,
        events_enabled=False,
        events_max_stream_len=11,
        metrics=sink,
    )
    assert config.promoter(holder_id="p") == PromoterConfig(
        poll_interval_ms=7,
        promote_batch=8,
        lock_ttl_secs=10,
        holder_id="p",
        events_enabled=False,
        events_max_stream_len=11,
        metrics=sink,
    )
