"""`add --priority` and `limit`: which job is next, and how many run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_engine import SyncQueue


def test_a_job_is_added_with_a_priority_and_shown(cli: Callable[..., Any], queue: SyncQueue) -> None:
    cli("add", "low", "-q", queue.name, "--priority", "9")
    cli("add", "urgent", "-q", queue.name, "--priority", "1")
    assert [job.name for job in queue.get_jobs("prioritized")] == ["urgent", "low"]
    assert cli("inspect", queue.name, "--json").json[0]["counts"]["prioritized"] == 2
    assert "priority must be" in cli("add", "n", "-q", queue.name, "--priority", "-1").err


def test_limits_are_set_shown_and_taken_away(cli: Callable[..., Any], queue: SyncQueue) -> None:
    said = cli("limit", queue.name, "--rate", "100/s", "--concurrency", "20")
    assert said.out.strip() == f"limits of queue {queue.name}: 100 per 1 s, 20 at once"
    assert cli("limit", queue.name, "--json").json["rate"] == {"jobs": 100, "seconds": 1.0}
    assert cli("limit", queue.name, "--rate", "10/5m").code == 0
    limits = queue.get_limits()
    assert (limits.rate, limits.concurrency) == ((10, 300.0), None)
    assert cli("limit", queue.name, "--clear").out.strip().endswith("none")


@pytest.mark.parametrize("rate", ["100", "x/s", "5/d", "/s"])
def test_what_is_no_rate_is_said(cli: Callable[..., Any], queue: SyncQueue, rate: str) -> None:
    said = cli("limit", queue.name, "--rate", rate)
    assert (said.code, "JOBS/TIME" in said.err) == (2, True)
