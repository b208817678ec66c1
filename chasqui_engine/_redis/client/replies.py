"""Parsing replies from a socket."""

from __future__ import annotations

import re
from collections.abc import Sequence

import hiredis

ReplyError = hiredis.ReplyError

# Redis before 7.0 puts the position in the script before the error.
_WHERE = re.compile(
    r"(ERR Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: )?(@user_script: \d+: )?-?"
)
_CODE = re.compile(r"[A-Z]+ ")


def new_reader() -> hiredis.Reader:
    """A parser of replies: bytes unchanged, errors as a `ReplyError` that begins with its code."""
    return hiredis.Reader(replyError=_read_error)


def _read_error(text: str) -> ReplyError:
    where = _WHERE.match(text)
    if where is None or not where[0]:
        return ReplyError(text)
    why = text[where.end() :]
    return ReplyError(why if _CODE.match(why) else f"ERR {why}")


def time_ms(reply: Sequence[bytes]) -> int:
    """The reply to TIME, in milliseconds."""
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


def decode_text(data: bytes) -> str:
    """Bytes of a reply as text; invalid UTF-8 is replaced."""
    return data.decode(errors="replace")


def text_fields(flat: list[bytes]) -> dict[str, str]:
    """The fields of an entry, from alternating names and values."""
    return {decode_text(name): decode_text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
