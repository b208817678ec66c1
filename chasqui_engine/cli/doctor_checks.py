"""What a doctor looks at: each check is a question to what the server said, answered with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chasqui_engine._redis.client.capabilities import Capabilities
from chasqui_engine._redis.client.server_info import ServerInfo
from chasqui_engine.admin.monitor import BadQueue
from chasqui_engine.admin.snapshot import QueueSnapshot
from chasqui_engine.cli.formatting import ago, brief

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"

_SKEW_MS = 1000
_BAD_SKEW_MS = 30_000
_FULL = 0.9
_STUCK_MS = 60_000
"""A worker that holds jobs is heard of every ten seconds; twice the default after which its jobs are taken over."""
_GONE_MS = 24 * 3600 * 1000
_LATE_MS = 5_000
_MANY_DEAD = 50_000
_LAST_ID = (2**64 - 1, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer."""

    level: str
    what: str
    found: str
    advice: str = ""


def of_server(facts: ServerInfo, capabilities: Capabilities, local_ms: int) -> Iterator[Finding]:
    """The server itself."""
    name = f"{capabilities.server.title()} {capabilities.version}"
    yield Finding(OK, "server", name)
    yield from _features(capabilities)
    yield from _memory(facts, capabilities)
    yield from _persistence(facts)
    yield from _role(facts)
    yield _skew(facts.clock_ms - local_ms)
    yield _rights(facts)


def _features(capabilities: Capabilities) -> Iterator[Finding]:
    uses = (
        (capabilities.ackdel, "XACKDEL", "XACK and XDEL in one script", "Redis 8.2"),
        (capabilities.script_flags, "flags of scripts", "an empty write before the first", "Redis 7 or Valkey"),
    )
    for has, what, fallback, since in uses:
        if has:
            yield Finding(OK, "capability", f"{what}: used")
        else:
            yield Finding(NOTE, "capability", f"no {what}; instead: {fallback}", f"{since} has it; nothing needs doing")


def _memory(facts: ServerInfo, capabilities: Capabilities) -> Iterator[Finding]:
    policy = facts.settings.get("maxmemory-policy", capabilities.eviction)
    if policy == "noeviction":
        yield Finding(OK, "eviction", "noeviction: a full server refuses jobs, it does not drop them")
    elif policy == "unknown":
        yield Finding(NOTE, "eviction", "the server does not say", "make sure that maxmemory-policy is noeviction")
    else:
        yield Finding(FAIL, "eviction", f"{policy}: when full, it drops jobs", "CONFIG SET maxmemory-policy noeviction")
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


def _persistence(facts: ServerInfo) -> Iterator[Finding]:
    if facts.info.get("aof_enabled") == "1":
        sync = facts.settings.get("appendfsync", "")
        yield Finding(OK, "persistence", f"append-only file{f', fsync {sync}' if sync else ''}")
        if facts.info.get("aof_last_write_status", "ok") != "ok":
            yield Finding(FAIL, "persistence", "the last write to the append-only file failed", "look at its disk")
    elif facts.settings.get("save"):
        advice = "a crash loses what came since the last snapshot: CONFIG SET appendonly yes"
        yield Finding(WARN, "persistence", f"snapshots only (save {facts.settings['save']})", advice)
    elif "save" in facts.settings:
        advice = "a restart loses every job: CONFIG SET appendonly yes"
        yield Finding(WARN, "persistence", "none", advice)
    else:
        yield Finding(NOTE, "persistence", "no append-only file; snapshots: the server does not say", "appendonly yes")
    if facts.info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Finding(FAIL, "persistence", "the last snapshot failed", "look at the server's log and disk")


def _role(facts: ServerInfo) -> Iterator[Finding]:
    if facts.info.get("role") == "slave":
        yield Finding(FAIL, "role", "this is a replica: it takes no jobs", "point --url at its master")
        return
    replicas, wanted = _number(facts, "connected_slaves"), facts.settings.get("min-replicas-to-write")
    if not replicas:
        return
    if wanted == "0":
        found = f"{replicas} connected, and jobs are accepted without them: a failover may lose some"
        yield Finding(WARN, "replicas", found, "CONFIG SET min-replicas-to-write 1, on the replicas as well")
    else:
        yield Finding(OK, "replicas", f"{replicas} connected; min-replicas-to-write {wanted or 'is not told'}")


def _skew(skew_ms: int) -> Finding:
    found = f"the server is {ago(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'} this machine"
    if abs(skew_ms) < _SKEW_MS:
        return Finding(OK, "clock", f"within {_SKEW_MS // 1000} s of this machine's")
    advice = "delays go by the server's clock; set both by NTP"
    return Finding(FAIL if abs(skew_ms) > _BAD_SKEW_MS else WARN, "clock", found, advice)


