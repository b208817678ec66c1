"""A queue that anybody wrote into, with good jobs in between that every reader has to find."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.codec.envelope import encode_delayed, encode_failure, encode_job, encode_payload
from chasqui_engine.codec.repeatable import encode_spec
from chasqui_engine.values.job import Job
from tests.support.hostile.entries import PLACES, STREAMS, Odd, entry
from tests.support.hostile.texts import odd_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    import redis

GOOD = 5
"""Good ones of each kind, spread among the hostile."""
NAME = "good-name"
HOUR_MS = 3_600_000
LATER_MS = 4_000_000_000_000
_FAR_IDS = ("99999999999999-1", "18446744073709551614-7")
"""Times past every calendar: in a stream of their own order these come last."""


@dataclass(slots=True)
class Filled:
    """What was written into a queue."""

    queue: str
    counts: Counter[str] = field(default_factory=Counter)
    """Entries of each kind, good ones included."""
    good: dict[str, list[str]] = field(default_factory=dict)
    """Ids, or keys, of the good ones."""


def good_entry(where: str, name: str, due: bool) -> Odd:
    """A good one, of which a reader knows nothing but its id."""
    job = encode_job(Job(id=name, payload={"good": name}, created_at_ms=1_700_000_000_000))
    at = "1" if due else str(LATER_MS)
    once = MissedFiresPolicy.fire_once()
    spec = encode_spec(RepeatableSpec(NAME, RepeatPattern.every(HOUR_MS), {"good": name}, key=name, missed_fires=once))
    dead = {"d": job, "n": NAME, "source_id": "1-1", "reason": "unrecoverable", "detail": f"died: {name}"}
    told = {"e": "completed", "id": name, "ts": "1700000000000", "n": NAME, "attempt": "1", "duration_us": "7"}
    data: dict[str, Any] = {
        "stream": {"d": job, "n": NAME},
        "dlq": dead,
        "events": told,
        "delayed": (at, encode_delayed(NAME, job)),
        "repeat": (at, {"spec": spec}),
        "result": encode_payload({"good": name}),
        "failure": encode_failure("unrecoverable", f"died: {name}", 3),
    }
    return Odd(where, name.encode(), data[where])


def fill(
    client: redis.Redis,
    queue: str,
    seed: int,
    count: int,
    places: Iterable[str] = PLACES,
    *,
    due: bool = False,
    far_ids: bool = True,
) -> Filled:
    """Writes `count` hostile entries into each of these places; `due` says whether good ones are to run now."""
    print(f"CHASQUI_FUZZ_SEED={seed} CHASQUI_FUZZ_COUNT={count}")
    filled = Filled(queue)
    for place in places:
        chance = random.Random(f"{seed}-{place}")
        filled.good[place] = [f"good-{place}-{n}" for n in range(GOOD)]
        good_at = {count * n // GOOD: name for n, name in enumerate(filled.good[place])}
        pipe = client.pipeline(transaction=False)
        for number in range(count):
            if number in good_at:
                good_entry(place, good_at[number], due).put(pipe, queue)
            entry(chance, place, number).put(pipe, queue)
        if far_ids and place in STREAMS:
            _put_far(pipe, queue, place, chance)
        pipe.execute()
        filled.counts[place] = _entries(client, queue, place)
    return filled


def _put_far(client: redis.Redis, queue: str, place: str, chance: random.Random) -> None:
    for entry_id in _FAR_IDS:
        far = entry(chance, place, 0)
        client.xadd(f"{{chasqui:{queue}}}:{place}", far.data, id=entry_id)


def _entries(client: redis.Redis, queue: str, place: str) -> int:
    """As the server counts them: the same member twice is one."""
    root = f"{{chasqui:{queue}}}:{place}"
    if place in STREAMS:
        return int(client.xlen(root))  # type: ignore[arg-type]
    if place in ("delayed", "repeat"):
        return int(client.zcard(root))  # type: ignore[arg-type]
    return sum(1 for _ in client.scan_iter(f"{root}:*", count=1000, _type="string"))


def clear(client: redis.Redis, queue: str) -> None:
    """Removes it, for those that look at all queues of the server."""
    for key in client.scan_iter(f"{{chasqui:{queue}}}:*", count=1000):
        client.unlink(key)


def take_some(client: redis.Redis, queue: str, seed: int) -> None:
    """Puts some entries into the hands of workers of any name."""
    chance, stream = random.Random(f"{seed}-workers"), f"{{chasqui:{queue}}}:stream"
    client.xgroup_create(stream, "default", "0")
    for _ in range(5):
        consumer = odd_text(chance) or b"worker"
        client.execute_command("XREADGROUP", "GROUP", "default", consumer, "COUNT", 4, "STREAMS", stream, ">")


def add_neighbours(client: redis.Redis, seed: int) -> None:
    """Queues that no queue should be called, and keys of a type that no queue has: for a server of the test's own."""
    chance = random.Random(f"{seed}-neighbours")
    for number in range(10):
        client.xadd(b"{chasqui:%b%d}:stream" % (odd_text(chance)[:500], number), {"x": "y"})
    for name in (b"", b"{", b"}", b"a{b", b"\x1b[2J", b"\xff", b"x" * 300):
        client.xadd(b"{chasqui:%b}:stream" % name, {"x": "y"})
    for kind in ("stream", "delayed", "dlq", "events", "repeat", "paused"):
        client.rpush(f"{{chasqui:wrong-{kind}}}:{kind}", "of another type")
        client.xadd(f"{{chasqui:wrong-{kind}}}:{'dlq' if kind == 'stream' else 'stream'}x", {"x": "y"})
