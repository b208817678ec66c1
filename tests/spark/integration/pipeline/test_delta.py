"""Gold as a Delta table: the same answers, a version for each change and none without."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from chasqui_engine.pipeline import bronze, config, gold
from chasqui_engine.pipeline.run import Pipeline
from chasqui_engine.values.errors import ConfigError
from tests.spark.integration.pipeline.made_events import events_of_jobs, shuffled_batches
from tests.spark.integration.pipeline.pipelines import AFTER_BRONZE, frame_of, pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def table(folder: Path) -> DeltaTable:
    return DeltaTable(folder / "gold" / "metrics_delta")


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["queue"], row["scope"], row["name"] or "", str(row["window_start"])))


def check(work: Pipeline, folder: Path) -> None:
    wanted = gold.read_metrics(work.spark, work.store).toArrow().to_pylist()
    assert wanted
    assert in_order(table(folder).to_pyarrow_table().to_pylist()) == in_order(wanted)


def test_each_change_of_gold_is_a_version(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    first, second = shuffled_batches(rng, events_of_jobs(rng, jobs=30), 2)
    plain = pipeline(spark, tmp_path)
    bronze.write_batch(plain.store, "q", "events", frame_of(spark, first), 0)
    plain.run(AFTER_BRONZE)
    work = pipeline(spark, tmp_path, gold_format="delta")
    work.run(AFTER_BRONZE)
    check(work, tmp_path)
    work.run(AFTER_BRONZE)
    assert table(tmp_path).version() == 0, "nothing new changes nothing"
    bronze.write_batch(work.store, "q", "events", frame_of(spark, second), 1)
    work.run(AFTER_BRONZE)
    check(work, tmp_path)
    assert table(tmp_path).version() == 1


def test_no_events_make_no_table(spark: SparkSession, tmp_path: Path) -> None:
    pipeline(spark, tmp_path, gold_format="delta").run(AFTER_BRONZE)
    assert not DeltaTable.is_deltatable(str(tmp_path / "gold" / "metrics_delta"))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install deltalake"):
        config.PipelineConfig(queues=("q",), out="out", gold_format="delta")
