"""Chasqui: a job queue on Redis Streams and MessagePack, sharing its queues with ChasquiMQ.

The public names are listed once, in `__init__.pyi`. Each is imported from its module when it is first asked for, so a
command or a worker loads only what it uses.
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import get_data
from typing import Any

# Not with `open`: Spark ships the package to its executors as a zip.
_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_MODULE_OF = {name: module for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", _STUB, re.M)}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - type checkers read the stub


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # cached: the next access does not call this
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
