"""Between MessagePack and JSON, and from rendered templates to arguments."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_engine import ConfigError
from chasqui_provider.ids import task_job_id
from chasqui_provider.values import as_backoff, as_delay, as_ids, as_int, as_time, from_json, to_json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(plain)
def test_whatever_a_job_holds_survives_json(value: Any) -> None:
    assert from_json(json.loads(json.dumps(to_json(value)))) == value


@given(st.dictionaries(st.integers() | st.binary() | st.none(), st.floats() | st.sets(st.integers())))
def test_anything_becomes_json(value: Any) -> None:
    json.dumps(to_json(value), allow_nan=False)


def test_times_and_strangers_become_text() -> None:
    moment = datetime(2027, 1, 2, tzinfo=UTC)
    assert to_json([moment, 1j]) == ["2027-01-02T00:00:00+00:00", "1j"]
    assert from_json({"at": moment, "pair": (1, b"x")}) == {"at": "2027-01-02T00:00:00+00:00", "pair": [1, b"x"]}


def test_what_only_looks_like_bytes_stays() -> None:
    assert from_json({"$bytes": "not base64!"}) == {"$bytes": "not base64!"}


@pytest.mark.parametrize(
    ("given_ids", "ids"),
    [("a", ["a"]), (["a", "b"], ["a", "b"]), ("['a', 'b']", ["a", "b"]), ('["a"]', ["a"]), (("a",), ["a"])],
)
def test_ids(given_ids: Any, ids: list[str]) -> None:
    assert as_ids(given_ids) == ids


@pytest.mark.parametrize("wrong", ["", [], [1], None, "[1", ["a", ""]])
def test_no_ids(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        as_ids(wrong)


def test_arguments_from_templates() -> None:
    assert as_delay("1.5") == timedelta(seconds=1.5)
    assert as_delay(timedelta(1)) == timedelta(1)
    assert as_delay("") is None
    assert as_time("2027-01-02T03:04:05") == datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert as_int("attempts", "3") == 3
    assert as_backoff("250") == 250
    assert as_backoff("{'kind': 'fixed', 'delay_ms': 5}") == {"kind": "fixed", "delay_ms": 5}


@pytest.mark.parametrize(
    "call",
    [lambda: as_delay("soon"), lambda: as_time("soon"), lambda: as_time(5), lambda: as_int("attempts", "x")],
)
def test_nonsense_is_refused(call: Any) -> None:
    with pytest.raises(ConfigError):
        call()


def test_an_id_is_the_same_for_the_same_task_and_no_other() -> None:
    def of(item: int | None = None, **changes: Any) -> str:
        ti = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, **changes}
        return task_job_id({"ti": SimpleNamespace(**ti)}, item)

    assert of() == of()
    ids = [
        of(),
        of(map_index=0),
        of(run_id="r2"),
        of(task_id="t2"),
        of(dag_id="d2"),
        of(0),
        of(1),
        of(run_id="r" * 600),
    ]
    assert len(set(ids)) == len(ids)
    assert all(len(job_id) <= 600 for job_id in ids)
