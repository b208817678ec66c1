"""Job ids: ULIDs, so that they sort by the time they were made."""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from collections.abc import Iterator

from chasqui_engine.clock import now_ms

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]  # ten bits at a time
_COUNTER_BITS = 20


def _base32(value: int, pairs: int) -> str:
    return "".join(_PAIRS[value >> shift & 1023] for shift in range((pairs - 1) * 10, -1, -10))


class UlidMint:
    """Makes ULIDs: 48 bits of time, 60 random bits for this mint, a 20-bit counter.

    The random part is drawn once per million ids and per process, so an id costs two table look-ups.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._renew()

    def _renew(self) -> None:
        self._random = _base32(int.from_bytes(os.urandom(8), "big") >> 4, 6)
        self._counter: Iterator[int] = itertools.count()
        self._pid = os.getpid()

    def mint(self, created_at_ms: int | None = None) -> str:
        """One new id."""
        return self.mint_many(1, created_at_ms)[0]

    def mint_many(self, count: int, created_at_ms: int | None = None) -> list[str]:
        """`count` new ids, in ascending order."""
        time_part = _base32(now_ms() if created_at_ms is None else created_at_ms, 5)
        with self._lock:
            # A forked child must not go on with its parent's counter.
            if self._pid != os.getpid():
                self._renew()
            ids: list[str] = []
            while len(ids) < count:
                prefix = time_part + self._random
                for n in itertools.islice(self._counter, count - len(ids)):
                    if n >> _COUNTER_BITS:
                        self._renew()
                        break
                    ids.append(prefix + _PAIRS[n >> 10] + _PAIRS[n & 1023])
            return ids


_mint = UlidMint()
mint_id = _mint.mint
mint_ids = _mint.mint_many


def unique_name(prefix: str) -> str:
    """`<prefix>-<uuid4>`: the default of consumer and holder ids."""
    return f"{prefix}-{uuid.uuid4()}"
