"""Dead letters that are redriven: once, repaired, and marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec.envelope import encode_envelope, encode_payload
from chasqui_engine.pipeline.redrive import Redriven, plan_redrive, redrive, still_dead
from chasqui_engine.spark.schemas import COLUMNS
from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import JobRetryOverride
from tests.spark.integration.write.test_batch_write import payloads

if TYPE_CHECKING:
    import redis

    from tests.spark.integration.conftest import Queues


def bury(client: redis.Redis, q: Queues, job_id: str, payload: Any = None, retry: Any = None, **fields: Any) -> None:
    envelope = encode_envelope(job_id, encode_payload(payload), 1, 3, retry)
    client.xadd(q.key("dlq"), {"d": envelope, "n": "send", "source_id": "1-0", "reason": "unrecoverable", **fields})


def mend(payload: Any) -> Any:
    return {**payload, "mended": True}


@pytest.mark.slow
def test_dead_letters_are_redriven_once(q: Queues, client: redis.Redis) -> None:
    for n in range(6):
        bury(client, q, f"j{n}", {"n": n}, reason="retries_exhausted" if n % 2 else "unrecoverable")
    client.xadd(q.key("dlq"), {"d": b"broken", "source_id": "1-0", "reason": "retries_exhausted"})
    options = {"url": q.url}
    chosen = "reason = 'retries_exhausted' and get_json_object(payload_json, '$.n') > 1"
    assert redrive(q.spark, q.queue, where=chosen, repair=mend, options=options) == Redriven(2, 2)
    assert sorted(payloads(client, q), key=json.dumps) == [{"n": 3, "mended": True}, {"n": 5, "mended": True}]
    assert redrive(q.spark, q.queue, where=chosen, repair=mend, options=options) == Redriven(2, 0)
    # Even if the marks are lost, the jobs' ids keep them from coming twice.
    client.delete(q.key("redrives"))
    assert redrive(q.spark, q.queue, where=chosen, repair=mend, options=options) == Redriven(2, 0)
    assert client.xlen(q.key("stream")) == 2
    left = {row.job_id for row in still_dead(q.spark, q.queue, options).collect()}
    assert left == {"j0", "j1", "j2", "j4", None}
    assert client.xlen(q.key("dlq")) == 7
    first = q.read("jobs").orderBy("entry_id").first()
    assert first.job_id.startswith("j3~")
    assert first.attempt == 0


def test_a_job_keeps_its_own_retries_and_an_id_that_fits(q: Queues, client: redis.Redis) -> None:
    backoff = BackoffSpec(kind="exponential", delay_ms=123, max_delay_ms=4000, multiplier=3.0, jitter_ms=7)
    bury(client, q, "own", 1, JobRetryOverride(7, backoff))
    bury(client, q, "L" * 1015, 2, JobRetryOverride(None, backoff))
    bury(client, q, "á" * 500, 3)
    before = {row.payload_json: row for row in q.read("dead").collect()}
    options = {"url": q.url, "pageSize": "2", "maxStreamLen": "1000"}
    assert redrive(q.spark, q.queue, where="true", options=options) == Redriven(3, 3)
    after = {row.payload_json: row for row in q.read("jobs").collect()}
    retry = [name for name in COLUMNS["jobs"] if name.startswith("backoff_") or name == "max_attempts"]
    for payload, dead in before.items():
        assert {name: after[payload][name] for name in retry} == {name: dead[name] for name in retry}
    assert after["1"].job_id == f"own~{before['1'].entry_id}"
    assert len(after["2"].job_id) < 100
    assert after["2"].job_id.endswith(f"~{before['2'].entry_id}")
    assert redrive(q.spark, q.queue, where="true", options={"url": q.url}) == Redriven(3, 0)


def test_a_plan_shows_the_jobs_before_it_adds_them_and_the_dead_letter_says_who_did(
    q: Queues, client: redis.Redis
) -> None:
    for n in range(12):
        bury(client, q, f"j{n}", {"n": n})
    options = {"url": q.url}
    assert redrive(q.spark, q.queue, where="job_id = 'j11'", options=options) == Redriven(1, 1)
    with plan_redrive(q.spark, q.queue, where="true", repair=mend, options=options, target=f"{q.queue}-2") as plan:
        assert (plan.selected, plan.fresh) == (12, 11)
        shown = plan.preview(3)
        assert [json.loads(row.payload_json) for row in shown] == [{"n": n, "mended": True} for n in range(3)]
        assert client.xlen(q.key("stream")) == 1
        assert client.xlen(f"{{chasqui:{q.queue}-2}}:stream") == 0
        assert plan.run(by="ada, after ticket 7") == Redriven(12, 11)
    assert client.xlen(f"{{chasqui:{q.queue}-2}}:stream") == 11
    dead = {row.job_id: row for row in q.read("dead", pageSize=5).collect()}
    assert {row.redriven_by for job_id, row in dead.items() if job_id != "j11"} == {"ada, after ticket 7"}
    assert dead["j0"].redriven_job_id == shown[0].id
    assert dead["j0"].redriven_queue == f"{q.queue}-2"
    assert dead["j0"].redriven_at >= dead["j11"].redriven_at >= dead["j11"].died_at
    assert q.spark.sparkContext.applicationId in dead["j11"].redriven_by
    bury(client, q, "later")
    client.hset(q.key("redrives"), dead["j0"].entry_id, "not a mark")
    again = {row.job_id: row.redriven_by for row in q.read("dead").collect()}
    assert (again["j0"], again["later"]) == (None, None), "no mark, and none that can be read"


def test_what_cannot_be_redriven_is_told_in_a_sentence(q: Queues, client: redis.Redis) -> None:
    options = {"url": q.url}
    bury(client, q, "j")
    for where, why in (
        ("nope = 1", "there is no column 'nope'"),
        ("name = ", "must be a SQL condition on"),
        ("name", "must be a SQL condition on"),
        ("reflect('java.lang.System', 'lineSeparator') is not null", "where must be a condition"),
        ("name in (select value from text.`/etc/passwd`)", "where must be a condition"),
    ):
        with pytest.raises(ConfigError, match=why) as told:
            redrive(q.spark, q.queue, where=where, options=options)
        assert "\n" not in str(told.value)
    with pytest.raises(ConfigError, match="must have a column entry_id, it has id"):
        redrive(q.spark, q.queue, where=q.spark.range(1), options=options)
    with pytest.raises(ConfigError, match="options must not have 'queue'"):
        redrive(q.spark, q.queue, where="true", options={**options, "queue": "x"})
    with pytest.raises(ConfigError, match="'pagesSize', which is an option of neither"):
        redrive(q.spark, q.queue, where="true", options={**options, "pagesSize": "x"})
    assert not client.exists(q.key("stream"))


@pytest.mark.slow
def test_thousands_of_dead_letters_besides_one_that_was_redriven(q: Queues, client: redis.Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for n in range(20_001):
        envelope = encode_envelope(f"j{n}", encode_payload(n), 1, 3)
        pipe.xadd(q.key("dlq"), {"d": envelope, "n": "send", "source_id": "1-0", "reason": "unrecoverable"})
    pipe.execute()
    options = {"url": q.url}
    assert redrive(q.spark, q.queue, where="job_id = 'j0'", options=options) == Redriven(1, 1)
    assert redrive(q.spark, q.queue, where="true", options=options) == Redriven(20_001, 20_000)
    assert client.xlen(q.key("stream")) == 20_001
