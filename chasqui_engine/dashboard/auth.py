"""Authentication and permissions, and the servers they are for."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Protocol

from fastapi import HTTPException, Request

from chasqui_engine import ConfigError

_LEAST_TOKEN_CHARS = 16


class Connections(Protocol):
    """The servers whose queues are shown."""

    async def names(self) -> Sequence[str]:
        """Their names, in the order in which they are shown."""
        ...

    async def url(self, name: str) -> str:
        """The Redis URL of one; raises `KeyError` when there is none of that name."""
        ...


class Guard(Protocol):
    """Checks every request."""

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        """The user's name. Raises `HTTPException` 401 without a valid login, 403 without the right to view or change.

        `connection` is the server of the request, None for one about no server, such as the page itself. For a list
        of servers it is called for each, and those that it refuses are left out.
        """
        ...


class FixedConnections:
    """A fixed set of servers: name → Redis URL."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = dict(urls)

    async def names(self) -> Sequence[str]:
        """Their names, in the given order."""
        return list(self._urls)

    async def url(self, name: str) -> str:
        """The URL of one."""
        return self._urls[name]


class TokenGuard:
    """One secret: opening the page with `?token=…` sets a cookie and redirects to the address without the token.

    Programs may send `Authorization: Bearer …` instead.
    """

    def __init__(self, token: str, user: str = "local") -> None:
        if len(token) < _LEAST_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(f"token must be {_LEAST_TOKEN_CHARS} or more printable ASCII characters without spaces")
        self._token = token.encode()
        self._user = user
        # Browsers share cookies between the ports of a host, where another dashboard may run.
        self._cookie = f"chasqui_{hashlib.sha256(self._token).hexdigest()[:8]}"
        # The cookie is not the token itself, so it cannot be used in an address.
        self._pass = hmac.new(self._token, b"cookie", hashlib.sha256).hexdigest()

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        """With the token, everything is allowed."""
        if request.method == "GET" and (given := request.query_params.get("token")) is not None:
            self._sign_in(request, given)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(bearer.encode(), self._token):
            return self._user
        if hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._pass.encode()):
            return self._user
        raise HTTPException(401, "Open the link that chasqui dashboard printed when it started: it contains the token.")

    def _sign_in(self, request: Request, given: str) -> None:
        """Redirects to the same page without the token in its address."""
        if not hmac.compare_digest(given.encode(), self._token):
            raise HTTPException(401, "This token is not valid (any more): open the link of the running dashboard.")
        secure = "; Secure" if request.url.scheme == "https" else ""
        cookie = f"{self._cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict{secure}"
        here = str(request.url.remove_query_params("token").replace(scheme="", netloc=""))
        # With another slash in front it would be an address of another host.
        raise HTTPException(303, headers={"location": "/" + here.lstrip("/"), "set-cookie": cookie})