def _rights(facts: ServerInfo) -> Finding:
    user = facts.user or "unknown user"
    if facts.forbidden is None:
        return Finding(
            NOTE, "ACL", f"{user}; the server does not say what it may do", "grant ~{chasqui:* +@all -@admin"
        )
    if facts.forbidden:
        advice = f"ACL SETUSER {user} ~{{chasqui:* +{' +'.join(word.lower() for word in facts.forbidden)}"
        return Finding(FAIL, "ACL", f"{user} may not {', '.join(facts.forbidden)}", advice)
    return Finding(OK, "ACL", f"{user} may do all that is needed")


def of_queue(seen: QueueSnapshot, groups: list[str], repeatable_lag_ms: int = 0) -> Iterator[Finding]:
    """One queue, the group that works on it, and how overdue its first repeatable is."""
    counts, where = seen.counts, f"queue {seen.name}"
    before = list(_group(seen, groups, where))
    yield from before
    if counts.paused:
        yield Finding(WARN, where, f"paused, {counts.waiting:,} wait", f"chasqui resume {seen.name}")
    elif counts.waiting and not seen.consumers:
        advice = f"chasqui worker MODULE:HANDLER -q {seen.name}"
        yield Finding(WARN, where, f"{counts.waiting:,} wait and there is no worker", advice)
    if counts.delayed_lag_ms > _LATE_MS:
        advice = "start a worker: each runs a promoter"
        yield Finding(WARN, where, f"a delayed job is overdue by {ago(counts.delayed_lag_ms)}", advice)
    if repeatable_lag_ms > _LATE_MS:
        advice = f"start a worker: each runs a scheduler; chasqui repeatable list {seen.name} shows which"
        yield Finding(WARN, where, f"a repeatable job is overdue by {ago(repeatable_lag_ms)}", advice)
    if counts.dead > _MANY_DEAD:
        advice = f"chasqui dlq peek {seen.name}; beyond 100,000 the oldest are dropped"
        yield Finding(WARN, where, f"{counts.dead:,} dead letters", advice)
    elif counts.dead:
        yield Finding(NOTE, where, f"{counts.dead:,} dead letters", f"chasqui dlq peek {seen.name}")


def of_bad_queue(one: BadQueue) -> Finding:
    """A queue that cannot be looked at; no worker can work on one whose keys are of the wrong type."""
    where = f"queue {brief(one.name)}"
    if one.odd_name:
        return Finding(WARN, where, one.error, "not written by Chasqui: find out by whom, and delete its keys")
    return Finding(FAIL, where, f"cannot be read: {one.error}", "TYPE tells which of its keys is wrong: rename it")


def of_ids(queue: str, last_ids: dict[str, tuple[int, int]], clock_ms: int) -> Iterator[Finding]:
    """The streams of a queue by the last ids that they gave out, which say what the clock was."""
    where = f"queue {queue}"
    for key, last in last_ids.items():
        if last == _LAST_ID:
            advice = (
                f"an entry with the largest id was written by hand. Stop the producers; when nothing that matters is "
                f"left in it (XLEN {key}), DEL {key}: workers make it again"
            )
            yield Finding(FAIL, where, f"{key} has used its last id and takes no more entries", advice)
        elif last[0] - clock_ms > _SKEW_MS:
            found = f"the newest entry of {key} is dated {ago(last[0] - clock_ms)} ahead of the server's clock"
            advice = "if the clock was set back, delayed jobs, retries and repeatables wait until it is there again"
            yield Finding(WARN, where, found, advice)


def _group(seen: QueueSnapshot, groups: list[str], where: str) -> Iterator[Finding]:
    others = [name for name in groups if name != seen.group]
    if others:
        advice = "a job is deleted by the first group that ends it: use one group"
        yield Finding(WARN, where, f"further groups read it: {', '.join(others)}", advice)
    stuck = [one for one in seen.consumers if one.active and one.idle_ms > _STUCK_MS]
    gone = [one for one in seen.consumers if not one.active and one.idle_ms > _GONE_MS]
    for one in stuck:
        advice = "start a worker: it takes them over; if that one still runs, look at its log"
        found = f"{one.name} holds {one.active:,} jobs and was last heard of {ago(one.idle_ms)} ago"
        yield Finding(WARN, where, found, advice)
    if gone:
        advice = "harmless names of workers that did not leave; XGROUP DELCONSUMER removes them"
        yield Finding(NOTE, where, f"{len(gone):,} workers not heard of for a day", advice)
    if not stuck:
        alive = len(seen.consumers) - len(gone)
        yield Finding(OK, where, f"{alive:,} workers, {seen.counts.active:,} active, {seen.counts.waiting:,} waiting")


def _number(facts: ServerInfo, name: str) -> int:
    text = facts.info.get(name, "0").strip()
    return int(text) if text.isdecimal() else 0
