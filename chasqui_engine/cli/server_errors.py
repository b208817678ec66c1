"""Why the server did not answer, in one sentence each, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chasqui_engine import RedisError

OWN_SERVER = "--url embedded:///tmp/chasqui"
"""Where to try things out without a server."""

_ADDRESS = re.compile(r"the server at (?P<address>.+?)(?:: | refuses | has )")
_URL = "--url or CHASQUI_REDIS_URL"


@dataclass(frozen=True, slots=True)
class _Case:
    sign: str
    """What the engine's message contains."""
    sentence: str | None
    """The sentence that replaces it, with `{address}`; None keeps the engine's message."""
    step: str


_CASES = (
    _Case(
        "refuses the login: Authentication required",
        "the server at {address} requires a password",
        f"put it in {_URL}: redis://USER:PASSWORD@HOST:PORT",
    ),
    _Case("refuses the login", "the server at {address} refuses user or password", f"correct them in {_URL}"),
    _Case(
        "no TLS with",
        None,
        "check its certificate, and ssl_ca_certs in the URL; redis:// is for a server without TLS",
    ),
    _Case(
        "has no such database",
        "the server at {address} has no such database",
        f"end the URL in {_URL} with a database that it has, such as /0",
    ),
    _Case(
        "loading the dataset",
        "the server at {address} is still loading its data",
        "wait until it has loaded, then run the command again",
    ),
    _Case("OOM command not allowed", None, "let workers catch up, or raise the server's maxmemory"),
    _Case("Name or service not known", "the host of {address} is unknown", f"check the host in {_URL}"),
    _Case("nodename nor servname", "the host of {address} is unknown", f"check the host in {_URL}"),
    _Case(
        "Connect call failed",
        "nothing listens at {address}",
        f"start the server, or check {_URL}; to try without one: {OWN_SERVER}",
    ),
    _Case(
        "Connection closed by server",
        "the server at {address} closed the connection",
        "use rediss:// if it expects TLS",
    ),
    _Case("Connection reset", "the server at {address} closed the connection", "use rediss:// if it expects TLS"),
)
_NO_HANDSHAKE = _Case(
    "Timeout connecting",
    "the server at {address} did not answer the TLS handshake",
    "use redis:// if it does not speak TLS, else check the port",
)
_SILENT = _Case(
    "cannot reach the server",
    None,
    f"start it, or check {_URL}, network and firewall; to try without a server: {OWN_SERVER}",
)
_REFUSED_COMMAND = _Case("", None, "run chasqui doctor")


def describe_server_error(err: RedisError, url: str | None) -> tuple[str, str]:
    """The sentence, and the next step."""
    message = str(err.args[0]) if err.args else type(err).__name__
    wants_tls = url is not None and url.startswith("rediss")
    cases = (*([_NO_HANDSHAKE] if wants_tls else []), *_CASES, _SILENT, _REFUSED_COMMAND)
    case = next(case for case in cases if case.sign in message)
    if case.sentence is None:
        return message, case.step
    # The server's error reply does not contain the address.
    found = _ADDRESS.search(message)
    sentence = case.sentence if found else case.sentence.replace(" at {address}", "")
    return sentence.format(address=found["address"] if found else "the URL"), case.step
