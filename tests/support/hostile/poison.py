"""Bytes that nobody meant to write, and some that somebody did: good ones, mutated."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

import msgpack

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.codec.envelope import encode_failure
from chasqui_engine.codec.repeatable import encode_spec

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

Fields = dict[bytes, bytes]

_numbers = itertools.count()


def envelopes() -> list[bytes]:
    """Good ones, each with an id that no other has: the same bytes twice in the delayed set are one job."""
    job_id = f"job-{next(_numbers):09}"
    return [
        msgpack.packb([job_id, msgpack.packb({"k": [1, 2.5, None, "text"]}), 1_700_000_000_000, 0]),
        msgpack.packb([job_id, {"inline": [1, 2, 3]}, 1, 2]),
        msgpack.packb([job_id, b"\xc0", 1, 0, [5, ["fixed", 10, None, None, None]]]),
        msgpack.packb([f"{'é' * 40}{job_id}", b"\xc0", 1, 0, [None, ["exponential", 10, 100, 2.0, 5]]]),
    ]


SPECS = [
    encode_spec(RepeatableSpec("n", RepeatPattern.every(60_000), {"a": 1})),
    encode_spec(RepeatableSpec("n", RepeatPattern.cron("*/5 * * * *", tz="Europe/Berlin"), [1], limit=3)),
    encode_spec(RepeatableSpec("n", RepeatPattern.every(10**7), None, missed_fires=MissedFiresPolicy.fire_all(50))),
]
RESULTS = [msgpack.packb({"answer": [1, 2, {"deep": b"bytes"}]}), msgpack.packb(7), msgpack.packb("text" * 20)]
FAILURES = [encode_failure("retries_exhausted", "ValueError: x", 3), encode_failure("malformed", None, 0)]
EVENTS: list[Fields] = [
    {b"e": b"completed", b"id": b"job", b"ts": b"1", b"n": b"n", b"attempt": b"1", b"duration_us": b"7"},
    {b"e": b"dlq", b"id": b"job", b"ts": b"1", b"attempt": b"1", b"reason": b"malformed"},
    {b"e": b"failed", b"id": b"", b"ts": b"1", b"attempt": b"0", b"reason": b"text"},
    {b"e": b"drained", b"id": b"", b"ts": b"1"},
    {b"e": b"progress", b"id": b"job", b"ts": b"1", b"progress": b'{"done":[1,2.5,null]}'},
]
PROGRESS = [b"[" * 2000, b"[" * 100_000, b'{"a":' * 1500, b"9" * 5000, b"[]," * 100_000, b"1e999", b"NaN", b'"\\ud800"']
"""JSON that is deeper than a parser's stack, larger than anybody writes, or no JSON at all."""
NUMBERS = [b"\xc2\xb2", b"9" * 5000, b"-1", b"1e3", b"", b"\xff", "٣".encode(), b"0x10"]


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _flip(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _insert(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.randint(1, 8)) + data[at:]


def _noise(chance: random.Random, data: bytes) -> bytes:
    return chance.randbytes(chance.randrange(2 * len(data) + 1))


def _nest(chance: random.Random, data: bytes) -> bytes:
    """Lists in lists in lists, deeper than a decoder's or an interpreter's stack."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice([b"\x91", b"\x81\xa1a"]) * chance.choice([50, 990, 1500]) + data[at:]


def _lie(chance: random.Random, data: bytes) -> bytes:
    """Announces thousands of millions of bytes or elements that are not there."""
    at = chance.randrange(len(data) + 1)
    header = chance.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"])
    return data[:at] + header + struct.pack(">I", chance.choice([2**32 - 1, 2**24, 5000])) + data[at:]


def _extend(chance: random.Random, data: bytes) -> bytes:
    """Types of somebody's own, timestamps that are none."""
    at = chance.randrange(len(data) + 1)
    ext = chance.choice([b"\xd4\x05\x00", b"\xd4\xff\x00", b"\xd7\xff" + b"\xff" * 8, b"\xc7\x00\x01", b"\xc1"])
    return data[:at] + ext + data[at:]


def _splice(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)] + data[chance.randrange(len(data) + 1) :]


def _keep(chance: random.Random, data: bytes) -> bytes:
    del chance
    return data


_MUTATIONS: list[Callable[[random.Random, bytes], bytes]] = [
    _cut, _flip, _flip, _insert, _noise, _nest, _lie, _extend, _splice, _keep,
]  # fmt: skip


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """One of the seeds, changed once or twice, or by chance not at all."""
    data = chance.choice(_MUTATIONS)(chance, chance.choice(seeds))
    return chance.choice(_MUTATIONS)(chance, data) if chance.random() < 0.3 else data


def any_name(chance: random.Random) -> bytes:
    """A name with any byte in it."""
    return chance.randbytes(chance.choice([0, 1, 4, 40, 400]))


def stream_entry(chance: random.Random) -> Fields:
    """An entry of the jobs' stream."""
    fields: Fields = {b"d": mutated(chance, envelopes())}
    if chance.random() < 0.5:
        fields[b"n"] = any_name(chance)
    if chance.random() < 0.2:
        fields[chance.randbytes(3)] = chance.randbytes(9)
    if chance.random() < 0.05:
        del fields[b"d"]
    return fields or {b"x": b""}


def delayed_member(chance: random.Random) -> bytes:
    """A member of the delayed set: the length of the name may be a lie as well."""
    name, envelope = any_name(chance), mutated(chance, envelopes())
    length = len(name) if chance.random() < 0.8 else chance.choice([0, 1, 2**31, 2**32 - 1])
    # What is the same member twice is one member: the tail keeps most of them apart.
    member = struct.pack("<I", length) + name + envelope
    return _cut(chance, member) if chance.random() < 0.1 else member


def event_entry(chance: random.Random) -> Fields:
    """An entry of the events stream."""
    fields = dict(chance.choice(EVENTS))
    if b"progress" in fields and chance.random() < 0.5:
        fields[b"progress"] = chance.choice(PROGRESS)
    for key in list(fields):
        if chance.random() < 0.3:
            fields[key] = chance.choice(NUMBERS) if chance.random() < 0.5 else _noise(chance, fields[key])
        elif chance.random() < 0.1:
            del fields[key]
    if chance.random() < 0.2:
        fields[chance.randbytes(4)] = chance.randbytes(20)
    return fields or {b"": b""}
