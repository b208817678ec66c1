"""Opens the links of one role to one queue, and closes them together."""

from __future__ import annotations

import math

from chasqui_engine._redis.client.endpoints import FetchCredentials, endpoint_for
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.outage_log import OutageLog
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.identity import for_client_list

FOR_EVER = math.inf
"""Patience of unattended work: it waits for the server without a limit."""

A_MOMENT_S = 5.0
"""Patience of a call that a user waits for: it survives a short outage, then fails."""


class Connector:
    """Opens the links of one role."""

    def __init__(self, url: str | None, queue: str, role: str, fetch: FetchCredentials | None = None) -> None:
        self.keys = QueueKeys(queue)
        self._endpoint = endpoint_for(url, self.keys.stream, fetch)
        self._role = role
        self._outage = OutageLog(self._endpoint.address)
        self._links: list[Link] = []

    @property
    def address(self) -> str:
        """The server's address for people, without a password."""
        return self._endpoint.address

    @property
    def database(self) -> int:
        """The number of the database."""
        return self._endpoint.database

    def link(self, patience_s: float) -> Link:
        """A new link, not yet connected."""
        name = for_client_list(f"chasqui-{self._role}:{self.keys.queue}")
        link = Link(self._endpoint, client_name=name, patience_s=patience_s, outage=self._outage)
        self._links.append(link)
        return link

    async def close(self) -> None:
        """Closes every link."""
        links, self._links = self._links, []
        for link in links:
            await link.close()
        await self._endpoint.close()
