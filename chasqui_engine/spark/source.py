"""`format("chasqui")`: the entry point for Spark."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from chasqui_engine.spark import schemas
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import ReadOptions, Use, looked_up_by, read_options, write_options
from chasqui_engine.spark.read.reader import choose_reader
from chasqui_engine.spark.read.stream_reader import ChasquiStreamReader
from chasqui_engine.spark.shipped import Shipped
from chasqui_engine.spark.write.target import Target
from chasqui_engine.spark.write.writer import ChasquiStreamWriter, ChasquiWriter
from chasqui_engine.values.errors import ConfigError


class ChasquiDataSource(Shipped, DataSource):
    """A queue as a DataFrame, and a DataFrame as jobs."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "chasqui"

    def schema(self) -> str:
        """The columns of the entity."""
        options = read_options(self.options, None)
        return schemas.ddl(options.entity, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = read_options(self.options, "read")
        return choose_reader()(self._locate(options.queue), options, _check_columns(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        options = read_options(self.options)
        if options.entity not in schemas.STREAMED:
            raise ConfigError(
                f"{options.entity} cannot be read as a stream; {', '.join(schemas.STREAMED)} can. "
                "spark.read gives it as it is now"
            )
        return ChasquiStreamReader(self._locate(options.queue), options, _check_columns(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        return ChasquiWriter(self._target(schema, overwrite, "write"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """For `df.writeStream`."""
        return ChasquiStreamWriter(self._target(schema, overwrite, "writeStream"))

    def _locate(self, queue: str) -> QueueLocation:
        return QueueLocation(url=connection_url(self.options), queue=queue, looked_up_by=looked_up_by(self.options))

    def _target(self, schema: StructType, overwrite: bool, use: Use) -> Target:
        options = write_options(self.options, use)
        if overwrite:
            raise ConfigError(
                "a queue cannot be overwritten: its jobs may be running. Write with .mode('append') (or "
                "outputMode('append')), and cancel or delete jobs that should not run"
            )
        return Target.from_schema(self._locate(options.queue), options, schema)


def _check_columns(options: ReadOptions, schema: StructType) -> pa.Schema:
    """The columns to read; a user's schema may omit some, which saves decoding them."""
    columns: Mapping[str, str] = schemas.COLUMNS[options.entity]
    for field in schema.fields:
        wanted, kind = field.dataType.simpleString(), columns.get(field.name)
        if kind is not None and wanted != kind:
            raise ConfigError(f"column {field.name!r} of {options.entity} is {kind}, not {wanted}")
    return schemas.arrow_schema(options.entity, schema.fieldNames())
