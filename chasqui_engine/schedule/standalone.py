"""A duty in a process of its own: shared by promoter and scheduler, each with its own connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Generic, Protocol, TypeVar

from chasqui_engine._redis.client.connector import FOR_EVER, Connector
from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.aio import Stop


class Duty(Protocol):
    """A periodic duty for a queue, on a link that its owner closes."""

    async def run(self, stop: Stop) -> None:
        """Runs until `stop`."""


class DutyConfig(Protocol):
    """The settings of a duty."""

    @property
    def queue_name(self) -> str | None:
        """The queue, if they name it."""


Config = TypeVar("Config", bound=DutyConfig)


class Standalone(Generic[Config]):
    """Connects, runs the duty of one queue until it is stopped, and closes the connection."""

    _ROLE: ClassVar[str]
    _CONFIG: Callable[[], Config]
    _DUTY: Callable[[Link, QueueKeys, Config], Duty]

    def __init__(
        self,
        redis_url: str | None = None,
        queue_name: str | None = None,
        config: Config | None = None,
        *,
        credential_provider: FetchCredentials | None = None,
    ) -> None:
        self._url = redis_url
        self._config = config or type(self)._CONFIG()
        self._queue = queue_name or self._config.queue_name or "default"
        self._fetch = credential_provider

    async def run(self, shutdown: Stop) -> None:
        """Runs until `shutdown` is set."""
        connector = Connector(self._url, self._queue, self._ROLE, self._fetch)
        try:
            link = await connector.link(FOR_EVER).connect()
            await type(self)._DUTY(link, connector.keys, self._config).run(shutdown)
        finally:
            await connector.close()
