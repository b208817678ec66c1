"""`chasqui repeatable`: repeatable jobs, their fires, and what happens to missed ones."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

from chasqui_engine import MissedFiresPolicy, Producer, RepeatableMeta, RepeatableSpec, RepeatPattern
from chasqui_engine.cli.input.params import (
    QueueArgument,
    QueueOption,
    parse_duration_ms,
    parse_payload,
    parse_time,
    queue_and_one,
    require_queue,
)
from chasqui_engine.cli.input.retries import AttemptsOption, BackoffOption, MaxBackoffOption, parse_retry
from chasqui_engine.cli.output.repeatable_table import (
    SHOWN_FIRES,
    describe,
    list_table,
    local,
    policy_text,
    preview_table,
)
from chasqui_engine.cli.session import NOT_THERE, USAGE, Session, command, fail
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.schedule import first_fire_ms, plan_fires

_MOST_SPECS = 10_000
_SUPPOSED_CATCHUP = 100
"""The limit that is shown for fire-all where the spec has another policy."""

CronOption = Annotated[str | None, typer.Option("--cron", metavar="EXPR", help="5 fields, or 6 with seconds first.")]
ZoneOption = Annotated[
    str | None, typer.Option("--tz", metavar="ZONE", help="Time zone of the cron: UTC, +05:30, Europe/London.")
]
EveryOption = Annotated[str | None, typer.Option("--every", metavar="TIME", help="A fixed interval: 30s, 5m …")]
KeyWords = Annotated[list[str], typer.Argument(metavar="KEY", help="Its key, with -q QUEUE; or QUEUE KEY.")]
MissedOption = Annotated[
    str,
    typer.Option("--missed", metavar="skip|once|all:N", help="What to do about missed fires."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Repeatable jobs: list, add, remove, pause, fire, preview.")
    command(group, "list")(list_)
    command(group, "add")(add)
    command(group, "remove")(remove)
    command(group, "pause")(pause)
    command(group, "resume")(resume)
    command(group, "fire")(fire)
    command(group, "preview")(preview)
    app.add_typer(group, name="repeatable", rich_help_panel="Manage")


async def list_(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 100,
) -> None:
    """List repeatable jobs, the next to fire first."""
    async with session.existing(require_queue(queue_argument, queue)) as producer:
        metas = await producer.list_repeatable(limit)
    session.answer([describe(meta) for meta in metas], lambda: list_table(metas, session.console.width))


async def add(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of every job it creates.")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="JSON, @FILE, or - for stdin.")] = None,
    queue: QueueOption = None,
    cron: CronOption = None,
    tz: ZoneOption = None,
    every: EveryOption = None,
    key: Annotated[str, typer.Option("--key", help="Its key; name and pattern by default.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Remove it after this many jobs.")] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="WHEN", help="Not before: ISO 8601, or +5m.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="WHEN", help="Not after.")] = None,
    missed: MissedOption = "skip",
    attempts: AttemptsOption = None,
    backoff: BackoffOption = None,
    max_backoff: MaxBackoffOption = None,
) -> None:
    """Store a repeatable job, or replace the one with the same key."""
    where = require_queue(None, queue, "default")
    spec = RepeatableSpec(
        job_name=name,
        pattern=_pattern(cron, tz, every),
        payload=parse_payload(data),
        key=key,
        limit=limit,
        start_after_ms=_ms(start),
        end_before_ms=_ms(end),
        missed_fires=_policy(missed),
        retry=parse_retry(attempts, backoff, max_backoff),
    )
    async with session.producer(where) as producer:
        stored = await producer.upsert_repeatable(spec)
    first = local(spec.pattern, first_fire_ms(spec, now_ms()))
    session.answer({"key": stored, "queue": where, "first_fire": first}, lambda: f"{stored}\nfirst fire at {first}")


async def remove(session: Session, words: KeyWords, queue: QueueOption = None) -> int:
    """Remove a repeatable job: it does not fire again."""
    name, key = queue_and_one(words, queue, "KEY")
    async with session.producer(name) as producer:
        removed = await producer.remove_repeatable(key)
    session.answer({"key": key, "removed": removed}, lambda: "removed" if removed else f"there is no repeatable {key}")
    return 0 if removed else NOT_THERE


async def pause(session: Session, words: KeyWords, queue: QueueOption = None) -> int:
    """Keep a repeatable job from firing until it is resumed, also when a program adds it again."""
    name, key = queue_and_one(words, queue, "KEY")
    async with session.producer(name) as producer:
        meta, changed = await _find(producer, key), await producer.pause_repeatable(key)
    session.answer({"key": meta.key, "paused": True, "changed": changed}, lambda: "paused")
    return 0


async def resume(session: Session, words: KeyWords, queue: QueueOption = None) -> int:
    """End the pause of a repeatable job. Its next fire is the first one after now."""
    name, key = queue_and_one(words, queue, "KEY")
    async with session.producer(name) as producer:
        changed, meta = await producer.resume_repeatable(key), await _find(producer, key)
    first = local(meta.pattern, meta.next_fire_ms)
    facts = {"key": key, "paused": False, "changed": changed, "next_fire": first}
    session.answer(facts, lambda: f"resumed; next fire at {first}" if changed else f"not paused; next fire at {first}")
    return 0


async def fire(session: Session, words: KeyWords, queue: QueueOption = None) -> int:
    """Make one job of a repeatable now. Its next fire and its limit stay."""
    name, key = queue_and_one(words, queue, "KEY")
    async with session.producer(name) as producer:
        job_id = await producer.fire_repeatable(key)
    if job_id is None:
        _fail_missing(key)
    session.answer({"key": key, "id": job_id}, lambda: job_id)
    return 0


async def preview(
    session: Session,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="A stored one, with -q QUEUE; or QUEUE KEY.")
    ] = None,
    queue: QueueOption = None,
    cron: CronOption = None,
    tz: ZoneOption = None,
    every: EveryOption = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many fires to show.")] = 10,
    down_for: Annotated[
        str, typer.Option("--down-for", metavar="TIME", help="Length of the outage, in which no scheduler runs.")
    ] = "1h",
) -> None:
    """Show the next fires in the spec's own zone, and what each missed-fire policy would do after an outage."""
    spec, next_ms = await _read_spec(session, words or [], queue, cron, tz, every)
    fires = _next_fires(spec, next_ms, count)
    outage_ms = parse_duration_ms(down_for)
    after = {policy_text(one): _after_outage(spec, next_ms, outage_ms, one) for one in _policies(spec.missed_fires)}
    data = {
        "pattern": spec.pattern.to_dict(),
        "policy": spec.missed_fires.to_dict(),
        "fires": [local(spec.pattern, at) for at in fires],
        "after_outage_of_ms": outage_ms,
        "policies": after,
    }
    session.answer(data, lambda: preview_table(data, spec, fires))


