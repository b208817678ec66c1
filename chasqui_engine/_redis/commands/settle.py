"""Commands that settle deliveries: ack, retry, bury, drop. Each writes only what is still its consumer's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from chasqui_engine._redis.client.link import Argument, Link
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.group import Delivery, GroupMember, _member_args
from chasqui_engine._redis.commands.headers import HEADERS_TTL_S

_ACK = scripts.load("group/ack", on_full_server="stream")
_RETRY = scripts.load("group/retry", on_full_server="stream")
_BURY = scripts.load("group/bury", on_full_server="stream")
_DROP = scripts.load("group/drop", on_full_server="stream")

DropKind = Literal["aborted", "expired"]


class Ack(NamedTuple):
    """A job succeeded: its entry leaves the stream."""

    delivery: Delivery
    job_id: str
    attempt: int
    duration_us: int
    result: bytes | None


class Retry(NamedTuple):
    """A run failed, or its handler postponed the job: it runs again after a backoff."""

    delivery: Delivery
    member: bytes
    """The member for the delayed set."""
    backoff_ms: int
    job_id: str
    attempt: int
    """Runs counted so far."""
    error: str
    """Empty if nothing failed."""
    duration_us: int
    run_at_ms: int | None = None
    """A time by the server's clock, instead of the backoff."""
    error_type: str = ""
    """The error's class; empty if nothing failed."""


class Bury(NamedTuple):
    """The job does not run again: it becomes a dead letter."""

    delivery: Delivery
    reason: str
    detail: str
    job_id: str | None
    """None if it was unreadable."""
    attempt: int
    error: str
    duration_us: int | None
    """None if no handler ran."""
    failure: bytes
    """The failure record for waiters."""
    error_type: str = ""
    """The error's class; empty if no handler ran."""


class Drop(NamedTuple):
    """The job ends without having completed, and is no dead letter: it was aborted, or it expired before it began."""

    delivery: Delivery
    kind: DropKind
    job_id: str
    attempt: int
    """The run that was stopped, or that did not begin; 1 is the first."""
    duration_us: int | None
    """None if no handler ran."""
    failure: bytes
    """The failure record for waiters."""


async def ack(
    link: Link, member: GroupMember, acks: Sequence[Ack], *, events_max: int, result_ttl_s: int
) -> list[bytes]:
    """Acks jobs; returns the entries that another worker owns by now. `result_ttl_s` 0 keeps no results."""
    used = [member.keys.stream, member.keys.events]
    args: list[Argument] = [*_member_args(link, member), events_max, result_ttl_s]
    for one in acks:
        args.append(one.delivery.entry_id)
        if events_max:
            args += (one.job_id, one.delivery.name, one.attempt, one.duration_us)
        if result_ttl_s:
            used.append(member.keys.result(one.job_id))
            args.append(one.result or b"")
    lost: list[bytes] = await link.run(_ACK, used, args)
    return lost


async def retry(link: Link, member: GroupMember, retries: Sequence[Retry], *, events_max: int) -> list[int]:
    """Moves jobs to the delayed set; per job 1 (moved), 0 (another worker's), -1 (server full), -3 (to be aborted)."""
    keys = member.keys
    used = [keys.stream, keys.delayed, keys.events, keys.prio, keys.prio_jobs, keys.aborts]
    with_headers = any(one.delivery.headers for one in retries)
    args: list[Argument] = [*_member_args(link, member), events_max, HEADERS_TTL_S if with_headers else ""]
    for one in retries:
        args += (one.delivery.entry_id, one.member, one.backoff_ms, one.job_id, one.delivery.name, one.attempt)
        args += (one.error, one.duration_us, "" if one.run_at_ms is None else one.run_at_ms, one.error_type)
        args.append(one.delivery.priority)
        if with_headers:
            used.append(member.keys.headers(one.job_id))
            args.append(one.delivery.headers)
    if with_headers:
        used.append(member.keys.uses)
    reply: list[int] = await link.run(_RETRY, used, args)
    return reply


async def bury(
    link: Link, member: GroupMember, burials: Sequence[Bury], *, events_max: int, dlq_max: int, failure_ttl_s: int
) -> list[int]:
    """Moves jobs to the dead letters; per job 1 (buried), 0 (another worker's), -1 (server full), -2 (no id left)."""
    used = [member.keys.stream, member.keys.dlq, member.keys.events]
    args: list[Argument] = [*_member_args(link, member), events_max, dlq_max, failure_ttl_s]
    for one in burials:
        index = 0
        if one.job_id is not None:
            used.append(member.keys.failure(one.job_id))
            index = len(used)
        duration = "" if one.duration_us is None else one.duration_us
        delivery = one.delivery
        args += (delivery.entry_id, delivery.envelope or b"", delivery.name, one.reason, one.detail, one.job_id or "")
        args += (one.attempt, one.error, duration, one.failure, index, delivery.headers, one.error_type)
        args.append(delivery.priority)
    reply: list[int] = await link.run(_BURY, used, args)
    return reply


async def drop(
    link: Link, member: GroupMember, drops: Sequence[Drop], *, events_max: int, failure_ttl_s: int
) -> list[int]:
    """Ends jobs that were aborted or have expired; per job 1 (ended) or 0 (another worker's)."""
    keys = member.keys
    used = [keys.stream, keys.events, keys.aborts]
    args: list[Argument] = [*_member_args(link, member), events_max, failure_ttl_s]
    for one in drops:
        used += (keys.failure(one.job_id), keys.taken(one.job_id))
        duration = "" if one.duration_us is None else one.duration_us
        delivery = one.delivery
        args += (delivery.entry_id, one.kind, one.job_id, delivery.name, one.attempt, duration, one.failure)
    reply: list[int] = await link.run(_DROP, used, args)
    return reply
