"""Repeatable jobs for people: their patterns, fires and policies."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from chasqui_engine import MissedFiresPolicy, RepeatableMeta, RepeatableSpec, RepeatPattern
from chasqui_engine.cli.output.formatting import ago
from chasqui_engine.cli.output.record_table import record_table
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.schedule import CronSchedule
from chasqui_engine.values.durations import iso

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_FIRES = 5


def local(pattern: RepeatPattern, at_ms: int) -> str:
    """A fire in the pattern's own zone."""
    zone = UTC if pattern.expression is None else CronSchedule.parse(pattern.expression, pattern.tz).zone
    try:
        return datetime.fromtimestamp(at_ms / 1000, zone).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return iso(at_ms)


def describe(meta: RepeatableMeta) -> dict[str, Any]:
    """A spec as JSON."""
    facts = asdict(meta)
    facts["pattern"] = meta.pattern.to_dict()
    facts["missed_fires"] = (meta.missed_fires or MissedFiresPolicy.skip()).to_dict()
    return {**facts, "paused": meta.is_paused, "next_fire": _next_text(meta)}


def _next_text(meta: RepeatableMeta) -> str:
    return "paused" if meta.is_paused else local(meta.pattern, meta.next_fire_ms)


def policy_text(policy: MissedFiresPolicy | None) -> str:
    """A policy for missed fires, with its limit if it has one."""
    known = policy or MissedFiresPolicy.skip()
    return known.kind if known.max_catchup is None else f"{known.kind} ({known.max_catchup:,})"


def _pattern_text(pattern: RepeatPattern) -> str:
    if pattern.interval_ms is not None:
        return f"every {ago(pattern.interval_ms)}"
    return f"{pattern.expression} ({pattern.tz or 'UTC'})"


def list_table(metas: list[RepeatableMeta], width: int) -> RenderableType:
    """Specs, one row each."""
    if not metas:
        return "no repeatable jobs"
    rows = []
    for meta in metas:
        due_ms = meta.next_fire_ms - now_ms()
        due = "-" if meta.is_paused else ago(due_ms) if due_ms >= 0 else f"overdue by {ago(-due_ms)}"
        missed = policy_text(meta.missed_fires)
        limit = "-" if meta.limit is None else f"{meta.limit:,}"
        rows.append((meta.key, meta.job_name, _pattern_text(meta.pattern), _next_text(meta), due, limit, missed))
    return record_table(("key", "job", "pattern", "next fire", "in", "limit", "missed"), rows, width)


def preview_table(data: dict[str, Any], spec: RepeatableSpec, fires: list[int]) -> str:
    """The next fires, and what each policy does after an outage."""
    lines = [f"{_pattern_text(spec.pattern)} fires next at"]
    lines += [f"  {local(spec.pattern, at)}   in {ago(max(0, at - now_ms()))}" for at in fires]
    lines.append(f"after an outage of {ago(data['after_outage_of_ms'])} that begins with the first of them:")
    own = policy_text(spec.missed_fires)
    for label, outcome in data["policies"].items():
        which = (
            f": {', '.join(outcome['for'])}" + (" …" if outcome["jobs"] > SHOWN_FIRES else "") if outcome["for"] else ""
        )
        lines.append(f"  {label:<16}{outcome['jobs']} made up for{which}; then {outcome['next'] or 'no more'}")
    lines.append(f"its policy is {own}")
    return "\n".join(lines)
