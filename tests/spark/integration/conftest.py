"""One Spark for all tests of this folder, on `local[2,2]` so that a failed task is run again."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from typing import TYPE_CHECKING

import pytest
import redis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            # Spark and pandas warn of their own doings, and sockets of Spark's are left to the collector.
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2,2]")
            .appName("chasqui-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.default.parallelism", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.eventLog.enabled", "true")
            .config("spark.eventLog.compress", "false")
            .config("spark.eventLog.rolling.enabled", "false")
            .config("spark.eventLog.dir", f"file://{_made(folder / 'events')}")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.adaptive.enabled", "false")
            # A thousand rows are read faster than code for them is compiled.
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
    session.event_log_folder = folder / "events"  # type: ignore[attr-defined]
    yield session
    session.stop()


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


@pytest.fixture
def q(spark: SparkSession, valkey_url: str, queue_name: str) -> Queues:
    return Queues(spark, valkey_url, queue_name)
