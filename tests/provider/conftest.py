"""Fixtures of the provider's tests: an Airflow home of their own, made before anything of Airflow is imported."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.provider.database import database_url

_home = tempfile.mkdtemp(prefix="chasqui-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ.update(
    AIRFLOW_HOME=_home,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(Path(__file__).parents[2] / "dags_examples"),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database_url(Path(_home)),
    AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
)

_has_airflow = find_spec("airflow") is not None
if _has_airflow:
    with warnings.catch_warnings():
        # Airflow's own imports warn; ours must not.
        warnings.simplefilter("ignore")
        import airflow.models
        import airflow.sdk  # noqa: F401
else:
    collect_ignore_glob = ["*"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _has_airflow:
        terminalreporter.section("airflow")
        terminalreporter.line("the provider is NOT TESTED: install the extra 'airflow'", red=True)


def connection_variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"


@dataclass
class Ti:
    """The task instance of a context, as far as operators look at it."""

    dag_id: str = "a_dag"
    run_id: str = "manual__1"
    task_id: str = "a_task"
    map_index: int = -1
    try_number: int = 1
    retries: int = 0
    max_tries: int = 0
    pushed: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> Any:
        return SimpleNamespace(retries=self.retries)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def retry(self) -> None:
        """The next try, as Airflow makes it."""
        self.try_number += 1
        self.pushed.clear()

    def clear(self) -> None:
        """A clear, and the next try, as Airflow makes them."""
        self.max_tries = self.try_number + self.retries
        self.retry()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets an Airflow connection up: `connect(url=…)`, `connect("other", host=…)`."""

    def set_up(conn_id: str = "chasqui_default", url: str | None = None, **fields: Any) -> str:
        extra = {**fields.pop("extra", {}), **({} if url is None else {"url": url})}
        value = json.dumps({"conn_type": "chasqui", **fields, "extra": extra})
        monkeypatch.setenv(connection_variable(conn_id), value)
        return conn_id

    return set_up


@pytest.fixture
def queue_url(redis_url: str, connect: Any) -> str:
    """A server of each kind, as `chasqui_default`."""
    connect(url=redis_url)
    return redis_url


@pytest.fixture
def valkey_queue_url(valkey_url: str, connect: Any) -> str:
    """One server, as `chasqui_default`, for tests that need not run on all."""
    connect(url=valkey_url)
    return valkey_url


@pytest.fixture
def context() -> dict[str, Any]:
    """What a task is run with."""
    return {"ti": Ti()}
