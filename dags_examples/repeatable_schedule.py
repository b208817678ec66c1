"""One schedule for a queue and a DAG: at nine in New York, and if that was missed, once for all that was missed."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, task

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_provider.operators.chasqui import ChasquiUpsertRepeatableOperator
from chasqui_provider.timetables.repeatable import schedule_from_spec

at_nine = RepeatableSpec(
    "report",
    RepeatPattern.cron("0 9 * * 1-5", tz="America/New_York"),
    {"kind": "daily"},
    missed_fires=MissedFiresPolicy.fire_once(),
)

with DAG(
    "repeatable_schedule",
    schedule=schedule_from_spec(at_nine),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["chasqui"],
) as dag:
    # The same spec in Redis: there, workers get a job at every fire.
    ChasquiUpsertRepeatableOperator(
        task_id="in_the_queue_as_well",
        queue_name="reports",
        job_name=at_nine.job_name,
        payload=at_nine.payload,
        cron=at_nine.pattern.expression,
        tz=at_nine.pattern.tz,
        missed_fires=at_nine.missed_fires.to_dict(),
    )

    @task
    def fired_at(**context: object) -> str:
        return str(context["logical_date"])

    fired_at()
