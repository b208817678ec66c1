"""Rows of several fields: a table where it has room, else one field per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_LEAST_COLUMN = 13
"""Characters per column, frame included, below which the cells of a table are too narrow to be read."""


def record_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> RenderableType:
    """The rows as a table; on a narrow terminal each as a block of `column  value` lines."""
    from rich.table import Table

    if width >= _LEAST_COLUMN * len(columns):
        table = Table(header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*row)
        return table
    blocks = Table.grid(padding=(0, 2, 0, 0))
    blocks.add_column(no_wrap=True, style="bold")
    blocks.add_column(overflow="fold")
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            if str(value):
                blocks.add_row(column, value)
        blocks.add_row()
    return blocks
