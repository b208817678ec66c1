"""Selecting dead letters by id or by filter. Every request reads a bounded number."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from chasqui_engine import ConfigError, DlqEntry, Producer
from chasqui_engine.admin import DeadFilter
from chasqui_engine.dashboard.api.body import read_body, validate
from chasqui_engine.runtime.clock import monotonic, now_ms
from chasqui_engine.values.stream_ids import as_number

MOST_IDS = 1_000
_PAGE = 500
_MOST_READ = 10_000
_MOST_BYTES = 16 * 1024 * 1024
"""Bytes of dead letters that one request keeps in memory."""
_IDS_AT_ONCE = 10
"""Dead letters read at once by id, since their sizes are unknown before."""
_LOOK_S = 0.5
_ENTRY_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")
_MOST_IN_AN_ID = 2**64 - 1
"""The largest number in either part of an id: other programs may have written any valid id."""
_Word = Annotated[str, Field(max_length=1024)]


class Wanted(BaseModel):
    """A filter, as the page sends it; empty fields match everything."""

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
            reasons=_as_set(self.reason),
            names=_as_set(self.name),
            job_ids=_as_set(self.job_id),
            error=self.error,
            before_ms=now - self.older_than_s * 1000 if self.older_than_s else float("inf"),
            after_ms=now - self.newer_than_s * 1000 if self.newer_than_s else 0,
        )

    @property
    def facts(self) -> dict[str, Any]:
        """For the audit log."""
        return {key: value for key, value in self.model_dump().items() if value}


class Selected(BaseModel):
    """The target of a change: these ids, or all that match and died after `after` and no later than `until`."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[str], Field(max_length=MOST_IDS)] | None = None
    filter: Wanted | None = None
    until: str | None = None
    after: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """For the audit log."""
        if self.ids is not None:
            return {"ids": self.ids}
        return {"filter": self.filter.facts if self.filter else {}, "until": self.until}


@dataclass(frozen=True, slots=True)
class Found:
    """A part of what was selected."""

    entries: list[DlqEntry]
    next: str | None
    """The cursor of the next part; None after the last."""


def read_wanted(
    reason: str = "",
    name: str = "",
    job_id: str = "",
    error: str = "",
    newer_than_s: int = 0,
    older_than_s: int = 0,
) -> Wanted:
    """The filter in the query."""
    given = {"reason": reason, "name": name, "job_id": job_id, "error": error}
    return validate(Wanted, {**given, "newer_than_s": newer_than_s, "older_than_s": older_than_s})


WantedQuery = Annotated[Wanted, Depends(read_wanted)]


async def read_selected(request: Request) -> Selected:
    """The selection in the body."""
    selected = await read_body(request, Selected)
    if (selected.ids is None) == (selected.filter is None):
        raise ConfigError("body: pass either ids or filter")
    if selected.filter is not None and selected.until is None:
        raise ConfigError("until: with a filter, pass the id of the newest dead letter to include")
    check_ids([*(selected.ids or ()), *filter(None, (selected.until, selected.after))])
    return selected


def select_ids(ids: Sequence[str]) -> Selected:
    """Dead letters by their ids."""
    return validate(Selected, {"ids": list(check_ids(ids))})


def check_ids(ids: Sequence[str]) -> Sequence[str]:
    """Refuses anything but ids of dead letters."""
    for one in ids:
        parts = _ENTRY_ID.fullmatch(one)
        if parts is None or any(int(part) > _MOST_IN_AN_ID for part in parts.groups()):
            raise ConfigError(f"{one[:50]!r} is not the id of a dead letter, which looks like 1700000000000-0")
    return ids


async def find(producer: Producer, selected: Selected) -> Found:
    """The next part of those that match a filter, the oldest first."""
    assert selected.filter is not None
    assert selected.until is not None
    wanted, until = selected.filter.filter, as_number(selected.until)
    entries: list[DlqEntry] = []
    after, read_count = selected.after, 0
    while page := await producer.page_dlq(after, _PAGE):
        within = [entry for entry in page if as_number(entry.dlq_id) <= until]
        entries += filter(wanted.takes, within)
        after, read_count = page[-1].dlq_id, read_count + len(page)
        if len(within) < len(page):
            break
        if read_count >= _MOST_READ or _bytes(entries) >= _MOST_BYTES:
            return Found(entries, after)
    return Found(entries, None)


def _bytes(entries: Iterable[DlqEntry]) -> int:
    return sum(len(entry.payload) for entry in entries)


async def read_by_ids(producer: Producer, ids: Sequence[str]) -> AsyncIterator[list[DlqEntry]]:
    """Those that still exist, a few at a time."""
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield await producer.get_dead(ids[start : start + _IDS_AT_ONCE])


async def newest_page(producer: Producer, wanted: Wanted, before: str | None, count: int) -> Found:
    """A page of those that match, the newest first; shorter when many were read and few match."""
    takes = wanted.filter.takes
    entries: list[DlqEntry] = []
    began, read_count = monotonic(), 0
    size = count + 1 if not wanted.facts else _PAGE
    while page := await producer.page_newest_dlq(before, size):
        for entry in page:
            if takes(entry):
                if len(entries) == count:
                    return Found(entries, before)
                entries.append(entry)
            before = entry.dlq_id
        read_count += len(page)
        size_held = _bytes(entries)
        if read_count >= _MOST_READ or size_held >= _MOST_BYTES or monotonic() - began > _LOOK_S:
            return Found(entries, before)
    return Found(entries, None)


async def read_selected_entries(producer: Producer, selected: Selected) -> AsyncIterator[DlqEntry]:
    """All selected dead letters, part by part."""
    if selected.ids is not None:
        async for part in read_by_ids(producer, selected.ids):
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


def _as_set(word: str) -> frozenset[str]:
    return frozenset((word,)) if word else frozenset()
