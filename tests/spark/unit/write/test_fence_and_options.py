"""Names of writes, digests of chunks, and what options may say."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from chasqui_engine import connections
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import read_options, write_options
from chasqui_engine.spark.read.rows import json_of
from chasqui_engine.spark.schemas import COLUMNS, arrow_schema, ddl
from chasqui_engine.spark.write.fence import check_write_id, chunk_name, digest, stream_write_id
from chasqui_engine.spark.write.schema import check_payload, check_schema
from chasqui_engine.values.errors import ConfigError


def test_digests_tell_rows_apart() -> None:
    base = digest(["a", "b"], [b"1", b"2"])
    assert base == digest(["a", "b"], [b"1", b"2"])
    others = [
        digest(["a", "b"], [b"2", b"1"]),
        digest(["b", "a"], [b"1", b"2"]),
        digest(["a", "b"], [b"12", b""]),
        digest(["ab", ""], [b"1", b"2"]),
        digest(["a", "b"], [b"1", b"2"], (None, [5, 6])),
    ]
    assert len({base, *others}) == 6


def test_names_of_writes_and_chunks() -> None:
    assert stream_write_id("q-1", 7) == "q-1:7"
    assert chunk_name(3, 12) == "3.12"
    assert check_write_id("nightly-2026-11-16") == "nightly-2026-11-16"
    for bad in ("", "a{b}", "x" * 300):
        with pytest.raises(ConfigError, match="writeId"):
            check_write_id(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"queue": "a{b"},
        {"queue": "q", "entity": "nothing"},
        {"queue": "q", "pageSize": "0"},
        {"queue": "q", "pageSize": "many"},
        {"queue": "q", "minPartitions": "-1"},
        {"queue": "q", "failOnDataLoss": "maybe"},
        {"queue": "q", "maxRowsPerTrigger": "0"},
        {"queue": "q", "stratingOffsets": "latest"},
        {"queue": "q", "startingOffsets": "5-x"},
        {"queue": "q", "startingTimestamp": "1960-01-01"},
        {"queue": "q", "startingTimestamp": "5", "startingOffsets": "latest"},
        {"queue": "q", "startingTimestamp": "5", "entity": "results"},
        {"queue": "q", "columns": "job_id,,name"},
        {"queue": "q", "columns": "name,name"},
    ],
)
def test_read_options_that_make_no_sense_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        read_options(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"queue": "q", "fence": "maybe"},
        {"queue": "q", "whenFull": "explode"},
        {"queue": "q", "maxRowsPerSecond": "0"},
        {"queue": "q", "maxRowsPerSecond": "fast"},
        {"queue": "q", "chunkSize": "1000000"},
        {"queue": "q", "payloadFormat": "xml"},
    ],
)
def test_write_options_that_make_no_sense_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        write_options(bad)


def test_options_are_read_whatever_their_case() -> None:
    options = read_options({"QUEUE": "q", "pagesize": "7", "MinPartitions": "3", "failOnDataLoss": "FALSE"})
    assert (options.queue, options.page_size, options.min_partitions, options.fail_on_data_loss) == ("q", 7, 3, False)
    assert read_options({"queue": "q"}).page_size == 2000


def test_the_url_never_shows() -> None:
    assert "secret" not in repr(QueueLocation(url="redis://u:secret@h/0", queue="q"))


def test_a_connection_is_looked_up_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MY_QUEUE", "redis://u:p%40@h:7/2")
    assert connection_url({"connId": "my_queue"}) == "redis://u:p%40@h:7/2"
    with pytest.raises(ConfigError, match="not both"):
        connection_url({"connId": "my_queue", "url": "redis://h"})
    monkeypatch.setattr(connections, "entry_points", lambda group: [])
    with pytest.raises(ConfigError, match=r"'my_queue': no installed package .* chasqui\.connections"):
        connection_url({"connId": "my_queue"})


def test_without_a_connection_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHASQUI_REDIS_URL", "redis://from-env:1/0")
    assert connection_url({}) == "redis://from-env:1/0"


def test_schemas_name_every_column_once() -> None:
    for entity, columns in COLUMNS.items():
        assert arrow_schema(entity).names == list(columns)
        assert ddl(entity).count("`") == 2 * len(columns)
    with pytest.raises(ConfigError, match="no column 'nope'"):
        arrow_schema("events", ["nope"])


OPTIONS = write_options({"queue": "q"})
JOB = {"name": "string", "payload": "struct<a:int>"}


def test_a_schema_of_jobs_is_accepted() -> None:
    check_schema({**JOB, "id": "string", "delay_ms": "bigint", "run_at": "timestamp", "attempts": "int"}, OPTIONS)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"payload": "string"}, "needs the column 'name'"),
        ({"name": "string"}, "needs the column 'payload'"),
        ({**JOB, "extra": "int"}, "unknown column 'extra'"),
        ({**JOB, "payload": "array<int>"}, "'payload' must be struct or map or binary or string"),
        ({**JOB, "delay_ms": "string"}, "'delay_ms' must be"),
        ({**JOB, "run_at": "string"}, "'run_at' must be timestamp"),
    ],
)
def test_other_schemas_are_refused_with_a_sentence(columns: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_schema(columns, OPTIONS)


def struct(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def test_types_at_any_depth_that_jobs_can_hold() -> None:
    plain = ("void", "string", "varchar(5)", "binary", "boolean", "long", "double", "decimal(10,2)", "date", "time(6)")
    check_payload(struct(**{f"f{n}": kind for n, kind in enumerate((*plain, "timestamp", "timestamp_ntz"))}))
    check_payload(
        {"type": "map", "keyType": "integer", "valueType": {"type": "array", "elementType": struct(a="long")}}
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (struct(a=struct(y="interval year to month")), "payload.a.y is interval year to month"),
        (struct(i="interval day to second"), "payload.i is interval day to second"),
        (struct(v="variant"), "payload.v is variant"),
        ({"type": "map", "keyType": struct(k="long"), "valueType": "string"}, "payload is a map with keys of struct"),
        (struct(l={"type": "array", "elementType": "interval"}), r"payload.l\[\] is interval"),
        (struct(u={"type": "udt"}), "payload.u is udt"),
    ],
)
def test_types_that_jobs_cannot_hold_are_named_with_their_column(kind: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_payload(kind)


def test_each_way_takes_its_own_options() -> None:
    follow = {"queue": "q", "startingOffsets": "latest"}
    assert read_options(follow, "readStream").starting_offsets == "latest"
    with pytest.raises(ConfigError, match=r"startingOffsets is an option of spark\.readStream and has no effect here"):
        read_options(follow, "read")
    with pytest.raises(ConfigError, match=r"pageSize is an option of spark\.read and spark\.readStream"):
        write_options({"queue": "q", "pagesize": "3"}, "write")
    with pytest.raises(ConfigError, match=r"writeId is an option of df\.write"):
        write_options({"queue": "q", "writeId": "w"}, "writeStream")
    with pytest.raises(ConfigError, match="a queue has no path, got 'emails'"):
        write_options({"queue": "q", "path": "emails"}, "write")


def test_a_chunk_fits_into_the_stream() -> None:
    def size(**options: str) -> int:
        return write_options({"queue": "q", **options}).chunk_size

    assert size() == 1000
    assert size(maxStreamLen="300") == 300
    assert size(maxStreamLen="300", whenFull="trim") == 1000
    with pytest.raises(ConfigError, match="chunkSize=400 never fits into maxStreamLen=300"):
        size(maxStreamLen="300", chunkSize="400")


def test_a_payload_format_must_fit_the_column() -> None:
    with pytest.raises(ConfigError, match="payloadFormat=text is for a payload of string"):
        check_schema(JOB, write_options({"queue": "q", "payloadFormat": "text"}))


def test_json_text_of_anything_messagepack_holds() -> None:
    packed = msgpack.packb({"a": b"\x00\xff", 3: float("nan"), "l": [1, (2,)]})
    assert json_of(packed) == '{"a":{"$bytes":"AP8="},"3":null,"l":[1,[2]]}'
    assert json_of(b"\xc1") is None
