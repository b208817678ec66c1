"""Differences between Airflow versions: names that moved, and features that a version has or lacks."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from airflow import __version__
from packaging.version import Version

if TYPE_CHECKING or find_spec("airflow.sdk.configuration"):
    from airflow.sdk.bases.decorator import determine_kwargs
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        TaskDeferralTimeout,
    )
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        TaskDeferralTimeout,
    )
    from airflow.utils.operator_helpers import determine_kwargs

AIRFLOW_VERSION = Version(__version__)

_TELLS_LATE_NEWS_APART = {"CeleryExecutor": Version("3.2.2"), "LocalExecutor": Version("3.4.0b2")}
"""The first Airflow in which late news of a deferral does not fail the task that has been queued again.

Airflow 3.2.2 leaves a task alone that waits for its turn after a deferral. Celery's executor then looks only at its
newest run, and the local one counts its runs since Airflow 3.4.
"""


def tells_late_news_apart(executor: str) -> bool:
    """Whether a task that was deferred may be queued again at once, with an executor of this class."""
    return executor in _TELLS_LATE_NEWS_APART and _TELLS_LATE_NEWS_APART[executor] <= AIRFLOW_VERSION


def has_asset_state() -> bool:
    """Whether assets have a state store, in which a job can have a marker (Airflow 3.3)."""
    return find_spec("airflow.models.asset_state_store") is not None


async def read_asset_state(store: Any, key: str) -> Any:
    """A value in an asset's state store, read by a trigger; its stores have `aget` and `aset` since Airflow 3.3.2."""
    return await (store.aget(key) if hasattr(store, "aget") else asyncio.to_thread(store.get, key))


async def write_asset_state(store: Any, key: str, value: Any) -> None:
    """Keeps a value in an asset's state store."""
    await (store.aset(key, value) if hasattr(store, "aset") else asyncio.to_thread(store.set, key, value))


def may_leave_events_out() -> bool:
    """Whether an asset event may get no run: Airflow 3.4 queues each event by its id."""
    from airflow.models.asset import AssetDagRunQueue

    return not hasattr(AssetDagRunQueue, "asset_event_id")


def can_be_filtered(asset_events: Any) -> bool:
    """Whether events of an asset can be selected by time and number (Airflow 3.2)."""
    return hasattr(asset_events, "limit")


def is_hook_lineage_read() -> bool:
    """Whether a plugin reads the lineage of hooks; Airflow 3.1 does not say so."""
    try:
        from airflow.sdk.plugins_manager import get_hook_lineage_readers_plugins
    except ImportError:
        return False
    return bool(get_hook_lineage_readers_plugins())


__all__ = [
    "AIRFLOW_VERSION",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "TaskDeferralTimeout",
    "can_be_filtered",
    "conf",
    "determine_kwargs",
    "has_asset_state",
    "is_hook_lineage_read",
    "may_leave_events_out",
    "read_asset_state",
    "tells_late_news_apart",
    "write_asset_state",
]
