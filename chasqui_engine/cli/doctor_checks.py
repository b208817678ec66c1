"""The checks of `chasqui doctor`: each turns what the server reported into findings with advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chasqui_engine.admin import BadQueue, ConsumerInfo, QueueReport, QueueSnapshot, ServerReport
from chasqui_engine.cli.output.formatting import ago, brief

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"

_SKEW_MS = 1000
_BAD_SKEW_MS = 30_000
_FULL = 0.9
_STUCK_MS = 60_000
"""A worker with active jobs sends a heartbeat every ten seconds; this is twice the default `claim_min_idle_ms`."""
_GONE_MS = 24 * 3600 * 1000
_LATE_MS = 5_000
_MANY_DEAD = 50_000
_LAST_ID = (2**64 - 1, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    level: str
    what: str
    found: str
    advice: str = ""


def check_server(facts: ServerReport, local_ms: int) -> Iterator[Finding]:
    """The server itself."""
    yield Finding(OK, "server", f"{facts.server.title()} {facts.version}")
    yield from _check_features(facts)
    yield from _check_memory(facts)
    yield from _check_persistence(facts)
    yield from _check_role(facts)
    yield _check_clock(facts.clock_ms - local_ms)
    yield _check_permissions(facts)


def _check_features(facts: ServerReport) -> Iterator[Finding]:
    uses = (
        (facts.has_ackdel, "XACKDEL", "XACK and XDEL in one script", "Redis 8.2"),
        (facts.has_script_flags, "script flags", "an empty write before the first", "Redis 7 or Valkey"),
    )
    for has, what, fallback, since in uses:
        if has:
            yield Finding(OK, "capability", f"{what}: used")
        else:
            yield Finding(NOTE, "capability", f"no {what}; instead: {fallback}", f"{since} has it; no action needed")


def _check_memory(facts: ServerReport) -> Iterator[Finding]:
    policy = facts.settings.get("maxmemory-policy", facts.eviction)
    if policy == "noeviction":
        yield Finding(OK, "eviction", "noeviction: a full server refuses jobs instead of dropping them")
    elif policy == "unknown":
        yield Finding(NOTE, "eviction", "the server does not say", "make sure that maxmemory-policy is noeviction")
    else:
        yield Finding(FAIL, "eviction", f"{policy}: a full server drops jobs", "CONFIG SET maxmemory-policy noeviction")
    limit, used = _number(facts, "maxmemory"), _number(facts, "used_memory")
    if not limit:
        yield Finding(
            NOTE, "memory", f"{used / 2**20:,.0f} MiB used, no limit set", "set maxmemory below the machine's"
        )
    elif used / limit > _FULL:
        advice = "add memory, or let workers catch up; see chasqui inspect"
        yield Finding(WARN, "memory", f"{used / limit:.0%} of {limit / 2**20:,.0f} MiB used", advice)
    else:
        yield Finding(OK, "memory", f"{used / limit:.0%} of {limit / 2**20:,.0f} MiB used")


def _check_persistence(facts: ServerReport) -> Iterator[Finding]:
    if facts.info.get("aof_enabled") == "1":
        sync = facts.settings.get("appendfsync", "")
        yield Finding(OK, "persistence", f"append-only file{f', fsync {sync}' if sync else ''}")
        if facts.info.get("aof_last_write_status", "ok") != "ok":
            yield Finding(FAIL, "persistence", "the last write to the append-only file failed", "check its disk")
    elif facts.settings.get("save"):
        advice = "a crash loses everything since the last snapshot: CONFIG SET appendonly yes"
        yield Finding(WARN, "persistence", f"snapshots only (save {facts.settings['save']})", advice)
    elif "save" in facts.settings:
        advice = "a restart loses every job: CONFIG SET appendonly yes"
        yield Finding(WARN, "persistence", "none", advice)
    else:
        yield Finding(NOTE, "persistence", "no append-only file; snapshots: the server does not say", "appendonly yes")
    if facts.info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Finding(FAIL, "persistence", "the last snapshot failed", "check the server's log and disk")


def _check_role(facts: ServerReport) -> Iterator[Finding]:
    if facts.info.get("role") == "slave":
        yield Finding(FAIL, "role", "this is a replica and accepts no jobs", "point --url at its master")
        return
    replicas, wanted = _number(facts, "connected_slaves"), facts.settings.get("min-replicas-to-write")
    if not replicas:
        return
    if wanted == "0":
        found = f"{replicas} connected, and jobs are accepted without them: a failover may lose some"
        yield Finding(WARN, "replicas", found, "CONFIG SET min-replicas-to-write 1, on the replicas as well")
    else:
        yield Finding(OK, "replicas", f"{replicas} connected; min-replicas-to-write {wanted or 'unknown'}")


def _check_clock(skew_ms: int) -> Finding:
    found = f"the server is {ago(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'} this machine"
    if abs(skew_ms) < _SKEW_MS:
        return Finding(OK, "clock", f"within {_SKEW_MS // 1000} s of this machine's")
    advice = "delays follow the server's clock; synchronise both with NTP"
    return Finding(FAIL if abs(skew_ms) > _BAD_SKEW_MS else WARN, "clock", found, advice)


def _check_permissions(facts: ServerReport) -> Finding:
    user = facts.user or "unknown user"
    if facts.forbidden is None:
        return Finding(
            NOTE, "ACL", f"{user}; the server does not report its permissions", "grant ~{chasqui:* +@all -@admin"
        )
    if facts.forbidden:
        advice = f"ACL SETUSER {user} ~{{chasqui:* +{' +'.join(word.lower() for word in facts.forbidden)}"
        return Finding(FAIL, "ACL", f"{user} may not {', '.join(facts.forbidden)}", advice)
    return Finding(OK, "ACL", f"{user} has all permissions that are needed")


def check_queue(seen: QueueSnapshot, report: QueueReport) -> Iterator[Finding]:
    """One queue: its group, workers, and overdue jobs."""
    counts, where = seen.counts, f"queue {seen.name}"
    yield from _check_group(seen, report.groups, where)
    if counts.paused:
        yield Finding(WARN, where, f"paused, {counts.waiting:,} waiting", f"chasqui resume {seen.name}")
    elif seen.lacks_workers:
        advice = f"chasqui worker MODULE:HANDLER -q {seen.name}"
        yield Finding(WARN, where, f"{counts.waiting:,} waiting and no worker", advice)
    if counts.delayed_lag_ms > _LATE_MS:
        advice = "start a worker, which runs a promoter"
        yield Finding(WARN, where, f"a delayed job is overdue by {ago(counts.delayed_lag_ms)}", advice)
    if counts.repeatable_lag_ms > _LATE_MS:
        advice = f"start a worker, which runs a scheduler; chasqui repeatable list {seen.name} shows which job"
        yield Finding(WARN, where, f"a repeatable job is overdue by {ago(counts.repeatable_lag_ms)}", advice)
    if counts.dead > _MANY_DEAD:
        advice = f"chasqui dlq peek {seen.name}; above 100,000 the oldest are dropped"
        yield Finding(WARN, where, f"{counts.dead:,} dead letters", advice)
    elif counts.dead:
        yield Finding(NOTE, where, f"{counts.dead:,} dead letters", f"chasqui dlq peek {seen.name}")


def check_bad_queue(one: BadQueue) -> Finding:
    """A queue that cannot be read; workers fail on keys of the wrong type as well."""
    where = f"queue {brief(one.name)}"
    if one.odd_name:
        return Finding(WARN, where, one.error, "another program wrote its keys: find out which, then delete them")
    return Finding(
        FAIL, where, f"cannot be read: {one.error}", "find the key of the wrong type with TYPE and rename it"
    )


def check_last_ids(queue: str, last_ids: dict[str, tuple[int, int]], clock_ms: int) -> Iterator[Finding]:
    """The last ids of a queue's streams, which show whether a stream is exhausted or the clock went backwards."""
    where = f"queue {queue}"
    for key, last in last_ids.items():
        if last == _LAST_ID:
            advice = (
                f"an entry with the largest id was written manually. Stop the producers; when XLEN {key} shows nothing "
                f"you need, DEL {key}: workers create it again"
            )
            yield Finding(FAIL, where, f"{key} has used its last id and accepts no more entries", advice)
        elif last[0] - clock_ms > _SKEW_MS:
            found = f"the newest entry of {key} is dated {ago(last[0] - clock_ms)} ahead of the server's clock"
            advice = "if the clock was set back, delayed jobs, retries and repeatables wait until it is that time again"
            yield Finding(WARN, where, found, advice)


