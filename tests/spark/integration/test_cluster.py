"""Source, sink, streams and pipeline where there are executors: in processes of their own, on a cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.integration.clusters import ROOT, SPARK_HOME, Program, python_without_the_repo, standalone
from tests.spark.integration.read.test_batch_read import fill_events
from tests.spark.integration.test_own_processes import driver, payloads

if TYPE_CHECKING:
    import redis

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
SMALL = {"spark.executor.memory": "512m"}
EVENTS = 1000
APP = """
from chasqui_engine.spark.session import start_session

events = start_session().read.format("chasqui").options(url="{url}", queue="{queue}").load()
print("events:", events.count())
"""

pytestmark = pytest.mark.timeout(1500)


def answer_of(name: str, log: Path, **settings: Any) -> dict[str, Any]:
    with driver(name, log, **settings) as program:
        program.succeed()
        (line,) = [line for line in program.said().splitlines() if line.startswith("{")]
        answer: dict[str, Any] = json.loads(line)
        return answer


def test_executors_read(client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", EVENTS)
    about = {"master": LOCAL_CLUSTER, "url": valkey_url, "queue": queue_name, "settings": {}}
    assert answer_of("read_once", tmp_path / "log", **about) == {"events": EVENTS}


@pytest.mark.slow
def test_everything_works_on_a_standalone_cluster(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", EVENTS)
    with standalone(tmp_path, cores=1, hosts=("127.0.0.1", "127.0.0.2")) as master:
        about = {"master": master, "url": valkey_url, "queue": queue_name, "out": str(tmp_path), "settings": SMALL}
        answer = answer_of("everything", tmp_path / "driver.log", **about)
    assert answer["events"] == EVENTS
    assert answer["partitions"] == 4
    assert sorted(row["id"] for row in payloads(client, f"{queue_name}-sink")) == list(range(400))
    assert len(payloads(client, f"{queue_name}-stream")) == EVENTS


@pytest.mark.slow
def test_executors_find_the_server_themselves_where_no_secret_is_to_travel(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", EVENTS)
    about: dict[str, Any] = {"queue": queue_name, "credentials": "executor"}
    about["environment"] = {"CHASQUI_REDIS_URL": valkey_url}
    with standalone(tmp_path, cores=1, hosts=("127.0.0.1",)) as master:
        bare = driver("read_once", tmp_path / "without.log", master=master, settings=SMALL, **about)
        with bare as without:
            assert without.process.wait(600) != 0
            assert "every executor must know CHASQUI_REDIS_URL by its own environment" in without.said(100_000)
        given = {**SMALL, "spark.executorEnv.CHASQUI_REDIS_URL": valkey_url}
        assert answer_of("read_once", tmp_path / "with.log", master=master, settings=given, **about) == {
            "events": EVENTS
        }


@pytest.mark.slow
def test_executors_without_the_package_say_so_and_a_zip_brings_it(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", EVENTS)
    bare = {**SMALL, "spark.executorEnv.CHASQUI_TEST_BARE": "1"}
    about: dict[str, Any] = {"url": valkey_url, "queue": queue_name}
    about["environment"] = {"PYSPARK_PYTHON": python_without_the_repo(tmp_path)}
    with standalone(tmp_path, cores=1, hosts=("127.0.0.1",)) as master:
        with driver("read_once", tmp_path / "without.log", master=master, settings=bare, **about) as without:
            assert without.process.wait(600) != 0
            said = without.said(100_000)
        assert "Spark's executors cannot import chasqui_engine" in said
        assert "docs/spark.md" in said
        (tmp_path / "zipped").mkdir()
        for package in ("chasqui_engine", "pyspark_chasqui"):
            shutil.copytree(ROOT / package, tmp_path / "zipped" / package)
        zipped = shutil.make_archive(str(tmp_path / "chasqui"), "zip", tmp_path / "zipped")
        app = tmp_path / "app.py"
        app.write_text(APP.format(url=valkey_url, queue=queue_name))
        settings = [word for name, value in bare.items() for word in ("--conf", f"{name}={value}")]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--py-files", zipped, *settings]
        environment = {**about["environment"], "SPARK_LOCAL_IP": "127.0.0.1"}
        with Program([*command, str(app)], tmp_path / "with.log", **environment) as submitted:
            submitted.succeed()
            assert f"events: {EVENTS}" in submitted.said(100_000)


@pytest.mark.slow
def test_spark_connect_reads_writes_and_follows(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    pytest.importorskip("zstandard", reason="Spark Connect is NOT TESTED: its client needs zstandard")
    fill_events(client, f"{{chasqui:{queue_name}}}:events", EVENTS)
    answer = answer_of("connect", tmp_path / "log", url=valkey_url, queue=queue_name, out=str(tmp_path))
    assert answer["session"].startswith("pyspark.sql.connect")
    assert (answer["events"], answer["dead"]) == (EVENTS, 0)
    assert len(payloads(client, f"{queue_name}-sink")) == 100
    assert len(payloads(client, f"{queue_name}-stream")) == EVENTS
    assert "Spark Connect does not give" in answer["refused"], "the pipeline says what to do"


@pytest.mark.slow
def test_an_archive_brings_the_environment(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    """The commands of docs/spark.md, on executors whose Python knows nothing."""
    fill_events(client, f"{{chasqui:{queue_name}}}:events", EVENTS)
    uv, environment, archive = (
        str(Path(sys.executable).parent / "uv"),
        tmp_path / "environment",
        tmp_path / "chasqui.tar.gz",
    )
    install = [uv, "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(environment)],
        # Without pyspark, which executors have from Spark.
        [*install, "--no-deps", str(ROOT)],
        [*install, "pyarrow", "numpy", "redis>=5,<8", "hiredis", "msgpack", "jinja2", "venv-pack", "setuptools<81"],
        [str(environment / "bin" / "venv-pack"), "--quiet", "--prefix", str(environment), "--output", str(archive)],
    ):
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        if done.returncode and command[0] == uv and "error sending request" in done.stderr:
            pytest.skip("the archive is NOT TESTED: there is no package index")
        assert done.returncode == 0, done.stderr[-2000:]
    app = tmp_path / "app.py"
    app.write_text(APP.format(url=valkey_url, queue=queue_name))
    with standalone(tmp_path, cores=1, hosts=("127.0.0.1",)) as master:
        settings = {**SMALL, "spark.pyspark.python": "./environment/bin/python", "spark.driver.host": "127.0.0.1"}
        settings["spark.pyspark.driver.python"] = sys.executable
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        # The driver plans with the same path as the executors: it is started beside the environment.
        command = ["env", "-C", str(tmp_path), str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
        command += ["--archives", f"{archive}#environment", *words, str(app)]
        here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": "./environment/bin/python", "PYTHONPATH": ""}
        with Program(command, tmp_path / "submitted.log", **here) as submitted:
            submitted.succeed()
            assert f"events: {EVENTS}" in submitted.said(100_000)
