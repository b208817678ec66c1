"""Jobs of one name among many, page by page; each request reads a bounded part of the list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from chasqui_engine.runtime.clock import monotonic

_MOST_READ = 10_000
_MOST_S = 2.0

Row = TypeVar("Row")
Cursor = TypeVar("Cursor")


async def find_by_name(
    read: Callable[[Cursor], Awaitable[Sequence[Row]]],
    after: Callable[[Cursor, Sequence[Row]], Cursor],
    is_wanted: Callable[[Row], bool],
    cursor: Cursor,
    count: int,
) -> tuple[list[Row], Cursor | None]:
    """Up to `count` matching rows, and the cursor to continue at; None at the end of the list.

    `read` returns rows from a cursor, `after` the cursor behind some of them. Fewer rows and a cursor mean that much
    was read and little of it matched.
    """
    found: list[Row] = []
    began, read_count = monotonic(), 0
    while page := await read(cursor):
        for number, row in enumerate(page, 1):
            if is_wanted(row):
                found.append(row)
                if len(found) == count:
                    return found, after(cursor, page[:number])
        cursor = after(cursor, page)
        read_count += len(page)
        if read_count >= _MOST_READ or monotonic() - began > _MOST_S:
            return found, cursor
    return found, None
