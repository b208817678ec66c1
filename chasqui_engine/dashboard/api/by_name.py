"""Jobs of one name among many, page by page; each request reads a bounded part of the list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from chasqui_engine.runtime.clock import monotonic

_MOST_READ = 10_000
_MOST_S = 2.0

Row = TypeVar("Row")
At = TypeVar("At")


async def find_by_name(
    read: Callable[[At], Awaitable[Sequence[Row]]],
    after: Callable[[At, Sequence[Row]], At],
    is_wanted: Callable[[Row], bool],
    at: At,
    count: int,
) -> tuple[list[Row], At | None]:
    """Up to `count` matching rows, and the cursor to continue at; None at the end of the list.

    `read` returns rows from a cursor, `after` the cursor behind some of them. Fewer rows and a cursor mean that much
    was read and little of it matched.
    """
    found: list[Row] = []
    began, read_count = monotonic(), 0
    while page := await read(at):
        for number, row in enumerate(page, 1):
            if is_wanted(row):
                found.append(row)
                if len(found) == count:
                    return found, after(at, page[:number])
        at = after(at, page)
        read_count += len(page)
        if read_count >= _MOST_READ or monotonic() - began > _MOST_S:
            return found, at
    return found, None
