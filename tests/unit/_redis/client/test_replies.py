"""Refusals begin with their code, whichever server words them."""

from __future__ import annotations

import pytest

from chasqui_engine._redis.client.replies import ReplyError, new_reader

IN_SCRIPT = "ERR Error running script (call to f_4df00084deccc3973186e57edb7fdce2a584aeda): @user_script:6: "


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("OOM command not allowed", "OOM command not allowed"),
        (f"{IN_SCRIPT}@user_script: 6: -NOREPLICAS Not enough good replicas", "NOREPLICAS Not enough good replicas"),
        (f"{IN_SCRIPT}NOGROUP No such key", "NOGROUP No such key"),
        (f"{IN_SCRIPT}@user_script: 1: Unknown Redis command", "ERR Unknown Redis command"),
        ("@user_script: 5: -OOM command not allowed", "OOM command not allowed"),
        ("ERR user_script:1: x script: 98, on @user_script:1.", "ERR user_script:1: x script: 98, on @user_script:1."),
    ],
)
def test_a_refusal_begins_with_its_code(sent: str, read: str) -> None:
    reader = new_reader()
    reader.feed(f"-{sent}\r\n".encode())
    reply = reader.gets()
    assert type(reply) is ReplyError
    assert str(reply) == read
