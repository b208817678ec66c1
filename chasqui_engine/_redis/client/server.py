"""One server: how the redis client is told to reach it, and the handshake."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ClientConnectionError
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.client.protocol import RedisProtocol
from chasqui_engine._redis.client.urls import ENCODE_HINT, HostPort, UrlParts, scheme_of, split_url
from chasqui_engine.errors import ConfigError

_Connection = TypeVar("_Connection")
Credentials = tuple[str | None, str | None]
FetchCredentials = Callable[[str | None], Credentials | Awaitable[Credentials]]
"""Asked for (user, password) before every handshake, with "host:port"; may be async."""

CONNECT_TIMEOUT_S = 5.0
"""For reaching the server, and again for the handshake; `socket_connect_timeout` in the URL says otherwise."""

_DISCOVERY = "chasqui-discovery"
_OF_THE_POOL = ("max_connections", "timeout")
"""Options that URLs may carry for a pool; there is none here."""
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_ca_path")
# A peer that vanished without a word is found out within these, not after the two hours that systems take by default.
_KEEPALIVE_S = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}


class Server:
    """One server, by TCP, TLS or unix socket."""

    def __init__(self, url: str, fetch: FetchCredentials | None = None, **fixed: Any) -> None:
        self._options = {**_client_options(url), **fixed}
        self._connection_class: type[AbstractConnection] = self._options.pop("connection_class", Connection)
        self._timeout_s: float = self._options["socket_connect_timeout"]
        self._fetch = fetch
        self.address = self._options.get("path") or f"{self._options['host']}:{self._options['port']}"
        self.database = int(self._options.get("db") or 0)
        try:
            self._connection_class(**self._options)
        except (TypeError, ValueError, ClientError):
            # What the client says quotes the option, and that may be the rest of a password with an & in it.
            raise ConfigError(f"redis_url has an option that the redis client does not take; {ENCODE_HINT}") from None

    async def open(self, client_name: str) -> AbstractConnection:
        if "path" in self._options:
            return await self._open(client_name, self.address)
        return await self.open_at(client_name, HostPort(self._options["host"], self._options["port"]))

    def opened(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Nothing to do."""

    async def open_at(self, client_name: str, place: HostPort) -> AbstractConnection:
        """A connection to the same kind of server at another place."""
        return await self._open(client_name, f"{place.host}:{place.port}", host=place.host, port=place.port)

    async def ask(self, place: HostPort, *command: str) -> Any:
        """The reply to one command, on a connection made for it."""
        connection = await self.open_at(_DISCOVERY, place)
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.send_command(*command)
                return await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Holds nothing."""

    async def _open(self, client_name: str, address: str, **place: Any) -> AbstractConnection:
        options = {**self._options, **place, "client_name": client_name}
        if self._fetch is not None:
            options["username"], options["password"] = await _credentials(self._fetch, address)
        connection = unintroduced(self._connection_class(**options))
        try:
            # The client bounds the way to the server, but not the wait for its answers.
            async with asyncio.timeout(2 * self._timeout_s):
                await connection.connect()
        except TimeoutError as err:
            await connection.disconnect(nowait=True)
            raise ClientConnectionError(f"no answer from {address} within {2 * self._timeout_s:g} s") from err
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


def _client_options(url: str) -> dict[str, Any]:
    """What the client is told; `ConfigError`, without a word of the URL, when that cannot be read from it."""
    scheme = scheme_of(url)
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_TIMEOUT_S}
    parts = split_url(url, 6379)
    if scheme == "unix" and not parts.path:
        raise ConfigError("redis_url names no socket: unix:///path/to/server.sock")
    if scheme != "unix":
        place = _only_place(parts)
        options |= {"host": place.host, "port": place.port, **_keepalive()}
    try:
        options |= parse_url(scheme + url[len(scheme) :])
    except ValueError:
        raise ConfigError("redis_url has an option whose value is malformed") from None
    for option in _OF_THE_POOL:
        options.pop(option, None)
    for option in _FILES:
        if option in options and not os.path.exists(options[option]):
            raise ConfigError(f"redis_url: {option} names a file that is not there: {options[option]}")
    if scheme == "rediss":
        options.setdefault("ssl_check_hostname", options.get("ssl_cert_reqs") != "none")
    options["protocol"] = 2  # replies of one shape from every server
    options["retry"] = Retry(NoBackoff(), 0)  # the link decides when to try again
    return options


def unintroduced(connection: _Connection) -> _Connection:
    """The same connection, not yet open, without the client's own `CLIENT SETINFO`.

    The client says so of itself to every server, also to one that refuses it. We do it once we know the server.
    """
    for name in ("lib_name", "lib_version", "driver_info"):  # as the client's versions have them
        if hasattr(connection, name):
            setattr(connection, name, None)
    return connection


def _only_place(parts: UrlParts) -> HostPort:
    if len(parts.places) > 1:
        raise ConfigError("redis_url names several hosts: that is for redis+sentinel:// and redis+cluster://")
    if parts.path and not parts.path.isdecimal():
        raise ConfigError("redis_url: what follows host and port must be the number of a database")
    return parts.places[0]


def _keepalive() -> dict[str, Any]:
    known = {getattr(socket, name): value for name, value in _KEEPALIVE_S.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": known}


async def _credentials(fetch: FetchCredentials, address: str) -> Credentials:
    try:
        found = fetch(address)
        user, password = await found if inspect.isawaitable(found) else found
    except Exception as err:  # the next try may find the provider well again, like a server
        raise ClientConnectionError(f"credential_provider failed with {type(err).__name__}") from err
    return user, password
