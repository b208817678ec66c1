"""What names and ids may look like. They become parts of keys, so they must not reach beyond their queue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chasqui_engine import ConfigError
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.validation import check_job_id, check_job_name, check_queue_name


@pytest.mark.parametrize("name", ["default", "a", "emails:high", "発送", "with space", "x" * 200, "é" * 100])
def test_queue_names(name: str) -> None:
    assert check_queue_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "{a}", "a}b", "a{", "a\nb", "a\0b", "a\x7fb", "\u200b", "x" * 201, "é" * 101, "\ud800", None, 5, b"a"],
    ids=repr,
)
def test_what_is_no_queue_name(name: Any) -> None:
    with pytest.raises(ConfigError, match="queue_name"):
        check_queue_name(name)


def test_the_field_is_named() -> None:
    with pytest.raises(ConfigError, match=r"ConsumerConfig\.group"):
        check_queue_name("", "ConsumerConfig.group")


@settings(deadline=None)
@given(st.text(max_size=30))
def test_every_key_of_a_queue_is_in_one_slot(name: str) -> None:
    """The hash tag is what stands in the first pair of braces, and only that decides the slot of a cluster."""
    try:
        keys = QueueKeys(name)
    except ConfigError:
        return
    for key in (keys.stream, keys.events, keys.spec("}{"), keys.result("}{"), keys.taken("{x}"), keys.failure("}")):
        tag = key[key.index("{") + 1 : key.index("}")]
        assert tag == f"chasqui:{name}"


@pytest.mark.parametrize("name", ["", "mail", "x" * 256, "é" * 128, "発" * 85, "{any}\nthing\0"])
def test_job_names(name: str) -> None:
    assert check_job_name(name) == name


@pytest.mark.parametrize("name", ["x" * 257, "é" * 129, "発" * 86, "\ud800", "short\udfff", None, 5, b"mail"], ids=repr)
def test_what_is_no_job_name(name: Any) -> None:
    with pytest.raises(ConfigError, match="name"):
        check_job_name(name)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_a_job_name_is_measured_in_bytes(name: str) -> None:
    try:
        fits = len(name.encode()) <= 256
    except UnicodeEncodeError:
        fits = False
    if fits:
        assert check_job_name(name) == name
    else:
        with pytest.raises(ConfigError):
            check_job_name(name)


@pytest.mark.parametrize("job_id", ["1", "a b", "order:{42}", "é", "x" * 1024])
def test_job_ids(job_id: str) -> None:
    assert check_job_id(job_id) == job_id


@pytest.mark.parametrize("job_id", ["", " ", "\n\t", "x" * 1025, "é" * 513, "\ud800", None, 5], ids=repr)
def test_what_is_no_job_id(job_id: Any) -> None:
    with pytest.raises(ConfigError, match="job_id"):
        check_job_id(job_id)


def test_a_text_of_a_kind_of_its_own_is_text() -> None:
    class Name(str):
        __slots__ = ()

    assert check_job_name(Name("mail")) == "mail"
    with pytest.raises(ConfigError):
        check_job_name(Name("x" * 257))
