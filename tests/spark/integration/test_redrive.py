"""Dead letters that become jobs again: once, repaired, and marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec import encode_envelope, encode_payload
from chasqui_engine.spark.pipeline.redrive import Redriven, redrive, still_dead
from tests.spark.integration.test_batch_write import payloads

if TYPE_CHECKING:
    import redis

    from tests.spark.integration.conftest import Queues


def mend(payload: Any) -> Any:
    return {**payload, "mended": True}


@pytest.mark.slow
def test_dead_letters_are_redriven_once(q: Queues, client: redis.Redis) -> None:
    for n in range(6):
        envelope = encode_envelope(f"j{n}", encode_payload({"n": n}), 1, 3)
        reason = "retries_exhausted" if n % 2 else "unrecoverable"
        client.xadd(q.key("dlq"), {"d": envelope, "n": "send", "source_id": "1-0", "reason": reason})
    client.xadd(q.key("dlq"), {"d": b"broken", "source_id": "1-0", "reason": "retries_exhausted"})
    options = {"url": q.url}
    chosen = "reason = 'retries_exhausted' and get_json_object(payload_json, '$.n') > 1"
    assert redrive(q.spark, q.queue, where=chosen, repair=mend, options=options) == Redriven(2, 2)
    assert sorted(payloads(client, q), key=json.dumps) == [{"n": 3, "mended": True}, {"n": 5, "mended": True}]
    assert redrive(q.spark, q.queue, where=chosen, repair=mend, options=options) == Redriven(2, 0)
    # Even if the marks are lost, the jobs' ids keep them from coming twice.
    client.delete(q.key("redriven"))
    redrive(q.spark, q.queue, where=chosen, repair=mend, options=options)
    assert client.xlen(q.key("stream")) == 2
    left = {row.job_id for row in still_dead(q.spark, q.queue, options).collect()}
    assert left == {"j0", "j1", "j2", "j4", None}
    assert client.xlen(q.key("dlq")) == 7
    first = q.read("jobs").orderBy("entry_id").first()
    assert first.job_id.startswith("j3~")
    assert first.attempt == 0