def _policies(own: MissedFiresPolicy) -> list[MissedFiresPolicy]:
    """Every policy, the spec's own with its own limit."""
    most = _SUPPOSED_CATCHUP if own.max_catchup is None else own.max_catchup
    return [MissedFiresPolicy.skip(), MissedFiresPolicy.fire_once(), MissedFiresPolicy.fire_all(most)]


async def _read_spec(
    session: Session, words: list[str], queue: list[str] | None, cron: str | None, tz: str | None, every: str | None
) -> tuple[RepeatableSpec, int]:
    if words and (cron or tz or every):
        fail("a stored repeatable has its own pattern", "leave out KEY, or --cron, --tz and --every", exit_code=USAGE)
    if not words:
        spec = RepeatableSpec(job_name="preview", pattern=_pattern(cron, tz, every), payload=None)
        return spec, first_fire_ms(spec, now_ms())
    name, key = queue_and_one(words, queue, "KEY")
    async with session.producer(name) as producer:
        meta = await _find(producer, key)
    spec = RepeatableSpec(
        job_name=meta.job_name,
        pattern=meta.pattern,
        payload=None,
        key=meta.key,
        limit=meta.limit,
        start_after_ms=meta.start_after_ms,
        end_before_ms=meta.end_before_ms,
        missed_fires=meta.missed_fires or MissedFiresPolicy.skip(),
    )
    return spec, first_fire_ms(spec, now_ms()) if meta.is_paused else meta.next_fire_ms


async def _find(producer: Producer, key: str) -> RepeatableMeta:
    found = [meta for meta in await producer.list_repeatable(_MOST_SPECS) if meta.key == key]
    if not found:
        _fail_missing(key)
    return found[0]


def _fail_missing(key: str) -> NoReturn:
    fail(f"there is no repeatable {key!r}", "chasqui repeatable list shows the keys", exit_code=NOT_THERE)


def _next_fires(spec: RepeatableSpec, next_ms: int, count: int) -> list[int]:
    fires: list[int] = []
    at: int | None = next_ms
    most = count if spec.limit is None else min(count, spec.limit)
    while at is not None and len(fires) < most and (spec.end_before_ms is None or at <= spec.end_before_ms):
        fires.append(at)
        at = spec.pattern.next_after_ms(max(at, spec.start_after_ms or 0))
    return fires


def _after_outage(spec: RepeatableSpec, next_ms: int, outage_ms: int, policy: MissedFiresPolicy) -> dict[str, Any]:
    """What a scheduler does that starts `outage_ms` after it missed the next fire."""
    back_ms = next_ms + outage_ms
    plan = plan_fires(spec.with_missed_fires(policy), next_ms, 0, back_ms)
    return {
        "jobs": len(plan.fires),
        "for": [local(spec.pattern, at) for at in plan.fires[:SHOWN_FIRES]],
        "next": None if plan.next_fire_ms is None else local(spec.pattern, plan.next_fire_ms),
    }


def _pattern(cron: str | None, tz: str | None, every: str | None) -> RepeatPattern:
    if (cron is None) == (every is None):
        fail("exactly one pattern is required", "pass --cron '0 9 * * 1-5', or --every 5m", exit_code=USAGE)
    if cron is not None:
        return RepeatPattern.cron(cron, tz)
    if tz is not None:
        fail("--tz goes with --cron", "leave it out", exit_code=USAGE)
    return RepeatPattern.every(parse_duration_ms(every or ""))


def _policy(text: str) -> MissedFiresPolicy:
    word, _, number = text.partition(":")
    if word == "all" and number.isdecimal():
        return MissedFiresPolicy.fire_all(int(number))
    if text not in ("skip", "once"):
        fail(f"--missed is skip, once or all:N, not {text!r}", "choose one of them", exit_code=USAGE)
    return MissedFiresPolicy.skip() if text == "skip" else MissedFiresPolicy.fire_once()


def _ms(when: str | None) -> int | None:
    return None if when is None else round(parse_time(when).timestamp() * 1000)
