"""What the events of triggers hold, and what Airflow logs of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from airflow.triggers.base import DiscrimatedTriggerEvent, TriggerEvent
from pydantic import TypeAdapter

from chasqui_provider.conversion import to_json
from chasqui_provider.triggers.payloads import MOST_BYTES, QuietEvent, chunks, outcomes_of, result_event
from chasqui_provider.waiting.outcome import completed_outcome, dead_outcome
from chasqui_provider.waiting.results import value_of


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def in_database(event: Any) -> Any:
    """As Airflow's database gives it back; Postgres takes no NUL and no half of a character."""
    text = json.dumps(event)
    assert not re.search(r"\\ud[89a-f]", text.replace("\\\\", "").lower())
    assert "\\u0000" not in text.replace("\\\\", "")
    return json.loads(text)


@pytest.mark.parametrize("result", [None, 0, 1e23, "é", {"raw": b"\0"}, {"__classname__": "x"}, nested(60)])
def test_a_small_result_travels_as_text(result: Any) -> None:
    (outcome,) = outcomes_of(in_database(result_event([completed_outcome("a", result)])))
    assert outcome["status"] == "completed"
    assert outcome["result"] == (
        {"raw": {"$bytes": "AA=="}} if isinstance(result, dict) and "raw" in result else result
    )


def test_a_nul_is_no_part_of_an_event() -> None:
    outcomes = [completed_outcome("a", {"k\0": "x\0y"}), dead_outcome("b", "no\0pe", "be\0cause", 1)]
    told = list(outcomes_of(in_database(result_event(outcomes))))
    assert told[0]["result"] == {"k\ufffd": "x\ufffdy"}
    assert (told[1]["reason"], told[1]["detail"]) == ("no\ufffdpe", "be\ufffdcause")


@pytest.mark.parametrize("job_id", ["i\0d", "\0", "half-\ud800"])
def test_an_id_that_no_database_holds_is_the_same_after_it(job_id: str) -> None:
    events = [
        completed_outcome(job_id, 1),
        completed_outcome(job_id, "x" * 5000),
        dead_outcome(job_id, "failed", None, 1),
    ]
    assert [outcome["job_id"] for outcome in outcomes_of(in_database(result_event(events)))] == [job_id] * 3
    told = value_of(events[-1], "return")
    assert in_database(told)["job_id"] == to_json(job_id) != job_id


@pytest.mark.parametrize("result", ["x" * 5000, ["x"] * 3000, nested(65), nested(600), b"x" * 5000])
def test_what_is_large_or_deep_stays_on_the_server(result: Any) -> None:
    assert result_event([completed_outcome("a", result)]) == {"outcomes": [{"job_id": "a", "status": "completed"}]}


def test_small_results_of_many_jobs_do_not_make_a_large_event() -> None:
    event = result_event(completed_outcome(str(n), "x" * 1000) for n in range(100))
    assert [n for n, outcome in enumerate(event["outcomes"]) if "result_json" in outcome] == [0, 1, 2, 3]


def test_an_error_is_cut() -> None:
    assert len(dead_outcome("a", "failed", "x" * 1_000_000, 1)["detail"]) < 5000


def test_the_text_that_airflow_logs_names_ids_and_no_data() -> None:
    jobs = [{"id": f"job-{n}", "payload": "secret"} for n in range(5)]
    assert repr(QuietEvent({"queue_name": "q", "jobs": jobs})) == "<5 jobs of q: 'job-0', 'job-1', 'job-2', …>"
    assert repr(QuietEvent(result_event([completed_outcome("a", "secret")]))) == "<1 outcomes: 'a'>"
    assert len(repr(QuietEvent({"queue_name": "q", "jobs": [{"id": "x" * 10_000}]}))) < 200
    assert "cannot reach" in repr(QuietEvent({"error": "cannot reach the server"}))


def test_airflow_hands_it_on_as_an_event_of_its_own() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(DiscrimatedTriggerEvent)
    event = QuietEvent({"queue_name": "q", "jobs": [{"id": "a", "payload": [1]}]})
    received = adapter.validate_python(adapter.dump_python(event))
    assert (type(received), received.payload) == (TriggerEvent, event.payload)


def test_items_share_an_event_as_long_as_it_stays_small() -> None:
    items = ["x" * (MOST_BYTES // 3)] * 5 + ["x" * MOST_BYTES * 2, "y"]
    assert [len(chunk) for chunk in chunks(items)] == [2, 2, 1, 1, 1]
    assert [item for chunk in chunks(items) for item in chunk] == items
    assert list(chunks([])) == []
