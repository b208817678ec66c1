"""One Spark for all tests of this folder, on `local[2,2]` so that a failed task is run again."""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import TYPE_CHECKING

import pytest
import redis

from chasqui_engine.spark.java import use_java
from chasqui_engine.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CONN_ID = "spark_tests"
"""A connection of Airflow's that Spark's processes find in their environment, which is fixed when Spark starts."""

# For Spark's own programs too, which some tests start.
use_java()

collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["test_*.py", "*/test_*.py"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            # Spark and pandas warn of their own doings, and sockets of Spark's are left to the collector.
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if item.get_closest_marker("timeout") is None and config.getoption("timeout", None) is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[SparkSession]:
    os.environ[f"AIRFLOW_CONN_{CONN_ID.upper()}"] = valkey_url.replace("redis://", "chasqui://")
    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_HOME", str(_home_without_archive(folder / "home")))
    settings = {
        "spark.sql.session.timeZone": "UTC",
        # What it shows is part of what is tested.
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file://{_made(folder / 'events')}",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "OFF",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = start_session("local[2,2]", quick=True, settings=settings)
    session.event_log_folder = folder / "events"  # type: ignore[attr-defined]
    yield session
    session.stop()


def _home_without_archive(home: Path) -> Path:
    """Spark as it is installed, but for `pyspark.zip`: what a Python reads from there, it compiles at every start."""
    import pyspark

    home.mkdir()
    for part in ("bin", "jars"):
        (home / part).symlink_to(os.path.join(os.path.dirname(pyspark.__file__), part))
    return home


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as client:
        yield client


class Queues:
    """Shorthand for one queue of one server."""

    def __init__(self, spark: SparkSession, url: str, queue: str) -> None:
        self.spark, self.url, self.queue = spark, url, queue

    def key(self, what: str) -> str:
        return f"{{chasqui:{self.queue}}}:{what}"

    def read(self, entity: str = "events", **options: object) -> DataFrame:
        reader = self.spark.read.format("chasqui").option("url", self.url).option("queue", self.queue)
        return reader.option("entity", entity).options(**{k: str(v) for k, v in options.items()}).load()

    def follow(self, entity: str = "events", **options: object) -> DataFrame:
        reader = self.spark.readStream.format("chasqui").option("url", self.url).option("queue", self.queue)
        return reader.option("entity", entity).options(**{k: str(v) for k, v in options.items()}).load()

    def write(self, frame: DataFrame, **options: object) -> None:
        writer = frame.write.format("chasqui").option("url", self.url).option("queue", self.queue)
        writer.options(**{k: str(v) for k, v in options.items()}).mode("append").save()


def run_to_end(writer: DataStreamWriter) -> StreamingQuery:
    """Runs a stream to its present end; returns the query that did.

    Spark gives the stream's Python ten seconds to start, before anything is done; a busy machine may need more, and
    then it is started again."""
    from pyspark.errors import StreamingQueryException

    for tries_left in reversed(range(6)):
        try:
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(240)
        except StreamingQueryException as err:
            if tries_left and "Python worker failed to connect back" in str(err):
                continue
            raise
        return query
    raise AssertionError("never reached")


@pytest.fixture
def said(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[[], str]:
    """What Spark's processes have said so far: they write to where pytest captures, not to what `capfd` puts there."""
    if request.config.getoption("capture") == "no":
        pytest.skip("with -s nothing is captured")
    manager = request.config.pluginmanager.getplugin("capturemanager")
    return lambda: str(manager.read_global_capture().err)


@pytest.fixture
def q(spark: SparkSession, valkey_url: str, queue_name: str) -> Queues:
    return Queues(spark, valkey_url, queue_name)
