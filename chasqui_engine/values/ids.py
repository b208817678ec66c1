"""Job ids: ULIDs, so that they sort by the time they were made."""

from __future__ import annotations

import itertools
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterator

from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.runtime.posix import at_fork

_HOST_CHARS = 64
_NOT_IN_HOSTS = re.compile(r"[^A-Za-z0-9._-]")

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]  # ten bits at a time
_COUNTER_BITS = 20


def _base32(value: int, pairs: int) -> str:
    return "".join(_PAIRS[value >> shift & 1023] for shift in range((pairs - 1) * 10, -1, -10))


def _time_part(ms: int) -> str:
    pairs = _PAIRS
    return (
        f"{pairs[ms >> 40 & 1023]}{pairs[ms >> 30 & 1023]}{pairs[ms >> 20 & 1023]}"
        f"{pairs[ms >> 10 & 1023]}{pairs[ms & 1023]}"
    )


class UlidMint:
    """Makes ULIDs: 48 bits of time, 60 random bits for this mint, a 20-bit counter.

    The random part is drawn once per process, so an id costs two table look-ups.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Starts over with another random part, as a forked child must."""
        # The parent's lock may have been held by a thread that does not exist in the child.
        self._lock = threading.Lock()
        # The first bit is left free, so that there is room above for many a counter that has run out.
        self._begin(int.from_bytes(os.urandom(8), "big") >> 5)

    def _begin(self, random: int) -> None:
        self._random = random
        self._random_part = _base32(random, 6)
        self._counter: Iterator[int] = itertools.count()

    def mint(self, created_at_ms: int | None = None) -> str:
        """One new id."""
        return self.mint_many(1, created_at_ms)[0]

    def mint_many(self, count: int, created_at_ms: int | None = None) -> list[str]:
        """`count` new ids, in ascending order."""
        time_part = _time_part(now_ms() if created_at_ms is None else created_at_ms)
        ids: list[str] = []
        with self._lock:
            while len(ids) < count:
                prefix = time_part + self._random_part
                for n in itertools.islice(self._counter, count - len(ids)):
                    if n >> _COUNTER_BITS:
                        self._begin(self._random + 1)
                        break
                    ids.append(prefix + _PAIRS[n >> 10] + _PAIRS[n & 1023])
        return ids


_mint = UlidMint()
at_fork(after_in_child=_mint.renew)
mint_id = _mint.mint
mint_ids = _mint.mint_many


def worker_name(name: str | None = None) -> str:
    """`<name>-<random>`, or `<host>-<pid>-<random>`: the name of a worker, which no other may have."""
    what = f"{_host()}-{os.getpid()}" if name is None else name
    random = _base32(int.from_bytes(os.urandom(4), "big") >> 2, 3).lower()
    return f"{what}-{random}"


def _host() -> str:
    return _NOT_IN_HOSTS.sub("-", socket.gethostname())[:_HOST_CHARS] or "host"


def unique_name(prefix: str) -> str:
    """`<prefix>-<uuid4>`: the default of holder ids."""
    return f"{prefix}-{uuid.uuid4()}"
