"""Put a job on a queue, give the slot back, and go on with the result."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator

with DAG("enqueue_and_wait", schedule=None, tags=["chasqui"]) as dag:
    invoice = ChasquiEnqueueOperator(
        task_id="invoice",
        queue_name="invoices",
        job_name="render",
        payload={"customer": 42, "day": "{{ ds | default('today') }}"},
        attempts=3,
        wait_for_result=True,
        deferrable=True,
        result_timeout=timedelta(minutes=10),
    )

    @task
    def archive(rendered: dict[str, object]) -> str:
        return f"stored {rendered['pages']} pages"

    archive(invoice.output)
