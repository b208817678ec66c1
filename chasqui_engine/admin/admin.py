"""A connection that reads and administers one queue."""

from __future__ import annotations

from typing import Any, Self

from chasqui_engine._redis.client.connector import A_MOMENT_S, FOR_EVER, Connector
from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.client.link import Link
from chasqui_engine.admin import dead_letters
from chasqui_engine.admin.operations.queue import QueueOperations
from chasqui_engine.admin.results import ResultHub
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.errors import ShutdownError
from chasqui_engine.values.job import DlqEntry, JobId
from chasqui_engine.values.validation import check_limit, check_seconds


class QueueAdmin(QueueOperations):
    """Reads and administers one queue; made by `await QueueAdmin.connect(…)`. One serves all tasks of a loop."""

    _ROLE = "admin"

    def __init__(self, connector: Connector, link: Link, config: ProducerConfig) -> None:
        self._connector = connector
        self._link = link
        self._config = config
        self._keys = connector.keys
        self._hub: ResultHub | None = None
        self._closed = False

    @classmethod
    async def connect(
        cls,
        redis_url: str | None = None,
        config: ProducerConfig | None = None,
        *,
        credential_provider: FetchCredentials | None = None,
        connection_patience: float | None = None,
    ) -> Self:
        """Connects; raises `RedisError` when the server cannot be reached.

        It retries for `connection_patience` seconds; by default not at all to connect, and 5 seconds later on.
        """
        config = config or ProducerConfig()
        connector = Connector(redis_url, config.queue_name, cls._ROLE, credential_provider)
        try:
            later_s = A_MOMENT_S if connection_patience is None else connection_patience
            return cls(connector, await connector.link(later_s).connect(connection_patience or 0), config)
        except BaseException:
            await connector.close()
            raise

    async def peek_dlq(self, limit: int = 20) -> list[DlqEntry]:
        """Up to `limit` dead letters, oldest first."""
        return await dead_letters.peek(await self._open_link(), self._keys, check_limit(limit))

    async def wait_for_result(self, job_id: JobId, timeout: float) -> Any:
        """Waits for the result of a job; see `Job.wait_for_result`."""
        check_seconds(timeout, "timeout")
        link = await self._open_link()
        if self._hub is None:
            self._hub = ResultHub(link, self._connector.link(FOR_EVER), self._keys)
        return await self._hub.wait(job_id, timeout)

    async def close(self) -> None:
        """Closes the connections. Jobs that were added stay."""
        self._closed = True
        if self._hub is not None:
            await self._hub.close()
        await self._connector.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ShutdownError(f"this {self._ROLE} is closed")

    async def _open_link(self) -> Link:
        self._check_open()
        return self._link
