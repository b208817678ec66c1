"""Hostile jobs and results as Airflow is told them: values that it can hold, or a refusal. No server, so many."""

from __future__ import annotations

from collections import Counter

import pytest

from chasqui_engine import DecodeError, EncodeError
from chasqui_engine.codec.envelope import decode_failure, decode_job, decode_payload
from chasqui_provider.asset_events.job_stream import _describe
from chasqui_provider.triggers.payloads import result_event, size_of
from chasqui_provider.waiting.outcome import completed_outcome, dead_outcome
from tests.support.hostile.checks import check_json, chunks, fields_of
from tests.support.hostile.entries import Entry
from tests.support.hostile.seeds import CHEAP_COUNT, SEED, SOAK_COUNT
from tests.support.measure import rss_mib

MOST_CHARS = 20_000
MOST_GROWTH_MIB = 100


def as_message(one: Entry) -> str:
    """A job on its way into an asset event."""
    fields = fields_of(one)
    try:
        told = _describe(decode_job(fields.get(b"d", b""), fields.get(b"n", b"").decode(errors="replace")))
    except DecodeError:
        return "unreadable"
    except EncodeError:
        return "refused"
    check_json(told, around=1)
    assert size_of(told)
    return "told"


def as_outcome(one: Entry, kind: str) -> str:
    """A result, or what stands for it, on its way into a trigger's event."""
    if one.data is None:
        return "of another type"
    try:
        outcome = (
            completed_outcome("id", decode_payload(one.data))
            if kind == "result"
            else dead_outcome("id", *decode_failure(one.data))
        )
    except DecodeError:
        return "unreadable"
    event = result_event([outcome])
    check_json(event, around=2)
    assert len(str(event)) < MOST_CHARS
    return "told"


def tell_all(seed: int, count: int) -> Counter[str]:
    """Half of them jobs, the others results and failure records; returns what became of them."""
    outcomes: Counter[str] = Counter()
    for chunk in chunks(seed, count // 2, "stream"):
        outcomes.update(f"job {as_message(one)}" for one in chunk)
    for kind in ("result", "failure"):
        for chunk in chunks(seed, count // 4, kind):
            outcomes.update(f"{kind} {as_outcome(one, kind)}" for one in chunk)
    return outcomes


def test_hostile_jobs_and_results_are_told_or_refused() -> None:
    print(f"CHASQUI_FUZZ_SEED={SEED}")
    outcomes = tell_all(SEED, CHEAP_COUNT)
    assert outcomes["job told"]
    assert outcomes["job refused"]
    assert outcomes["result told"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_million_of_them_are_told_or_refused() -> None:
    print(f"CHASQUI_FUZZ_SEED={SEED}")
    tell_all(SEED, CHEAP_COUNT)
    before = rss_mib()
    outcomes = tell_all(SEED + 1, SOAK_COUNT)
    growth = rss_mib() - before
    print(f"{outcomes.total()} entries: {dict(sorted(outcomes.items()))}; {growth:+.0f} MiB")
    assert growth < MOST_GROWTH_MIB
