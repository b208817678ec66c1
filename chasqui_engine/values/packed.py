"""Bytes that stay as they are."""

from __future__ import annotations


class Packed(bytes):
    """A payload, or a result, that is not encoded: MessagePack already, or what producer and worker agree on."""

    __slots__ = ()
