"""Every way to a server, through a real Spark: rows in, jobs out, in Spark's own processes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.servers import REDIS_7, ServerProcess, make_tls_files
from tests.spark.integration.conftest import CONN_ID, Queues
from tests.spark.integration.write.test_batch_write import rows
from tests.support.connections.clusters import Cluster
from tests.support.connections.sentinels import Watched

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql import SparkSession


def there_and_back(spark: SparkSession, url: str, queue: str) -> None:
    way = Queues(spark, url, queue)
    way.write(rows(way, 20))
    assert sorted(row.payload_json for row in way.read("jobs").collect()) == sorted(
        f'{{"id":{n},"to":"x"}}' for n in range(20)
    )


@pytest.mark.slow
def test_cluster(spark: SparkSession, queue_name: str) -> None:
    with Cluster(REDIS_7) as cluster:
        there_and_back(spark, cluster.url, queue_name)


@pytest.mark.slow
def test_sentinel(spark: SparkSession, queue_name: str) -> None:
    with Watched(REDIS_7) as watched:
        there_and_back(spark, watched.url, queue_name)


@pytest.mark.slow
def test_tls_and_a_unix_socket(spark: SparkSession, queue_name: str, tmp_path: Path) -> None:
    with ServerProcess(REDIS_7, tls=make_tls_files(tmp_path)) as server:
        there_and_back(spark, server.url, queue_name)
    with ServerProcess(unix_socket=True) as server:
        there_and_back(spark, server.url, queue_name)


@pytest.mark.slow
def test_an_embedded_server_of_a_folder(spark: SparkSession, queue_name: str, tmp_path: Path) -> None:
    there_and_back(spark, f"embedded://{tmp_path}/data", queue_name)


def test_a_connection_of_airflows(spark: SparkSession, client: redis.Redis, queue_name: str) -> None:
    frame = spark.createDataFrame([("n", "1")], "name string, payload string")
    frame.write.format("chasqui").options(connId=CONN_ID, queue=queue_name).mode("append").save()
    assert client.xlen(f"{{chasqui:{queue_name}}}:stream") == 1
    read = spark.read.format("chasqui").options(connId=CONN_ID, queue=queue_name, entity="jobs").load()
    assert [row.payload_json for row in read.collect()] == ["1"]
    with pytest.raises(Exception, match="url or connId, not both"):
        spark.read.format("chasqui").options(connId=CONN_ID, url="redis://h", queue=queue_name).load().collect()


@pytest.mark.slow
def test_sql_reads_a_queue_by_a_view_and_says_that_a_table_cannot(q: Queues, client: redis.Redis) -> None:
    client.xadd(q.key("events"), {"e": "active", "id": "j1", "ts": 1})
    view = f"view_{uuid.uuid4().hex}"
    q.spark.sql(f"CREATE TEMPORARY VIEW {view} USING chasqui OPTIONS (connId '{CONN_ID}', queue '{q.queue}')")
    assert [row.job_id for row in q.spark.sql(f"SELECT job_id FROM {view}").collect()] == ["j1"]
    table = f"table_{uuid.uuid4().hex}"
    options = f"USING chasqui OPTIONS (connId '{CONN_ID}', queue '{q.queue}')"
    with pytest.raises(Exception, match="A queue cannot be a table"):
        q.spark.sql(f"CREATE TABLE {table} {options}")
    q.spark.sql(f"CREATE TABLE {table} (name string, payload string) {options}")
    for statement in (f"SELECT * FROM {table}", f"INSERT INTO {table} VALUES ('n', '1')"):
        with pytest.raises(Exception, match="A queue cannot be a table"):
            q.spark.sql(statement).collect()
    q.spark.sql(f"DROP TABLE {table}")
