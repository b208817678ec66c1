"""Lets Spark find `format("chasqui")` by itself: it looks for `DefaultSource` in modules named `pyspark_…`."""

from chasqui_engine.spark.source import ChasquiDataSource as DefaultSource

__all__ = ["DefaultSource"]
