"""The tree of errors, and the codes by which programs know them."""

from __future__ import annotations

import pickle

import pytest

import chasqui_engine
from chasqui_engine import (
    BatchError,
    ChasquiError,
    ConfigError,
    DecodeError,
    EncodeError,
    HandlerError,
    JobAbortedError,
    JobExpiredError,
    JobFailedError,
    JobTimeoutError,
    NotSupportedError,
    QueueBusyError,
    QueueFullError,
    RedisError,
    RefusedError,
    ResultUnavailableError,
    RetryLater,
    ShutdownError,
    UnrecoverableError,
)

CODES: dict[type[ChasquiError], str] = {
    RedisError: "CMQ-001",
    RefusedError: "CMQ-314",
    EncodeError: "CMQ-002",
    DecodeError: "CMQ-003",
    ConfigError: "CMQ-004",
    ShutdownError: "CMQ-005",
    QueueFullError: "CMQ-310",
    JobFailedError: "CMQ-311",
    JobAbortedError: "CMQ-302",
    JobExpiredError: "CMQ-303",
    ResultUnavailableError: "CMQ-312",
    NotSupportedError: "CMQ-200",
    JobTimeoutError: "CMQ-313",
    HandlerError: "CMQ-010",
    UnrecoverableError: "CMQ-011",
    QueueBusyError: "CMQ-300",
    RetryLater: "CMQ-301",
    BatchError: "CMQ-304",
}


def test_every_error_is_here_and_below_the_root() -> None:
    exported = [getattr(chasqui_engine, name) for name in chasqui_engine.__all__]
    errors = {value for value in exported if isinstance(value, type) and issubclass(value, BaseException)}
    assert errors == {ChasquiError, *CODES}
    assert all(issubclass(error, ChasquiError) for error in errors)


def test_codes_do_not_change() -> None:
    assert {error: error.code for error in CODES} == CODES


def test_no_two_share_a_code() -> None:
    assert len(set(CODES.values())) == len(CODES)


# Of ChasquiMQ's page of codes: 1xx are its Node package's, 2xx its Python package's.
MEANINGS_OF_CHASQUIMQ = {
    "CMQ-001": RedisError,
    "CMQ-002": EncodeError,
    "CMQ-003": DecodeError,
    "CMQ-004": ConfigError,
    "CMQ-005": ShutdownError,
    "CMQ-010": HandlerError,
    "CMQ-011": UnrecoverableError,
    "CMQ-200": NotSupportedError,
}


def test_a_code_below_300_means_what_it_means_in_chasquimq() -> None:
    assert {code: error for error, code in CODES.items() if code < "CMQ-300"} == MEANINGS_OF_CHASQUIMQ


@pytest.mark.parametrize("error", [RedisError, EncodeError, DecodeError, ConfigError, ShutdownError, QueueFullError])
def test_the_code_stands_before_the_text(error: type[ChasquiError]) -> None:
    assert str(error("what went wrong")) == f"[{error.code}] what went wrong"


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ConfigError, ValueError),
        (ConfigError, RuntimeError),
        (DecodeError, ValueError),
        (EncodeError, TypeError),
        (NotSupportedError, RuntimeError),
        (RedisError, RuntimeError),
        (JobTimeoutError, TimeoutError),
        (UnrecoverableError, RuntimeError),
    ],
)
def test_what_chasquimq_programs_catch_still_catches(error: type[ChasquiError], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)


def test_a_failed_job_says_what_became_of_it() -> None:
    error = JobFailedError("id", "retries_exhausted", "ValueError: x", 3)
    assert (error.job_id, error.reason, error.detail, error.attempt) == ("id", "retries_exhausted", "ValueError: x", 3)
    assert str(error) == "[CMQ-311] job id died after 3 run(s) (retries_exhausted): ValueError: x"
    assert str(JobFailedError("id", "malformed", None, 0)).endswith("(malformed)")


def test_errors_travel_between_processes() -> None:
    failed = pickle.loads(pickle.dumps(JobFailedError("id", "malformed", None, 0, "Traceback …")))
    assert failed.traceback == "Traceback …"
    assert (failed.job_id, failed.reason, failed.detail, failed.attempt) == ("id", "malformed", None, 0)
    for error in (ConfigError("x"), HandlerError(ValueError("x")), UnrecoverableError("x")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_a_handlers_error_carries_its_cause() -> None:
    cause = ValueError("no such address")
    error = HandlerError(cause)
    assert error.err is error.__cause__ is cause
    assert str(error) == "no such address"
    assert str(HandlerError("text")) == "text"
    assert HandlerError("text").__cause__ is None


def test_an_unrecoverable_error_is_a_handlers_error() -> None:
    error = HandlerError.unrecoverable(KeyError("gone"))
    assert type(error) is UnrecoverableError
    assert isinstance(error, HandlerError)
    assert isinstance(error.__cause__, KeyError)
    assert error.is_unrecoverable
    assert not HandlerError("x").is_unrecoverable
