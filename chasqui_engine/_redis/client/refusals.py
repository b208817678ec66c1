"""Which connection failures are permanent: only a changed setting ends them, not waiting."""

from __future__ import annotations

import ssl

from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError


def refusal_to_connect(address: str, err: BaseException) -> str | None:
    """What is wrong with the login or the certificate, for people; None if waiting may help."""
    if isinstance(err, AuthenticationError | AuthorizationError | NoPermissionError):
        return f"the server at {address} refuses the login: {_text(err)}. Check user and password"
    if "DB index is out of range" in str(err):
        return f"the server at {address} has no such database: {_text(err)}. Check the number at the end of the URL"
    cause: BaseException | None = err
    while cause is not None:
        # A connection that breaks during the handshake means that the server is stopping or starting.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return f"no TLS with the server at {address}: {_text(cause)}. Check certificates and TLS settings"
        cause = cause.__cause__ or cause.__context__
    return None


def _text(err: BaseException) -> str:
    return (str(err) or type(err).__name__).rstrip(".")