def _check_group(seen: QueueSnapshot, groups: list[str], where: str) -> Iterator[Finding]:
    others = [name for name in groups if name != seen.group]
    if others:
        advice = "the first group to settle a job deletes it: use one group"
        yield Finding(WARN, where, f"other groups read it too: {', '.join(others)}", advice)
    stuck = [one for one in seen.consumers if one.active and _is_silent(one)]
    gone = [one for one in seen.consumers if one.alive is None and not one.active and one.idle_ms > _GONE_MS]
    died = [one for one in seen.consumers if one.alive is False and not one.active]
    for one in stuck:
        advice = "start a worker, which reclaims them; if this one still runs, check its log"
        found = f"{one.name} holds {one.active:,} jobs and was last seen {ago(one.idle_ms)} ago"
        yield Finding(WARN, where, found, advice)
    for one in died:
        advice = "harmless: it held no job; its log says why it ended. It is forgotten after an hour"
        yield Finding(NOTE, where, f"{one.name} died: last seen {ago(one.idle_ms)} ago", advice)
    if gone:
        advice = "harmless: workers that did not sign off; XGROUP DELCONSUMER removes them"
        yield Finding(NOTE, where, f"{len(gone):,} workers not seen for a day", advice)
    if not stuck:
        alive = len(seen.consumers) - len(gone) - len(died)
        jobs = f"{seen.running:,} running, {seen.buffered:,} buffered, {seen.counts.waiting:,} waiting"
        yield Finding(OK, where, f"{alive:,} workers, {jobs}")


def _is_silent(one: ConsumerInfo) -> bool:
    return one.idle_ms > _STUCK_MS if one.alive is None else not one.alive


def _number(facts: ServerReport, name: str) -> int:
    text = facts.info.get(name, "0").strip()
    return int(text) if text.isdecimal() else 0
