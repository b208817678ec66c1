"""A queue that anybody wrote into, read by a real Spark: every entity, the streams, and the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.integration.pipeline.pipelines import pipeline
from tests.spark.unit.read.test_hostile_entries import ENTITIES, GOOD
from tests.support.hostile.pills import Pill, pills

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from tests.spark.integration.conftest import Queues


@pytest.fixture
def hostile(q: Queues, client: redis.Redis) -> dict[str, int]:
    """How many entries of each entity there are: every pill, and a good one after them."""
    counts: dict[str, int] = {}
    for pill in [*pills(), *(Pill("good", where, data) for where, data in GOOD.items())]:
        pill.put(client, q.queue)
        counts[ENTITIES[pill.where]] = counts.get(ENTITIES[pill.where], 0) + 1
    return counts


def names(rows: list[Any]) -> list[str]:
    return [row["key"] if "key" in row else row["job_id"] for row in rows]


def test_every_entity_has_a_row_for_each_entry(q: Queues, hostile: dict[str, int]) -> None:
    for entity, count in hostile.items():
        rows = q.read(entity).collect()
        assert len(rows) == count, entity
        assert "good" in names(rows), entity


@pytest.mark.slow
def test_streams_and_the_pipeline_go_on(q: Queues, hostile: dict[str, int], tmp_path: Path) -> None:
    work = pipeline(q.spark, tmp_path / "out", q.queue, url=q.url)
    work.run()
    for entity in ("events", "dead"):
        rows = q.spark.read.parquet(str(tmp_path / "out" / "bronze" / entity)).collect()
        assert len(rows) == hostile[entity], entity
        assert "good" in names(rows), entity
