"""Between MessagePack and JSON, and from rendered templates to arguments."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_engine import BackoffSpec, ConfigError
from chasqui_provider.conversion import (
    as_backoff,
    as_duration,
    as_ids,
    as_int,
    as_items,
    as_text,
    as_time,
    from_json,
    to_json,
)
from chasqui_provider.operators.job_ids import task_job_id
from tests.provider.conftest import Ti

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
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
    assert from_json({"at": moment, "pair": (1, b"x")}) == {"at": moment, "pair": [1, b"x"]}


def test_a_nul_which_postgres_refuses_is_replaced() -> None:
    assert to_json({"k\0": ["a\0b", float("nan")]}) == {"k\ufffd": ["a\ufffdb", None]}


def test_what_only_looks_like_bytes_stays() -> None:
    assert from_json({"$bytes": "not base64!"}) == {"$bytes": "not base64!"}


@pytest.mark.parametrize(
    ("given_ids", "ids"),
    [
        ("a", ["a"]),
        (" a ", ["a"]),
        (["a ", "b"], ["a ", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ('["a"]', ["a"]),
        (("a",), ["a"]),
        (42, ["42"]),
        ("[1, 2]", ["1", "2"]),
        ([], []),
        ("[]", []),
    ],
)
def test_ids(given_ids: Any, ids: list[str]) -> None:
    assert as_ids(given_ids) == ids


@pytest.mark.parametrize("wrong", ["", "None", None, "[1", ["a", ""], [True], [["a"]], {"a": 1}, b"a"])
def test_no_ids(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="job_ids"):
        as_ids(wrong)


@pytest.mark.parametrize("text", ["[1, {'a': None}]", '[1, {"a": null}]', " (1, {'a': None}) "])
def test_items_from_text(text: str) -> None:
    assert list(as_items(text)) == [1, {"a": None}]


def test_items_are_not_read_before_they_are_asked_for() -> None:
    endless = itertools.count()
    assert as_items(endless) is endless


@pytest.mark.parametrize("wrong", ["abc", "", "None", "[1", "7", b"abc", {"a": 1}, None, 7, 1.5])
def test_no_items(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="payloads"):
        as_items(wrong)


def test_ids_and_names_that_a_native_template_made() -> None:
    assert [as_text("job_id", value) for value in (7, "7", " x", 1.5)] == ["7", "7", " x", "1.5"]
    assert [as_text("job_id", value) for value in (None, "", "None")] == [None] * 3
    for wrong in (True, [], {}, b"x"):
        with pytest.raises(ConfigError, match="job_name must be text"):
            as_text("job_name", wrong)


def test_arguments_from_templates() -> None:
    assert as_time("run_at", "2027-01-02T03:04:05") == datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert as_int("attempts", "3") == as_int("attempts", 3.0) == 3
    assert as_backoff("250") == as_backoff(250) == BackoffSpec.fixed(250)
    assert as_backoff("{'kind': 'fixed', 'delay_ms': 5}") == BackoffSpec.fixed(5)
    for nothing in (None, "", " ", "None"):
        assert as_duration("delay", nothing) is None
        assert as_time("run_at", nothing) is None
        assert as_int("attempts", nothing) is None
        assert as_backoff(nothing) is None


@given(st.timedeltas())
def test_a_span_survives_a_template(span: timedelta) -> None:
    assert as_duration("delay", span) == span
    assert abs((as_duration("delay", str(span)) or timedelta(0)) - span) <= timedelta(microseconds=1)


def test_a_span_from_seconds() -> None:
    assert as_duration("delay", "1.5") == as_duration("delay", 1.5) == timedelta(seconds=1.5)
    assert as_duration("delay", "1 day, 2:00:00") == timedelta(hours=26)


@pytest.mark.parametrize(
    "call",
    [
        lambda: as_duration("field", "soon"),
        lambda: as_duration("field", "1:99:00"),
        lambda: as_duration("field", "nan"),
        lambda: as_time("field", "soon"),
        lambda: as_time("field", 5),
        lambda: as_int("field", "x"),
        lambda: as_int("field", 2.7),
        lambda: as_int("field", float("inf")),
        lambda: as_int("field", True),
    ],
)
def test_nonsense_is_refused_by_name(call: Any) -> None:
    with pytest.raises(ConfigError, match="field must be"):
        call()


@pytest.mark.parametrize("wrong", ["soon", "{bad", {"x": 1}, -1, True])
def test_a_backoff_that_is_none(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        as_backoff(wrong)


def test_an_id_is_the_same_for_the_same_task_and_no_other() -> None:
    def of(item: int | None = None, **changes: Any) -> str:
        return task_job_id({"ti": Ti(**changes)}, item)

    assert of() == of(try_number=3, retries=3, max_tries=3)
    ids = [
        of(),
        of(map_index=0),
        of(run_id="r2"),
        of(task_id="t2"),
        of(dag_id="d2"),
        of(0),
        of(1),
        of(max_tries=1),
        of(1, max_tries=1),
        of(run_id="r" * 600),
        of(run_id="r" * 600, max_tries=1),
    ]
    assert len(set(ids)) == len(ids)
    assert all(len(job_id) <= 600 for job_id in ids)
