"""How long a worker waits for its jobs before it hands the wait to the triggerer, and when the task may be back.

With most executors the news that a task has deferred comes late: the supervisor of the task may sleep through its end
for `[workers] min_heartbeat_interval` seconds. If the task has been queued again by then, Airflow 3 takes the news for
the end of a task that was killed, and fails it (apache/airflow#72716). There, a trigger does not fire before the news
is out, so that deferring costs seconds, and a worker waits itself for jobs that take no longer than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from chasqui_engine import ChasquiError, ConfigError, RefusedError
from chasqui_provider.connection.settings import Settings
from chasqui_provider.conversion import as_duration
from chasqui_provider.version_compat import conf, tells_late_news_apart
from chasqui_provider.waiting.outcome import Outcome
from chasqui_provider.waiting.results import OnDead, wait_now
from chasqui_provider.waiting.usual_duration import JobDurations, read_durations

_SCHEDULER_LAG_S = 3.0
"""Until the scheduler has processed what the executor reported."""
_ROUND_TRIP_S = 5.0
"""Cost of a deferral with any executor: the loops of triggerer and scheduler, and two starts of the task."""
_A_MOMENT_S = 1.0


def check_defer_after(value: timedelta | float | None) -> float | None:
    """`defer_after` in seconds."""
    given = as_duration("defer_after", value)
    if given is not None and given < timedelta(0):
        raise ConfigError(f"defer_after must not be negative, got {value!r}")
    return None if given is None else given.total_seconds()


def wait_before_deferring(
    task: Any,
    settings: Settings,
    job_ids: Sequence[str],
    *,
    job_name: str | None = None,
    since_ms: int = 0,
) -> list[Outcome] | None:
    """The outcomes of jobs that end soon; None if they do not. `task` has the queue, `on_dead` and `defer_after`."""
    on_dead: OnDead = task.on_dead
    try:
        for patience_s in _patience_s(task, settings, job_name):
            with contextlib.suppress(TimeoutError):
                return wait_now(
                    settings, task.queue_name, job_ids, timeout_s=patience_s, on_dead=on_dead, since_ms=since_ms
                )
    except RefusedError as err:
        raise settings.name_in(err) from err
    except ConfigError:
        raise
    except (TimeoutError, ChasquiError):
        return None  # the triggerer can wait longer, for jobs and for servers
    return None


def _patience_s(task: Any, settings: Settings, job_name: str | None) -> Iterator[float]:
    """How long to wait, and how much longer after that."""
    if task.defer_after is not None:
        if task.defer_after:
            yield task.defer_after
        return
    # A job that takes longer than deferring does gives the slot back at once.
    longest_s = _ROUND_TRIP_S + lag_s(task)
    known = _durations(task, settings, job_name)
    if (known.running_s if known.usual_s is None else known.usual_s) > longest_s:
        return
    if known.usual_s is not None:
        yield min(longest_s, _A_MOMENT_S + 1.5 * known.usual_s)
        return
    # No job of this kind is known: wait as long as deferring would take, unless no worker starts it.
    yield longest_s / 3
    if _durations(task, settings, job_name).running_s:
        yield 2 * longest_s / 3


def _durations(task: Any, settings: Settings, job_name: str | None) -> JobDurations:
    return asyncio.run(read_durations(settings.url, settings.name_of(task.queue_name), job_name))


def lag_s(task: Any) -> float:
    """How long after giving back its slot a task stays unqueued, with its executor."""
    return 0.0 if tells_late_news_apart(_executor_of(task)) else news_lag_s()


def news_lag_s() -> float:
    """Until the scheduler has certainly heard that a task gave its slot back."""
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

    It is before the wait's timeout, so that jobs which have long ended do not time out.
    """
    lag = lag_s(task)
    return time.time() + (lag if timeout is None else min(lag, timeout.total_seconds() / 2))
