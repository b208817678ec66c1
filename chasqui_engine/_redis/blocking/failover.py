"""News of failovers for a blocking connection: read before each write, without waiting and without a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.client import PubSub
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.client.failover import CHANNELS, FailoverNews
from chasqui_engine._redis.client.urls import HostPort


class SentinelListener:
    """Subscribes to every sentinel that is reachable when the connection is opened."""

    def __init__(self, sentinels: Sequence[Redis], service: str) -> None:
        self._sentinels = sentinels
        self._news = FailoverNews(service)
        self._subscriptions: dict[int, PubSub] = {}

    def listen(self) -> None:
        """Subscribes to the remaining sentinels; one that does not answer is skipped."""
        for number, sentinel in enumerate(self._sentinels):
            if number not in self._subscriptions:
                subscription = sentinel.pubsub(ignore_subscribe_messages=True)
                try:
                    subscription.psubscribe(*CHANNELS)
                except (ClientError, OSError):
                    subscription.close()
                else:
                    self._subscriptions[number] = subscription

    def is_leaving(self, place: HostPort) -> bool:
        """Whether the master at an address is being replaced, or has been."""
        for number, subscription in list(self._subscriptions.items()):
            try:
                self._read_all(subscription)
            except (ClientError, OSError):
                del self._subscriptions[number]
                subscription.close()
        return self._news.under_way or self._news.is_replaced(place)

    def close(self) -> None:
        """Unsubscribes."""
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions.clear()

    def _read_all(self, subscription: PubSub) -> None:
        # Messages about subscriptions come as None as well, so one None is not yet the end.
        connection: Any = subscription.connection
        while connection.can_read(timeout=0):
            message = subscription.get_message()
            if message is not None:
                self._news.read(message["channel"].decode(errors="replace"), message["data"].decode(errors="replace"))
