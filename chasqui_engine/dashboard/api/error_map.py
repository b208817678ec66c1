"""Errors as status and message for a browser."""

from __future__ import annotations

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from chasqui_engine import ChasquiError, ConfigError, RedisError


def describe_error(err: Exception) -> tuple[int, dict[str, str]]:
    """Status, code and message of an error."""
    if isinstance(err, HTTPException):
        return err.status_code, {"code": f"HTTP-{err.status_code}", "message": str(err.detail)}
    if isinstance(err, RequestValidationError):
        first = err.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or "request"
        return 400, {"code": ConfigError.code, "message": f"{field}: {first['msg']}"}
    if isinstance(err, ChasquiError):
        status = 400 if isinstance(err, ConfigError) else 503 if isinstance(err, RedisError) else 500
        return status, {"code": err.code, "message": str(err.args[0]) if err.args else type(err).__name__}
    return 500, {"code": "CMQ-000", "message": "The dashboard failed: its log has the details."}
