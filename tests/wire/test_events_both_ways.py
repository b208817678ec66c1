"""Events: each engine's subscriber reads the other's, and both tell the same things in the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import RetryConfig

if TYPE_CHECKING:
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

Event = dict[str, Any]

# What an event says beside `ts`, by its name.
FIELDS = {
    "waiting": set(),
    "active": {"attempt"},
    "completed": {"attempt", "duration_us"},
    "failed": {"attempt", "reason", "duration_us"},
    "retry-scheduled": {"attempt", "backoff_ms"},
    "dlq": {"attempt", "reason"},
    "drained": set(),
}
# What only we say; their subscriber does not know that it is a number.
OURS = {
    "active": {"enqueued_at_ms"},
    "completed": {"worker"},
    "failed": {"error_type", "worker"},
    "retry-scheduled": {"error_type"},
}
STEADY = {"kind": "fixed", "delay_ms": 30, "jitter_ms": 0}


async def live_through(engine: str, ours: Ours, theirs: Theirs) -> tuple[list[Event], list[Event]]:
    """One job that succeeds, one that fails twice, one that is hopeless, one that comes later; what both heard."""
    adder = ours if engine == "theirs" else theirs
    await adder.add("good", 1, job_id="good")
    await adder.add("bad", {"fail": "no luck"}, job_id="bad", attempts=2, backoff=STEADY)
    await adder.add("hopeless", {"bury": "no such address"}, job_id="hopeless")
    await adder.add("late", 1, job_id="late", delay_ms=300)
    await theirs.listen()
    async with ours.listening() as heard:
        if engine == "theirs":
            await theirs.work()
            await settle(theirs, heard)
        else:
            async with ours.working(retry=RetryConfig(jitter_ms=0)):
                await settle(theirs, heard)
        return list(heard), await theirs.heard()


async def settle(theirs: Theirs, heard: list[Event]) -> None:
    """Until both have heard of the last job's end, and of the emptiness after it."""
    from tests.support.waiting import until

    def over(events: list[Event]) -> bool:
        ends = [at for at, event in enumerate(events) if event["name"] == "completed" and event["job_id"] == "late"]
        return bool(ends) and any(event["name"] == "drained" for event in events[ends[0] :])

    async def both() -> bool:
        return over(heard) and over(await theirs.heard())

    await until(both)


@pytest.mark.parametrize("engine", ["ours", "theirs"])
async def test_both_subscribers_hear_the_same(engine: str, ours: Ours, theirs: Theirs) -> None:
    by_ours, by_theirs = await live_through(engine, ours, theirs)
    for event in by_theirs:
        for name in {"enqueued_at_ms"} & event["fields"].keys():
            event["fields"][name] = int(event["fields"][name])
    assert by_ours == by_theirs


@pytest.mark.parametrize("engine", ["ours", "theirs"])
async def test_both_engines_tell_the_same_story(engine: str, ours: Ours, theirs: Theirs) -> None:
    events, _ = await live_through(engine, ours, theirs)
    assert told(events, "good") == [("active", 1), ("completed", 1)]
    assert told(events, "bad") == [
        ("active", 1),
        ("failed", 1),
        ("retry-scheduled", 2),
        ("waiting", None),
        ("active", 2),
        ("failed", 2),
        ("dlq", 2),
    ]
    assert told(events, "hopeless") == [("active", 1), ("failed", 1), ("dlq", 1)]
    assert told(events, "late") == [("waiting", None), ("active", 1), ("completed", 1)]
    reasons = {event["job_id"]: event["fields"]["reason"] for event in events if event["name"] == "dlq"}
    assert reasons == {"bad": "retries_exhausted", "hopeless": "unrecoverable"}
    assert {event["fields"]["backoff_ms"] for event in events if event["name"] == "retry-scheduled"} == {30}
    errors = {(event["job_id"], event["fields"]["reason"]) for event in events if event["name"] == "failed"}
    assert errors == {("bad", "no luck"), ("hopeless", "no such address")}


def told(events: list[Event], job_id: str) -> list[tuple[str, int | None]]:
    """The events of a job with their attempts; `delayed`, which only we tell, left out.

    Theirs tells `waiting` of a promoted job on its own time, at times after the job's `active`.
    """
    story = [(event["name"], event["fields"].get("attempt")) for event in events if event["job_id"] == job_id]
    story = [entry for entry in story if entry[0] != "delayed"]
    if ("waiting", None) in story:
        story.remove(("waiting", None))
        first_run = [entry for entry in story if entry[0] == "active"][-1]
        story.insert(story.index(first_run), ("waiting", None))
    return story


@pytest.mark.parametrize("engine", ["ours", "theirs"])
async def test_an_event_has_its_fields_and_no_others(engine: str, ours: Ours, theirs: Theirs) -> None:
    events, _ = await live_through(engine, ours, theirs)
    assert {event["name"] for event in events} - {"delayed"} == FIELDS.keys()
    for event in events:
        numbers = {
            name: value for name, value in event["fields"].items() if name not in ("reason", "error_type", "worker")
        }
        assert all(type(value) is int and value >= 0 for value in numbers.values()), event
        if event["name"] != "delayed":
            extra = OURS.get(event["name"], set()) if engine == "ours" else set()
            assert event["fields"].keys() == FIELDS[event["name"]] | {"ts"} | extra, event
        if event["name"] == "drained":
            assert (event["job_id"], event["job_name"]) == (None, "")
        elif not (engine == "theirs" and event["name"] == "waiting"):  # they leave the name out there
            assert event["job_name"] == event["job_id"]
