"""Runs one example with `dag.test()`, in an Airflow home of its own: python -m … <file> <conf as JSON>.

A process of its own because the task of a DAG ends the Spark session that it was given, and Airflow reads its settings
when it is imported. Prints, on a line of its own, the run's state and what the tasks returned.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any


def main(file: str, conf: str) -> None:
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = module.dag.test(run_conf=json.loads(conf))
    print("\n" + json.dumps({"state": str(run.state), "tasks": _states(run), "returned": _returned(run)}))


def _states(run: Any) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def _returned(run: Any) -> dict[str, Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id, XComModel.key == "return_value"))
        return {row.task_id: XComModel.deserialize_value(row) for row in rows}


if __name__ == "__main__":
    main(*sys.argv[1:])
