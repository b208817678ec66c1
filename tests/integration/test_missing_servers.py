"""A server that cannot be had fails nothing: its tests are skipped, and the summary names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import CHOICE, KINDS, REDIS_7, REDIS_8, VALKEY, Unavailable, find

ROOT = Path(__file__).parents[2]
# One file for each way of asking: fixtures, servers of a test's own, sentinels, nodes of a Cluster, guarded ones.
ASKING = [
    "tests/integration/test_servers.py",
    "tests/integration/_redis/client/test_tls.py",
    "tests/integration/_redis/client/test_sentinel.py",
    "tests/integration/_redis/client/test_cluster.py",
    "tests/cli/commands/test_monitoring.py",
    "tests/provider/integration/hooks/test_hook.py",
    "tests/wire/test_jobs_both_ways.py",
]


def run_tests(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**known, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.timeout(250)
def test_nothing_fails_and_the_summary_lists_what_was_not_tested() -> None:
    run = run_tests(*ASKING, **{CHOICE: VALKEY})
    assert run.returncode == 0, run.stdout[-3000:]
    assert f"{VALKEY}: Valkey 9.1" in run.stdout
    for kind in set(KINDS) - {VALKEY}:
        assert f"NOT TESTED: {kind}: left out by {CHOICE}" in run.stdout


def test_in_ci_a_missing_server_fails_the_run() -> None:
    run = run_tests("tests/integration/test_servers.py", "-k", VALKEY, CI="true", **{CHOICE: VALKEY})
    assert run.returncode == 1, run.stdout[-3000:]
    assert "in CI a missing server fails the run" in run.stdout
    assert "failed" not in run.stdout.splitlines()[-1]


def test_an_unknown_server_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "redis-5.0")
    with pytest.raises(ValueError, match=rf"names redis-5\.0; the servers are .*{REDIS_7}"):
        find.__wrapped__("redis-5.0")


def test_a_binary_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHASQUI_TEST_SERVERS", raising=False)
    monkeypatch.setenv("CHASQUI_REDIS86_SERVER", "/bin/true")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    with pytest.raises(Unavailable, match=r"CHASQUI_REDIS86_SERVER names no Redis 8\.6 server: /bin/true"):
        find.__wrapped__(REDIS_8)
