"""A server that was given the ACL files as they are shipped, for the tests of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine._redis.commands.keys import QueueKeys
from tests.servers import REDIS_6, REDIS_7, REDIS_8, ServerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chasqui_engine import Job

FOLDER = Path(__file__).parents[2] / "deploy" / "acl"
ROLES = ("producer", "worker", "monitor", "operator", "cleaner")
PASSWORD = "a-password"
QUEUE = "guarded"
KEYS = QueueKeys(QUEUE)


def file_of(role: str, server_kind: str) -> Path:
    """The role's file for a kind of server: one with a rule that it does not know keeps it from starting."""
    if server_kind in (REDIS_6, REDIS_7):
        return FOLDER / server_kind / f"{role}.acl"
    return FOLDER / ("worker-redis-8.2.acl" if (role, server_kind) == ("worker", REDIS_8) else f"{role}.acl")


def without_selectors(text: str) -> list[str]:
    """The same commands and keys for a server that cannot say which goes with which."""
    words = [re.sub(r"^%[RW]+~", "~", word) for word in re.sub(r"[()]", "", text).split()]
    order = {"+": 1, "~": 2}
    return sorted(dict.fromkeys(words), key=lambda word: order.get(word[0], 0))


@pytest.fixture
def guarded(server_kind: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on which each user of the files has a password."""
    if server_kind == "given":
        pytest.skip("needs a server of its own")
    texts = [file_of(role, server_kind).read_text().replace(" resetpass ", f" >{PASSWORD} ") for role in ROLES]
    acl_file = tmp_path / "users.acl"
    acl_file.write_text("user default on nopass ~* &* +@all\n" + "".join(texts))
    with ServerProcess(server_kind, ("--aclfile", str(acl_file))) as server:
        yield server


@pytest.fixture
async def admin(guarded: ServerProcess) -> AsyncIterator[Redis]:
    """Somebody who may do anything there."""
    async with Redis.from_url(guarded.url) as client:
        yield client


async def refusals(admin: Redis) -> list[dict[str, Any]]:
    """What the server refused anybody so far, and why."""
    found: list[dict[str, Any]] = await admin.acl_log()
    return found


def url_for(server: ServerProcess, role: str) -> str:
    return server.url.replace("redis://", f"redis://chasqui-{role}:{PASSWORD}@")


class Fails:
    """A handler: does what the job's name says, and returns its payload."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def __call__(self, job: Job) -> Any:
        self.runs.append(job.name)
        if job.name == "dies" or (job.name == "fails once" and job.attempt == 0):
            raise ValueError("no")
        return job.payload
