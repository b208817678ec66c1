"""The examples that run Spark from Airflow, with `dag.test()`, against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from chasqui_engine.codec.envelope import decode_job
from tests.spark.integration.clusters import standalone
from tests.spark.integration.read.test_batch_read import fill_events

if TYPE_CHECKING:
    import redis

ROOT = Path(__file__).parents[3]
PASSWORD = "hunter2hunter2"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow of the tests' own, its tables made."""
    pytest.importorskip("airflow.providers.apache.spark")
    home = tmp_path_factory.mktemp("airflow")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags_examples"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
    }
    environment = {**os.environ, **settings}
    command = [str(Path(sys.executable).parent / "airflow"), "db", "migrate"]
    subprocess.run(command, check=True, capture_output=True, timeout=600, env=environment)
    return environment


def run(example: str, environment: dict[str, str], conf: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """What became of the run, and all that it said."""
    command = [sys.executable, "-m", "tests.spark.integration.dag_run", str(ROOT / "dags_examples" / example)]
    command.append(json.dumps(conf))
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900, env=environment, cwd=ROOT)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    # Airflow may have a last word.
    (told,) = [line for line in done.stdout.splitlines() if line.startswith('{"state"')]
    result: dict[str, Any] = json.loads(told)
    assert result["state"].endswith("success"), said[-4000:]
    return result, said


def test_nightly_report_tells_of_a_breach_once(
    airflow: dict[str, str], client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", 50)
    slo = tmp_path / "slo.yaml"
    slo.write_text(json.dumps({"slos": [{"queue": queue_name, "throughput_per_s": 1000}]}))
    connection = json.dumps({"conn_type": "chasqui", "extra": {"url": valkey_url}})
    environment = {**airflow, "AIRFLOW_CONN_CHASQUI_DEFAULT": connection}
    alerts = f"{queue_name}-alerts"
    conf = {
        "queues": [queue_name],
        "out": str(tmp_path / "out"),
        "slo_file": str(slo),
        "window_s": 3600,
        "alerts": alerts,
    }
    result, _ = run("chasqui_spark_report.py", environment, conf)
    assert result["returned"]["report"]["breaches"] == {queue_name: 1}
    page = urlsplit(result["returned"]["report"]["page"])
    assert page.scheme == "file"
    assert Path(page.path).read_text().count("<svg") == 6
    ((_, fields),) = client.xrange(f"{{chasqui:{alerts}}}:stream")
    assert fields[b"n"] == b"slo-breached"
    assert decode_job(fields[b"d"]).payload == result["returned"]["report"]

    # The next night there is news of other jobs, but of the breach it is no news. Some events were lost, and that is
    # known; days of bronze are deleted.
    fill_events(client, f"{{chasqui:{queue_name}}}:events", 20, start=100)
    client.xtrim(f"{{chasqui:{queue_name}}}:events", maxlen=10, approximate=False)
    result, _ = run("chasqui_spark_report.py", environment, {**conf, "skip_lost": True, "keep_days": 1})
    assert result["returned"]["report"]["breaches"] == {}
    assert result["tasks"]["tell"].endswith("skipped")
    assert client.xlen(f"{{chasqui:{alerts}}}:stream") == 1
    summary = json.loads((tmp_path / "out" / "report" / "summary.json").read_text())
    assert summary["queues"][queue_name]["totals"]["completed"] == 60
    assert not list((tmp_path / "out" / "bronze" / "events" / queue_name).glob("day=*"))


@pytest.mark.parametrize("on", ["local", "cluster"])
def test_spark_submit_makes_the_report_and_shows_no_password(
    airflow: dict[str, str], client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path, on: str
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", 50)
    client.acl_setuser("submitter", enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"])
    try:
        url = valkey_url.replace("redis://", f"redis://submitter:{PASSWORD}@")
        environment = {
            **airflow,
            "AIRFLOW_CONN_CHASQUI_DEFAULT": json.dumps({"conn_type": "chasqui", "extra": {"url": url}}),
        }
        conf = {"queue": queue_name, "out": str(tmp_path / "out"), "window_s": 3600}
        with ExitStack() as started:
            master = "local[2]"
            if on == "cluster":
                hosts = ("127.0.0.1", "127.0.0.2")
                master = started.enter_context(standalone(tmp_path, cores=1, memory="1200m", hosts=hosts))
            environment["AIRFLOW_CONN_SPARK"] = json.dumps({"conn_type": "spark", "host": master})
            _, said = run("chasqui_spark_submit.py", environment, conf)
    finally:
        client.acl_deluser("submitter")
    summary = json.loads((tmp_path / "out" / "report" / "summary.json").read_text())
    assert summary["queues"][queue_name]["totals"]["completed"] == 50
    assert PASSWORD not in said
