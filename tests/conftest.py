"""Fixtures of every test: real servers, and a queue name of the test's own. Nobody flushes a server."""

from __future__ import annotations

import os
import signal
import uuid
from typing import TYPE_CHECKING

import hypothesis
import pytest
from redis.asyncio import Redis

from tests import servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("chasqui", deadline=None)
hypothesis.settings.load_profile("chasqui")

# What a shell runs in the background ignores Ctrl-C, and so would every command that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

_servers = servers.SessionServers()
_needs_servers = pytest.StashKey[bool]()


@pytest.fixture(scope="session", params=_servers.available)
def server_kind(request: pytest.FixtureRequest) -> str:
    """Each kind of server that can be had, in turn."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def redis_url(server_kind: str) -> str:
    """A server of each kind: a test that takes this runs on all of them."""
    return _servers.url(server_kind)


@pytest.fixture(scope="session")
def valkey_url() -> str:
    """The one server for tests that need not run on all."""
    return _servers.url(servers.VALKEY)


@pytest.fixture(scope="session")
def redis86_url() -> str:
    """Redis 8.6, for what only it can do."""
    return _servers.url(servers.REDIS_8)


@pytest.fixture
def queue_name() -> str:
    return f"t-{uuid.uuid4()}"


@pytest.fixture
async def raw(redis_url: str) -> AsyncIterator[Redis]:
    """A plain client that gives bytes, to look at what is really in the server."""
    async with Redis.from_url(redis_url) as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """A fixture that asks for a server which cannot be had skips its test."""
    return (yield from _skipping_without_server())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """So does a test that starts one itself."""
    return (yield from _skipping_without_server())


def _skipping_without_server() -> Generator[None, object, object]:
    try:
        return (yield)
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = {"server_kind", "redis86_url", "valkey_url"}
    session.config.stash[_needs_servers] = any(
        wanted.intersection(item.fixturenames) for item in session.items if isinstance(item, pytest.Function)
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _missing_in_ci(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not _wants_servers(config):
        return
    terminalreporter.section("servers")
    if _hands_out(config):
        # The tests ran on servers of other processes; ones of the same kinds say what they are.
        for kind in _servers.available:
            _servers.url(kind)
    for kind, version in _servers.running().items():
        terminalreporter.line(f"{kind}: {version}")
    for reason in _servers.missing.values():
        terminalreporter.line(f"NOT TESTED: {reason}", red=True)
    if _missing_in_ci(config):
        terminalreporter.line("in CI a missing server fails the run", red=True)


def pytest_unconfigure() -> None:
    _servers.close()


def _missing_in_ci(config: pytest.Config) -> bool:
    in_ci = os.environ.get("CI", "").lower() in ("true", "1")
    return in_ci and bool(_servers.missing) and _wants_servers(config)


def _wants_servers(config: pytest.Config) -> bool:
    return config.stash.get(_needs_servers, False) or _hands_out(config)


def _hands_out(config: pytest.Config) -> bool:
    """Whether this process only hands tests out to others, and so collects none itself."""
    return bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")
