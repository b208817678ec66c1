"""The folder of an embedded server: it must be this user's, and nothing in it may lead elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from chasqui_engine._redis.embedded import server
from chasqui_engine._redis.embedded.folder import prepare_folder, real_folder
from chasqui_engine.values.errors import ConfigError, RedisError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed to others as it is, its owner can still put there what they like."""
    folder = tmp_path / "q"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        server.acquire_blocking(folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["valkey.conf", "users.lock", "start.lock", "guard.lock"])
def test_no_link_is_written_through(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    folder = tmp_path / "q"
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to(precious)
    with pytest.raises((ConfigError, RedisError, OSError)):
        server.acquire_blocking(folder)
    assert precious.read_text() == "as it was"


def test_a_log_that_leads_elsewhere_is_put_aside(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    folder = tmp_path / "q"
    folder.mkdir(mode=0o700)
    log = server._LOG
    (folder / log).symlink_to(precious)
    server.acquire_blocking(folder).release()
    assert precious.read_text() == "as it was"
    assert not (folder / log).is_symlink()


def test_every_folder_that_is_made_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "q"
    before = os.umask(0)
    try:
        prepare_folder(folder)
    finally:
        os.umask(before)
    assert [one.stat().st_mode & 0o777 for one in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3


def test_a_link_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder, link = tmp_path / "ours", tmp_path / "link"
    folder.mkdir(mode=0o700)
    link.symlink_to(folder)
    assert real_folder(link) == str(folder)
    if os.geteuid():
        pytest.skip("only root can give a link to another user")
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(ConfigError, match="link created by another user"):
        server.acquire_blocking(str(link))
    assert list(folder.iterdir()) == []
