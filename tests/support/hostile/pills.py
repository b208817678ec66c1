"""Single entries that a reader may choke on, in every place of a queue: allowed by the wire, or written past it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack

from tests.support.hostile.poison import NUMBERS, PROGRESS

if TYPE_CHECKING:
    import redis

U32, U64, I64 = 2**32 - 1, 2**64 - 1, 2**63 - 1
_NIL = b"\xc0"


@dataclass(frozen=True, slots=True)
class Pill:
    """One bad entry: where it stands, and what."""

    name: str
    where: str
    """`stream`, `dlq`, `events`, `delayed`, `repeat`, `result` or `failure`."""
    data: Any
    """Fields of a stream's entry; score and member, score and spec; bytes."""

    def __str__(self) -> str:
        return f"{self.where}-{self.name}"

    def put(self, client: redis.Redis, queue: str) -> None:
        """Writes it into a queue, as anybody with a connection can."""
        root = f"{{chasqui:{queue}}}"
        if self.where in ("stream", "dlq", "events"):
            client.xadd(f"{root}:{self.where}", self.data)
        elif self.where == "delayed":
            score, member = self.data
            client.execute_command("ZADD", f"{root}:delayed", score, member)
        elif self.where == "repeat":
            score, spec = self.data
            client.execute_command("ZADD", f"{root}:repeat", score, self.name)
            if spec is not None:
                client.hset(f"{root}:repeat:spec:{self.name}", mapping={"spec": spec})
        else:
            client.set(f"{root}:{self.where}:{self.name}", self.data)


def nested(depth: int, bottom: bytes = b"\x01") -> bytes:
    """MessagePack of lists in lists."""
    return b"\x91" * depth + bottom


def envelope(
    job_id: str, payload: bytes = _NIL, created: Any = 1, attempt: Any = 0, *retry: Any, inline: bytes | None = None
) -> bytes:
    """An envelope around packed bytes, or around a value in their place."""
    length = bytes([0x94 + len(retry)])
    fields = [msgpack.packb(payload) if inline is None else inline, *map(msgpack.packb, (created, attempt, *retry))]
    return length + msgpack.packb(job_id) + b"".join(fields)


ENVELOPES: dict[str, bytes] = {
    "deep-511": envelope("deep-511", nested(511)),
    "deep-1000": envelope("deep-1000", nested(1000)),
    "deep-1023": envelope("deep-1023", nested(1023)),
    "deep-5000": envelope("deep-5000", nested(5000)),
    "deep-inline": envelope("deep-inline", inline=nested(1000)),
    "attempt-u32": envelope("attempt-u32", _NIL, 1, U32),
    "attempt-u64": envelope("attempt-u64", _NIL, 1, U64),
    "max-attempts-i32": envelope("max-attempts-i32", _NIL, 1, 0, [2**31, None]),
    "max-attempts-u32": envelope("max-attempts-u32", _NIL, 1, 0, [U32, None]),
    "backoff-u64": envelope("backoff-u64", _NIL, 1, 0, [3, ["fixed", U64, U64, 1e308, U64]]),
    "backoff-nan": envelope("backoff-nan", _NIL, 1, 0, [3, ["exponential", 1, None, float("nan"), None]]),
    "created-u64": envelope("created-u64", _NIL, U64),
    "timestamp": envelope("timestamp", msgpack.packb(msgpack.Timestamp(2**62, 1))),
    "extension": envelope("extension", msgpack.packb(msgpack.ExtType(5, b"\xff"))),
    "numbers": envelope("numbers", msgpack.packb([float("nan"), float("-inf"), U64, -(2**63)])),
    "keys": envelope("keys", msgpack.packb({None: 1, b"\xff": 2, 1.5: 3, "a\0": "\0"})),
    "many-lists": envelope("many-lists", b"\xdd" + (2**18).to_bytes(4, "big") + b"\x90" * 2**18),
    "lying": envelope("lying", b"\xdd\xff\xff\xff\xff"),
    "empty": b"",
    "not-an-array": _NIL,
}


def _spec(pattern: Any, payload: bytes = _NIL, limit: Any = None, *rest: Any) -> bytes:
    fields = ["k", "n", pattern, msgpack.packb(payload), limit, *(rest or (None, None)), 0]
    packed: bytes = msgpack.packb(fields)
    return packed


