"""Jobs that were told twice are handled once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from chasqui_provider import assets
from chasqui_provider.assets import triggering_jobs

STORED_AT = datetime(2027, 1, 15, 8, 5, tzinfo=UTC)
ASSET = SimpleNamespace(name="orders", uri="chasqui://c/orders")


def job(job_id: str, attempt: int = 0, deliveries: int = 0, created_at_ms: int = 1_800_000_000_000) -> dict[str, Any]:
    return {"id": job_id, "attempt": attempt, "deliveries": deliveries, "created_at_ms": created_at_ms}


def event(*jobs: dict[str, Any]) -> Any:
    return SimpleNamespace(
        asset=ASSET, extra={"payload": {"queue_name": "orders", "jobs": list(jobs)}}, timestamp=STORED_AT
    )


class Store:
    """What Airflow has stored for the asset."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.broken = self.whole = False

    def __call__(self, inlets: list[Any]) -> Store:
        del inlets
        return self

    def __getitem__(self, asset: Any) -> Any:
        self.asked.append({"asset_name": asset.name, "asset_uri": asset.uri})
        return self.events if self.whole else self

    def after(self, since: str) -> Store:
        self.asked[-1]["after"] = since
        return self

    def before(self, until: str) -> Store:
        self.asked[-1]["before"] = until
        return self

    def ascending(self, ascending: bool) -> Store:
        self.asked[-1]["ascending"] = ascending
        return self

    def limit(self, most: int) -> Iterator[Any]:
        if self.broken:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        yield from self.events[:most]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    stored = Store()
    monkeypatch.setattr(assets, "InletEventsAccessors", stored)
    return stored


def woken_by(*events: Any) -> list[str]:
    return [one["id"] for one in triggering_jobs({"triggering_asset_events": {"orders": list(events)}})]


def test_nobody_is_asked_about_jobs_that_are_told_for_the_first_time(store: Store) -> None:
    assert woken_by(event(job("a"), job("b")), event(job("c"))) == ["a", "b", "c"]
    assert store.asked == []


@pytest.mark.parametrize("again", [{"deliveries": 1}, {"attempt": 1}, {"attempt": 1, "deliveries": 2}])
def test_a_job_that_an_earlier_event_brought_is_left_out(store: Store, again: dict[str, int]) -> None:
    store.events = [event(job("a", **again), job("new")), event(job("a"), job("b"))]
    assert woken_by(event(job("a", **again), job("new"))) == ["new"]
    (asked,) = store.asked
    assert (asked["asset_name"], asked["asset_uri"], asked["ascending"]) == ("orders", "chasqui://c/orders", False)
    assert asked["after"].startswith("2027-01-15T07:00:00")
    assert asked["before"].startswith("2027-01-15T08:05:00")


def test_an_airflow_that_gives_all_events_at_once(store: Store) -> None:
    store.whole = True
    store.events = [event(job("a")), event(job("a", deliveries=1), job("new"))]
    assert woken_by(store.events[1]) == ["new"]


def test_what_never_was_stored_is_not_left_out(store: Store) -> None:
    store.events = [event(job("a", deliveries=1)), event(job("b"))]
    assert woken_by(event(job("a", deliveries=1))) == ["a"]


def test_the_run_with_the_earlier_event_has_it(store: Store) -> None:
    store.events = [event(job("a", attempt=1)), event(job("a"))]
    assert woken_by(event(job("a")), event(job("a", attempt=1))) == ["a"]
    assert store.asked == [], "the first offer is here: there is none before it"


def test_an_id_that_was_taken_anew_is_another_job(store: Store) -> None:
    store.events = [event(job("a", created_at_ms=1_700_000_000_000))]
    assert woken_by(event(job("a", deliveries=1))) == ["a"]


def test_of_three_offers_the_first_that_was_stored_counts(store: Store) -> None:
    stored = [event(job("a", attempt=2)), event(job("a", attempt=1, deliveries=1))]
    store.events = stored
    assert woken_by(stored[0]) == []
    assert woken_by(stored[1]) == ["a"]


def test_runs_of_others(store: Store) -> None:
    assert triggering_jobs({}) == []
    assert woken_by(SimpleNamespace(asset=ASSET, extra=None), SimpleNamespace(asset=ASSET, extra={"payload": 3})) == []


def test_rather_twice_than_not_at_all(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.broken = True
    assert woken_by(event(job("a", deliveries=1), job("b"))) == ["b", "a"]
    assert "handled again" in caplog.text
