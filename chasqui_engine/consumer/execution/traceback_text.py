"""The traceback of a failed run as text of a bounded size: what is kept of a job that died."""

from __future__ import annotations

import traceback
from types import TracebackType

from chasqui_engine.values.job import MAX_TRACEBACK_BYTES

_HEAD_BYTES = 1024
_MARK_BYTES = 64
"""Room for the line that says how much was left out."""
_MOST_FRAMES = 50
"""Frames per error, the innermost: an endless recursion has a thousand."""
_OWN = "chasqui_engine."


def traceback_text(error: BaseException) -> str:
    """The traceback of an error and of what caused it, without the worker's own frames; its middle is cut out."""
    try:
        text = "".join(
            traceback.format_exception(type(error), error, _from_handler(error.__traceback__), limit=-_MOST_FRAMES)
        )
    except Exception as err:  # noqa: BLE001 - an error may have any attributes; the burial does not depend on its text
        return f"(the traceback of this {type(error).__name__} cannot be shown: {type(err).__name__})"
    return _cut(text.rstrip("\n"))


def _from_handler(trace: TracebackType | None) -> TracebackType | None:
    """The part that begins with the handler; all of it if the worker itself failed."""
    own = trace
    while own is not None and str(own.tb_frame.f_globals.get("__name__", "")).startswith(_OWN):
        own = own.tb_next
    return trace if own is None else own


def _cut(text: str) -> str:
    # A lone surrogate cannot be sent.
    data = text.encode(errors="replace")
    if len(data) <= MAX_TRACEBACK_BYTES:
        return data.decode()
    tail_bytes = MAX_TRACEBACK_BYTES - _HEAD_BYTES - _MARK_BYTES
    head, tail = data[:_HEAD_BYTES].decode(errors="ignore"), data[-tail_bytes:].decode(errors="ignore")
    return f"{head}\n… {len(data) - _HEAD_BYTES - tail_bytes:,} bytes left out …\n{tail}"
