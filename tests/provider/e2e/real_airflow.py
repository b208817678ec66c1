"""A real Airflow in a temporary home: LocalExecutor, loopback, each part a process of its own; SQLite or Postgres."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from packaging.version import Version

from tests.provider.database import IS_POSTGRES, database_url
from tests.servers import free_port

ORDERS, WAITS = "e2e-orders", "e2e-waits"
"""The queues that the DAGs beside use."""
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
ROLES = ("admin", "op", "user", "viewer")
"""Each has a user of its name, whose password is the name as well."""
IS_3_3 = Version(version("apache-airflow-core")) >= Version("3.3")
"""Before it: no `conn-fields` in the form, no `on_kill` of triggers, no state of assets."""
_PROGRAMS = Path(sys.executable).parent


class RealAirflow:
    """Started by `start`, ended by `close`; in between, parts can be killed and started again."""

    def __init__(self, home: Path, connection: dict[str, Any], options: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.dags = home / "dags"
        self.dags.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {**os.environ, **self._settings(connection), **(options or {})}
        self._clients: dict[str, httpx.Client] = {}
        (home / "passwords.json").write_text(json.dumps({role: role for role in ROLES}))

    def _settings(self, connection: dict[str, Any]) -> dict[str, str]:
        sections: dict[str, dict[str, Any]] = {
            "core": {
                "dags_folder": self.dags,
                "load_examples": False,
                "executor": "LocalExecutor",
                "parallelism": 2,
                "simple_auth_manager_users": ",".join(f"{role}:{role}" for role in ROLES),
                "simple_auth_manager_passwords_file": self.home / "passwords.json",
                "execution_api_server_url": f"{self.url}/execution/",
                "internal_api_secret_key": "a-key-of-this-test",
            },
            "api": {"port": self.port, "host": "127.0.0.1", "workers": 1, "base_url": self.url},
            "api_auth": {"jwt_secret": "a-secret-of-this-test-that-is-long-enough-for-hs512-keys-0123456789"},
            "database": {
                "sql_alchemy_conn": database_url(self.home),
                **({} if IS_POSTGRES else {"sql_alchemy_connect_args": "tests.provider.e2e.sqlite.CONNECT_ARGS"}),
            },
            "dag_processor": {
                "min_file_process_interval": 5,
                "refresh_interval": 5,
                "parsing_processes": 1,
                "file_parsing_sort_mode": "alphabetical",
            },
            "scheduler": {
                "scheduler_idle_sleep_time": 0.2,
                "job_heartbeat_sec": 1,
                "enable_health_check": False,
                "create_cron_data_intervals": False,
            },
            "triggerer": {
                "job_heartbeat_sec": 1,
                "triggerer_health_check_threshold": 6,
                "capacity": 1000,
            },
            "logging": {"logging_level": "INFO"},
        }
        options = {
            f"AIRFLOW__{section.upper()}__{name.upper()}": str(value)
            for section, values in sections.items()
            for name, value in values.items()
        }
        return {
            **options,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW_CONN_CHASQUI_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_NO_QUEUES": "postgres://somebody:secret@127.0.0.1:1/elsewhere",
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "PYTHONWARNINGS": "ignore",
            "NO_PROXY": "127.0.0.1",
        }

    def run(self, *command: str, program: str = "airflow", timeout_s: float = 120) -> str:
        """`airflow …` or another program of the environment, to its end."""
        path = str(_PROGRAMS / program)
        done = subprocess.run(
            [path, *command], env=self._environment, capture_output=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()[-3000:]
        return done.stdout.decode()

    def start(self) -> None:
        """All parts, until Airflow says that it is healthy."""
        self.run("db", "migrate", timeout_s=300)
        for part in PARTS:
            self.start_part(part)
        self.until(self._healthy, "a healthy Airflow", 300)

    def start_part(self, part: str, name: str | None = None, *options: str) -> None:
        """One part; a second one of its kind under a name of its own."""
        name = name or part
        with (self.home / f"{name}.log").open("ab") as log:
            command = [
                str(_PROGRAMS / "airflow"),
                part,
                *(["--skip-serve-logs"] if part == "triggerer" else []),
                *options,
            ]
            self._processes[name] = subprocess.Popen(
                command, env=self._environment_of(part), stdout=log, stderr=log, start_new_session=True
            )

    def _environment_of(self, part: str) -> dict[str, str]:
        if IS_POSTGRES or part != "api-server":
            return self._environment
        connect_args = "tests.provider.e2e.sqlite.API_SERVER_CONNECT_ARGS"
        return {**self._environment, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": connect_args}

    def until_watching(self, triggerer: str) -> None:
        """Waits until a triggerer has taken a trigger up."""
        self.until(lambda: " starting" in self.log(triggerer), f"{triggerer} to take a trigger", 90)

    def freeze(self, name: str) -> None:
        """Stops the first process of a part in its tracks; what it started goes on."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Lets it go on."""
        self._processes[name].send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        """kill -9, with all that it started."""
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        give_up_at = time.monotonic() + 8
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up_at - time.monotonic()))
        for name in list(self._processes):
            self.kill(name)

    # --- asking it ---

    def token(self, role: str) -> str:
        """What a user of this role signs in with."""
        body = {"username": role, "password": role}
        answer = httpx.post(f"{self.url}/auth/token", json=body, timeout=30, trust_env=False).raise_for_status()
        return str(answer.json()["access_token"])

    def client_of(self, role: str) -> httpx.Client:
        """A user of this role."""
        if role not in self._clients:
            headers = {"Authorization": f"Bearer {self.token(role)}"}
            self._clients[role] = httpx.Client(base_url=self.url, timeout=30, trust_env=False, headers=headers)
        return self._clients[role]

    @property
    def client(self) -> httpx.Client:
        return self.client_of("admin")

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, json=body)

    def patch(self, path: str, body: Any, **query: Any) -> Any:
        return self._ask("PATCH", path, json=body, params=query)

    def _ask(self, method: str, path: str, **question: Any) -> Any:
        answer = self.client.request(method, path, **question)
        give_up_at = time.monotonic() + 60
        # SQLite was locked; or Airflow 3.3.2 cannot describe an asset event whose run is still queued, for want of a
        # start_date.
        while answer.status_code == 500 and time.monotonic() < give_up_at:
            time.sleep(1)
            answer = self.client.request(method, path, **question)
        return answer.raise_for_status().json()

    def unpause(self, dag_id: str) -> None:
        self.until(lambda: self.client.get(f"/api/v2/dags/{dag_id}").status_code == 200, f"DAG {dag_id}", 60)
        self.patch(f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        run = self.post(f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf or {}})
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def all_of(self, path: str, key: str) -> list[dict[str, Any]]:
        """A list of Airflow's, which comes in pages."""
        found: list[dict[str, Any]] = []
        while page := self.get(path, limit=100, offset=len(found))[key]:
            found += page
        return found

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return self.all_of(f"/api/v2/dags/{dag_id}/dagRuns", "dag_runs")

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        return self.all_of(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", "task_instances")

    def xcom(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, key: str = "return_value") -> Any:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        value = self.get(path, map_index=map_index, deserialize=False)["value"]
        with contextlib.suppress(ValueError):  # a text that is no JSON is the value itself
            return json.loads(value) if isinstance(value, str) else value
        return value

    def woken_by(self) -> list[str]:
        """The ids of all jobs in stored asset events."""
        events = self.all_of("/api/v2/assets/events", "asset_events")
        return [job["id"] for event in events for job in ((event["extra"] or {}).get("payload") or {}).get("jobs", ())]

    def until(self, condition: Callable[[], Any], what: str, deadline_s: float = 60) -> Any:
        """Polls for a condition; on failure the logs' ends are shown."""
        give_up_at = time.monotonic() + deadline_s
        while time.monotonic() < give_up_at:
            with contextlib.suppress(httpx.HTTPError):
                if found := condition():
                    return found
            for name, process in self._processes.items():
                assert process.poll() is None, f"{name} has ended:\n{self.logs()}"
            time.sleep(0.3)
        raise AssertionError(f"waited {deadline_s} s in vain for {what}\n{self.logs()}")

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def logs(self) -> str:
        logs = sorted(self.home.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2500:]}" for log in logs)

    def _healthy(self) -> bool:
        health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5, trust_env=False).raise_for_status().json()
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)


def copy_dags(folder: Path, into: Path, **values: str) -> None:
    """The DAG files of a folder, with `@NAME@` replaced."""
    for source in folder.glob("*.py*"):
        text = source.read_text()
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        (into / source.name.removesuffix(".txt")).write_text(text)
    shutil.rmtree(into / "__pycache__", ignore_errors=True)
