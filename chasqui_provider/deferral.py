"""When a wait is handed over to the triggerer, and when it may come back, so that Airflow does not fail the task.

The executor hears only `[workers] min_heartbeat_interval` seconds later that a task has deferred. If the task has been
queued again by then, Airflow 3 takes the news for the end of a task that was killed (apache/airflow#72716; up to one in
six waits for quick jobs failed so on 3.3.2). So a worker waits a moment for its jobs before it defers, which is also
faster for those that are quick, and a trigger does not fire before the news is out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from chasqui_engine import ChasquiError
from chasqui_provider.compat import conf
from chasqui_provider.connection import Settings
from chasqui_provider.endings import Ending
from chasqui_provider.results import OnDead, wait_now

_MOMENT_S = 1.0
_SCHEDULER_LAG_S = 3.0
"""Until the scheduler has taken in what the executor heard."""


def wait_a_moment(
    settings: Settings, queue_name: str | None, job_ids: Sequence[str], *, on_dead: OnDead, since_ms: int = 0
) -> list[Ending] | None:
    """How jobs end, if they do at once."""
    try:
        return wait_now(settings, queue_name, job_ids, timeout_s=_MOMENT_S, on_dead=on_dead, since_ms=since_ms)
    except (TimeoutError, ChasquiError):
        return None  # the triggerer has more patience, with jobs and with servers


def resumable_at_s(timeout: timedelta | None = None) -> float:
    """The time, in seconds since the epoch, at which a task that defers now may be queued again.

    A wait that has a timeout must not run into it when its jobs have long ended.
    """
    lag_s: float = conf.getint("workers", "min_heartbeat_interval", fallback=5) + _SCHEDULER_LAG_S
    return time.time() + (lag_s if timeout is None else min(lag_s, timeout.total_seconds() / 2))
