"""A failover that people ask for, while the master lives: it costs no accepted job."""

from __future__ import annotations

import pytest

from chasqui_engine._redis.client.failover import FailoverNews
from chasqui_engine._redis.client.urls import HostPort
from tests.servers import KINDS
from tests.support.connections.failovers import Load, fail_over
from tests.support.connections.sentinels import Watched

OLD, NEW = HostPort("10.0.0.1", 6379), HostPort("10.0.0.2", 6379)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_planned_failover_loses_no_accepted_job(queue_name: str, kind: str) -> None:
    load = Load()
    with Watched(kind) as watched:
        outcome = await fail_over(watched, queue_name, load, times=1)
    print(outcome)
    assert (outcome.lost, outcome.again, outcome.unwritten, outcome.refused) == (0, 0, 0, 0)
    # Each producer has one add in flight at most, which a busy server may not answer before it is left.
    assert outcome.unconfirmed <= load.producers


def test_the_master_is_left_from_the_begin_of_a_failover_to_its_end() -> None:
    news = FailoverNews("main")
    assert not news.under_way
    assert news.read("+failover-state-select-slave", "master main 10.0.0.1 6379")
    assert news.under_way
    assert news.read("+switch-master", "main 10.0.0.1 6379 10.0.0.2 6379")
    assert not news.under_way
    assert news.is_replaced(OLD)
    assert not news.is_replaced(NEW)
    # And back.
    assert news.read("+switch-master", "main 10.0.0.2 6379 10.0.0.1 6379")
    assert not news.is_replaced(OLD)


def test_a_failover_that_is_given_up_leaves_the_master_where_it_is() -> None:
    news = FailoverNews("main")
    news.read("+failover-state-select-slave", "master main 10.0.0.1 6379")
    assert not news.read("-failover-abort-no-good-slave", "master main 10.0.0.1 6379")
    assert not news.under_way
    assert not news.is_replaced(OLD)


@pytest.mark.parametrize(
    ("channel", "text"),
    [
        ("+failover-state-select-slave", "master other 10.0.0.1 6379"),
        ("+switch-master", "other 10.0.0.1 6379 10.0.0.2 6379"),
        ("+switch-master", "main"),
        ("+failover-state-select-slave", ""),
    ],
)
def test_what_is_not_about_this_service_changes_nothing(channel: str, text: str) -> None:
    news = FailoverNews("main")
    assert not news.read(channel, text)
    assert not news.under_way
    assert not news.is_replaced(OLD)
