"""A producer that makes a span of each add, and sends its context along in the jobs' headers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chasqui_engine.queue.producer import Producer
from chasqui_engine.tracing import Tracing
from chasqui_engine.values.job import Addition, AddOptions, JobId, Moment

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class TracedProducer(Producer):
    """Made by `connector_of`."""

    _tracing: Tracing

    async def add_with_options(self, payload: Any, options: AddOptions, created_at_ms: int | None = None) -> JobId:
        """As of `Producer`, and so are the others."""
        span, headers = self._tracing.begin_add(1, options.name)
        with self._tracing.ending(span):
            job_id = await super().add_with_options(payload, _with_headers(options, headers), created_at_ms)
            span.set_attribute("messaging.message.id", job_id)
            return job_id

    async def add_later(
        self, additions: Sequence[Addition], moments: Sequence[Moment | None], created_at_ms: int | None = None
    ) -> list[JobId]:
        """The same for jobs with times of their own."""
        span, headers = self._tracing.begin_add(len(additions), _name_of(additions))
        with self._tracing.ending(span):
            ids = await super().add_later(_all_with_headers(additions, headers), moments, created_at_ms)
            if len(ids) == 1:
                span.set_attribute("messaging.message.id", ids[0])
            return ids

    def begin_add_now(
        self, additions: Sequence[Addition], created_at_ms: int
    ) -> tuple[list[JobId], Coroutine[Any, Any, None]]:
        """The same in two steps; the span ends with the second."""
        span, headers = self._tracing.begin_add(len(additions), _name_of(additions))
        try:
            ids, write = super().begin_add_now(_all_with_headers(additions, headers), created_at_ms)
        except BaseException:
            span.end()
            raise
        return ids, self._finish(span, write)

    async def _finish(self, span: Span, write: Coroutine[Any, Any, None]) -> None:
        with self._tracing.ending(span):
            await write


def connector_of(tracing: Tracing | None) -> Callable[..., Coroutine[Any, Any, Producer]]:
    """`Producer.connect`, or the same with spans."""
    if tracing is None:
        return Producer.connect

    async def connect(*args: Any, **options: Any) -> Producer:
        producer = await TracedProducer.connect(*args, **options)
        producer._tracing = tracing
        return producer

    return connect


def _name_of(additions: Sequence[Addition]) -> str:
    """The name of all of them, or none."""
    names = {options.name for _, options in additions}
    return names.pop() if len(names) == 1 else ""


def _with_headers(options: AddOptions, headers: dict[str, str]) -> AddOptions:
    """The job's own headers come first: a caller may continue another trace."""
    return replace(options, headers={**headers, **(options.headers or {})}) if headers else options


def _all_with_headers(additions: Sequence[Addition], headers: dict[str, str]) -> list[Addition]:
    made: dict[int, AddOptions] = {}  # most jobs of a call share their options
    for _, options in additions:
        if id(options) not in made:
            made[id(options)] = _with_headers(options, headers)
    return [(payload, made[id(options)]) for payload, options in additions]
