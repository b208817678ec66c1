"""A task whose body runs on a Chasqui worker: Airflow waits without a slot and gets the return value.

The worker, in a program of its own:

    from chasqui_engine import Worker
    from chasqui_provider.task_functions import TaskFunctions

    functions = TaskFunctions()
    functions.register(word_count)
    asyncio.run(Worker("tasks", functions.handler, store_results=True).run())
"""

from __future__ import annotations

from airflow.sdk import DAG, task

with DAG("task_on_worker", schedule=None, tags=["chasqui"]) as dag:

    @task
    def text() -> str:
        return "one two three"

    @task.chasqui(queue_name="tasks")  # type: ignore[attr-defined, untyped-decorator]
    def word_count(words: str) -> int:
        return len(words.split())

    @task
    def show(count: int) -> str:
        return f"{count} words"

    show(word_count(text()))
