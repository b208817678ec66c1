"""The pipeline as an application of its own, handed to `spark-submit`: on the master that connection `spark` names.

`AIRFLOW_CONN_SPARK='{"conn_type": "spark", "host": "local[2]"}'` runs it on this machine. Without such a connection
Airflow takes it for granted that there is a YARN.
"""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param
from airflow.sdk.log import mask_secret

from chasqui_engine.spark.java import use_java
from chasqui_provider.hooks.chasqui import ChasquiHook

BIN = str(Path(sys.executable).parent)
use_java()  # spark-submit inherits where it is


def queue_url() -> str:
    """Where the queues are. It may hold a password, so that it goes by the environment and shows nowhere."""
    url = ChasquiHook().settings().url
    mask_secret(url)
    return url


with DAG(
    "chasqui_spark_submit",
    schedule=None,
    max_active_runs=1,  # a folder is one run's at a time
    params={
        "queue": "emails",
        "out": "/var/lib/chasqui/pipeline",
        "window_s": 300,
        "skip_lost": Param(False, type="boolean", description="once, after events were trimmed before they were read"),
    },
    user_defined_macros={"queue_url": queue_url},
    tags=["chasqui", "spark"],
) as dag:
    SparkSubmitOperator(
        task_id="pipeline",
        conn_id="spark",
        name="chasqui-pipeline",
        application=str(files("chasqui_engine") / "pipeline" / "__main__.py"),
        application_args=[
            "--queue={{ params.queue }}",
            "--out={{ params.out }}",
            "--window={{ params.window_s }}",
            "{{ '--skip-lost' if params.skip_lost else '--no-skip-lost' }}",
        ],
        env_vars={
            "CHASQUI_REDIS_URL": "{{ queue_url() }}",
            # Both spark-submit and the Python that it starts are this environment's.
            "PATH": f"{BIN}:{os.environ.get('PATH', '')}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
