"""Queues as assets: `chasqui://<connection>/<queue>`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult, quote

from airflow.sdk import Asset

from chasqui_provider.connection import DEFAULT_CONN_ID


def queue_uri(queue_name: str, chasqui_conn_id: str = DEFAULT_CONN_ID) -> str:
    """The URI that stands for a queue."""
    return f"chasqui://{quote(chasqui_conn_id, safe='')}/{quote(queue_name, safe='')}"


def queue_asset(queue_name: str, chasqui_conn_id: str = DEFAULT_CONN_ID, **options: object) -> Asset:
    """A queue as an asset; `options` are those of `Asset`, `watchers` among them."""
    return Asset(uri=queue_uri(queue_name, chasqui_conn_id), **options)  # type: ignore[call-overload, no-any-return]


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Checks that a URI names a connection and one queue."""
    queue = uri.path.strip("/")
    if not uri.netloc or not queue or "/" in queue:
        raise ValueError("a Chasqui asset is written chasqui://<connection>/<queue>")
    return uri._replace(path=f"/{queue}", query="", fragment="")


def triggering_jobs(context: Any) -> list[dict[str, Any]]:
    """The jobs that woke a run, each once: those of the `ChasquiMessageTrigger` events that it was made for."""
    return list({job["id"]: job for job in _items(context, "jobs")}.values())


def triggering_events(context: Any) -> list[dict[str, Any]]:
    """The queue events that woke a run, each once: those that a `ChasquiEventTrigger` told."""
    return list({event["entry_id"]: event for event in _items(context, "events")}.values())


def _items(context: Any, what: str) -> Iterator[dict[str, Any]]:
    for asset_events in (context.get("triggering_asset_events") or {}).values():
        for asset_event in asset_events:
            payload = (asset_event.extra or {}).get("payload")
            if isinstance(payload, dict):
                yield from payload.get(what) or ()
