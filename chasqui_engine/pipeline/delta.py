"""Gold's metrics as a Delta table too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from chasqui_engine.pipeline import gold
from chasqui_engine.pipeline.bronze import Progress
from chasqui_engine.pipeline.files import Files

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TABLE = ("gold", "metrics_delta")
_SOURCE = "chasqui.gold"
"""In the commit itself: the version of gold that the table holds."""


def update(spark: SparkSession, store: Files, progress: Progress) -> None:
    """Writes the table, if gold has changed since."""
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    version, path = str(gold.read_manifest(store)["version"]), store.path(*_TABLE)
    if version == "0" or (DeltaTable.is_deltatable(path) and _source_version(DeltaTable(path)) == version):
        return
    metrics = _in_utc(gold.read_metrics(spark, store).toArrow())
    mark = CommitProperties(custom_metadata={_SOURCE: version})
    write_deltalake(path, metrics, mode="overwrite", schema_mode="overwrite", commit_properties=mark)
    progress(f"gold    {metrics.num_rows} rows as a Delta table")


def _in_utc(table: pa.Table) -> pa.Table:
    """Spark names the session's zone in every time; a Delta table has one."""
    times = {field.name for field in table.schema if pa.types.is_timestamp(field.type)}
    utc = pa.timestamp("us", tz="UTC")
    fields = [field.with_type(utc) if field.name in times else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _source_version(table: DeltaTable) -> str | None:
    [last] = table.history(1)
    found: str | None = last.get(_SOURCE)
    return found
