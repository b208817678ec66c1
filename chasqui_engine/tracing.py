"""OpenTelemetry traces: spans of adds and of runs, joined by the context that travels in a job's headers.

The names are those of OpenTelemetry's semantic conventions for messaging. The context travels as the W3C says
(`traceparent`, `tracestate`), whatever the program uses for its other requests: baggage may be larger than headers may
be. Needs the extra `otel`, and an SDK that the application sets up; without one, no span is recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from chasqui_engine.runtime.identity import version
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import Job
from chasqui_engine.values.retry_later import RetryLater

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext


class TracerProviderLike(Protocol):
    """A `TracerProvider` of OpenTelemetry."""

    def get_tracer(self, *args: Any, **options: Any) -> Any:
        """Makes a tracer."""
        ...


TracingLike = bool | TracerProviderLike
"""Whether to trace: with the program's tracer provider, or with this one."""

_SYSTEM = "chasqui"


class Tracing:
    """The spans of one queue."""

    @classmethod
    def of(cls, asked: TracingLike, queue: str) -> Tracing | None:
        """What was asked for; None is nothing."""
        if asked is False:
            return None
        if asked is not True and not hasattr(asked, "get_tracer"):
            raise ConfigError(f"tracing must be True, False or a TracerProvider, got {type(asked).__name__}")
        return cls(queue, None if asked is True else asked)

    def __init__(self, queue: str, provider: Any = None) -> None:
        try:
            from opentelemetry import context, trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as err:
            raise ConfigError("tracing needs opentelemetry-api: pip install 'chasqui[otel]'") from err
        self._trace = trace
        self._no_context = context.Context()
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("chasqui", version(), provider)
        self._queue = queue

    def begin_add(self, count: int, name: str) -> tuple[Span, dict[str, str]]:
        """Begins the span of an add of `count` jobs; returns the headers that take its context along."""
        attributes = self._attributes("add", "send")
        if name:
            attributes["chasqui.job.name"] = name
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        kind = self._trace.SpanKind.PRODUCER
        span = self._tracer.start_span(f"add {self._queue}", kind=kind, attributes=attributes)
        headers: dict[str, str] = {}
        self._propagator.inject(headers, self._trace.set_span_in_context(span))
        return span, headers

    @contextmanager
    def ending(self, span: Span) -> Iterator[Span]:
        """Ends the span, with the error that leaves the block."""
        with self._trace.use_span(span, end_on_exit=True):
            yield span

    def middleware(self, group: str) -> Callable[[Job, Callable[[Job], Awaitable[Any]]], Awaitable[Any]]:
        """A worker's middleware: a span for each run.

        The first run of a job continues the trace of its add. Later ones, which may come hours after it, begin traces
        of their own and link to it.
        """
        common = {**self._attributes("process", "process"), "messaging.consumer.group.name": group}

        async def trace_run(job: Job, call_next: Callable[[Job], Awaitable[Any]]) -> Any:
            attributes = {
                **common,
                "messaging.message.id": job.id,
                "chasqui.job.name": job.name,
                "chasqui.job.attempt": job.attempt + job.deliveries + 1,
            }
            added = self._context_in(job.headers)
            is_first = job.attempt + job.deliveries == 0
            with self._tracer.start_as_current_span(
                f"process {self._queue}",
                context=self._under(added) if is_first and added else self._no_context,
                kind=self._trace.SpanKind.CONSUMER,
                attributes=attributes,
                links=[] if is_first or added is None else [self._link_to(added)],
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                return await self._note_error(span, call_next(job))

        return trace_run

    async def _note_error(self, span: Span, running: Awaitable[Any]) -> Any:
        try:
            return await running
        except RetryLater:
            span.set_attribute("chasqui.job.postponed", True)
            raise
        except Exception as err:
            span.record_exception(err)
            span.set_attribute("error.type", type(err).__qualname__)
            span.set_status(self._trace.StatusCode.ERROR, f"{type(err).__name__}: {err}")
            raise

    def _attributes(self, operation: str, kind: str) -> dict[str, Any]:
        return {
            "messaging.system": _SYSTEM,
            "messaging.destination.name": self._queue,
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
        }

    def _context_in(self, headers: Mapping[str, str]) -> SpanContext | None:
        if "traceparent" not in headers:
            return None
        context = self._propagator.extract(headers, context=self._no_context)
        found = self._trace.get_current_span(context).get_span_context()
        return found if found.is_valid else None

    def _under(self, added: SpanContext) -> Any:
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(added), self._no_context)

    def _link_to(self, added: SpanContext) -> Link:
        return self._trace.Link(added)
