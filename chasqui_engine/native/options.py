"""The dicts in which ChasquiMQ's producer takes options and specs, made into the engine's values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chasqui_engine.queue.coercion import as_missed_fires, as_repeat, as_retry
from chasqui_engine.schedule.spec import RepeatableMeta, RepeatableSpec
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import PLAIN, AddOptions
from chasqui_engine.values.packed import Packed

_OPTIONS = ("id", "name", "retry")
_RETRY = ("max_attempts", "backoff")
_BOUNDS = ("limit", "start_after_ms", "end_before_ms")
_SPEC = ("key", "job_name", "pattern", "payload", "missed_fires", *_BOUNDS)


def as_packed(payload: bytes) -> Packed:
    """A payload that stays as it is."""
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise TypeError(f"payload must be bytes, got {type(payload).__name__}: encode it, or use Queue, which does")
    return Packed(payload)


def as_options(opts: Mapping[str, Any] | None) -> AddOptions:
    """From `{"id": …, "name": …, "retry": {"max_attempts": …, "backoff": {…}}}`, each of which may be left out."""
    if not opts:
        return PLAIN
    _check_known(opts, "opts", _OPTIONS)
    retry = opts.get("retry") or {}
    _check_known(retry, "opts['retry']", _RETRY)
    limits = as_retry(retry.get("max_attempts"), retry.get("backoff"))
    backoff = limits.backoff if limits else None
    if backoff is not None and backoff.kind not in ("fixed", "exponential"):
        raise ConfigError(f"opts['retry']['backoff']: kind must be 'fixed' or 'exponential', got {backoff.kind!r}")
    return AddOptions(id=opts.get("id"), name=opts.get("name") or "", retry=limits)


def as_spec(spec: Mapping[str, Any]) -> RepeatableSpec:
    """From the fields of a spec, its pattern as `{"kind": "every", "interval_ms": …}`."""
    _check_known(spec, "spec", _SPEC)
    if missing := [name for name in ("job_name", "pattern", "payload") if name not in spec]:
        raise ConfigError(f"spec needs {missing[0]!r}")
    return RepeatableSpec(
        key=spec.get("key") or "",
        job_name=spec["job_name"],
        pattern=as_repeat(spec["pattern"]),
        payload=as_packed(spec["payload"]),
        missed_fires=as_missed_fires(spec.get("missed_fires")),
        **{name: spec.get(name) for name in _BOUNDS},
    )


def meta_fields(meta: RepeatableMeta) -> dict[str, Any]:
    """A spec as it is listed."""
    fields = {name: getattr(meta, name) for name in ("key", "job_name", "next_fire_ms", *_BOUNDS)}
    missed_fires = None if meta.missed_fires is None else meta.missed_fires.to_dict()
    return {**fields, "pattern": meta.pattern.to_dict(), "missed_fires": missed_fires}


def _check_known(fields: Mapping[str, Any], what: str, known: tuple[str, ...]) -> None:
    if unknown := [name for name in fields if name not in known]:
        raise ConfigError(f"{what}: unknown field {unknown[0]!r}; known are {', '.join(known)}")
