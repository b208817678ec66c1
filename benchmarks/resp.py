"""The few commands the bench itself sends, so that it needs no client library in a peer's environment."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

_LENGTH = {"list": "LLEN", "zset": "ZCARD", "stream": "XLEN", "hash": "HLEN", "set": "SCARD"}


class Server:
    """One connection, one command at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port or 6379), timeout=60)
        self._replies = self._socket.makefile("rb")

    def command(self, line: str) -> str:
        """The reply to an inline command."""
        self._socket.sendall(line.encode() + b"\r\n")
        kind, rest = (reply := self._replies.readline())[:1], reply[1:].strip().decode()
        if kind == b"-":
            raise RuntimeError(f"{line}: {rest}")
        if kind == b"$":
            return self._replies.read(int(rest) + 2)[:-2].decode()
        return rest

    def length(self, key: str) -> int:
        """How many elements a key holds; 0 if there is none."""
        command = _LENGTH.get(self.command(f"TYPE {key}"))
        return int(self.command(f"{command} {key}")) if command else 0

    def info(self, field: str) -> str:
        """One line of INFO."""
        lines = (line.partition(":") for line in self.command("INFO").splitlines())
        return next(value for name, _, value in lines if name == field)
