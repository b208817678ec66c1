"""The state of queues as Prometheus gauges: facts about a queue, not about one of its workers.

Needs the extra `prometheus`. `chasqui exporter` serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

QUEUE_GAUGES = {
    "waiting_jobs": "Jobs that wait for a worker.",
    "prioritized_jobs": "Jobs with a priority that wait for their turn; they are not among the waiting ones.",
    "oldest_waiting_seconds": "How long the oldest waiting job has waited; 0 without one.",
    "active_jobs": "Jobs in flight.",
    "delayed_jobs": "Delayed jobs, those between two retries included.",
    "delayed_lag_seconds": "How overdue the first delayed job is; 0 when none is.",
    "dead_letters": "Dead letters.",
    "repeatables": "Repeatable specs.",
    "repeatables_lag_seconds": "How overdue the first repeatable is; 0 when none is.",
    "workers": "Workers seen within the last minute.",
    "paused": "1 while the queue is paused.",
}
"""The gauges by name, without the prefix `chasqui_queue_`, and their descriptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The state at one scrape."""

    answered: bool
    """Whether the server answered in time."""
    seconds: float
    """How long the reading took."""
    queues: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By queue: a value for each of `QUEUE_GAUGES`."""
    unreadable: tuple[str, ...] = ()
    """Queues that cannot be read, because a key of theirs has the wrong type or is forbidden."""


class QueueCollector:
    """A Prometheus collector that reads the queues for each scrape; `read` must answer in bounded time."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges of one scrape."""
        from prometheus_client.core import GaugeMetricFamily

        found = self._read()
        yield GaugeMetricFamily("chasqui_server_up", "1 if the server answered in time.", value=found.answered)
        yield GaugeMetricFamily("chasqui_scrape_seconds", "How long reading the queues took.", value=found.seconds)
        readable = GaugeMetricFamily("chasqui_queue_readable", "0 for a queue that cannot be read.", labels=["queue"])
        for queue in found.queues:
            readable.add_metric([queue], 1)
        for queue in found.unreadable:
            readable.add_metric([queue], 0)
        yield readable
        for name, text in QUEUE_GAUGES.items():
            gauge = GaugeMetricFamily(f"chasqui_queue_{name}", text, labels=["queue"])
            for queue, values in found.queues.items():
                gauge.add_metric([queue], values[name])
            yield gauge


def queue_registry(read: Callable[[], Reading]) -> CollectorRegistry:
    """A registry with nothing but the gauges of queues."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as err:
        raise ConfigError("chasqui exporter needs prometheus_client: pip install 'chasqui[prometheus]'") from err
    registry = CollectorRegistry()
    registry.register(QueueCollector(read))
    return registry
