"""Texts, numbers and values that somebody wrote to harm whoever shows, counts or converts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgpack

from tests.support.hostile.poison import NUMBERS, any_name

if TYPE_CHECKING:
    import random

TEXTS: list[bytes] = [
    b"",
    b" ",
    b"\x1b]0;owned\x07",
    b"\x1b]8;;http://x.test\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b[2J\x1b[H\x1bc",
    b"\x1bP1$r0m\x1b\\\x1b[6n",
    "\x9b2J\x85\u202e\u2066\u200f".encode(),
    b"\b\r\x7f\t\v\f",
    b"a\nb\r\nc",
    b"\0",
    b"a\0b",
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"\xff\xfe",
    b"\xc0\x80",
    b"<script>window.pwned=1</script>",
    b"<img src=x onerror=alert(1)>",
    b"\"'><svg onload=alert(2)>",
    b"</pre></td></table><h1>",
    b"javascript:alert(1)",
    b"{{7*7}}${7*7}",
    b"[red]red[/red] :bomb: [link=http://x.test]x[/link]",
    b"__proto__",
    b"constructor",
    b"%s%n%(x)s{0}{x}",
    b"=1+1",
    b"../../etc/passwd",
    b"{chasqui:x}:stream",
    b"*?[a-z]\\",
    b"*1\r\n$4\r\nPING\r\n",
    "\u2028\u2029\ufeff".encode(),
    ("z" + "\u0301" * 200).encode(),
    "\U000e0001\U0001f468\u200d\U0001f469".encode(),
    "ｗｉｄｅ漢字".encode(),
    b"x" * 300,
    b"x" * 1025,
    b"null",
    b"None",
    b"NaN",
    b"-0",
]
LONG = b"\x1b[31m<b>x" * 8000

WHOLE: list[Any] = [
    0, 1, -1, 127, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**52, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63),
]  # fmt: skip
ODD_NUMBERS: list[Any] = [
    *WHOLE,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    True,
    None,
    "1",
    b"1",
    [],
]
SCORES = ["-inf", "inf", "-1", "0", "0.5", "5", "1e15", "4000000000000", "9007199254740993", "1e300", "-1e300"]
COUNTERS = [*NUMBERS, *TEXTS[:3], b"1", b"0", b"007", b"+5", b" 5", b"1_000", b"%d" % (2**64), b"1" * 19, b"1" * 20]


def odd_text(chance: random.Random) -> bytes:
    """A text, or two, or any bytes."""
    kind = chance.random()
    if kind < 0.05:
        return any_name(chance)
    if kind < 0.07:
        return LONG
    text = chance.choice(TEXTS)
    return text + chance.choice(TEXTS) if kind < 0.3 else text


def odd_words(chance: random.Random) -> str:
    """The same as Python has it."""
    return odd_text(chance).decode(errors="replace")


def odd_value(chance: random.Random, depth: int = 0) -> Any:
    """A value that MessagePack can hold, of any type and shape."""
    (make,) = chance.choices(_SINGLE if depth > 3 else _ANY, _WEIGHTS[: len(_SINGLE)] if depth > 3 else _WEIGHTS)
    return make(chance, depth)


def _foreign(chance: random.Random, _depth: int) -> Any:
    seconds, nanoseconds = chance.choice([0, 2**33, 2**62, -(2**62)]), chance.choice([0, 999_999_999])
    own = msgpack.ExtType(chance.randrange(128), odd_text(chance))
    return chance.choice([odd_text(chance), own, msgpack.Timestamp(seconds, nanoseconds)])


def _nested(chance: random.Random, _depth: int) -> Any:
    value: Any = 1
    for level in range(chance.choice([5, 63, 64, 65, 400])):
        value = [value] if level % 2 else {"a": value}
    return value


def _list(chance: random.Random, depth: int) -> list[Any]:
    return [odd_value(chance, depth + 1) for _ in range(chance.randrange(4))]


def _map(chance: random.Random, depth: int) -> dict[Any, Any]:
    return {odd_key(chance): odd_value(chance, depth + 1) for _ in range(chance.randrange(4))}


_SINGLE: list[Callable[[random.Random, int], Any]] = [
    lambda chance, _: odd_words(chance),
    lambda chance, _: chance.choice(ODD_NUMBERS),
    _foreign,
    lambda _, __: [[]] * 300,
]
_ANY = [*_SINGLE, _nested, _list, _map]
_WEIGHTS = [35, 25, 10, 1, 3, 12, 14]


def odd_key(chance: random.Random) -> Any:
    """The key of a map: text, or what JSON has no key of."""
    if chance.random() < 0.6:
        return odd_words(chance)
    key = chance.choice([*ODD_NUMBERS, odd_text(chance)])
    return (1, 2) if isinstance(key, list) else key
