"""The Prometheus sink against the real client library: exact names, labels and values."""

from __future__ import annotations

import gc
import math
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest

from chasqui_engine.metrics import (
    DlqRouted,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    PrometheusSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def key(metric: str, /, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return metric, tuple(sorted(labels.items()))


def samples(registry: CollectorRegistry) -> Samples:
    """Every sample but the creation times and the buckets."""
    return {
        key(sample.name, **sample.labels): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith(("_created", "_bucket"))
    }


def buckets(registry: CollectorRegistry, name: str) -> dict[str, float]:
    return {
        sample.labels["le"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == f"{name}_bucket"
    }


def ran(kind: JobOutcomeKind = JobOutcomeKind.OK, took_us: int = 2_000, name: str = "send") -> JobOutcome:
    return JobOutcome(kind=kind, attempt=1, handler_duration_us=took_us, name=name)


IDLE: Samples = {
    key("chasquimq_consumer_batch_size_count", queue="mail"): 0.0,
    key("chasquimq_consumer_batch_size_sum", queue="mail"): 0.0,
    key("chasquimq_consumer_reclaimed_total", queue="mail"): 0.0,
    key("chasquimq_promoter_promoted_total", queue="mail"): 0.0,
    key("chasquimq_delayed_zset_depth", queue="mail"): 0.0,
    key("chasquimq_promoter_oldest_pending_lag_ms", queue="mail"): 0.0,
    key("chasquimq_promoter_lock_acquired_total", queue="mail"): 0.0,
    key("chasquimq_promoter_lock_lost_total", queue="mail"): 0.0,
}


def test_every_event_makes_exactly_its_samples() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink("mail", registry)
    assert samples(registry) == IDLE
    sink.job_outcome(ran())
    sink.job_outcome(ran(took_us=500_000))
    sink.job_outcome(ran(JobOutcomeKind.ERR))
    sink.job_outcome(ran(JobOutcomeKind.PANIC, name=""))
    sink.retry_scheduled(RetryScheduled(attempt=2, backoff_ms=1_500, name="send"))
    sink.dlq_routed(DlqRouted(reason="retries_exhausted", attempt=3, name="send"))
    sink.reader_batch(ReaderBatch(size=7, reclaimed=2))
    sink.promoter_tick(PromoterTick(promoted=4, depth=10, oldest_pending_lag_ms=250))
    sink.promoter_tick(PromoterTick(promoted=1, depth=9, oldest_pending_lag_ms=0))
    sink.promoter_lock_outcome(LockOutcome.ACQUIRED)
    sink.promoter_lock_outcome(LockOutcome.HELD)
    sink.promoter_lock_outcome(LockOutcome.HELD)
    assert samples(registry) == pytest.approx(
        {
            key("chasquimq_jobs_completed_total", queue="mail", name="send"): 2.0,
            key("chasquimq_jobs_failed_total", queue="mail", kind="error", name="send"): 1.0,
            key("chasquimq_jobs_failed_total", queue="mail", kind="panic", name=""): 1.0,
            key("chasquimq_handler_duration_seconds_count", queue="mail", name="send"): 3.0,
            key("chasquimq_handler_duration_seconds_sum", queue="mail", name="send"): 0.504,
            key("chasquimq_handler_duration_seconds_count", queue="mail", name=""): 1.0,
            key("chasquimq_handler_duration_seconds_sum", queue="mail", name=""): 0.002,
            key("chasquimq_retries_scheduled_total", queue="mail", name="send"): 1.0,
            key("chasquimq_retry_backoff_seconds_count", queue="mail", name="send"): 1.0,
            key("chasquimq_retry_backoff_seconds_sum", queue="mail", name="send"): 1.5,
            key("chasquimq_dlq_routed_total", queue="mail", reason="retries_exhausted", name="send"): 1.0,
            key("chasquimq_consumer_batch_size_count", queue="mail"): 1.0,
            key("chasquimq_consumer_batch_size_sum", queue="mail"): 7.0,
            key("chasquimq_consumer_reclaimed_total", queue="mail"): 2.0,
            key("chasquimq_promoter_promoted_total", queue="mail"): 5.0,
            key("chasquimq_delayed_zset_depth", queue="mail"): 9.0,
            key("chasquimq_promoter_oldest_pending_lag_ms", queue="mail"): 0.0,
            key("chasquimq_promoter_lock_acquired_total", queue="mail"): 1.0,
            key("chasquimq_promoter_lock_lost_total", queue="mail"): 2.0,
        }
    )


def test_types_as_scraped() -> None:
    registry = CollectorRegistry()
    PrometheusSink("mail", registry)
    page = generate_latest(registry).decode()
    types = dict(line.split()[2:4] for line in page.splitlines() if line.startswith("# TYPE chasquimq"))
    assert {name: kind for name, kind in types.items() if not name.endswith("_created")} == {
        "chasquimq_jobs_completed_total": "counter",
        "chasquimq_jobs_failed_total": "counter",
        "chasquimq_handler_duration_seconds": "histogram",
        "chasquimq_retries_scheduled_total": "counter",
        "chasquimq_retry_backoff_seconds": "histogram",
        "chasquimq_dlq_routed_total": "counter",
        "chasquimq_consumer_batch_size": "histogram",
        "chasquimq_consumer_reclaimed_total": "counter",
        "chasquimq_promoter_promoted_total": "counter",
        "chasquimq_delayed_zset_depth": "gauge",
        "chasquimq_promoter_oldest_pending_lag_ms": "gauge",
        "chasquimq_promoter_lock_acquired_total": "counter",
        "chasquimq_promoter_lock_lost_total": "counter",
    }


def test_buckets_are_in_seconds_and_can_be_chosen() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink("mail", registry, buckets=[0.01, 1])
    for took_us in [5_000, 10_000, 20_000, 3_000_000]:
        sink.job_outcome(ran(took_us=took_us))
    assert buckets(registry, "chasquimq_handler_duration_seconds") == {"0.01": 2.0, "1.0": 3.0, "+Inf": 4.0}


def test_queues_share_a_registry() -> None:
    registry = CollectorRegistry()
    mail, bills = PrometheusSink("mail", registry), PrometheusSink("bills", registry)
    mail.job_outcome(ran())
    bills.job_outcome(ran())
    bills.job_outcome(ran())
    found = samples(registry)
    assert found[key("chasquimq_jobs_completed_total", queue="mail", name="send")] == 1.0
    assert found[key("chasquimq_jobs_completed_total", queue="bills", name="send")] == 2.0


def test_two_sinks_of_one_queue_add_up() -> None:
    registry = CollectorRegistry()
    for sink in (PrometheusSink("mail", registry), PrometheusSink("mail", registry)):
        sink.job_outcome(ran())
    assert samples(registry)[key("chasquimq_jobs_completed_total", queue="mail", name="send")] == 2.0


def test_registries_are_apart() -> None:
    one, two = CollectorRegistry(), CollectorRegistry()
    PrometheusSink("mail", one).job_outcome(ran())
    PrometheusSink("mail", two)
    assert key("chasquimq_jobs_completed_total", queue="mail", name="send") in samples(one)
    assert samples(two) == IDLE


def test_without_a_registry_it_is_the_client_librarys_own() -> None:
    sink = PrometheusSink("test-default-registry")
    sink.job_outcome(ran())
    labels = {"queue": "test-default-registry", "name": "send"}
    assert REGISTRY.get_sample_value("chasquimq_jobs_completed_total", labels) == 1.0


def test_a_forgotten_registry_is_freed() -> None:
    registry = CollectorRegistry()
    PrometheusSink("mail", registry).job_outcome(ran())
    alive = weakref.ref(registry)
    del registry
    gc.collect()
    assert alive() is None


def test_other_buckets_in_the_same_registry_are_refused() -> None:
    registry = CollectorRegistry()
    PrometheusSink("mail", registry, buckets=[0.1, 1.0])
    PrometheusSink("bills", registry, buckets=(0.1, 1, math.inf))
    with pytest.raises(ConfigError, match="buckets"):
        PrometheusSink("mail", registry, buckets=[0.1, 2.0])


@pytest.mark.parametrize("bad", [[], [math.inf], [1.0, 1.0], [2.0, 1.0], [math.nan], [0.1, math.nan], [-math.inf, 1.0]])
def test_bad_buckets_are_refused(bad: list[float]) -> None:
    with pytest.raises(ConfigError, match="buckets"):
        PrometheusSink("mail", CollectorRegistry(), buckets=bad)


def test_a_metric_of_the_same_name_is_told_and_leaves_the_registry_as_it_was() -> None:
    registry = CollectorRegistry()
    foreign = Counter("chasquimq_dlq_routed_total", "Someone else's.", registry=registry)
    with pytest.raises(ConfigError, match="chasquimq_dlq_routed"):
        PrometheusSink("mail", registry)
    assert samples(registry) == {key("chasquimq_dlq_routed_total"): 0.0}
    registry.unregister(foreign)
    PrometheusSink("mail", registry)
    assert samples(registry) == IDLE


def test_names_past_the_limit_become_other() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink("mail", registry, max_names=3)
    for number in range(50):
        sink.job_outcome(ran(name=f"job-{number}"))
        sink.dlq_routed(DlqRouted(reason="malformed", attempt=0, name=f"job-{number}"))
    completed = {labels: value for (name, labels), value in samples(registry).items() if "completed" in name}
    assert completed == {
        (("name", "job-0"), ("queue", "mail")): 1.0,
        (("name", "job-1"), ("queue", "mail")): 1.0,
        (("name", "job-2"), ("queue", "mail")): 1.0,
        (("name", "other"), ("queue", "mail")): 47.0,
    }
    assert sum(name == "chasquimq_dlq_routed_total" for name, _ in samples(registry)) == 4


def test_hostile_labels_cannot_break_the_page() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink("ma\nil", registry)
    sink.job_outcome(ran(name='x"} 1\nforged_total 9\ud800' + "y" * 200))
    sink.dlq_routed(DlqRouted(reason="bad\x00reason", attempt=0))
    page = generate_latest(registry).decode()
    assert not any(line.startswith("forged_total") for line in page.splitlines())
    found = samples(registry)
    expected = ('x"} 1_forged_total 9_' + "y" * 200)[:128]
    assert found[key("chasquimq_jobs_completed_total", queue="ma_il", name=expected)] == 1.0
    assert found[key("chasquimq_dlq_routed_total", queue="ma_il", reason="bad_reason", name="")] == 1.0


def in_threads(work: Callable[[], object]) -> None:
    """Run it in eight threads at once; fail with the first error of any."""
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        work()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(run) for _ in range(8)]:
            done.result()


def test_threads_lose_no_count() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink("mail", registry)

    def work() -> None:
        for _ in range(500):
            sink.job_outcome(ran())

    in_threads(work)
    found = samples(registry)
    assert found[key("chasquimq_jobs_completed_total", queue="mail", name="send")] == 4_000.0
    assert found[key("chasquimq_handler_duration_seconds_count", queue="mail", name="send")] == 4_000.0


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns so often that a race shows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_make_the_metrics_of_a_registry_once() -> None:
    registry = CollectorRegistry()
    in_threads(lambda: PrometheusSink("mail", registry).job_outcome(ran()))
    assert samples(registry)[key("chasquimq_jobs_completed_total", queue="mail", name="send")] == 8.0


def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'chasqui\[prometheus\]'"):
        PrometheusSink("mail")
