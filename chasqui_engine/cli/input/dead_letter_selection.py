"""Which dead letters a `chasqui dlq` command acts on: its filter options, and reading what they select."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from chasqui_engine import DlqEntry, Producer
from chasqui_engine.admin import DeadFilter
from chasqui_engine.cli.input.completion import complete_reason
from chasqui_engine.cli.input.params import parse_duration_ms
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.stream_ids import as_number

_PAGE = 500

ReasonOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reason",
        metavar="REASON",
        help="Only with this reason: retries_exhausted, unrecoverable …",
        autocompletion=complete_reason,
    ),
]
NameOption = Annotated[list[str] | None, typer.Option("--name", metavar="NAME", help="Only jobs of this name.")]
JobIdOption = Annotated[list[str] | None, typer.Option("--job-id", metavar="ID", help="Only this job.")]
OlderOption = Annotated[str | None, typer.Option("--older-than", metavar="TIME", help="Died longer ago than: 2h, 7d.")]
NewerOption = Annotated[str | None, typer.Option("--newer-than", metavar="TIME", help="Died within: 10m, 1d.")]
LimitOption = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most this many.")]


@dataclass(frozen=True, slots=True)
class Selection:
    """Dead letters that match a filter, up to a limit."""

    filter: DeadFilter
    limit: int | None

    @property
    def is_everything(self) -> bool:
        """Whether no option narrows it."""
        return self.limit is None and self.filter == DeadFilter()

    async def entries(self, producer: Producer) -> AsyncIterator[DlqEntry]:
        """Those selected, the oldest first."""
        async for page in self.pages(producer):
            for entry in page:
                yield entry

    async def pages(self, producer: Producer, until: str | None = None) -> AsyncIterator[list[DlqEntry]]:
        """The same in pages; with `until`, none that died after that one."""
        after: str | None = None
        left = self.limit
        while page := await producer.page_dlq(after, _PAGE):
            after = page[-1].dlq_id
            known = [entry for entry in page if until is None or as_number(entry.dlq_id) <= as_number(until)]
            selected = [entry for entry in known if self.filter.takes(entry)][:left]
            if selected:
                yield selected
            left = None if left is None else left - len(selected)
            if left == 0 or len(known) < len(page):
                return

    async def newest(self, producer: Producer) -> list[DlqEntry]:
        """Those selected, the newest first."""
        found: list[DlqEntry] = []
        before: str | None = None
        while page := await producer.page_newest_dlq(before, _PAGE):
            before = page[-1].dlq_id
            found += filter(self.filter.takes, page)
            if self.limit is not None and len(found) >= self.limit:
                break
        return found[: self.limit]


def _parse_selection(
    reason: ReasonOption = None,
    name: NameOption = None,
    job_id: JobIdOption = None,
    older: OlderOption = None,
    newer: NewerOption = None,
    limit: LimitOption = None,
) -> Selection:
    now = now_ms()
    wanted = DeadFilter(
        reasons=frozenset(reason or ()),
        names=frozenset(name or ()),
        job_ids=frozenset(job_id or ()),
        before_ms=now - parse_duration_ms(older) if older else float("inf"),
        after_ms=now - parse_duration_ms(newer) if newer else 0,
    )
    return Selection(wanted, limit)


def with_selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command with a `selection` parameter the filter options in its place."""
    options = _options_of(_parse_selection)
    own = _options_of(function)
    position = [one.name for one in own].index("selection")

    @wraps(function)
    def with_options(*args: Any, **given: Any) -> Any:
        chosen = {one.name: given.pop(one.name) for one in options}
        return function(*args, selection=_parse_selection(**chosen), **given)

    parameters = [*own[:position], *options, *own[position + 1 :]]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    del with_options.__wrapped__
    return with_options


def _options_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters.values()
    return [one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY) for one in found]
