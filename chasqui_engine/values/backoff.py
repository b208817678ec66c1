"""How long to wait before a failed job runs again."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import check_number, check_whole_number


class BackoffKind(StrEnum):
    """How the delay grows. A kind this release does not know is a newer producer's: it acts as exponential."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, text: str) -> BackoffKind:
        """The kind of a wire string."""
        try:
            return cls(text)
        except ValueError:
            return cls.UNKNOWN


_MOST_MS = 2**63 - 1
_DEFAULT_MAX_BACKOFF_MS = 30_000


def _check_ms(field: str, value: int) -> None:
    check_whole_number(value, field, most=_MOST_MS, unit="milliseconds")


def _check_multiplier(field: str, value: float) -> None:
    check_number(value, field, most=2**63 - 1)


@dataclass(frozen=True, slots=True)
class BackoffSpec:
    """A job's own backoff. What is left None comes from the worker's `RetryConfig`."""

    kind: str
    """"fixed", "exponential", or a newer producer's word, which is kept as it is."""
    delay_ms: int
    """Delay before the first retry."""
    max_delay_ms: int | None = None
    """Upper bound of the delay, before jitter."""
    multiplier: float | None = None
    """What the delay grows by from one retry to the next."""
    jitter_ms: int | None = None
    """Spread: the delay is moved by up to this much, either way."""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str):
            raise ConfigError(f"backoff.kind must be 'fixed' or 'exponential', got {self.kind!r}")
        _check_ms("backoff.delay_ms", self.delay_ms)
        if self.max_delay_ms is not None:
            _check_ms("backoff.max_delay_ms", self.max_delay_ms)
        if self.multiplier is not None:
            _check_multiplier("backoff.multiplier", self.multiplier)
        if self.jitter_ms is not None:
            _check_ms("backoff.jitter_ms", self.jitter_ms)

    @staticmethod
    def fixed(delay_ms: int, jitter_ms: int | None = None) -> BackoffSpec:
        """The same delay before every retry."""
        return BackoffSpec(BackoffKind.FIXED, delay_ms, jitter_ms=jitter_ms)

    @staticmethod
    def exponential(
        initial_ms: int, *, multiplier: float = 2.0, max_ms: int | None = None, jitter_ms: int | None = None
    ) -> BackoffSpec:
        """A delay that grows by `multiplier` with every retry, up to `max_ms`."""
        return BackoffSpec(BackoffKind.EXPONENTIAL, initial_ms, max_ms, multiplier, jitter_ms)

    def with_own_maximum(self) -> BackoffSpec:
        """The same, with its delay as maximum if it has none and the default maximum of workers would cut it."""
        if self.max_delay_ms is not None or self.delay_ms <= _DEFAULT_MAX_BACKOFF_MS:
            return self
        return replace(self, max_delay_ms=self.delay_ms)

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> BackoffSpec:
        """The spec that `to_dict` gave."""
        try:
            return BackoffSpec(**fields)
        except TypeError as err:
            raise ConfigError(f"backoff needs kind and delay_ms, and takes no other fields: {err}") from err

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set."""
        every = {
            "kind": str(self.kind),
            "delay_ms": self.delay_ms,
            "max_delay_ms": self.max_delay_ms,
            "multiplier": self.multiplier,
            "jitter_ms": self.jitter_ms,
        }
        return {key: value for key, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """The worker's backoff, for every job that does not carry its own."""

    initial_backoff_ms: int = 100
    """Delay before the first retry."""
    max_backoff_ms: int = _DEFAULT_MAX_BACKOFF_MS
    """Upper bound of the delay, before jitter; also for jobs whose own backoff has none."""
    multiplier: float = 2.0
    """What the delay grows by from one retry to the next."""
    jitter_ms: int = 100
    """Spread: the delay is moved by up to this much, either way."""

    def __post_init__(self) -> None:
        for field in ("initial_backoff_ms", "max_backoff_ms", "jitter_ms"):
            _check_ms(f"RetryConfig.{field}", getattr(self, field))
        _check_multiplier("RetryConfig.multiplier", self.multiplier)


def backoff_ms(retry_number: int, spec: BackoffSpec | None, config: RetryConfig, spread: float | None = None) -> int:
    """The delay before retry `retry_number` (1 for the first): `min(delay × multiplier^(n−1), max) ± jitter`.

    `spread` from −1 to 1 says where in the jitter to land; left out, chance does.
    """
    delay = float(config.initial_backoff_ms if spec is None else spec.delay_ms)
    limit = config.max_backoff_ms if spec is None or spec.max_delay_ms is None else spec.max_delay_ms
    jitter = config.jitter_ms if spec is None or spec.jitter_ms is None else spec.jitter_ms
    if spec is None or BackoffKind.of(spec.kind) is not BackoffKind.FIXED:
        multiplier = config.multiplier if spec is None or spec.multiplier is None else spec.multiplier
        delay = _grow(delay, multiplier, retry_number - 1, limit)
    if spread is None:
        spread = random.uniform(-1, 1)
    return max(0, round(min(delay, limit) + jitter * spread))


def _grow(delay: float, multiplier: float, times: int, limit: float) -> float:
    if not delay:
        return delay
    try:
        # As a float, since integers grow without limit.
        return delay * float(multiplier) ** times
    except OverflowError:
        return limit
