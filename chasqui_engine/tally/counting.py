"""How jobs ended, counted in memory: a job costs part of a microsecond."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from chasqui_engine._redis.commands.settle import Ack

_MOST_NAMES = 50
"""Names that one write counts each on its own; the others count as `*`."""
_MOST_NAME_CHARS = 100
_TIMED_AT_ONCE = 32


class Tally:
    """How jobs ended since this was last taken."""

    __slots__ = ("_completed", "_dead", "_durations", "_failed")

    def __init__(self) -> None:
        self._completed = Counter[str]()
        self._failed = Counter[str]()
        self._dead = Counter[str]()
        self._durations = Counter[int]()

    def add_completed(self, acks: Sequence[Ack]) -> None:
        """Counts runs that went well; of many at once, some stand for the durations of all."""
        self._completed.update([one.delivery.name for one in acks])
        each = max(1, len(acks) // _TIMED_AT_ONCE)
        for one in acks[::each]:
            self._durations[bucket_of(one.duration_us)] += each

    def add_failed(self, name: str, duration_us: int | None) -> None:
        """Counts a run that failed."""
        self._failed[name] += 1
        if duration_us is not None:
            self._durations[bucket_of(duration_us)] += 1

    def add_dead(self, name: str) -> None:
        """Counts a job that died."""
        self._dead[name] += 1

    def take(self) -> dict[str, int]:
        """The counts by their fields; it then begins again at nothing."""
        fields: dict[str, int] = {}
        for kind, counts in (("c", self._completed), ("f", self._failed), ("d", self._dead)):
            for place, (name, number) in enumerate(counts.most_common()):
                shown = name[:_MOST_NAME_CHARS] if place < _MOST_NAMES else "*"
                fields[f"{kind}:{shown}"] = fields.get(f"{kind}:{shown}", 0) + number
            counts.clear()
        fields.update((f"t:{bucket}", number) for bucket, number in self._durations.items())
        self._durations.clear()
        return fields


def bucket_of(duration_us: int) -> int:
    """The bucket of a duration: each is wider by a half of a power of two, so that its middle is right to a fifth."""
    return (duration_us * duration_us).bit_length()


def middle_ms(bucket: int) -> float:
    """The middle of a bucket."""
    return 2.0 ** ((bucket - 0.5) / 2) / 1000 if bucket else 0.0


def quantile_ms(durations: Counter[int], share: float) -> float | None:
    """The duration within which this share of runs ended, right to a fifth."""
    wanted = math.ceil(durations.total() * share)
    for bucket in sorted(durations):
        wanted -= durations[bucket]
        if wanted <= 0:
            return round(middle_ms(bucket), 3)
    return None
