"""Queues as assets: `chasqui://<connection>/<queue>`, or `chasqui://<host>:<port>/<queue>`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import InletEventsAccessors

from chasqui_provider.asset_events.dedup import JobRun, Offer, may_be_repeated, offer_of, run_of
from chasqui_provider.connection.location import location_of
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.version_compat import can_be_filtered

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset

_log = logging.getLogger(__name__)

_DEFAULT_PORT = 6379

_MOST_EVENTS = 1000
_CLOCKS_DIFFER_BY = timedelta(hours=1)


def queue_uri(
    queue_name: str,
    chasqui_conn_id: str = DEFAULT_CONN_ID,
    *,
    host: str | None = None,
    port: int = _DEFAULT_PORT,
    db: int = 0,
) -> str:
    """The URI of a queue: by its server if `host` is given, otherwise by its connection."""
    if host is None:
        return f"chasqui://{quote(chasqui_conn_id, safe='')}/{quote(queue_name, safe='')}"
    server = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"chasqui://{server}:{port}/{f'{db}/' if db else ''}{quote(queue_name, safe='')}"


def queue_asset(
    queue_name: str,
    chasqui_conn_id: str = DEFAULT_CONN_ID,
    *,
    host: str | None = None,
    port: int = _DEFAULT_PORT,
    db: int = 0,
    **options: object,
) -> Asset:
    """A queue as an asset; `options` are those of `Asset`, `watchers` among them.

    With `host`, the asset is the queue on that server, whatever connections lead there; it is another asset than the
    one of a connection's id.
    """
    uri = queue_uri(queue_name, chasqui_conn_id, host=host, port=port, db=db)
    return Asset(uri=uri, **options)  # type: ignore[call-overload, no-any-return]


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Checks that a URI names a connection or a server, and one queue."""
    *database, queue = uri.path.strip("/").split("/")
    by_server = _is_server(uri.netloc)
    if not uri.netloc or not queue or (database and not (by_server and len(database) == 1 and database[0].isdecimal())):
        raise ValueError(
            "a Chasqui asset is written chasqui://<connection>/<queue>, or chasqui://<host>:<port>/<queue>, or with "
            "the number of a database chasqui://<host>:<port>/<db>/<queue>"
        )
    path = "/".join([*(number for number in database if int(number)), queue])
    netloc = uri.netloc.lower() if by_server else uri.netloc
    return uri._replace(netloc=netloc, path=f"/{path}", query="", fragment="")


def _is_server(netloc: str) -> bool:
    """Whether the text is host and port; connection ids are written without a colon."""
    return netloc.rpartition("]")[2].count(":") == 1


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> Dataset | None:
    """The OpenLineage dataset of a queue's asset; None if its connection does not name the server."""
    del lineage_context
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = sanitize_uri(urlsplit(asset.uri))
    *database, queue = uri.path.strip("/").split("/")
    if _is_server(uri.netloc):
        namespace = "/".join([f"redis://{uri.netloc}", *database])
    else:
        from chasqui_provider.hooks.chasqui import ChasquiHook

        place = location_of(ChasquiHook(unquote(uri.netloc)).settings().url)
        if place is None:
            return None
        namespace = place.namespace
    return Dataset(namespace=namespace, name=unquote(queue))


def triggering_jobs(context: Any) -> list[dict[str, Any]]:
    """The jobs that triggered a run, each once: those in the `ChasquiMessageTrigger` events that caused it.

    If a triggerer dies after an event was stored but before its jobs are acked, another event brings the same jobs.
    They are left out here, because the run of the first event has them.
    """
    offered = [(event, job) for event in _triggering(context) for job in _items(event, "jobs")]
    own: dict[JobRun, tuple[Any, dict[str, Any]]] = {}
    for event, job in sorted(offered, key=lambda one: offer_of(one[1])):
        own.setdefault(run_of(job), (event, job))
    doubtful = {run: one for run, one in own.items() if may_be_repeated(one[1])}
    earliest = _earliest_offers(doubtful) if doubtful else {}
    fresh = {job["id"]: job for run, (_, job) in own.items() if offer_of(job) <= earliest.get(run, offer_of(job))}
    return list(fresh.values())


def triggering_events(context: Any) -> list[dict[str, Any]]:
    """The queue events that triggered a run, each once: those of `ChasquiEventTrigger`."""
    items = (item for event in _triggering(context) for item in _items(event, "events"))
    return list({item["entry_id"]: item for item in items}.values())


def _triggering(context: Any) -> Iterator[Any]:
    for asset_events in (context.get("triggering_asset_events") or {}).values():
        yield from asset_events


def _items(asset_event: Any, what: str) -> Iterator[dict[str, Any]]:
    payload = (asset_event.extra or {}).get("payload")
    if isinstance(payload, dict):
        yield from payload.get(what) or ()


def _earliest_offers(doubtful: dict[JobRun, tuple[Any, dict[str, Any]]]) -> dict[JobRun, Offer]:
    """The earliest offer of each of these jobs among the events that are stored for their assets."""
    since_ms = min(job["created_at_ms"] for _, job in doubtful.values())
    since = datetime.fromtimestamp(since_ms / 1000, UTC) - _CLOCKS_DIFFER_BY
    # Later ones are of no interest, and Airflow 3.3.2 cannot describe an event whose run is still queued.
    until: dict[tuple[str, str], datetime] = {}
    for event, _ in doubtful.values():
        asset = event.asset.name, event.asset.uri
        until[asset] = max(event.timestamp, until.get(asset, event.timestamp))
    earliest: dict[JobRun, Offer] = {}
    for (name, uri), before in until.items():
        for event in _read_stored(Asset(name=name, uri=uri), since, before):
            for job in _items(event, "jobs"):
                if (run := run_of(job)) in doubtful:
                    earliest[run] = min(offer_of(job), earliest.get(run, offer_of(job)))
    return earliest


def _read_stored(asset: Asset, since: datetime, before: datetime) -> list[Any]:
    """The events stored for an asset; Airflow before 3.2 cannot filter them."""
    try:
        found: Any = InletEventsAccessors([asset])[asset]
        if can_be_filtered(found):
            found = found.after(since.isoformat()).before(before.isoformat()).ascending(False).limit(_MOST_EVENTS)
        return list(found)
    except AirflowRuntimeError as err:
        # A duplicate job is better than a lost one.
        _log.warning("cannot look up whether jobs already triggered a run; they may be handled again: %s", err)
        return []
