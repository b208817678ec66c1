"""The blocking connection that tasks use, on every way to a server and on every kind of server. Needs no Spark."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from chasqui_engine._redis.blocking import fence as blocking_fence
from chasqui_engine._redis.blocking import read
from chasqui_engine._redis.blocking import write as blocking_write
from chasqui_engine._redis.blocking.connection import BulkConnection, UnreachableError, parse_page
from chasqui_engine._redis.blocking.fence import Begun
from chasqui_engine._redis.blocking.write import ChunkPipe, Fence, Limits, MixedJob
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import encode_delayed, encode_envelope
from chasqui_engine.values.errors import ConfigError
from tests.servers import REDIS_7, ServerProcess, Unavailable, make_tls_files

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = Limits(max_stream_len=10, trim=False, taken_ttl_s=60, events_max=100)


def fence(chunk: str = "0.0", digest: str = "d", *, by_id: bool = False) -> Fence:
    return Fence(write_id="w", chunk=chunk, by_id=by_id, digest=digest, ttl_s=60)


def write(connection: BulkConnection, keys: QueueKeys, fenced: Fence, *payloads: str) -> int:
    pipe = ChunkPipe(connection)
    flat = [part for payload in payloads for part in ("n", payload.encode())]
    pipe.submit(*blocking_write.chunk_command(keys, fenced, LIMITS, flat))
    return pipe.settle(safe_to_resend=True)


def test_chunks_are_written_once_on_every_server(redis_url: str, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with BulkConnection(redis_url, keys.stream) as connection:
        assert write(connection, keys, fence(), "a", "b") == 2
        assert write(connection, keys, fence(), "a", "b") == blocking_write.WRITTEN_BEFORE
        assert write(connection, keys, fence(digest="other"), "a", "c") == blocking_write.WRITTEN_OTHERWISE
        assert write(connection, keys, fence("0.1"), *"cdefghijk") == blocking_write.FULL
        assert write(connection, keys, fence("0.1"), *"cdefghij") == 8
        read.ask_for_entries(connection, keys.stream, "-", "+", 100)
        entries = parse_page(connection.receive_page())
        assert [fields[1] for _, fields in entries] == [c.encode() for c in "abcdefghij"]
        facts = read.stream_facts(connection, keys.stream)
        assert facts.length == 10
        assert facts.added in (10, None)


def test_mixed_chunks_on_every_server(redis_url: str, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    envelope = encode_envelope("j", b"\xc0", 1)
    now = MixedJob("n", envelope, b"", None, None, "now", True)
    later = MixedJob("n", envelope, encode_delayed("n", envelope), None, 60_000, "later", True)
    past = MixedJob("", envelope, encode_delayed("", envelope), 1, None, "past", False)
    with BulkConnection(redis_url, keys.stream) as connection:
        pipe = ChunkPipe(connection)
        for expected in (3, 1):
            pipe.submit(*blocking_write.mixed_chunk_command(keys, fence(""), LIMITS, [now, later, past]))
            assert pipe.settle(safe_to_resend=True) == expected
        assert connection.call("ZCARD", keys.delayed) == 1
        assert connection.call("XLEN", keys.stream) == 3
        assert connection.call("GET", keys.delayed_index("later")) == later.member


def test_an_id_is_written_once_per_write_on_every_server(redis_url: str, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    jobs = [MixedJob("n", encode_envelope(i, b"\xc0", 1), b"", None, None, i, True) for i in ("a", "b")]
    with BulkConnection(redis_url, keys.stream) as connection:
        pipe = ChunkPipe(connection)
        for expected in (2, 0):
            pipe.submit(*blocking_write.mixed_chunk_command(keys, fence("", by_id=True), LIMITS, jobs))
            assert pipe.settle(safe_to_resend=True) == expected
            connection.call("DEL", keys.taken("a"), keys.taken("b"))
        assert 0 < connection.call("TTL", blocking_fence.ids_key(keys, "w")) <= 60
        blocking_fence.drop(connection, keys, "w")
        assert connection.call("EXISTS", blocking_fence.ids_key(keys, "w")) == 0


def test_how_a_write_was_begun_is_kept_on_every_server(redis_url: str, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with BulkConnection(redis_url, keys.stream) as connection:
        blocking_fence.end_write(connection, keys, "w", 3)
        assert connection.call("EXISTS", blocking_fence.fence_key(keys, "w")) == 0, "nothing was begun"
        assert blocking_fence.begin(connection, keys, "w", "first", 100, 60) == Begun("first", 100, None)
        assert write(connection, keys, fence("2.7"), "a") == 1
        assert blocking_fence.begin(connection, keys, "w", "second", 50, 60) == Begun("first", 100, None)
        blocking_fence.end_write(connection, keys, "w", 3)
        assert blocking_fence.how_begun(connection, keys, "w") == Begun("first", 100, 3)
        assert blocking_fence.list_written_chunks(connection, keys, "w") == {(2, 7)}
        assert blocking_fence.digest_of(connection, keys, "w", "2.7") == "d"
        assert blocking_fence.digest_of(connection, keys, "w", "2.8") is None


def test_a_chunk_that_was_put_aside_is_written_later_on_every_server(redis_url: str, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with BulkConnection(redis_url, keys.stream) as connection:
        pipe = ChunkPipe(connection)
        command = blocking_write.chunk_command(keys, fence("0.1"), LIMITS, ["n", b"e"])
        blocking_fence.put_aside(connection, keys, "w", "run", "0.1", pipe.for_later(*command))
        ((name, kept),) = blocking_fence.waiting(connection, keys, "w", "run", {"0.0": 1, "0.1": 1})
        assert name == "0.1"
        assert connection.call("XLEN", keys.stream) == 0
        for expected in (1, blocking_write.WRITTEN_BEFORE):
            pipe.submit_later(kept)
            assert pipe.settle(safe_to_resend=True) == expected
        blocking_fence.drop_waiting(connection, keys, "w", "run")
        assert list(blocking_fence.waiting(connection, keys, "w", "run", {"0.1": 1})) == []


def test_by_unix_socket_and_password(queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with ServerProcess(unix_socket=True) as server, BulkConnection(server.url, keys.stream) as connection:
        assert connection.call("ECHO", "x") == b"x"
    with ServerProcess(extra_args=("--requirepass", "s3cret")) as server:
        with BulkConnection(server.url.replace("//", "//:s3cret@"), keys.stream) as connection:
            assert connection.call("ECHO", "x") == b"x"
        with BulkConnection(server.url.replace("//", "//:wrong@"), keys.stream) as connection:
            with pytest.raises(UnreachableError) as told:
                connection.call("PING")
            assert "wrong" not in str(told.value).replace("WRONGPASS", "")


def test_by_tls(tmp_path: Path, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    try:
        server = ServerProcess(REDIS_7, tls=make_tls_files(tmp_path))
    except Unavailable as reason:
        pytest.skip(str(reason))
    with server, BulkConnection(server.url, keys.stream) as connection:
        assert write(connection, keys, fence(), "a") == 1


def test_an_embedded_server_of_a_folder(tmp_path: Path, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with BulkConnection(f"embedded://{tmp_path}/data", keys.stream) as connection:
        assert write(connection, keys, fence(), "a") == 1
    with pytest.raises(ConfigError, match="without a folder"):
        BulkConnection("embedded://", keys.stream)


def test_a_fenced_chunk_survives_a_restart_of_the_server(queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with (
        ServerProcess(extra_args=("--appendonly", "yes")) as server,
        BulkConnection(server.url, keys.stream) as connection,
    ):
        assert write(connection, keys, fence(), "a") == 1
        server.stop()
        starting = threading.Timer(0.5, server.start)
        starting.start()
        try:
            assert write(connection, keys, fence(), "a") == blocking_write.WRITTEN_BEFORE
            assert write(connection, keys, fence("0.1"), "b") == 1
        finally:
            starting.join()


def test_a_rate_is_shared(redis_url: str, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    with BulkConnection(redis_url, keys.stream) as one, BulkConnection(redis_url, keys.stream) as two:
        assert blocking_write.book(one, keys, "w", 100, 1000) == 0
        waits = [blocking_write.book(two, keys, "w", 100, 1000), blocking_write.book(one, keys, "w", 100, 1000)]
        assert 0 < waits[0] <= 0.1
        assert waits[0] < waits[1] <= 0.2
        time.sleep(0.35)
        assert blocking_write.book(one, keys, "w", 100, 1000) == 0


@pytest.mark.parametrize("url", ["http://h", "redis://h/0?nonsense=1&password=hunter2", "redis+sentinel://h:1"])
def test_urls_that_lead_nowhere_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as told, BulkConnection(url, "k") as connection:
        connection.call("PING")
    assert "hunter2" not in str(told.value)
