"""What a Spark task reads of a queue that anybody wrote into: a row for each entry. No Spark needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")

from chasqui_engine.spark.location import QueueLocation
from tests.spark.unit.read.test_hostile_entries import ENTITIES, rows

if TYPE_CHECKING:
    from tests.support.hostile.filling import Filled


@pytest.mark.parametrize("place", ENTITIES)
def test_each_entry_is_a_row_and_the_good_are_among_them(valkey_url: str, filled: Filled, place: str) -> None:
    entity = ENTITIES[place]
    read = rows(QueueLocation(url=valkey_url, queue=filled.queue), entity)
    of_entity = [other for other, name in ENTITIES.items() if name == entity]
    assert len(read) == sum(filled.counts[other] for other in of_entity)
    found = {row["key" if place == "repeat" else "job_id"] for row in read}
    assert set(filled.good[place]) <= found
