"""Traces: from an add over the queue to the handler, with OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chasqui_engine import ConfigError, Job, Queue, QueueFullError, RetryLater, SyncQueue, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from redis.asyncio import Redis

QUICK: dict[str, Any] = {"read_block_ms": 200, "run_scheduler": False, "shutdown_deadline_secs": 5, "backoff": 1}


class Traces:
    """A tracer provider of the test's own, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def spans(self, operation: str) -> list[ReadableSpan]:
        ended = self._exporter.get_finished_spans()
        return [span for span in ended if (span.attributes or {}).get("messaging.operation.name") == operation]


@pytest.fixture
def traces() -> Traces:
    return Traces()


async def run_burst(url: str, queue: str, handler: Any, traces: Traces, **settings: Any) -> None:
    worker = Worker(queue, handler, redis_url=url, tracing=traces.provider, **{**QUICK, **settings})
    await asyncio.wait_for(worker.run(burst=True), PATIENCE_S)


async def do_nothing(job: Job) -> None: ...


def id_of(span: Any) -> int:
    return int(span.get_span_context().span_id)


def trace_of(span: Any) -> int:
    return int(span.get_span_context().trace_id)


async def test_one_trace_from_the_caller_to_what_the_handler_does(
    redis_url: str, queue_name: str, traces: Traces
) -> None:
    inside: list[Any] = []

    async def handle(job: Job) -> None:
        inside.append(trace.get_current_span())

    async with Queue(queue_name, redis_url=redis_url, tracing=traces.provider) as queue:
        with traces.tracer.start_as_current_span("caller") as caller:
            job = await queue.add("mail", 1)
    await run_burst(redis_url, queue_name, handle, traces)
    (added,), (processed,) = traces.spans("add"), traces.spans("process")
    assert trace_of(caller) == trace_of(added) == trace_of(processed)
    assert added.parent is not None
    assert added.parent.span_id == id_of(caller)
    assert processed.parent is not None
    assert processed.parent.span_id == id_of(added)
    assert processed.parent.is_remote
    assert id_of(inside[0]) == id_of(processed)
    assert (added.name, processed.name) == (f"add {queue_name}", f"process {queue_name}")
    assert (added.kind, processed.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert dict(added.attributes or {}) == {
        "messaging.system": "chasqui",
        "messaging.destination.name": queue_name,
        "messaging.operation.name": "add",
        "messaging.operation.type": "send",
        "messaging.message.id": job.id,
        "chasqui.job.name": "mail",
    }
    assert dict(processed.attributes or {}) == {
        "messaging.system": "chasqui",
        "messaging.destination.name": queue_name,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "default",
        "messaging.message.id": job.id,
        "chasqui.job.name": "mail",
        "chasqui.job.attempt": 1,
    }


async def test_a_retry_begins_a_trace_of_its_own_and_links_to_the_add(
    redis_url: str, queue_name: str, traces: Traces
) -> None:
    async def fail_once(job: Job) -> None:
        if job.attempt == 0:
            raise ValueError("first")

    async with Queue(queue_name, redis_url=redis_url, tracing=traces.provider) as queue:
        await queue.add("n", 1)
        await run_burst(redis_url, queue_name, fail_once, traces)
        if (await queue.counts()).delayed:
            await asyncio.sleep(0.1)
        await run_burst(redis_url, queue_name, fail_once, traces)
    (added,), (first, second) = traces.spans("add"), traces.spans("process")
    assert trace_of(first) == trace_of(added) != trace_of(second)
    assert second.parent is None
    assert [link.context.span_id for link in second.links] == [id_of(added)]
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.status.description == "ValueError: first"
    assert (first.attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception"]
    assert second.status.status_code is trace.StatusCode.UNSET
    assert (second.attributes or {})["chasqui.job.attempt"] == 2


async def test_a_job_that_is_postponed_is_no_error(redis_url: str, queue_name: str, traces: Traces) -> None:
    async def postpone(job: Job) -> None:
        raise RetryLater(60)

    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add("n", 1)
    await run_burst(redis_url, queue_name, postpone, traces)
    (processed,) = traces.spans("process")
    assert processed.status.status_code is trace.StatusCode.UNSET
    assert (processed.attributes or {})["chasqui.job.postponed"] is True
    assert processed.parent is None


@pytest.mark.parametrize("later", [{}, {"delay_ms": 50}])
async def test_the_jobs_of_a_bulk_share_the_span_of_its_add(
    redis_url: str, queue_name: str, traces: Traces, later: dict[str, Any]
) -> None:
    async with Queue(queue_name, redis_url=redis_url, tracing=traces.provider) as queue:
        await queue.add_bulk([{"name": f"n{number % 2}", "data": number, **later} for number in range(10)])
        await asyncio.sleep(0.1)
        await run_burst(redis_url, queue_name, do_nothing, traces)
    (added,), processed = traces.spans("add"), traces.spans("process")
    assert (added.attributes or {})["messaging.batch.message_count"] == 10
    assert {span.parent.span_id for span in processed if span.parent} == {id_of(added)}
    assert len(processed) == 10


async def test_an_add_that_fails_is_an_error_of_its_span(redis_url: str, queue_name: str, traces: Traces) -> None:
    async with Queue(queue_name, redis_url=redis_url, max_stream_len=1, tracing=traces.provider) as queue:
        await queue.add("n", 1)
        with pytest.raises(QueueFullError):
            await queue.add("n", 2)
        with pytest.raises(QueueFullError):
            await queue.add_bulk([{"name": "n", "data": 3}])
    assert [span.status.status_code.name for span in traces.spans("add")] == ["UNSET", "ERROR", "ERROR"]


async def test_the_jobs_own_headers_travel_too_and_a_traceparent_of_its_own_wins(
    redis_url: str, queue_name: str, traces: Traces
) -> None:
    own = f"00-{'1' * 32}-{'2' * 16}-01"
    seen: list[dict[str, str]] = []

    async def note(job: Job) -> None:
        seen.append(job.headers)

    async with Queue(queue_name, redis_url=redis_url, tracing=traces.provider) as queue:
        await queue.add("n", 1, headers={"tenant": "42", "traceparent": own})
    await run_burst(redis_url, queue_name, note, traces)
    assert seen == [{"tenant": "42", "traceparent": own}]
    assert trace_of(traces.spans("process")[0]) == int("1" * 32, 16)


@pytest.mark.parametrize("odd", ["nonsense", "", f"00-{'0' * 32}-{'0' * 16}-01"])
async def test_an_odd_traceparent_harms_nothing(redis_url: str, queue_name: str, traces: Traces, odd: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add("n", 1, headers={"traceparent": odd})
    await run_burst(redis_url, queue_name, do_nothing, traces)
    (processed,) = traces.spans("process")
    assert processed.parent is None
    assert not processed.links


def test_blocking_callers_are_traced_too(redis_url: str, queue_name: str, traces: Traces) -> None:
    threads: list[Any] = []

    def plain(job: Job) -> None:
        time.sleep(0)
        threads.append(trace.get_current_span())

    with (
        SyncQueue(queue_name, redis_url=redis_url, tracing=traces.provider) as queue,
        traces.tracer.start_as_current_span("caller") as caller,
    ):
        queue.add("n", 1)
        queue.add_bulk([{"name": "n", "data": 2}])
    asyncio.run(run_burst(redis_url, queue_name, plain, traces))
    assert {span.parent.span_id for span in traces.spans("add") if span.parent} == {id_of(caller)}
    assert {trace_of(span) for span in (*traces.spans("process"), *threads)} == {trace_of(caller)}


async def test_each_job_of_a_batch_has_its_span(redis_url: str, queue_name: str, traces: Traces) -> None:
    inside: list[Any] = []

    async def handle(jobs: list[Job]) -> None:
        inside.append(trace.get_current_span())

    async with Queue(queue_name, redis_url=redis_url, tracing=traces.provider) as queue:
        for number in range(3):
            await queue.add("n", number)
    await run_burst(redis_url, queue_name, handle, traces, batch_size=3)
    assert len({trace_of(span) for span in traces.spans("process")}) == 3
    assert not inside[0].get_span_context().is_valid


async def test_without_tracing_nothing_is_sent_along(redis_url: str, raw: Redis, queue_name: str) -> None:
    traces = Traces()
    async with Queue(queue_name, redis_url=redis_url) as queue:
        with traces.tracer.start_as_current_span("caller"):
            await queue.add("n", 1)
    (entry,) = await raw.xrange(QueueKeys(queue_name).stream)
    assert sorted(entry[1]) == [b"d", b"n"]


def test_what_is_no_tracer_provider_is_refused() -> None:
    for wrong in ("yes", 1, None):
        with pytest.raises(ConfigError, match="tracing must be True, False or a TracerProvider"):
            Queue("q", tracing=wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="tracing must be True, False or a TracerProvider"):
            Worker("q", do_nothing, tracing=wrong)  # type: ignore[arg-type]
