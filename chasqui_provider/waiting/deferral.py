"""How long a worker waits for its jobs before it hands the wait to the triggerer, and when the task may be back.

With most executors the news that a task has deferred comes late: the supervisor of the task may sleep through its end
for `[workers] min_heartbeat_interval` seconds. If the task has been queued again by then, Airflow 3 takes the news for
the end of a task that was killed, and fails it (apache/airflow#72716). There, a trigger does not fire before the news
is out, so that deferring costs seconds, and a worker waits itself for jobs that take no longer than that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow import __version__
from packaging.version import Version

from chasqui_engine import ChasquiError, ConfigError, RefusedError
from chasqui_provider.connection.settings import Settings
from chasqui_provider.conversion import as_duration
from chasqui_provider.version_compat import conf
from chasqui_provider.waiting.outcome import Outcome
from chasqui_provider.waiting.results import OnDead, wait_now
from chasqui_provider.waiting.usual_duration import usual_duration_s

_SCHEDULER_LAG_S = 3.0
"""Until the scheduler has taken in what the executor heard."""
_CELERY_IS_SAFE_SINCE = Version("3.2.2")
_ROUND_TRIP_S = 5.0
"""What a deferral takes with every executor: the turns of triggerer and scheduler, and two starts of the task."""
_A_MOMENT_S = 1.0


def checked_defer_after(value: timedelta | float | None) -> float | None:
    """`defer_after` in seconds."""
    given = as_duration("defer_after", value)
    if given is not None and given < timedelta(0):
        raise ConfigError(f"defer_after must be from 0 up, got {value!r}")
    return None if given is None else given.total_seconds()


def wait_before_deferring(
    task: Any,
    settings: Settings,
    job_ids: Sequence[str],
    *,
    job_name: str | None = None,
    since_ms: int = 0,
) -> list[Outcome] | None:
    """How jobs end, if they do soon. `task` says which queue and what to do with the dead, and how long to wait."""
    try:
        patience_s = task.defer_after
        if patience_s is None:
            queue_name = settings.name_of(task.queue_name)
            patience_s = _patience_s(asyncio.run(usual_duration_s(settings.url, queue_name, job_name)), lag_s(task))
        if not patience_s:
            return None
        on_dead: OnDead = task.on_dead
        return wait_now(settings, task.queue_name, job_ids, timeout_s=patience_s, on_dead=on_dead, since_ms=since_ms)
    except RefusedError as err:
        raise settings.named(err) from err
    except ConfigError:
        raise
    except (TimeoutError, ChasquiError):
        return None  # the triggerer has more patience, with jobs and with servers


def _patience_s(usual_s: float | None, lag_s: float) -> float:
    if usual_s is None:
        # If the job is longer, half of what deferring costs is lost; if it is not, all of that is saved.
        return max(_A_MOMENT_S, lag_s / 2)
    # A job that takes longer than deferring does gives the slot back at once.
    longest_s = _ROUND_TRIP_S + lag_s
    return 0.0 if usual_s > longest_s else min(longest_s, _A_MOMENT_S + 1.5 * usual_s)


def lag_s(task: Any) -> float:
    """How long after it has given its slot back a task must not be queued again, with its executor."""
    if _executor_of(task) == "CeleryExecutor" and Version(__version__) >= _CELERY_IS_SAFE_SINCE:
        # A task that is queued again replaces what the executor looks at, so that late news is never read.
        return 0.0
    heartbeat_s: float = conf.getint("workers", "min_heartbeat_interval", fallback=5)
    return heartbeat_s + _SCHEDULER_LAG_S


def _executor_of(task: Any) -> str:
    """The class of the executor that runs a task, without its module."""
    # "LocalExecutor,alias:path.to.AnotherExecutor;team=ThirdExecutor": the first is the default.
    known = [one.strip() for one in str(conf.get("core", "executor")).partition(";")[0].split(",")]
    aliases = dict(one.split(":", 1) for one in known if ":" in one)
    name = getattr(task, "executor", None) or known[0].rpartition(":")[2]
    return str(aliases.get(name, name)).rpartition(".")[2]


def resumable_at_s(task: Any, timeout: timedelta | None = None) -> float:
    """The time, in seconds since the epoch, at which a task that defers now may be queued again.

    A wait that has a timeout must not run into it when its jobs have long ended.
    """
    lag = lag_s(task)
    return time.time() + (lag if timeout is None else min(lag, timeout.total_seconds() / 2))
