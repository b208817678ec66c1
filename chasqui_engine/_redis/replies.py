"""Replies as they come off a socket."""

from __future__ import annotations

import re

import hiredis

ReplyError = hiredis.ReplyError

# Redis before 7.0 says where in a script a command was refused, and only then why.
_WHERE = re.compile(
    r"(ERR Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: )?(@user_script: \d+: )?-?"
)
_CODE = re.compile(r"[A-Z]+ ")


def new_reader() -> hiredis.Reader:
    """A parser of replies: bytes as they are, a refusal as a `ReplyError` that begins with its code."""
    return hiredis.Reader(replyError=_read_error)


def _read_error(text: str) -> ReplyError:
    where = _WHERE.match(text)
    if where is None or not where[0]:
        return ReplyError(text)
    why = text[where.end() :]
    return ReplyError(why if _CODE.match(why) else f"ERR {why}")
