"""Folders and small files of the pipeline, wherever Spark can reach them: a disk, HDFS, an object store."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from chasqui_engine.values.errors import ConfigError


class Files:
    """One folder tree. Small files are replaced in one step, so that a reader sees the old one or the new."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise ConfigError(
                "the pipeline keeps its files through Spark's own Java, which Spark Connect does not give: run it with "
                "spark-submit, or with --master. Reads, writes and streams of format('chasqui') work with Spark Connect"
            )
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self.root = root.rstrip("/")

    def path(self, *parts: str) -> str:
        """A path below the root."""
        return "/".join((self.root, *parts))

    def link(self, *parts: str) -> str:
        """A path below the root as a URL that names its file system."""
        path = self._java(self.path(*parts))
        uri: str = self._files(path).makeQualified(path).toUri().toASCIIString()
        return uri.replace("file:/", "file:///", 1) if uri.startswith("file:/") and uri[6] != "/" else uri

    def read_json(self, *parts: str) -> dict[str, Any] | None:
        """A small file's content; None if there is none."""
        path = self._java(self.path(*parts))
        files = self._files(path)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            found: dict[str, Any] = json.loads(bytes(stream.readAllBytes()))
        finally:
            stream.close()
        return found

    def write_json(self, content: dict[str, Any], *parts: str) -> None:
        """Replaces a small file."""
        self.write_text(json.dumps(content, indent=1, sort_keys=True), *parts)

    def write_text(self, text: str, *parts: str) -> None:
        """Replaces a small file."""
        final, written = self._java(self.path(*parts)), self._java(self.path(*parts) + ".new")
        stream = self._files(written).create(written, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(final.toUri(), self._conf)
        context.rename(written, final, self._rename_options())

    def check_writable(self) -> None:
        """Raises `ConfigError` if nothing can be written below the root."""
        name = "_can_be_written"
        try:
            self.write_text("", name)
            self.remove(name)
        except Py4JJavaError as err:
            why = err.java_exception.getMessage() or err.java_exception.toString()
            raise ConfigError(f"out: cannot write to {self.root!r}: {' '.join(why.split())}") from err

    def exists(self, *parts: str) -> bool:
        """Whether the file or folder exists."""
        path = self._java(self.path(*parts))
        return bool(self._files(path).exists(path))

    def list_folders(self, *parts: str) -> list[str]:
        """The names of the folders in a folder; none if it does not exist."""
        path = self._java(self.path(*parts))
        files = self._files(path)
        if not files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in files.listStatus(path) if status.isDirectory())

    def remove(self, *parts: str) -> None:
        """Removes a folder and its contents, if it exists."""
        path = self._java(self.path(*parts))
        self._files(path).delete(path, True)

    def move(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Renames a folder."""
        before, after = self._java(self.path(*source)), self._java(self.path(*target))
        files = self._files(before)
        files.mkdirs(after.getParent())
        if not files.rename(before, after):
            raise OSError(f"cannot move {before} to {after}")

    def _rename_options(self) -> Any:
        option = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename").OVERWRITE
        array = self._jvm.java.lang.reflect.Array.newInstance(option.getClass(), 1)
        self._jvm.java.lang.reflect.Array.set(array, 0, option)
        return array

    def _java(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _files(self, path: Any) -> Any:
        return path.getFileSystem(self._conf)
