"""Deduplication of asset events: has this job already produced one?

A triggerer that dies after an event was stored but before its jobs are acked leaves jobs that are delivered again. So
an event and a marker for each of its jobs are stored in one transaction (`asset_events.markers`), and a job that may be
a repetition is looked up by its marker first.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError

from chasqui_provider.version_compat import read_asset_state

_log = logging.getLogger(__name__)

MARK_PREFIX = "chasqui:told:"
"""Prefix of the marker keys in the asset's state store."""

JobRun = tuple[str, int]
Offer = tuple[int, int]
_FIRST_OFFER: Offer = (0, 0)


def is_ours(extra: Any) -> Mapping[str, Any] | None:
    """The payload of an event of this provider's triggers, from the extra of an asset event; None for other events."""
    payload = extra.get("payload") if isinstance(extra, dict) and extra.get("from_trigger") else None
    ours = isinstance(payload, dict) and "queue_name" in payload and ("jobs" in payload or "events" in payload)
    return payload if ours else None


def run_of(job: Mapping[str, Any]) -> JobRun:
    """Identifies the job: an id that expired and was used again is a different job."""
    return job["id"], job["created_at_ms"]


def offer_of(job: Mapping[str, Any]) -> Offer:
    """The number of this offer of the job to Airflow; it grows with each one, independently of clocks."""
    return job["attempt"], job.get("deliveries", 0)


def may_be_repeated(job: Mapping[str, Any]) -> bool:
    """Whether the job was offered before."""
    return offer_of(job) > _FIRST_OFFER


def mark_of(job: Mapping[str, Any]) -> str:
    """The key of a job's marker; ids may be longer than keys, and hold any character."""
    job_id, created_at_ms = run_of(job)
    return f"{MARK_PREFIX}{hashlib.sha256(job_id.encode()).hexdigest()[:32]}:{created_at_ms}"


async def drop_repeated(payload: dict[str, Any], store: Any) -> dict[str, Any]:
    """An event without the jobs that have a marker in the asset's state store; Airflow before 3.3 has no such store."""
    if store is None or not any(map(may_be_repeated, payload["jobs"])):
        return payload
    jobs = [job for job in payload["jobs"] if not (may_be_repeated(job) and await _is_marked(job, store))]
    return {**payload, "jobs": jobs}


async def _is_marked(job: Mapping[str, Any], store: Any) -> bool:
    try:
        return await read_asset_state(store, mark_of(job)) is not None
    except (AirflowRuntimeError, ValueError) as err:
        # Better a duplicate than a loss. ValueError: the trigger serves several assets and has no single store to ask.
        _log.warning("cannot look up whether job %s produced an event; it produces another one: %s", job["id"], err)
        return False
