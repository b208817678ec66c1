"""The Spark session of the commands: started by them, or by spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from chasqui_engine.spark.java import NO_JAVA, use_java
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    # Reading a few thousand rows takes less time than compiling code for them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A Java that lives for a minute does not earn back what its second compiler costs.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""For small data: Spark spends its time on the rows, not on itself."""


def start_session(
    master: str | None = None, *, quick: bool = False, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on this machine, unless `master` or spark-submit say otherwise. `quick`: for small data."""
    from pyspark.sql import SparkSession

    from chasqui_engine.spark.source import ChasquiDataSource

    if "PYSPARK_GATEWAY_PORT" not in os.environ and not use_java():  # spark-submit has started one
        raise ConfigError(NO_JAVA)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("chasqui-pipeline").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.python.filterPushdown.enabled", "true")
    if master is None and "SPARK_ENV_LOADED" not in os.environ:
        master = "local[*]"
        builder = builder.config("spark.log.level", "ERROR")
        builder = builder.config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 2)))
    if master is not None:
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(master)
    for name, value in {**(_QUICK if quick else {}), **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Spark finds the source by itself, but gives what --py-files brings only to the tasks of one that was registered.
    session.dataSource.register(ChasquiDataSource)
    return session


def what_is_missing() -> str | None:
    """Why Spark cannot run here, and what to install; None if it can."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'chasqui[spark]'"
    return None if use_java() else NO_JAVA
