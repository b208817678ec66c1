"""Bulk enqueue: chunks of jobs, each written once even if it is sent repeatedly."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from chasqui_engine._redis.blocking.connection import BulkConnection, LostConnectionError
from chasqui_engine._redis.blocking.fence import fence_key, ids_key
from chasqui_engine._redis.client.link import Argument, CommandError, pack
from chasqui_engine._redis.client.replies import ReplyError
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.scripts import Script

Command = tuple[Argument, ...]
"""Number of keys, keys and arguments of a script."""

_ADD = scripts.load("bulk/add")
_MIXED = scripts.load("bulk/add_mixed")
_PACE = scripts.load("bulk/pace")
_SCRIPTS = (_ADD, _MIXED)

FULL = -1
WRITTEN_BEFORE = -2
WRITTEN_OTHERWISE = -3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The fence that keeps a chunk from being written twice."""

    write_id: str
    chunk: str
    """The chunk's place in the write: partition and number. Empty: chunks are not fenced."""
    by_id: bool
    """Jobs with ids are written once per write, regardless of how long an id stays taken."""
    digest: str
    """Digest of the chunk's rows: other rows at the same place mean that the plan is not repeatable."""
    ttl_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the queue."""

    max_stream_len: int
    trim: bool
    taken_ttl_s: int
    events_max: int


@dataclass(frozen=True, slots=True)
class MixedJob:
    """A job with its own time or id."""

    name: str
    envelope: bytes
    member: bytes
    """The member of the delayed set; empty for an immediate job."""
    run_at_ms: int | None
    delay_ms: int | None
    job_id: str
    own_id: bool


def chunk_command(
    keys: QueueKeys, fence: Fence, limits: Limits, names_and_envelopes: Sequence[Argument]
) -> tuple[Script, Command]:
    """Writes immediate jobs: name, envelope, name, envelope …"""
    used = (keys.stream, fence_key(keys, fence.write_id))
    head = (fence.chunk, fence.digest, fence.ttl_s, limits.max_stream_len, int(limits.trim))
    return _ADD, (len(used), *used, *head, *names_and_envelopes)


def mixed_chunk_command(
    keys: QueueKeys, fence: Fence, limits: Limits, jobs: Sequence[MixedJob]
) -> tuple[Script, Command]:
    """Writes jobs that have a time or an id of their own."""
    write_id = fence.write_id
    used = [keys.stream, fence_key(keys, write_id), keys.delayed, keys.events, ids_key(keys, write_id)]
    args: list[Argument] = [fence.chunk, fence.digest, fence.ttl_s, limits.max_stream_len, int(limits.trim)]
    args += (limits.taken_ttl_s, limits.events_max, int(fence.by_id))
    for job in jobs:
        key = 0
        if job.own_id:
            used += (keys.taken(job.job_id), keys.delayed_index(job.job_id))
            key = len(used) - 1
        run_at = "" if job.run_at_ms is None else job.run_at_ms
        delay = "" if job.delay_ms is None else job.delay_ms
        args += (job.name, job.envelope, job.member, run_at, delay, job.job_id, key)
    return _MIXED, (len(used), *used, *args)


class ChunkPipe:
    """Sends chunks with one in flight: the next is encoded while the server writes this one."""

    def __init__(self, connection: BulkConnection) -> None:
        self._connection = connection
        self._packed: bytes | None = None
        self._script = _ADD
        self._sent = False

    def submit(self, script: Script, command: Command) -> None:
        """Sends a chunk; the previous one must be settled."""
        self._script = script
        self._packed = self._pack(script, command)
        self._send()

    def for_later(self, script: Script, command: Command) -> bytes:
        """Prepares a chunk for `submit_later`."""
        return bytes([_SCRIPTS.index(script)]) + self._pack(script, command)

    def submit_later(self, kept: bytes) -> None:
        """Like `submit`, with a chunk from `for_later`."""
        self._script, self._packed = _SCRIPTS[kept[0]], kept[1:]
        self._send()

    def settle(self, *, safe_to_resend: bool) -> int:
        """The script's reply to the chunk in flight. After a broken connection a fenced chunk is sent again."""
        if not safe_to_resend:
            return self._reply()
        return self._connection.patiently(self._reply)

    def resubmit(self) -> None:
        """Sends the refused chunk again."""
        self._send()

    def _pack(self, script: Script, command: Command) -> bytes:
        sha = self._connection.patiently(lambda: self._sha(script))
        return pack(("EVALSHA", sha, *command))

    def _sha(self, script: Script) -> str:
        self._connection.connect()
        return script.sha(self._connection.capabilities.script_flags)

    def _send(self) -> None:
        self._sent = False
        # A broken connection shows again, and is handled, when the chunk is settled.
        with contextlib.suppress(LostConnectionError):
            self._connection.send(self._packed or b"")
            self._sent = True

    def _reply(self) -> int:
        if not self._sent:
            self._connection.send(self._packed or b"")
        self._sent = False
        reply = self._connection.receive()
        if type(reply) is ReplyError:
            if not str(reply).startswith("NOSCRIPT"):
                raise CommandError(str(reply))
            self._connection.call("SCRIPT", "LOAD", self._script.source(self._connection.capabilities.script_flags))
            self._connection.send(self._packed or b"")
            reply = self._connection.receive()
            if type(reply) is ReplyError:
                raise CommandError(str(reply))
        return int(reply)


def book(connection: BulkConnection, keys: QueueKeys, write_id: str, rows: int, rows_per_s: float) -> float:
    """Reserves `rows` under a rate that all tasks of the write share; returns the seconds to wait."""
    wait_ms: int = connection.run(_PACE, [f"{fence_key(keys, write_id)}:pace"], [rows, rows_per_s])
    return max(0, wait_ms) / 1000
