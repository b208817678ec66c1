"""Stream ids as numbers: `<ms>-<seq>` is one 128-bit number, so ranges can be compared and divided."""

from __future__ import annotations

from chasqui_engine.values.errors import ConfigError

_SEQ_BITS = 64
_SEQ_MASK = (1 << _SEQ_BITS) - 1
LOWEST = "0-0"


def as_number(stream_id: str) -> int:
    """`1700000000000-3` as a number; a missing sequence counts as 0."""
    ms, _, seq = stream_id.partition("-")
    if not ms.isdecimal() or not (seq.isdecimal() or not seq):
        raise ConfigError(f"a stream id is <milliseconds>-<number>, got {stream_id!r}")
    number = (int(ms) << _SEQ_BITS) | int(seq or 0)
    if int(ms) > _SEQ_MASK or int(seq or 0) > _SEQ_MASK:
        raise ConfigError(f"a stream id has two numbers of 64 bits, got {stream_id!r}")
    return number


def as_text(number: int) -> str:
    """The id that `as_number` read."""
    return f"{number >> _SEQ_BITS}-{number & _SEQ_MASK}"


def after(stream_id: str) -> str:
    """The next possible id."""
    return as_text(as_number(stream_id) + 1)


def before(stream_id: str) -> str:
    """The last possible id before this one."""
    return as_text(max(0, as_number(stream_id) - 1))


def at_ms(ms: int) -> str:
    """The first possible id of a millisecond."""
    return f"{ms}-0"


def ms_of(stream_id: str) -> int:
    """The millisecond in which the entry was added, by the server's clock."""
    return as_number(stream_id) >> _SEQ_BITS
