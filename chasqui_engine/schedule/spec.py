"""Repeatable jobs: what repeats, and what happens to missed fires."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from chasqui_engine.schedule.cron import CronSchedule
from chasqui_engine.values.durations import FURTHEST_MS
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import JobRetryOverride
from chasqui_engine.values.validation import check_whole_number

_MAX_MS = 2**53
"""Redis holds scores as doubles: times beyond this are not kept exactly."""
PAUSED_MS = FURTHEST_MS
"""The next fire of a spec that is paused: it never comes."""
_MAX_U32 = 2**32 - 1
_MAX_U64 = 2**64 - 1


@dataclass(frozen=True, slots=True)
class RepeatPattern:
    """When a job repeats: make it with `cron` or `every`."""

    kind: str
    """"cron" or "every"."""
    expression: str | None = None
    """Cron: 5 fields, 6 with seconds first, 7 with years last; see `chasqui_engine.schedule.cron`."""
    tz: str | None = None
    """Cron: the zone the expression is read in; None is UTC."""
    interval_ms: int | None = None
    """Every: the time from one fire to the next."""

    def __post_init__(self) -> None:
        if self.kind == "cron":
            if self.expression is None or self.interval_ms is not None:
                raise ConfigError("a cron pattern takes an expression, for example '0 9 * * 1-5', and no interval_ms")
            CronSchedule.parse(self.expression, self.tz)
        elif self.kind == "every":
            if self.expression is not None or self.tz is not None:
                raise ConfigError("an every pattern takes interval_ms only, no expression and no tz")
            check_whole_number(self.interval_ms, "interval_ms", 1, _MAX_MS)
        else:
            raise ConfigError(f"kind must be 'cron' or 'every', got {self.kind!r}")

    @staticmethod
    def cron(expression: str, tz: str | None = None) -> RepeatPattern:
        """At the times that a cron expression names, in the zone `tz`: `UTC`, `+05:30` or an IANA name."""
        return RepeatPattern(kind="cron", expression=expression, tz=tz)

    @staticmethod
    def every(interval_ms: int) -> RepeatPattern:
        """Every `interval_ms`, for the first time one interval after the upsert."""
        return RepeatPattern(kind="every", interval_ms=interval_ms)

    def signature(self) -> str:
        """The pattern's part of the default key of a spec."""
        if self.kind == "every":
            return f"every:{self.interval_ms}"
        return f"cron:{self.expression}:{'UTC' if self.tz is None else self.tz}"

    def to_dict(self) -> dict[str, Any]:
        """The fields that apply to this kind."""
        if self.kind == "every":
            return {"kind": self.kind, "interval_ms": self.interval_ms}
        fields = {"kind": self.kind, "expression": self.expression}
        return fields if self.tz is None else {**fields, "tz": self.tz}

    def next_after_ms(self, t_ms: int) -> int | None:
        """The fire after one at `t_ms`; None if there is none."""
        if self.interval_ms is not None:
            return t_ms + self.interval_ms
        return CronSchedule.parse(self.expression or "", self.tz).next_after_ms(t_ms)


@dataclass(frozen=True, slots=True)
class MissedFiresPolicy:
    """What the scheduler does when it returns and more than one fire has passed.

    A late fire whose successor is not yet due was not missed: it is made under every policy.
    """

    kind: str
    """"skip", "fire-once" or "fire-all"."""
    max_catchup: int | None = None
    """Fire-all: how many fires are made up for at most; the others are dropped."""

    def __post_init__(self) -> None:
        if self.kind == "fire-all":
            if isinstance(self.max_catchup, bool) or not isinstance(self.max_catchup, int):
                raise TypeError(f"max_catchup must be an int, got {type(self.max_catchup).__name__}")
            check_whole_number(self.max_catchup, "max_catchup", 1, _MAX_U32)
        elif self.kind not in {"skip", "fire-once"}:
            raise ConfigError(f"kind must be 'skip', 'fire-once' or 'fire-all', got {self.kind!r}")

    @staticmethod
    def skip() -> MissedFiresPolicy:
        """Drop them all and continue with the next fire."""
        return MissedFiresPolicy(kind="skip")

    @staticmethod
    def fire_once() -> MissedFiresPolicy:
        """One job for all of them, then the next fire."""
        return MissedFiresPolicy(kind="fire-once")

    @staticmethod
    def fire_all(max_catchup: int) -> MissedFiresPolicy:
        """A job for each of them, the oldest first, up to `max_catchup`; then the next fire."""
        return MissedFiresPolicy(kind="fire-all", max_catchup=max_catchup)

    def to_dict(self) -> dict[str, Any]:
        """The fields that apply to this kind."""
        if self.kind == "fire-all":
            return {"kind": self.kind, "max_catchup": self.max_catchup}
        return {"kind": self.kind}


