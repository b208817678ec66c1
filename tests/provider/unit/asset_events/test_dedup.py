"""Before a job is told again, its mark is looked for."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from chasqui_provider.asset_events.dedup import drop_repeated, mark_of
from tests.provider.helpers import AssetState

NOW_MS = 1_800_000_000_000


def job(job_id: str, attempt: int = 0, deliveries: int = 0, created_at_ms: int = NOW_MS) -> dict[str, Any]:
    return {"id": job_id, "attempt": attempt, "deliveries": deliveries, "created_at_ms": created_at_ms}


async def told(store: Any, *jobs: dict[str, Any]) -> list[str]:
    payload = await drop_repeated({"queue_name": "q", "jobs": list(jobs)}, store)
    assert payload["queue_name"] == "q"
    return [one["id"] for one in payload["jobs"]]


async def test_nobody_is_asked_about_a_first_offer() -> None:
    store = AssetState(mark_of(job("a")))
    assert await told(store, job("a"), job("b")) == ["a", "b"]
    assert store.asked == []


@pytest.mark.parametrize("again", [{"attempt": 1}, {"deliveries": 1}])
async def test_what_is_marked_is_left_out(again: dict[str, int]) -> None:
    store = AssetState(mark_of(job("a")))
    assert await told(store, job("a", **again), job("b", **again), job("c")) == ["b", "c"]
    assert store.asked == [mark_of(job("a")), mark_of(job("b"))]


async def test_an_id_that_was_taken_anew_is_another_job() -> None:
    assert await told(AssetState(mark_of(job("a", created_at_ms=NOW_MS - 1))), job("a", attempt=1)) == ["a"]


async def test_without_a_store_all_are_told() -> None:
    assert await told(None, job("a", attempt=1)) == ["a"]


@pytest.mark.parametrize(
    "error", [ValueError("2 assets"), AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))]
)
async def test_rather_twice_than_not_at_all(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    assert await told(AssetState(mark_of(job("a")), error=error), job("a", attempt=1), job("b")) == ["a", "b"]
    assert "it produces another one" in caplog.text


@pytest.mark.parametrize("job_id", ["a", "é/\x00 {}", "x" * 5000])
def test_a_key_fits_whatever_the_id_is(job_id: str) -> None:
    key = mark_of(job(job_id))
    assert key.isascii()
    assert len(key) < 100
    assert key != mark_of(job(job_id + "."))