EVERY = {"Every": [60_000]}
SPECS: dict[str, tuple[str, bytes | None]] = {
    "score-inf": ("inf", _spec(EVERY)),
    "score-minus-inf": ("-inf", _spec(EVERY)),
    "score-1e300": ("1e300", _spec(EVERY)),
    "limit-u64": ("1", _spec(EVERY, _NIL, U64)),
    "interval-u64": ("1", _spec({"Every": [U64]})),
    "far-end": ("1", _spec(EVERY, _NIL, None, 2**53 - 2, 2**53 - 1)),
    "deep-payload": ("1", _spec(EVERY, nested(1000))),
    "deep-pattern": ("1", nested(900)),
    "no-pattern": ("1", _spec({"Cron": ["* * * * *"]})),
    "no-spec": ("1", None),
    "garbage": ("1", b"\xc1"),
}
DELAYED: dict[str, tuple[str, bytes]] = {
    "score-inf": ("inf", b"\0\0\0\0" + envelope("inf")),
    "score-minus-inf": ("-inf", b"\0\0\0\0" + envelope("minus-inf")),
    "score-1e300": ("1e300", b"\0\0\0\0" + envelope("far")),
    "no-length": ("1", b"\x01"),
    "lying-length": ("1", b"\xff\xff\xff\xff" + envelope("lie")),
    "bad-name": ("1", b"\x02\0\0\0\xff\xfe" + envelope("bad-name")),
}
RESULTS: dict[str, bytes] = {"deep": nested(1000), "garbage": b"\xc1", "empty": b""}
FAILURES: dict[str, bytes] = {
    "attempts-i32": msgpack.packb(["r", None, 2**31]),
    "attempts-u64": msgpack.packb(["r", "d", U64]),
    "attempts-minus": msgpack.packb(["r", "d", -(2**63)]),
    "garbage": b"\xc1",
    "deep": nested(1000),
}


def _event(**fields: bytes | str) -> dict[str, bytes | str]:
    return {"e": "completed", "id": "j", "ts": "1", "attempt": "1", **fields}


def _events() -> list[Pill]:
    numbers = [
        Pill(f"{field}-{number[:8]!r}-{len(number)}", "events", _event(**{field: number}))
        for field in ("ts", "attempt", "duration_us", "backoff_ms")
        for number in (*NUMBERS, b"%d" % U64, b"%d" % U32)
    ]
    progress = [Pill(f"progress-{n}", "events", _event(e="progress", progress=text)) for n, text in enumerate(PROGRESS)]
    names = [Pill(f"named-{n}", "events", _event(e=name, n=name, id=name)) for n, name in enumerate(NAMES)]
    return [*numbers, *progress, *names]


NAMES = [b"", b"\xff\xfe", b"\0", b"__proto__", b"\x1b]0;x\x07", "\u202e".encode(), b"x" * 70_000]


def pills() -> list[Pill]:
    """All of them."""
    return [
        *(Pill(name, "stream", {"d": data, "n": "n"}) for name, data in ENVELOPES.items()),
        *(Pill(f"name-{n}", "stream", {"d": envelope(f"named-{n}"), "n": name}) for n, name in enumerate(NAMES)),
        Pill("no-envelope", "stream", {"x": "y"}),
        *(Pill(name, "dlq", {"d": data, "n": "n", "reason": "malformed"}) for name, data in ENVELOPES.items()),
        Pill("no-fields", "dlq", {"": ""}),
        Pill("bad-text", "dlq", {"d": _NIL, "reason": b"\xff", "detail": b"\xff\0", "source_id": b"\xff"}),
        *(Pill(name, "delayed", data) for name, data in DELAYED.items()),
        *(Pill(f"job-{name}", "delayed", ("5", b"\0\0\0\0" + data)) for name, data in ENVELOPES.items()),
        *(Pill(name, "repeat", data) for name, data in SPECS.items()),
        *(Pill(name, "result", data) for name, data in RESULTS.items()),
        *(Pill(name, "failure", data) for name, data in FAILURES.items()),
        *_events(),
    ]
