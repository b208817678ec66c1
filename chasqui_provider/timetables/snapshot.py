"""DAGs from the repeatable specs of a queue, by way of a snapshot: parsing a DAG file never waits for Redis.

`ChasquiSnapshotRepeatablesOperator` keeps the snapshot in an Airflow variable; `dags_from_queue` reads it.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Variable

from chasqui_engine import MissedFiresPolicy, RepeatableMeta, RepeatableSpec, RepeatPattern
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.timetables.repeatable import RepeatableTimetable

_log = logging.getLogger(__name__)


def snapshot_variable(queue_name: str, chasqui_conn_id: str = DEFAULT_CONN_ID) -> str:
    """The name of the variable that holds a queue's snapshot."""
    return f"chasqui_repeatables__{chasqui_conn_id}__{queue_name}"


def snapshot_of(metas: Iterable[RepeatableMeta]) -> list[dict[str, Any]]:
    """Specs as JSON."""
    return [asdict(meta) for meta in metas]


def dags_from_queue(
    chasqui_conn_id: str,
    queue_name: str,
    *,
    start_date: datetime,
    tasks: Callable[[RepeatableSpec], Any],
    dag_id_prefix: str | None = None,
    **dag_options: Any,
) -> dict[str, DAG]:
    """One DAG per spec in a queue's snapshot, by DAG id; in a DAG file: `globals().update(dags_from_queue(...))`.

    :param tasks: called once per DAG, inside it, with the spec: makes the tasks. The spec's payload stays in Redis.
    :param start_date: when the DAGs begin; they fire in the row in which the engine fires.
    :param dag_id_prefix: prefix of the DAG ids; by default the queue's name.
    :param dag_options: arguments of `DAG`.
    """
    snapshot = Variable.get(snapshot_variable(queue_name, chasqui_conn_id), default=None, deserialize_json=True)
    if snapshot is None:
        _log.info("no snapshot of queue %s yet; run ChasquiSnapshotRepeatablesOperator", queue_name)
    dags: dict[str, DAG] = {}
    for fields in snapshot or ():
        spec, since_ms = _spec(fields)
        dag_id = f"{_id_part(dag_id_prefix or queue_name)}__{_id_part(spec.resolved_key())}"
        with DAG(dag_id, schedule=RepeatableTimetable(spec, since_ms), start_date=start_date, **dag_options) as dag:
            tasks(spec)
        dags[dag_id] = dag
    return dags


def _spec(fields: dict[str, Any]) -> tuple[RepeatableSpec, int | None]:
    pattern = RepeatPattern(**fields["pattern"])
    spec = RepeatableSpec(
        fields["job_name"],
        pattern,
        None,
        key=fields["key"],
        limit=fields["limit"],
        start_after_ms=fields["start_after_ms"],
        end_before_ms=fields["end_before_ms"],
        missed_fires=MissedFiresPolicy(**(fields["missed_fires"] or {"kind": "skip"})),
    )
    if pattern.interval_ms is None:
        return spec, None
    # Any moment of the row from the spec's start on would do; this one is the same in every snapshot.
    start_ms = spec.start_after_ms or 0
    return spec, start_ms + (int(fields["next_fire_ms"]) - start_ms) % pattern.interval_ms


def _id_part(text: str) -> str:
    """A text reduced to the characters that an id may hold; a short hash keeps it unique if some are lost."""
    kept = re.sub(r"[^\w.-]+", "_", text).strip("_")
    if kept == text:
        return kept
    return f"{kept}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
