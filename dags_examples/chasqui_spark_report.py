"""Every night: builds metrics and a report from the events of the queues; new SLO breaches become a job."""

from __future__ import annotations

import os
import sys
from typing import Any

from airflow.sdk import DAG, Param, task

from chasqui_engine.spark.java import use_java
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator

# Spark is started before the task's function runs, and must find this environment's Python, and a Java.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
use_java()
ON_THIS_MACHINE = {
    "spark.master": "local[*]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

with DAG(
    "chasqui_spark_report",
    schedule="30 2 * * *",
    catchup=False,
    max_active_runs=1,  # a folder is one run's at a time
    params={
        "queues": ["emails"],
        "out": "/var/lib/chasqui/pipeline",
        "slo_file": Param(None, type=["null", "string"]),
        "window_s": 300,
        "keep_days": Param(None, type=["null", "integer"], description="days of bronze to keep; empty: all"),
        "skip_lost": Param(False, type="boolean", description="once, after events were trimmed before they were read"),
        "alerts": "alerts",
    },
    tags=["chasqui", "spark"],
) as dag:

    @task.pyspark(config_kwargs=ON_THIS_MACHINE)
    def report(params: dict[str, Any], spark: Any) -> dict[str, Any]:
        from chasqui_engine.pipeline.config import PipelineConfig
        from chasqui_engine.pipeline.run import Pipeline

        config = PipelineConfig(
            queues=tuple(params["queues"]),
            out=params["out"],
            url=ChasquiHook().settings().url,
            slo_file=params["slo_file"],
            window_s=params["window_s"],
            keep_days=params["keep_days"],
            fail_on_data_loss=not params["skip_lost"],
        )
        pipeline = Pipeline(spark, config, print)
        summary = pipeline.run()
        pipeline.tidy()
        queues = summary["queues"] if summary else {}
        return {
            "page": pipeline.page_link(),
            # Only breaches that no earlier report had: each one is reported once.
            "breaches": {name: queue["new_breaches"] for name, queue in queues.items() if queue["new_breaches"]},
        }

    @task.short_circuit
    def broken(found: dict[str, Any]) -> bool:
        return bool(found["breaches"])

    found = report()
    tell = ChasquiEnqueueOperator(
        task_id="tell", queue_name="{{ params.alerts }}", job_name="slo-breached", payload=found
    )
    broken(found) >> tell
