"""Which dead letters are meant: by their ids, or all that match a filter. Every request looks at a bounded number."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chasqui_engine.admin.dead_letters import DeadFilter
from chasqui_engine.clock import monotonic, now_ms
from chasqui_engine.errors import ConfigError
from chasqui_engine.job import DlqEntry
from chasqui_engine.producer import Producer

MOST_IDS = 1_000
_PAGE = 500
_MOST_LOOKED_AT = 10_000
_MOST_BYTES = 16 * 1024 * 1024
"""Of dead letters that one request holds at a time."""
_IDS_AT_ONCE = 10
"""Of letters that are asked for by their ids, whose sizes nobody knows before."""
_LOOK_S = 0.5
_MOST_BODY_BYTES = 256 * 1024
_ENTRY_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")
_MOST_IN_AN_ID = 2**64 - 1
"""What a server counts up to, in either part: others may have written an entry with any id that there is."""
_Model = TypeVar("_Model", bound=BaseModel)
_Word = Annotated[str, Field(max_length=1024)]


class Wanted(BaseModel):
    """A filter, as the page writes it; what is left out decides nothing."""

    model_config = ConfigDict(extra="forbid")

    reason: _Word = ""
    name: _Word = ""
    job_id: _Word = ""
    error: _Word = ""
    newer_than_s: Annotated[int, Field(ge=0, le=10**10)] = 0
    older_than_s: Annotated[int, Field(ge=0, le=10**10)] = 0

    @property
    def filter(self) -> DeadFilter:
        """As of now."""
        now = now_ms()
        return DeadFilter(
            reasons=_one(self.reason),
            names=_one(self.name),
            job_ids=_one(self.job_id),
            error=self.error,
            before_ms=now - self.older_than_s * 1000 if self.older_than_s else float("inf"),
            after_ms=now - self.newer_than_s * 1000 if self.newer_than_s else 0,
        )

    @property
    def told(self) -> dict[str, Any]:
        """For the audit."""
        return {key: value for key, value in self.model_dump().items() if value}


class Selected(BaseModel):
    """What a change is to be made to: these ids, or all that match and died no later than `until`, after `after`."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[str], Field(max_length=MOST_IDS)] | None = None
    filter: Wanted | None = None
    until: str | None = None
    after: str | None = None

    @property
    def told(self) -> dict[str, Any]:
        """For the audit."""
        if self.ids is not None:
            return {"ids": self.ids}
        return {"filter": self.filter.told if self.filter else {}, "until": self.until}


@dataclass(frozen=True, slots=True)
class Found:
    """A part of what was selected."""

    entries: list[DlqEntry]
    next: str | None
    """Where to go on; None when that was all."""


def wanted_of(
    reason: str = "",
    name: str = "",
    job_id: str = "",
    error: str = "",
    newer_than_s: int = 0,
    older_than_s: int = 0,
) -> Wanted:
    """The filter in a query."""
    given = {"reason": reason, "name": name, "job_id": job_id, "error": error}
    return _validated(Wanted, {**given, "newer_than_s": newer_than_s, "older_than_s": older_than_s})


WantedQuery = Annotated[Wanted, Depends(wanted_of)]


async def read_selected(request: Request) -> Selected:
    """From the body, which is read only as far as a selection can be long."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "The body must be JSON.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BODY_BYTES:
            raise HTTPException(413, f"The body is longer than {_MOST_BODY_BYTES} bytes.")
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as err:
        raise ConfigError(f"body: not JSON ({err})") from err
    selected = _validated(Selected, given)
    if (selected.ids is None) == (selected.filter is None):
        raise ConfigError("body: pass either ids or filter")
    if selected.filter is not None and selected.until is None:
        raise ConfigError("until: with a filter, pass the id of the newest dead letter that is meant")
    check_ids([*(selected.ids or ()), *filter(None, (selected.until, selected.after))])
    return selected


def select_ids(ids: Sequence[str]) -> Selected:
    """Dead letters by their ids."""
    return _validated(Selected, {"ids": list(check_ids(ids))})


def check_ids(ids: Sequence[str]) -> Sequence[str]:
    """Refuses what is no id of a dead letter."""
    for one in ids:
        parts = _ENTRY_ID.fullmatch(one)
        if parts is None or any(int(part) > _MOST_IN_AN_ID for part in parts.groups()):
            raise ConfigError(f"{one[:50]!r} is no id of a dead letter: it must look like 1700000000000-0")
    return ids


async def find(producer: Producer, selected: Selected) -> Found:
    """Of all that match a filter, the next part, the oldest first."""
    assert selected.filter is not None
    assert selected.until is not None
    wanted, until = selected.filter.filter, _order(selected.until)
    entries: list[DlqEntry] = []
    after, looked_at = selected.after, 0
    while page := await producer.page_dlq(after, _PAGE):
        within = [entry for entry in page if _order(entry.dlq_id) <= until]
        entries += filter(wanted.takes, within)
        after, looked_at = page[-1].dlq_id, looked_at + len(page)
        if len(within) < len(page):
            break
        if looked_at >= _MOST_LOOKED_AT or _bytes(entries) >= _MOST_BYTES:
            return Found(entries, after)
    return Found(entries, None)


def _bytes(entries: Iterable[DlqEntry]) -> int:
    return sum(len(entry.payload) for entry in entries)


async def by_ids(producer: Producer, ids: Sequence[str]) -> AsyncIterator[list[DlqEntry]]:
    """Those of these ids that are still there, a few at a time."""
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield await producer.get_dead(ids[start : start + _IDS_AT_ONCE])


async def newest_page(producer: Producer, wanted: Wanted, before: str | None, count: int) -> Found:
    """A page of those that match, the newest first; it ends early when many were looked at and few match."""
    takes = wanted.filter.takes
    entries: list[DlqEntry] = []
    began, looked_at = monotonic(), 0
    size = count + 1 if not wanted.told else _PAGE
    while page := await producer.page_newest_dlq(before, size):
        for entry in page:
            if takes(entry):
                if len(entries) == count:
                    return Found(entries, before)
                entries.append(entry)
            before = entry.dlq_id
        looked_at += len(page)
        held = _bytes(entries)
        if looked_at >= _MOST_LOOKED_AT or held >= _MOST_BYTES or monotonic() - began > _LOOK_S:
            return Found(entries, before)
    return Found(entries, None)


async def each(producer: Producer, selected: Selected) -> AsyncIterator[DlqEntry]:
    """All that are selected, part by part."""
    if selected.ids is not None:
        async for part in by_ids(producer, selected.ids):
            for entry in part:
                yield entry
        return
    while True:
        found = await find(producer, selected)
        for entry in found.entries:
            yield entry
        if found.next is None:
            return
        selected = selected.model_copy(update={"after": found.next})


def _validated(kind: type[_Model], given: Any) -> _Model:
    try:
        return kind.model_validate(given)
    except ValidationError as err:
        first = err.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from err


def _one(word: str) -> frozenset[str]:
    return frozenset((word,)) if word else frozenset()


def _order(entry_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry_id.split("-"))
