"""Hostile data by a seed, read by a real Spark; the other readers are in `tests/security/fuzz`.

Here, because Spark takes seconds to start and is started once for this folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.integration.read.test_streams import Sink
from tests.spark.unit.read.test_hostile_entries import ENTITIES
from tests.support.hostile.filling import Filled, fill
from tests.support.hostile.seeds import COUNT, SEED

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from tests.spark.integration.conftest import Queues


@pytest.fixture
def filled(client: redis.Redis, q: Queues) -> Filled:
    return fill(client, q.queue, SEED, COUNT)


def test_each_entry_is_a_row_and_the_good_are_among_them(q: Queues, filled: Filled) -> None:
    for entity in dict.fromkeys(ENTITIES.values()):
        places = [place for place, name in ENTITIES.items() if name == entity]
        rows = q.read(entity).collect()
        assert len(rows) == sum(filled.counts[place] for place in places), entity
        found = {row["key" if entity == "repeatables" else "job_id"] for row in rows}
        assert {name for place in places for name in filled.good[place]} <= found, entity


@pytest.mark.parametrize(
    "entity", ["dead", *(pytest.param(name, marks=pytest.mark.slow) for name in ("events", "jobs"))]
)
def test_a_stream_of_them_goes_on_to_its_end(q: Queues, filled: Filled, tmp_path: Path, entity: str) -> None:
    (place,) = (place for place, name in ENTITIES.items() if name == entity)
    rows = Sink(tmp_path).run(q.follow(entity, maxRowsPerTrigger=filled.counts[place] // 2))
    assert len(rows) == filled.counts[place]
    assert set(filled.good[place]) <= {row.job_id for row in rows}
