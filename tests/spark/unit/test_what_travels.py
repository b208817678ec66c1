"""What Spark sends to executors: readers and writers, pickled."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.source import ChasquiDataSource
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "hunter2"
URL = f"redis://reader:{SECRET}@127.0.0.1:6379"
EVENTS = StructType().add("job_id", "string")
JOBS = StructType().add("name", "string").add("payload", "string")
WAYS: dict[str, Callable[[ChasquiDataSource], Any]] = {
    "read": lambda source: source.reader(EVENTS),
    "readStream": lambda source: source.streamReader(EVENTS),
    "write": lambda source: source.writer(JOBS, False),
    "writeStream": lambda source: source.streamWriter(JOBS, False),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHASQUI_REDIS_URL", URL)
    monkeypatch.setenv("AIRFLOW_CONN_QUEUES", URL.replace("redis://", "chasqui://"))


def location_of(one: Any) -> QueueLocation:
    found: QueueLocation = one._location if hasattr(one, "_location") else one._target.location
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", [{}, {"connId": "queues"}])
def test_nothing_secret_travels_where_executors_know_the_server(way: str, where: dict[str, str]) -> None:
    sent = cloudpickle.dumps(WAYS[way](ChasquiDataSource({"queue": "q", "credentials": "executor", **where})))
    assert SECRET.encode() not in sent
    found = location_of(pickle.loads(sent))
    assert SECRET in found.url, "found there"
    assert SECRET.encode() not in pickle.dumps(found), "nor further on"


@pytest.mark.parametrize("way", WAYS)
def test_the_url_travels_where_the_driver_gives_it(way: str) -> None:
    sent = cloudpickle.dumps(WAYS[way](ChasquiDataSource({"queue": "q", "url": URL})))
    assert location_of(pickle.loads(sent)).url == URL


@pytest.mark.parametrize(("where", "name"), [({}, "CHASQUI_REDIS_URL"), ({"connId": "queues"}, "connection 'queues'")])
def test_an_executor_that_does_not_know_the_server_says_so(
    where: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = cloudpickle.dumps(WAYS["read"](ChasquiDataSource({"queue": "q", "credentials": "executor", **where})))
    monkeypatch.delenv("CHASQUI_REDIS_URL")
    monkeypatch.delenv("AIRFLOW_CONN_QUEUES")
    with pytest.raises(ConfigError, match=f"every executor must know {name} by its own environment"):
        pickle.loads(sent)


def test_a_url_and_its_absence_are_not_both_wanted() -> None:
    with pytest.raises(ConfigError, match="credentials=executor sends no URL to tasks: pass connId"):
        WAYS["read"](ChasquiDataSource({"queue": "q", "credentials": "executor", "url": URL}))
    with pytest.raises(ConfigError, match="credentials must be one of driver, executor"):
        WAYS["read"](ChasquiDataSource({"queue": "q", "credentials": "nowhere"}))
