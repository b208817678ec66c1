"""The OpenTelemetry sink against the real SDK: exact names, units, attributes and values."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    NumberDataPoint,
    Sum,
)

from chasqui_engine.metrics import (
    DlqRouted,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    OtelSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from chasqui_engine.metrics.labels import BACKOFF_BUCKETS_S, BATCH_BUCKETS, DURATION_BUCKETS_S
from chasqui_engine.values.errors import ConfigError

Points = dict[tuple[str, tuple[tuple[str, object], ...]], object]


class Lab:
    """A meter and a look at what it gathered."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meter = MeterProvider([self.reader], shutdown_on_exit=False).get_meter("test")

    def metrics(self) -> dict[str, Metric]:
        data = self.reader.get_metrics_data()
        found = [
            metric
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        assert len({metric.name for metric in found}) == len(found), "a metric was made twice"
        return {metric.name: metric for metric in found}

    def points(self) -> Points:
        """Each data point: the number, or (count, sum) of a histogram."""
        points: Points = {}
        for name, metric in self.metrics().items():
            for point in metric.data.data_points:
                labels = tuple(sorted((point.attributes or {}).items()))
                if isinstance(point, HistogramDataPoint):
                    points[name, labels] = (point.count, pytest.approx(point.sum))
                else:
                    assert isinstance(point, NumberDataPoint)
                    points[name, labels] = point.value
        return points


@pytest.fixture
def lab() -> Lab:
    return Lab()


def key(metric: str, /, **labels: str) -> tuple[str, tuple[tuple[str, object], ...]]:
    return metric, tuple(sorted(labels.items()))


def ran(kind: JobOutcomeKind = JobOutcomeKind.OK, took_us: int = 2_000, name: str = "send") -> JobOutcome:
    return JobOutcome(kind=kind, attempt=1, handler_duration_us=took_us, name=name)


def tell_all(sink: OtelSink) -> None:
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


def test_every_event_makes_exactly_its_points(lab: Lab) -> None:
    tell_all(OtelSink("mail", lab.meter))
    assert lab.points() == {
        key("chasquimq.jobs.completed", queue="mail", name="send"): 2,
        key("chasquimq.jobs.failed", queue="mail", kind="error", name="send"): 1,
        key("chasquimq.jobs.failed", queue="mail", kind="panic", name=""): 1,
        key("chasquimq.handler.duration", queue="mail", name="send"): (3, 0.504),
        key("chasquimq.handler.duration", queue="mail", name=""): (1, 0.002),
        key("chasquimq.retries.scheduled", queue="mail", name="send"): 1,
        key("chasquimq.retry.backoff", queue="mail", name="send"): (1, 1.5),
        key("chasquimq.dlq.routed", queue="mail", reason="retries_exhausted", name="send"): 1,
        key("chasquimq.consumer.batch.size", queue="mail"): (1, 7),
        key("chasquimq.consumer.reclaimed", queue="mail"): 2,
        key("chasquimq.promoter.promoted", queue="mail"): 5,
        key("chasquimq.delayed.zset.depth", queue="mail"): 9,
        key("chasquimq.promoter.oldest_pending_lag", queue="mail"): 0,
        key("chasquimq.promoter.lock.acquired", queue="mail"): 1,
        key("chasquimq.promoter.lock.lost", queue="mail"): 2,
    }


def test_units_and_types(lab: Lab) -> None:
    tell_all(OtelSink("mail", lab.meter))
    assert {name: (metric.unit, type(metric.data)) for name, metric in lab.metrics().items()} == {
        "chasquimq.jobs.completed": ("{job}", Sum),
        "chasquimq.jobs.failed": ("{job}", Sum),
        "chasquimq.handler.duration": ("s", Histogram),
        "chasquimq.retries.scheduled": ("{retry}", Sum),
        "chasquimq.retry.backoff": ("s", Histogram),
        "chasquimq.dlq.routed": ("{job}", Sum),
        "chasquimq.consumer.batch.size": ("{job}", Histogram),
        "chasquimq.consumer.reclaimed": ("{job}", Sum),
        "chasquimq.promoter.promoted": ("{job}", Sum),
        "chasquimq.delayed.zset.depth": ("{job}", Gauge),
        "chasquimq.promoter.oldest_pending_lag": ("ms", Gauge),
        "chasquimq.promoter.lock.acquired": ("{change}", Sum),
        "chasquimq.promoter.lock.lost": ("{change}", Sum),
    }
    sums = [metric.data for metric in lab.metrics().values() if isinstance(metric.data, Sum)]
    assert all(data.is_monotonic for data in sums)


def test_the_histograms_have_bounds_that_suit_them(lab: Lab) -> None:
    tell_all(OtelSink("mail", lab.meter))
    bounds = {
        name: tuple(point.explicit_bounds)
        for name, metric in lab.metrics().items()
        for point in metric.data.data_points
        if isinstance(point, HistogramDataPoint)
    }
    assert bounds == {
        "chasquimq.handler.duration": DURATION_BUCKETS_S,
        "chasquimq.retry.backoff": BACKOFF_BUCKETS_S,
        "chasquimq.consumer.batch.size": BATCH_BUCKETS,
    }


def test_queues_share_a_meter(lab: Lab) -> None:
    mail, bills, more_mail = OtelSink("mail", lab.meter), OtelSink("bills", lab.meter), OtelSink("mail", lab.meter)
    for sink in (mail, bills, more_mail):
        sink.job_outcome(ran())
    found = lab.points()
    assert found[key("chasquimq.jobs.completed", queue="mail", name="send")] == 2
    assert found[key("chasquimq.jobs.completed", queue="bills", name="send")] == 1


def test_names_past_the_limit_become_other(lab: Lab) -> None:
    sink = OtelSink("mail", lab.meter, max_names=2)
    for number in range(10):
        sink.job_outcome(ran(name=f"job-{number}"))
    completed = {labels: value for (name, labels), value in lab.points().items() if name == "chasquimq.jobs.completed"}
    assert completed == {
        (("name", "job-0"), ("queue", "mail")): 1,
        (("name", "job-1"), ("queue", "mail")): 1,
        (("name", "other"), ("queue", "mail")): 8,
    }


def test_labels_are_cleaned(lab: Lab) -> None:
    sink = OtelSink("ma\nil", lab.meter)
    sink.dlq_routed(DlqRouted(reason="bad\x00reason", attempt=0, name="x" * 500))
    assert lab.points() == {key("chasquimq.dlq.routed", queue="ma_il", reason="bad_reason", name="x" * 128): 1}


def test_threads_lose_no_count(lab: Lab) -> None:
    sink = OtelSink("mail", lab.meter)
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(200):
            sink.job_outcome(ran())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lab.points()[key("chasquimq.jobs.completed", queue="mail", name="send")] == 1_600


PROVIDER_SET_LATER = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from chasqui_engine.metrics import OtelSink, PromoterTick, ReaderBatch

sink = OtelSink("mail")
sink.reader_batch(ReaderBatch(size=1, reclaimed=1))
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
sink.reader_batch(ReaderBatch(size=3, reclaimed=2))
sink.promoter_tick(PromoterTick(promoted=1, depth=4, oldest_pending_lag_ms=0))
scope = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
values = {m.name: m.data.data_points[0] for m in scope.metrics}
print(scope.scope.name, values["chasquimq.consumer.reclaimed"].value, values["chasquimq.delayed.zset.depth"].value)
"""


def test_the_global_provider_may_be_set_after_the_sink_is_made(pytestconfig: pytest.Config) -> None:
    # In a process of its own: the global provider can be set only once.
    program, root = [sys.executable, "-c", PROVIDER_SET_LATER], pytestconfig.rootpath
    done = subprocess.run(program, cwd=root, capture_output=True, text=True, check=False, timeout=30)
    assert (done.stdout.strip(), done.returncode) == ("chasqui 2 4", 0), done.stderr


def test_a_missing_api_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(ConfigError, match=r"pip install 'chasqui\[otel\]'"):
        OtelSink("mail")
