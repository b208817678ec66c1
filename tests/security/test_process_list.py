"""The list of processes shows no password, though somebody typed one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from chasqui_engine.cli.input.argv_secrets import is_secret, split_secrets
from tests.servers import ServerProcess
from tests.support.processes import ROOT
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-Tr0ub4dor"
URL, TOKEN = "CHASQUI_REDIS_URL", "CHASQUI_DASHBOARD_TOKEN"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of a server with a password."""
    with ServerProcess() as server:
        with redis.Redis.from_url(server.url) as admin:
            admin.config_set("requirepass", SECRET)
        yield server.url.replace("redis://", f"redis://:{SECRET}@")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["after", "before", "joined", "query"])
def test_a_password_on_the_command_line_is_not_in_the_list_of_processes(url: str, how: str) -> None:
    words = {
        "after": ["events", "-f", "-q", "q", "--json", "--url", url],
        "before": ["--url", url, "events", "-f", "-q", "q", "--json"],
        "joined": ["events", "-f", "-q", "q", f"--redis-url={url}", "--json"],
        "query": ["events", "-f", "-q", "q", "--url", f"{url.replace(f':{SECRET}@', '')}?password={SECRET}", "--json"],
    }[how]
    command = [sys.executable, "-m", "chasqui_engine.cli", *words]
    environment = {name: value for name, value in os.environ.items() if name != "CHASQUI_REDIS_URL"}
    with redis.Redis.from_url(url) as admin, contextlib.ExitStack() as stack:
        others = {client["id"] for client in admin.client_list()}
        process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL))

        def connected() -> bool:
            assert process.poll() is None, "the command has ended"
            return any(client["id"] not in others for client in admin.client_list())

        try:
            wait_for(connected, "a connection of the command", timeout_s=50)
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert b"events" in shown
            assert SECRET.encode() not in shown
        finally:
            process.kill()


def test_only_secrets_are_taken_from_the_words() -> None:
    assert split_secrets(["add", "n", "--url", "u", "--json"]) == ({URL: "u"}, ["add", "n", "--json"])
    assert split_secrets(["--redis-url=a", "add", "--url=b"]) == ({URL: "b"}, ["add"])
    assert split_secrets(["add", "--", "--url", "u"]) == ({}, ["add", "--", "--url", "u"])
    assert split_secrets(["add", "--url"]) == ({}, ["add", "--url"])
    both = ["dashboard", "--token=t", "--url", "u", "--port", "0"]
    assert split_secrets(both) == ({TOKEN: "t", URL: "u"}, ["dashboard", "--port", "0"])
    assert is_secret(TOKEN, "t")


def test_a_token_of_the_dashboard_is_not_in_the_process_list(valkey_url: str) -> None:
    words = ["dashboard", "--token", SECRET, "--port", "0", "--json", "--url", valkey_url]
    command = [sys.executable, "-m", "chasqui_engine.cli", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert SECRET in process.stdout.readline()
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert b"dashboard" in shown
            assert SECRET.encode() not in shown
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("url", "may"),
    [
        ("redis://127.0.0.1:6379/0", False),
        ("unix:///tmp/x.sock", False),
        ("redis://u:p@h", True),
        ("redis://h?password=p", True),
        ("redis+sentinel://h/m?sentinel_password=p", True),
        ("redis-sentinel://h?sentinelServiceName=m&sentinelPassword=p", True),
    ],
)
def test_where_a_password_may_be(url: str, may: bool) -> None:
    assert is_secret(URL, url) is may


@pytest.mark.parametrize("option", ["--ur", "--redis-u"])
def test_the_pipeline_takes_no_short_form_of_a_secret(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    from chasqui_engine.pipeline.__main__ import main

    with pytest.raises(SystemExit):
        main(["-q", "q", f"{option}=redis://:{SECRET}@127.0.0.1:1"])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_the_pipeline_as_a_module_hides_its_password(tmp_path: Path) -> None:
    """It re-executes itself without it, before anything else."""
    seen = tmp_path / "seen"
    (tmp_path / "sitecustomize.py").write_text(
        f"import pathlib, sys\npathlib.Path({str(seen)!r}).open('a').write(repr(sys.orig_argv) + chr(10))\n"
    )
    url = f"redis://:{SECRET}@127.0.0.1:1"
    command = [sys.executable, "-m", "chasqui_engine.pipeline", "-q", "q", "--url", url, "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    first, second, *_ = seen.read_text().splitlines()
    assert SECRET in first
    assert SECRET not in second


def test_a_browser_is_opened_without_the_token_on_its_command_line() -> None:
    from urllib.parse import unquote, urlsplit

    from chasqui_engine.cli.commands.dashboard import _write_redirect

    address = _write_redirect(f"http://127.0.0.1:8787/?token={SECRET}")
    page = Path(unquote(urlsplit(address).path))
    assert SECRET not in address
    assert f"token={SECRET}" in page.read_text()
    assert page.stat().st_mode & 0o077 == 0
    assert page.parent.stat().st_mode & 0o077 == 0