@dataclass(frozen=True, slots=True)
class RepeatableSpec:
    """A job that repeats."""

    job_name: str
    """The name of every job it makes."""
    pattern: RepeatPattern
    """When it fires."""
    payload: Any
    """The payload of every job it makes."""
    _: KW_ONLY
    key: str = ""
    """Its identity: an upsert replaces the spec of the same key. Left empty, name and pattern make it."""
    limit: int | None = None
    """How many jobs it makes in all; then it is removed. Each job made up for counts."""
    start_after_ms: int | None = None
    """It fires after this time, never at it."""
    end_before_ms: int | None = None
    """It may still fire at this time; when the next fire would come later, it is removed."""
    missed_fires: MissedFiresPolicy = field(default_factory=MissedFiresPolicy.skip)
    """What happens to fires that passed while no scheduler ran."""
    retry: JobRetryOverride | None = None
    """The own limits of every job it makes; a scheduler of ChasquiMQ 1.3.0 drops a spec that has such limits."""

    def __post_init__(self) -> None:
        kinds = {"key": str, "job_name": str, "pattern": RepeatPattern, "missed_fires": MissedFiresPolicy}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        if self.retry is not None:
            if not isinstance(self.retry, JobRetryOverride):
                raise ConfigError(f"retry must be a JobRetryOverride, got {type(self.retry).__name__}")
            object.__setattr__(self, "retry", self.retry.with_own_maximum())
        if self.limit is not None:
            check_whole_number(self.limit, "limit", 1, _MAX_U64)
        for name in ("start_after_ms", "end_before_ms"):
            if getattr(self, name) is not None:
                check_whole_number(getattr(self, name), name, 0, _MAX_MS)
        if self.end_before_ms is not None and self.end_before_ms <= (self.start_after_ms or -1):
            raise ConfigError(
                f"end_before_ms ({self.end_before_ms}) must be later than start_after_ms ({self.start_after_ms})"
            )

    def with_key(self, key: str) -> RepeatableSpec:
        """A copy with another key."""
        return replace(self, key=key)

    def with_limit(self, limit: int | None) -> RepeatableSpec:
        """A copy with another limit."""
        return replace(self, limit=limit)

    def with_start_after_ms(self, start_after_ms: int | None) -> RepeatableSpec:
        """A copy with another start."""
        return replace(self, start_after_ms=start_after_ms)

    def with_end_before_ms(self, end_before_ms: int | None) -> RepeatableSpec:
        """A copy with another end."""
        return replace(self, end_before_ms=end_before_ms)

    def with_missed_fires(self, missed_fires: MissedFiresPolicy) -> RepeatableSpec:
        """A copy with another policy."""
        return replace(self, missed_fires=missed_fires)

    def with_retry(self, retry: JobRetryOverride | None) -> RepeatableSpec:
        """A copy whose jobs have other limits."""
        return replace(self, retry=retry)

    def resolved_key(self) -> str:
        """The key, or the one that name and pattern make."""
        return self.key or f"{self.job_name}::{self.pattern.signature()}"


@dataclass(frozen=True, slots=True)
class RepeatableMeta:
    """A spec as it is listed: with its next fire, without its payload."""

    key: str
    job_name: str
    pattern: RepeatPattern
    next_fire_ms: int
    limit: int | None = None
    start_after_ms: int | None = None
    end_before_ms: int | None = None
    missed_fires: MissedFiresPolicy | None = None
    retry: JobRetryOverride | None = None

    @property
    def is_paused(self) -> bool:
        """Whether it is paused; `next_fire_ms` is then beyond all calendars."""
        return self.next_fire_ms >= PAUSED_MS
