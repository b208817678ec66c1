"""A file of promises that was made to harm: it is refused before it costs anything."""

from __future__ import annotations

import time

import pytest

from chasqui_engine.pipeline.slo import parse
from chasqui_engine.values.errors import ConfigError

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{BOMB}slos: [{{queue: *i}}]", "alias"),
        ("[" * 5000, "nested deeper"),
        ("slos: " + "{a: " * 5000, "nested deeper"),
        ("#" * 2_000_000, "characters"),
    ],
    ids=["aliases", "lists", "maps", "length"],
)
def test_it_is_refused_at_once(text: str, why: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError, match=why):
        parse(text)
    assert time.process_time() - began < 2


def test_anchors_that_nobody_uses_do_no_harm() -> None:
    assert parse("slos: [&a {queue: q, backlog: 1}]")[0].queue == "q"
