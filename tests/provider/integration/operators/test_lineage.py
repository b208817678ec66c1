"""What OpenLineage's own provider makes of tasks that use a queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector
from airflow.utils.state import TaskInstanceState

from chasqui_provider.hooks import chasqui as hook_module
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.hooks.reporting import ReportingQueue
from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator, ChasquiEnqueueOperator
from chasqui_provider.operators.lineage import MOST_JOB_IDS
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.version_compat import is_hook_lineage_read

PASSWORD = "not-to-be-seen"


@pytest.fixture
def server(valkey_url: str, connect: Any) -> str:
    """The namespace of a server that is reached with a login."""
    host, _, port = valkey_url.removeprefix("redis://").partition("/")[0].partition(":")
    connect(host=host, port=int(port), login="default", password=PASSWORD)
    return f"redis://{host}:{port}"


def extracted(task: Any, state: TaskInstanceState) -> Any:
    manager = pytest.importorskip("airflow.providers.openlineage.extractors.manager").ExtractorManager()
    ti = SimpleNamespace(task=task)
    return manager.extract_metadata(SimpleNamespace(run_id="r"), task, state, ti)


def test_an_enqueue_writes_to_its_queue(server: str, queue_name: str, context: Any) -> None:
    task = ChasquiEnqueueOperator(task_id="t", queue_name=queue_name, job_id="mine", payload={"secret": PASSWORD})
    began = extracted(task, TaskInstanceState.RUNNING)
    assert [(one.namespace, one.name) for one in began.outputs] == [(server, queue_name)]
    assert (began.inputs, began.run_facets) == ([], {})
    task.execute(context)
    for state in (TaskInstanceState.SUCCESS, TaskInstanceState.FAILED):
        ended = extracted(task, state)
        assert [(one.namespace, one.name) for one in ended.outputs] == [(server, queue_name)]
        facet = ended.run_facets["chasqui_jobs"]
        assert (facet.queue, facet.jobIds, facet.jobCount) == (queue_name, ["mine"], 1)
        assert PASSWORD not in str(ended)


def test_an_enqueue_that_comes_back_from_its_wait_knows_its_job(server: str, queue_name: str) -> None:
    task = ChasquiEnqueueOperator(task_id="t", queue_name=queue_name)
    task.execute_complete({}, {"outcomes": [{"job_id": "j", "status": "completed", "result": 1}]})
    assert extracted(task, TaskInstanceState.SUCCESS).run_facets["chasqui_jobs"].jobIds == ["j"]


def test_a_bulk_names_its_first_jobs_and_counts_all(server: str, queue_name: str, context: Any) -> None:
    task = ChasquiBulkEnqueueOperator(task_id="t", queue_name=queue_name, payloads=range(350), chunk_size=90)
    task.execute(context)
    facet = extracted(task, TaskInstanceState.SUCCESS).run_facets["chasqui_jobs"]
    assert (len(facet.jobIds), facet.jobCount) == (MOST_JOB_IDS, 350)
    assert facet.jobIds[0].endswith(":0")


def test_a_sensor_reads_from_its_queue(server: str, queue_name: str) -> None:
    task = ChasquiJobResultSensor(task_id="t", queue_name=queue_name, job_ids=[f"j{n}" for n in range(150)])
    found = extracted(task, TaskInstanceState.SUCCESS)
    assert [(one.namespace, one.name) for one in found.inputs] == [(server, queue_name)]
    assert found.outputs == []
    facet = found.run_facets["chasqui_jobs"]
    assert (len(facet.jobIds), facet.jobCount) == (MOST_JOB_IDS, 150)


def test_a_connection_that_cannot_be_read_has_no_lineage(connect: Any) -> None:
    connect("bad", extra={"url": "redis://u:p?w@h:6379/0"})
    connect("worse", extra={"speling": 1})
    for conn_id in ("bad", "worse", "nobody_made_it"):
        task = ChasquiEnqueueOperator(task_id="t", queue_name="q", chasqui_conn_id=conn_id)
        assert task.get_openlineage_facets_on_start() is None


def test_without_openlineage_there_is_no_lineage(
    server: str, monkeypatch: pytest.MonkeyPatch, queue_name: str, context: Any
) -> None:
    for name in ("airflow.providers.openlineage", "airflow.providers.openlineage.extractors"):
        monkeypatch.setitem(sys.modules, name, None)
    task = ChasquiEnqueueOperator(task_id="t", queue_name=queue_name)
    task.execute(context)
    assert task.get_openlineage_facets_on_complete(None) is None


def test_the_hook_reports_what_code_does_with_a_queue(
    server: str, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    class Collector:
        def add_input_asset(self, context: Any, **asset: Any) -> None:
            told.append(("input", context, get_hook_lineage_collector().create_asset(**asset).uri))

        def add_output_asset(self, context: Any, **asset: Any) -> None:
            told.append(("output", context, get_hook_lineage_collector().create_asset(**asset).uri))

    monkeypatch.setattr("chasqui_provider.hooks.reporting.get_hook_lineage_collector", Collector)
    monkeypatch.setattr(hook_module, "is_hook_lineage_read", lambda: True)
    hook = ChasquiHook()
    with hook.get_queue(queue_name) as queue:
        assert isinstance(queue, ReportingQueue)
        assert told == []
        queue.add("n", 1, job_id="a")
        queue.add_bulk([{"name": "n", "data": 2}])
        queue.get_job_result("a")
    uri = f"{server.replace('redis', 'chasqui')}/{queue_name}"
    assert told == [("output", hook, uri), ("input", hook, uri)]
    with ChasquiHook(report_lineage=False).get_queue(queue_name) as queue:
        assert not isinstance(queue, ReportingQueue)


def test_without_a_reader_of_hook_lineage_no_collector_is_made() -> None:
    assert not is_hook_lineage_read()


DAG_FILE = """
import os
from airflow.sdk import DAG, task
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator
from chasqui_provider.assets import queue_asset

with DAG("lineage", schedule=None) as dag:
    @task
    def by_hand():
        with ChasquiHook().get_queue(os.environ["QUEUE"]) as queue:
            queue.add("n", 1)

    @task(outlets=[queue_asset(os.environ["QUEUE"])])
    def by_outlet():
        pass

    ChasquiEnqueueOperator(task_id="enqueue", queue_name=os.environ["QUEUE"], job_id="mine")
    by_hand()
    by_outlet()

if __name__ == "__main__":
    assert dag.test().state == "success"
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("airflow_tables")
def test_events_that_openlineage_sends(server: str, queue_name: str, tmp_path: Path) -> None:
    pytest.importorskip("airflow.providers.openlineage")
    (tmp_path / "dag.py").write_text(DAG_FILE)
    log = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(log), "append": True}
    env = {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport), "QUEUE": queue_name}
    env |= {"AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path)}
    subprocess.run([sys.executable, str(tmp_path / "dag.py")], env={**os.environ, **env}, check=True, timeout=240)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ended = {event["job"]["name"]: event for event in events if event["eventType"] == "COMPLETE"}
    for name in ("lineage.enqueue", "lineage.by_hand", "lineage.by_outlet"):
        outputs = [(one["namespace"], one["name"]) for one in ended[name]["outputs"]]
        assert outputs == [(server, queue_name)], name
    facet = ended["lineage.enqueue"]["run"]["facets"]["chasqui_jobs"]
    assert (facet["jobIds"], facet["jobCount"]) == (["mine"], 1)
    assert PASSWORD not in log.read_text()
