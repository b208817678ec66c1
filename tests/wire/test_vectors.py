"""The bytes recorded from ChasquiMQ 1.3.0: ours are the same, and we read all of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from chasqui_engine import (
    BackoffSpec,
    Job,
    JobRetryOverride,
    MissedFiresPolicy,
    ProducerConfig,
    RepeatableSpec,
    RepeatPattern,
)
from chasqui_engine.codec.envelope import (
    JobEncoder,
    decode_delayed,
    decode_id,
    decode_job,
    decode_payload,
    encode_delayed,
    encode_job,
    encode_payload,
    with_attempt,
)
from chasqui_engine.codec.repeatable import decode_spec, encode_spec

RECORDED = (Path(__file__).parent / "vectors.json").read_bytes()
VECTORS: dict[str, Any] = json.loads(RECORDED)


def by_name(vector: dict[str, Any]) -> str:
    return str(vector.get("id") or vector["key"])


every_job = pytest.mark.parametrize("vector", VECTORS["jobs"], ids=by_name)
every_delayed = pytest.mark.parametrize("vector", VECTORS["delayed"], ids=by_name)
every_repeatable = pytest.mark.parametrize("vector", VECTORS["repeatable"], ids=by_name)


def test_the_vectors_are_as_chasquimq_wrote_them() -> None:
    """What was recorded is not edited: it is replaced by another recording, and its digest with it."""
    assert (len(VECTORS["jobs"]), len(VECTORS["delayed"]), len(VECTORS["repeatable"])) == (28, 3, 7)
    digest = "86d41f24e54c834eb8ce61d460dae3291e763b621e11cae4ca4bed0ee1436b2b"
    assert hashlib.sha256(RECORDED).hexdigest() == digest


def job_of(vector: dict[str, Any]) -> Job:
    return Job(
        id=vector["id"],
        payload=decode_payload(bytes.fromhex(vector["payload_msgpack"])),
        created_at_ms=vector["created_at_ms"],
        attempt=vector.get("attempt", 0),
        retry=retry_of(vector.get("retry")),
        name=vector["name"],
    )


def retry_of(fields: dict[str, Any] | None) -> JobRetryOverride | None:
    if fields is None:
        return None
    backoff = fields.get("backoff")
    return JobRetryOverride(fields.get("attempts"), backoff and BackoffSpec.from_dict(backoff))


@every_job
def test_a_payload_is_the_same_bytes(vector: dict[str, Any]) -> None:
    payload = bytes.fromhex(vector["payload_msgpack"])
    assert encode_payload(decode_payload(payload)) == payload


@every_job
def test_a_job_encodes_to_the_same_bytes(vector: dict[str, Any]) -> None:
    envelope, job = bytes.fromhex(vector["d"]), job_of(vector)
    assert encode_job(job) == envelope
    assert JobEncoder().encode(job.id, job.payload, job.created_at_ms, job.retry) == envelope


@every_job
def test_a_job_decodes(vector: dict[str, Any]) -> None:
    envelope = bytes.fromhex(vector["d"])
    assert decode_job(envelope, vector["name"]) == job_of(vector)
    assert decode_id(envelope) == vector["id"]


@every_job
def test_a_job_that_ran_once_and_is_revived_is_the_same_again(vector: dict[str, Any]) -> None:
    envelope = bytes.fromhex(vector["d"])
    ran_once = with_attempt(envelope, 1)
    assert decode_job(ran_once, vector["name"]).attempt == 1
    assert with_attempt(ran_once, 0) == envelope


@every_delayed
def test_a_delayed_member_is_the_same_bytes(vector: dict[str, Any]) -> None:
    member, job = bytes.fromhex(vector["member"]), job_of(vector)
    assert encode_delayed(job.name, encode_job(job)) == member == bytes.fromhex(vector["didx"])
    name, envelope = decode_delayed(member)
    assert decode_job(envelope, name) == job


@every_delayed
def test_an_id_stays_taken_for_the_same_time(vector: dict[str, Any]) -> None:
    until_run_s = (vector["run_at_ms"] - vector["created_at_ms"]) // 1000
    assert until_run_s + ProducerConfig().dedup_ttl_secs == vector["ttl_s"]


def spec_of(vector: dict[str, Any]) -> RepeatableSpec:
    missed_fires = vector.get("missed_fires")
    return RepeatableSpec(
        vector["job_name"],
        RepeatPattern(**vector["pattern"]),
        decode_payload(bytes.fromhex(vector["payload_msgpack"])),
        limit=vector.get("limit"),
        start_after_ms=vector.get("start_after_ms"),
        end_before_ms=vector.get("end_before_ms"),
        missed_fires=MissedFiresPolicy(**missed_fires) if missed_fires else MissedFiresPolicy.skip(),
    )


@every_repeatable
def test_a_spec_is_the_same_bytes(vector: dict[str, Any]) -> None:
    data, spec = bytes.fromhex(vector["hash"]["spec"]), spec_of(vector)
    assert spec.resolved_key() == vector["key"]
    assert encode_spec(spec) == data
    assert decode_spec(data) == spec.with_key(vector["key"])
