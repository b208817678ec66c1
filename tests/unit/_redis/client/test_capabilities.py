"""What is made of a server's words about itself."""

from __future__ import annotations

import logging

import pytest

from chasqui_engine import RedisError
from chasqui_engine._redis.client.capabilities import PROBE, Capabilities
from chasqui_engine._redis.client.replies import ReplyError

YES = [b"name", -1]


def info(**facts: str) -> bytes:
    facts = {"maxmemory_policy": "noeviction", **facts}
    return ("# Server\r\n" + "".join(f"{name}:{value}\r\n" for name, value in facts.items())).encode()


def test_the_probe_asks_for_what_read_takes() -> None:
    assert len(PROBE) == 2
    assert PROBE[1][2:] == ("XACKDEL", "FUNCTION", "XCFGSET")


@pytest.mark.parametrize(
    ("version", "commands", "ackdel", "script_flags", "idmp"),
    [
        ("6.2.0", [None, None, None], False, False, False),
        ("6.2.14", [None, None, None], False, False, False),
        ("7.0.15", [None, YES, None], False, True, False),
        ("8.0.1", [None, YES, None], False, True, False),
        ("8.2.0", [YES, YES, None], True, True, False),
        ("8.4.0", [YES, YES, None], True, True, False),
        ("8.4-rc1", [YES, YES, None], True, True, False),
        ("8.6.2", [YES, YES, YES], True, True, True),
        ("10.0.0", [YES, YES, YES], True, True, True),
        ("255.255.255", [YES, YES, YES], True, True, True),
    ],
)
def test_redis(version: str, commands: list[object], ackdel: bool, script_flags: bool, idmp: bool) -> None:
    found = Capabilities.read(info(redis_version=version), commands)
    assert (found.server, found.version) == ("redis", version)
    assert (found.ackdel, found.script_flags, found.idmp) == (ackdel, script_flags, idmp)
    found.check("h:1")


@pytest.mark.parametrize("version", ["7.2.5", "8.1.0", "9.1.2"])
def test_valkey_goes_by_its_own_version(version: str) -> None:
    found = Capabilities.read(
        info(redis_version="7.2.4", valkey_version=version, server_name="valkey"), [None, YES, None]
    )
    assert (found.server, found.version) == ("valkey", version)
    assert (found.ackdel, found.script_flags) == (False, True)
    found.check("h:1")


@pytest.mark.parametrize(
    ("facts", "setinfo"),
    [
        ({"redis_version": "6.2.14"}, False),
        ({"redis_version": "7.0.15"}, False),
        ({"redis_version": "7.2.0"}, True),
        ({"redis_version": "8.6.2"}, True),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, True),
        ({}, False),
    ],
)
def test_only_a_server_that_takes_it_is_told_which_library_this_is(facts: dict[str, str], setinfo: bool) -> None:
    introduction = Capabilities.read(info(**facts), [None, None]).introduction()
    assert [command[:3] for command in introduction] == (
        [("CLIENT", "SETINFO", "LIB-NAME"), ("CLIENT", "SETINFO", "LIB-VER")] if setinfo else []
    )


@pytest.mark.parametrize("version", ["2.8.0", "5.0.14", "6.0.16"])
def test_a_server_that_is_too_old_is_refused(version: str) -> None:
    found = Capabilities.read(info(redis_version=version), [None, None])
    with pytest.raises(RedisError, match=rf"h:1 runs Redis {version}.*6\.2"):
        found.check("h:1")


@pytest.mark.parametrize("reply", [ReplyError("NOPERM no"), b"", b"nonsense", None])
def test_a_server_that_says_nothing_is_given_the_benefit_of_the_doubt(reply: object) -> None:
    found = Capabilities.read(reply, ReplyError("NOPERM no"))
    assert (found.version, found.eviction) == ("unknown", "unknown")
    assert (found.ackdel, found.script_flags) == (False, False)
    found.check("h:1")


def test_flags_of_scripts_are_known_even_where_info_is_forbidden() -> None:
    assert Capabilities.read(ReplyError("NOPERM no"), [None, YES, None]).script_flags


def test_eviction_is_warned_of_once_per_server_and_policy(caplog: pytest.LogCaptureFixture) -> None:
    found = Capabilities.read(info(redis_version="7.0.15", maxmemory_policy="allkeys-lru"), [None, YES, None])
    with caplog.at_level(logging.WARNING, "chasqui"):
        for _ in range(3):
            found.check("evicting:1")
        found.check("evicting:2")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["evicting:1", "evicting:2"]
    assert "allkeys-lru" in caplog.text
    assert "noeviction" in caplog.text
