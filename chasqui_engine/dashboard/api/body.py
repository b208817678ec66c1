"""The JSON body of a request, of which no more is read than it may be long."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ValidationError

from chasqui_engine import ConfigError

MOST_BYTES = 256 * 1024
_Model = TypeVar("_Model", bound=BaseModel)


async def read_body(request: Request, kind: type[_Model], *, most_bytes: int = MOST_BYTES) -> _Model:
    """The body as such a value; raises an error that names what is wrong."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "The body must be JSON.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise HTTPException(413, f"The body is longer than {most_bytes} bytes.")
    return validate(kind, parse_json(body, "body"))


def parse_json(text: bytes | str, field: str) -> Any:
    """A text as JSON; raises `ConfigError` for any other."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise ConfigError(f"{field}: not JSON ({err})") from err


def validate(kind: type[_Model], given: Any) -> _Model:
    """The value; raises `ConfigError` with the first field that is wrong."""
    try:
        return kind.model_validate(given)
    except ValidationError as err:
        first = err.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from err
