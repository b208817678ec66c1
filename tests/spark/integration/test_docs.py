"""The Python in docs/spark.md runs as it stands, on a queue on which something happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chasqui_engine import Job, Queue, UnrecoverableError, Worker
from chasqui_engine.values.config import DEFAULT_URL
from tests.servers import ServerProcess
from tests.support.page_blocks import blocks_of
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs/spark.md"
DEAD, ROWS = 2, 3


async def _bounce(job: Job) -> None:
    raise UnrecoverableError("no such address")


async def _let_some_die(url: str) -> None:
    async with Queue("emails", redis_url=url) as queue:
        await queue.add_bulk([{"name": "send", "data": {"to": n}} for n in range(DEAD)])

        async def dead() -> bool:
            return (await queue.counts()).dead == DEAD

        async with working(Worker("emails", _bounce, redis_url=url)):
            await until(dead)


async def test_the_code_of_docs_spark_md(spark: SparkSession) -> None:
    with ServerProcess() as server:
        await _let_some_die(server.url)
        rows = spark.createDataFrame([(n, "welcome") for n in range(ROWS)], "user int, template string")
        names = {"spark": spark, "rows": rows, "url": server.url}
        for block in blocks_of(PAGE):
            if block.language == "python":
                code = block.code.replace(DEFAULT_URL, server.url)
                exec(compile(code, str(block), "exec"), names)
        async with Queue("emails", redis_url=server.url) as queue:
            assert (await queue.counts()).waiting >= ROWS
