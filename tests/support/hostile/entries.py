"""Hostile entries for each kind of key of a queue: good ones mutated, well-formed ones with odd contents, and pills."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack

from tests.support.hostile import poison
from tests.support.hostile.pills import Pill, pills
from tests.support.hostile.texts import COUNTERS, ODD_NUMBERS, SCORES, WHOLE, odd_text, odd_value, odd_words

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    import redis

STREAMS = ("stream", "dlq", "events")
PLACES = (*STREAMS, "delayed", "repeat", "result", "failure")
_LARGE = "many-lists"
"""Takes most of a second to read, here as everywhere: `dashboard/integration/test_large_payloads.py` is about those."""
_PILLS = {place: [p for p in pills() if p.where == place and not p.name.endswith(_LARGE)] for place in PLACES}
_CRON = [
    "* * * * *", "0 0 29 2 *", "0 0 31 2 *", "0 0 30 2 1", "*/61 * * * *", "99 * * * *", "@daily", "", "* " * 400,
    "0 0 * * 7#5", "0-59/1 0-23/1 1-31/1 1-12/1 0-6/1", "-1 * * * *", "59 23 31 12 *", "\x1b[2J * * * *", "1,2,3 " * 5,
]  # fmt: skip
_ZONES = [None, "UTC", "Europe/Berlin", "../../etc/passwd", "\0", "Mars/Olympus", "/etc/localtime", "x" * 5000, 7]
_MISSED = ["Skip", "FireOnce", {"FireAll": [3]}, {"FireAll": [2**32 - 1]}, {"FireAll": []}, {"FireAll": "x"}, 5, []]


@dataclass(frozen=True, slots=True)
class Odd:
    """One hostile entry; its key may be no text."""

    where: str
    key: bytes
    """Of a result, a failure record or a repeatable; else nothing."""
    data: Any

    def put(self, client: redis.Redis, queue: str) -> None:
        """Writes it into a queue, as anybody with a connection can; `client` may be a pipeline."""
        root = f"{{chasqui:{queue}}}:".encode()
        if self.where in STREAMS:
            client.xadd(root + self.where.encode(), self.data)
        elif self.where == "delayed":
            score, member = self.data
            client.execute_command("ZADD", root + b"delayed", score, member)
        elif self.where == "repeat":
            score, spec = self.data
            client.execute_command("ZADD", root + b"repeat", score, self.key)
            _put_spec(client, root + b"repeat:spec:" + self.key, spec)
        elif self.data is None:
            client.execute_command("RPUSH", root + self.where.encode() + b":" + self.key, "of another type")
        else:
            client.set(root + self.where.encode() + b":" + self.key, self.data)


def _put_spec(client: redis.Redis, key: bytes, spec: Any) -> None:
    if spec == "of another type":
        client.execute_command("SET", key, spec)
    elif spec is not None:
        client.execute_command("HSET", key, *(part for pair in spec.items() for part in pair))


Entry = Odd | Pill


def entry(chance: random.Random, where: str, number: int) -> Entry:
    """A hostile entry for this kind of key; `number` keeps keys apart."""
    if chance.random() < 0.1:
        return chance.choice(_PILLS[where])
    key = chance.choice([b"k", odd_text(chance)[:2000]]) + b"-%d" % number
    return Odd(where, key, _MAKERS[where](chance))


def envelope(chance: random.Random) -> bytes:
    """A job as it travels."""
    kind = chance.random()
    if kind < 0.4:
        return poison.mutated(chance, poison.envelopes())
    if kind < 0.5:
        return chance.choice(poison.envelopes())
    numbers = WHOLE if kind < 0.9 else ODD_NUMBERS
    payload: Any = odd_value(chance)
    fields = [
        odd_words(chance) + f"-{chance.randrange(10**9)}",
        payload if chance.random() < 0.1 else packed(payload),
        chance.choice([1, 1_700_000_000_000, chance.choice(numbers)]),
        chance.choice([0, 1, chance.choice(numbers)]),
    ]
    if chance.random() < 0.4:
        fields.append(_retry(chance))
    return packed(fields)


def packed(value: Any) -> bytes:
    """MessagePack."""
    data: bytes = msgpack.packb(value)
    return data


def _retry(chance: random.Random) -> Any:
    some = [chance.choice(ODD_NUMBERS) for _ in range(4)]
    backoff = [chance.choice(["fixed", "exponential", odd_words(chance)]), *some]
    return chance.choice([None, odd_value(chance), [chance.choice(ODD_NUMBERS), backoff], [3, backoff[:2]]])


def _stream(chance: random.Random) -> poison.Fields:
    fields: poison.Fields = {b"d": envelope(chance), b"n": odd_text(chance)}
    if chance.random() < 0.2:
        fields[odd_text(chance)] = odd_text(chance)
    for name in (b"d", b"n"):
        if chance.random() < 0.05:
            del fields[name]
    return fields or {b"": b""}


def _dead(chance: random.Random) -> poison.Fields:
    fields = _stream(chance)
    for name in (b"source_id", b"reason", b"detail"):
        if chance.random() < 0.9:
            fields[name] = odd_text(chance)
    if chance.random() < 0.5:
        fields[b"reason"] = b"retries_exhausted"
    return fields


def _event(chance: random.Random) -> poison.Fields:
    if chance.random() < 0.4:
        return poison.event_entry(chance)
    fields = dict(chance.choice(poison.EVENTS))
    for name in (b"ts", b"attempt", b"duration_us", b"backoff_ms", b"delay_ms"):
        if chance.random() < 0.5:
            fields[name] = chance.choice(COUNTERS)
    for name in (b"e", b"id", b"n", b"reason", b"progress", b"entry_id", b"job_id", b"queue", odd_text(chance)):
        if chance.random() < 0.25:
            fields[name] = odd_text(chance)
    return fields


def _delayed(chance: random.Random) -> tuple[str, bytes]:
    score = chance.choice(SCORES)
    if chance.random() < 0.4:
        return score, poison.delayed_member(chance)
    name = odd_text(chance)
    return score, struct.pack("<I", len(name)) + name + envelope(chance)


def _repeat(chance: random.Random) -> tuple[str, Any]:
    score, kind = chance.choice(SCORES), chance.random()
    if kind < 0.1:
        return score, chance.choice([None, "of another type"])
    spec = {"spec": poison.mutated(chance, poison.SPECS) if kind < 0.4 else _spec(chance)}
    if chance.random() < 0.5:
        spec["fired"] = chance.choice(COUNTERS)
    return score, spec


def _spec(chance: random.Random) -> bytes:
    pattern = chance.choice([
        {"Every": [chance.choice(ODD_NUMBERS)]},
        {"Cron": [chance.choice(_CRON), chance.choice(_ZONES)]},
        {"Every": [60_000]},
        odd_value(chance),
    ])  # fmt: skip
    times = [chance.choice([None, None, 1, chance.choice(ODD_NUMBERS)]) for _ in range(3)]
    key, name = odd_words(chance), chance.choice(["n", odd_words(chance)])
    fields = [key, name, pattern, packed(packed(odd_value(chance))), *times, chance.choice([0, *ODD_NUMBERS])]
    return packed([*fields, chance.choice(_MISSED)] if chance.random() < 0.5 else fields)


def _result(chance: random.Random) -> bytes | None:
    kind = chance.random()
    if kind < 0.05:
        return None
    return poison.mutated(chance, poison.RESULTS) if kind < 0.4 else packed(odd_value(chance))


def _failure(chance: random.Random) -> bytes | None:
    kind = chance.random()
    if kind < 0.05:
        return None
    if kind < 0.4:
        return poison.mutated(chance, poison.FAILURES)
    return packed([odd_words(chance), chance.choice([None, odd_words(chance)]), chance.choice(ODD_NUMBERS)])


_MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "stream": _stream,
    "dlq": _dead,
    "events": _event,
    "delayed": _delayed,
    "repeat": _repeat,
    "result": _result,
    "failure": _failure,
}
