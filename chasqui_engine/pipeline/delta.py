"""Gold's answers once more, as a Delta table, for those who read such."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from chasqui_engine.pipeline import gold
from chasqui_engine.pipeline.bronze import Say
from chasqui_engine.pipeline.files import Files

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TABLE = ("gold", "metrics_delta")
_MADE_OF = "chasqui.gold"
"""In the commit itself: which version of gold it holds."""


def update(spark: SparkSession, store: Files, say: Say) -> None:
    """Writes the table, if gold has changed since."""
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    version, path = str(gold.manifest(store)["version"]), store.path(*_TABLE)
    if version == "0" or (DeltaTable.is_deltatable(path) and _made_of(DeltaTable(path)) == version):
        return
    answers = _in_utc(gold.read_metrics(spark, store).toArrow())
    mark = CommitProperties(custom_metadata={_MADE_OF: version})
    write_deltalake(path, answers, mode="overwrite", schema_mode="overwrite", commit_properties=mark)
    say(f"gold    {answers.num_rows} rows as a Delta table")


def _in_utc(table: pa.Table) -> pa.Table:
    """Spark names the session's zone in every time; a Delta table has one."""
    times = {field.name for field in table.schema if pa.types.is_timestamp(field.type)}
    utc = pa.timestamp("us", tz="UTC")
    fields = [field.with_type(utc) if field.name in times else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _made_of(table: DeltaTable) -> str | None:
    [last] = table.history(1)
    found: str | None = last.get(_MADE_OF)
    return found
