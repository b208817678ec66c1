"""Numbers, times and records that nobody would write: each is one odd row, and the others are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import RepeatPattern
from chasqui_engine.codec.repeatable import encode_spec
from chasqui_engine.schedule.spec import RepeatableSpec
from chasqui_engine.values.durations import FURTHEST_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from chasqui_engine import SyncQueue
    from tests.cli.conftest import Said


@pytest.mark.parametrize("digits", [310, 400, 5000])
def test_an_event_of_any_time_is_shown_among_the_others(
    cli: Callable[..., Said], queue: SyncQueue, client: redis.Redis, digits: int
) -> None:
    for ts in ("9" * digits, "1700000000000"):
        client.xadd(f"{{chasqui:{queue.name}}}:events", {"e": "completed", "id": "a", "ts": ts, "duration_us": ts})
    assert len(cli("events", queue.name, "--json").lines) == 2
    shown = cli("events", queue.name)
    assert shown.code == 0
    assert "2023-11-14T22:13:20.000Z" in shown.out


def test_an_events_fields_do_not_stand_for_what_it_is(
    cli: Callable[..., Said], queue: SyncQueue, client: redis.Redis
) -> None:
    own = {"e": "completed", "id": "a", "n": "n"}
    fields = {**own, "event": "x", "job_id": "x", "job_name": "x", "entry_id": "x", "more": "x"}
    entry_id = client.xadd(f"{{chasqui:{queue.name}}}:events", fields).decode()  # type: ignore[union-attr]
    [told] = cli("events", queue.name, "--json").lines
    assert told == {"event": "completed", "job_id": "a", "job_name": "n", "entry_id": entry_id, "more": "x"}


@pytest.mark.parametrize("at_ms", [253_402_300_800_000, FURTHEST_MS, float("inf"), float("-inf")])
@pytest.mark.parametrize("pattern", [RepeatPattern.every(1000), RepeatPattern.cron("0 9 * * *", tz="Europe/London")])
def test_a_repeatable_of_any_time_is_listed(
    cli: Callable[..., Said], queue: SyncQueue, client: redis.Redis, at_ms: float, pattern: RepeatPattern
) -> None:
    spec = RepeatableSpec(job_name="far", pattern=pattern, payload=None, key="far")
    client.zadd(f"{{chasqui:{queue.name}}}:repeat", {"far": at_ms})
    client.hset(f"{{chasqui:{queue.name}}}:repeat:spec:far", "spec", encode_spec(spec))  # type: ignore[arg-type]
    [told] = cli("repeatable", "list", queue.name, "--json").json
    assert told["key"] == "far"
    assert "far" in cli("repeatable", "list", queue.name).out
    assert cli("repeatable", "preview", "far", "-q", queue.name).code == 0


@pytest.mark.parametrize("record", [b"\xc1", b"", b"\x93\x01\x02\x03"])
def test_a_job_is_shown_whose_failure_record_cannot_be_read(
    cli: Callable[..., Said], queue: SyncQueue, client: redis.Redis, record: bytes
) -> None:
    client.set(f"{{chasqui:{queue.name}}}:failure:a", record)
    said = cli("job", "a", "-q", queue.name, "--json")
    assert said.code == 0
    assert said.json["state"] == "dead"
