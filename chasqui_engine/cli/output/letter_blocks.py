"""Dead letters one below the other, each with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chasqui_engine.cli.output.formatting import brief
from chasqui_engine.cli.output.terminal import safe
from chasqui_engine.payload_json import preview

_MOST_CHARS = 10_000
"""Characters of a payload: what is longer is for `export`."""
_LABEL = 11


def blocks_of_letters(letters: Sequence[dict[str, Any]], total: int) -> str:
    """Described dead letters, as `admin.describe` has them, with their tracebacks."""
    if not letters:
        return "no dead letters" if not total else f"no dead letters match ({total:,} in total)"
    shown = "\n\n".join(map(_block, letters))
    return f"{shown}\n\n{len(letters):,} of {total:,} shown"


def _block(one: dict[str, Any]) -> str:
    attempt = one.get("attempt")
    facts = {
        "job": brief(one["job_id"] or "unknown", 1024),
        "name": brief(one["name"], 1024) or None,
        "died": one["died_at"],
        "dead letter": one["dlq_id"],
        "reason": f"{brief(one['reason'], 200)} ({one['code']})",
        "runs": None if attempt is None else str(attempt),
        "error": brief(one["detail"], 2000) if one["detail"] else None,
        "payload": _payload(one),
    }
    lines = [f"{label:<{_LABEL}} {value}" for label, value in facts.items() if value is not None]
    return "\n".join([*lines, *traceback_lines(one["traceback"])])


def _payload(one: dict[str, Any]) -> str:
    if "unreadable" in one:
        return f"cannot be read: {brief(one['unreadable'], 500)}"
    return preview(one["payload"], _MOST_CHARS)


def traceback_lines(text: str | None) -> list[str]:
    """A traceback below its label; nothing where none is kept."""
    return [] if text is None else ["traceback", *(f"  {line}" for line in safe(text).split("\n"))]
