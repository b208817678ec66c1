"""Ages, values and small plots, for people."""

from __future__ import annotations

from typing import Any

from chasqui_engine.cli.output.terminal import one_line
from chasqui_engine.payload_json import preview

_SPARKS = "▁▂▃▄▅▆▇█"


def ago(ms: float) -> str:
    """A duration in two units at most: `4m 10s`."""
    seconds = ms / 1000
    if seconds < 1:
        return f"{ms:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes}m"
    return f"{hours // 24}d {hours % 24}h"


def brief(value: Any, width: int = 60) -> str:
    """A value on one line, cut where it is long."""
    text = one_line(value[: width + 1] if isinstance(value, str) else preview(value, width))
    return text if len(text) <= width else f"{text[: width - 1]}…"


def sparkline(values: list[float]) -> str:
    """A small plot of one line."""
    most = max(values, default=0) or 1
    return "".join(_SPARKS[min(len(_SPARKS) - 1, int(value / most * (len(_SPARKS) - 1) + 0.5))] for value in values)
